"""The frame of make peers: a row that answers, fails or hangs, and rows without an environment."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import time

import pytest

FOLDER = pathlib.Path(__file__).with_name("peers")


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """The frame, with rows in a folder of the test's."""
    sys.path.insert(0, str(FOLDER.parent))
    spec = importlib.util.spec_from_file_location("peers_frame", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = tmp_path / ".ci" / "peers"
    rows.mkdir(parents=True)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    return module, rows


def run(frame, code, limit=60):
    module, rows = frame
    (rows / "one.py").write_text(code)
    return module.run(sys.executable, module.Row("one", (), limit, True))


def test_a_row_that_answers(frame):
    found = run(frame, "import os\nprint('noise')\nprint('{\"measured\": \"m\", \"verdict\": \"equal\", \"note\": \"%s\"}' % os.environ['HF_HUB_OFFLINE'])")
    assert (found["row"], found["measured"], found["verdict"], found["note"]) == ("one", "m", "equal", "1")


def test_a_row_that_fails_tells_its_last_line(frame):
    found = run(frame, "raise ValueError('no such figure')")
    assert (found["verdict"], found["note"]) == ("failed", "ValueError: no such figure")


def test_a_row_that_says_nothing_failed(frame):
    assert run(frame, "")["verdict"] == "failed"


def test_a_row_that_hangs_is_ended_with_its_children(frame, tmp_path):
    begin = time.monotonic()
    code = f"import subprocess, sys, time\nchild = subprocess.Popen(['sleep', '600'])\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    found = run(frame, code, limit=5)
    assert (found["verdict"], found["note"]) == ("failed", "no answer in 5 s")
    assert time.monotonic() - begin < 300
    stat = pathlib.Path("/proc") / (tmp_path / "pid").read_text() / "stat"
    deadline = time.monotonic() + 60
    while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":  # nobody waits for the child of a killed row
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_rows_are_modules_and_fit_into_an_hour(frame):
    module, _ = frame
    for row in module.ROWS:
        assert (FOLDER / f"{row.name}.py").exists()
    assert sum(row.limit for row in module.ROWS) < 3600
    # .ci/test ends all fast rows after 15 minutes. Each must have its whole limit before that.
    assert sum(row.limit for row in module.ROWS if row.fast) <= 850


@pytest.mark.parametrize("arguments,code,text", [(["--fast"], 0, "skipped tasks, verdicts, exports, loss, parity"), (["--only", "nothing"], 2, "no row 'nothing'")])
def test_without_an_environment(tmp_path, arguments, code, text):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, str(FOLDER), *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == code and text in done.stdout + done.stderr


def test_verdicts_decide_the_exit_code(frame, monkeypatch, tmp_path, capsys):
    module, _ = frame
    monkeypatch.setattr(module.environments, "python_of", lambda name: sys.executable)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    for verdict, code in (("equal", 0), ("behind", 0), ("cannot run", 0), ("differs", 1), ("failed", 1)):
        row = {"row": "tasks", "peer": {"reasoning-gym": "1"}, "measured": "m", "verdict": verdict, "note": "", "seconds": 1.0}
        monkeypatch.setattr(module, "run", lambda *_, row=row: row)
        monkeypatch.setattr(sys, "argv", ["peers", "--fast", "--only", "tasks", "--json", str(tmp_path / "rows.json")])
        with pytest.raises(SystemExit) as ended:
            module.main()
        assert ended.value.code == code
        assert json.loads((tmp_path / "rows.json").read_text()) == [row]
    assert "| `tasks` | reasoning-gym 1 | m | failed | 1 |" in capsys.readouterr().out


CASE = '<testcase name="test_{0}">{1}</testcase>'
ASSERTED = '<failure message="AssertionError: unequal">one\ntwo\nE   assert 1 == 2\ntests.py:3: AssertionError</failure>'
RAISED = '<failure message="OSError: the Go tests could not run: no space">E   OSError: no space</failure>'
ERROR = '<error message="failed on setup">E   MemoryError</error>'


@pytest.mark.parametrize(
    "cases,code,verdict,note",
    [
        (["", ""], 0, "equal", ""),
        (["", ASSERTED], 1, "differs", "test_1: two / E   assert 1 == 2 / tests.py:3: AssertionError"),
        (["", RAISED], 1, "failed", "test_1: E   OSError: no space"),
        ([ERROR, ""], 1, "failed", "test_0: E   MemoryError"),
        ([RAISED, ASSERTED], 1, "differs", "test_1: two"),
        (["<skipped/>"], 0, "failed", "pytest ended with 0: last line"),
        (None, -9, "failed", "pytest ended with -9: last line"),
    ],
)
def test_parity_differs_only_if_an_assertion_failed(monkeypatch, tmp_path, cases, code, verdict, note):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    from peers import parity

    report = tmp_path / "report.xml"
    if cases is not None:
        counts = f'tests="{len(cases)}" errors="{cases.count(ERROR)}" skipped="{cases.count("<skipped/>")}"'
        body = "".join(CASE.format(i, case) for i, case in enumerate(cases))
        report.write_text(f"<testsuites><testsuite {counts}>{body}</testsuite></testsuites>")
    found = parity.judge(str(report), code, "last line\n")
    assert found[1] == verdict and found[2].startswith(note) and bool(found[2]) == bool(note)
    assert cases is None or f"{sum(not case for case in cases)} tests passed" in found[0]
