"""Recognizes exceptions of torch 1.13 to 2.x that mean a shortage of memory, and tells where and how
much.

The texts are those of c10's CUDA caching allocator, of c10's CPU allocator, of the driver and of the CUDA
libraries.
"""

import os
import re
import sys

import torch

from . import memory

_PHRASES = (
    "out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_failed", "bad_alloc",
)  # fmt: skip
# Other errors of torch when a device's memory runs out:
# - Its allocator asks NVML which processes hold the memory. From 2.1 on it fails if NVML may not answer (MIG,
#   containers): the first words of pytorch #112377 and #121899. It uses NVML at no other time.
# - A cuBLAS handle allocates device memory when it is created. Later calls with the same status are other faults.
# - A status of the driver without a text.
_DISGUISED = re.compile(
    r"NVML_SUCCESS == .{1,200}INTERNAL ASSERT FAILED at .{1,500}CUDACachingAllocator\.cpp"
    r"|CUBLAS_STATUS_NOT_INITIALIZED when calling `?cublasCreate\b"
    r"|CUDA driver error: 2\b",
    re.DOTALL,
)
_DEVICE = ("cuda", "cublas", "cudnn", "nccl")
_UNITS = {"bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
# "Tried to allocate 17.66 GiB" (CUDA), "you tried to allocate 1234 bytes" (CPU).
_REQUESTED = re.compile(r"tried to allocate ([0-9.]+) (bytes|kib|mib|gib)", re.IGNORECASE)


def is_out_of_memory(error):
    """Whether an exception means that device or host memory ran out."""
    if isinstance(error, MemoryError) or _is_cuda_class(error):
        return True
    if not isinstance(error, RuntimeError):  # AcceleratorError of torch 2.8 is a RuntimeError too
        return False
    text = str(error)
    return any(phrase in text.lower() for phrase in _PHRASES) or _DISGUISED.search(text) is not None


def _is_cuda_class(error):
    kind = getattr(torch.cuda, "OutOfMemoryError", None)  # a subclass of RuntimeError, from torch 1.13 on
    return kind is not None and isinstance(error, kind)


def describe(error, device, cap):
    """The Shortage object of protocol.go for an exception that `is_out_of_memory`.

    device is the device of the loaded model or None, cap its memory_cap_bytes. Call this while handling the
    exception, because afterwards the failed call's memory is freed.
    """
    text = str(error)
    found = _REQUESTED.search(text)
    requested = int(float(found.group(1)) * _UNITS[found.group(2).lower()]) if found else 0
    on_device = not isinstance(error, MemoryError) and (
        _is_cuda_class(error) or any(word in text.lower() for word in _DEVICE)
    )
    if on_device:
        return _shortage("device", requested, *_on_device(device, cap))
    return _shortage("host", requested, memory.read_rss(), host_cap(), *memory.read_host())


def _on_device(device, cap):
    """(used, cap, free, total) of a device; zeros if it is not a CUDA device or no longer answers."""
    if device is None or device.type != "cuda":
        return 0, cap, 0, 0
    used = torch.cuda.memory_reserved(device)
    try:
        return (used, cap, *torch.cuda.mem_get_info(device))
    except RuntimeError as error:  # the failure being described matters more than this one
        print(f"engine: the device's free memory can't be read ({first_line(error)})", file=sys.stderr, flush=True)
        return used, cap, 0, 0


def first_line(error):
    """An exception's first line, at most 500 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else "no message"


def _shortage(where, requested, used, cap, free, total):
    return {
        "where": where,
        "requested_bytes": requested,
        "used_bytes": used,
        "cap_bytes": cap,
        "free_bytes": free,
        "total_bytes": total,
    }


def host_cap(root="/sys/fs/cgroup", self_cgroup="/proc/self/cgroup"):
    """The lowest of RLIMIT_AS and the memory limits of this process's cgroup and its parents, in bytes;
    0: none.
    """
    limits = [address_space_limit()]
    for directory, name in _cgroups(root, self_cgroup):
        while directory.startswith(root):
            limits.append(_read_limit(os.path.join(directory, name)))
            directory = os.path.dirname(directory)
    return min((limit for limit in limits if limit), default=0)


def host_room(root="/sys/fs/cgroup", self_cgroup="/proc/self/cgroup"):
    """Bytes of host memory that this process may still use: the lowest of available memory and the rest
    of each limit.

    A cgroup's page cache counts as free if the kernel can drop it. 0 if nothing is known.
    """
    rooms = [memory.read_host()[0]]
    limit = address_space_limit()
    if limit:
        rooms.append(limit - memory.read_address_space())
    for directory, name in _cgroups(root, self_cgroup):
        while directory.startswith(root):
            limit = _read_limit(os.path.join(directory, name))
            if limit:
                rooms.append(limit - _cgroup_used(directory, name))
            directory = os.path.dirname(directory)
    return max(0, min(rooms))


def _cgroup_used(directory, limit_name):
    """Bytes charged to a cgroup, without inactive file pages."""
    current, prefix = ("memory.current", "") if limit_name == "memory.max" else ("memory.usage_in_bytes", "total_")
    used = _read_limit(os.path.join(directory, current))
    try:
        with open(os.path.join(directory, "memory.stat"), encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == prefix + "inactive_file":
                    used -= int(value)
    except (OSError, ValueError):
        pass
    return max(0, used)


def address_space_limit():
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        return 0 if soft == resource.RLIM_INFINITY else soft
    except (ImportError, OSError):
        return 0


def _cgroups(root, self_cgroup):
    """(directory, name of the limit file) of version 2's cgroup and of version 1's memory controller."""
    try:
        with open(self_cgroup, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = os.path.normpath("/" + path).lstrip("/")
        if controllers == "":
            yield os.path.join(root, path) if path else root, "memory.max"
        elif "memory" in controllers.split(","):
            yield os.path.join(root, "memory", path), "memory.limit_in_bytes"


def _read_limit(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            value = int(file.read())
    except (OSError, ValueError):  # absent, or "max"
        return 0
    return value if 0 < value < 1 << 60 else 0  # version 1 writes "none" as nearly 2^63
