"""A memory limit for this process, which a large batch really exceeds on any machine."""

import ctypes
import os
import resource

_TRIM, _MMAP, _ARENAS = -1, -3, -8  # glibc's mallopt: when to return memory, what gets its own mapping, number of heaps


def limit(megabytes):
    """Limits this process's address space to this many MiB above its current size. 0: no limit.

    Call it after a small first step, so that one-time allocations of torch (threads, its BLAS's buffers) don't count.
    Above the limit torch's own allocator fails, with its own message.
    """
    if megabytes:
        settle()
        most = held() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def one_thread():
    """Limits torch and its BLAS to one thread, whose buffers don't grow with the batch. Call it before importing
    torch.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def settle():
    """Makes malloc return freed memory, so that what fits once fits again: each tensor gets its own mapping, and
    there is one heap.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another libc
    for option, value in ((_MMAP, 1 << 16), (_TRIM, 1 << 16), (_ARENAS, 1)):
        mallopt(option, value)


def held():
    """Returns this process's address space in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def most_held():
    """Returns this process's peak memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def wanted(argument):
    """Returns the limit in MiB: the switch's, else TRAIN_MEMORY_MB's, else none."""
    return argument if argument is not None else int(os.environ.get("TRAIN_MEMORY_MB") or 0)
