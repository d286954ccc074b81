"""A child that measures the cost of single operations on the card. One subject per process (--what).

malloc     cudaMalloc and cudaFree by size
copies     copies between host and device, page-locked and pageable
sdpa       the backend of torch's attention, for the engine's shapes, with and without mask
context    opens a context with torch, reports it, and holds it until its stdin closes
limit      memory in the driver's view under MPS with a limit, and an allocation beyond the limit
busy       multiplies matrices until its stdin closes
hoard      allocates the card's memory except for --leave bytes, reports it, and holds it until its stdin closes
"""

import argparse
import sys
import time

import facts

MiB = 1 << 20


def malloc():
    from driver import Driver

    driver = Driver()
    for size in (2 * MiB, 20 * MiB, 256 * MiB, 2048 * MiB):
        with facts.step(f"cudaMalloc {size // MiB} MiB"):
            taken, freed = [], []
            for _ in range(20):
                began = time.perf_counter()
                pointer = driver.allocate(size)
                between = time.perf_counter()
                driver.free(pointer)
                taken.append(between - began)
                freed.append(time.perf_counter() - between)
            facts.tell(f"malloc {size // MiB} MiB", {"malloc_seconds": middle(taken), "free_seconds": middle(freed),
                                                     "malloc_worst": max(taken), "free_worst": max(freed)})


def middle(values):
    return sorted(values)[len(values) // 2]


def copies():
    import torch

    device, size = torch.device("cuda", 0), 256 * MiB
    on_card = torch.empty(size, dtype=torch.uint8, device=device)
    for name, pinned in (("page-locked", True), ("pageable", False)):
        with facts.step(name):
            began = time.perf_counter()
            host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
            facts.tell(f"{name} allocation_seconds", time.perf_counter() - began)
            host.fill_(1)
            for label, target, source in (("to the device", on_card, host), ("to the host", host, on_card)):
                rates = []
                for _ in range(5):
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    target.copy_(source, non_blocking=True)
                    torch.cuda.synchronize()
                    rates.append(size / (time.perf_counter() - began))
                facts.tell(f"{name} {label}", max(rates))


def sdpa():
    import torch
    import torch.nn.functional as F

    import kernel_trace

    if not hasattr(F, "scaled_dot_product_attention"):
        facts.tell("sdpa", "torch has none")
        return
    device = torch.device("cuda", 0)
    dtypes = [torch.float32, torch.float16] + ([torch.bfloat16] if torch.cuda.get_device_capability()[0] >= 8 else [])
    # GPT-2's shapes: prompts of 192 tokens, completions of 256. The mask is part of a larger one, with rows 16-byte
    # aligned or not.
    shapes = {"prefix, causal": (1, 191, 191, 0), "own, mask, aligned": (4, 256, 447, 448), "own, mask, not aligned": (4, 256, 447, 447)}
    for dtype in dtypes:
        for label, (rows, length, positions, columns) in shapes.items():
            with facts.step(f"{label}, {dtype}"):
                def attend():
                    q = torch.randn(rows, 12, length, 64, device=device, dtype=dtype, requires_grad=True)
                    k, v = (torch.randn(rows, 12, positions, 64, device=device, dtype=dtype, requires_grad=True) for _ in range(2))
                    mask = torch.zeros(positions, columns, device=device, dtype=dtype)[positions - length :, :positions] if columns else None
                    F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None).sum().backward()
                    torch.cuda.synchronize()

                attend()
                facts.tell(f"{label}, {str(dtype).split('.')[-1]}", kernel_trace.attention(kernel_trace.record(attend, "cuda").kernels))


def context():
    import torch

    torch.empty(1, device="cuda")
    torch.cuda.synchronize()
    facts.tell("memory", torch.cuda.mem_get_info(0))
    sys.stdin.readline()


def limit():
    import torch

    from driver import Driver

    driver = Driver()
    facts.tell("driver_memory", driver.memory())
    with facts.step("torch"):
        facts.tell("torch_memory", torch.cuda.mem_get_info(0))
        facts.tell("torch_total", torch.cuda.get_device_properties(0).total_memory)  # what the engine's cap is a part of
    with facts.step("allocations"):
        taken = []
        for _ in range(64):
            try:
                taken.append(driver.allocate(64 * MiB))
            except RuntimeError as error:
                facts.tell("refusal", str(error))
                break
        facts.tell("taken_bytes", 64 * MiB * len(taken))
        facts.tell("memory_when_refused", driver.memory())


def busy(seconds=60):
    import threading

    import torch

    a = torch.randn(2048, 2048, device="cuda")
    b = torch.mm(a, a)
    torch.cuda.synchronize()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    facts.tell("ready", True)
    until = time.monotonic() + seconds
    while not over.is_set() and time.monotonic() < until:
        for _ in range(20):
            torch.mm(a, a, out=b)
        torch.cuda.synchronize()


def hoard(leave):
    from driver import Driver

    facts.tell("taken", Driver().hoard(leave))
    sys.stdin.readline()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--what")
    parser.add_argument("--leave", type=int, default=256 * MiB)
    options = parser.parse_args()
    facts.begin()
    with facts.step(options.what):
        if options.what == "hoard":
            hoard(options.leave)
        else:
            {"malloc": malloc, "copies": copies, "sdpa": sdpa, "context": context, "limit": limit, "busy": busy}[options.what]()


if __name__ == "__main__":
    main()
