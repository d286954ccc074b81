"""The visible output: pages, plots, and that none of their text is treated as markup."""

import json
import sys
from html.parser import HTMLParser

import pytest

import swarm_bridge
from swarm_bridge import comparison, page, plots, watching

matplotlib = pytest.importorskip("matplotlib")

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>&amp;\"'</table>"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def hostile(value):
    """Returns the document with every text in it replaced by hostile text."""
    if isinstance(value, dict):
        return {key: hostile(v) for key, v in value.items()}
    if isinstance(value, list):
        return [hostile(v) for v in value]
    return HOSTILE if isinstance(value, str) else value


def test_hostile_text_never_becomes_markup(finished):
    status = hostile(dict(swarm_bridge.attach(home=finished).status(), message="m"))
    status["nodes"][0].update(cause=HOSTILE, message=HOSTILE + "\n" + HOSTILE)
    seen = Tags(page.html(status))
    assert set(seen.tags) == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert seen.text.count("<script>alert('x')</script>") >= 4
    told = comparison.Comparison(hostile({"rows": [{"experiment": "e", "verdict": "v", "improvement": 0.5}]}))
    assert "script" not in Tags(told._repr_html_()).tags


def test_a_page_shows_the_programs_numbers(finished):
    status = swarm_bridge.attach(home=finished).status()
    text = page.text(status)
    assert "4loc4ext-1 · done · round 3/3 · reward {:.3f} · 2 nodes".format(status["reward"]) in text
    assert all("{:.2f}".format(n["cumulative_reward"]) in text and n["id"] in text for n in status["nodes"])
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize("seconds, says", [(None, "–"), (0, "0.0 s"), (59.9, "59.9 s"), (112, "1m52s"), (119.7, "2m00s"), (11100, "3h05m")])
def test_durations(seconds, says):
    assert page.duration(seconds) == says


@pytest.mark.parametrize("amount, currency, says", [(4.0993, "$", "$4.10"), (27.4, "EUR", "27.40 EUR"), (0, "", "0.00"), (0.003, "$", "$0.0030"),
                                                    (0.00996, "", "0.01"), (0.00994, "", "0.0099"), (1.2e-6, "$", "$0.0000012"), (1e-9, "$", "<$0.000001")])
def test_a_cost_below_a_cent_is_not_nothing(amount, currency, says):
    assert page.money(amount, currency) == says
    assert page.line({"run": "r", "state": "done", "round": 1, "rounds": 1, "cost": amount, "price_currency": currency}).endswith("cost " + says)


def test_a_run_without_rounds_yet_can_be_shown():
    status = {"run": "r", "state": "running", "round": 0, "rounds": 0, "reward": None, "eta_seconds": None, "nodes": []}
    assert "r · running · round 0/0" in page.text(status) and "<table" in page.html(status)


def test_in_a_notebook_one_output_is_updated_in_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(("update", content, raw))

    def display(content, raw, display_id):
        shown.append(("display", content, raw))
        assert display_id is True
        return Handle()

    ipython = type(sys)("IPython")
    ipython.get_ipython = lambda: type("Shell", (), {"kernel": object()})()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", type(sys)("IPython.display"))
    sys.modules["IPython.display"].display = display
    answers = [{"run": "r", "state": s, "round": i, "rounds": 2, "nodes": []} for i, s in enumerate(["running", "running", "done"])]
    left = list(answers)
    assert watching.watch(lambda: left.pop(0), 0.001, None) == answers[-1]
    assert [s[0] for s in shown] == ["display", "update", "update"] and all(s[2] is True for s in shown)
    assert all(set(s[1]) == {"text/html", "text/plain"} for s in shown) and "r · done" in shown[-1][1]["text/plain"]
    ipython.get_ipython = lambda: type("TerminalInteractiveShell", (), {})()
    assert not watching.in_notebook()


