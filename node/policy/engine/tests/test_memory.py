"""Memory of a process and of a call, measured on real allocations, and shortages, read from real
failures.
"""

import gc
import resource
import weakref

import pytest
import torch
from engine import memory, shortage

SIZE = 64 << 20


def test_a_call_is_measured_from_its_begin_to_its_peak():
    memory.trim()  # otherwise the block may reuse heap memory of another test
    meter = memory.Meter()
    begin = meter.begin()
    block = torch.ones(SIZE, dtype=torch.uint8)
    del block
    status = meter.status(begin)
    assert status["call_begin_bytes"] == begin[0] > 10 << 20
    assert SIZE * 0.9 < status["call_peak_bytes"] - begin[0] < SIZE * 1.5
    assert status["call_begin_reserved_bytes"] == status["call_peak_reserved_bytes"] == 0


def test_a_later_call_does_not_inherit_the_peak_but_the_process_keeps_it():
    memory.trim()
    meter = memory.Meter()
    first = meter.begin()
    block = torch.ones(SIZE, dtype=torch.uint8)
    del block
    memory.trim()
    high = meter.status(first)["peak_rss_bytes"]
    second = meter.begin()
    status = meter.status(second)
    assert status["call_peak_bytes"] - second[0] < SIZE / 4
    assert status["peak_rss_bytes"] == high >= first[0] + SIZE * 0.9
    assert meter.status()["call_peak_bytes"] == meter.status()["call_begin_bytes"] == 0


def test_without_permission_to_reset_the_peak_is_that_since_the_start(monkeypatch):
    real = open

    def refusing(path, *arguments, **options):
        if path == "/proc/self/clear_refs":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", refusing)
    memory.trim()  # otherwise the block may reuse heap memory of another test
    meter = memory.Meter()
    begin = meter.begin()
    status = meter.status(begin)
    assert begin[0] <= status["call_peak_bytes"] <= status["peak_rss_bytes"]


def failure(allocate):
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate()
    return caught.value


def test_out_of_memory_is_told_from_other_errors():
    assert shortage.is_out_of_memory(failure(lambda: torch.empty(1 << 60, dtype=torch.uint8)))
    assert shortage.is_out_of_memory(failure(lambda: bytearray(1 << 60)))
    assert shortage.is_out_of_memory(RuntimeError("std::bad_alloc"))
    assert not shortage.is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert not shortage.is_out_of_memory(ValueError("out of memory"))


def test_a_real_failure_of_the_host_names_its_bytes():
    found = shortage.describe(failure(lambda: torch.empty(1 << 60, dtype=torch.uint8)), torch.device("cpu"), 7)
    assert (found["where"], found["requested_bytes"]) == ("host", 1 << 60)
    assert 10 << 20 < found["used_bytes"] < found["total_bytes"] and 0 < found["free_bytes"] <= found["total_bytes"]
    assert shortage.describe(failure(lambda: bytearray(1 << 60)), None, 0)["requested_bytes"] == 0


GIB = 1 << 30
ASSERT = 'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":'
# The texts of torch 1.13 to 2.15 and the libraries (c10/cuda/CUDACachingAllocator.cpp,
# c10/core/impl/alloc_cpu.cpp).
MESSAGES = [
    ("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 14.76 GiB total capacity; 13.05 GiB already allocated)", "device", 2 * GIB),
    ("CUDA out of memory. Tried to allocate 17.66 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1 GiB is free.", "device",
     int(17.66 * GIB)),
    ("CUDA out of memory. Tried to allocate 512 bytes. GPU 0 has a total capacity of 15.00 GiB", "device", 512),
    ("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0)", "device", 20 << 20),
    ("CUDA error: out of memory", "device", 0),
    ("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/\n"
     "CUDA kernel errors might be asynchronously reported at some other API call", "device", 0),
    ("CUDA driver error: out of memory", "device", 0),
    ("CUDA driver error: 2", "device", 0),
    ("CUDA out of memory. Tried to allocate more than 1EB memory.", "device", 0),
    ("CUDA ran out of memory outside PyTorch's allocator. If this workload uses many dynamic shapes, cuDNN may need additional "
     "device memory to JIT-compile shape-specialized kernels.", "device", 0),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "device", 0),
    ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "device", 0),
    ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(handle)", "device", 0),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "device", 0),
    ("NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:133, unhandled cuda error (run with NCCL_DEBUG=INFO for details), "
     "NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
     "device", 0),
    (f"NVML_SUCCESS == r {ASSERT}830, please report a bug to PyTorch. ", "device", 0),
    ('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/opt/conda/conda-bld/pytorch_1695392035891/c10/cuda/CUDACachingAllocator.cpp":'
     "1154, please report a bug to PyTorch. ", "device", 0),
    (f"NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() {ASSERT}1123, please report a bug to PyTorch. ", "device", 0),
    (f"NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id, &nvml_device) {ASSERT}815, please report", "device", 0),
    ("[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 81920 bytes. "
     "Error code 12 (Cannot allocate memory)", "host", 81920),
    ("[enforce fail at CPUAllocator.cpp:68] . DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes.", "host", 4096),
]  # fmt: skip


