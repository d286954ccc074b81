"""Evidence for later analysis of the figures: logs, events, databases, tables, in one archive of bounded size.

Files are written in scratch and packed into the archive after each section and every PERIOD seconds, so that even a
killed check leaves an archive. Checkpoints, models, stores and credentials are not packed.
"""

import io
import os
import shutil
import tarfile
import threading
import zlib
from pathlib import Path

LIMIT = 12 << 20  # bytes of the archive
PERIOD = 20.0  # seconds
HEAD, TAIL = 256 << 10, 1 << 20  # bytes kept of a long text's beginning and end
WANTED = (".log", ".jsonl", ".json", ".txt", ".db", ".db-wal", ".stderr")
BINARY = (".db", ".db-wal")
UNWANTED = {"exchange", "engine", "models", "locks", "workers", "joined", "outbox"}  # folders of a home


class Evidence:
    def __init__(self, folder, archive):
        self.folder, self.archive = Path(folder), Path(archive)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._homes = {}  # name -> home of a run in progress
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._seen = None

    def path(self, name):
        """Returns the path for a file of evidence, and makes its folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def watch_home(self, name, home):
        """Adds the home of a running swarm to the evidence."""
        self._homes[name] = Path(home)

    def keep_home(self, name):
        """Copies the evidence of a home that is about to be removed."""
        home = self._homes.pop(name, None)
        for path in wanted_of_home(home) if home else ():
            try:
                shutil.copyfile(path, self.path(f"{name}/home/{path.relative_to(home)}"))
            except OSError:
                pass

    def start(self):
        """Starts packing every PERIOD seconds."""
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self._over.wait(PERIOD):
            try:
                self.pack()
            except OSError:  # a full disk: the last pack reports it
                pass

    def close(self):
        self._over.set()
        self.pack()

    def pack(self):
        """Rewrites the archive if something has changed. Smaller files come first, so that the largest are left out.
        """
        with self._lock:
            files = [(f"gpu-check/{path.relative_to(self.folder)}", path) for path in wanted(self.folder)]
            for name, home in list(self._homes.items()):
                files += [(f"gpu-check/{name}/home/{path.relative_to(home)}", path) for path in wanted_of_home(home)]
            stamped = sorted((size_of(path), name, path) for name, path in files)
            if stamped == self._seen:
                return
            data = tarred(stamped)
            self.archive.parent.mkdir(parents=True, exist_ok=True)
            part = self.archive.with_suffix(".part")
            part.write_bytes(data)
            os.replace(part, self.archive)
            self._seen = stamped


def wanted(folder, without=()):
    """Returns files of a folder that are evidence, except in folders with these names."""
    out = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        out += [Path(root) / name for name in files if name.endswith(WANTED)]
    return out


def wanted_of_home(home):
    """Returns the database and the logs of a home. Journals have every completion but no information about the card.
    """
    return [path for path in wanted(home, UNWANTED) if not path.name.startswith("journal-")]


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def tarred(files):
    """Returns a gzipped tar of (size, name, path), of at most LIMIT bytes. LEFT_OUT.txt in it lists the files that
    didn't fit.
    """
    buffer, room, left_out = io.BytesIO(), LIMIT - (64 << 10), []
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for size, name, path in files:
            try:
                data = content(path, size)
            except OSError as error:
                left_out.append(f"{name}: {error}")
                continue
            cost = len(zlib.compress(data, 1)) + 1024
            if cost > room:
                left_out.append(f"{name}: {size} bytes, no room")
                continue
            room -= cost
            add(tar, name, data)
        if left_out:
            add(tar, "gpu-check/LEFT_OUT.txt", ("\n".join(left_out)[: 64 << 10] + "\n").encode())
    return buffer.getvalue()


def content(path, size):
    """Returns a file's bytes; for a long text only its beginning and end."""
    with open(path, "rb") as file:
        if path.name.endswith(BINARY) or size <= HEAD + TAIL:
            return file.read(64 << 20)
        head = file.read(HEAD)
        file.seek(size - TAIL)
        return head + f"\n... {size - HEAD - TAIL} bytes left out ...\n".encode() + file.read(TAIL)


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
