"""CUDA graphs: a step of a small model is hundreds of short kernels, and launching them one by one takes the host several
times longer than the device needs to run them.

Sources: CUDA programming guide, CUDA graphs; torch's notes on them ("Constraints", "Graph memory management").
"""

import sys
import warnings

import torch

from .shortage import is_out_of_memory


class Graphs:
    """Runs functions from CUDA graphs on one device.

    A function of a new kind is first run as it is, on the stream of the capture, so that libraries load their kernels and
    get their workspaces; the next run captures and replays it, later ones replay, until `drop`. All graphs share a memory
    pool, since no tensor of one is used by another, and one stream serves all captures: cuBLAS keeps a workspace for each
    stream, and some versions of torch take that of all graphs of a stream when one of them goes, so they go together.
    Where there can be no capture, that is said once on stderr and functions are run as they are: by all Graphs of the
    process, since a failed capture leaves torch's allocator in no state for another (memory.trim).
    """

    _works = True

    def __init__(self, device):
        self._device = device
        self._stream = self._pool = None
        self._graphs = {}  # kind -> graph; None: it was run once

    def run(self, kind, function):
        """Runs function, whose work on the device must be the same each time for this kind, until `drop`."""
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
        """Drops all graphs and gives their memory back: graphs have a pool of their own, which nothing else can use."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is, decoding can go on without graphs
            for found in (error, error.__context__):  # the end of a broken capture raises an error of its own
                if is_out_of_memory(found):
                    raise found
            self._give_up((str(error.__context__ or error).splitlines() or [type(error).__name__])[0])

    def _captured(self, function):
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()  # a capture can neither use nor free what prefill and warm-up have left in the cache
        with torch.cuda.stream(self._stream):
            try:
                # Other threads (NCCL's watchdog) may go on using CUDA.
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
