"""What the tests share: the real program, a home of their own, and one finished run. SWARM_PROGRAM or ../bin/swarm is the program."""

import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))

# No test depends on what a user has set for swarm, or for rl-swarm. Fixtures of modules and sessions start programs, too.
RL_SWARM = ("EXPERIMENT_NAME", "MODEL_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS", "SEED",
            "NODE_ROLE", "NODE_ID", "GDRIVE_PATH")  # fmt: skip
for name in list(os.environ):
    if name in (*RL_SWARM, "XDG_DATA_HOME", "CUDA_VISIBLE_DEVICES") or name.startswith("SWARM_") and name not in ("SWARM_PYTHON", "SWARM_PROGRAM"):
        del os.environ[name]

import swarm_bridge  # noqa: E402


@pytest.fixture(scope="session")
def program():
    return swarm_bridge.find_program()


@pytest.fixture(scope="session")
def finished(tmp_path_factory, program):
    """A home with one finished run of two nodes over three rounds, in the folder `h #%?` for what its name does to an address."""
    home = tmp_path_factory.mktemp("swarm") / "h #%?"
    run = swarm_bridge.up(config="4loc4ext", nodes=2, home=home, rounds=3, model="nano", device="cpu", eval_questions=4)
    assert run.wait(timeout=120)["state"] == "done"
    return home


@pytest.fixture
def home(finished, tmp_path):
    """A copy of that home, to do as one likes with."""
    copy = tmp_path / "home"
    copy.mkdir()
    shutil.copy(finished / "swarm.db", copy / "swarm.db")
    return copy


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory, monkeypatch, program):
    """No test meets the user's own swarm."""
    monkeypatch.setenv("SWARM_HOME", str(tmp_path_factory.mktemp("none") / "home"))
    monkeypatch.setenv("SWARM_PROGRAM", program)
    monkeypatch.setenv("MPLBACKEND", "agg")
