"""This process's memory: host memory from the kernel, GPU memory from torch's allocator, if torch uses a GPU."""

import sys


def memory(budget=0):
    """Returns this process's event.Memory, in bytes."""
    resident, peak = host()
    reserved, highest = device()
    return {"rss_bytes": resident, "peak_rss_bytes": peak, "device_bytes": reserved, "device_peak_bytes": highest, "budget_bytes": budget}


def host():
    """Returns current and peak resident bytes; 0 if the system doesn't report them."""
    found = {}
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in ("VmRSS", "VmHWM"):
                    found[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0, 0
    return found.get("VmRSS", 0), found.get("VmHWM", 0)


def device():
    """Returns current and peak bytes that torch's CUDA allocator has reserved on all GPUs. It never starts CUDA or
    imports torch.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        if cuda is None or not cuda.is_initialized():
            return 0, 0
        cards = range(cuda.device_count())
        return sum(cuda.memory_reserved(i) for i in cards), sum(cuda.max_memory_reserved(i) for i in cards)
    except (AttributeError, RuntimeError, AssertionError):
        return 0, 0  # a torch that is still being imported, or a failed context
