"""The sections of a card, with facts as a card's children would report them, and a script in place of MPS's control
program.
"""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import primitives_section  # noqa: E402
import profile_section  # noqa: E402
import report  # noqa: E402
import shortage_section  # noqa: E402
from engine_client import EngineError  # noqa: E402
from evidence import Evidence  # noqa: E402
from held import Held  # noqa: E402
from mps_control import Daemon  # noqa: E402
from stage import Stage  # noqa: E402


@pytest.fixture
def card(tmp_path):
    """A check on a card whose children return the test's answers: card.answers, by the child's name."""
    c = Stage()
    c.evidence, c.scratch, c.folder, c.device, c.threads, c.answers = Evidence(tmp_path / "e", tmp_path / "a.tar.gz"), tmp_path, tmp_path, "cuda", 0, {}
    c.left = lambda: 100.0
    c.ask = lambda section, script, *arguments, name="", **_: c.answers.get(name or script.removesuffix(".py"), {})
    return c


def values(c):
    return {row.name: row.value for row in c.report.rows}


DECODE = {"step_seconds": 0.005, "kernels": 210.0, "copies": 2.0, "device_us": 4000.0, "top": ["a kernel"], "runtime": ["a call"],
          "beyond_steps_seconds": 0.1, "first_call_seconds": 0.3, "instantiate_us": 20000.0, "mallocs": 12}


def test_counts_of_kernels_meet_or_miss_their_targets(card):
    found = {"load seconds": 2.0, "load self_test": 0.001, "update seconds": 0.2, "update pass_seconds": 0.05, "update kernels": 601.0,
             "update device_us": 40000.0, "update call_device_us": 150000.0, "update attention": "memory-efficient", "update top": ["a kernel"]}
    for way in ("decode", "graphs"):
        found.update({f"{way} {name}": value for name, value in DECODE.items()})
    card.answers["profiled"] = dict(found, **{"graphs kernels": 221.0})
    profile_section.check_profile(card)
    met = card.verdicts()
    assert met["kernels a decode step, 32 rows, tf32"] == report.MET and met["kernels a decode step, graphs, 32 rows, tf32"] == report.MISSED
    assert met["kernels an update pass of 4 rows, tf32"] == report.MISSED
    seen = values(card)
    assert seen["device busy while it decodes, 32 rows, tf32"] == 0.8
    assert seen["device busy in an update call"] == pytest.approx(0.75)
    assert seen["a decode step, graphs, 32 rows, tf32"] == 5.0 and len(card.report.listings) == 5
    assert len(list((card.evidence.folder / "profile").iterdir())) == 5


def test_a_profiler_without_kernels_is_a_failure_on_a_card(card):
    card.answers["profiled"] = {"decode step_seconds": 0.005, "decode kernels": 0}
    profile_section.check_profile(card)
    assert card.verdicts()["kernels a decode step, 32 rows, tf32"] == report.FAILED


class FakeHeld:
    used, holds, taken = 1 << 30, [], 500 << 20

    def __init__(self, what, log, *arguments, env=None, cap=30):
        self.fact, self._bytes = [100, 200], self.taken if what == "context" else 0
        FakeHeld.used += self._bytes
        FakeHeld.holds.append(what)

    def ready(self):
        return self

    __enter__ = ready

    def __exit__(self, *_):
        FakeHeld.used -= self._bytes


def test_a_child_that_fails_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="nonsense: KeyError"):
        with Held("nonsense", tmp_path / "log") as held:
            held.ready()


