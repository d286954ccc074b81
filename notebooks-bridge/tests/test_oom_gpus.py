"""GPUs and their free memory. nvidia-smi and torch.cuda are fakes in this file, so that no GPU is needed."""

import json
import logging
import os
import subprocess
import sys
import time
import types

import pytest

import swarm_bridge
from swarm_bridge import SwarmError, cards, find_best_device, get_gpu_info, get_gpu_memory_info, get_optimal_batch_size, wait_for_device

TWO = "0, GPU-aaaa-0, 81559, 3000, NVIDIA H100 80GB HBM3\n1, GPU-bbbb-1, 81559, 60000, NVIDIA H100 80GB HBM3\n"
MIXED = TWO + "2, GPU-cccc-2, 24576, 24000, NVIDIA GeForce RTX 3090\n"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Puts a fake nvidia-smi first on PATH, and hides torch, CUDA_VISIBLE_DEVICES and a real nvidia-smi."""
    def put(script):
        path = tmp_path / "nvidia-smi"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    monkeypatch.setenv("PATH", "{}:/bin".format(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setattr(cards, "torch_if_there", lambda: None)
    monkeypatch.setattr(swarm_bridge.gpumemory, "torch_if_there", lambda: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    return lambda text: put("cat <<'END'\n{}END\n".format(text)) if "\n" in text else put(text + "\n")


@pytest.mark.parametrize("setting, indices", [
    (None, [0, 1, 2]), ("0", [0]), ("2,0", [2, 0]), ("1, 2", [1, 2]), ("", []), ("-1", []), ("NoDevFiles", []), ("0,7,1", [0]), ("0,0", []),
    ("GPU-bbbb", [1]), ("GPU-bbbb-1,GPU-aaaa-0", [1, 0]), ("GPU-", []), ("MIG-1", []), ("1,GPU-bbbb", []),
])
def test_what_cuda_sees_is_numbered_as_cuda_numbers_it(smi, setting, indices):
    smi(MIXED)
    listed, _ = cards.ask_nvidia_smi()
    seen = cards.visible(listed, setting)
    assert [c.index for c in seen] == list(range(len(indices)))
    assert [c.uuid for c in seen] == [listed[i].uuid for i in indices]


def test_the_gpu_with_most_free_memory_is_best(smi, monkeypatch, caplog):
    smi(MIXED)
    assert find_best_device(min_memory_mb=4000) == find_best_device() == "cuda:1"
    assert find_best_device(exclude_devices=[1]) == find_best_device(exclude_devices=["cuda:1"]) == "cuda:2"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    assert find_best_device() == "cuda:1" and find_best_device(50000) == "cuda:1" and find_best_device(1000, ["cuda:1"]) == "cuda:0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert find_best_device() == "cpu" and find_best_device(3000) == "cuda:0"
    assert "none of 1 GPUs has 4000 MiB free (the most is 3000 MiB)" in caplog.text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert find_best_device() == "cpu"
    assert "CUDA_VISIBLE_DEVICES= leaves none of 3 GPUs" in caplog.text


def test_the_guides_own_forms(smi):
    smi(TWO)
    assert get_gpu_memory_info() == [(0, 3000, 81559), (1, 60000, 81559)]
    info = get_gpu_info()
    assert info["available"] is True and info["device_count"] == 2 and info["reason"] == ""
    first = info["devices"][0]
    assert (first["index"], first["name"], first["uuid"]) == (0, "NVIDIA H100 80GB HBM3", "GPU-aaaa-0")
    assert first["total_memory_bytes"] == 81559 << 20 and first["free_memory_gb"] == 3000 / 1024
    assert first["allocated_memory_gb"] == first["reserved_memory_gb"] == 0.0


@pytest.mark.parametrize("script, said", [
    ("exit 9", "nvidia-smi reports no GPU"),
    ("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9", "could not communicate with the NVIDIA driver"),
    ("echo '0, GPU-a, [N/A], [N/A], Odd'", "nvidia-smi reports no GPU"),
    ("printf '\\377\\376'", "nvidia-smi reports no GPU"),
    ("sleep 60 & wait", "did not answer within"),
])
def test_where_nothing_can_be_told_the_cpu_is_used_and_why_is_said(smi, monkeypatch, caplog, script, said):
    monkeypatch.setattr(cards, "TIMEOUT", 0.5)
    smi(script)
    info = get_gpu_info()
    assert (info["available"], info["devices"]) == (False, []) and said in info["reason"]
    assert find_best_device() == "cpu" and said in caplog.text
    assert get_gpu_memory_info() == [] and get_optimal_batch_size() == 1


def test_without_nvidia_smi_and_torch_the_cpu_is_used(smi, caplog):
    assert find_best_device() == "cpu" and "nvidia-smi is not installed" in caplog.text
    assert wait_for_device(timeout_minutes=60) is None, "there is nothing to wait for"
    assert swarm_bridge.clear_gpu_cache() is False
    with pytest.raises(SwarmError, match="needs torch"):
        swarm_bridge.wrap_model_for_multi_gpu(object())
    with pytest.raises(SwarmError, match="no cuda:0 is available"):
        swarm_bridge.memory_summary("cuda:0")
    with pytest.raises(SwarmError, match="'gpu1' is not a GPU"):
        find_best_device(exclude_devices=["gpu1"])
    lines = swarm_bridge.memory_summary("cpu").splitlines()
    assert lines[0] == "Host Memory Summary (cpu):" and lines[1].startswith("  Resident: ") and lines[2].startswith("  Max Resident: ")


def test_waiting_ends_when_a_gpu_is_free_and_when_the_time_is_up(smi, tmp_path, monkeypatch):
    waits = []
    smi("0, GPU-a, 81559, 100, H100\n")

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            smi("0, GPU-a, 81559, 70000, H100\n")

    monkeypatch.setattr(swarm_bridge.gpumemory, "time", types.SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert wait_for_device(min_memory_mb=4000, timeout_minutes=60, check_interval_seconds=30) == "cuda:0" and waits == [30, 30]
    assert wait_for_device(min_memory_mb=80000, timeout_minutes=0) is None


# gpu.RecommendedBatch's own table (launcher/gpu/advice_test.go).
@pytest.mark.parametrize("gigabytes, batch", [(80, 20), (40, 10), (32, 8), (24, 5), (15, 3), (5, 1), (1, 1), (0, 1)])
def test_guide_0s_formula(gigabytes, batch):
    assert get_optimal_batch_size(available_memory_gb=gigabytes) == batch


def test_the_formula_takes_the_smallest_card_and_the_model(smi):
    smi(MIXED)
    assert get_optimal_batch_size() == int((24576 * 2**20 / 1e9 - 2) / 3.75) == 6
    assert get_optimal_batch_size(0.5, 80) == 62
    with pytest.raises(SwarmError, match="must be above 0"):
        get_optimal_batch_size(0)


class FakeCuda:
    """A fake torch.cuda with two unequal cards. No other process uses their memory."""
    initialized = True
    OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})

    def __init__(self):
        self.emptied = 0

    def is_available(self):
        return True

    def is_initialized(self):
        return self.initialized

    def device_count(self):
        return 2

    def current_device(self):
        return 1

    def get_device_properties(self, i):
        return types.SimpleNamespace(name=["T4", "A100"][i], major=[7, 8][i], minor=[5, 0][i], total_memory=[15, 40][i] << 30, uuid="u{}".format(i))

    def mem_get_info(self, i):
        return [14, 30][i] << 30, [15, 40][i] << 30

    def memory_allocated(self, i):
        return 5 << 30

    def memory_reserved(self, i):
        return 6 << 30

    def max_memory_allocated(self, i):
        return 7 << 30

    def empty_cache(self):
        self.emptied += 1

    def synchronize(self):
        pass


@pytest.fixture
def torch(smi, monkeypatch):
    fake = types.SimpleNamespace(cuda=FakeCuda(), __version__="2.fake", distributed=None)
    fake.nn = types.SimpleNamespace(DataParallel=type("DataParallel", (), {"__init__": lambda self, module, device_ids: self.__dict__.update(
        module=module, device_ids=device_ids)}))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(cards, "torch_if_there", lambda: fake)
    monkeypatch.setattr(swarm_bridge.gpumemory, "torch_if_there", lambda: fake)
    return fake


def test_a_fake_torch_is_asked_where_nvidia_smi_is_not(torch):
    assert get_gpu_memory_info() == [(0, 14 << 10, 15 << 10), (1, 30 << 10, 40 << 10)]
    assert find_best_device() == "cuda:1"
    device = get_gpu_info()["devices"][0]
    assert (device["compute_capability"], device["allocated_memory_gb"], device["reserved_memory_gb"], device["free_memory_gb"]) == ("7.5", 5, 6, 14)


def test_unequal_cards_are_counted_by_torch_unless_cuda_counts_by_bus(torch, smi, monkeypatch):
    smi("0, GPU-x, 40960, 39000, A100\n1, GPU-y, 15360, 1000, T4\n")
    assert [c.uuid for c in cards.cards()[0]] == ["u0", "u1"]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [c.uuid for c in cards.cards()[0]] == ["GPU-x", "GPU-y"]


def test_the_guides_summary(torch, capsys):
    swarm_bridge.print_memory_summary("cuda:0")
    assert capsys.readouterr().out == "GPU Memory Summary (cuda:0):\n  Allocated: 5.00 GB\n  Reserved: 6.00 GB\n  Max Allocated: 7.00 GB\n"
    assert swarm_bridge.memory_summary().startswith("GPU Memory Summary (cuda:1):")
    torch.cuda.initialized = False
    assert "Allocated: 0.00 GB" in swarm_bridge.memory_summary("cuda:0")


def test_the_handler_goes_to_another_gpu_and_then_to_the_cpu(torch):
    handler = swarm_bridge.OOMHandler(8, 4, max_retries=9)
    error = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    steps, device = [], "cuda:1"
    while True:
        again, batch_size, device = handler.handle_oom(device, error)
        if not again:
            break
        steps.append((batch_size, device))
    assert steps == [(4, "cuda:1"), (8, "cuda:0"), (4, "cuda:0"), (8, "cpu"), (4, "cpu")]
    assert torch.cuda.emptied == len(steps)
    handler = swarm_bridge.OOMHandler(8, 4)
    host = MemoryError()
    assert [handler.handle_oom("cuda", host)[0] for _ in range(2)] == [True, False], "another GPU has no more host memory"


def test_the_wrapper_for_several_gpus(torch):
    model = types.SimpleNamespace(devices=[])
    model.to = lambda device: (model.devices.append(device), model)[1]
    wrapped = swarm_bridge.wrap_model_for_multi_gpu(model)
    assert isinstance(wrapped, torch.nn.DataParallel) and (wrapped.module, wrapped.device_ids) == (model, [0, 1]) and model.devices == ["cuda:0"]
    assert swarm_bridge.wrap_model_for_multi_gpu(wrapped) is wrapped
    assert swarm_bridge.wrap_model_for_multi_gpu(model, [1]) is model and model.devices[-1] == "cuda:1"
    torch.cuda.is_available = lambda: False
    assert swarm_bridge.wrap_model_for_multi_gpu(model) is model


def test_a_dead_context_does_not_hide_the_error(torch, caplog):
    def dead():
        raise RuntimeError("CUDA error: unspecified launch failure")

    torch.cuda.empty_cache = dead
    with caplog.at_level(logging.WARNING), pytest.raises(MemoryError):
        swarm_bridge.retry_on_oom(max_retries=1, wait_seconds=0)(lambda: bytearray(1 << 62))()
    assert "torch's cache can't be emptied: CUDA error" in caplog.text


def test_importing_it_imports_neither_torch_nor_numpy():
    code = "import sys, swarm_bridge; print([m for m in ('torch', 'numpy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=str(cards.__file__).rsplit("/", 2)[0]),
                          stdout=subprocess.PIPE)
    assert json.loads(done.stdout.decode().replace("'", '"')) == []
