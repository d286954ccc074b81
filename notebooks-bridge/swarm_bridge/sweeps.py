"""Several experiments with several seeds, one after another: `swarm sweep` in the background."""

import fcntl
import os
import re
import time

from . import page, program
from .errors import SwarmError
from .run import _recorded, runs
from .watching import Screen

_GOING_ON = re.compile(r"^(?:a sweep with )?experiment (\S+) (?:is already running|is running already)")


class Sweep:
    """A sweep in its own process. Made by sweep()."""

    def __init__(self, pid, home, log=""):
        self.pid, self.home, self.log = pid, home, log
        self._born = _birth(pid)

    def __repr__(self):
        return "<sweep, process {}, under {}>".format(self.pid, self.home)

    def running(self):
        """Whether its process is still running."""
        return self._born is not None and _birth(self.pid) == self._born

    def runs(self):
        """Returns every run under its home, oldest first."""
        return runs(home=self.home)

    def watch(self, interval=5.0, timeout=None):
        """Shows all runs under the sweep's home until it ends (in Jupyter and Colab in place) and returns their last
        statuses. Interrupting it, or the timeout, does not affect the sweep.
        """
        end = None if timeout is None else time.monotonic() + timeout
        screen = Screen()
        try:
            while True:
                over = not self.running()
                found = [run.status() for run in self.runs()]
                rows = [(s["experiment"], s["run"], s["state"], "{}/{}".format(s["round"], s["rounds"]), page.number(s["reward"]),
                         page.duration(s["eta_seconds"])) for s in found]
                columns = ("experiment", "run", "state", "round", "reward", "eta")
                line = page.line(dict(found[-1], elapsed_seconds=None, eta_seconds=None, cost=None)) if found else "no run has begun yet"
                screen.show(page.html_table(columns, rows), page.text_table(columns, rows), line)
                if over or (end is not None and time.monotonic() >= end):
                    return found
                time.sleep(interval)
        except KeyboardInterrupt:
            print("No longer watching. The sweep continues. Its stop() ends it.")
            return found

    def stop(self):
        """Stops the sweep and its current run, after a checkpoint. The same sweep() resumes it."""
        newest = _recorded(None, self.home)
        return newest.stop()


def sweep(*configs, home=None, attach=False, **flags):
    """Starts `swarm sweep` of the configurations (presets or YAML files) in the background and returns its Sweep at
    once.

    flags are those of `swarm sweep`: seeds=3, rounds=200, model="gpt2", price="1.29/h" … The same call resumes an
    interrupted sweep. attach: return such a sweep if it is already running. Raises SwarmError with the program's exit
    code, cause and remedy.
    """
    home = program.home_folder(home)
    try:
        told = program.document(["sweep"] + [os.fspath(c) for c in configs] + program.arguments(flags) + ["--detach"], home)
    except SwarmError as error:
        going = _GOING_ON.match(error.message)
        pid = _holder(home, going.group(1)) if attach and going else None
        if pid is None:
            raise
        return Sweep(pid, home)
    return Sweep(told["pid"], home, told["log"])


def _holder(home, experiment):
    """Returns the process of the sweep that holds the experiment's lock; None if the experiment runs without a sweep.
    """
    try:
        with open(os.path.join(home, "locks", experiment + ".sweep"), encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                return int(file.read())
    except (OSError, ValueError):
        return None


def _birth(pid):
    """Returns a process's start time in the kernel's ticks, which distinguishes reused PIDs. None for a missing
    process or a zombie.
    """
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
