"""Shared fixtures: the real program, a separate home, and one finished run. The program is SWARM_PROGRAM or
../bin/swarm.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / ".ci")]

import hermetic  # noqa: E402

hermetic.enter()  # here, because module and session fixtures start programs, too

import swarm_bridge  # noqa: E402


@pytest.fixture(scope="session")
def program():
    return swarm_bridge.find_program()


@pytest.fixture(scope="session")
def finished(tmp_path_factory, program):
    """A home with one finished run of two nodes over three rounds. Its folder `h #%?` has characters with a meaning
    in URIs.
    """
    home = tmp_path_factory.mktemp("swarm") / "h #%?"
    run = swarm_bridge.up(config="4loc4ext", nodes=2, home=home, rounds=3, model="nano", device="cpu", eval_questions=4)
    assert run.wait(timeout=120)["state"] == "done"
    return home


@pytest.fixture
def home(finished, tmp_path):
    """A copy of that home, which a test may change."""
    copy = tmp_path / "home"
    copy.mkdir()
    shutil.copy(finished / "swarm.db", copy / "swarm.db")
    return copy


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory, monkeypatch, program):
    """Isolates tests from the user's own swarm."""
    monkeypatch.setenv("SWARM_HOME", str(tmp_path_factory.mktemp("none") / "home"))
    monkeypatch.setenv("SWARM_PROGRAM", program)
    monkeypatch.setenv("MPLBACKEND", "agg")
