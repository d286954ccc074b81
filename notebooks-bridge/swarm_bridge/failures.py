"""A trainer's failure in the launcher's terms: a cause (event.Cause*), a line, and an exit code (the launcher's
contract).
"""

import errno

FAILED, MEMORY = 1, 3

DEVICE_SAYS = ("cuda out of memory", "cuda error: out of memory", "cublas_status_alloc_failed", "cudaerrormemoryallocation", "hip out of memory")
HOST_SAYS = ("defaultcpuallocator", "not enough memory", "can't allocate memory", "cannot allocate memory", "std::bad_alloc")


def classify(error):
    """Returns cause, message and exit code for an exception that ends a trainer."""
    message = "{}: {}".format(type(error).__name__, error) if str(error) else type(error).__name__
    message = " ".join(message.split())[:2000]
    said = message.lower()
    if type(error).__name__ == "OutOfMemoryError" or (isinstance(error, RuntimeError) and any(s in said for s in DEVICE_SAYS)):
        return "out_of_memory", message, MEMORY  # torch.cuda.OutOfMemoryError, torch.OutOfMemoryError since 2.5, a RuntimeError before 1.13
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM or (
            isinstance(error, RuntimeError) and any(s in said for s in HOST_SAYS)):
        return "host_out_of_memory", message, MEMORY
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full", message, FAILED
    if isinstance(error, ImportError):
        return "python", message, FAILED
    return "unknown", message, FAILED
