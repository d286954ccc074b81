"""Runs functions on one background thread, in order, such as hashing while a file is written. Must not
import torch.
"""

import _thread
import queue
from concurrent.futures import Future

GRACE = 5.0  # seconds within which a new thread must have started


class Aside:
    """A context manager. If the system gives no thread (a limit on memory or tasks), `do` runs functions
    at once.
    """

    def __init__(self):
        self._jobs = queue.SimpleQueue()
        self._thread = start(self._run)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Returns when all functions have run."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()

    def do(self, function, *arguments):
        """Returns the function's Future. Holds the arguments until it has run."""
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


class Task:
    """A function on its own thread, for use when memory is short.

    threading.Thread does not work then: its start() waits forever for a thread that failed to start (CPython
    3.11, where the new thread raises before it sets the event that start() waits for).
    """

    def __init__(self, function, arguments):
        self._function, self._arguments = function, arguments
        # Who takes this lock first decides: the thread runs the function, or the caller gives up on the thread.
        self._claim = _thread.allocate_lock()
        self._busy = _thread.allocate_lock()  # held until the function has returned; releasing a lock needs no memory
        self._busy.acquire()
        self._begun = _thread.allocate_lock()
        self._begun.acquire()

    def run(self):
        if not self._claim.acquire(blocking=False):
            return
        self._begun.release()
        try:
            self._function(*self._arguments)
        finally:
            self._function = self._arguments = None
            self._busy.release()

    def begin(self):
        """Returns False if the system gave no thread within GRACE. The function does not run then."""
        _thread.start_new_thread(self.run, ())
        return self._begun.acquire(timeout=GRACE) or not self._claim.acquire(blocking=False)

    def join(self):
        with self._busy:
            pass

    def is_alive(self):
        return self._busy.locked()


def start(function, *arguments):
    """Returns a running Task, or None if the system gives no thread."""
    try:
        task = Task(function, arguments)
        return task if task.begin() else None
    except (RuntimeError, MemoryError):
        return None
