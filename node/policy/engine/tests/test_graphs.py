"""Steps of fixed shape against the exact ones, without a device: the functions that CUDA graphs capture, run as they are.

What a graph itself does is only to be seen on CUDA (test_cuda.py): here `Graphs` meets a stand-in for torch's capture.
"""

import warnings

import pytest
import torch
from conftest import CONFIG, QWEN2
from engine import graphs, protocol
from engine.decoder import Decoder
from engine.generate import generate
from engine.graphs import Graphs, StaticSteps

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [13]]


class Direct:
    """Runs each step as it is, and keeps what kinds there were."""

    def __init__(self):
        self.kinds, self.closed = [], 0

    def run(self, kind, function):
        self.kinds.append(kind)
        function()

    def close(self):
        self.closed += 1


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
    "hot: many ends, rows dropped": dict(temperature=2.0, num_generations=16),
    "nothing ends": dict(eos_token_id=-1),
    "limits of the context": dict(prompts=[[1] * 23, [2] * 20, [3]], max_new_tokens=100, eos_token_id=-1),
    "one token": dict(max_new_tokens=1),
    "two tokens": dict(max_new_tokens=2),
    "greedy": dict(temperature=0.0),
    "top-k": dict(top_k=4),
    "top-p": dict(top_p=0.7),
    "top-k and top-p": dict(top_k=9, top_p=0.5, temperature=1.3),
    "parts of prompts": dict(micro_batch=10),
    "parts of a group": dict(micro_batch=2),
}


@pytest.mark.parametrize("bucket", [3, 64])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("config", [CONFIG, QWEN2], ids=["gpt2", "qwen2"])
def test_static_steps_draw_what_exact_steps_draw(make_model, monkeypatch, config, case, bucket):
    monkeypatch.setattr(graphs, "BUCKET", bucket)
    monkeypatch.setattr(StaticSteps, "look", 4)
    monkeypatch.setattr(StaticSteps, "compact_below", 0.9)
    model = make_model(config=config)
    assert_same(generate(model, request(**CASES[case]), Direct()), generate(model, request(**CASES[case])))


def test_windows_are_few_and_rows_shrink(make_model, monkeypatch):
    monkeypatch.setattr(graphs, "BUCKET", 8)
    monkeypatch.setattr(StaticSteps, "look", 4)
    monkeypatch.setattr(StaticSteps, "compact_below", 0.9)
    direct = Direct()
    generate(make_model(), request(temperature=2.0, num_generations=16), direct)
    windows, rows = zip(*direct.kinds)
    assert list(windows) == sorted(windows) and set(windows) == {8, 16, 19}
    assert list(rows) == sorted(rows, reverse=True) and rows[0] == 64 > rows[-1]
    assert direct.closed == 1


def test_what_is_not_yet_written_is_never_seen(make_model, monkeypatch):
    """Own positions beyond the step are zeros; garbage there that is finite must not matter either."""
    expected = generate(make_model(), request(), Direct())
    make = Decoder.allocate

    def dirty(self):
        make(self)
        for buffer in self.keys + self.values:
            buffer.fill_(1e3)

    monkeypatch.setattr(Decoder, "allocate", dirty)
    assert_same(generate(make_model(), request(), Direct()), expected)


def test_a_call_that_fails_closes_the_graphs(make_model, monkeypatch):
    direct = Direct()

    def failing(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 bytes")

    monkeypatch.setattr(StaticSteps, "_step", failing)
    with pytest.raises(RuntimeError):
        generate(make_model(), request(), direct)
    assert direct.closed == 1


class FakeGraph:
    """Stands in for torch.cuda.CUDAGraph: what is captured is kept as a function and run at replay."""

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
    """Graphs whose capture doesn't run the function, as a real one doesn't, and whose warm-up does."""
    FakeGraph.log = log = []
    monkeypatch.setattr(Graphs, "_captured", lambda self, function: log.append("capture") or FakeGraph(function))
    monkeypatch.setattr(Graphs, "_warm_up", lambda self, function: log.append("warm up") or function())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("empty cache"))
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    monkeypatch.setattr(Graphs, "_works", True)
    return log


def test_a_kind_is_warmed_up_then_captured_then_replayed_and_only_one_graph_lives(fake):
    runner, seen = Graphs(torch.device("cpu")), []
    for kind, value in (("a", 1), ("a", 1), ("a", 1), ("b", 2), ("b", 2)):
        runner.run(kind, lambda value=value: seen.append(value))
    runner.close()
    runner.close()
    assert seen == [1, 1, 1, 2, 2]
    one = ["warm up", "capture", "replay"]
    assert fake == one + ["replay", "reset", "empty cache"] + one + ["reset", "empty cache"]


def test_generation_goes_through_graphs_and_leaves_none(make_model, fake, monkeypatch):
    monkeypatch.setattr(graphs, "BUCKET", 8)
    runner = Graphs(torch.device("cpu"))
    options = dict(micro_batch=10, eos_token_id=-1)
    assert_same(generate(make_model(), request(**options), runner), generate(make_model(), request(**options)))
    # Two parts of 19 steps in windows of 8, 16 and 19.
    assert fake.count("capture") == fake.count("reset") == 6
    assert fake.count("replay") + fake.count("warm up") == 2 * 19
    assert fake[-2:] == ["reset", "empty cache"]


def test_a_capture_that_fails_is_said_once_and_decoding_goes_on(make_model, fake, monkeypatch, capsys):
    def failing(self, function):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "_captured", failing)
    for _ in range(2):
        runner = Graphs(torch.device("cpu"))
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
    step = StaticSteps._step

    def waiting(self, window):
        warnings.warn("called a synchronizing CUDA operation")
        step(self, window)

    monkeypatch.setattr(StaticSteps, "_step", waiting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(generate(make_model(), request(), Graphs(torch.device("cpu"))), generate(make_model(), request()))
    assert "capture" not in fake and capsys.readouterr().err.count("wait for the device") == 1
