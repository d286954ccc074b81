"""Entry point: `python3 -u -m engine`. Sets up signals, pipes and CPU settings, and only then imports torch."""

import os
import signal

from . import environment, pipe, protocol


def main():
    # Ctrl-C goes to the whole process group; the parent decides when the engine stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    environment.prepare(os.environ)
    answers = pipe.take_stdout()

    def leave():
        os._exit(0)

    pipe.watch_parent(leave)
    requests = pipe.Requests(0, protocol.MAX_LINE, leave)
    requests.start()

    from . import serve

    try:
        serve.serve(requests, lambda line: pipe.write_all(answers, line))
    except BrokenPipeError:
        pass
    leave()


if __name__ == "__main__":
    main()
