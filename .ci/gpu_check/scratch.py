"""The place for model, homes and logs during the check: on tmpfs if it is large enough, because these files are
temporary.
"""

import os
import shutil
import tempfile

import host

NEEDED = 48 << 30  # bytes: the disk check of a run of 24 GPT-2 nodes requires one checkpoint of each
NEEDED_DRY = 4 << 30


def choose(given, dry):
    """Returns the parent folder of scratch: the given one, else /dev/shm if it passes the disk check and leaves
    enough host memory, else the temporary folder.
    """
    if given:
        return given
    need = NEEDED_DRY if dry else NEEDED
    available, _ = host.memory()
    limit = host.cgroup()["cgroup_memory_bytes"]
    # Few bytes are written (only one run writes checkpoints), but the nodes need host memory, too.
    enough = available is not None and available > need and (limit is None or limit > need)
    if enough and os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > need:
        return "/dev/shm"
    return tempfile.gettempdir()
