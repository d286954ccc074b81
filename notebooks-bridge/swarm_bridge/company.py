"""Swarms of several people: join one that somebody coordinates, let others in, and see who takes part."""

import re

from . import page, program, run
from .errors import USAGE, SwarmError

COLUMNS = ("worker", "state", "nodes", "rounds", "device", "host", "useful", "drawn", "refused", "reason")
_CONNECTED = re.compile(r"worker (\S+) is already connected")
_INVITATION = re.compile(r"(?:tls|nats)://[^\s'\"]+")


def join(invitation=None, shared=None, experiment=None, node_id=None, home=None, attach=False, **flags):
    """Starts `swarm join` in the background, or goes on with this host's part in that swarm, and returns its Run: called RUN.WORKER, it is what
    this host trains, recorded here as well as at the coordinator.

    invitation is what the coordinator handed out, the whole line or what join takes; else $SWARM_JOIN. It is never among the arguments of a
    process. With shared and experiment the swarm is one that a synced folder carries: this waits for the experiment to appear there, says so,
    and may be interrupted. flags are those of `swarm join`: nodes=1, name="anna", model="gpt2", generate_only=True … attach: where this
    host's part runs already, return it. Raises SwarmError with the program's exit code, cause and remedy.
    """
    if invitation and shared:
        raise SwarmError("an invitation and shared= are two ways into two swarms", USAGE, "one of them")
    home, environment = program.home_folder(home), {}
    if invitation:
        environment = {"SWARM_JOIN": bare(invitation), "GDRIVE_PATH": ""}  # the predecessor's folder would come first
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
    """The Run under this home that is that worker's part in a swarm and goes on now; None where there is none, or several."""
    if not worker:
        return None
    begins, ends = experiment + "-" if experiment else "", "." + worker
    parts = [r for r in run.runs(home=home) if r.experiment.startswith(begins) and r.experiment.endswith(ends)]
    going = [r for r in parts if r.status()["state"] == run.RUNNING]
    return going[0] if len(going) == 1 else None


def bare(text):
    """What `swarm join` takes, of a line that was handed out: as printed, or that alone. What holds none is left as it is: the program says why."""
    found = _INVITATION.search(text)
    return found.group(0) if found else text.strip()


def invite(name=None, once=False, home=None):
    """The line that lets others join this home's swarms, a secret: that which `up` prints, or with a name one for that worker alone; once: it
    works a single time. Raises SwarmError where no swarm of this home has been open to others over a network."""
    args = ["workers", "invite"] + [name] * bool(name) + ["--once"] * once
    return program.call(args, program.home_folder(home)).strip()


class Workers(list):
    """The rows of `swarm workers -o json`, a dictionary a host that joined, shown as a table in a notebook. run is whose they are, listed are
    those who may join or may not any more."""

    def __init__(self, document):
        super().__init__(document["workers"])
        self.run, self.listed = document["run"], document["listed"]

    def _repr_html_(self):
        return page.html_table(COLUMNS, self._cells())

    def __str__(self):
        return page.text_table(COLUMNS, self._cells())

    def frame(self):
        """Its rows in a pandas.DataFrame."""
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
    """The Workers of a run or of an experiment's newest; without a name those of the newest run of all. On a host that has joined there are none:
    the coordinator knows them. Raises SwarmError for a run that isn't recorded and where nothing has run."""
    return Workers(program.document(["workers"] + [name] * (name is not None), program.home_folder(home)))
