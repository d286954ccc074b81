"""A launcher for tests: it starts a Python trainer like the real one and speaks its side of the protocol."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent


class Launcher:
    """One trainer. grants=False leaves its lease requests unanswered. until() and rest() return events in order."""

    def __init__(self, tmp_path, script, grants=True, drain=True, **start):
        self.dir = tmp_path / "node_0"
        path = script
        if "\n" in str(script):
            path = tmp_path / "train.py"
            path.write_text(script)
        config = dict({"seed": 7, "rounds": 5, "model": "mine", "checkpoint_every": 2}, **start.pop("config", {}))
        env = dict(os.environ, SWARM_NODE="1", PYTHONPATH=str(FOLDER))
        self.child = subprocess.Popen([sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.grants, self.asked = grants, []
        self.log = b""
        self._reader = threading.Thread(target=self._drain)
        if drain:
            self._reader.start()
        self.send("start", start=dict({
            "protocol": 5, "run": "r-1", "node": "node_0", "index": 0, "members": [{"node": "node_0"}, {"node": "node_1"}], "dir": str(self.dir), "evaluated": None,
            "recorded": 0, "config": config, "device": "cpu", "threads": 1, "leased": True,
        }, **start))

    def _drain(self):
        for line in self.child.stderr:
            self.log += line

    def send(self, kind, **content):
        self.child.stdin.write(json.dumps(dict(content, type=kind)).encode() + b"\n")
        self.child.stdin.flush()

    def next(self):
        """Returns the next event, None after the last. Every line must be an event with its time."""
        line = self.child.stdout.readline()
        if not line:
            return None
        event = json.loads(line, parse_constant=lambda text: pytest_fail("not JSON: " + text))
        assert event["time"] > 0
        if event["type"] == "lease":
            self.asked.append(event["lease"])
            if self.grants:
                with contextlib.suppress(BrokenPipeError):  # it may have ended after its request
                    self.send("grant", lease=event["lease"])
        return event

    def until(self, kind):
        """Returns the next event of that type."""
        while True:
            event = self.next()
            assert event is not None, "ended without {}: {}".format(kind, self.log.decode())
            if event["type"] == kind:
                return event

    def rest(self):
        """Returns all events to the end, and the exit code."""
        events = list(iter(self.next, None))
        code = self.child.wait(timeout=20)
        if self._reader.ident:
            self._reader.join()
        return events, code

    def close(self):
        self.child.kill()
        self.child.wait()
        if self._reader.ident:
            self._reader.join()
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


def pytest_fail(text):
    raise AssertionError(text)
