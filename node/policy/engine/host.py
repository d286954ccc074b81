"""The engine host: a process that imports torch once and forks engines, which start in milliseconds and share its pages.

It runs one thread and uses no CUDA device. A fork has only the thread that forked, and CUDA does not work in the
fork of a process that has used it. Each engine makes its own CUDA context.

A request is one message on the host's socket, whose other end the clients have inherited:
    {"owner": PID, "package": DIR, "python": PATH, "environ": ["NAME=VALUE", …]}
It comes with five descriptors: the engine's stdin, stdout and stderr, a socket for the answers, and a pidfd of the
owner. A message with only a socket requests the host's description. The answers, one message each:
    {"pid": PID}       from the fork, once its settings are applied (inherit.py)
    {"refused": WHY}   there is no engine, and its owner starts one directly
    {"status": N}      from the host: the wait status of the engine. The engine stays a zombie until its owner closes
                       the socket, so that its pid is not reused before the owner knows
An engine runs as long as its owner keeps its stdin open, even if the host ends.
"""

import array
import ctypes
import gc
import json
import os
import selectors
import signal
import socket

from . import ending, inherit, pipe, process

MAX_MESSAGE = 1 << 20  # bytes of a request; the kernel's buffers allow less
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # its name is the hash of the engine's files
_DESCRIPTORS = 5


def serve(fd, python, given):
    """Serves the requests on the socket fd until stdin ends, and does not return.

    python is the interpreter's path as clients know it. given are the environment variables of the process.
    """
    describe = _import()
    describe["python"] = python
    pipe.write_all(1, json.dumps(describe).encode() + b"\n")
    if "error" in describe:
        os._exit(1)
    Host(fd, given, describe).run()


def _import():
    """Imports everything that an engine needs. Returns the host's description."""
    from . import parallel, ranks, serve  # noqa: F401 - forks have them

    import torch

    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return {"error": f"importing torch has started {threads - 1} threads, which no fork would have"}
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every object's page
    return {
        "torch": torch.__version__, "cuda": torch.version.cuda is not None, "pid": os.getpid(), "package": PACKAGE,
    }  # fmt: skip


class Host:
    def __init__(self, fd, given, describe):
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self.given, self._describe = inherit.without_package(given, PACKAGE), describe
        self._engines = {}  # pid: socket of its owner, None once that is closed
        self._told = set()  # pids of dead engines whose owner has received the status
        self._selector = selectors.DefaultSelector()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)

    def run(self):
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for source, work in ((0, self._end), (self._wake[0], self._reap), (self._socket, self._request)):
            self._selector.register(source, selectors.EVENT_READ, work)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _end(self):
        """Ends the host. The owner never writes to stdin, so a readable stdin means that the owner is gone."""
        os._exit(0)

    def _request(self):
        try:
            message, ancillary, flags, _ = self._socket.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(4 * _DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        files = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
        try:
            if not message and not files:
                os._exit(0)  # no process has the other end open
            self._answer(message, list(files), bool(flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)))
        finally:
            for fd in files:
                os.close(fd)

    def _answer(self, message, files, truncated):
        """Answers one request. The caller keeps ownership of files."""
        if not files:
            return
        answers = socket.socket(fileno=os.dup(files[3] if len(files) == _DESCRIPTORS else files[0]))
        answers.setblocking(False)
        if len(files) == 1:
            _tell(answers, self._describe)
            answers.close()
            return
        try:
            if truncated or len(files) != _DESCRIPTORS:
                raise inherit.Differs("the request is too long")
            request = json.loads(message)
            wanted = dict(item.split("=", 1) for item in request["environ"])
            if os.path.basename(request["package"]) != os.path.basename(PACKAGE):
                raise inherit.Differs("the host has other engine files")
            if request["python"] != self._describe["python"]:
                raise inherit.Differs(f"the host's interpreter is {self._describe['python']}")
            inherit.check_environ(self.given, wanted)
            own, settings = inherit.read(0), inherit.read(request["owner"])
            inherit.check(settings, own)
            pid = os.fork()
        except inherit.Differs as error:
            return self._refuse(answers, str(error))
        except Exception as error:  # noqa: BLE001 - the host serves others too
            return self._refuse(answers, f"{type(error).__name__}: {error}")
        if pid == 0:
            _become(self, files, answers, request["package"], wanted, settings, own)
        self._engines[pid] = answers
        self._selector.register(answers, selectors.EVENT_READ, lambda: self._owner_left(pid))

    def _refuse(self, answers, why):
        _tell(answers, {"refused": why})
        answers.close()

    def _reap(self):
        """Reports the end of engines to their owners, and reaps engines without an owner."""
        try:
            os.read(self._wake[0], 4096)
        except BlockingIOError:
            pass
        for pid in list(self._engines):
            if pid in self._told:
                continue
            if self._engines[pid] is None:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._engines[pid]
                continue
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            killed = ended.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            _tell(self._engines[pid], {"status": ended.si_status if killed else ended.si_status << 8})
            self._told.add(pid)

    def _owner_left(self, pid):
        """The owner has closed its socket: it knows of the engine's end, or is gone itself."""
        answers = self._engines[pid]
        self._selector.unregister(answers)
        answers.close()
        self._engines[pid] = None
        self._told.discard(pid)
        self._reap()

    def close(self):
        """Closes everything that belongs to the host, in a fork."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._socket.close()
        for fd in self._wake:
            os.close(fd)
        for answers in self._engines.values():
            if answers is not None:
                answers.close()
        self._engines = {}


def _become(host, files, answers, package, environ, settings, own):
    """Makes this fork the engine of a request, and does not return."""
    try:
        os.setpgid(0, 0)
        host.close()
        stdin, stdout, stderr, _, owner = files
        for number, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, number)
        owner = os.dup(owner)
        for fd in files:
            os.close(fd)
        try:
            inherit.apply_environ(inherit.with_package(environ, package), len(settings["processors"]))
            from . import environment

            environment.prepare(os.environ)
            os.chdir(package)
            _show(environ, host.given)
            inherit.apply(settings, own)  # last: a limit on memory may leave none for the rest
        except (inherit.Differs, OSError) as error:
            _tell(answers, {"refused": str(error)})
            os._exit(1)
        _tell(answers, {"pid": os.getpid()})
        answers.close()
        process.run(lambda on_end: pipe.watch_process(owner, on_end))
    except BaseException:  # noqa: BLE001 - nothing may return into the host's loop
        import traceback

        traceback.print_exc()
    finally:
        ending.leave()


def _tell(answers, message):
    try:
        answers.send(json.dumps(message).encode())
    except OSError:  # the owner is gone, and its engine ends too
        pass


def _show(environ, host):
    """Makes ps and /proc/PID/environ show this process's own command line and variables, those that
    differ from the host's first.

    Both are in the memory that the process was started with. Text beyond that size is dropped, which affects
    only displays.
    """
    own = sorted(environ.items(), key=lambda item: host.get(item[0]) == item[1])
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end, first, last = (int(fields[at]) for at in (45, 46, 47, 48))  # arg_start … env_end of proc_pid_stat(5)
        _overwrite(begin, end, ctypes.string_at(begin, end - begin).partition(b"\0--host\0")[0])
        _overwrite(first, last, b"\0".join(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in own))
    except (OSError, ValueError, IndexError):
        pass


def _overwrite(begin, end, text):
    if begin < end:
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, text, min(len(text), end - begin - 1))
