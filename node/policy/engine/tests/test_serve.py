"""The request loop after failures: those that end it, those that do not, and that every answer keeps the
first failure's text.
"""

import gc
import json
import queue
import weakref

import pytest
import torch
from engine import memory, serve, shortage
from engine import session as sessions
from engine.generate import Static
from engine.parallel import Elsewhere, RankLost
from engine.protocol import EngineError, Load
from engine.session import Session
from test_process import CONFIG, Engine

ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported"
FIRST = "CUDA error: device-side assert triggered"
FULL = "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 14.76 GiB total capacity)"


class Failing(Session):
    """A session with a `memory` call that raises the given error. Its other calls are real."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def memory(self, _):
        raise self._error


def ask(session, *calls):
    """The answers to calls, until the loop ends."""
    requests, answers = queue.Queue(), []
    for number, call in enumerate((*calls, "exit"), 1):
        requests.put(json.dumps(dict(id=number, call=call)).encode())
    serve.serve(requests, lambda line: answers.append(json.loads(line)), session)
    return answers


@pytest.fixture
def cuda(monkeypatch):
    """A fake device. Its calls do nothing. A test makes some of them fail, as after a lost context."""
    calls = dict(synchronize=lambda _: None, empty_cache=lambda: None, mem_get_info=lambda _: (3, 9), memory_reserved=lambda _: 5)
    for name, call in dict(calls, is_available=lambda: True, is_initialized=lambda: True).items():
        monkeypatch.setattr(torch.cuda, name, call)
    monkeypatch.delattr(torch._C, "_host_emptyCache", raising=False)

    def fail(*names):
        def failing(*_):
            raise RuntimeError(ILLEGAL)

        for name in names:
            monkeypatch.setattr(torch.cuda, name, failing)

    return fail


def on_device(error):
    session = Failing(error)
    session._device = torch.device("cuda", 0)
    return session


@pytest.mark.parametrize("second", ["synchronize", "empty_cache"])
def test_a_device_that_is_lost_ends_the_engine_with_the_first_failures_words(cuda, capsys, second):
    cuda(second)
    answers = ask(on_device(RuntimeError(FIRST)), "memory", "trim")
    assert len(answers) == 1 and answers[0]["id"] == 1
    error = answers[0]["error"]
    assert error["kind"] == "internal" and error["message"] == (
        f"RuntimeError: {FIRST}; the engine ends, because it can't free what the call left behind "
        "(RuntimeError: CUDA error: an illegal memory access was encountered)"
    )
    errors = capsys.readouterr().err
    assert errors.index(FIRST) < errors.index("illegal memory access"), "both are in the log, whole"


def test_a_shortage_on_a_device_that_is_lost_is_told_too(cuda):
    cuda("mem_get_info", "empty_cache")
    answers = ask(on_device(RuntimeError(FULL)), "memory", "trim")
    assert len(answers) == 1
    assert answers[0]["error"]["kind"] == "internal", "the node must not go on with an engine that ends"
    assert answers[0]["error"]["message"].startswith(f"RuntimeError: {FULL}; the engine ends")


def test_a_shortage_whose_figures_can_not_be_read_is_a_shortage(cuda):
    cuda("mem_get_info")
    answers = ask(on_device(RuntimeError(FULL)), "memory", "trim")
    error = answers[0]["error"]
    assert (error["kind"], error["message"]) == ("out_of_memory", f"RuntimeError: {FULL}")
    assert error["shortage"] == dict(
        where="device", requested_bytes=2 << 20, used_bytes=5, cap_bytes=0, free_bytes=0, total_bytes=0
    )
    assert "result" in answers[1] and len(answers) == 3


def test_a_shortage_that_can_not_be_described_is_a_shortage(monkeypatch):
    def failing(*_):
        raise ValueError("what")

    monkeypatch.setattr(shortage, "describe", failing)
    answers = ask(Failing(MemoryError("no room")), "memory", "trim")
    assert answers[0] == {"id": 1, "error": {"kind": "out_of_memory", "message": "MemoryError: no room"}}
    assert "result" in answers[1]


FAILURES = [
    (RuntimeError("shapes cannot be multiplied"), "internal"),
    (RuntimeError(FIRST), "internal"),
    (RuntimeError(FULL), "out_of_memory"),
    (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), "out_of_memory"),
    (MemoryError(), "out_of_memory"),
    (AssertionError(), "internal"),
    (EngineError("bad_request", "no"), "bad_request"),
    (EngineError("model", "no"), "model"),
    (EngineError("device", "no"), "device"),
    (EngineError("self_test", "no"), "self_test"),
    (EngineError("checkpoint", "no"), "checkpoint"),
    (EngineError("not_finite", "no"), "not_finite"),
    (Elsewhere("rank 1 failed"), "elsewhere"),
]


@pytest.mark.parametrize("error,kind", FAILURES, ids=[f"{kind} {type(error).__name__}" for error, kind in FAILURES])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_after_any_other_failure_the_engine_frees_what_is_left_and_goes_on(cuda, monkeypatch, error, kind, device):
    trims = []
    monkeypatch.setattr(memory, "trim", lambda: trims.append(kind))
    session = Failing(error)
    session._device = torch.device(device)
    answers = ask(session, "memory", "trim", "memory")
    assert [answer.get("error", {}).get("kind") for answer in answers] == [kind, None, kind, None]
    assert len(trims) == (1 if kind == "bad_request" else 3), "one was asked for"


def test_a_load_without_room_for_the_devices_context_is_a_shortage(monkeypatch):
    """Then freeing fails in the same way, and the device is not lost."""

    def no_room(_):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(Session, "release", no_room)
    answers = ask(Failing(RuntimeError("CUDA error: out of memory")), "memory", "trim")
    assert answers[0]["error"]["kind"] == "out_of_memory" and "result" in answers[1]


def test_a_lost_rank_ends_the_engine_and_nothing_is_freed(monkeypatch):
    monkeypatch.setattr(Session, "release", lambda _: pytest.fail("it could wait for the others"))
    assert ask(Failing(RankLost("rank 1 is gone")), "memory", "trim") == [
        {"id": 1, "error": {"kind": "internal", "message": "rank 1 is gone; the engine ends"}}
    ]


def test_a_real_engine_answers_and_exits_when_its_device_is_lost():
    engine = Engine(
        "import torch\nfrom engine import __main__, ranks\n"
        "def failing(text):\n"
        "    def fail(*_):\n        raise RuntimeError(text)\n    return fail\n"
        f"ranks.Leader.memory = failing({FIRST!r})\n"
        f"torch.cuda.is_available = torch.cuda.is_initialized = lambda: True\ntorch.cuda.empty_cache = failing({ILLEGAL!r})\n"
        "__main__.main()\n"
    )
    try:
        assert FIRST in engine.error("memory")["message"]
        assert engine.wait() == 0
        assert engine.process.stdout.read() == b""
    finally:
        engine.close()


def test_what_a_failed_load_has_left_is_dropped():
    session = Session()
    session._static = Static(None)
    left = weakref.ref(session._static)
    session.release()
    assert left() is None


def test_a_load_takes_the_heap_out_of_collections_and_the_next_one_collects_what_it_held(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    session, load = Session(), Load(str(tmp_path), random_init=True)
    try:
        session.load(load)
        assert gc.get_freeze_count() > 10_000
        model = session._trainer.model
        model.itself, first = model, weakref.ref(model)  # only garbage collection can free it
        del model
        session.load(load)
        assert first() is None and gc.get_freeze_count() > 10_000
    finally:
        memory.thaw()


def test_a_first_load_walks_nothing_that_the_engine_host_froze(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    session, load = Session(), Load(str(tmp_path), random_init=True)
    before = Static(None)
    before.itself, left = before, weakref.ref(before)
    memory.freeze()
    try:
        del before
        session.load(load)
        assert left() is not None, "it was collected, so its page was written"
        session.load(load)
        assert left() is None
    finally:
        memory.thaw()


def test_a_load_on_cuda_keeps_cudnns_attention_off(tmp_path, monkeypatch):
    """Runs all settings of a load, up to the creation of the model."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    done = []

    def make_model(*_):
        raise EngineError("model", "made")

    monkeypatch.setattr(sessions, "open_device", lambda _: torch.device("cuda", 0))
    monkeypatch.setattr(sessions, "make_model", make_model)
    for owner, name in (
        (memory.Meter, "load"), (memory.Meter, "begin"), (memory, "set_cap"), (torch.cuda, "set_device"), (sessions.precision, "check"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, lambda *_: None)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", done.append, raising=False)
    with pytest.raises(EngineError, match="made"):
        Session().load(Load(str(tmp_path), device="cuda"))
    assert done == [False]


def test_a_load_that_failed_leaves_no_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    engine = Engine("from engine import __main__, session\nsession.Session._self_test = lambda *_: 0.2\n__main__.main()\n")
    load = dict(model_dir=str(tmp_path), random_init=True, threads=1)
    try:
        error = engine.error("load", self_test=True, **load)
        assert error["kind"] == "self_test"
        assert engine.error("generate", prompts=[[1]], num_generations=1, max_new_tokens=1)["message"] == "no model is loaded"
        assert engine.result("load", **load)["self_test_max_abs_diff"] == 0
        assert engine.result("generate", prompts=[[1]], num_generations=1, max_new_tokens=1)["new_tokens"] == 1
    finally:
        engine.close()
