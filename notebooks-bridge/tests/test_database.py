"""Reading the database: real ones, and other files in its place."""

import sqlite3
import sys

import pytest

import swarm_bridge
from swarm_bridge import database


def test_every_table_can_be_read(finished):
    for table in swarm_bridge.TABLES:
        assert isinstance(swarm_bridge.rows(table, home=finished), list), table
    assert len(swarm_bridge.rows("rounds", home=finished)) == 6  # two nodes, three rounds
    first = swarm_bridge.rows("rounds", home=finished)[0]
    assert (first["experiment"], first["seed"], first["round"], first["node"]) == ("4loc4ext", 42, 0, "node_0")
    assert {row["task"] for row in swarm_bridge.rows("tasks", home=finished)}
    assert {row["type"] for row in swarm_bridge.rows("events", home=finished)} >= {"spawn", "exit"}
    assert {(row["node"], row["round"]) for row in swarm_bridge.rows("evals", home=finished)} >= {("node_0", 3), ("node_1", 3)}


def test_a_frame_is_the_rows(finished):
    frame = swarm_bridge.frame("rounds", run="4loc4ext", home=finished)
    rows = swarm_bridge.rows("rounds", run=["4loc4ext-1"], home=finished)
    assert list(frame.columns) == list(rows[0]) and frame["reward"].tolist() == [r["reward"] for r in rows]
    assert len(frame.groupby("node")) == 2


def test_a_frame_of_nothing_has_its_columns(finished):
    frame = swarm_bridge.frame("devices", home=finished)  # a run on a CPU has none
    assert len(frame) == 0 and "memory_total_bytes" in frame.columns


def test_without_pandas_there_is_a_remedy(finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(swarm_bridge.SwarmError, match="needs pandas. Try: pip install pandas, or rows"):
        swarm_bridge.frame("rounds", home=finished)
    assert swarm_bridge.rows("rounds", home=finished)


def test_an_unknown_table_names_those_there_are(finished):
    with pytest.raises(swarm_bridge.SwarmError, match="unknown table 'x; DROP': allowed: runs, nodes, rounds") as told:
        swarm_bridge.rows("x; DROP", home=finished)
    assert told.value.code == 2


def test_nothing_is_written_and_nothing_made(home, tmp_path):
    before = (home / "swarm.db").read_bytes()
    swarm_bridge.rows("rounds", home=home)
    assert (home / "swarm.db").read_bytes() == before
    with pytest.raises(swarm_bridge.NothingHere, match="nothing has run under"):
        swarm_bridge.rows("rounds", home=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_database_that_is_being_written_is_read(home):
    writer = sqlite3.connect(str(home / "swarm.db"), isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE rounds SET reward = 0.5")
        assert {r["reward"] for r in swarm_bridge.rows("rounds", home=home)} != {0.5}
        writer.execute("COMMIT")
        assert {r["reward"] for r in swarm_bridge.rows("rounds", home=home)} == {0.5}
    finally:
        writer.close()


def test_a_locked_database_is_told_within_bounds(home, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    writer = sqlite3.connect(str(home / "swarm.db"), isolation_level=None)
    try:
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE rounds SET reward = 1")
        with pytest.raises(swarm_bridge.SwarmError, match="is locked by another process. Try: the same call again"):
            swarm_bridge.rows("rounds", home=home)
    finally:
        writer.close()


def test_another_file_is_refused(tmp_path):
    (tmp_path / "swarm.db").write_bytes(b"not a database at all, but a text of some length" * 9)
    with pytest.raises(swarm_bridge.SwarmError, match="is not a swarm database") as told:
        swarm_bridge.rows("rounds", home=tmp_path)
    assert told.value.code == 2


def test_a_database_that_is_being_made_has_nothing_yet(tmp_path):
    (tmp_path / "swarm.db").write_bytes(b"")
    with pytest.raises(swarm_bridge.NothingHere, match="nothing has run under"):
        swarm_bridge.rows("rounds", home=tmp_path)


def test_somebody_elses_database_is_refused(tmp_path):
    db = sqlite3.connect(str(tmp_path / "swarm.db"))
    db.execute("CREATE TABLE runs (run, experiment, seed, started)")
    db.close()
    with pytest.raises(swarm_bridge.SwarmError, match="is not a swarm database"):
        swarm_bridge.rows("runs", home=tmp_path)


def test_a_table_that_an_older_swarm_did_not_have_is_told(home):
    db = sqlite3.connect(str(home / "swarm.db"))
    db.execute("DROP TABLE task_rewards")
    db.close()
    with pytest.raises(swarm_bridge.SwarmError, match="has no tasks, because an older swarm"):
        swarm_bridge.rows("tasks", home=home)


def test_a_damaged_database_is_told(home):
    data = bytearray((home / "swarm.db").read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    (home / "swarm.db").write_bytes(data)
    with pytest.raises(swarm_bridge.SwarmError, match="damaged|can't be read|is not a swarm database"):
        swarm_bridge.rows("rounds", home=home)
