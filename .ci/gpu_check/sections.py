"""The sections of a check, in the order in which they run."""

from dataclasses import dataclass
from typing import Callable

import flops
import host
import plans
from context import GB
from engine_section import check_engine
from engine_tests import check_more_tests, check_tests
from parity_section import check_parity
from predecessor_section import check_predecessor
from primitives_section import check_primitives
from profile_section import check_profile
from shortage_section import check_shortage
from swarm_section import check_swarm

CAPS = (15 * GB, 24 * GB, 40 * GB, 80 * GB)


@dataclass(frozen=True)
class Section:
    name: str
    parts: tuple  # "engine", "swarm"
    cap: float  # maximum seconds
    check: Callable


def check_card(c):
    """Also sets c.gemm, for model FLOPs utilization."""
    around, smi = host.facts(), {} if c.dry else host.smi()
    c.report.details["host"], c.report.details["nvidia-smi"] = around, smi
    found = c.ask("card", "card.py", "--device", c.device, cap=50)
    environment = found.get("environment", {})
    software = f"torch {environment.get('torch')}, CUDA {environment.get('cuda')}, driver {smi.get('driver_version', '?')}, Python {environment.get('python')}"
    add = c.report.add
    add("card", "GPU", environment.get("gpu", "none"), note=software)
    if not c.dry:
        add("card", "memory, compute capability", f"{environment.get('memory_bytes', 0) / GB:.1f} GB, {environment.get('compute_capability')}",
            note=f"{smi.get('memory.used', '?')} MiB in use")
        add("card", "compute mode, MIG", f"{smi.get('compute_mode', '?')}, {smi.get('mig.mode.current', '?')}")
    add("card", "host: cores, memory", f"{around['usable_cores']} of {around['cores']}, {gigabytes(around['memory_total_bytes'])}", note=limits(around))
    add("card", "/dev/shm: size, free", f"{gigabytes(around['shm_total_bytes'])}, {gigabytes(around['shm_free_bytes'])}", note=f"scratch: {c.scratch.parent}")
    add("card", "nvidia-cuda-mps-control", around["mps_control"] or "not there", note="; ".join(around["mps_daemons"]) or "no MPS daemon runs")
    add("card", "weights", "random, GPT-2-shaped" if c.shape == flops.GPT2 else "random, small, GPT-2's vocabulary",
        note=f"and real ones: {c.weights}" if c.weights else "no folder of real weights (--weights)")
    for name, rate in found.items():
        if name.startswith("gemm "):
            add("card", f"GEMM {name[5:]}", rate, "FLOP/s")
            c.gemm[name[5:]] = rate
    if "copy_bytes_per_second" in found:
        add("card", "copy, read + written", found["copy_bytes_per_second"], "bytes/s")


def gigabytes(value):
    return "?" if value is None else f"{value / GB:.1f} GB"


def limits(around):
    parts = [f"memory {gigabytes(around['cgroup_memory_bytes'])}"] if around["cgroup_memory_bytes"] else []
    parts += [f"{around['cgroup_cores']:g} cores"] if around["cgroup_cores"] else []
    parts += [f"{around['cgroup_processes']} processes"] if around["cgroup_processes"] else []
    return "cgroup: " + (", ".join(parts) or "no limit")


def check_plan(c):
    details = c.report.details.setdefault("plan", {})
    for memory in (*(() if c.dry else (None,)), *CAPS):
        card = f"{memory / GB:g} GB" if memory else "this card"
        for share in plans.SHARES:
            # The preset's shape, because plans need no weights.
            nodes, answer = plans.most_nodes(c.program, c.scratch / "plans", "gpt2", memory, share, c.device)
            details[f"{card} {share}"] = answer
            c.report.add("plan", f"GPT-2 nodes that fit, {card}, {share}", nodes, note="by swarm plan")
            if memory == 80 * GB and share == "lease":
                c.report.check("plan", "planned on 80 GB under lease", nodes, "nodes", ">= 24", lambda v: v >= 24)
            if memory == 15 * GB and share == "lease+offload":
                c.report.check("plan", "planned on 15 GB, lease + offload", nodes, "nodes", ">= 8", lambda v: v >= 8)


ALL = (
    Section("card", ("engine", "swarm"), 60, check_card),
    Section("tests", ("engine",), 65, check_tests),
    Section("parity", ("engine",), 75, check_parity),
    Section("profile", ("engine",), 60, check_profile),
    Section("primitives", ("engine",), 75, check_primitives),
    Section("shortage", ("engine",), 60, check_shortage),
    Section("engine", ("engine",), 75, check_engine),
    Section("more-tests", ("engine",), 60, check_more_tests),
    Section("plan", ("swarm",), 30, check_plan),
    Section("swarm", ("swarm",), 540, check_swarm),
    Section("rl-swarm", ("swarm",), 240, check_predecessor),
)
