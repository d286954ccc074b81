"""Copies of a trainer's state on the host, and the thread that writes one of them while training goes on.

A copy is 12 bytes a parameter once Adam has moments: its buffers are got for each save and given back after it, since eight
nodes of GPT-2 that kept theirs would hold 12 GB. New pages make the copy take about twice as long (bench_checkpoint.py); huge pages
would be cheaper, but the host of a virtual machine may take free ones back, and the copy then takes longer than with small ones.
"""

import sys

import torch

from . import shortage
from .aside import start
from .protocol import bad

ROOM = 1.5  # a copy is taken only where the host has room for so many of it: the file's own pages need some, and so do others


def copy(tensors):
    """A copy on the host of {name: tensor or None}, on any device; None where the host's memory has no room for it."""
    found = [tensor for tensor in tensors.values() if tensor is not None]
    size = sum(tensor.numel() * tensor.element_size() for tensor in found)
    if ROOM * size > shortage.host_room():
        return None
    try:
        return {name: None if tensor is None else _copy(tensor.detach()) for name, tensor in tensors.items()}
    except (MemoryError, RuntimeError) as error:
        if shortage.is_out_of_memory(error):
            return None
        raise


def _copy(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)


class Writer:
    """At most one save in the background, and its outcome until it has been asked for.

    A save that runs out of memory beside a training step is made once more, from its copy, when nothing else runs.
    """

    def __init__(self):
        self._thread = self._result = self._error = self._again = None
        self._begun = False
        self._pause = 0.0

    def begin(self, work, pause):
        """Runs work() -> result object on a thread; pause is what the save has held up the caller, in seconds."""
        self.settle()
        if self._error is not None:
            print(f"engine: a save in the background failed, and nobody asked: {self._error}", file=sys.stderr, flush=True)
        self._result, self._error, self._pause = None, None, pause
        self._begun, self._thread = True, start(self._run, work)
        if self._thread is None:
            self._run(work)

    def _run(self, work):
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is asked for
            error.__traceback__ = error.__context__ = None  # their frames hold the copy
            self._error = error
            if shortage.is_out_of_memory(error):
                self._again = work

    def settle(self):
        """Waits until nothing is being written. The outcome stays to be asked for."""
        if self._thread is not None:
            self._thread.join()
        if self._again is not None:
            work, self._again, self._error = self._again, None, None
            self._run(work)
            self._again = None  # it is not tried a third time, and its copy is in the way of others

    def outcome(self, wait):
        """The result of the save, given once, or its error; None while it is being written and wait is not set."""
        if not self._begun:
            raise bad("no checkpoint is being written in the background, or its result has been given")
        if not wait and self._thread is not None and self._thread.is_alive():
            return None
        self.settle()
        result, error = self._result, self._error
        self._begun, self._thread, self._result, self._error = False, None, None, None
        if error is not None:
            raise error
        return dict(result, pause=self._pause)

    @property
    def pause(self):
        return self._pause
