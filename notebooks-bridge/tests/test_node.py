"""A trainer as a node: its side of the protocol, against a launcher in Python."""

import os
import re
import signal
import subprocess
import sys

import pytest

from launcher import FOLDER, Launcher
from swarm_bridge import failures, link, node, report

EVENT_GO = FOLDER.parent / "metrics" / "event" / "event.go"
COMMAND_GO = FOLDER.parent / "node" / "protocol" / "command.go"
BEGIN = "import swarm_bridge, sys, os, signal, time\nnode = swarm_bridge.Node()\n"


@pytest.fixture
def launch(tmp_path):
    started = []

    def start(script, **options):
        started.append(Launcher(tmp_path, script, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def of(events, kind):
    return [e for e in events if e["type"] == kind]


def states(events):
    return [e["state"] for e in of(events, "state")]


def test_a_trainer_that_does_its_rounds_ends_as_done(launch):
    body = "for r in range(node.rounds):\n  with node.lease('update', bytes=5): pass\n  node.round(r, reward=r/10, loss=1)"
    events, code = launch(BEGIN + body).rest()
    assert code == 0
    assert states(events) == ["loading", "done"]
    kinds = [e["type"] for e in events if e["type"] != "memory"]
    assert kinds == ["state", "loaded"] + ["lease", "release", "round"] * 5 + ["state"]
    rounds = [e["round"] for e in of(events, "round")]
    assert [(r["round"], r["reward"], r["loss"]) for r in rounds] == [(i, i / 10, 1.0) for i in range(5)]
    assert all(r["step_time"] >= r["lease_time"] >= 0 for r in rounds)
    assert {l["lease"]["id"] for l in of(events, "lease")} == {l["lease"]["id"] for l in of(events, "release")} == {1, 2, 3, 4, 5}
    memory = of(events, "memory")[0]["memory"]
    assert memory["rss_bytes"] > 1 << 20 and memory["peak_rss_bytes"] >= memory["rss_bytes"]


def test_what_is_not_measured_or_not_finite_is_recorded_as_unknown(launch):
    trainer = launch(BEGIN + "node.round(0, reward=float('nan'), loss=float('-inf'), entropy=2.5, completions=8)")
    got = trainer.until("round")["round"]
    assert got["reward"] == 0 and got["entropy"] == 2.5 and got["completions"] == 8
    assert got["non_finite"]["reward"] == "NaN" and got["non_finite"]["loss"] == "-Inf" and got["non_finite"]["kl"] == "NaN"
    assert "entropy" not in got["non_finite"]
    assert not any("sampling" in name for name in [*got, *got["non_finite"]]), "most trainers have no such figure to miss"


def test_a_difference_to_the_sampler_can_be_reported(launch):
    body = "node.round(0, reward=1, sampling_logp_difference_max=0.5, sampling_logp_difference_mean=float('nan'))"
    got = launch(BEGIN + body).until("round")["round"]
    assert got["sampling_logp_difference_max"] == 0.5 and got["non_finite"]["sampling_logp_difference_mean"] == "NaN"


@pytest.mark.parametrize("call, says", [
    ("node.round(-1, reward=0)", "bad round -1: allowed: a whole number"), ("node.round(True, reward=0)", "round True"),
    ("node.round(1.5, reward=0)", "round 1.5"),
    ("node.round(0, reward=0, los=1)", "unknown metric 'los' of a round"), ("node.round(0, reward='x')", "could not convert string to float"),
    ("node.state('sleeping')", "'sleeping' is not one of"), ("node.memory_step(0, 'update', 'pray')", "'pray' is not one of"),
    ("node.lease('talk').__enter__()", "'talk' is not one of"),
])
def test_bad_values_are_named(launch, call, says):
    events, code = launch(BEGIN + call).rest()
    assert code == 1
    assert says in of(events, "failure")[0]["message"] and of(events, "failure")[0]["cause"] == "unknown"


def test_what_a_trainer_prints_is_its_log_and_never_the_protocol(launch):
    trainer = launch(BEGIN + "import subprocess\nprint('hello')\nos.write(1, b'from C\\n')\nsubprocess.run(['echo', 'from a child'])\n"
                     "print(repr(sys.stdin.read()))\nnode.round(4, reward=1)")
    events, code = trainer.rest()
    assert code == 0 and states(events)[-1] == "done"
    assert all(text in trainer.log for text in (b"hello", b"from C", b"from a child", b"''"))


def test_a_lease_waits_for_its_grant_and_a_stop_withdraws_it(launch):
    body = "node.loaded()\nwith node.lease('generate'):\n  node.round(0, reward=1)\nwith node.lease('update'):\n  print('computing')"
    trainer = launch(BEGIN + body, grants=False)
    asked = trainer.until("lease")
    assert asked["lease"]["phase"] == "generate"
    trainer.send("grant", lease={"id": 99})  # another node's
    trainer.send("grant", lease=asked["lease"])
    trainer.until("round")
    second = trainer.until("lease")["lease"]["id"]
    trainer.send("stop")
    events, code = trainer.rest()
    assert code == 0 and states(events) == ["stopped"]
    assert of(events, "release")[0]["lease"]["id"] == second
    assert b"computing" not in trainer.log and b"Traceback" not in trainer.log


def test_without_leases_nobody_is_asked(launch):
    events, code = launch(BEGIN + "with node.lease('update'): node.round(4, reward=1)", leased=False).rest()
    assert code == 0 and not of(events, "lease") and not of(events, "release")


@pytest.mark.parametrize("ask", [lambda t: t.send("stop"), lambda t: t.child.send_signal(signal.SIGTERM)])
def test_a_stop_and_a_sigterm_are_seen_by_the_trainer(launch, ask):
    trainer = launch(BEGIN + "node.round(0, reward=1)\nwhile not node.stopping: time.sleep(0.01)\nnode.checkpoint(__file__, 1)")
    trainer.until("round")
    ask(trainer)
    events, code = trainer.rest()
    assert code == 0 and states(events) == ["stopped"]
    saved = of(events, "checkpoint")[0]["checkpoint"]
    assert saved["round"] == 1 and saved["bytes"] == os.path.getsize(saved["path"])


def test_a_second_sigterm_ends_it(launch):
    trainer = launch(BEGIN + "node.round(0, reward=1)\nwhile not node.stopping: time.sleep(0.01)\nnode.warning('stubborn')\ntime.sleep(60)")
    trainer.until("round")
    trainer.child.send_signal(signal.SIGTERM)
    trainer.until("warning")
    trainer.child.send_signal(signal.SIGTERM)
    assert trainer.rest()[1] == -signal.SIGTERM


@pytest.mark.parametrize("busy", ["sum(range(1000))", "node.round(0, reward=1)", "print('x' * 10000)", "time.sleep(60)"])
def test_the_launchers_death_ends_it_whatever_it_does(launch, busy):
    trainer = launch(BEGIN + "node.round(0, reward=1)\nwhile True:\n  " + busy + "\n", drain=False)
    trainer.until("round")
    for pipe in (trainer.child.stdout, trainer.child.stderr, trainer.child.stdin):
        pipe.close()
    assert trainer.child.wait(timeout=10) == 1


@pytest.mark.parametrize("raises, cause, code", [
    ("MemoryError()", "host_out_of_memory", 3),
    ("RuntimeError('CUDA out of memory. Tried to allocate 17.66 GiB')", "out_of_memory", 3),
    ("type('OutOfMemoryError', (RuntimeError,), {})('Tried to allocate')", "out_of_memory", 3),
    ("RuntimeError('[enforce fail at alloc_cpu.cpp:66] DefaultCPUAllocator: not enough memory')", "host_out_of_memory", 3),
    ("OSError(28, 'No space left on device')", "disk_full", 1),
    ("ModuleNotFoundError(\"No module named 'torch'\")", "python", 1),
    ("ValueError('a\\nb')", "unknown", 1),
])
@pytest.mark.parametrize("style", ["script", "with"])
def test_the_launcher_hears_why_a_trainer_died(launch, raises, cause, code, style):
    end = "raise " + raises if style == "script" else "with node:\n  raise " + raises
    trainer = launch(BEGIN + "node.round(0, reward=1)\n" + end)
    events, got = trainer.rest()
    failure = of(events, "failure")
    assert (got, [f["cause"] for f in failure]) == (code, [cause])
    assert "\n" not in failure[0]["message"]
    assert b"Traceback" in trainer.log
    assert events[-1]["type"] in ("failure", "memory") and "done" not in states(events)


def test_an_end_before_the_last_round_is_not_called_done(launch):
    events, code = launch(BEGIN + "node.round(0, reward=1)").rest()
    assert code == 0 and states(events) == ["loading"]


def test_commands_change_peers_and_budget(launch):
    trainer = launch(BEGIN + "node.round(0, reward=1)\nwhile node.budget_bytes != 5: time.sleep(0.01)\nnode.warning(node.peers)", budget_bytes=3)
    trainer.until("round")
    trainer.send("members", members=[{"node": "node_0"}])
    trainer.send("budget", budget_bytes=5)
    assert trainer.until("warning")["message"] == "['node_0']"


@pytest.mark.parametrize("start, says", [({"protocol": 2}, "uses protocol 2"), ({"config": {}, "dir": None, "protocol": 9}, "uses protocol 9")])
def test_another_protocol_is_refused(launch, start, says):
    events, code = launch(BEGIN, **start).rest()
    assert code == 2
    assert events[0]["type"] == "failure" and events[0]["cause"] == "config" and says in events[0]["message"]


def test_a_script_that_swarm_did_not_start_says_how():
    ended = subprocess.run([sys.executable, "-c", "import swarm_bridge; swarm_bridge.Node()"], capture_output=True, text=True, cwd=str(FOLDER))
    assert ended.returncode == 1 and "swarm up --node-command" in ended.stderr.splitlines()[-1] and ended.stdout == ""


def test_forked_children_are_not_the_node(launch):
    script = BEGIN + """
import multiprocessing
def work(queue):
    node.warning('from the child')
    queue.put(1)
    time.sleep(60)
context = multiprocessing.get_context('fork')
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
queue.get()
child.terminate()
child.join()
node.round(4, reward=child.exitcode)
"""
    events, code = launch(script).rest()
    assert code == 0 and not of(events, "warning")
    assert of(events, "round")[0]["round"]["reward"] == -signal.SIGTERM


def test_memory_steps_and_own_figures_travel(launch):
    trainer = launch(BEGIN + "node.memory_step(3, 'update', 'halve_micro_batch', micro_batch=4)\nnode.memory(resident_bytes=7)")
    step = trainer.until("memory_step")["memory_step"]
    assert step == {"round": 3, "phase": "update", "action": "halve_micro_batch", "cause": "gpu_memory", "micro_batch": 4}
    assert trainer.until("memory")["memory"]["resident_bytes"] == 7


def test_the_memory_of_torch_is_read_where_torch_uses_a_gpu(monkeypatch):
    class Cuda:
        is_initialized = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 2)
        memory_reserved = staticmethod(lambda i: 10 + i)
        max_memory_reserved = staticmethod(lambda i: 20 + i)

    torch = type(sys)("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert node.meter.device() == (0, 0)  # half imported
    torch.cuda = Cuda
    assert node.meter.device() == (21, 41)
    Cuda.is_initialized = staticmethod(lambda: False)
    assert node.meter.device() == (0, 0)  # reading must not start CUDA


def go_struct(name):
    body = re.search(r"type {} struct {{(.*?)\n}}".format(name), EVENT_GO.read_text(), re.S).group(1)
    return set(re.findall(r'json:"([a-z_]+)', body))


@pytest.mark.skipif(not EVENT_GO.exists(), reason="no checkout around this package")
def test_names_are_those_of_the_go_side():
    source = EVENT_GO.read_text()
    assert int(re.search(r"const Version = (\d+)", COMMAND_GO.read_text()).group(1)) == link.PROTOCOL
    kinds = (report.MEASURED, report.COUNTS, report.SECONDS, report.ROUNDS, report.OPTIONAL, report.LISTS, report.FLAGS)
    ours = {name for kind in kinds for name in kind} | {"round", "non_finite"}
    assert ours == go_struct("Round")
    assert set(node.STATES) <= set(re.findall(r'State\w+\s+State = "(\w+)"', source))
    assert set(node.CAUSES) == set(re.findall(r'Memory\w+\s+= "(\w+)"', source))
    assert set(node.ACTIONS) | {"shed"} == set(re.findall(r'Action\w+\s+= "(\w+)"', source))
    told = {failures.classify(e)[0] for e in (MemoryError(), RuntimeError("CUDA out of memory"), OSError(28, ""), ImportError(), ValueError())}
    assert told <= set(re.findall(r'Cause\w+\s+= "(\w+)"', source))
    assert set(node.meter.memory()) <= go_struct("Memory")


def example(launch, **options):
    return launch(str(FOLDER / "examples" / "reinforce.py"), **options)


def rewards(events):
    return [(e["round"]["round"], e["round"]["reward"]) for e in of(events, "round")]


def test_the_example_learns(launch):
    events, code = example(launch, config={"rounds": 60, "checkpoint_every": 20}).rest()
    got = [r for _, r in rewards(events)]
    assert code == 0 and states(events)[-1] == "done" and len(got) == 60
    assert sum(got[-10:]) / 10 > sum(got[:10]) / 10 + 0.15
    assert [e["checkpoint"]["round"] for e in of(events, "checkpoint")] == [20, 40, 60]


def test_the_example_goes_on_after_a_stop_and_after_a_kill_as_if_nothing_had_been(launch, tmp_path):
    whole, _ = example(launch, config={"rounds": 30}, dir=str(tmp_path / "other")).rest()
    first = example(launch, config={"rounds": 30})
    before = [first.until("round") for _ in range(7)]
    first.send("stop")
    more, code = first.rest()
    assert code == 0 and states(more)[-1] == "stopped"
    second = example(launch, config={"rounds": 30})
    third = [second.until("round") for _ in range(5)]
    second.close()
    rest, code = example(launch, config={"rounds": 30}).rest()
    assert code == 0
    assert dict(rewards(before + more + third + rest)) == dict(rewards(whole))


def test_what_torch_itself_says_is_understood():
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as host:
        torch.empty(10**15)  # 4 PB
    assert failures.classify(host.value)[0] == "host_out_of_memory"
    for kind in (getattr(torch.cuda, "OutOfMemoryError", None), getattr(torch, "OutOfMemoryError", None)):
        assert kind is None or failures.classify(kind("Tried to allocate"))[0] == "out_of_memory"
    assert node.meter.device() == (0, 0) or torch.cuda.is_initialized()
