"""Parking on the host: host buffers, and weights that move there and back.

On CUDA host buffers are page-locked, so that copies run at the speed of the bus. Page-locked memory is slow
to allocate, but torch keeps freed buffers for the next parking until `memory.trim`. It may round each buffer
up to a power of two. On the CPU the same code makes plain copies, for tests.
"""

import sys

import torch


def host_empty(like, device):
    """An uninitialized host buffer of like's shape and dtype, for copies to and from device."""
    if device.type == "cuda":
        try:
            return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        except RuntimeError as error:
            line = str(error).splitlines()[0]
            print(f"engine: no page-locked memory ({line}); copies to the host will be slow", file=sys.stderr, flush=True)
    return torch.empty(like.shape, dtype=like.dtype)


class Parking:
    """Tracks whether a model's weights are on its device or parked on the host. Running out of memory
    loses nothing.
    """

    def __init__(self, model):
        self._model = model
        self.parked = False

    def park(self):
        """Moves the weights to the host. The model must have no gradients. It cannot compute until
        `unpark`.
        """
        if self.parked:
            return
        model = self._model
        host = host_empty(model.flat, model.device)
        host.copy_(model.flat)
        model.rebase(host)
        self.parked = True

    def unpark(self):
        if not self.parked:
            return
        model, host = self._model, self._model.flat
        flat = torch.empty_like(host, device=model.device)
        flat.copy_(host)
        model.rebase(flat)
        self.parked = False


class Stage:
    """Passes two host buffers through the device, piece by piece: it fetches the next piece while the
    caller works on one.

    On CUDA the copies run on a separate stream. The constructor allocates everything, so that `pieces` cannot
    run out of memory half way.
    """

    def __init__(self, buffers, size, device):
        self._buffers, self._size = buffers, size
        self._slots = [[torch.empty(size, dtype=b.dtype, device=device) for b in buffers] for _ in range(2)]
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def pieces(self):
        """Yields (begin, end, views on the device), and writes back what the caller changed."""
        count = len(self._buffers[0])
        self._copies_wait()
        self._fetch(0)
        for index, begin in enumerate(range(0, count, self._size)):
            end = min(begin + self._size, count)
            self._work_waits()
            if end < count:
                self._fetch(index + 1)
            yield begin, end, [slot[: end - begin] for slot in self._slots[index % 2]]
            self._copies_wait()
            self._store(index, begin, end)
        self._work_waits()
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).synchronize()  # the host may read its buffers after this

    def _fetch(self, index):
        """The slot's previous piece has been stored already, on the same stream."""
        begin = index * self._size
        for slot, buffer in zip(self._slots[index % 2], self._buffers):
            source = buffer[begin : begin + self._size]
            self._copy(slot[: len(source)], source)

    def _store(self, index, begin, end):
        for slot, buffer in zip(self._slots[index % 2], self._buffers):
            self._copy(buffer[begin:end], slot[: end - begin])

    def _copy(self, target, source):
        if self._stream is None:
            target.copy_(source)
            return
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)

    def _copies_wait(self):
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))

    def _work_waits(self):
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
