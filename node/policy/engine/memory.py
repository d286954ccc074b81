"""What the process holds, giving it back, and telling an out-of-memory error from others."""

import ctypes
import gc
import os

import torch

_PHRASES = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_failed")


def status(device=None):
    """The Memory object of protocol.go: bytes of this process and, on a CUDA device, of torch's allocator."""
    rss = read_rss()
    numbers = {
        "rss_bytes": rss,
        "peak_rss_bytes": max(rss, read_peak_rss()),
        "device_allocated_bytes": 0,
        "device_reserved_bytes": 0,
        "device_peak_bytes": 0,
        "device_free_bytes": 0,
        "device_total_bytes": 0,
        "call_begin_bytes": 0,
        "call_peak_bytes": 0,
    }
    if device is not None and device.type == "cuda":
        numbers["device_allocated_bytes"] = torch.cuda.memory_allocated(device)
        numbers["device_reserved_bytes"] = torch.cuda.memory_reserved(device)
        numbers["device_peak_bytes"] = torch.cuda.max_memory_reserved(device)
    return numbers


def read_rss():
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def read_peak_rss():
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    except ImportError:
        return 0


def is_out_of_memory(error):
    """Whether an exception means that device or host memory ran out."""
    if isinstance(error, MemoryError):
        return True
    cuda = getattr(torch.cuda, "OutOfMemoryError", None)
    if cuda is not None and isinstance(error, cuda):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _PHRASES)


def trim():
    """Collects garbage and gives free memory back to the device and to the operating system."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # glibc only
    except (OSError, AttributeError):
        pass
