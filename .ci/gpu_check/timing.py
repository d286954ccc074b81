"""The duration of work on a device, which continues after its calls have returned."""

import time


def wait(device):
    """Waits until a CUDA device has done all its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def seconds(work, device, repeats=3):
    """Returns the shortest of several runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        best = min(best, time.perf_counter() - began)
    return best
