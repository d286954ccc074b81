"""Several experiments with several seeds, one after the other: `swarm sweep` in the background."""

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
    """A sweep that goes on in a process of its own. Made by sweep()."""

    def __init__(self, pid, home, log=""):
        self.pid, self.home, self.log = pid, home, log
        self._born = _birth(pid)

    def __repr__(self):
        return "<sweep, process {}, under {}>".format(self.pid, self.home)

    def running(self):
        """Whether its process still runs."""
        return self._born is not None and _birth(self.pid) == self._born

    def runs(self):
        """Every run under its home, oldest first."""
        return runs(home=self.home)

    def watch(self, interval=5.0, timeout=None):
        """Shows all runs under the sweep's home until it ends (in Jupyter and Colab in place) and returns their last statuses. Interrupting it,
        or the time being up, leaves the sweep alone."""
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
            print("No longer watching; the sweep goes on. Its stop() ends it.")
            return found

    def stop(self):
        """Stops the sweep with the run that it is at, after a checkpoint. The same sweep() goes on with it."""
        newest = _recorded(None, self.home)
        return newest.stop()


def sweep(*configs, home=None, attach=False, **flags):
    """Starts `swarm sweep` of the configurations (presets or YAML files) in the background and returns its Sweep at once. flags are those of
    `swarm sweep`: seeds=3, rounds=200, model="gpt2", price="1.29/h" … The same call goes on with a sweep that was interrupted.

    attach: where such a sweep goes on already, return it. Raises SwarmError with the program's exit code, cause and remedy.
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
    """The process of the sweep that has the experiment now, by the lock that it holds; None where it runs by itself."""
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
    """When a process began, in the kernel's ticks: a pid that is used again has another. None where there is none, or a zombie."""
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
