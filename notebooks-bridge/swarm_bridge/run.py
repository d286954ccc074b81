"""A run in a notebook. The run is in its own processes, so that the kernel may restart. attach() finds it again."""

import re
import shlex
import sys
import time

from . import company, database, plots, program, watching
from .errors import FAILED, LOST, NothingHere, SwarmError

RUNNING = "running"
_GOING_ON = re.compile(r"^experiment (\S+) is running already")


class Run:
    """One run: its name, its experiment, and the home that records it. Made by up(), join(), attach() and runs().

    invitation is the line that lets others join, a secret, for a run that up() has just started with listen=, nats=
    or shared=; else None. invite() returns it again.
    """

    def __init__(self, name, experiment, home, invitation=None):
        self.name, self.experiment, self.home, self.invitation = name, experiment, home, invitation

    def __repr__(self):
        return "<run {} of {} under {}>".format(self.name, self.experiment, self.home)

    def status(self):
        """Returns the document of `swarm status -o json`: state, round, rounds, reward, eta_seconds, nodes …"""
        return program.document(["status", self.name], self.home)

    def watch(self, interval=2.0, timeout=None):
        """Shows the run until it ends and returns its last status.

        Jupyter and Colab show one table that updates in place. Elsewhere each new round is a line. Interrupting it,
        or the timeout, does not affect the run.
        """
        return watching.watch(self.status, interval, timeout)

    def wait(self, timeout=None, interval=1.0):
        """Waits for the run's end and returns its last status.

        Raises SwarmError if it failed, crashed or lost nodes (code 1 or 4). After timeout seconds it raises
        TimeoutError, which does not affect the run.
        """
        end = None if timeout is None else time.monotonic() + timeout
        status = self.status()
        while status["state"] == RUNNING:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("{} still runs after {} s, at round {} of {}".format(self.name, timeout, status["round"], status["rounds"]))
            time.sleep(interval)
            status = self.status()
        if status["state"] not in ("done", "stopped"):
            why = status.get("message") or "; ".join(sorted({n["message"] for n in status["nodes"] if n.get("message")}))
            raise SwarmError("{} is {} at round {} of {}{}".format(self.name, status["state"], status["round"], status["rounds"],
                                                                   ": " + why if why else ""),
                             LOST if status["state"] == "lost" else FAILED, "logs() of the run. The same up() continues it")
        return status

    def stop(self, now=False):
        """Stops the run cleanly, after a checkpoint (now: without one), and returns the document of `swarm down -o
        json`. The same up() resumes it. Stopping a run that isn't running does nothing.
        """
        done = program.document(["down", self.name] + ["--now"] * now, self.home)
        return done["runs"][0]

    def logs(self, node=None, lines=20, follow=False):
        """Prints the newest lines of all logs of the run, or of one ("node_0", "coordinator"). lines may be "all".
        follow continues until the run ends or is interrupted.
        """
        args = ["logs", self.name] + [node] * bool(node) + ["--lines", str(lines)]
        if follow:
            self._follow(args + ["--follow"])
        else:
            sys.stdout.write(program.call(args, self.home))

    def _follow(self, args):
        options = {"stdout": program.subprocess.PIPE, "encoding": "utf-8", "errors": "replace", "start_new_session": True}
        with program.start(args, self.home, **options) as child:
            try:
                for line in child.stdout:
                    sys.stdout.write(line)
            except KeyboardInterrupt:
                pass
            finally:
                child.terminate()

    def rows(self, table):
        """swarm_bridge.rows for this run."""
        return database.rows(table, self.name, self.home)

    def frame(self, table):
        """swarm_bridge.frame for this run."""
        return database.frame(table, self.name, self.home)

    def workers(self):
        """swarm_bridge.workers for this run."""
        return company.workers(self.name, self.home)

    def plot_rewards(self, **options):
        """swarm_bridge.plot_rewards for this run."""
        return plots.plot_rewards(self.name, home=self.home, **options)

    def plot_memory(self, **options):
        """swarm_bridge.plot_memory for this run."""
        return plots.plot_memory(self.name, home=self.home, **options)


def up(config="4loc4ext", nodes="auto", home=None, attach=False, **flags):
    """Starts `swarm up` in the background, or resumes the newest run of that experiment and seed, and returns its Run
    at once.

    flags are those of `swarm up` with _ for -: rounds=40, model="nano", device="cpu", yes=True (download weights),
    set={"tasks.set": "nano"}. listen=":4222" or shared="/content/drive/MyDrive/swarm" lets others join (the Run's
    invitation says how). sync="async" trains without waiting. attach: if the experiment is already running, return
    that run with its own settings. Raises SwarmError with the program's exit code, cause and remedy. If the run has
    already done all its rounds, its Run is returned.
    """
    args = ["up"] + program.arguments(dict(config=config, nodes=nodes, **flags)) + ["--detach"]
    return started(args, program.home_folder(home), attach)


def started(args, home, attach, **options):
    """Returns the Run that a command starts in the background, or, with attach, the one that is already running.
    options are program.call's.
    """
    try:
        told = program.document(args, home, **options)
    except SwarmError as error:
        going = _GOING_ON.match(error.message)
        if not (attach and going):
            raise
        return _recorded(going.group(1), home)
    return Run(told["run"], told["experiment"], home, _invitation(told))


def _invitation(told):
    """Returns the line that lets others join, from the file that the program names, because the program prints no
    secret to a pipe. None if others can't join.
    """
    if "join_file" not in told:
        return told.get("join")
    with open(told["join_file"], encoding="utf-8") as file:
        return "swarm join " + shlex.quote(file.read().strip())


def attach(name=None, home=None):
    """Returns the Run with that name, or the newest run of that experiment; without a name the newest of all. Raises
    SwarmError if there is none.
    """
    return _recorded(name, program.home_folder(home))


def _recorded(name, home):
    status = program.document(["status"] + [name] * (name is not None), home)
    return Run(status["run"], status["experiment"], home)


def runs(experiment=None, home=None):
    """Returns every recorded run, oldest first, or those of one experiment; an empty list if there are none."""
    home = program.home_folder(home)
    try:
        found = database.rows("runs", experiment, home)
    except NothingHere:
        return []
    return [Run(r["run"], r["experiment"], home) for r in found]
