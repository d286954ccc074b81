"""The executed notebooks, and behavior that only a real kernel shows."""

import json
import os
import re
import subprocess
import time
from concurrent import futures
from pathlib import Path

import pytest

import swarm_bridge

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
manager = pytest.importorskip("jupyter_client.manager")

FOLDER = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))
SETTINGS = {"model": "nano", "device": "cpu", "nodes": 2, "rounds": 2, "eval_questions": 4, "eval_generations": 1}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Settings of the notebooks for a test, and a separate home."""
    monkeypatch.setenv("NOTEBOOK_SETTINGS", json.dumps(SETTINGS))
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MPLBACKEND")  # the kernel's own backend turns plots into outputs
    return tmp_path / "home"


def executed(path, changes=None, env=None):
    """Runs the notebook in a kernel with the environment env (None: this process's). changes replaces values of
    variables that a user would change.
    """
    notebook = nbformat.read(str(path), as_version=4)
    for name, value in (changes or {}).items():
        cells = [c for c in notebook.cells if re.search(r"(?m)^{} = ".format(name), c.source)]
        assert len(cells) == 1, name
        cells[0].source = re.sub(r"(?m)^{} = .*$".format(name), lambda _: "{} = {!r}".format(name, value), cells[0].source)
    client = nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}})
    return client.execute(env=env or dict(os.environ))


def outputs(notebook, mime):
    return [o["data"][mime] for c in notebook.cells if c.cell_type == "code" for o in c.outputs if mime in o.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_committed_without_outputs_and_is_valid(path):
    notebook = nbformat.read(str(path), as_version=4)
    nbformat.validate(notebook)
    assert all(not c.outputs and c.execution_count is None for c in notebook.cells if c.cell_type == "code")


def test_the_quick_start_runs_and_shows_a_run_and_two_plots(small):
    notebook = executed(FOLDER / "notebooks" / "quickstart_colab.ipynb")
    watched = outputs(notebook, "text/html")[0]
    assert "4loc4ext-1 · done · round 2/2" in watched and "<td" in watched
    assert len(outputs(notebook, "image/png")) == 2
    assert swarm_bridge.attach(home=small).status()["round"] == 2


def test_the_papers_four_configurations_run_and_are_compared(small):
    notebook = executed(FOLDER / "notebooks" / "paper_four_configurations.ipynb")
    assert {s.status()["state"] for s in swarm_bridge.runs(home=small)} == {"done"}
    table = [html for html in outputs(notebook, "text/html") if "baseline" in html][-1]
    rows = swarm_bridge.compare(home=small)["rows"]
    assert len(rows) == 4
    for row in rows:
        assert row["experiment"] in table and "{:.4g}".format(row["cumulative_reward"]) in table
    assert len(outputs(notebook, "image/png")) == 2


def test_two_friends_train_one_swarm_through_a_folder(small):
    """One notebook coordinates and the other joins, at the same time, each under its own home. They share only the
    folder. When each has received rollouts of the other, the test stops the coordinator's run from outside, and both
    notebooks finish.
    """
    folder, homes = small.parent / "drive", {"coordinator": small.parent / "first", "worker": small.parent / "second"}
    folder.mkdir()
    changes = {"GDRIVE_PATH": str(folder), "MODEL_NAME": "nano", "SYNC": "barrier", "MAX_ROUNDS": 5000, "NUM_TRAIN_SAMPLES": 2,
               "NUM_TRANSPLANT_TREES": 2, "NUM_GENERATIONS": 2}
    settings = {"worker": {"device": "cpu"}, "coordinator": {"device": "cpu", "eval_questions": 0, "max_completion_length": 8}}

    def friend(role, node):
        env = dict(os.environ, SWARM_HOME=str(homes[role]), NOTEBOOK_SETTINGS=json.dumps(settings[role]))
        return executed(FOLDER / "notebooks" / "friends_google_drive.ipynb", dict(changes, NODE_ROLE=role, NODE_ID=node), env)
    with futures.ThreadPoolExecutor(2) as pool:
        jobs = {role: pool.submit(friend, role, node) for role, node in (("coordinator", "node_0"), ("worker", "node_1"))}
        try:
            until(lambda: receivers(homes["coordinator"]) == {"node_0", "node_1"} or any(job.done() for job in jobs.values()))
        finally:
            for run in [run for role in jobs for run in swarm_bridge.runs(home=homes[role])]:
                run.stop()
        notebooks = {role: job.result() for role, job in jobs.items()}
    run, own = swarm_bridge.attach(home=homes["coordinator"]), swarm_bridge.attach(home=homes["worker"])
    assert (run.name, own.name) == ("sapo_gpt2_friends-1", "sapo_gpt2_friends-1.node_1-1")
    rounds = {node: [r["round"] for r in run.rows("rounds") if r["node"] == node] for node in ("node_0", "node_1")}
    assert rounds["node_0"] == list(range(len(rounds["node_0"])))
    assert rounds["node_1"] == list(range(rounds["node_1"][0], rounds["node_1"][-1] + 1)) and rounds["node_1"][0] > 0
    assert [r["round"] for r in own.rows("rounds")] == rounds["node_1"]
    assert [(w["worker"], w["rounds"]) for w in run.workers()] == [("node_1", len(rounds["node_1"]))]
    assert any("useful" in html and "node_1" in html for html in outputs(notebooks["coordinator"], "text/html"))
    assert all(len(outputs(n, "image/png")) == 1 for n in notebooks.values())


def receivers(home):
    """Returns the nodes that received others' rollouts."""
    return {row["node"] for run in swarm_bridge.runs(home=home) for row in run.rows("peers") if row["available"]}


def until(met, seconds=600):
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, "not met in {} s".format(seconds)
        time.sleep(0.1)


def test_a_kernel_that_restarts_finds_its_run_again(small):
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(FOLDER))
    try:
        run = "run = swarm_bridge.up(model='nano', device='cpu', nodes=2, rounds=5000)"
        assert reply(client, "import swarm_bridge\n" + run + "\nrun.name") == "'4loc4ext-1'"
        before = swarm_bridge.attach(home=small).status()
        kernel.restart_kernel(now=True)
        client.wait_for_ready(timeout=300)
        told = reply(client, "import swarm_bridge\nrun = swarm_bridge.attach()\n[run.name, run.status()['state'], run.status()['pid']]")
        assert told == str(["4loc4ext-1", "running", before["pid"]])
        assert reply(client, "run.stop(now=True)['outcome']") == "'stopped'"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def reply(client, code):
    """Returns the repr of the last expression, as the kernel shows it."""
    shown = []
    done = client.execute_interactive(code, timeout=300, output_hook=lambda m: shown.append(m["content"]))
    assert done["content"]["status"] == "ok", shown
    return [c["data"]["text/plain"] for c in shown if "data" in c][-1]


def test_interrupting_a_kernel_ends_watching_and_not_the_run(small):
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(FOLDER))
    try:
        reply(client, "import swarm_bridge\nrun = swarm_bridge.up(model='nano', device='cpu', nodes=2, rounds=5000)\nrun")
        shown = []
        client.execute("run.watch(interval=0.2)['state']")
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            message = client.get_iopub_msg(timeout=300)
            shown.append(message)
            if message["msg_type"] == "update_display_data" and len(shown) < 1000:
                kernel.interrupt_kernel()
                break
        assert reply(client, "run.status()['state']") == "'running'"
        assert shown[-1]["content"]["data"]["text/html"].startswith("<div>")
    finally:
        swarm_bridge.attach(home=small).stop(now=True)
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_get_swarm_prints_the_program_there_is(program):
    told = subprocess.run([str(FOLDER / "get-swarm")], capture_output=True, text=True)
    assert (told.returncode, told.stdout.strip()) == (0, program)
