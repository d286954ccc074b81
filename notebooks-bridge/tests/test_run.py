"""Runs in a notebook, with the real program."""

import shutil
import sys
import time

import pytest

import swarm_bridge
from swarm_bridge import program as calling

NANO = {"nodes": 2, "model": "nano", "device": "cpu", "eval_questions": 4, "eval_generations": 1}  # keep evaluations small


@pytest.fixture
def running(tmp_path):
    """A run that would take long."""
    run = swarm_bridge.up(home=tmp_path / "home", rounds=5000, **NANO)
    yield run
    run.stop(now=True)


def test_a_finished_run_is_what_its_status_says(finished):
    run = swarm_bridge.attach("4loc4ext", home=finished)
    status = run.status()
    assert (run.name, status["state"], status["round"], len(status["nodes"])) == ("4loc4ext-1", "done", 3, 2)
    assert [r.name for r in swarm_bridge.runs(home=finished)] == ["4loc4ext-1"]
    assert swarm_bridge.attach(home=finished).name == "4loc4ext-1"
    assert sum(row["reward"] for row in run.rows("rounds")) == pytest.approx(status["cumulative_reward"], rel=1e-12)


def test_up_of_a_run_that_is_done_returns_it(finished):
    again = swarm_bridge.up(home=finished, rounds=3, **dict(NANO, eval_generations=None))
    assert again.name == "4loc4ext-1" and again.status()["state"] == "done"


def test_up_returns_while_the_run_goes_on_and_stop_ends_it(running, capsys):
    assert running.status()["state"] == "running"
    with pytest.raises(swarm_bridge.SwarmError) as refused:
        swarm_bridge.up(home=running.home, rounds=5000, **NANO)
    assert refused.value.code == 1 and "running already" in str(refused.value) and ". Try: swarm attach" in str(refused.value)
    assert swarm_bridge.up(home=running.home, rounds=5000, attach=True, **NANO).name == running.name
    with pytest.raises(TimeoutError, match="still runs after 0 s"):
        running.wait(timeout=0)
    assert running.watch(interval=0.1, timeout=0)["state"] == "running"
    assert running.name + " · running · round " in capsys.readouterr().out
    ended = running.stop(now=True)
    assert ended["outcome"] == "stopped" and running.wait(timeout=10)["state"] == "stopped"
    assert running.stop()["outcome"] == "not_running"  # a second stop is no error


def test_watch_prints_a_line_a_round_and_returns_at_the_end(tmp_path, capsys):
    run = swarm_bridge.up(home=tmp_path / "home", rounds=2, **NANO)
    assert run.watch(interval=0.2, timeout=600)["state"] == "done"
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("4loc4ext-1 · done · round 2/2 · reward ") and len(lines) == len(set(lines)) >= 2


