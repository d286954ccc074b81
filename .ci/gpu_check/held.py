"""Children that say they are ready and then hold something of the card until they are let go."""

import json
import subprocess
import sys

import child
from context import HERE, child_environment


class Held:
    """One such child of primitives.py. `fact` is the value it was ready with."""

    def __init__(self, what, log, *arguments, env=None, cap=30):
        environment = child_environment(**(env or {}))
        command = [sys.executable, "-u", HERE / "primitives.py", "--what", what, *arguments]
        with open(log, "ab") as stderr:
            self._process = child.start(command, stderr, env=environment, stdin=subprocess.PIPE)
        try:
            for line in child.follow(self._process, cap):
                entry = json.loads(line) if line.startswith("{") else {}
                if "failed" in entry:
                    raise RuntimeError(f"{what}: {entry['why']}")
                if "fact" in entry:
                    self.fact = entry["value"]
                    return
            raise RuntimeError(f"{what}: {child.last_line(log)}")
        except BaseException:
            child.kill(self._process)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._process.stdin.write(b"\n")  # killed within a kernel, an MPS client takes the others along
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        child.kill(self._process)
