"""Whole runs of gpu-check without a GPU: dry runs, kills, hangs, and its errors where it can't run."""

import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import child  # noqa: E402

PROGRAM = os.environ.get("SWARM_PROGRAM", str(HERE.parents[1] / "bin" / "swarm"))
built = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="make build")
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")


def rows(folder):
    return json.loads((folder / "gpu-check.json").read_text())["rows"]


def archived(folder):
    with tarfile.open(folder / "gpu-check.tar.gz") as tar:
        return {name.removeprefix("gpu-check/") for name in tar.getnames()}


@built
@torch
def test_dry_run(tmp_path):
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, str(HERE), "--device", "cpu", "--only", "plan,engine,primitives,shortage,swarm.lease,swarm.lease-direct,swarm.mps", "--swarm", PROGRAM, "--out", str(out),
         "--scratch", str(tmp_path)],
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("All figures are from a dry run on a CPU") and "0 MISSED, 0 FAILED" in done.stdout
    assert {"mps", "SDPA's backend", "an update on a full card"} <= {row["name"] for row in rows(out) if row["value"] == "needs a GPU"}
    made = json.loads((out / "gpu-check.json").read_text())["details"]["swarm"]
    for run in made.values():
        assert 0 < run["start_seconds"] < run["first_generating_seconds"] and run["host_peak_bytes"] > 1e8
    assert {row["name"] for row in rows(out)} >= {"host memory, with the engine host to without", "a node's start, with the engine host to without"}
    run = made["lease"]
    assert run["exit_code"] == 0 and run["cut"] and run["loaded"] == 2 and run["rounds"] >= 3
    assert run["mean_length"] == 12 and 0 < run["reward"] < 1 and run["update_steps"] > 0
    kept = archived(out)
    assert {"swarm/lease/events.jsonl", "swarm/lease/up.stderr", "swarm/lease/home/swarm.db", "engine/engine.log"} <= kept
    assert any(name.endswith("coordinator.log") for name in kept) and not any("safetensors" in name for name in kept)
    assert os.listdir(tmp_path) == ["out"]  # scratch is empty


@torch
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_found_before_a_kill_is_kept(tmp_path, number):
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(HERE), "--device", "cpu", "--only", "card,parity,profile", "--out", str(out), "--scratch", str(scratch)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    for line in process.stderr:
        if line.startswith("gpu-check: profile"):
            break
    time.sleep(1)
    process.send_signal(number)
    table, _ = process.communicate(timeout=60)
    assert {"card/card.log", "parity/random-weights.log"} <= archived(out)
    found = rows(out)
    assert any(row["section"] == "parity" and row["value"] is not None for row in found)
    assert "GEMM fp32" in (out / "gpu-check.txt").read_text()
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert process.returncode == 128 + number and found[-1]["verdict"] == "FAILED" and number.name in found[-1]["note"]
    assert number.name in table and not os.listdir(scratch)
    with tarfile.open(out / "gpu-check.tar.gz") as tar:
        assert tar.extractfile("gpu-check/profile/profiled.log").read()  # of the section in progress


HANGS = """
import runpy, subprocess, sys, time
sys.path.insert(0, {here!r})
import child, sections
def hang(c):
    c.report.add("hangs", "before", 1)
    log = open(c.evidence.path("hangs/child.log"), "wb")
    process = child.start(["sh", "-c", "trap '' INT TERM; echo $$; sleep 1000"], log)
    c.report.add("hangs", "pid", int(process.stdout.readline()))
    process.stdout.read()
def fail(c):
    raise KeyError("nonsense")
def slow(c):
    c.report.add("slow", "told", c.ask("slow", {slow!r}, cap=60).get("early"))
def after(c):
    c.report.add("after", "here", c.left())
sections.ALL = (sections.Section("hangs", ("engine",), 5.5, hang), sections.Section("fails", ("engine",), 60, fail), sections.Section("slow", ("engine",), 8, slow),
    sections.Section("after", ("engine",), 60, after))
sys.argv = ["gpu_check", "--device", "cpu", "--part", "engine", "--out", {out!r}]
runpy.run_path({main!r}, run_name="__main__")
"""


