"""What GPUs there are and what they have left, with the names and signatures of the guides' own scripts, so that those keep working.

Guide 0: get_gpu_info, clear_gpu_cache, get_optimal_batch_size, wrap_model_for_multi_gpu. Guide 3: get_gpu_memory_info, find_best_device,
wait_for_device, clear_gpu_memory, memory_summary, print_memory_summary. Their _mb are nvidia-smi's (2**20 bytes) and their _gb torch's (2**30).
"""

import gc
import logging
import time

from . import meter
from .cards import MIB, cards, cuda_in_use, torch_if_there
from .errors import USAGE, SwarmError

logger = logging.getLogger("swarm_bridge")

GIB = 1 << 30

# Guide 0's "Memory Calculation", in GB of 10**9 bytes; gpu.RecommendedBatch in Go is the same.
MODEL_GB, OVERHEAD_GB, FACTOR = 1.5, 2.0, 2.5


def get_gpu_info():
    """{"available", "device_count", "devices", "reason"}: a dictionary for each GPU that this process sees, as CUDA counts them: index, name,
    uuid, total_memory_gb, free_memory_gb (the driver's: what others hold is not free), allocated_memory_gb and reserved_memory_gb (this process's,
    by torch), compute_capability ("" without torch), total_memory_bytes, free_memory_bytes. reason is why there are none, or ""."""
    found, reason = cards()
    torch, cuda = torch_if_there() if found else None, cuda_in_use()
    devices = []
    for card in found:
        capability = ""
        if torch is not None:
            properties = torch.cuda.get_device_properties(card.index)
            capability = "{}.{}".format(properties.major, properties.minor)
        devices.append({
            "index": card.index, "name": card.name, "uuid": card.uuid, "compute_capability": capability,
            "total_memory_gb": card.total / GIB, "free_memory_gb": card.free / GIB,
            "allocated_memory_gb": cuda.memory_allocated(card.index) / GIB if cuda else 0.0,
            "reserved_memory_gb": cuda.memory_reserved(card.index) / GIB if cuda else 0.0,
            "total_memory_bytes": card.total, "free_memory_bytes": card.free,
        })
    return {"available": bool(devices), "device_count": len(devices), "devices": devices, "reason": reason}


