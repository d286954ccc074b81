"""Decoding in steps of fixed shape against exact steps, without a device: runs the functions that CUDA
graphs capture directly.

Only CUDA shows the effect of a graph (test_cuda.py). Here `Graphs` uses a fake of torch's capture.
"""

import warnings

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import protocol, static
from engine.generate import Static, _StaticSteps, generate
from engine.graphs import Graphs
from engine.static import StaticDecoder

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [13]]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    monkeypatch.setattr(static, "BUCKET", 8)
    monkeypatch.setattr(static, "PROMPT_BUCKET", 4)
    monkeypatch.setattr(_StaticSteps, "look", 4)


class Direct:
    """Runs each step directly, and records the kinds."""

    def __init__(self):
        self.kinds, self.dropped = [], 0

    def run(self, kind, function):
        self.kinds.append(kind)
        function()

    def drop(self):
        self.dropped += 1


def request(**options):
    values = dict(prompts=PROMPTS, num_generations=5, max_new_tokens=20, temperature=0.8, eos_token_id=13, seed=11)
    return protocol.Generate(**dict(values, **options))


def assert_same(one, other):
    assert one.tokens == other.tokens and one.terminated == other.terminated
    assert (one.prefill_tokens, one.new_tokens) == (other.prefill_tokens, other.new_tokens)
    for ours, theirs in zip(one.logprobs, other.logprobs):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), rtol=0, atol=1e-12)
    assert one.entropy == pytest.approx(other.entropy, abs=1e-12)


