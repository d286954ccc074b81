"""A run's host memory: the sum of the proportional set sizes (PSS) of its processes. A page that several processes
share counts once.
"""

import os
import threading


def tree(root):
    """Returns root and all its descendants, by their parents' PIDs."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])  # a command's name may contain any character
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def proportional(pid):
    """Returns bytes; 0 if the process has ended or can't be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


class HostMemory:
    """Samples the processes that find() returns, every two seconds, because reading PSS walks page tables."""

    def __init__(self, find, every=2.0):
        self._peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, args=(find, every), daemon=True)
        self._thread.start()

    def _look(self, find, every):
        while not self._over.wait(every):
            self._peak = max(self._peak, sum(map(proportional, find())))

    def stop(self):
        self._over.set()
        self._thread.join(10)

    def peak(self):
        """Bytes; None without a readable sample."""
        return self._peak or None
