"""A run as a notebook holds it: it lives in processes of its own, so that the kernel may restart; attach() finds it again."""

import re
import shlex
import sys
import time

from . import company, database, plots, program, watching
from .errors import FAILED, LOST, NothingHere, SwarmError

RUNNING = "running"
_GOING_ON = re.compile(r"^experiment (\S+) is running already")


class Run:
    """One run: its name, the experiment it is an attempt at, and the home it is recorded under. Made by up(), join(), attach() and runs().

    invitation is the line that lets others join, a secret, of a run that up() has just started with listen=, nats= or shared=; else None (invite()
    says it again).
    """

    def __init__(self, name, experiment, home, invitation=None):
        self.name, self.experiment, self.home, self.invitation = name, experiment, home, invitation

    def __repr__(self):
        return "<run {} of {} under {}>".format(self.name, self.experiment, self.home)

    def status(self):
        """The document of `swarm status -o json`: state, round, rounds, reward, eta_seconds, nodes …"""
        return program.document(["status", self.name], self.home)

    def watch(self, interval=2.0, timeout=None):
        """Shows the run until it ends and returns its last status. In Jupyter and Colab one table changes in place; elsewhere there is a line
        for each new round. Interrupting it, or the time being up, leaves the run alone."""
        return watching.watch(self.status, interval, timeout)

    def wait(self, timeout=None, interval=1.0):
        """Waits for the run's end and returns its last status. Raises SwarmError when it failed, crashed or lost nodes (code 1 or 4), and
        TimeoutError, which leaves the run alone, after timeout seconds."""
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
                             LOST if status["state"] == "lost" else FAILED, "logs() of the run; the same up() goes on with it")
        return status

    def stop(self, now=False):
        """Stops the run in order, after a checkpoint (now: without one), and returns what `swarm down -o json` says of it. The same up() goes
        on with it. A run that doesn't run is left as it is."""
        done = program.document(["down", self.name] + ["--now"] * now, self.home)
        return done["runs"][0]

    def logs(self, node=None, lines=20, follow=False):
        """Prints the newest lines of every log of the run, or of one node's ("node_0", "coordinator"). lines may be "all". follow goes on until
        the run ends or this is interrupted."""
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
        """swarm_bridge.rows of this run alone."""
        return database.rows(table, self.name, self.home)

    def frame(self, table):
        """swarm_bridge.frame of this run alone."""
        return database.frame(table, self.name, self.home)

    def workers(self):
        """swarm_bridge.workers of this run."""
        return company.workers(self.name, self.home)

    def plot_rewards(self, **options):
        """swarm_bridge.plot_rewards of this run alone."""
        return plots.plot_rewards(self.name, home=self.home, **options)

    def plot_memory(self, **options):
        """swarm_bridge.plot_memory of this run."""
        return plots.plot_memory(self.name, home=self.home, **options)


def up(config="4loc4ext", nodes="auto", home=None, attach=False, **flags):
    """Starts `swarm up` in the background, or goes on with the newest run of that experiment and seed, and returns its Run at once.

    flags are those of `swarm up` with _ for -: rounds=40, model="nano", device="cpu", yes=True (download weights), set={"tasks.set": "nano"};
    listen=":4222" or shared="/content/drive/MyDrive/swarm" lets others join (the Run's invitation says how), sync="async" waits for nobody.
    attach: where the experiment runs already, return that run, with the settings it has. Raises SwarmError with the program's exit code, cause
    and remedy; where the run has done all its rounds already, its Run is returned.
    """
    args = ["up"] + program.arguments(dict(config=config, nodes=nodes, **flags)) + ["--detach"]
    return started(args, program.home_folder(home), attach)


def started(args, home, attach, **options):
    """The Run that a command begins in the background, or, with attach, the one that goes on already. options are program.call's."""
    try:
        told = program.document(args, home, **options)
    except SwarmError as error:
        going = _GOING_ON.match(error.message)
        if not (attach and going):
            raise
        return _recorded(going.group(1), home)
    return Run(told["run"], told["experiment"], home, _invitation(told))


def _invitation(told):
    """The line that lets others join, from the file that the program names: a pipe gets no secret. None where nobody may join."""
    if "join_file" not in told:
        return told.get("join")
    with open(told["join_file"], encoding="utf-8") as file:
        return "swarm join " + shlex.quote(file.read().strip())


def attach(name=None, home=None):
    """The Run of that name, or the newest run of that experiment; without a name the newest of all. Raises SwarmError where there is none."""
    return _recorded(name, program.home_folder(home))


def _recorded(name, home):
    status = program.document(["status"] + [name] * (name is not None), home)
    return Run(status["run"], status["experiment"], home)


def runs(experiment=None, home=None):
    """Every run that is recorded, oldest first, or those of one experiment; an empty list where nothing has run."""
    home = program.home_folder(home)
    try:
        found = database.rows("runs", experiment, home)
    except NothingHere:
        return []
    return [Run(r["run"], r["experiment"], home) for r in found]
