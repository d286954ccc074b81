"""Copies of a trainer's state on the host, and the thread that writes a copy while training continues.

A copy is 12 bytes a parameter once Adam has moments. Its buffers are allocated for each save and freed after
it, because eight nodes of GPT-2 that kept theirs would hold 12 GB. With new pages the copy takes about twice
as long (bench_checkpoint.py). Huge pages would be cheaper, but the host of a virtual machine may take free
ones back, and the copy then takes longer than with small pages.
"""

import sys

import torch

from . import shortage
from .aside import start
from .protocol import bad

ROOM = 1.5  # copies that must fit host memory before one is made: the file's own pages and other processes need memory too


def copy(tensors):
    """A host copy of {name: tensor or None} from any device, None if host memory does not suffice."""
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
    """At most one background save, and its outcome until a call requests it.

    A save that runs out of memory during a training step is repeated once from its copy, when nothing else
    runs.
    """

    def __init__(self):
        self._thread = self._result = self._error = self._again = None
        self._begun = False
        self._pause = 0.0

    def begin(self, work, pause):
        """Runs work() -> result object on a thread. pause is the time that the save has blocked the
        caller, in seconds.
        """
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
        """Waits until nothing is being written. The outcome stays available."""
        if self._thread is not None:
            self._thread.join()
        if self._again is not None:
            work, self._again, self._error = self._again, None, None
            self._run(work)
            self._again = None  # no third try, and its copy uses memory

    def outcome(self, wait):
        """The result of the save, returned once, or its error. None while it is being written and wait is
        not set.
        """
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
