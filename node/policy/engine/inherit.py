"""Decides which settings a forked engine sets itself, and which must equal the engine host's. Must not import torch.

An engine that a process starts directly inherits that process's settings, and torch reads some of them only once,
at import. A fork has the host's settings. This module covers every setting: the fork sets it, or it must equal the
host's. If neither is possible, the engine is not forked, and its owner starts it directly.

| setting                                   | in the fork                                                         |
|-------------------------------------------|---------------------------------------------------------------------|
| OMP_NUM_THREADS, OPENBLAS_NUM_THREADS     | set through torch and OpenBLAS                                      |
| CUDA_VISIBLE_DEVICES, CUDA_MPS_… (LATE)   | set: the CUDA driver reads them at its start, in the fork           |
| other variables of EARLY's libraries      | must be equal: libraries read them at load time                     |
| all other variables                       | set                                                                 |
| working folder, stdin, stdout, stderr     | set                                                                 |
| limits on resources (LIMITS)              | set; the stack's must be equal, because it sized threads' stacks    |
| processors, nice, oom_score_adj, umask    | set                                                                 |
| user, group, cgroup, namespaces           | must be equal                                                       |
| malloc's thresholds                       | the engine sets them when it loads a model (memory.py)              |
"""

import os
import resource

# The CUDA driver reads these when it is initialized, which never happens in a host.
LATE = frozenset((
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_CLIENT_PRIORITY",
))  # fmt: skip

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

# Read once, when the interpreter starts or a library is loaded.
EARLY = (
    "ATEN_", "BLIS_", "C10_", "CUBLAS", "CUDA", "CUDNN", "DNNL_", "GLIBC_TUNABLES", "GOMP_", "GOTO_", "KMP_", "LANG", "LC_", "LD_",
    "MALLOC_", "MKL_", "NPY_", "NUMPY_", "NVIDIA_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH",
)  # fmt: skip

# All except RLIMIT_NOFILE: a Go program raises its own limit at the start, and restores the old one for its
# children.
LIMITS = tuple(
    getattr(resource, name)
    for name in (
        "RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_NPROC", "RLIMIT_RSS",
        "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RTPRIO",
    )
    if hasattr(resource, name)
)  # fmt: skip


class Differs(Exception):
    """A setting of the host that a fork cannot change."""


def check_environ(host, wanted):
    """Raises Differs unless a fork of a process that started with the variables host can have the
    variables wanted.
    """
    for name in sorted(set(host) | set(wanted)):
        if name in LATE or name == "PYTHONDONTWRITEBYTECODE" or host.get(name) == wanted.get(name):
            continue
        if name in THREADS:
            if not wanted.get(name, "").isdigit() or int(wanted[name]) < 1:
                raise Differs(f"{name} is {wanted.get(name)!r}, not a number")
        elif name.startswith(EARLY):
            raise Differs(f"{name} is {wanted.get(name)!r}, and {host.get(name)!r} in the host")


def with_package(environ, package):
    """The variables of an interpreter for the engine package in the folder package, based on environ."""
    path = os.pathsep.join(part for part in (package, environ.get("PYTHONPATH")) if part)
    return dict(environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")


def without_package(environ, package):
    """Undoes with_package, except PYTHONDONTWRITEBYTECODE, which is the same for all."""
    rest = environ.get("PYTHONPATH", "").partition(package)[2].lstrip(os.pathsep)
    return {name: value for name, value in dict(environ, PYTHONPATH=rest).items() if value or name != "PYTHONPATH"}


def apply_environ(wanted, processors):
    """Sets this process's variables, also for C's getenv, and its numbers of threads. OpenBLAS gets at
    most one thread per processor.
    """
    for name in list(os.environ):
        if name not in wanted:
            del os.environ[name]
    os.environ.update(wanted)
    import torch

    from . import environment

    if "OMP_NUM_THREADS" in wanted:
        torch.set_num_threads(int(wanted["OMP_NUM_THREADS"]))
    library = environment.loaded_openblas()
    if library is not None and "OPENBLAS_NUM_THREADS" in wanted:
        library.openblas_set_num_threads(min(int(wanted["OPENBLAS_NUM_THREADS"]), processors))


def read(pid):
    """The settings of a process (0: this one) other than variables, as a dict. Raises OSError if the
    process is gone.
    """
    status = {}
    with open(_proc(pid, "status"), encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            status[name] = value.split()
    with open(_proc(pid, "cgroup"), encoding="utf-8", errors="surrogateescape") as file:
        cgroup = file.read()
    with open(_proc(pid, "oom_score_adj"), encoding="ascii") as file:
        oom = int(file.read())
    return {
        "user": status["Uid"],
        "group": status["Gid"] + status.get("Groups", []),
        "cgroup": cgroup,
        "namespaces": {name: os.readlink(_proc(pid, f"ns/{name}")) for name in ("cgroup", "ipc", "mnt", "net", "pid", "user")},
        "stack": resource.prlimit(pid, resource.RLIMIT_STACK),
        "limits": {limit: resource.prlimit(pid, limit) for limit in LIMITS},
        "processors": os.sched_getaffinity(pid),
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
        "oom_score_adj": oom,
        "umask": int(status["Umask"][0], 8),
    }


EQUAL = ("user", "group", "cgroup", "namespaces", "stack")


def check(wanted, own):
    """Raises Differs unless a fork of a process with the settings own (from `read`) can have the settings
    wanted.
    """
    for name in EQUAL:
        if wanted[name] != own[name]:
            raise Differs(f"its {name} is not the host's")


def apply(wanted, own):
    """Changes this process's settings from own to wanted. Raises Differs if the system refuses a change."""
    changed = [name for name in wanted if name not in EQUAL and wanted[name] != own[name]]
    for name in changed:
        try:
            if name == "limits":
                for limit, value in wanted["limits"].items():
                    if value != own["limits"][limit]:
                        resource.setrlimit(limit, value)
            elif name == "processors":
                os.sched_setaffinity(0, wanted["processors"])
            elif name == "nice":
                os.setpriority(os.PRIO_PROCESS, 0, wanted["nice"])
            elif name == "oom_score_adj":
                with open(_proc(0, "oom_score_adj"), "w", encoding="ascii") as file:
                    file.write(str(wanted["oom_score_adj"]))
            elif name == "umask":
                os.umask(wanted["umask"])
        except (OSError, ValueError) as error:
            raise Differs(f"its {name} can't be set: {error}") from None


def _proc(pid, name):
    return f"/proc/{pid or 'self'}/{name}"
