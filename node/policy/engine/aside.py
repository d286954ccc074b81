"""Work done beside the caller's, in order, on one thread: hashing while a file is written. Must not import torch."""

import _thread
import queue
from concurrent.futures import Future

GRACE = 5.0  # seconds within which a new thread must have begun


class Aside:
    """A context manager. Where the system gives no thread (a limit on memory, on tasks), work is done at once instead."""

    def __init__(self):
        self._jobs = queue.SimpleQueue()
        self._thread = start(self._run)

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


class Task:
    """A function on a thread of its own. threading.Thread won't do where memory is short: its start() waits for ever for a thread that had none
    to begin with (CPython 3.11; its new thread raises before it sets the event that start() waits for)."""

    def __init__(self, function, arguments):
        self._function, self._arguments = function, arguments
        self._claim = _thread.allocate_lock()  # whoever takes it decides: the thread to run, the caller to do without
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
        """False where the system gave no thread within GRACE: the function does not run then."""
        _thread.start_new_thread(self.run, ())
        return self._begun.acquire(timeout=GRACE) or not self._claim.acquire(blocking=False)

    def join(self):
        with self._busy:
            pass

    def is_alive(self):
        return self._busy.locked()


def start(function, *arguments):
    """A running Task, or None where the system gives no thread."""
    try:
        task = Task(function, arguments)
        return task if task.begin() else None
    except (RuntimeError, MemoryError):
        return None
