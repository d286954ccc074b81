"""How long work takes on a device, which works on when its calls have returned."""

import time


def wait(device):
    """Returns when a CUDA device has done all its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def seconds(work, device, repeats=3):
    """The best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        best = min(best, time.perf_counter() - began)
    return best