@torch
def test_a_section_that_hangs_costs_its_cap_and_the_rest_goes_on(tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text('import time; print(\'{"fact": "early", "value": 7}\', flush=True); time.sleep(1000)')
    script = HANGS.format(here=str(HERE), out=str(tmp_path), slow=str(slow), main=str(HERE / "__main__.py"))
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    found = {(row["section"], row["name"]): row for row in rows(tmp_path)}
    assert found["hangs", "hangs"]["verdict"] == "FAILED" and found["hangs", "hangs"]["note"] == "not done within 6 s"
    assert found["fails", "fails"]["note"] == "KeyError: 'nonsense'"
    assert found["hangs", "before"]["value"] == 1 and 0 < found["after", "here"]["value"] <= 60
    assert found["slow", "told"]["value"] == 7 and found["slow", str(slow)[:-3]]["note"].startswith("not done within")
    assert not os.path.exists(f"/proc/{found['hangs', 'pid']['value']}")
    assert time.monotonic() - began < 60


def test_a_child_without_progress_is_stopped_and_what_it_said_stays(tmp_path):
    began = time.monotonic()
    lines, code, problem = child.run(["sh", "-c", "echo one; echo two >&2; sleep 1000"], tmp_path / "log", 60, stall=1)
    assert lines == ["one"] and problem == "no progress for 1 s" and time.monotonic() - began < 20
    assert set((tmp_path / "log").read_text().splitlines()) >= {"one", "two", "gpu-check: stopped: no progress for 1 s"}
    _, code, problem = child.run(["sh", "-c", "while :; do echo tick; sleep 0.1; done"], tmp_path / "log", 1)
    assert problem == "not done within 1 s" and code == -signal.SIGKILL
    lines, code, problem = child.run(["sh", "-c", "printf 'a\\nb'; exit 3"], tmp_path / "log", 60)
    assert (lines, code, problem) == (["a", "b"], 3, None)


def test_a_run_whose_nodes_say_nothing_new_is_hung(tmp_path):
    """Samples of memory and of the card arrive without progress and don't count as progress."""
    import swarm

    fake = tmp_path / "swarm"
    fake.write_text('#!/bin/sh\ntrap "exit 130" INT\necho \'{"type":"loaded","node":"node_0","time":1}\'\n'
                    'while :; do echo \'{"type":"memory","node":"node_0","memory":{}}\'; sleep 0.1; done\n')
    fake.chmod(0o755)
    with pytest.raises(RuntimeError, match="no progress for 1 s"):
        swarm.up([str(fake)], swarm.Run("lease", 1, 2, {}), 60, tmp_path, 1)
    assert '"type":"loaded"' in (tmp_path / "events.jsonl").read_text()


def test_parts_have_their_sections_and_their_budgets(tmp_path):
    main = runpy.run_path(str(HERE / "__main__.py"), run_name="gpu_check")
    names = lambda *arguments: [s.name for s in main["chosen"](main["parse"](list(arguments)))]  # noqa: E731
    engine = ["card", "tests", "parity", "profile", "primitives", "shortage", "engine", "more-tests"]
    swarm = ["plan", "swarm", "rl-swarm"]
    assert names("--part", "engine") == engine and names("--part", "swarm") == ["card", *swarm] and names() == engine + swarm
    assert names("--only", "swarm.mps,parity") == ["parity", "swarm"]
    for arguments, seconds in ((["--part", "engine"], 300), (["--part", "swarm"], 540), ([], 840), (["--device", "cpu"], 540), (["--budget", "77"], 77)):
        options = main["parse"]([*arguments, "--out", str(tmp_path / "out")])
        assert main["make_check"](options, tmp_path, 1000.0).deadline == 1000.0 + seconds


def test_a_compressed_program_is_unpacked(tmp_path):
    import gzip

    import program

    (tmp_path / "swarm.gz").write_bytes(gzip.compress(b"#!/bin/sh\necho it runs\n"))
    assert program.find(str(tmp_path / "absent")) is None
    path, folder = program.unpack(program.find(str(tmp_path / "swarm")))
    assert subprocess.check_output([path], text=True) == "it runs\n" and os.path.dirname(path) == folder
    Path(path).rename(tmp_path / "swarm")
    os.rmdir(folder)
    assert program.unpack(program.find(str(tmp_path / "swarm"))) == (str(tmp_path / "swarm"), None)


def test_it_says_why_it_can_not_run(tmp_path):
    done = subprocess.run([sys.executable, str(HERE), "--swarm", str(tmp_path / "absent")], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"Error: {tmp_path}/absent is not there. Try: make build, or --swarm PATH, or --part engine\n"
    done = subprocess.run([sys.executable, str(HERE), "--only", "sections"], capture_output=True, text=True)
    assert done.returncode == 2 and "--only sections: card, tests, parity" in done.stderr
    done = subprocess.run([sys.executable, str(HERE), "--only", "card", "--weights", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2 and "has no config.json. Try:" in done.stderr