@pytest.mark.parametrize("message,where,requested", MESSAGES)
def test_the_allocators_words_are_read(message, where, requested):
    error = RuntimeError(message)
    assert shortage.is_out_of_memory(error)
    found = shortage.describe(error, torch.device("cpu"), 5)
    assert (found["where"], found["requested_bytes"]) == (where, requested)
    assert found["cap_bytes"] == (5 if where == "device" else shortage.host_cap())


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered",
        "CUDA error: unspecified launch failure",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda)`",
        "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`",
        "CUDA error: no kernel image is available for execution on the device",
        "CUDA driver error: 209",
        "CUDA driver error: invalid argument",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.",
        f"captures_underway.empty() {ASSERT}2939, please report a bug to PyTorch. ",
        f"block != nullptr {ASSERT}3235, please report a bug to PyTorch. ",
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../torch/csrc/distributed/Topology.cpp":12, please report a bug to PyTorch. ',
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error",
    ],
)
def test_other_failures_of_a_device_are_no_shortage(message):
    assert not shortage.is_out_of_memory(RuntimeError(message))


@pytest.mark.parametrize("name", ["OutOfMemoryError", "AcceleratorError"])
def test_torchs_own_classes_are_known(name):
    kind = getattr(torch, name, None) or getattr(torch.cuda, name, None)
    if kind is None:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    assert shortage.is_out_of_memory(kind("CUDA error: out of memory"))
    assert shortage.is_out_of_memory(kind("CUDA error: an illegal memory access was encountered")) == (name == "OutOfMemoryError")


def test_a_device_that_does_not_answer_is_described_by_what_is_known(monkeypatch, capfd):
    def failing(_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be")

    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 77)
    monkeypatch.setattr(torch.cuda, "mem_get_info", failing)
    found = shortage.describe(RuntimeError("CUDA out of memory. Tried to allocate 2.00 MiB"), torch.device("cuda", 0), 5)
    assert found == dict(where="device", requested_bytes=2 << 20, used_bytes=77, cap_bytes=5, free_bytes=0, total_bytes=0)
    assert "an illegal memory access was encountered)\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    "membership,files,expected",
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "3000", "memory.max": "9000"}, 3000),
        ("0::/\n", {"memory.max": "4096"}, 4096),
        ("0::/../elsewhere\n", {"memory.max": "max"}, 0),
        ("9:name=systemd:/\n4:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": "700"}, 700),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "800", "memory/x/memory.limit_in_bytes": "9223372036854771712"}, 800),
        ("nonsense\n", {}, 0),
    ],
)
def test_the_tightest_cgroup_limit_counts(tmp_path, monkeypatch, membership, files, expected):
    monkeypatch.setattr(shortage, "address_space_limit", lambda: 0)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "cgroup").write_text(membership)
    assert shortage.host_cap(str(tmp_path / "fs"), str(tmp_path / "cgroup")) == expected


