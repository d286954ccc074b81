"""If the system gives no thread, nothing hangs, and nothing runs twice."""

import _thread
import threading
import time

from engine import aside


def test_a_task_runs_once_and_can_be_waited_for():
    done, go = [], threading.Event()
    task = aside.start(lambda x: (go.wait(10), done.append(x)), 7)
    assert task.is_alive() and not done
    go.set()
    task.join()
    assert done == [7] and not task.is_alive()


def test_a_thread_that_never_begins_is_done_without(monkeypatch):
    """As when a new thread finds no memory for its first frame: threading.Thread.start() would wait
    forever.
    """
    monkeypatch.setattr(aside, "GRACE", 0.05)
    monkeypatch.setattr(_thread, "start_new_thread", lambda function, arguments: 1)
    assert aside.start(print) is None
    with aside.Aside() as work:
        assert work.do(lambda: 5).result(timeout=1) == 5


def test_a_thread_that_begins_too_late_does_nothing(monkeypatch):
    monkeypatch.setattr(aside, "GRACE", 0.05)
    begun, done, real = threading.Event(), [], _thread.start_new_thread

    def late(function, arguments):
        def wait():
            begun.wait(10)
            function(*arguments)
            done.append("thread")
        return real(wait, ())

    monkeypatch.setattr(_thread, "start_new_thread", late)
    assert aside.start(lambda: done.append("function")) is None
    begun.set()
    limit = time.monotonic() + 10
    while not done and time.monotonic() < limit:
        time.sleep(0.001)
    assert done == ["thread"]


def test_a_failing_function_ends_its_task():
    def fail():
        raise SystemExit  # ends a thread silently

    task = aside.start(fail)
    task.join()
    assert not task.is_alive()
