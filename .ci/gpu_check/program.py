"""The built program: as it is, or compressed, since a machine that is lent may take only so many bytes along."""

import gzip
import os
import shutil
import tempfile
from pathlib import Path


def find(path):
    """path, or path.gz where only that is there; None where neither can be run."""
    if os.access(path, os.X_OK) and not path.endswith(".gz"):
        return path
    packed = path if path.endswith(".gz") else path + ".gz"
    return packed if os.path.isfile(packed) else None


def unpack(path):
    """(a path that can be executed, the folder to remove afterwards or None). Not in scratch: /dev/shm may be mounted noexec."""
    if not path.endswith(".gz"):
        return path, None  # it need not be there: not every section takes it
    folder = tempfile.mkdtemp(prefix="gpu-check-program-")
    target = Path(folder) / "swarm"
    with gzip.open(path, "rb") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    target.chmod(0o755)
    return str(target), folder
