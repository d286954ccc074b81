"""Rank 0's view of the processes of ranks 1 and up: starts them, sends calls over pipes, ends them.

They are engines like rank 0 (`python -m engine --rank R …`). They exit when their stdin closes, so that none
outlives rank 0.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time

from . import protocol
from .parallel import RankLost

_START = 120.0  # seconds for a rank to import torch from a cold disk
_GRACE = 5.0  # seconds between closing a rank's stdin and killing it
ELSEWHERE = "elsewhere"  # error kind of a rank's answer if another rank failed


class RankError(protocol.EngineError):
    """An error answer of another rank."""

    def __init__(self, rank, error):
        super().__init__(error["kind"], f"rank {rank}: {error['message']}", error.get("shortage"))


class Crew:
    """Ranks 1 to size-1, which rendezvous in the file `store_fd`, an open descriptor."""

    def __init__(self, size, store_fd):
        self._ranks = []
        try:
            for number in range(1, size):
                self._ranks.append(_Rank(number, size, store_fd))
            self.send("hello", [{"protocol": protocol.VERSION}] * (size - 1))
            self.results(self.receive(_START))
        except BaseException:
            self.close()
            raise

    def send(self, call, params):
        """Sends the call to all ranks. params has one entry per rank, in order."""
        for rank, given in zip(self._ranks, params):
            rank.send(call, given)

    def receive(self, timeout):
        """Returns the answers of all ranks to the last call, in order. Raises RankLost if one is missing."""
        return [rank.receive(timeout) for rank in self._ranks]

    @staticmethod
    def results(answers):
        """Returns the results in answers. Raises RankError if there is an error, with a rank's own error
        before secondary ones.
        """
        problems = [(i, a["error"]) for i, a in enumerate(answers, 1) if "error" in a]
        for number, problem in sorted(problems, key=lambda pair: pair[1]["kind"] == ELSEWHERE):
            raise RankError(number, problem)
        return [answer["result"] for answer in answers]

    def lost(self, error):
        """Returns a RankLost that names the rank that has ended, if one ends within a second."""
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            for rank in self._ranks:
                if rank.process.poll() is not None:
                    return RankLost(f"{rank.ending()}; {error}")
            time.sleep(0.02)
        return error

    def kill(self):
        """Kills all ranks, even stopped ones that do not see their stdin close."""
        for rank in self._ranks:
            rank.process.kill()

    def close(self):
        """Ends all ranks and returns when they are gone."""
        for rank in self._ranks:
            rank.close_stdin()
        deadline = time.monotonic() + _GRACE
        for rank in self._ranks:
            try:
                rank.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                rank.process.kill()
                rank.process.wait()
            rank.thread.join()
        self._ranks = []


class _Rank:
    def __init__(self, number, size, store_fd):
        self.number = number
        self._calls = 0
        package = os.path.dirname(os.path.abspath(__file__))
        path = os.path.dirname(package)
        if os.environ.get("PYTHONPATH"):
            path += os.pathsep + os.environ["PYTHONPATH"]
        command = [sys.executable, "-u", "-m", os.path.basename(package)]
        self.process = subprocess.Popen(
            command + ["--rank", str(number), "--ranks", str(size), "--store", str(store_fd)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(store_fd,), env=dict(os.environ, PYTHONPATH=path),
        )  # fmt: skip
        self._answers = queue.Queue()
        self.thread = threading.Thread(target=self._read, name=f"rank {number}", daemon=True)
        self.thread.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self._answers.put(line)
        self._answers.put(None)

    def send(self, call, params):
        self._calls += 1
        line = json.dumps({"id": self._calls, "call": call, "params": params}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError:
            raise RankLost(self.ending()) from None

    def receive(self, timeout):
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise RankLost(f"rank {self.number} gives no answer within {timeout:g} s") from None
        if line is None:
            raise RankLost(self.ending())
        answer = json.loads(line)
        if answer["id"] != self._calls:
            raise RankLost(f"rank {self.number} answers {answer['id']} to request {self._calls}")
        return answer

    def ending(self):
        """Text that describes how the process ended."""
        try:
            status = self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return f"rank {self.number} has closed its pipes"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"rank {self.number} {how}"

    def close_stdin(self):
        try:
            self.process.stdin.close()
        except OSError:  # the process is gone, with unsent data
            pass
