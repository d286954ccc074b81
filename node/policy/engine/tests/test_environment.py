"""The CPU settings chosen from /proc/cpuinfo."""

import pytest
from engine import environment

AVX2 = "sse2 avx avx2 fma"
ALWAYS = {"OMP_WAIT_POLICY": "PASSIVE", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
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
    assert chosen == dict(expected, **ALWAYS)
    own = {"OPENBLAS_CORETYPE": "Mine", "OMP_WAIT_POLICY": "ACTIVE"}
    environment.prepare(own, str(path))
    assert own["OPENBLAS_CORETYPE"] == "Mine" and own["OMP_WAIT_POLICY"] == "ACTIVE"


def test_no_cpuinfo_no_settings_of_the_processor(tmp_path):
    chosen = {}
    environment.prepare(chosen, str(tmp_path / "none"))
    assert chosen == ALWAYS
