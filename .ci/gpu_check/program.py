"""The built program, plain or compressed, because transfers to a remote machine are limited in size."""

import gzip
import os
import shutil
import tempfile
from pathlib import Path


def find(path):
    """Returns path, or path.gz if only that exists; None if neither can be run."""
    if os.access(path, os.X_OK) and not path.endswith(".gz"):
        return path
    packed = path if path.endswith(".gz") else path + ".gz"
    return packed if os.path.isfile(packed) else None


def unpack(path):
    """Returns (an executable path, the folder to remove afterward or None). It is not in scratch, because /dev/shm
    may be mounted noexec.
    """
    if not path.endswith(".gz"):
        return path, None  # it may be missing: not every section needs it
    folder = tempfile.mkdtemp(prefix="gpu-check-program-")
    target = Path(folder) / "swarm"
    with gzip.open(path, "rb") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    target.chmod(0o755)
    return str(target), folder
