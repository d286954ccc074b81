"""Recognizes out-of-memory exceptions, and frees the memory that they hold.

It goes by the name and text of the exception's type, so that torch, JAX and TensorFlow need not be imported.
"""

import sys
import traceback

from . import failures

DEVICE, HOST = "device", "host"


def out_of_memory(error):
    """Returns which memory ran out by an exception: "device" (a GPU's), "host", or None if it is about something
    else.
    """
    cause, _, _ = failures.classify(error)
    if cause == "out_of_memory":
        return DEVICE
    if cause == "host_out_of_memory":
        return HOST
    name, said = type(error).__name__, str(error).lower()
    if name in ("XlaRuntimeError", "JaxRuntimeError"):
        return DEVICE if "resource_exhausted" in said else None
    if name == "ResourceExhaustedError":  # TensorFlow's, which also means a full disk
        return DEVICE if "oom" in said or "out of memory" in said or "alloc" in said else None
    if not isinstance(error, RuntimeError):
        return None
    # Other back ends' ("MPS backend out of memory"), NCCL's, and errors quoted by another error: those of a
    # DataLoader's worker or of a replica.
    if any(s in said for s in failures.HOST_SAYS):
        return HOST
    return DEVICE if "out of memory" in said or any(s in said for s in failures.DEVICE_SAYS) else None


def forget(error, outside=None, contexts=True):
    """Frees what an exception keeps alive: the variables of its traceback's frames, and those of its cause and, with
    contexts, of its context. outside is an exception that was being handled before, and is left alone.
    """
    seen, todo = set(), [error]
    while todo:
        one = todo.pop()
        if one is None or one is outside or id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)  # other references to the traceback then hold empty frames
        one.__traceback__ = None
        todo += [one.__cause__, one.__context__ if contexts else None]


def in_group():
    """Tells whether this process belongs to a torch.distributed group, whose processes wait for each other."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        return distributed is not None and distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    except (AttributeError, RuntimeError):
        return False
