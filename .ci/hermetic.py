"""Isolates pytest from the user's files and settings, like internal/hermetic in Go."""

import atexit
import os
import shutil
import site
import tempfile

# Variables that the program reads, except those that begin with SWARM_ or HF_.
FOREIGN = ("EXPERIMENT_NAME", "MODEL_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS", "SEED", "NODE_ROLE", "NODE_ID",
           "GDRIVE_PATH", "HUGGINGFACE_HUB_CACHE", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY")  # fmt: skip


def enter():
    """Gives this process and its children an empty home folder until it ends, and removes the variables that
    configure the program.

    Packages that pip has installed for the user stay usable.
    """
    for name in list(os.environ):
        if name in FOREIGN or name.startswith(("SWARM_", "_SWARM_", "HF_", "XDG_")) and name not in ("SWARM_PYTHON", "SWARM_PROGRAM"):
            del os.environ[name]
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    os.environ["HOME"] = tempfile.mkdtemp(prefix="swarm-home-")
    atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
