"""The section "primitives": the costs of operations that the design relies on."""

import contextlib
import shutil
import time

import host
from held import Held
from mps_control import LIMIT, Daemon

NEIGHBOURS = 7
SUBJECTS = ("cudaMalloc and cudaFree, alone and beside seven busy processes", "copies between host and device", "SDPA's backend",
            "a context's bytes, with MPS and without", "memory as reported under an MPS limit")


def check_primitives(c):
    if c.dry:
        for subject in SUBJECTS:
            c.report.needs_gpu("primitives", subject)
        return
    for part in (contexts, limits, allocations, copies, attention):  # the first two have no substitute if time runs out
        try:
            part(c)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            c.report.fail("primitives", error, part.__name__)


def allocations(c):
    alone = c.ask("primitives", "primitives.py", "--what", "malloc", cap=20, name="malloc alone")
    report_allocations(c, alone, "alone")
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(Held("busy", c.evidence.path(f"primitives/busy{i}.log"), cap=min(30, c.left()))) for i in range(NEIGHBOURS)]
        for each in busy:
            each.ready()
        beside = c.ask("primitives", "primitives.py", "--what", "malloc", cap=30, name="malloc beside seven")
        report_allocations(c, beside, "beside seven busy processes")


def report_allocations(c, found, where):
    for name, value in found.items():
        note = f"worst {1e6 * value['malloc_worst']:.0f} and {1e6 * value['free_worst']:.0f} us"
        both = f"{1e6 * value['malloc_seconds']:.0f}, {1e6 * value['free_seconds']:.0f} us"
        c.report.add("primitives", f"cudaMalloc, cudaFree of {name.removeprefix('malloc ')}, {where}", both, note=note)


def copies(c):
    found = c.ask("primitives", "primitives.py", "--what", "copies", cap=30, name="copies")
    for name, value in found.items():
        if name.endswith("allocation_seconds"):
            c.report.add("primitives", f"256 MiB of {name.split()[0]} host memory", 1000 * value, "ms")
        else:
            c.report.add("primitives", f"copy {name}", value, "bytes/s")


def attention(c):
    found = c.ask("primitives", "primitives.py", "--what", "sdpa", cap=30, name="sdpa")
    for name, backend in found.items():
        c.report.add("primitives", f"SDPA's backend: {name}", backend)


def contexts(c):
    """Measures a context's memory in nvidia-smi's view: torch's, first without MPS, then as a client of a server. The
    server's own context starts with the first client.
    """
    logs = c.evidence.path("primitives/mps/control.log").parent
    c.report.add("primitives", "a context, without MPS", one_more(c, {}), "bytes")
    if not shutil.which("nvidia-cuda-mps-control"):
        c.report.add("primitives", "a context, with MPS", "nvidia-cuda-mps-control is not installed")
        return
    with Daemon(logs, host.smi().get("uuid", "")) as daemon:
        before = used()
        with Held("context", c.evidence.path("primitives/client.log"), env=daemon.env) as first:
            first.ready()
            with_server = used()
            c.report.add("primitives", "server and first client, with MPS", with_server - before, "bytes")
            c.report.add("primitives", "memory as reported to a client without a limit", told(first.fact))
            with Held("context", c.evidence.path("primitives/client.log"), env=daemon.env) as second:
                second.ready()
                c.report.add("primitives", "a second client's context, with MPS", used() - with_server, "bytes")
            c.report.details.setdefault("primitives", {})["mps servers"] = daemon.ask("get_server_list")


def limits(c):
    if not shutil.which("nvidia-cuda-mps-control"):
        c.report.add("primitives", "memory as reported under an MPS limit", "nvidia-cuda-mps-control is not installed")
        return
    logs = c.evidence.path("primitives/mps-limit/control.log").parent
    with Daemon(logs, host.smi().get("uuid", "")) as daemon:
        env = dict(daemon.env, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=LIMIT)
        found = c.ask("primitives", "primitives.py", "--what", "limit", cap=30, env=env, name="limit")
    if "torch_total" in found:
        c.report.add("primitives", f"total of torch's properties under the MPS limit {LIMIT}", found["torch_total"], "bytes")
    for name in ("driver_memory", "torch_memory", "memory_when_refused"):
        if name in found:
            c.report.add("primitives", f"{name.replace('_', ' ')} under the MPS limit {LIMIT}", told(found[name]))
    if "taken_bytes" in found:
        c.report.check("primitives", f"memory that a client with the MPS limit {LIMIT} gets", found["taken_bytes"], "bytes", "< 2 GiB", lambda v: v < 2 << 30,
                       note=found.get("refusal", "never refused"))


def told(pair):
    return f"free {pair[0] / 1e9:.2f} of {pair[1] / 1e9:.2f} GB"


def one_more(c, env):
    before = used()
    with Held("context", c.evidence.path("primitives/context.log"), env=env) as held:
        held.ready()
        return used() - before


def used():
    """Returns bytes in use on the card, when the figure has settled."""
    before = None
    for _ in range(10):
        now = host.card_used()
        if now is None:
            raise RuntimeError("nvidia-smi does not report the memory in use")
        if now == before:
            break
        before = now
        time.sleep(0.2)
    return now
