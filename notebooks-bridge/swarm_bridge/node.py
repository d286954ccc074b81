"""Any Python trainer as a node: `swarm up --node-command "python3 train.py"` starts it, monitors it, leases the GPU
to it, and records it.
"""

import atexit
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager

from . import failures, meter
from .errors import USAGE, SwarmError
from .link import Link, Stopped, take_pipes
from .report import round_report

HEARTBEAT_SECONDS = 10.0  # the launcher treats two minutes of silence as a stall

STATES = ("loading", "replaying", "waiting", "generating", "scoring", "sharing", "barrier", "updating", "evaluating", "checkpoint")
CAUSES = ("own_cap", "gpu_memory", "neighbour", "host_memory")
ACTIONS = ("clear_cache", "halve_micro_batch", "gradient_checkpointing", "optimizer_offload", "param_offload", "restart_engine", "end", "cpu")


class Node:
    """This process as a node. Make one per process, before anything is printed.

            node = swarm_bridge.Node()
            model = load(node.device)
            for r in range(node.start_round, node.rounds):
                if node.stopping:
                    break
                with node.lease("update"):
                    reward, loss = train(model)
                node.round(r, reward=reward, loss=loss)

    From then on stdout belongs to the launcher, and printed text goes to the node's log. At the end of the script the
    node reports whether all rounds are done or it was stopped. For an exception, also at the end of a `with` block,
    it reports the cause: exit code 3 for lack of memory, 1 for everything else. When the launcher dies, this process
    ends within two seconds.

    Attributes: name, index, run, config (a dictionary), seed, rounds, start_round (the number of recorded rounds, so
    the first round for a trainer that can resume), dir (this node's folder, the same after a restart), device ("cpu",
    "cuda:0"), threads (for computing). peers and budget_bytes (GPU memory, 0: none) change during the run.
    """

    def __init__(self):
        if os.environ.get("SWARM_NODE") != "1":
            raise SwarmError("swarm_bridge.Node works only in a program that swarm has started", USAGE,
                             'swarm up --node-command "python3 {}"'.format(os.path.basename(sys.argv[0]) or "train.py"))
        commands, events = take_pipes()
        try:
            self._link = Link(commands, events)
        except SwarmError as error:  # the launcher already has the error
            print("Error: {}".format(error), file=sys.stderr, flush=True)
            raise SystemExit(error.code) from None
        self._owner = os.getpid()
        start = self._link.start
        self.name, self.index, self.run, self.config = start["node"], start["index"], start["run"], start["config"]
        self.seed, self.rounds = self.config.get("seed", 0), self.config.get("rounds", 0)
        self.start_round, self.dir, self.device = start.get("recorded", 0), start["dir"], start["device"]
        self.threads = start.get("threads", 0) or 1
        self._leased, self._loaded, self._over = bool(start.get("leased")), False, False
        self._done = self.start_round  # rounds
        self._since = time.monotonic()  # the last round's end
        self._waited = 0.0  # waited for leases since then
        os.makedirs(self.dir, exist_ok=True)
        self._install()
        self.state("loading")

    def _install(self):
        """Installs hooks so that the launcher gets a report however the script ends."""
        former = sys.excepthook

        def hook(kind, error, trace):
            if kind is not Stopped:
                former(kind, error, trace)
            self._exit(self._finish(error))

        sys.excepthook = hook
        atexit.register(self._finish, None)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, number, frame):
        """Treats the first SIGTERM as a stop. A second one ends the process. Any SIGTERM ends a forked child, which
        is not the node.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != self._owner:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        threading.Thread(target=self._link.stop, daemon=True).start()  # the interrupted code may hold the link's lock

    @property
    def stopping(self):
        """Whether the launcher has requested an orderly stop: finish the round, write a checkpoint, and exit."""
        return self._link.stopping.is_set()

    @property
    def peers(self):
        """The nodes that are still in the swarm, including this one."""
        return list(self._link.peers)

    @property
    def budget_bytes(self):
        return self._link.budget_bytes

    def state(self, state, round=0):
        """Reports the node's current state, one of STATES."""
        if state not in STATES:
            raise ValueError("state {!r} is not one of {}".format(state, ", ".join(STATES)))
        self._link.emit("state", state=state, round_index=int(round))

    def loaded(self, model="", parameters=0, context_length=0):
        """Reports that the model is loaded, so that the next node may load its own.

        The first round and the first lease, except a lease to load, call it automatically. From then on the launcher
        gets a heartbeat every ten seconds.
        """
        if self._loaded:
            return
        self._loaded = True
        torch = sys.modules.get("torch")
        self._link.emit("loaded", loaded={
            "model": model or self.config.get("model", ""), "parameters": int(parameters), "context_length": int(context_length),
            "torch": str(getattr(torch, "__version__", "")), "device": self.device, "seconds": time.monotonic() - self._since, "engine_pid": 0,
            "start_round": self.start_round,
        })
        self._since = time.monotonic()
        self.memory()  # here, because the thread may not run before a short training ends
        threading.Thread(target=self._beat, name="swarm-heartbeat", daemon=True).start()

    def _beat(self):
        time.sleep(HEARTBEAT_SECONDS)
        while not self._over:
            self.memory()
            time.sleep(HEARTBEAT_SECONDS)

    @contextmanager
    def lease(self, phase, bytes=0):
        """Holds a lease to compute for a phase: "load", "generate" or "update".

        bytes is the GPU memory that the phase needs beyond what the node already holds (0: as planned). Raises
        Stopped if a stop comes before the lease: let it end the script, or save and exit.
        """
        if phase not in ("load", "generate", "update"):
            raise ValueError("phase {!r} is not one of load, generate, update".format(phase))
        if phase != "load":
            self.loaded()
        if self.stopping:
            raise Stopped("stopped before a lease to " + phase)
        if not self._leased:
            yield
            return
        asked = time.monotonic()
        number = self._link.lease(phase, bytes)
        began = time.monotonic()
        self._waited += began - asked
        try:
            yield
        finally:
            self._link.release(number, phase, time.monotonic() - began)

    def round(self, number, reward, **fields):
        """Reports round `number` (from 0) with its mean reward, and loss, reward_std, kl, entropy, grad_norm,
        completions, tasks …

        report.py lists all names, docs/METRICS.md explains them. Missing and non-finite values are recorded as
        unknown. Missing step_time and lease_time are measured. Reporting a round again replaces it.
        """
        self.loaded()
        now = time.monotonic()
        fields.setdefault("step_time", now - self._since)
        fields.setdefault("lease_time", self._waited)
        report = round_report(number, reward, fields)
        self._since, self._waited = now, 0.0
        self._link.emit("round", round=report)
        self._done = max(self._done, number + 1)

    def memory(self, **fields):
        """Reports this process's memory, on the host and, if it uses torch on a GPU, on the GPU. fields add or
        replace: resident_bytes, generate_bytes, update_bytes, micro_batch …
        """
        self._link.emit("memory", memory=dict(meter.memory(self.budget_bytes), **fields))

    def memory_step(self, round, phase, action, cause="gpu_memory", **fields):
        """Reports that memory ran out in a phase, and the remedy (one of ACTIONS) with which the trainer continues.
        "end": it does not, and its process ends. With the cause "neighbour" the launcher then waits before it
        restarts the trainer.
        """
        for value, allowed in ((action, ACTIONS), (cause, CAUSES), (phase, ("load", "generate", "update"))):
            if value not in allowed:
                raise ValueError("{!r} is not one of {}".format(value, ", ".join(allowed)))
        self._link.emit("memory_step", memory_step=dict(fields, round=int(round), phase=phase, action=action, cause=cause))

    def checkpoint(self, path, round, weight_hash="", seconds=0.0, pause=0.0):
        """Reports that the node can resume from `path`, which has that many rounds. Write to a temporary name first,
        then rename.
        """
        self._link.emit("checkpoint", checkpoint={
            "round": int(round), "path": os.path.abspath(path), "bytes": _size(path), "weight_hash": weight_hash, "seconds": float(seconds),
            "pause": float(pause),
        })

    def warning(self, message):
        """Adds a line to the run's events."""
        self._link.emit("warning", message=str(message)[:2000])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        """Ends the process with the launcher's exit code if the block ended by a failure or a stop."""
        if kind is None:
            self._finish(None)
            return
        if kind in (SystemExit, KeyboardInterrupt):
            return  # exit as requested
        if kind is not Stopped:
            traceback.print_exception(kind, error, trace)
        raise SystemExit(self._finish(error)) from None

    def _finish(self, error):
        """Reports how the process ends, once, and returns the exit code."""
        if self._over:
            return 0
        self._over = True
        if error is None or isinstance(error, Stopped):
            if self._done >= self.rounds:
                self._link.emit("state", state="done", round_index=self._done)
            elif self.stopping:
                self._link.emit("state", state="stopped", round_index=self._done)
            return 0
        cause, message, code = failures.classify(error)
        self._link.emit("failure", cause=cause, message=message)
        return code

    def _exit(self, code):
        """Exits at once, without Python's own code 1. CUDA and other threads can block an orderly exit forever."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _size(path):
    """Returns the bytes of a file, or of all files in a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)
