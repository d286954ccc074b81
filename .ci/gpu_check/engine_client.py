"""A client of the engine's protocol (node/policy/protocol.go): one JSON object per line over its stdin and stdout."""

import json
import os
import select
import subprocess
import sys
import time

import child
from context import POLICY, child_environment

sys.path.append(str(POLICY))

from engine.protocol import VERSION  # noqa: E402 - the engine's own


class EngineError(Exception):
    def __init__(self, error):
        super().__init__(error.get("message", "?"))
        self.kind = error.get("kind", "?")
        self.shortage = error.get("shortage")


class Engine:
    """A running engine. Use it in a with statement, which closes or, if needed, kills it at the end."""

    def __init__(self, log=None):
        """log is the path of a file to which the engine's stderr is appended."""
        with open(log or os.devnull, "ab") as stderr:
            self._process = child.start(
                [sys.executable, "-u", "-m", "engine"], stderr, cwd=POLICY, env=child_environment(), stdin=subprocess.PIPE
            )
        self._buffer = b""
        self._number = 0
        self.hello = self.call("hello", protocol=VERSION)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._process.stdin.close()  # tells the engine to exit
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        child.kill(self._process)

    def call(self, name, timeout=child.STALL, **params):
        """Returns the result of one call. Raises EngineError for an error from the engine, RuntimeError if it doesn't
        answer.
        """
        self._number += 1
        request = json.dumps({"id": self._number, "call": name, "params": params})
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise RuntimeError("the engine has ended") from None
        answer = json.loads(self._line(time.monotonic() + timeout))
        if answer.get("error"):
            raise EngineError(answer["error"])
        return answer["result"]

    def _line(self, deadline):
        while b"\n" not in self._buffer:
            if not select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                child.kill(self._process)
                raise RuntimeError("the engine did not answer in time")
            piece = os.read(self._process.stdout.fileno(), 1 << 20)
            if not piece:
                raise RuntimeError(f"the engine ended with {self._process.wait(10)}")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line
