"""The CPU settings chosen from /proc/cpuinfo, and what memory.py takes for out of memory."""

import pytest
import torch
from engine import environment, memory

AVX2 = "sse2 avx avx2 fma"
AVX512 = AVX2 + " avx512f avx512dq avx512bw avx512vl avx512cd"


@pytest.mark.parametrize(
    "vendor,flags,expected",
    [
        ("GenuineIntel", AVX512, {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512"}),
        ("GenuineIntel", AVX2, {"OPENBLAS_CORETYPE": "Haswell"}),
        ("AuthenticAMD", AVX2, {"OPENBLAS_CORETYPE": "Zen"}),
        ("GenuineIntel", "sse2 avx512f", {}),
    ],
)
def test_settings_follow_the_processor(tmp_path, vendor, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t: none\n")
    chosen = {}
    environment.prepare(chosen, str(path))
    assert chosen == expected
    own = {"OPENBLAS_CORETYPE": "Mine"}
    environment.prepare(own, str(path))
    assert own["OPENBLAS_CORETYPE"] == "Mine"


def test_no_cpuinfo_no_settings(tmp_path):
    chosen = {}
    environment.prepare(chosen, str(tmp_path / "none"))
    assert chosen == {}


def test_out_of_memory_is_told_from_other_errors():
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert memory.is_out_of_memory(error.value)
    assert memory.is_out_of_memory(MemoryError())
    assert memory.is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert memory.is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert not memory.is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert not memory.is_out_of_memory(ValueError("out of memory"))


def test_memory_numbers():
    status = memory.status()
    assert 10 << 20 < status["rss_bytes"] <= status["peak_rss_bytes"]
    assert status["device_allocated_bytes"] == 0
