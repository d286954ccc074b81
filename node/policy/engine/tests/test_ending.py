"""The engine's end under MPS, with a device that is slow, hangs or has failed: real processes, a fake
device.
"""

import json

import pytest
from test_process import CONFIG, Engine, busy, long_call

# The fake replaces torch's own functions: is_initialized returns that there is a device, synchronize prints
# to stderr.
DEVICE = """
import os, sys, threading, time
os.environ["CUDA_MPS_PIPE_DIRECTORY"] = "/nowhere"
from engine import __main__, ending
import torch
torch.cuda.is_initialized = lambda: True
def synchronize(*_):
    main = threading.current_thread() is threading.main_thread()
    print("synchronized by", "main" if main else "another", file=sys.stderr, flush=True)
    {then}
torch.cuda.synchronize = synchronize
{more}
__main__.main()
"""


def engine_with(then="pass", more=""):
    return Engine(DEVICE.format(then=then, more=more))


def end(engine):
    engine.process.stdin.close()
    assert engine.wait() == 0
    return engine.process.stderr.read().decode()


@pytest.mark.parametrize("then", ["pass", "raise RuntimeError('CUDA error: unspecified launch failure')"])
def test_an_idle_engine_waits_for_its_device(then):
    engine = engine_with(then)
    try:
        assert engine.result("memory")["rss_bytes"] > 0
        errors = end(engine)
        assert errors.count("synchronized by main") == 1 and "Traceback" not in errors
        assert ("unspecified launch failure" in errors) == (then != "pass")
    finally:
        engine.close()


def test_an_engine_in_the_middle_of_a_call_stops_launching_first(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    engine = engine_with(more="ending.GRACE = 60.0")
    try:
        long_call(engine, str(tmp_path))
        busy(engine)
        errors = end(engine)
        assert "synchronized by main" in errors
        assert engine.process.stdout.read() == b"", "the call was not answered: it was interrupted"
    finally:
        engine.close()


@pytest.mark.parametrize("then", ["time.sleep(600)", "threading.Event().wait()"])
def test_a_device_that_hangs_holds_nothing_up(then):
    engine = engine_with(then)
    try:
        assert engine.result("memory")["rss_bytes"] > 0
        assert "synchronized by main" in end(engine)
    finally:
        engine.close()


def test_exit_waits_for_the_device_too():
    engine = engine_with()
    try:
        assert engine.result("exit") == {}
        assert engine.wait() == 0
        assert "synchronized by main" in engine.process.stderr.read().decode()
    finally:
        engine.close()


@pytest.mark.parametrize(
    "off",
    [
        "del os.environ['CUDA_MPS_PIPE_DIRECTORY']",
        "os.environ['CUDA_MPS_PIPE_DIRECTORY'] = '/dev/null'",
        "torch.cuda.is_initialized = lambda: False",
    ],
)
def test_without_mps_or_a_device_nothing_is_waited_for(off):
    engine = engine_with("time.sleep(600)", off)
    try:
        assert engine.result("memory")["rss_bytes"] > 0
        assert "synchronized" not in end(engine)
    finally:
        engine.close()


STUCK = """
from engine import ranks
def memory(*_):
    while True:
        try:
            print("stuck", file=sys.stderr, flush=True)
            time.sleep(600)
        except BaseException:
            pass
ranks.Leader.memory = memory
"""


def test_a_main_thread_that_does_not_stop_holds_nothing_up():
    """A call that Python cannot interrupt, or that continues after the interrupt."""
    engine = engine_with(more=STUCK)
    try:
        engine.start("memory")
        assert engine.process.stderr.readline() == b"stuck\n"
        assert "synchronized" not in end(engine)
    finally:
        engine.close()
