"""Entry point: `python3 -u -m engine`. Sets up signals, pipes and CPU settings, and only then imports torch.

Rank 0 starts the other ranks of an engine with `--rank R --ranks K --store FD` (ranks.py).
"""

import argparse
import os
import signal

from . import ending, environment, pipe, protocol


def main():
    parser = argparse.ArgumentParser(prog="engine")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--store", type=int, default=-1)
    arguments = parser.parse_args()
    # Ctrl-C goes to the whole process group, and a batch system's TERM to every process of a job: the parent, which needs the engine for a last
    # checkpoint, decides when it stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    environment.prepare(os.environ)
    answers = pipe.take_stdout()

    requests = pipe.Requests(0, protocol.MAX_LINE, lambda: ending.leave(requests.wake))
    pipe.watch_parent(lambda: ending.leave(requests.wake))
    requests.start()
    try:
        from . import parallel, ranks, serve

        if arguments.rank:
            session = ranks.Member(parallel.Group(arguments.rank, arguments.ranks, ranks.store_path(arguments.store)))
        else:
            session = ranks.Leader()
        serve.serve(requests, lambda line: pipe.write_all(answers, line), session)
    except (BrokenPipeError, ending.Leaving):
        pass
    ending.leave()


if __name__ == "__main__":
    main()
