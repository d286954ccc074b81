"""Allocates CUDA memory below and beyond this process's limit. It uses only the standard library and calls the driver directly.

    canary.py SMALL LARGE      (bytes)

Allocates SMALL bytes and prints "ready FREE", the free bytes that the driver reports. Under a limit these are the rest of the limit.
Then it waits for a line, tries LARGE bytes, and prints "refused" or "allowed". An error is one line that begins with "error".
"""

import ctypes
import sys

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


def main():
    small, large = int(sys.argv[1]), int(sys.argv[2])
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(driver, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gives CUDA error {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    first, second = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(first), ctypes.c_size_t(small))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    print("ready", free.value, flush=True)
    sys.stdin.readline()
    code = driver.cuMemAlloc_v2(ctypes.byref(second), ctypes.c_size_t(large))
    if code == 0:
        call("cuMemFree_v2", second)
        answer = "allowed"
    elif code == OUT_OF_MEMORY:
        answer = "refused"
    else:
        answer = f"error cuMemAlloc_v2 gives CUDA error {code}"
    call("cuMemFree_v2", first)
    call("cuDevicePrimaryCtxRelease_v2", device)
    print(answer, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, AttributeError) as error:
        print("error", " ".join(str(error).split()), flush=True)
        sys.exit(1)
