"""Children that report when they are ready and then hold something on the card until released."""

import json
import subprocess
import sys

import child
from context import HERE, child_environment


class Held:
    """One such child of primitives.py. `fact` is the value that it reported, as soon as `ready` has returned."""

    def __init__(self, what, log, *arguments, env=None, cap=30):
        environment = child_environment(**(env or {}))
        command = [sys.executable, "-u", HERE / "primitives.py", "--what", what, *arguments]
        with open(log, "ab") as stderr:
            self._process = child.start(command, stderr, env=environment, stdin=subprocess.PIPE)
        self._what, self._log, self._cap = what, log, cap

    def ready(self):
        """Waits until it holds what it is to hold, and returns self. Several can start at the same time."""
        what, log = self._what, self._log
        try:
            for line in child.follow(self._process, self._cap):
                entry = json.loads(line) if line.startswith("{") else {}
                if "failed" in entry:
                    raise RuntimeError(f"{what}: {entry['why']}")
                if "fact" in entry:
                    self.fact = entry["value"]
                    return self
            raise RuntimeError(f"{what}: {child.last_line(log)}")
        except BaseException:
            child.kill(self._process)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._process.stdin.write(b"\n")  # an MPS client killed within a kernel would end the others, too
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass  # ValueError: ready() has failed and closed the pipe
        child.kill(self._process)
