"""One engine's process, from its pipes to its end. Must not import torch before `run` does.

Both an engine that its parent started and one that the engine host forked (host.py) run this code. The
requests are on fd 0, the answers on fd 1 and the log on fd 2.
"""

from . import ending, pipe, protocol


def run(watch, rank=0, ranks=1, store=-1):
    """Serves all requests, then ends the process. It does not return.

    watch(on_end) must arrange that on_end is called when the process that owns this engine is gone. store is
    the descriptor of the rendezvous file for the ranks of an engine with several processes (ranks.py).
    """
    answers = pipe.take_stdout()
    requests = pipe.Requests(0, protocol.MAX_LINE, lambda: ending.leave(requests.wake))
    watch(lambda: ending.leave(requests.wake))
    requests.start()
    try:
        from . import parallel
        from . import ranks as several
        from . import serve

        if rank:
            session = several.Member(parallel.Group(rank, ranks, several.store_path(store)))
        else:
            session = several.Leader()
        serve.serve(requests, lambda line: pipe.write_all(answers, line), session)
    except (BrokenPipeError, ending.Leaving):
        pass
    ending.leave()
