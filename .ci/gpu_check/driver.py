"""Measured calls of the CUDA driver, through ctypes, because torch's allocator would hide them."""

import ctypes


class Driver:
    """A context on the first visible device. Raises RuntimeError with the call's name and CUDA's error number."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gives CUDA error {code}")

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def memory(self):
        """Returns (free, total) bytes from the driver for this process."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def hoard(self, leave):
        """Allocates the card's memory except for `leave` bytes, with plain allocations. Returns the allocated bytes.
        """
        taken = 0
        while True:
            free, _ = self.memory()
            size = min(4 << 30, free - leave)
            if size < 2 << 20:
                return taken
            try:
                self.allocate(size)
            except RuntimeError:
                return taken
            taken += size
