"""The two pipes to the parent: bounded request lines in, answer lines out. Must not import torch.

The engine must not outlive its parent. When stdin ends, or the parent's pid changes, the process ends
(ending.py), even during a call: torch releases the interpreter's lock while it computes, so that these
threads can run.
"""

import os
import queue
import select
import threading
import time

TOO_LONG = object()


class Requests:
    """Reads lines of fd on a separate thread. get() returns them in order, TOO_LONG for one beyond limit
    bytes.
    """

    def __init__(self, fd, limit, on_end):
        self._fd = fd
        self._limit = limit
        self._on_end = on_end
        self._lines = queue.Queue()
        self._thread = threading.Thread(target=self._read, name="requests", daemon=True)

    def start(self):
        self._thread.start()

    def get(self):
        return self._lines.get()

    def wake(self):
        """Makes get() return an empty line, which is not a request."""
        self._lines.put(b"")

    def _read(self):
        parts, size, skipping = [], 0, False
        while True:
            try:
                data = os.read(self._fd, 1 << 20)
            except OSError:
                data = b""
            if not data:
                self._on_end()
                return
            *ended, rest = data.split(b"\n")
            for piece in ended:
                if skipping or size + len(piece) > self._limit:
                    self._lines.put(TOO_LONG)
                else:
                    self._lines.put(b"".join(parts) + piece)
                parts, size, skipping = [], 0, False
            size += len(rest)
            if size > self._limit:
                parts, skipping = [], True
            elif rest:
                parts.append(rest)


def watch_parent(on_end, period=0.5):
    """Calls on_end from a daemon thread once this process has another parent."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(period)
        on_end()

    threading.Thread(target=watch, name="parent", daemon=True).start()


def watch_process(pidfd, on_end):
    """Calls on_end from a daemon thread once the process of that descriptor has ended."""

    def watch():
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while not poll.poll():
            pass
        on_end()

    threading.Thread(target=watch, name="owner", daemon=True).start()


def take_stdout():
    """Returns a private descriptor of stdout and points fd 1 at stderr, so that a stray print cannot
    break the protocol.
    """
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    os.dup2(2, 1)
    return answers


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
