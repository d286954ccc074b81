"""Trainers as nodes of the real program: swarm up --node-command."""

import os
import shlex
import signal
import sys
import time

import pytest

import swarm_bridge
from launcher import FOLDER

EXAMPLE = "{} {}".format(shlex.quote(sys.executable), shlex.quote(str(FOLDER / "examples" / "reinforce.py")))


def up(home, command, **flags):
    return swarm_bridge.up(home=home, node_command=command, name="bandit", device="cpu", **dict({"nodes": 2, "rounds": 40}, **flags))


def rewards(run):
    return {(r["node"], r["round"]): r["reward"] for r in run.rows("rounds")}


@pytest.fixture(scope="module")
def calm(tmp_path_factory, program):
    """The rewards of an undisturbed run of the example."""
    run = up(tmp_path_factory.mktemp("calm") / "home", EXAMPLE)
    assert run.wait(timeout=300)["state"] == "done"
    return run


def test_the_example_trains_as_nodes_of_a_run(calm):
    rows = calm.rows("rounds")
    assert len(rows) == 80 and {r["completions"] for r in rows} == {64}
    assert all(r["kl"] is None and "kl=nan" in r["non_finite"] and r["loss"] is not None for r in rows)  # unknown is not 0
    assert {n["model"] for n in calm.rows("nodes")} == {"bandit"}
    assert calm.status()["cumulative_reward"] == pytest.approx(sum(rewards(calm).values()))
    assert {(c["node"], c["round"]) for c in calm.rows("checkpoints")} >= {("node_0", 40), ("node_1", 40)}
    assert calm.rows("memory") and sum(t["reward_sum"] for t in calm.rows("tasks")) == pytest.approx(64 * sum(rewards(calm).values()))


def script(tmp_path, body):
    path = tmp_path / "train.py"
    head = "import sys, os, time, signal\nsys.path.insert(0, {!r})\nimport swarm_bridge\nnode = swarm_bridge.Node()\n".format(str(FOLDER))
    path.write_text(head + body)
    return "{} {}".format(shlex.quote(sys.executable), shlex.quote(str(path)))


def test_a_trainer_that_is_killed_is_started_again_and_goes_on(tmp_path):
    command = script(tmp_path, """
first = node.start_round == 0
for r in range(node.start_round, node.rounds):
    with node.lease("update"): pass
    node.round(r, reward=r)
    if first and r == 2:
        os.kill(os.getpid(), signal.SIGKILL)
""")
    run = up(tmp_path / "home", command, rounds=6, nodes=1)
    assert run.wait(timeout=300)["state"] == "done"
    status = run.status()
    assert status["restarts"] == 1 and rewards(run) == {("node_0", r): float(r) for r in range(6)}


def test_want_of_memory_is_recorded_as_that(tmp_path):
    command = script(tmp_path, "node.round(0, reward=1)\nraise RuntimeError('CUDA out of memory. Tried to allocate 17.66 GiB')")
    run = up(tmp_path / "home", command, nodes=1, max_restarts=0)
    with pytest.raises(swarm_bridge.SwarmError, match=r"bandit-1 is \w+ at round 1 of 40: .*17.66 GiB.*Try: logs") as lost:
        run.wait(timeout=300)
    assert lost.value.code in (1, 4)
    causes = [e["cause"] for e in run.rows("events") if e["type"] in ("failure", "exit", "giveup")]
    assert causes and set(causes) == {"out_of_memory"}


def test_a_stop_is_orderly_and_the_same_up_goes_on(tmp_path, calm):
    home = tmp_path / "home"
    run = up(home, EXAMPLE, rounds=20000)
    deadline = time.monotonic() + 300
    while run.status()["round"] < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert run.stop()["state"] == "stopped"
    stopped = max(n["round"] for n in run.status()["nodes"])  # nodes don't wait for each other here
    assert 5 <= stopped < 20000
    assert {c["round"] for c in run.rows("checkpoints")}
    again = up(home, EXAMPLE, rounds=stopped + 50)
    assert again.name == run.name and again.wait(timeout=300)["state"] == "done"
    got = rewards(again)
    assert len(got) == 2 * (stopped + 50) and {key: got[key] for key in rewards(calm)} == rewards(calm)


def test_trainers_end_with_their_coordinator(tmp_path):
    run = up(tmp_path / "home", EXAMPLE, rounds=200000)
    deadline = time.monotonic() + 300
    while run.status()["round"] < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    status = run.status()
    pids = [n["pid"] for n in status["nodes"] if n["pid"]]
    assert len(pids) == 2
    os.kill(status["pid"], signal.SIGKILL)
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, pids))
    assert run.status()["state"] == "crashed"
    with pytest.raises(swarm_bridge.SwarmError, match="bandit-1 is crashed"):
        run.wait()


def running(pid):
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
