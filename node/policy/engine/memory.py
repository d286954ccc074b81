"""What this process holds, what single calls took, and giving memory back.

On a CUDA device the figures of a call are torch's allocator's, which counts this process alone and is right inside
containers: what tensors take (allocated), and what it has taken of the device for them (reserved). On the CPU they are
resident memory, interpreter included. Linux; elsewhere /proc is absent and what only it
tells is 0.
"""

import ctypes
import gc
import os

import torch

_M_MMAP_THRESHOLD = -3  # of malloc.h


class Meter:
    """Memory since the engine's start, since the last load, and of one call.

    The kernel's and torch's high-water marks are reset at the begin of each measured call, so the longer peaks are
    kept here.
    """

    def __init__(self):
        self._device = None
        self._peak_rss = 0
        self._peak_reserved = 0

    def load(self, device):
        """A load onto device begins: forgets the peak of the device's reserved memory."""
        self._device = device
        self._peak_reserved = 0
        if device.type == "cuda":
            torch.cuda.init()  # which the next line does not do by itself
            torch.cuda.reset_peak_memory_stats(device)

    def begin(self):
        """A measured call begins; returns what `status` takes to report it: (allocated or resident, reserved) bytes."""
        if self._cuda():
            self._peak_reserved = max(self._peak_reserved, torch.cuda.max_memory_reserved(self._device))
            torch.cuda.reset_peak_memory_stats(self._device)
            return torch.cuda.memory_allocated(self._device), torch.cuda.memory_reserved(self._device)
        self._peak_rss = max(self._peak_rss, read_peak_rss())
        reset_peak_rss()
        return read_rss(), 0

    def status(self, begin=None):
        """The Memory object of protocol.go; begin is `begin`'s result where a measured call is answered."""
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
    """Resident bytes of this process; 0 where /proc doesn't tell."""
    return read_resident()[0]


def read_resident():
    """Resident bytes of this process, and of these those that are no pages of files, such as libraries; 0 where /proc doesn't tell."""
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
    """Makes the present resident memory the new peak. Where that isn't permitted, the peak stays that since the start."""
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        pass


def read_address_space():
    """Bytes of address space that this process has taken; 0 where /proc doesn't tell."""
    return _kilobytes("/proc/self/status", "VmSize")


def read_host():
    """(available, total) bytes of the host's memory; zeros where /proc doesn't tell."""
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
    """Lets torch's allocator hold at most cap bytes of a CUDA device, 0: all of it. The context isn't counted."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, cap / total) if cap else 1.0, device)


def prefer_small():
    """From now on large blocks of host memory go back to the system when they are freed (glibc; elsewhere no change).

    glibc raises the size from which it does so to 32 MB as a program runs, and keeps smaller ones in a heap that
    torch's aligned blocks leave full of holes: gradient checkpointing then saves nothing (455 MB where 102 MB are
    alive). The price is fresh pages for each block, some 10 % of an update's time, so it is paid only where memory
    matters more.
    """
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)
    except (OSError, AttributeError):
        pass


def freeze():
    """Takes all objects of now out of later garbage collections: torch's, hundreds of thousands, are most of a collection's work.

    To be called once a model is loaded. `thaw` undoes it, for what was loaded to be collected again.
    """
    gc.collect()
    gc.freeze()


def thaw():
    gc.unfreeze()


def wait_for(device):
    """Waits until a CUDA device has done all that it was asked to; raises what went wrong there. Elsewhere nothing is pending."""
    if device is not None and device.type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.synchronize(device)


def trim():
    """Collects garbage and gives free memory back to the device and to the operating system."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        try:
            torch.cuda.empty_cache()
        except RuntimeError as error:
            # After a capture of a CUDA graph that failed, torch (to 2.11) takes it to go on, and frees nothing any
            # more.
            if "captures_underway" not in str(error):
                raise
        if hasattr(torch._C, "_host_emptyCache"):  # pinned memory, from torch 2.6
            torch._C._host_emptyCache()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # glibc only
    except (OSError, AttributeError):
        pass
