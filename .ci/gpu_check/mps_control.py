"""An MPS control daemon of the check, to measure what a client sees. Swarms use the program's daemons."""

import os
import shutil
import subprocess
import tempfile

LIMIT = "0=2048M"  # of a client's memory: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT


class Daemon:
    """Use it in a with statement. env has the variables for its clients. Raises RuntimeError if it does not start."""

    def __init__(self, logs, uuid):
        self._pipe = tempfile.mkdtemp(prefix="gpu-check-mps-", dir="/tmp")  # the socket's path must be short
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": self._pipe, "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        if uuid:
            self.env["CUDA_VISIBLE_DEVICES"] = uuid
        self._logs = logs

    def __enter__(self):
        try:
            with open(self._logs / "start.log", "ab") as log:  # the daemon may keep a pipe open forever
                code = subprocess.call(["nvidia-cuda-mps-control", "-d"], env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, timeout=20, start_new_session=True)
            if code:
                raise RuntimeError(f"nvidia-cuda-mps-control -d ended with {code}: {self.last_words()}")
            return self
        except (OSError, subprocess.TimeoutExpired) as error:
            self.__exit__()
            raise RuntimeError(f"nvidia-cuda-mps-control: {error}") from None
        except BaseException:
            self.__exit__()
            raise

    def ask(self, command, seconds=10):
        """Returns the daemon's answer."""
        done = subprocess.run(["nvidia-cuda-mps-control"], input=command + "\n", env=dict(os.environ, **self.env), capture_output=True,
                              text=True, timeout=seconds)
        return done.stdout.strip()

    def last_words(self):
        for name in ("server.log", "control.log", "start.log"):
            path = self._logs / name
            text = path.read_text(errors="replace").strip() if path.exists() else ""
            if text:
                return text.splitlines()[-1]
        return "it said nothing"

    def __exit__(self, *_):
        try:
            self.ask("quit -t 5", 15)
        except (OSError, subprocess.SubprocessError):
            pass
        shutil.rmtree(self._pipe, ignore_errors=True)
