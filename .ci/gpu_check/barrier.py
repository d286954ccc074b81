"""Isolates sections from each other: a time limit for each section, and signals that end the check cleanly."""

import contextlib
import signal


class TimeUp(BaseException):
    """A section's time is over. Not an Exception, so that a section's own handlers let it through."""


class Interrupted(BaseException):
    """The check was told to end. The exit code is 128 + signal."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


@contextlib.contextmanager
def cap(seconds):
    """Raises TimeUp inside the block after that many seconds, whatever the block waits for. Raises it again every 15
    s in case its clean-up hangs.
    """

    def ring(*_):
        raise TimeUp(f"not done within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds), 15)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def catch_signals():
    """Makes SIGINT, SIGTERM and SIGHUP raise Interrupted. Only the first of them counts, because results are then
    being written.
    """

    def end(number, _):
        for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
