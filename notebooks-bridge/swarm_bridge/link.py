"""A trainer's end of the pipes to the launcher: one JSON object per line, commands on stdin (Go: node/protocol),
events on stdout (Go: metrics/event).
"""

import json
import os
import sys
import threading
import time

from .errors import USAGE, SwarmError

PROTOCOL = 5  # protocol.Version of node/protocol
MAX_LINE = 4 << 20  # event.MaxLine, in bytes
ORPHAN_SECONDS = 1.5  # from the end of stdin to this process's end; the launcher waits 2 s


def names(members):
    """Returns the node names in a list of protocol.Member."""
    return [member["node"] for member in members or []]


class Stopped(Exception):
    """The launcher requested an orderly stop while this process was waiting for a lease."""


class Link:
    """The pipes to the launcher. Its methods are thread-safe."""

    def __init__(self, commands, events):
        """commands and events are file descriptors, which the Link owns from now on. Raises SwarmError if the first
        line is no assignment.
        """
        self._commands = os.fdopen(commands, "rb", buffering=1 << 16)
        self._events = events
        self._owner = os.getpid()
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._granted, self._last_lease = set(), 0
        self.stopping = threading.Event()
        try:
            self.start = self._assignment()
        except SwarmError as error:
            if error.code == USAGE:
                self.emit("failure", cause="config", message=str(error))
            raise
        self.peers = names(self.start.get("members"))
        self.budget_bytes = self.start.get("budget_bytes", 0)
        threading.Thread(target=self._serve, name="swarm-commands", daemon=True).start()

    def _assignment(self):
        line = self._commands.readline(MAX_LINE)
        if not line.endswith(b"\n"):
            raise SwarmError("the launcher closed stdin before the assignment")
        unreadable = SwarmError("the first line on stdin is not an assignment: {!r}".format(line[:80]), USAGE, "swarm up --node-command")
        try:
            command = json.loads(line)
            start = command["start"]
            protocol, config = start.get("protocol"), start["config"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise unreadable from None
        if command.get("type") != "start" or protocol != PROTOCOL:
            raise SwarmError("the launcher uses protocol {}, this swarm_bridge {}".format(protocol, PROTOCOL), USAGE,
                             "the swarm_bridge of this swarm version (pip install its notebooks-bridge folder)")
        if not isinstance(config, dict):
            raise unreadable
        return start

    def _serve(self):
        """Executes commands until stdin closes. Then this process has to end, whatever its other threads do."""
        while True:
            line = self._commands.readline(MAX_LINE)
            if not line.endswith(b"\n"):
                break
            try:
                self._obey(json.loads(line))
            except (ValueError, AttributeError, TypeError, KeyError) as error:
                print("swarm_bridge: unreadable command: {!r}".format(error), file=sys.stderr)
        self.orphaned()

    def _obey(self, command):
        kind = command.get("type")
        with self._changed:
            if kind == "stop":
                self.stopping.set()
            elif kind == "grant":
                self._granted.add(command["lease"]["id"])
            elif kind == "members":
                self.peers = names(command.get("members"))
            elif kind == "budget":
                self.budget_bytes = command.get("budget_bytes", 0)
            self._changed.notify_all()

    def stop(self):
        """Executes the launcher's stop command."""
        with self._changed:
            self.stopping.set()
            self._changed.notify_all()

    def orphaned(self):
        """Ends this process: the launcher has ended, and the GPU memory is needed elsewhere."""
        try:
            self.stop()  # a trainer that checks for a stop may still save
            time.sleep(ORPHAN_SECONDS)
        finally:
            os._exit(1)  # print nothing: stderr went to the launcher, too

    def emit(self, kind, **content):
        """Sends one event with the current time. A forked child's events are dropped, because it is not the node."""
        if os.getpid() != self._owner:
            return
        line = json.dumps(dict(content, type=kind, time=time.time()), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise ValueError("an event of {} bytes, more than {}".format(len(line), MAX_LINE))
        try:
            with self._writing:
                while line:
                    line = line[os.write(self._events, line):]
        except BrokenPipeError:
            self.orphaned()

    def lease(self, phase, count):
        """Requests a lease to compute and waits for it. Returns the lease's number for release(). Raises Stopped on a
        stop.
        """
        with self._changed:
            self._last_lease += 1
            number = self._last_lease
        self.emit("lease", lease={"id": number, "phase": phase, "bytes": int(count)})
        with self._changed:
            while number not in self._granted and not self.stopping.is_set():
                self._changed.wait(1.0)  # with a timeout, so that signal handlers run
            granted = number in self._granted and not self.stopping.is_set()
            self._granted.discard(number)
        if not granted:
            self.release(number, phase, 0.0)  # withdraws a request or returns a grant
            raise Stopped("stopped while waiting for a lease to " + phase)
        return number

    def release(self, number, phase, seconds):
        self.emit("release", lease={"id": number, "phase": phase, "seconds": seconds})


def take_pipes():
    """Returns the descriptors of stdin and stdout for a Link, which owns them from then on.

    Afterward, output to stdout from this process or its children, including C code, goes to stderr. Reading stdin
    returns nothing.
    """
    sys.stdout.flush()
    commands, events = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, events