def test_primitives_of_a_card(card, monkeypatch, tmp_path):
    monkeypatch.setattr(primitives_section, "Held", FakeHeld)
    monkeypatch.setattr(primitives_section.host, "card_used", lambda: FakeHeld.used)
    fake_control(tmp_path, monkeypatch)
    once = {"malloc_seconds": 1e-4, "free_seconds": 2e-4, "malloc_worst": 1e-3, "free_worst": 2e-3}
    card.answers.update({
        "malloc alone": {"malloc 2 MiB": once}, "malloc beside seven": {"malloc 2 MiB": once},
        "copies": {"page-locked allocation_seconds": 0.1, "page-locked to the device": 5e10}, "sdpa": {"prefix, causal, float32": "memory-efficient"},
        "limit": {"driver_memory": [2 << 30, 140 << 30], "torch_memory": [2 << 30, 140 << 30], "taken_bytes": 1 << 30, "refusal": "cuMemAlloc_v2 gives CUDA error 2"},
    })  # fmt: skip
    primitives_section.check_primitives(card)
    assert not card.report.missed()
    seen = values(card)
    assert FakeHeld.holds.count("busy") == 7 and seen["cudaMalloc, cudaFree of 2 MiB, beside seven busy processes"] == "100, 200 us"
    assert seen["a context, without MPS"] == seen["a second client's context, with MPS"] == 500 << 20
    assert card.verdicts() == {"memory that a client with the MPS limit 0=2048M gets": report.MET}
    card.answers["limit"]["taken_bytes"] = 4 << 30
    primitives_section.limits(card)
    assert card.report.missed()[0].name == "memory that a client with the MPS limit 0=2048M gets"


def fake_control(folder, monkeypatch):
    """A script in place of nvidia-cuda-mps-control that records how it was called."""
    program = folder / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nif [ "$1" = -d ]; then echo started >>"$CUDA_MPS_LOG_DIRECTORY/control.log"; exit ${FAKE_CODE:-0}; fi\n'
                       'read line; echo "$line" >>"$CUDA_MPS_LOG_DIRECTORY/control.log"; echo 4711\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_a_control_daemon_is_started_and_ended(tmp_path, monkeypatch):
    fake_control(tmp_path, monkeypatch)
    with Daemon(tmp_path, "GPU-1") as daemon:
        pipe = daemon.env["CUDA_MPS_PIPE_DIRECTORY"]
        assert os.path.isdir(pipe) and daemon.ask("get_server_list") == "4711" and daemon.env["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert not os.path.exists(pipe)
    assert (tmp_path / "control.log").read_text().splitlines() == ["started", "get_server_list", "quit -t 5"]
    monkeypatch.setenv("FAKE_CODE", "1")
    with pytest.raises(RuntimeError, match="ended with 1: quit -t 5|ended with 1: started"):
        with Daemon(tmp_path, ""):
            pass


class FakeNode:
    """A node whose update runs out of memory while its engine has a cap."""

    kind = "out_of_memory"

    def __init__(self, *_, **__):
        self.engine, self.sequences, self.cap = self, [{}] * 64, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def call(self, name, **params):
        self.cap = params.get("memory_cap_bytes", self.cap)
        return {"device_reserved_bytes": 1 << 30}

    def update(self, micro_batch):
        if self.cap:
            raise EngineError({"kind": self.kind, "message": "CUDA out of memory", "shortage": {"where": "device", "requested_bytes": 10**9}})


def test_a_shortage_must_be_recognized_and_survived(card, monkeypatch):
    monkeypatch.setattr(shortage_section, "Held", FakeHeld)
    monkeypatch.setattr(shortage_section.footprint, "Node", FakeNode)
    good = {"class": "torch.cuda.OutOfMemoryError < RuntimeError", "text": "CUDA out of memory.", "recognized": True, "lives on": True,
            "cause": {"where": "device", "requested_bytes": 2 * 10**9}}
    card.answers.update({case: good for case in shortage_section.CASES})
    shortage_section.check_shortage(card)
    assert set(card.verdicts().values()) == {report.MET} and len(card.verdicts()) == 6
    card.report = report.Report()
    card.answers["full"] = {"class": "builtins.RuntimeError < Exception", "text": "NVML_SUCCESS == r INTERNAL ASSERT FAILED", "recognized": False}
    monkeypatch.setattr(FakeNode, "kind", "internal")
    shortage_section.check_shortage(card)
    missed = {row.name for row in card.report.missed()}
    assert missed == {"an update on a full card: recognized", "an update on a full card: the session continues",
                      "an update beyond its own cap, through the protocol"}
