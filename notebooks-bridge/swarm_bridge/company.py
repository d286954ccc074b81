"""Swarms across hosts: join a swarm, invite others, and list the workers."""

import re

from . import page, program, run
from .errors import USAGE, SwarmError

COLUMNS = ("worker", "state", "nodes", "rounds", "device", "host", "useful", "drawn", "refused", "reason")
_CONNECTED = re.compile(r"worker (\S+) is already connected")
_INVITATION = re.compile(r"(?:tls|nats)://[^\s'\"]+")


def join(invitation=None, shared=None, experiment=None, node_id=None, home=None, attach=False, **flags):
    """Starts `swarm join` in the background, or resumes this host's part in that swarm. Returns its Run, called
    RUN.WORKER. The part is recorded here and at the coordinator.

    invitation is the coordinator's whole line or only the invitation in it; default: $SWARM_JOIN. It is never passed
    in process arguments. With shared and experiment, the swarm uses a synced folder. Then join prints that it waits
    for the experiment to appear there, and can be interrupted. flags are those of `swarm join`: nodes=1, name="anna",
    model="gpt2", generate_only=True … attach: return this host's part if it is already running. Raises SwarmError
    with the program's exit code, cause and remedy.
    """
    if invitation and shared:
        raise SwarmError("an invitation and shared= exclude each other", USAGE, "one of them")
    home, environment = program.home_folder(home), {}
    if invitation:
        environment = {"SWARM_JOIN": bare(invitation), "GDRIVE_PATH": ""}  # otherwise rl-swarm's folder would win
    found = _here(home, experiment, flags.get("name") or node_id) if attach else None
    if found:
        return found
    args = ["join"] + program.arguments(dict(shared=shared, experiment=experiment, node_id=node_id, **flags)) + ["--detach"]
    try:
        return run.started(args, home, attach, extra=environment, told=print)
    except SwarmError as error:
        connected = _CONNECTED.search(error.message)
        found = _here(home, experiment, connected.group(1)) if attach and connected else None
        if found is None:
            raise
        return found


def _here(home, experiment, worker):
    """Returns the running Run under this home that is the worker's part in a swarm; None if there is none, or
    several.
    """
    if not worker:
        return None
    begins, ends = experiment + "-" if experiment else "", "." + worker
    parts = [r for r in run.runs(home=home) if r.experiment.startswith(begins) and r.experiment.endswith(ends)]
    going = [r for r in parts if r.status()["state"] == run.RUNNING]
    return going[0] if len(going) == 1 else None


def bare(text):
    """Returns the invitation in a line from the coordinator, which may be the whole line. Other text is returned
    unchanged, so that the program reports the error.
    """
    found = _INVITATION.search(text)
    return found.group(0) if found else text.strip()


def invite(name=None, once=False, home=None):
    """Returns a line that lets others join this home's swarms. It is a secret.

    Without a name it is the line that `up` prints, with a name one for that worker alone. once: it works a single
    time. Raises SwarmError if no swarm of this home has been open to others over a network.
    """
    args = ["workers", "invite"] + [name] * bool(name) + ["--once"] * once
    return program.call(args, program.home_folder(home)).strip()


class Workers(list):
    """The rows of `swarm workers -o json`, one dictionary per worker, shown as a table in a notebook. run is the
    run's name. listed are the workers and invitations with access, and the revoked ones.
    """

    def __init__(self, document):
        super().__init__(document["workers"])
        self.run, self.listed = document["run"], document["listed"]

    def _repr_html_(self):
        return page.html_table(COLUMNS, self._cells())

    def __str__(self):
        return page.text_table(COLUMNS, self._cells())

    def frame(self):
        """Returns the rows in a pandas.DataFrame."""
        from .database import frame_of
        return frame_of(list(self))

    def _cells(self):
        return [_cells(row) for row in self]


def _cells(row):
    useful = row["useful_ratio"]
    return (row["worker"], row["state"], str(row["nodes"]), str(row["rounds"]), row["device"], row["host"],
            "–" if useful is None else "{:.0f} %".format(100 * useful), str(row["rollouts_used"]), str(row["refused"]),
            " ".join(row["reason"].split()))


def workers(name=None, home=None):
    """Returns the Workers of a run or of an experiment's newest run. Without a name: the newest run of all.

    A joined host has none, because only the coordinator records them. Raises SwarmError if the run isn't recorded, or
    if there are no runs.
    """
    return Workers(program.document(["workers"] + [name] * (name is not None), program.home_folder(home)))
