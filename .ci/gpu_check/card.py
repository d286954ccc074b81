"""The card and its peak rates for large matrix products and copies. It runs in its own process, so that it leaves
nothing on the card.
"""

import argparse
import importlib.util
import sys

import torch

import facts
from timing import seconds


def environment(device):
    found = {
        "python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda, "device": device,
        **{name: importlib.util.find_spec(name) is not None for name in ("transformers", "pytest", "numpy", "safetensors")},
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found.update(gpu=properties.name, memory_bytes=properties.total_memory, compute_capability=f"{properties.major}.{properties.minor}",
                     multiprocessors=properties.multi_processor_count, devices=torch.cuda.device_count(), arch_list=torch.cuda.get_arch_list())
        found["cudnn"], found["nccl"] = torch.backends.cudnn.version(), torch.distributed.is_available() and torch.distributed.is_nccl_available()
    return found


def gemm(device, dtype, tf32, size, repeats):
    """Returns the FLOP/s of multiplying two random size x size matrices."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    torch.mm(a, b, out=out)
    return 2 * size**3 / seconds(lambda: torch.mm(a, b, out=out), device, repeats)


def copy_rate(device, count):
    """Returns bytes read and written per second when count floats are copied on the device."""
    source = torch.empty(count, device=device).fill_(1.0)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * 4 * count / seconds(lambda: target.copy_(source), device, 5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    facts.begin()
    size, repeats, count = (8192, 5, 1 << 28) if device == "cuda" else (512, 3, 1 << 22)
    with facts.step("card"):
        facts.tell("environment", environment(device))
    for name, dtype, tf32 in (("fp32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False), ("fp16", torch.float16, False)):
        if device == "cpu" and name == "fp16":
            continue  # torch has no such product there before 2.x
        if name == "bf16" and device == "cuda" and torch.cuda.get_device_capability()[0] < 8:
            continue  # slowly emulated; the engine refuses it
        with facts.step(f"GEMM {name}"):
            facts.tell(f"gemm {name}", gemm(device, dtype, tf32, size, repeats))
    with facts.step("copy"):
        facts.tell("copy_bytes_per_second", copy_rate(device, count))


if __name__ == "__main__":
    main()
