"""Child processes of a check. Each leads its own process group, is followed line by line, and is killed if it hangs.
"""

import os
import select
import signal
import subprocess
import time
from pathlib import Path

STALL = 60.0  # seconds without output, on stdout or in the log, after which a child counts as hung

_alive = set()


class Stopped(RuntimeError):
    """A child that was stopped because it hung or exceeded its time."""


def start(command, log, **options):
    """Starts a child whose stderr goes to the open file log."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options}
    process = subprocess.Popen([str(part) for part in command], stderr=log, start_new_session=True, **options)
    _alive.add(process)
    return process


def kill(process):
    """Kills a child with its process group and waits for it. Does nothing if it has already been waited for."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # blocked in the kernel by a driver: nothing more can be done
            pass
    for stream in (process.stdin, process.stdout):
        if stream:
            try:
                stream.close()
            except OSError:
                pass
    _alive.discard(process)


def kill_all():
    """Kills the children that a section has left."""
    for process in list(_alive):
        kill(process)


def follow(process, cap, stall=STALL, log=None, progress=bool):
    """Yields the lines of a child's stdout until it ends. The caller ends the child.

    Raises Stopped after cap seconds, or after stall seconds without progress: a line for which progress holds, or
    more bytes in the file log.
    """
    began = active = time.monotonic()
    size, buffer, pipe = 0, b"", process.stdout.fileno()
    while True:
        now = time.monotonic()
        grown = os.stat(log).st_size if log and os.path.exists(log) else 0
        if grown > size:
            size, active = grown, now
        if now - began > cap:
            raise Stopped(f"not done within {cap:.0f} s")
        if now - active > stall:
            raise Stopped(f"no progress for {stall:.0f} s")
        if not select.select([pipe], [], [], min(1.0, max(0.01, cap - (now - began)), max(0.01, stall - (now - active))))[0]:
            continue
        piece = os.read(pipe, 1 << 20)
        if not piece:
            if buffer:
                yield buffer.decode(errors="replace")
            return
        buffer += piece
        *whole, buffer = buffer.split(b"\n")
        for line in whole:
            text = line.decode(errors="replace")
            if progress(text):
                active = time.monotonic()
            yield text


def run(command, log, cap, stall=STALL, **options):
    """Runs a child to its end. Returns (lines of stdout, exit code, why it was stopped or None). log is the path of a
    file for stderr and stdout.
    """
    log = Path(log)
    lines, problem = [], None
    with open(log, "ab", buffering=0) as file:
        process = start(command, file, **options)
        try:
            for line in follow(process, cap, stall, log):
                lines.append(line)
                file.write(line.encode() + b"\n")
            process.wait(min(stall, 10))
        except Stopped as stopped:
            problem = str(stopped)
            file.write(f"gpu-check: stopped: {problem}\n".encode())
        except subprocess.TimeoutExpired:
            problem = "closed its output and did not end"
        finally:
            kill(process)
    return lines, process.returncode, problem


def last_line(path):
    """Returns the last line of a log that is not empty."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.stat(path).st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"