def test_rewards_are_the_programs_curves(finished):
    curve = swarm_bridge.curves("4loc4ext", home=finished, window=1)[0]
    ax = swarm_bridge.plot_rewards(home=finished, window=1)
    (line,) = ax.get_lines()
    assert list(line.get_xdata()) == curve["round"] == [0, 1, 2] and list(line.get_ydata()) == curve["mean"]
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (min(band), max(band)) == (min(curve["low"]), max(curve["high"]))
    assert "4loc4ext (4/4), seed 42" in ax.get_legend().get_texts()[0].get_text()
    rows = swarm_bridge.rows("rounds", home=finished)
    assert [n["values"][0] for n in curve["nodes"]] == [r["reward"] for r in rows if r["round"] == 0]
    nodes = swarm_bridge.attach(home=finished).plot_rewards(nodes=True)
    assert len(nodes.get_lines()) == 3 and "100 rounds" in nodes.get_title()
    with pytest.raises(swarm_bridge.SwarmError) as unknown:
        swarm_bridge.plot_rewards(home=finished, metric="happiness")
    assert unknown.value.code == 2 and "happiness" in str(unknown.value)


def test_a_gap_in_a_curve_is_a_gap(finished, monkeypatch):
    document = {"curves": [{"run": "r", "experiment": "_$x$", "config": "4/4", "seed": 1, "window": 1, "round": [0, 1, 2], "mean": [1, None, 3],
                            "low": [1, None, 2], "high": [1, None, 4], "nodes": []}]}
    monkeypatch.setattr(plots.program, "document", lambda *_: json.loads(json.dumps(document)))
    ax = swarm_bridge.plot_rewards(home=finished)
    ax.figure.canvas.draw()  # a name that is not mathematics
    assert [v == v for v in ax.get_lines()[0].get_ydata()] == [True, False, True]
    assert ax.get_legend().get_texts()[0].get_text() == " _\\$x\\$ (4/4), seed 1"


def test_memory_is_what_the_database_has(finished):
    ax = swarm_bridge.plot_memory(home=finished)
    lines = {line.get_label(): line for line in ax.get_lines()}
    samples = swarm_bridge.rows("memory", home=finished)
    shares = all(r["pss_bytes"] for r in samples)  # not every kernel reports them
    assert set(lines) == {"node_0", "node_1"} and ("host memory (PSS)" if shares else "host memory (RSS)") in ax.get_title()
    expected = [r["pss_bytes" if shares else "rss_bytes"] / 1e9 for r in samples if r["node"] == "node_0"]
    assert list(lines["node_0"].get_ydata()) == expected


def test_memory_on_a_gpu_is_drawn_against_the_card(monkeypatch):
    tables = {
        "runs": [{"run": "r", "started": 100.0}],
        "memory": [{"node": n, "time": t, "rss_bytes": 1, "device_bytes": 5e9} for n in ("node_10", "node_9") for t in (100, 110)],
        "devices": [{"uuid": "u", "gpu": 0, "name": "T4", "time": t, "memory_used_bytes": 12e9, "memory_total_bytes": 15e9} for t in (100, 110)],
    }
    monkeypatch.setattr(plots.database, "rows", lambda table, *_: tables[table])
    lines = {line.get_label(): list(line.get_ydata()) for line in swarm_bridge.plot_memory("r").get_lines()}
    assert list(lines) == ["node_9", "node_10", "GPU 0 T4, in use", "GPU 0 T4, all there is"]
    assert lines["node_9"] == [5, 5] and lines["GPU 0 T4, all there is"] == [15, 15] and lines["GPU 0 T4, in use"] == [12, 12]


def test_without_matplotlib_there_is_a_remedy(finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(swarm_bridge.SwarmError, match="plots need matplotlib. Try: pip install matplotlib"):
        swarm_bridge.plot_memory(home=finished)


def test_an_empty_home_is_told_by_plots(tmp_path):
    for plot in (swarm_bridge.plot_rewards, swarm_bridge.plot_memory):
        with pytest.raises(swarm_bridge.NothingHere):
            plot(home=tmp_path)
