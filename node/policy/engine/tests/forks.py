"""Starts engines for tests as forks of a process that has imported torch. An import takes over a second.

host.py does the same for users. Here an engine can run a test's code first, and can fork its other ranks.
The server ends when the tests' process has ended.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
import types

PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE = 120  # seconds; bounds every wait, and measures nothing
MAIN = "from engine import __main__\n__main__.main()\n"
_ONE_THREAD = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # OpenBLAS starts its threads when it is loaded

_server = None


def start(code=MAIN, fork_ranks=False):
    """Returns a new session's process that runs code, with pipes for its standard streams, like Popen.

    fork_ranks makes an engine fork its other ranks from rank 0. They are then also changed by code.
    """
    global _server
    if _server is None:
        _server = _Server()
    return _server.start(code, fork_ranks) if _server.usable else direct(["-c", code])


def direct(arguments):
    """Returns a Python process of its own, with the same streams."""
    return subprocess.Popen(
        [sys.executable, "-u", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=PARENT), start_new_session=True,
    )  # fmt: skip


class _Server:
    """The client's side of the server. usable is False if importing torch has started threads, which no fork would
    have.
    """

    def __init__(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", os.path.abspath(__file__), str(theirs.fileno())],
                stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env=dict(os.environ, PYTHONPATH=PARENT, **_ONE_THREAD), start_new_session=True,
            )  # fmt: skip
        self.usable = json.loads(_receive(self._socket))["threads"] == 1

    def start(self, code, fork_ranks):
        ours, theirs = zip(_pipe(0), _pipe(1), _pipe(2), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        message = json.dumps(dict(code=code, fork_ranks=fork_ranks)).encode()
        fds = [end if isinstance(end, int) else end.fileno() for end in theirs]
        socket.send_fds(self._socket, [message], fds)
        for fd in fds[:3]:
            os.close(fd)
        theirs[3].close()
        return _Forked(*ours)


def _pipe(number):
    """Returns a pipe for a process's stream 0, 1 or 2: our end as a file, and the descriptor of its end."""
    read, write = os.pipe()
    return (os.fdopen(write, "wb"), read) if number == 0 else (os.fdopen(read, "rb"), write)


def _receive(channel, timeout=DEADLINE):
    """Returns the next message, or None after timeout seconds."""
    if not select.select([channel], [], [], timeout)[0]:
        return None
    message = channel.recv(1 << 16)
    assert message, "the process that starts engines is gone"
    return message


class _Forked:
    """The part of Popen that tests use. The process stays a zombie until its status is known here, so that its pid
    is not reused before.
    """

    def __init__(self, stdin, stdout, stderr, channel):
        self.stdin, self.stdout, self.stderr, self._channel = stdin, stdout, stderr, channel
        self.returncode = None
        self.pid = int(_receive(channel))

    def poll(self):
        if self.returncode is None:
            status = _receive(self._channel, 0)
            if status is not None:
                self.returncode = int(status)
                self._channel.shutdown(socket.SHUT_WR)
                select.select([self._channel], [], [], DEADLINE)  # its parent reaps it and ends
                self._channel.close()
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            select.select([self._channel], [], [], timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("engine", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


# The server's side.


def _serve(fd):
    """Forks a process for each request on the socket fd, until its other end is closed."""
    requests = socket.socket(fileno=fd)
    from engine import parallel, ranks, serve  # noqa: F401 - forks have them

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the keepers
    requests.send(json.dumps(dict(threads=len(os.listdir("/proc/self/task")))).encode())
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every object's page
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(message), *files)
        for each in files:
            os.close(each)


def _keep(request, stdin, stdout, stderr, channel):
    """The parent of an engine: forks it, and reports its pid and later its status, as Popen's returncode."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        pid = os.fork()
        if pid == 0:
            os.close(channel)
            _run(request, stdin, stdout, stderr)
        for fd in (stdin, stdout, stderr):
            os.close(fd)
        channel = socket.socket(fileno=channel)
        channel.send(b"%d" % pid)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        channel.send(b"%d" % (ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))
        channel.recv(1)
        os.waitpid(pid, 0)
    finally:
        os._exit(0)


def _run(request, stdin, stdout, stderr):
    """Makes this fork the process of a request, and does not return."""
    try:
        os.setsid()
        for number, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, number)
            os.close(fd)
        for name in _ONE_THREAD:  # the rank processes have the tests' variables
            os.environ.pop(name)
        sys.argv = ["engine"]
        if request["fork_ranks"]:
            from engine import crew

            crew.subprocess = types.SimpleNamespace(Popen=_Rank, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
        exec(compile(request["code"], "<engine>", "exec"), {"__name__": "__main__"})
    except BaseException:  # noqa: BLE001 - nothing may return into the server's loop
        traceback.print_exc()
    finally:
        os._exit(1)


class _Rank:
    """The part of Popen that crew.py uses, for a rank that is a fork of rank 0 and its child."""

    def __init__(self, command, stdin, stdout, pass_fds, env):
        requests, ours = os.pipe()
        theirs, answers = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(requests, 0)
                os.dup2(answers, 1)
                for fd in map(int, os.listdir("/proc/self/fd")):
                    if fd > 2 and fd not in pass_fds:
                        try:
                            os.close(fd)
                        except OSError:  # that of the listing
                            pass
                sys.argv = command[command.index("-m") + 1 :]
                exec(compile(MAIN, "<rank>", "exec"), {"__name__": "__main__"})
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(requests)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("rank", timeout)
            time.sleep(0.005)
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
