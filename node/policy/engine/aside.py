"""Work done beside the caller's, in order, on one thread: hashing while a file is written. Must not import torch."""

import queue
import threading
from concurrent.futures import Future


class Aside:
    """A context manager. Where the system gives no thread (a limit on memory, on tasks), work is done at once instead."""

    def __init__(self, name):
        self._jobs = queue.SimpleQueue()
        self._thread = start(self._run, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Returns when all that was asked for has been done."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()

    def do(self, function, *arguments):
        """The function's Future. Arguments are held until it has run."""
        future = Future()
        if self._thread is None:
            _fulfil(future, function, arguments)
        else:
            self._jobs.put((future, function, arguments))
        return future

    def _run(self):
        while True:
            job = self._jobs.get()
            if job is None:
                return
            _fulfil(*job)
            del job


def _fulfil(future, function, arguments):
    try:
        future.set_result(function(*arguments))
    except BaseException as error:  # noqa: BLE001 - result() raises it
        future.set_exception(error)


def start(function, name, *arguments):
    """A running daemon thread, or None where the system gives none."""
    thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError):
        return None
    return thread
