"""Where model, homes and logs lie meanwhile: on tmpfs where it has room, since nobody reads them again."""

import os
import shutil
import tempfile

import host

NEEDED = 48 << 30  # bytes: the disk check of a run of 24 GPT-2 nodes asks for one checkpoint of each
NEEDED_DRY = 4 << 30


def choose(given, dry):
    """The folder under which scratch goes: given, else /dev/shm where disk check and host memory leave room, else the temporary folder."""
    if given:
        return given
    need = NEEDED_DRY if dry else NEEDED
    available, _ = host.memory()
    limit = host.cgroup()["cgroup_memory_bytes"]
    # What is written is small (no checkpoint but of one run); the nodes themselves need the host's memory, too.
    enough = available is not None and available > need and (limit is None or limit > need)
    if enough and os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > need:
        return "/dev/shm"
    return tempfile.gettempdir()
