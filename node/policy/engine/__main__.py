"""Entry point: `python3 -u -m engine`. Sets up signals and CPU settings before it imports torch.

Rank 0 starts the other ranks of an engine with `--rank R --ranks K --store FD` (ranks.py). With `--host FD`
the process is an engine host that serves requests for engines on the socket FD (host.py). `--python` is the
interpreter's path as its clients know it.
"""

import argparse
import os
import signal

from . import environment, pipe, process


def main():
    parser = argparse.ArgumentParser(prog="engine")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--store", type=int, default=-1)
    parser.add_argument("--host", type=int, default=-1)
    parser.add_argument("--python", default="")
    arguments = parser.parse_args()
    # Ctrl-C goes to the whole process group, and a batch system's TERM to every process of a job. The parent
    # decides when the engine stops, because it needs the engine for a last checkpoint.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    given = dict(os.environ)
    environment.prepare(os.environ)
    if arguments.host >= 0:
        from . import host

        host.serve(arguments.host, arguments.python, given)
    process.run(pipe.watch_parent, arguments.rank, arguments.ranks, arguments.store)


if __name__ == "__main__":
    main()
