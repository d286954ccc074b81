"""What is kept for whoever reads the figures later: logs, events, databases, tables, in one archive of bounded size.

Files are written in scratch and packed into the archive after each section and every PERIOD seconds, so that a check that is killed
leaves an archive behind. Checkpoints, models, stores and credentials are not packed.
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
HEAD, TAIL = 256 << 10, 1 << 20  # bytes kept of a long text
WANTED = (".log", ".jsonl", ".json", ".txt", ".db", ".db-wal", ".stderr")
BINARY = (".db", ".db-wal")
UNWANTED = {"exchange", "engine", "models", "locks", "workers", "joined", "outbox"}  # folders of a home


class Evidence:
    def __init__(self, folder, archive):
        self.folder, self.archive = Path(folder), Path(archive)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._homes = {}  # name -> folder of a run that goes on
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._seen = None

    def path(self, name):
        """Where a file of evidence goes; folders are made."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def watch_home(self, name, home):
        """The home of a swarm is evidence from now on, while its run goes on."""
        self._homes[name] = Path(home)

    def keep_home(self, name):
        """Copies what is wanted of a home that is about to be removed."""
        home = self._homes.pop(name, None)
        for path in wanted_of_home(home) if home else ():
            try:
                shutil.copyfile(path, self.path(f"{name}/home/{path.relative_to(home)}"))
            except OSError:
                pass

    def start(self):
        """Packs every PERIOD seconds from now on."""
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self):
        while not self._over.wait(PERIOD):
            try:
                self.pack()
            except OSError:  # a full disk: the last pack tells
                pass

    def close(self):
        self._over.set()
        self.pack()

    def pack(self):
        """Writes the archive anew, where something has changed. The smallest files come first: what is left out is the largest."""
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
    """Files of a folder that are evidence, but for those in folders of these names."""
    out = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        out += [Path(root) / name for name in files if name.endswith(WANTED)]
    return out


def wanted_of_home(home):
    """The database and the logs of a home. Journals hold every completion and tell nothing of a card."""
    return [path for path in wanted(home, UNWANTED) if not path.name.startswith("journal-")]


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def tarred(files):
    """A gzipped tar of (size, name, path), of at most LIMIT bytes; LEFT_OUT.txt in it names what was too much."""
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
    """A file's bytes; of a long text its begin and its end."""
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