def get_gpu_memory_info():
    """(index, free, total) of each GPU that this process sees, in MiB; an empty list where there is none."""
    return [(c.index, c.free // MIB, c.total // MIB) for c in cards()[0]]


def find_best_device(min_memory_mb=4000, exclude_devices=None):
    """"cuda:N" of the GPU with most free memory, at least min_memory_mb (MiB) of it and not among exclude_devices (indices or "cuda:N");
    "cpu" where there is none, with a warning that says why."""
    excluded = {_index(device) for device in exclude_devices or ()}
    found, reason = cards()
    fit = [c for c in found if c.free >= min_memory_mb * MIB and c.index not in excluded]
    if not fit:
        if found:
            reason = "none of {} GPUs has {} MiB free (the most is {} MiB)".format(len(found), min_memory_mb, max(c.free for c in found) // MIB)
        logger.warning("the CPU is used: %s", reason)
        return "cpu"
    best = max(fit, key=lambda c: (c.free, -c.index))
    logger.info("cuda:%d is used: %d of %d MiB are free", best.index, best.free // MIB, best.total // MIB)
    return "cuda:{}".format(best.index)


def wait_for_device(min_memory_mb=4000, timeout_minutes=60, check_interval_seconds=30):
    """find_best_device as soon as a GPU has that much free; None when the time is up, and at once where there is no GPU to wait for. Jobs that
    wait so don't know of each other: `swarm run --wait-for-gpu` serves them in order."""
    end = time.monotonic() + timeout_minutes * 60
    while True:
        found, reason = cards()
        if any(c.free >= min_memory_mb * MIB for c in found):
            device = find_best_device(min_memory_mb)
            if device != "cpu":  # somebody may have been faster
                return device
        left = end - time.monotonic()
        if not found or left <= 0:
            logger.warning("no GPU: %s", reason or "none had {} MiB free in {:g} minutes".format(min_memory_mb, timeout_minutes))
            return None
        logger.info("no GPU has %d MiB free; %.0f s are left to wait", min_memory_mb, left)
        time.sleep(max(0.1, min(check_interval_seconds, left)))


def get_optimal_batch_size(model_size_gb=MODEL_GB, available_memory_gb=None):
    """Guide 0's batch size: (available - 2) / (model size x 2.5), at least 1. available_memory_gb None: the whole of the smallest GPU that this
    process sees, in 10**9 bytes, as `swarm gpu` recommends; 1 where there is no GPU. It knows nothing of the model: `swarm tune` does."""
    if not model_size_gb > 0:
        raise SwarmError("model_size_gb={!r} must be above 0".format(model_size_gb), USAGE)
    if available_memory_gb is None:
        found = cards()[0]
        if not found:
            return 1
        available_memory_gb = min(c.total for c in found) / 1e9
    return max(1, int((available_memory_gb - OVERHEAD_GB) / (model_size_gb * FACTOR)))


def clear_gpu_cache():
    """Collects garbage and gives what torch's allocator caches back to the driver: True if torch uses a GPU here, else False. It neither imports
    torch nor starts CUDA: a process that hasn't yet caches nothing. Tensors that something still refers to stay."""
    gc.collect()
    cuda = cuda_in_use()
    if cuda is None:
        return False
    cuda.empty_cache()
    cuda.synchronize()
    return True


def clear_gpu_memory(device=None):
    """clear_gpu_cache; the device is taken for the guide's sake: torch empties the caches of all GPUs at once."""
    clear_gpu_cache()


def memory_summary(device=None):
    """What this process holds, as the guide prints it: lines Allocated, Reserved and Max Allocated of a GPU in GB of 2**30 bytes, by torch; of
    "cpu" Resident and Max Resident, by the kernel. device None: the current GPU if torch uses one, else the CPU."""
    cuda = cuda_in_use()
    if device is None:
        device = "cpu" if cuda is None else "cuda:{}".format(cuda.current_device())
    if str(device) == "cpu":
        resident, peak = meter.host()
        return _summary("Host", "cpu", [("Resident", resident), ("Max Resident", peak)])
    index = _index(device)
    if cuda is None:
        torch = torch_if_there()
        if torch is None or not torch.cuda.is_available():
            raise SwarmError("there is no {} to tell of: {}".format(device, cards()[1] or "torch is not installed"), USAGE, 'memory_summary("cpu")')
        return _summary("GPU", "cuda:{}".format(index), [("Allocated", 0), ("Reserved", 0), ("Max Allocated", 0)])
    return _summary("GPU", "cuda:{}".format(index), [("Allocated", cuda.memory_allocated(index)), ("Reserved", cuda.memory_reserved(index)),
                                                     ("Max Allocated", cuda.max_memory_allocated(index))])


def print_memory_summary(device=None):
    """Prints memory_summary(device)."""
    print(memory_summary(device), flush=True)


def _summary(of, device, lines):
    return "\n".join(["{} Memory Summary ({}):".format(of, device)] + ["  {}: {:.2f} GB".format(name, value / GIB) for name, value in lines])


def wrap_model_for_multi_gpu(model, device_ids=None):
    """Guide 0's multi-GPU wrapper: the model in torch.nn.DataParallel over device_ids (None: all GPUs) where there are several, on the GPU where
    there is one, as it is where there is none or where it is wrapped already. Memory is not halved by it: each GPU holds the whole model, and
    the first of them the outputs as well. Several processes (torchrun, DistributedDataParallel) are faster."""
    torch = torch_if_there()
    if torch is None:
        raise SwarmError("wrap_model_for_multi_gpu needs torch, which is not installed", USAGE, "pip install torch")
    if isinstance(model, torch.nn.DataParallel):
        return model
    if not torch.cuda.is_available():
        logger.warning("the model stays as it is: torch %s sees no GPU", torch.__version__)
        return model
    ids = list(range(torch.cuda.device_count())) if device_ids is None else [_index(device) for device in device_ids]
    if not ids:
        raise SwarmError("device_ids is empty", USAGE, "None for all GPUs")
    model = model.to("cuda:{}".format(ids[0]))  # DataParallel takes its parameters from the first
    return model if len(ids) == 1 else torch.nn.DataParallel(model, device_ids=ids)


def _index(device):
    """The number of a GPU: 1 of 1, "1", "cuda:1" and torch.device("cuda:1"); 0 of "cuda"."""
    text = str(device)
    if text == "cuda":
        return 0
    number = text[len("cuda:"):] if text.startswith("cuda:") else text
    if not number.isdigit():
        raise SwarmError("{!r} is no GPU: cuda, cuda:N or N is one".format(device), USAGE)
    return int(number)
