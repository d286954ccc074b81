"""The memory of this process and of single calls, and functions that free memory.

On a CUDA device the figures of a call are those of torch's allocator. It counts only this process and is
right inside containers. "Allocated" is the memory of tensors. "Reserved" is what the allocator has taken from
the device for them. On the CPU the figures are resident memory, interpreter included. Without /proc (not
Linux), figures that only /proc has are 0.
"""

import ctypes
import gc
import os

import torch

_M_MMAP_THRESHOLD = -3  # from malloc.h


class Meter:
    """Memory since the engine's start, since the last load, and of one call.

    The kernel's and torch's high-water marks are reset at the start of each measured call. The longer peaks
    are therefore kept here.
    """

    def __init__(self):
        self._device = None
        self._peak_rss = 0
        self._peak_reserved = 0

    def load(self, device):
        """Start of a load onto device: forgets the peak of the device's reserved memory."""
        self._device = device
        self._peak_reserved = 0
        if device.type == "cuda":
            torch.cuda.init()  # the next line does not do this itself
            torch.cuda.reset_peak_memory_stats(device)

    def begin(self):
        """Start of a measured call. Returns the argument of `status` for its report: (allocated or
        resident, reserved) bytes.
        """
        if self._cuda():
            self._peak_reserved = max(self._peak_reserved, torch.cuda.max_memory_reserved(self._device))
            torch.cuda.reset_peak_memory_stats(self._device)
            return torch.cuda.memory_allocated(self._device), torch.cuda.memory_reserved(self._device)
        self._peak_rss = max(self._peak_rss, read_peak_rss())
        reset_peak_rss()
        return read_rss(), 0

    def status(self, begin=None):
        """The Memory object of protocol.go. begin is the result of `begin` if this answers a measured
        call.
        """
        (rss, anonymous), peak = read_resident(), read_peak_rss()
        self._peak_rss = max(self._peak_rss, rss, peak)
        numbers = dict.fromkeys(
            ("device_allocated_bytes", "device_reserved_bytes", "device_peak_bytes", "device_free_bytes",
             "device_total_bytes", "call_begin_bytes", "call_peak_bytes", "call_begin_reserved_bytes", "call_peak_reserved_bytes"),
            0,
        )  # fmt: skip
        numbers.update(rss_bytes=rss, peak_rss_bytes=self._peak_rss, anonymous_bytes=anonymous)
        peak_reserved = 0
        if self._cuda():
            device = self._device
            peak_reserved = torch.cuda.max_memory_reserved(device)
            self._peak_reserved = max(self._peak_reserved, peak_reserved)
            free, total = torch.cuda.mem_get_info(device)
            numbers.update(
                device_allocated_bytes=torch.cuda.memory_allocated(device),
                device_reserved_bytes=torch.cuda.memory_reserved(device),
                device_peak_bytes=self._peak_reserved,
                device_free_bytes=free,
                device_total_bytes=total,
            )
            peak = torch.cuda.max_memory_allocated(device)
        if begin is not None:
            held, reserved = begin
            numbers.update(call_begin_bytes=held, call_peak_bytes=max(held, peak))
            numbers.update(call_begin_reserved_bytes=reserved, call_peak_reserved_bytes=max(reserved, peak_reserved))
        return numbers

    def _cuda(self):
        return self._device is not None and self._device.type == "cuda"


def read_rss():
    """Resident bytes of this process; 0 without /proc."""
    return read_resident()[0]


def read_resident():
    """Resident bytes of this process, and those of them that are not file-backed; 0 without /proc."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident, of_files = (int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in file.read().split()[1:3])
            return resident, resident - of_files
    except (OSError, ValueError):
        return 0, 0


def read_peak_rss():
    """The largest resident bytes since the start or the last `reset_peak_rss`."""
    return _kilobytes("/proc/self/status", "VmHWM") or _peak_of_getrusage()


def reset_peak_rss():
    """Makes the current resident memory the new peak. Without permission, the peak stays the one since
    the start.
    """
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        pass


def read_address_space():
    """Bytes of address space of this process; 0 without /proc."""
    return _kilobytes("/proc/self/status", "VmSize")


def read_host():
    """(available, total) bytes of the host's memory; zeros without /proc."""
    return _kilobytes("/proc/meminfo", "MemAvailable"), _kilobytes("/proc/meminfo", "MemTotal")


def _kilobytes(path, name):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _peak_of_getrusage():
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    except ImportError:
        return 0


def set_cap(device, cap):
    """Limits torch's allocator to cap bytes of a CUDA device, 0: no limit. The CUDA context does not
    count.
    """
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, cap / total) if cap else 1.0, device)


def prefer_small():
    """Makes freed large blocks of host memory go back to the system from now on (glibc; elsewhere no
    change).

    glibc raises its threshold for that to 32 MB as a program runs. It keeps smaller blocks in a heap that
    torch's aligned blocks fragment: gradient checkpointing then saves nothing (455 MB where 102 MB are in
    use). The price is fresh pages for each block, about 10 % of an update's time. Use it only where memory
    matters more.
    """
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)
    except (OSError, AttributeError):
        pass


def freeze():
    """Excludes all present objects from later garbage collections.

    torch has hundreds of thousands of them, which are most of a collection's work. Call this once a model is
    loaded. `thaw` undoes it, so that the model can be collected.
    """
    gc.collect()
    gc.freeze()


def thaw():
    gc.unfreeze()


def wait_for(device):
    """Waits until a CUDA device has finished its work, and raises its errors. On other devices nothing is
    pending.
    """
    if device is not None and device.type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.synchronize(device)


def trim():
    """Collects garbage and returns free memory to the device and to the operating system."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        try:
            torch.cuda.empty_cache()
        except RuntimeError as error:
            # After a failed capture of a CUDA graph, torch (up to 2.11) believes that the capture continues,
            # and frees nothing.
            if "captures_underway" not in str(error):
                raise
        if hasattr(torch._C, "_host_emptyCache"):  # pinned memory, from torch 2.6
            torch._C._host_emptyCache()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # glibc only
    except (OSError, AttributeError):
        pass
