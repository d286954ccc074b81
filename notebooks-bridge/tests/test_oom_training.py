"""Memory really runs out: in torch's CPU allocator and in Python's, in processes with a limit. Also runs the training
scripts of cmd/swarm/testdata.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
TRAINING = FOLDER.parent / "cmd" / "swarm" / "testdata" / "training"

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def python(code, *arguments):
    """Runs code in a separate process. Returns its exit code, stdout and stderr."""
    env = dict(os.environ, PYTHONPATH="{}:{}".format(FOLDER, TRAINING))
    done = subprocess.run([sys.executable, "-c", code] + list(arguments), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_python_truly_runs_out_and_goes_on():
    code, out, err = python("""
import memory, swarm_bridge
memory.limit(64)
held = []
def train(batch_size):
    rows = [bytearray(1 << 20) for _ in range(batch_size)]   # 1 MiB a sample
    return len(rows)
print(swarm_bridge.adaptive_batch_training(train, 128))
@swarm_bridge.retry_on_oom(max_retries=2, wait_seconds=0)
def big():
    held.append(memory.held())
    rows = [bytearray(1 << 20) for _ in range(200)]
try:
    big()
except MemoryError as error:
    print(len(held), max(held) - min(held) < 4 << 20, str(error).splitlines()[-1])
""")
    assert (code, out.splitlines()) == (0, ["32", "3 True swarm_bridge: tried before: as called, the same batch again after 0 s, the same batch again after 0 s"]), err


@needs_torch
def test_torch_truly_runs_out_and_what_it_held_is_given_back():
    code, out, err = python("""
import memory; memory.one_thread()
import torch, swarm_bridge
torch.ones(8, 8, requires_grad=True).sum().backward()
# No number of the attempts' tensors of 32, 16 and 8 MiB misses it by less than 4 MiB. One that misses a limit by a page
# is not mapped, but fits at the end of the heap, and stays there when it is freed because something small lies above
# it.
memory.limit(100)
seen, kept, started = [], [], memory.held()
def train(batch_size, accumulate):
    seen.append((batch_size, accumulate, (memory.held() - started) >> 20))
    weights = torch.ones(1024, requires_grad=True)
    x = torch.ones(batch_size * 32, 1024) * weights    # 128 KiB a sample, and as much for each step below
    circle = []
    circle.append(circle)                              # only the collector frees what is in it
    for _ in range(6):
        x = x.sigmoid()
        circle.append(x)
    x.sum().backward()
    return float(weights.grad.sum()), batch_size, accumulate
print(swarm_bridge.adaptive_batch_training(train, 256, accumulate=2)[1:])
print([s[:2] for s in seen], all(s[2] < 4 for s in seen))
try:
    swarm_bridge.adaptive_batch_training(lambda batch_size: train(batch_size, 1), 1024, min_batch_size=512)
except RuntimeError as error:
    print(swarm_bridge.out_of_memory(error), str(error).splitlines()[-1])
""")
    lines = out.splitlines()
    assert code == 0, err
    assert lines[1].endswith("True"), "an attempt began with what another had held: " + out
    assert lines[0] in ("(64, 8)", "(32, 16)"), out
    assert lines[1].startswith("[(256, 2), (128, 4), (64, 8)")
    assert lines[2] == "host swarm_bridge: tried before: batch 1024 x 1, batch 512 x 1"


def train(script, *arguments):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, script] + list(arguments), cwd=str(TRAINING), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", timeout=300)
    return done.returncode, done.stdout, done.stderr


def numbers(out):
    """Returns loss and gradient norm of each step."""
    return [tuple(map(float, found)) for found in re.findall(r"^step \d+ loss=(\S+) grad_norm=(\S+)$", out, re.M)]


@needs_torch
def test_accumulation_gives_the_same_gradient():
    got = []
    for batch_size, accumulate, more in ((32, 1, ()), (8, 4, ()), (8, 4, ("training.gradient_checkpointing=true", "training.offload=true"))):
        code, out, err = train("train.py", "training.batch_size={}".format(batch_size),
                               "training.gradient_accumulation_steps={}".format(accumulate), *more)
        assert code == 0 and "effective_batch=32" in out, err
        got.append(numbers(out))
    assert len(got[0]) == 2 and all(n > 0 for step in got[0] for n in step)
    for other in got[1:]:
        for step, same in zip(got[0], other):
            assert step == pytest.approx(same, rel=1e-4)