def test_watching_can_be_given_up(running, capsys, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt
    monkeypatch.setattr(time, "sleep", interrupt)
    assert running.watch()["state"] == "running"
    assert "No longer watching" in capsys.readouterr().out


def test_logs_are_printed(finished, capsys):
    run = swarm_bridge.attach(home=finished)
    run.logs(lines=2)
    assert "coordinator | " in capsys.readouterr().out
    run.logs("node_0", lines="all", follow=True)  # ends by itself for an ended run
    assert all("node_0" in line for line in capsys.readouterr().out.splitlines())
    with pytest.raises(swarm_bridge.SwarmError) as unknown:
        run.logs("node_9")
    assert unknown.value.code == 2


@pytest.mark.parametrize("flags, code, says", [
    ({"config": "5loc5ext"}, 2, "5loc5ext"), ({"nodes": "many"}, 2, "many"), ({"rounds": -1}, 2, "rounds"), ({"colour": "red"}, 2, "--colour"),
    ({"device": "cuda", "gpu_memory": "100MB", "nodes": 8}, 3, "does not fit"),
])
def test_what_the_program_refuses_is_one_exception_with_its_words(tmp_path, flags, code, says):
    with pytest.raises(swarm_bridge.SwarmError) as refused:
        swarm_bridge.up(home=tmp_path / "home", **dict(dict(NANO, rounds=2), **flags))
    assert refused.value.code == code
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_no_database_is_told(tmp_path):
    assert swarm_bridge.runs(home=tmp_path) == []
    with pytest.raises(swarm_bridge.SwarmError, match="nothing has run under .*Try: swarm up"):
        swarm_bridge.attach(home=tmp_path)


def test_unknown_names_are_told(finished):
    for call in (lambda: swarm_bridge.attach("nope", home=finished), lambda: swarm_bridge.runs("nope", home=finished)):
        with pytest.raises(swarm_bridge.SwarmError, match="no run or experiment .nope. is recorded") as unknown:
            call()
        assert unknown.value.code == 2


def test_a_missing_program_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("SWARM_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(swarm_bridge.SwarmError, match="bad SWARM_PROGRAM .*none'") as told:
        swarm_bridge.up()
    assert told.value.code == 2
    monkeypatch.delenv("SWARM_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(calling, "LIBRARY", tmp_path / "a" / "b")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(swarm_bridge.SwarmError, match="no swarm program .*SWARM_PROGRAM=/path/to/swarm"):
        swarm_bridge.up()
    (tmp_path / "bin").mkdir()
    shutil.copy(shutil.which("true", path="/bin:/usr/bin"), tmp_path / "bin" / "swarm")
    assert swarm_bridge.find_program() == str(tmp_path / "bin" / "swarm")
    with pytest.raises(swarm_bridge.SwarmError, match="printed no JSON"):  # another program with that name
        swarm_bridge.up()


def test_a_program_of_another_machine_is_told(monkeypatch, tmp_path):
    other = tmp_path / "swarm"
    other.write_bytes(b"\x7fELF\x02")
    other.chmod(0o755)
    monkeypatch.setenv("SWARM_PROGRAM", str(other))
    with pytest.raises(swarm_bridge.SwarmError, match="can't be started: Exec format error"):
        swarm_bridge.attach()


def test_flags_are_the_programs():
    assert calling.arguments({"rounds": 4, "cpu_fallback": True, "cuda_graphs": False, "seed": None, "set": {"tasks.set": "nano", "a": True},
                              "x": ("1", 2)}) == ["--rounds=4", "--cpu-fallback=true", "--cuda-graphs=false", "--set=tasks.set=nano",
                                                  "--set=a=true", "--x=1", "--x=2"]


def test_the_home_is_the_programs(monkeypatch, tmp_path):
    monkeypatch.delenv("SWARM_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calling.home_folder() == str(tmp_path / ".local" / "share" / "swarm")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert calling.home_folder() == "/x/swarm"
    monkeypatch.setenv("SWARM_HOME", "/y")
    assert calling.home_folder() == "/y" and calling.home_folder("~/z") == str(tmp_path / "z")


def test_the_kernels_interpreter_is_used_where_it_has_torch(monkeypatch):
    monkeypatch.delenv("SWARM_PYTHON", raising=False)
    monkeypatch.setattr(calling.importlib.util, "find_spec", lambda name: name == "torch")
    assert calling.environment()["SWARM_PYTHON"] == sys.executable
    monkeypatch.setenv("SWARM_PYTHON", "/mine")
    assert calling.environment()["SWARM_PYTHON"] == "/mine"
    monkeypatch.delenv("SWARM_PYTHON")
    monkeypatch.setattr(calling.importlib.util, "find_spec", lambda name: None)
    assert "SWARM_PYTHON" not in calling.environment()


def test_a_sweep_goes_through_its_experiments(tmp_path, capsys):
    made = swarm_bridge.sweep("8loc0ext", "4loc4ext", home=tmp_path / "home", rounds=2, **NANO)
    again = swarm_bridge.sweep("8loc0ext", "4loc4ext", home=tmp_path / "home", rounds=2, attach=True, **NANO)
    assert made.running() and again.pid == made.pid and again.running()
    found = made.watch(interval=0.3, timeout=600)
    assert not made.running() and [s["state"] for s in found] == ["done", "done"]
    assert "4loc4ext-1 · done" in capsys.readouterr().out
    told = swarm_bridge.compare(home=tmp_path / "home")
    assert [r["experiment"] for r in told["rows"]] == ["8loc0ext", "4loc4ext"] and told["baseline"] == "8loc0ext"
    assert sum(r["cumulative_reward"] for r in told["rows"]) == pytest.approx(sum(s["cumulative_reward"] for s in found))
    assert "undecid" in told["rows"][1]["verdict"] and "8loc0ext" in str(told) and "<td" in told._repr_html_()


def test_a_sweep_can_be_stopped(tmp_path):
    made = swarm_bridge.sweep("8loc0ext", "4loc4ext", home=tmp_path / "home", rounds=5000, **NANO)
    deadline = time.monotonic() + 300
    while not made.runs() and time.monotonic() < deadline:
        time.sleep(0.05)
    again = swarm_bridge.sweep("8loc0ext", "4loc4ext", home=tmp_path / "home", rounds=5000, attach=True, **NANO)  # in the middle of a run
    assert again.pid == made.pid and again.running()
    assert made.stop()["run"] == "8loc0ext-1"
    while made.running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not made.running() and len(made.runs()) == 1


def test_a_plan_for_a_card_that_is_not_here():
    assert swarm_bridge.plan(gpu_memory="15GB", model="gpt2", nodes="max")["nodes"] > swarm_bridge.plan(gpu_memory="15GB", model="gpt2")["nodes"]
