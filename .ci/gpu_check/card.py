"""What the machine is and what it can do at most: the rates of large matrix products and copies. A process of its own (it prints JSON),
so that nothing of it stays on the card."""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time

import torch


def environment(device):
    found = {
        "python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda,
        "transformers": importlib.util.find_spec("transformers") is not None, "pytest": importlib.util.find_spec("pytest") is not None,
        "mps_control": shutil.which("nvidia-cuda-mps-control"), "device": device,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found.update(gpu=properties.name, memory_bytes=properties.total_memory, compute_capability=f"{properties.major}.{properties.minor}")
        found.update(smi())
    return found


def smi():
    """What nvidia-smi adds; nothing where there is none."""
    keys = ("driver_version", "compute_mode", "mig.mode.current", "memory.used", "memory.total", "power.limit")
    try:
        out = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=" + ",".join(keys), "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(keys, (part.strip() for part in out.strip().split(","))))


def seconds(work, device, repeats):
    """The best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        best = min(best, time.perf_counter() - began)
    return best


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def gemm(device, dtype, tf32, size, repeats):
    """FLOP/s of the product of two size x size matrices of random numbers."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    torch.mm(a, b, out=out)
    return 2 * size**3 / seconds(lambda: torch.mm(a, b, out=out), device, repeats)


def copy_rate(device, count):
    """Bytes read and written a second when count floats are copied on the device."""
    source = torch.empty(count, device=device).fill_(1.0)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * 4 * count / seconds(lambda: target.copy_(source), device, 5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    size, repeats, count = (8192, 10, 1 << 28) if device == "cuda" else (512, 3, 1 << 22)
    print(json.dumps({
        "environment": environment(device),
        "gemm": {
            "fp32": gemm(device, torch.float32, False, size, repeats),
            "tf32": gemm(device, torch.float32, True, size, repeats),
            "bf16": gemm(device, torch.bfloat16, False, size, repeats),
        },
        "copy_bytes_per_second": copy_rate(device, count),
    }))


if __name__ == "__main__":
    main()