CASES = {
    "unequal prompts, ends at different steps": dict(),
    "hot: many ends": dict(temperature=2.0, num_generations=16),
    "nothing ends": dict(eos_token_id=-1),
    "limits of the context": dict(prompts=[[1] * 23, [2] * 20, [3]], max_new_tokens=100, eos_token_id=-1),
    "one token": dict(max_new_tokens=1),
    "two tokens": dict(max_new_tokens=2),
    "greedy": dict(temperature=0.0),
    "top-k": dict(top_k=4),
    "top-p": dict(top_p=0.7),
    "top-k and top-p": dict(top_k=9, top_p=0.5, temperature=1.3),
    "parts of prompts, the last of them smaller": dict(prompts=[*PROMPTS, [9, 9]], micro_batch=10),
    "parts of a group": dict(micro_batch=2),
    "one prompt": dict(prompts=[[5, 3]]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
def test_static_steps_draw_what_exact_steps_draw(make_model, config, case):
    model = make_model(config=config)
    kept = Static(Direct())
    for seed in (11, 12):  # the second call uses the buffers of the first
        asked = request(**dict(CASES[case], seed=seed))
        assert_same(generate(model, asked, kept), generate(model, asked))


def test_parts_of_a_request_are_drawn_by_the_rows_asked_for(model):
    whole, part = generate(model, request()), generate(model, request(), Static(), (5, 15))
    assert part.tokens == whole.tokens[5:15] and part.terminated == whole.terminated[5:15]


def test_windows_are_few_and_all_parts_and_calls_of_a_shape_share_buffers(model, monkeypatch):
    made, direct = [], Direct()
    make = StaticDecoder.__init__
    monkeypatch.setattr(StaticDecoder, "__init__", lambda self, *args: made.append(args[1]) or make(self, *args))
    kept = Static(direct)
    options = dict(prompts=[*PROMPTS, [9, 9]], micro_batch=10, eos_token_id=-1)
    for seed in (1, 2):
        generate(model, request(seed=seed, **options), kept)
    assert len(made) == 1 and made[0].prompts == 2 and made[0].prompt_length == 8
    assert direct.kinds == ([8] * 8 + [16] * 8 + [19] * 3) * 3 * 2
    generate(model, request(num_generations=4, **options), kept)
    assert len(made) == 2 and direct.dropped == 2  # before the first, and before the second


def test_the_shape_depends_on_the_request_alone():
    small, large = request(prompts=[[1] * 3] * 4), request(prompts=[[1] * 5] * 4)
    shapes = [static.shape_of(asked, 2, 5, 20, 24) for asked in (small, large, small)]
    assert shapes[0] == shapes[2] != shapes[1]
    assert static.shape_of(request(prompts=[[1] * 23]), 1, 5, 1, 22).prompt_length == 22  # never beyond the context


def test_without_graphs_no_buffer_is_kept(model):
    static = Static()
    generate(model, request(), static)
    assert static._decoder is None


def test_what_an_earlier_call_left_behind_is_never_seen(model):
    kept = Static()
    kept.keeps = True  # as with graphs
    expected = generate(model, request(), kept)
    with torch.inference_mode():
        for buffer in (kept._decoder._caches, kept._decoder._prompt_keys, kept._decoder._prompt_values, kept._decoder._mask):
            buffer.fill_(float("nan"))
    assert generate(model, request(), kept) == expected


def test_a_call_that_fails_drops_graphs_and_buffers(model, monkeypatch):
    direct = Direct()

    def failing(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 bytes")

    monkeypatch.setattr(StaticDecoder, "step", failing)
    kept = Static(direct)
    with pytest.raises(RuntimeError):
        generate(model, request(), kept)
    assert direct.dropped == 2 and kept._decoder is None


class FakeGraph:
    """Replaces torch.cuda.CUDAGraph: keeps the captured function and runs it at replay."""

    log = []

    def __init__(self, captured):
        self.captured = captured

    def replay(self):
        self.log.append("replay")
        self.captured()

    def reset(self):
        self.log.append("reset")


@pytest.fixture
def fake(monkeypatch):
    """Graphs with a capture that does not run the function, like a real one, and a warm-up that does."""
    FakeGraph.log = log = []
    monkeypatch.setattr(Graphs, "_captured", lambda self, function: log.append("capture") or FakeGraph(function))
    monkeypatch.setattr(Graphs, "_warm_up", lambda self, function: log.append("warm up") or function())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("empty cache"))
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    monkeypatch.setattr(Graphs, "_works", True)
    return log


def test_a_kind_is_warmed_up_then_captured_then_replayed_until_all_are_dropped(fake):
    runner, seen = Graphs(torch.device("cpu")), []
    for kind, value in (("a", 1), ("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 1)):
        runner.run(kind, lambda value=value: seen.append(value))
    runner.drop()
    runner.drop()
    assert seen == [1, 1, 1, 2, 2, 1]
    one = ["warm up", "capture", "replay"]
    assert fake == one + ["replay"] + one + ["replay", "reset", "reset", "empty cache"]


def test_graphs_live_from_call_to_call_until_they_are_dropped(model, fake):
    kept = Static(Graphs(torch.device("cpu")))
    options = dict(micro_batch=10, eos_token_id=-1)
    for seed in (1, 2):
        asked = request(seed=seed, **options)
        assert_same(generate(model, asked, kept), generate(model, asked))
    # Four calls with two parts of 19 steps, in windows of 8, 16 and 19.
    assert (fake.count("warm up"), fake.count("capture"), fake.count("reset")) == (3, 3, 0)
    assert fake.count("replay") == 4 * 19 - 3
    kept.drop()
    assert fake[-4:] == ["reset"] * 3 + ["empty cache"]


def test_a_capture_that_fails_is_said_once_and_decoding_goes_on(make_model, fake, monkeypatch, capsys):
    def failing(self, function):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "_captured", failing)
    for _ in range(2):
        runner = Static(Graphs(torch.device("cpu")))
        assert_same(generate(make_model(), request(), runner), generate(make_model(), request()))
    assert capsys.readouterr().err.count("operation not permitted") == 1


def test_a_capture_that_runs_out_of_memory_is_told(fake, monkeypatch):
    def failing(self, function):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(Graphs, "_captured", failing)
    runner = Graphs(torch.device("cpu"))
    runner.run("a", lambda: None)
    with pytest.raises(RuntimeError, match="out of memory"):
        runner.run("a", lambda: None)


def test_shortage_within_a_capture_is_told_though_its_end_fails_too(fake, monkeypatch):
    def failing(self, function):
        try:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(Graphs, "_captured", failing)
    runner = Graphs(torch.device("cpu"))
    runner.run("a", lambda: None)
    with pytest.raises(RuntimeError, match="out of memory"):
        runner.run("a", lambda: None)


def test_a_step_in_which_the_host_waits_is_never_captured(make_model, fake, monkeypatch, capsys):
    step = StaticDecoder.step

    def waiting(self, window):
        warnings.warn("called a synchronizing CUDA operation")
        step(self, window)

    monkeypatch.setattr(StaticDecoder, "step", waiting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = generate(make_model(), request(), Static(Graphs(torch.device("cpu"))))
        assert_same(drawn, generate(make_model(), request()))
    assert "capture" not in fake and capsys.readouterr().err.count("wait for the device") == 1
