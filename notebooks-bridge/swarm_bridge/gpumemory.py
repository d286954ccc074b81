"""GPUs and their free memory, with the names and signatures of the guides' own scripts, so that those scripts keep
working.

Guide 0: get_gpu_info, clear_gpu_cache, get_optimal_batch_size, wrap_model_for_multi_gpu. Guide 3:
get_gpu_memory_info, find_best_device, wait_for_device, clear_gpu_memory, memory_summary, print_memory_summary. _mb is
MiB as in nvidia-smi (2**20 bytes), _gb is GiB as in torch (2**30 bytes).
"""

import gc
import logging
import time

from . import meter
from .cards import MIB, cards, cuda_in_use, torch_if_there
from .errors import USAGE, SwarmError

logger = logging.getLogger("swarm_bridge")

GIB = 1 << 30

# Guide 0's "Memory Calculation", in GB of 10**9 bytes. gpu.RecommendedBatch in Go has the same values.
MODEL_GB, OVERHEAD_GB, FACTOR = 1.5, 2.0, 2.5


def get_gpu_info():
    """Returns {"available", "device_count", "devices", "reason"}.

    devices has a dictionary for each GPU visible to this process, in CUDA's order: index, name, uuid,
    total_memory_gb, free_memory_gb (from the driver, without other processes' memory), allocated_memory_gb and
    reserved_memory_gb (this process's, from torch), compute_capability ("" without torch), total_memory_bytes,
    free_memory_bytes. reason says why there are none, or is "".
    """
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
    """Returns (index, free, total) of each GPU visible to this process, in MiB; an empty list if there is none."""
    return [(c.index, c.free // MIB, c.total // MIB) for c in cards()[0]]


def find_best_device(min_memory_mb=4000, exclude_devices=None):
    """Returns "cuda:N" of the GPU with the most free memory, if it has at least min_memory_mb (MiB) and isn't in
    exclude_devices (indices or "cuda:N"). Otherwise it returns "cpu" and warns why.
    """
    excluded = {_index(device) for device in exclude_devices or ()}
    found, reason = cards()
    fit = [c for c in found if c.free >= min_memory_mb * MIB and c.index not in excluded]
    if not fit:
        if found:
            reason = "none of {} GPUs has {} MiB free (the most is {} MiB)".format(len(found), min_memory_mb, max(c.free for c in found) // MIB)
        logger.warning("using the CPU: %s", reason)
        return "cpu"
    best = max(fit, key=lambda c: (c.free, -c.index))
    logger.info("using cuda:%d: %d of %d MiB are free", best.index, best.free // MIB, best.total // MIB)
    return "cuda:{}".format(best.index)


def wait_for_device(min_memory_mb=4000, timeout_minutes=60, check_interval_seconds=30):
    """Waits until find_best_device finds a GPU. Returns None after timeout_minutes, and at once if there is no GPU.

    Jobs that wait with this function don't coordinate. `swarm run --wait-for-gpu` serves jobs in order.
    """
    end = time.monotonic() + timeout_minutes * 60
    while True:
        found, reason = cards()
        if any(c.free >= min_memory_mb * MIB for c in found):
            device = find_best_device(min_memory_mb)
            if device != "cpu":  # another process may have taken the memory
                return device
        left = end - time.monotonic()
        if not found or left <= 0:
            logger.warning("no GPU: %s", reason or "no GPU had {} MiB free within {:g} minutes".format(min_memory_mb, timeout_minutes))
            return None
        logger.info("no GPU has %d MiB free; waiting for up to %.0f s more", min_memory_mb, left)
        time.sleep(max(0.1, min(check_interval_seconds, left)))


def get_optimal_batch_size(model_size_gb=MODEL_GB, available_memory_gb=None):
    """Returns guide 0's batch size: (available - 2) / (model size x 2.5), at least 1.

    available_memory_gb None: the total memory of the smallest GPU visible to this process, in 10**9 bytes, as `swarm
    gpu` recommends; 1 without a GPU. The formula ignores everything about the model except its size. `swarm tune`
    takes more into account.
    """
    if not model_size_gb > 0:
        raise SwarmError("model_size_gb={!r} must be above 0".format(model_size_gb), USAGE)
    if available_memory_gb is None:
        found = cards()[0]
        if not found:
            return 1
        available_memory_gb = min(c.total for c in found) / 1e9
    return max(1, int((available_memory_gb - OVERHEAD_GB) / (model_size_gb * FACTOR)))


def clear_gpu_cache():
    """Collects garbage and frees the cache of torch's allocator. Returns True if torch uses a GPU here, else False.

    It never imports torch or starts CUDA: without CUDA there is no cache. Tensors with references remain.
    """
    gc.collect()
    cuda = cuda_in_use()
    if cuda is None:
        return False
    cuda.empty_cache()
    cuda.synchronize()
    return True


def clear_gpu_memory(device=None):
    """Calls clear_gpu_cache. The argument exists for compatibility with the guide: torch empties the caches of all
    GPUs at once.
    """
    clear_gpu_cache()


def memory_summary(device=None):
    """Returns this process's memory in the guide's format.

    For a GPU: lines Allocated, Reserved and Max Allocated, in GB of 2**30 bytes, from torch. For "cpu": Resident and
    Max Resident, from the kernel. device None: the current GPU if torch uses one, else the CPU.
    """
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
            raise SwarmError("no {} is available: {}".format(device, cards()[1] or "torch is not installed"), USAGE, 'memory_summary("cpu")')
        return _summary("GPU", "cuda:{}".format(index), [("Allocated", 0), ("Reserved", 0), ("Max Allocated", 0)])
    return _summary("GPU", "cuda:{}".format(index), [("Allocated", cuda.memory_allocated(index)), ("Reserved", cuda.memory_reserved(index)),
                                                     ("Max Allocated", cuda.max_memory_allocated(index))])


def print_memory_summary(device=None):
    """Prints memory_summary(device)."""
    print(memory_summary(device), flush=True)


def _summary(of, device, lines):
    return "\n".join(["{} Memory Summary ({}):".format(of, device)] + ["  {}: {:.2f} GB".format(name, value / GIB) for name, value in lines])


def wrap_model_for_multi_gpu(model, device_ids=None):
    """Guide 0's multi-GPU wrapper: returns the model in torch.nn.DataParallel over device_ids (None: all GPUs).

    With one GPU it returns the model on that GPU. Without a GPU, or if the model is already wrapped, it returns the
    model unchanged. It doesn't reduce memory: each GPU holds the whole model, and the first also holds the outputs.
    Several processes (torchrun, DistributedDataParallel) are faster.
    """
    torch = torch_if_there()
    if torch is None:
        raise SwarmError("wrap_model_for_multi_gpu needs torch, which is not installed", USAGE, "pip install torch")
    if isinstance(model, torch.nn.DataParallel):
        return model
    if not torch.cuda.is_available():
        logger.warning("the model is unchanged, because torch %s sees no GPU", torch.__version__)
        return model
    ids = list(range(torch.cuda.device_count())) if device_ids is None else [_index(device) for device in device_ids]
    if not ids:
        raise SwarmError("device_ids is empty", USAGE, "None for all GPUs")
    model = model.to("cuda:{}".format(ids[0]))  # DataParallel copies parameters from the first
    return model if len(ids) == 1 else torch.nn.DataParallel(model, device_ids=ids)


def _index(device):
    """Returns the index of a GPU: 1 for 1, "1", "cuda:1" and torch.device("cuda:1"); 0 for "cuda"."""
    text = str(device)
    if text == "cuda":
        return 0
    number = text[len("cuda:"):] if text.startswith("cuda:") else text
    if not number.isdigit():
        raise SwarmError("{!r} is not a GPU: allowed: cuda, cuda:N or N".format(device), USAGE)
    return int(number)
