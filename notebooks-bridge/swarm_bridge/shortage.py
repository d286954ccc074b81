"""Whether an exception says that memory ran out, and letting go of what it holds.

It is told by the exception's type's name and text, so that neither torch nor JAX nor TensorFlow is imported.
"""

import sys
import traceback

from . import failures

DEVICE, HOST = "device", "host"


def out_of_memory(error):
    """Of what an exception says that there was too little: "device" (a GPU's memory), "host", or None where it is about something else."""
    cause, _, _ = failures.classify(error)
    if cause == "out_of_memory":
        return DEVICE
    if cause == "host_out_of_memory":
        return HOST
    name, said = type(error).__name__, str(error).lower()
    if name in ("XlaRuntimeError", "JaxRuntimeError"):
        return DEVICE if "resource_exhausted" in said else None
    if name == "ResourceExhaustedError":  # TensorFlow's, also for a full disk
        return DEVICE if "oom" in said or "out of memory" in said or "alloc" in said else None
    if not isinstance(error, RuntimeError):
        return None
    # Of other back ends ("MPS backend out of memory"), of NCCL's, and within another error's text: that of a
    # DataLoader's worker or of a replica.
    if any(s in said for s in failures.HOST_SAYS):
        return HOST
    return DEVICE if "out of memory" in said or any(s in said for s in failures.DEVICE_SAYS) else None


def forget(error, outside=None, contexts=True):
    """Lets go of what an exception keeps alive: the variables of the frames that it came through, and those of its cause and, with contexts, of what
    was being handled when it arose. outside is what was being handled before all that, and is left alone."""
    seen, todo = set(), [error]
    while todo:
        one = todo.pop()
        if one is None or one is outside or id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)  # whoever else has the traceback holds empty frames
        one.__traceback__ = None
        todo += [one.__cause__, one.__context__ if contexts else None]


def in_group():
    """Whether this process is one of several that torch.distributed lets wait for each other."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        return distributed is not None and distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    except (AttributeError, RuntimeError):
        return False
