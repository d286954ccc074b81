"""The host's resources: processor cores, memory, /dev/shm, the cgroup's limits, and NVIDIA's MPS. Standard library
only.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def facts():
    """Returns all facts of this file as one dict. A value that cannot be read is None."""
    available, total = memory()
    shm = shutil.disk_usage("/dev/shm") if os.path.isdir("/dev/shm") else None
    return {
        "cores": os.cpu_count(), "usable_cores": len(os.sched_getaffinity(0)),
        "memory_total_bytes": total, "memory_available_bytes": available,
        "shm_total_bytes": shm and shm.total, "shm_free_bytes": shm and shm.free,
        "temporary_free_bytes": shutil.disk_usage(tempfile.gettempdir()).free,
        **cgroup(),
        "mps_control": shutil.which("nvidia-cuda-mps-control"), "mps_daemons": processes("nvidia-cuda-mps"),
        "mps_pipe_directory": os.environ.get("CUDA_MPS_PIPE_DIRECTORY"), "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def memory(path="/proc/meminfo"):
    """(available, total) bytes."""
    found = {}
    try:
        for line in Path(path).read_text().splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return found.get("MemAvailable"), found.get("MemTotal")


def cgroup(root="/sys/fs/cgroup", own="/proc/self/cgroup"):
    """Returns the limits of this process's cgroup, versions 2 and 1: bytes of memory, processor cores, number of
    processes; None: no limit.
    """
    folders = [Path(root)]
    try:
        for line in Path(own).read_text().splitlines():
            folders.append(Path(root) / line.split(":", 2)[2].lstrip("/"))
    except (OSError, IndexError):
        pass
    memories = [number(f / name) for f in folders for name in ("memory.max", "memory/memory.limit_in_bytes", "memory.limit_in_bytes")]
    pids = [number(f / name) for f in folders for name in ("pids.max", "pids/pids.max")]
    cores = []
    for folder in folders:
        try:
            quota, period = (folder / "cpu.max").read_text().split()[:2]
            cores.append(int(quota) / int(period))
        except (OSError, ValueError):
            pass
    least = lambda values: min((v for v in values if v and v < 1 << 60), default=None)  # noqa: E731
    return {"cgroup_memory_bytes": least(memories), "cgroup_cores": least(cores), "cgroup_processes": least(pids)}


def number(path):
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or "max"
        return None


def processes(name):
    """Returns the command lines of running processes whose program's name begins with name."""
    out = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]).decode(errors="replace").startswith(name):
            out.append(b" ".join(words).decode(errors="replace").strip())
    return out


SMI_KEYS = ("driver_version", "compute_mode", "mig.mode.current", "memory.used", "memory.total", "power.limit", "uuid", "pstate", "clocks.max.sm")


def smi(device=0):
    """Returns nvidia-smi's values for a card, by SMI_KEYS; nothing without nvidia-smi."""
    try:
        out = subprocess.run(["nvidia-smi", "-i", str(device), "--query-gpu=" + ",".join(SMI_KEYS), "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(SMI_KEYS, (part.strip() for part in out.strip().split(","))))


def card_used():
    """Returns bytes in use on the card, from nvidia-smi; None if it doesn't report them."""
    used = smi().get("memory.used", "")
    return int(used) << 20 if used.isdigit() else None