def test_the_address_space_limit_counts():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = 1 << 44
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        assert shortage.address_space_limit() == limit >= shortage.host_cap() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_devices_peak_since_load_outlives_the_resets_of_each_call(monkeypatch):
    """Tests only the bookkeeping, with fake readings of torch's allocator: resets forget peaks, and the
    meter must not.
    """
    now = dict(allocated=100, reserved=200, peak_allocated=100, peak_reserved=200)

    def reset(_):
        now.update(peak_allocated=now["allocated"], peak_reserved=now["reserved"])

    def use(allocated, reserved):
        now.update(peak_allocated=max(now["peak_allocated"], allocated), peak_reserved=max(now["peak_reserved"], reserved))

    for name, reading in (
        ("memory_allocated", "allocated"), ("memory_reserved", "reserved"), ("max_memory_allocated", "peak_allocated"),
        ("max_memory_reserved", "peak_reserved"),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda _, reading=reading: now[reading])
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (7, 9))
    meter = memory.Meter()
    meter.load(torch.device("cuda", 0))
    begin = meter.begin()
    use(900, 1000)
    status = meter.status(begin)
    assert (status["call_begin_bytes"], status["call_peak_bytes"], status["device_peak_bytes"]) == (100, 900, 1000)
    assert (status["device_allocated_bytes"], status["device_reserved_bytes"]) == (100, 200)
    assert (status["call_begin_reserved_bytes"], status["call_peak_reserved_bytes"]) == (200, 1000)
    assert (status["device_free_bytes"], status["device_total_bytes"]) == (7, 9)
    begin = meter.begin()
    use(300, 400)
    status = meter.status(begin)
    assert (status["call_begin_bytes"], status["call_peak_bytes"], status["device_peak_bytes"]) == (100, 300, 1000)
    assert (status["call_begin_reserved_bytes"], status["call_peak_reserved_bytes"]) == (200, 400)
    status = meter.status()
    assert (status["call_begin_reserved_bytes"], status["call_peak_reserved_bytes"]) == (0, 0)
    meter.load(torch.device("cuda", 0))
    assert meter.status()["device_peak_bytes"] == 200


def test_what_a_load_leaves_is_not_walked_by_later_collections_until_the_next_load():
    class Cycle:
        def __init__(self):
            self.me = self

    collected = []
    memory.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert frozen > 10_000 and len(gc.get_objects()) < frozen / 10
        weakref.finalize(Cycle(), collected.append, "later")
        memory.trim()
        assert collected == ["later"], "what comes after is collected as ever"
        cycle = Cycle()
        weakref.finalize(cycle, collected.append, "loaded")
        memory.freeze()
        del cycle
        memory.trim()
        assert collected == ["later"]
        memory.thaw()
        memory.trim()
        assert collected == ["later", "loaded"]
    finally:
        memory.thaw()


def test_trim_outlives_the_allocator_after_a_failed_capture_and_hides_nothing_else(monkeypatch):
    def failing():
        raise RuntimeError(text)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", failing)
    text = "captures_underway.empty() INTERNAL ASSERT FAILED"
    memory.trim()
    text = "CUDA error: an illegal memory access was encountered"
    with pytest.raises(RuntimeError, match="illegal"):
        memory.trim()


@pytest.mark.parametrize(
    "membership,files,expected",
    [
        ("0::/a\n", {"a/memory.max": "max"}, 1 << 40),
        ("0::/a\n", {"a/memory.max": "9000", "a/memory.current": "4000", "a/memory.stat": "anon 1\ninactive_file 1500\n"}, 6500),
        ("0::/a\n", {"a/memory.max": "9000", "a/memory.current": "4000", "memory.max": "9500", "memory.current": "9400"}, 100),
        ("0::/a\n", {"a/memory.max": "9000", "a/memory.current": "9100"}, 0),
        (
            "4:memory:/x\n",
            {"memory/x/memory.limit_in_bytes": "800", "memory/x/memory.usage_in_bytes": "300",
             "memory/x/memory.stat": "inactive_file 7\ntotal_inactive_file 50\n"},
            550,
        ),
    ],
)  # fmt: skip
def test_room_on_the_host_is_what_every_limit_leaves(tmp_path, monkeypatch, membership, files, expected):
    monkeypatch.setattr(shortage, "address_space_limit", lambda: 0)
    monkeypatch.setattr(memory, "read_host", lambda: (1 << 40, 1 << 41))
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "cgroup").write_text(membership)
    assert shortage.host_room(str(tmp_path / "fs"), str(tmp_path / "cgroup")) == expected
    monkeypatch.setattr(shortage, "address_space_limit", lambda: memory.read_address_space() + 64)
    assert shortage.host_room(str(tmp_path / "fs"), str(tmp_path / "cgroup")) <= min(64, expected)
