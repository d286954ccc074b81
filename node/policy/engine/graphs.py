"""Decoding in steps of fixed shape, and CUDA graphs to run them: a step of a small model is hundreds of short kernels,
and launching them one by one takes the host several times longer than the device needs to run them.

In a static step everything that changes lives on the device: the tokens, the counter of the step, the random numbers.
Own positions are looked at in a window of a multiple of BUCKET, and those not yet written are masked by the counter. So
one graph serves up to BUCKET steps; a wider window, or fewer rows, needs another. Sources: CUDA programming guide, CUDA
graphs; torch's notes on them ("Constraints", "Graph memory management").
"""

import sys
import warnings

import torch

from .shortage import is_out_of_memory

BUCKET = 64  # own positions
LOOK = 16  # steps between two looks at which rows have ended


class StaticSteps:
    """The same steps as generate.EagerSteps, with shapes and addresses that stay while the window and the rows do."""

    look = LOOK
    compact_below = 0.5  # rows are cheap where reading the weights is what takes time, and a graph is not

    def __init__(self, decoder, draws, graphs):
        """graphs runs the steps: Graphs, or anything with its `run` and `close`."""
        self._decoder, self._draws, self._graphs = decoder, draws, graphs
        self._at = torch.zeros(1, dtype=torch.long, device=decoder.model.device)  # number of the last token drawn
        self._places = torch.arange(max(1, decoder.steps - 1), device=decoder.model.device)

    def first(self):
        self._token = self._draws.draw(self._decoder.prefill(), self._at, self._decoder.rows)
        self._decoder.allocate()

    def next(self):
        decoder = self._decoder
        window = min(-(-(decoder.written + 1) // BUCKET) * BUCKET, decoder.steps - 1)
        self._graphs.run((window, len(decoder.row_list)), lambda: self._step(window))
        decoder.written += 1

    def _step(self, window):
        beyond = self._places[:window] > self._at
        mask = torch.zeros(window, dtype=self._decoder.model.dtype, device=beyond.device).masked_fill_(beyond, float("-inf"))
        logits = self._decoder.step(self._token, self._at, window, mask)
        self._at += 1
        self._token.copy_(self._draws.draw(logits, self._at, self._decoder.rows))

    def compact(self, alive):
        index = self._decoder.compact(alive, self.compact_below)
        if index is not None:
            self._token = self._token.index_select(0, index)

    def close(self):
        self._graphs.close()


class Graphs:
    """Runs functions from CUDA graphs, one at a time, on one device.

    A function of a new kind is first run as it is, on the stream of the capture, so that libraries load their kernels and
    get their workspaces; the next run captures and replays it, later ones replay. Only one graph is alive at any time, and one stream
    serves all captures: cuBLAS keeps a workspace for each stream, and some versions of torch take that of all graphs of a
    stream when one of them goes. Where there can be no capture, that is said once on stderr and functions are run as they
    are: by all Graphs of the process, since a failed capture leaves torch's allocator in no state for another (memory.trim).
    """

    _works = True

    def __init__(self, device):
        self._device = device
        self._stream = None
        self._kind = self._graph = None

    def run(self, kind, function):
        """Runs function, whose work on the device must be the same each time while kind stays the same."""
        if not self._works:
            function()
        elif kind != self._kind:
            self.close()
            if host_waits(lambda: self._warm_up(function)):
                self._give_up("a step makes the host wait for the device")
            self._kind = kind
        else:
            if self._graph is None:
                self._capture(function)
            if self._graph is None:
                function()
            else:
                self._graph.replay()

    def close(self):
        """Drops the graph and gives its memory back: a graph has a pool of its own, which nothing else can use."""
        self._kind = None
        if self._graph is not None:
            torch.cuda.synchronize(self._device)
            self._graph.reset()
            self._graph = None
            torch.cuda.empty_cache()

    def _warm_up(self, function):
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            function()
        current.wait_stream(self._stream)

    def _capture(self, function):
        try:
            self._graph = self._captured(function)
        except Exception as error:  # noqa: BLE001 - whatever it is, decoding can go on without graphs
            for found in (error, error.__context__):  # the end of a broken capture raises an error of its own
                if is_out_of_memory(found):
                    raise found
            self._give_up((str(error.__context__ or error).splitlines() or [type(error).__name__])[0])

    def _captured(self, function):
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()  # a capture can neither use nor free what prefill and warm-up have left in the cache
        with torch.cuda.stream(self._stream):
            try:
                # Other threads (NCCL's watchdog) may go on using CUDA.
                graph.capture_begin(capture_error_mode="thread_local")
            except TypeError:  # torch 1.13
                graph.capture_begin()
            try:
                function()
            finally:
                graph.capture_end()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return graph

    @staticmethod
    def _give_up(reason):
        Graphs._works = False
        print(f"engine: no CUDA graphs ({reason}); decoding goes on without", file=sys.stderr, flush=True)


def host_waits(function):
    """Runs function and tells whether it made the host wait for the device, which would break a capture."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    return any("synchronizing CUDA operation" in str(warning.message) for warning in caught)
