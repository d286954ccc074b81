"""What the tests share: the real program, a home of their own, and one finished run. SWARM_PROGRAM or ../bin/swarm is the program."""

import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / ".ci")]

import hermetic  # noqa: E402

hermetic.enter()  # here, since fixtures of modules and sessions start programs, too

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
