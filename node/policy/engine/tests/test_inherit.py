"""A fork of the engine host has the settings of an engine that was started directly: both report them,
and must agree.
"""

import json
import os
import resource
import subprocess
import sys

import pytest

from engine import inherit

PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A process's report once torch is imported. getenv is C's, because libraries read it and not os.environ.
REPORT = """
def report():
    import ctypes, json, torch
    from engine import environment, inherit
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE", "SOMETHING")
    library = environment.loaded_openblas()
    settings = inherit.read(0)
    return json.dumps(dict(
        threads=torch.get_num_threads(), interop=torch.get_num_interop_threads(), capability=torch.backends.cpu.get_cpu_capability()
        if hasattr(torch.backends, "cpu") and hasattr(torch.backends.cpu, "get_cpu_capability") else None,
        openblas=library and library.openblas_get_num_threads(), core=library and environment.openblas_core(library),
        variables={name: (getenv(name.encode()) or b"").decode() for name in names},
        python={name: os.environ.get(name) for name in names},
        limits=[settings["limits"][limit] for limit in inherit.LIMITS],
        umask=settings["umask"], nice=settings["nice"], processors=sorted(settings["processors"]), folder=os.getcwd(),
    ))
"""

DIRECT = """
import os, sys
from engine import environment
environment.prepare(os.environ)
""" + REPORT + "\nprint(report())\n"  # fmt: skip

# wanted and the owner's pid come on stdin. The owner is a process that has the settings and waits.
FORKED = """
import json, os, sys
from engine import environment, inherit
given = dict(os.environ)
environment.prepare(os.environ)
import torch
""" + REPORT + """
request = json.load(sys.stdin)
inherit.check_environ(given, request["environ"])
own, settings = inherit.read(0), inherit.read(request["owner"])
inherit.check(settings, own)
pid = os.fork()
if pid == 0:
    inherit.apply_environ(request["environ"], len(settings["processors"]))
    environment.prepare(os.environ)
    os.chdir(request["folder"])
    inherit.apply(settings, own)
    print(report(), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""  # fmt: skip


def settle(folder):
    """Changes settings in a child before it runs."""
    os.chdir(folder)
    os.umask(0o027)
    os.nice(3)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    soft = 1 << 36
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def run(code, environ, **more):
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, **more
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_fork_has_the_settings_of_a_direct_start(tmp_path):
    base = dict(os.environ, PYTHONPATH=PARENT, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    base.pop("CUDA_VISIBLE_DEVICES", None)
    wanted = dict(
        base, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", CUDA_VISIBLE_DEVICES="GPU-1", CUDA_MPS_PIPE_DIRECTORY="/pipe", SOMETHING="else"
    )
    direct = run(DIRECT, wanted, preexec_fn=lambda: settle(tmp_path))
    with subprocess.Popen(["sleep", "120"], preexec_fn=lambda: settle(tmp_path)) as owner:
        try:
            request = json.dumps(dict(environ=wanted, owner=owner.pid, folder=str(tmp_path)))
            forked = run(FORKED, dict(base, LEFT_BY_THE_HOST="1"), input=request)
        finally:
            owner.kill()
    assert forked == direct
    assert direct["threads"] == 2 and direct["umask"] == 0o027 and direct["variables"]["SOMETHING"] == "else"


@pytest.mark.parametrize(
    "name, value",
    [
        ("OPENBLAS_CORETYPE", "Haswell"), ("GOMP_CPU_AFFINITY", "0"), ("MKL_CBWR", "AVX2"), ("ATEN_CPU_CAPABILITY", "default"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"), ("CUDA_LAUNCH_BLOCKING", "1"), ("MALLOC_ARENA_MAX", "1"),
        ("LD_PRELOAD", "/lib/x.so"), ("PYTHONHASHSEED", "0"), ("CUBLAS_WORKSPACE_CONFIG", ":16:8"),
    ],
)  # fmt: skip
def test_what_is_read_once_must_be_the_hosts(name, value):
    with pytest.raises(inherit.Differs, match=name):
        inherit.check_environ({}, {name: value})
    with pytest.raises(inherit.Differs, match=name):
        inherit.check_environ({name: value}, {})
    inherit.check_environ({name: value}, {name: value})


@pytest.mark.parametrize("value", ["", "0", "many", "1,2"])
def test_threads_must_be_a_number(value):
    with pytest.raises(inherit.Differs, match="OMP_NUM_THREADS"):
        inherit.check_environ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": value})


@pytest.mark.parametrize("name", inherit.EQUAL)
def test_what_no_fork_can_change_must_be_the_hosts(name):
    own = inherit.read(0)
    with pytest.raises(inherit.Differs, match=name):
        inherit.check(dict(own, **{name: "another"}), own)
    inherit.check(own, own)


def test_a_setting_that_the_system_refuses_is_told():
    own = inherit.read(0)
    with pytest.raises(inherit.Differs, match="processors"):
        inherit.apply(dict(own, processors=set()), own)


def test_the_packages_folder_is_no_difference():
    for path in (None, "/mine", "/mine:/yours"):
        environ = {"A": "b"} if path is None else {"A": "b", "PYTHONPATH": path}
        seen = inherit.without_package(inherit.with_package(environ, "/engine/1"), "/engine/1")
        inherit.check_environ(seen, environ)
        assert inherit.with_package(environ, "/engine/2")["PYTHONPATH"].startswith("/engine/2")
