"""A memory of one's own: a limit that a large batch truly runs into, on any machine."""

import ctypes
import os
import resource

_TRIM, _MMAP, _ARENAS = -1, -3, -8  # glibc's mallopt: what is given back, what is a mapping of its own, how many heaps there are


def limit(megabytes):
    """Lets this process have so many MiB of address space more than it has now; 0: no limit. Call it after a first small step: what torch takes once
    (threads, its BLAS's buffers) is then not counted. Beyond it torch's own allocator fails, with its own words."""
    if megabytes:
        settle()
        most = held() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def one_thread():
    """Lets torch and its BLAS compute with one thread, whose buffers don't grow with the batch. Call it before torch is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def settle():
    """Lets malloc give back what is freed, so that what fits once fits again: a tensor is a mapping of its own, and there is one heap."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another libc
    for option, value in ((_MMAP, 1 << 16), (_TRIM, 1 << 16), (_ARENAS, 1)):
        mallopt(option, value)


def held():
    """Bytes of address space that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def most_held():
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def wanted(argument):
    """The limit in MiB: of the switch, else of TRAIN_MEMORY_MB, else none."""
    return argument if argument is not None else int(os.environ.get("TRAIN_MEMORY_MB") or 0)
