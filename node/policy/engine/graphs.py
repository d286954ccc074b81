"""CUDA graphs. A step of a small model has hundreds of short kernels. Launching them one by one takes the
host several times longer than the device needs to run them.

Sources: CUDA programming guide, CUDA graphs; torch's notes on them ("Constraints", "Graph memory
management").
"""

import sys
import warnings

import torch

from .shortage import is_out_of_memory


class Graphs:
    """Runs functions from CUDA graphs on one device.

    The first run of a kind of function is direct, on the capture's stream, so that libraries load their
    kernels and allocate their workspaces. The next run captures and replays the function, and later ones
    replay it, until `drop`.

    All graphs share a memory pool, because no graph uses another one's tensors. One stream serves all
    captures. cuBLAS keeps a workspace for each stream. When one graph is dropped, some versions of torch free
    that workspace for all graphs of the stream. So all graphs are dropped together.

    If a capture is impossible, that is reported once on stderr, and all Graphs of the process run functions
    directly. A failed capture leaves torch's allocator unusable for another one (memory.trim).
    """

    _works = True

    def __init__(self, device):
        self._device = device
        self._stream = self._pool = None
        self._graphs = {}  # kind -> graph; None: run once

    def run(self, kind, function):
        """Runs function. For one kind its work on the device must be the same each time, until `drop`."""
        if not self._works:
            function()
        elif kind not in self._graphs:
            if host_waits(lambda: self._warm_up(function)):
                self._give_up("a step makes the host wait for the device")
            self._graphs[kind] = None
        else:
            if self._graphs[kind] is None:
                self._capture(kind, function)
            if self._graphs[kind] is None:
                function()
            else:
                self._graphs[kind].replay()

    def drop(self):
        """Drops all graphs and frees their memory, which is in a pool that nothing else can use."""
        graphs = [graph for graph in self._graphs.values() if graph is not None]
        self._graphs = {}
        self._pool = None
        if graphs:
            torch.cuda.synchronize(self._device)
            for graph in graphs:
                graph.reset()
            torch.cuda.empty_cache()

    def _warm_up(self, function):
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            function()
        current.wait_stream(self._stream)

    def _capture(self, kind, function):
        try:
            self._graphs[kind] = self._captured(function)
        except Exception as error:  # noqa: BLE001 - decoding can continue without graphs
            for found in (error, error.__context__):  # the end of a failed capture raises its own error
                if is_out_of_memory(found):
                    raise found
            self._give_up((str(error.__context__ or error).splitlines() or [type(error).__name__])[0])

    def _captured(self, function):
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()  # a capture can neither use nor free the memory that prefill and warm-up left in the cache
        with torch.cuda.stream(self._stream):
            try:
                # Other threads (NCCL's watchdog) may use CUDA meanwhile.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            except TypeError:  # torch 1.13
                graph.capture_begin(pool=self._pool)
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
    """Runs function and returns whether it made the host wait for the device, which would break a
    capture.
    """
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    return any("synchronizing CUDA operation" in str(warning.message) for warning in caught)
