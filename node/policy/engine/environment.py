"""Settings that torch, OpenBLAS and cuBLAS read once, at load time. Must not import torch.

OpenBLAS falls back to its oldest kernels (SSE2, about a fifth of the speed) on a processor newer than itself.
torch 1.13 uses AVX2 even where AVX-512 is possible. Environment variables select better kernels for both.
Waiting OpenMP threads spin, on cores that other nodes or a busy thread need.
"""

import ctypes
import re

_AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}
_AVX2 = {"avx2", "fma"}


def prepare(environ, cpuinfo="/proc/cpuinfo"):
    """Sets OMP_WAIT_POLICY, OPENBLAS_CORETYPE, ATEN_CPU_CAPABILITY and CUBLAS_WORKSPACE_CONFIG in
    environ.

    It keeps values that the user has set.
    """
    environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS bit-identical on every stream
    flags, vendor = read_flags(cpuinfo)
    if _AVX512 <= flags:
        environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
        environ.setdefault("ATEN_CPU_CAPABILITY", "avx512")
    elif _AVX2 <= flags:
        environ.setdefault("OPENBLAS_CORETYPE", "Zen" if vendor == "AuthenticAMD" else "Haswell")


def read_flags(cpuinfo):
    """Returns the first processor's flags as a set, and its vendor. Both are empty without the file."""
    flags, vendor = set(), ""
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                name = name.strip()
                if name == "vendor_id":
                    vendor = value.strip()
                elif name == "flags":
                    flags = set(value.split())
                    break
    except OSError:
        pass
    return flags, vendor


def loaded_openblas():
    """Returns a ctypes handle of the OpenBLAS that this process has loaded, or None."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = set(re.findall(r"(/\S*openblas\S*\.so\S*)", file.read()))
    except OSError:
        return None
    for path in sorted(paths):
        try:
            library = ctypes.CDLL(path)
            library.openblas_set_num_threads  # a stub of the same name may lack this function
            return library
        except (OSError, AttributeError):
            continue
    return None


def openblas_core(library):
    """Returns the name of the kernels that OpenBLAS chose, such as "SkylakeX"."""
    try:
        library.openblas_get_corename.restype = ctypes.c_char_p
        return library.openblas_get_corename().decode("ascii", "replace")
    except AttributeError:
        return ""
