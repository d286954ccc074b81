"""Records and reads torch.profiler's Chrome trace: kernels, copies and CUDA runtime calls with counts and times.

All torch versions from 1.13 write this trace. Times are microseconds.
"""

import json
import os
import tempfile
from dataclasses import dataclass, field

# The first matching part of an SDPA kernel's name decides.
BACKENDS = (("cudnn", "cudnn"), ("flash", "flash"), ("fmha", "memory-efficient"), ("mem_eff", "memory-efficient"), ("efficient_attention", "memory-efficient"))


@dataclass
class Trace:
    kernels: dict = field(default_factory=dict)  # name -> [count, microseconds]
    copies: dict = field(default_factory=dict)  # copies and fills on the device
    runtime: dict = field(default_factory=dict)  # CUDA runtime calls on the host
    operators: dict = field(default_factory=dict)  # torch operators on the host; nested ones also count in their callers

    def count(self):
        return sum(count for count, _ in self.kernels.values())

    def moved(self):
        return sum(count for count, _ in self.copies.values())

    def device_time(self):
        return sum(time for part in (self.kernels, self.copies) for _, time in part.values())


def record(work, device):
    """Returns the trace of one run of work, including the kernels that it leaves running."""
    import torch

    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if device == "cuda" else activity.CPU]) as profile:
        work()
        if device == "cuda":
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="trace-", dir=os.environ.get("GPU_CHECK_SCRATCH")) as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        return read(path)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return parse(json.load(file))


def parse(document):
    trace = Trace()
    parts = {"kernel": trace.kernels, "gpu_memcpy": trace.copies, "gpu_memset": trace.copies, "cuda_runtime": trace.runtime,
             "cuda_driver": trace.runtime, "cpu_op": trace.operators}
    events = document["traceEvents"] if isinstance(document, dict) else document
    for event in events:
        category = "cpu_op" if event.get("pid") == "CPU functions" else event.get("cat", "")  # a torch built without Kineto
        part = parts.get(str(category).lower())
        if part is not None and event.get("ph") == "X":
            entry = part.setdefault(event.get("name", "?"), [0, 0.0])
            entry[0] += 1
            entry[1] += float(event.get("dur", 0))
    return trace


def minus(longer, shorter, steps):
    """Returns the cost of one of `steps` more steps: the difference of two tables, by name. Equal entries cancel out.
    """
    out = {}
    for name, (count, time) in longer.items():
        before, earlier = shorter.get(name, (0, 0.0))
        if count != before:
            out[name] = [(count - before) / steps, (time - earlier) / steps]
    for name, (count, time) in shorter.items():
        if name not in longer:
            out[name] = [-count / steps, -time / steps]
    return out


def totals(table):
    """Returns (count, microseconds) of a table."""
    return sum(c for c, _ in table.values()), sum(t for _, t in table.values())


def top(table, most=15):
    """Formats lines, the most expensive first."""
    whole = sum(time for _, time in table.values() if time > 0) or 1.0
    ranked = sorted(table.items(), key=lambda item: -item[1][1])[:most]
    return [f"{count:8.1f} x  {time:10.1f} us  {100 * time / whole:5.1f} %  {name[:110]}" for name, (count, time) in ranked]


def attention(table):
    """Returns the SDPA backends with kernels in a table: names, "math" if none of them is fused."""
    if not table:
        return "no kernels were recorded"
    found = set()
    for name in table:
        low = name.lower()
        for part, backend in BACKENDS:
            if part in low:
                found.add(backend)
                break
    return ", ".join(sorted(found)) or "math"
