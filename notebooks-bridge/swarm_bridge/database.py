"""Reads the database, swarm.db under the home, while other processes may write it. It never writes."""

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

from .errors import USAGE, NothingHere, SwarmError
from .program import home_folder

# Table names of rows() and frame(), and the database's tables (docs/METRICS.md has every column, unit and formula).
TABLES = {
    "runs": "runs", "nodes": "nodes", "rounds": "rounds", "tasks": "task_rewards", "peers": "peers", "memory": "memory", "devices": "devices",
    "checkpoints": "checkpoints", "events": "events", "evals": "evals", "eval_questions": "eval_questions", "attempts": "attempts",
    "task_rewards": "task_rewards", "imports": "imports", "imported_rounds": "imported_rounds",
    "workers": "workers",
}

APPLICATION_ID = 0x5357524D  # "SWRM" in SQLite's header
BUSY_SECONDS = 5.0  # a longer lock is an error


def rows(table, run=None, home=None):
    """Returns the rows of a table as dictionaries by column: "rounds", "memory", "evals", "tasks", "events", "runs" …
    (TABLES).

    run is a run or an experiment, or a list of them; None: all. Every row, except those of runs, begins with its
    run's experiment and seed. A value that was not a number is None. The column non_finite says what it was. Raises
    SwarmError for an unknown table, a run that isn't recorded, and a database that is missing, locked or not swarm's.
    """
    columns, values = _table(table, run, home)
    return [dict(zip(columns, v)) for v in values]


def frame(table, run=None, home=None):
    """Returns rows() in a pandas.DataFrame. Raises SwarmError without pandas, which rows() doesn't need."""
    pandas = _pandas("rows({!r})".format(table))
    columns, values = _table(table, run, home)
    return pandas.DataFrame(values, columns=columns)


def frame_of(dictionaries):
    """Returns existing rows in a pandas.DataFrame."""
    return _pandas("the list itself").DataFrame(dictionaries)


def _pandas(otherwise):
    try:
        import pandas
    except ImportError:
        raise SwarmError("a frame needs pandas", remedy="pip install pandas, or {} without it".format(otherwise)) from None
    return pandas


def _table(table, run, home):
    """Returns the columns of a table and its rows as tuples."""
    if table not in TABLES:
        raise SwarmError("unknown table {!r}: allowed: {}".format(table, ", ".join(TABLES)), USAGE)
    path = os.path.join(home_folder(home), "swarm.db")
    names = [run] if isinstance(run, str) else run
    try:
        with closing(_open(path)) as db:
            _check(db, path)
            db.execute("BEGIN")  # one snapshot for all queries
            runs = _runs(db, names)
            if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLES[table],)).fetchone():
                raise SwarmError("{} has no {}, because an older swarm wrote it".format(path, table), USAGE,
                                 "start any run with this swarm, which updates the schema")
            return _read(db, TABLES[table], runs)
    except sqlite3.Error as error:
        raise _explain(path, error) from error


def _open(path):
    if not os.path.exists(path):
        raise NothingHere("nothing has run under {} yet".format(os.path.dirname(path)), USAGE, "swarm_bridge.up(), or another home")
    return sqlite3.connect("file:{}?mode=ro".format(quote(path)), uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _check(db, path):
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():  # swarm up is creating it
        raise NothingHere("nothing has run under {} yet".format(os.path.dirname(path)), USAGE, "swarm_bridge.up(), or another home")
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise SwarmError("{} is not a swarm database".format(path), USAGE, "another home")


def _runs(db, names):
    """Returns run, experiment and seed of the runs with those names, oldest first."""
    found = db.execute("SELECT run, experiment, seed FROM runs ORDER BY started, run").fetchall()
    if names is None:
        return found
    for name in names:
        if not any(name in r[:2] for r in found):
            raise SwarmError("no run or experiment {!r} is recorded".format(name), USAGE, "swarm_bridge.runs(), which lists the runs")
    return [r for r in found if r[0] in names or r[1] in names]


def _read(db, table, runs):
    columns = [c[1] for c in db.execute('PRAGMA table_info("{}")'.format(table))]
    values = []
    for run, experiment, seed in runs:
        head = () if table == "runs" else (experiment, seed)
        values += [head + row for row in db.execute('SELECT * FROM "{}" WHERE run = ?'.format(table), (run,))]
    return ([] if table == "runs" else ["experiment", "seed"]) + columns, values


def _explain(path, error):
    text = str(error)
    if "locked" in text or "busy" in text:
        return SwarmError("{} is locked by another process".format(path), remedy="the same call again, because swarm locks it only briefly")
    if "not a database" in text or "malformed" in text:
        return SwarmError("{} is not a swarm database, or is damaged ({})".format(path, text), USAGE, "another home")
    return SwarmError("{} can't be read: {}".format(path, text))
