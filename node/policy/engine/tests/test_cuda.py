"""Tests that need a CUDA device, skipped without one. `make gpu-check` runs them on machines with a GPU."""

import json
import math
import random
from dataclasses import replace

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import adam as adams
from engine import architecture, memory, precision, session, shortage, static
from engine.adam import Adam
from engine.generate import Static, generate
from engine.graphs import Graphs
from engine.offload import Parking
from engine.protocol import Generate, Load, Sequence, Update
from engine.update import Trainer
from test_process import CONFIG as SMALL
from test_process import Engine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICE = torch.device("cuda", 0)
PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [13]]
REQUEST = Update([[1, 2], [3]], [Sequence(0, [4, 5, 13], 1.0), Sequence(1, [6, 7], -1.0)], learning_rate=0.01)
BOTH = pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])


@pytest.fixture(autouse=True)
def exact():
    precision.set_matmul("fp32")
    yield
    memory.trim()


def on_device(make_model, config, dtype=torch.float64):
    """The model of the other tests, on the device."""
    source = make_model(dtype, config)
    model = architecture.make_model(config, DEVICE, dtype)
    with torch.no_grad():
        model.flat.copy_(source.flat)
    return model


def request(**options):
    return Generate(**dict(dict(prompts=PROMPTS, num_generations=5, max_new_tokens=20, eos_token_id=13, seed=11), **options))


@BOTH
@pytest.mark.parametrize("kept", [None, Static()], ids=["exact", "static"])
def test_sampling_on_the_device_draws_what_the_cpu_draws(make_model, config, kept):
    ours, theirs = generate(on_device(make_model, config), request(), kept), generate(make_model(config=config), request())
    assert ours.tokens == theirs.tokens and ours.terminated == theirs.terminated


@BOTH
@pytest.mark.parametrize(
    "options",
    [dict(), dict(temperature=2.0, num_generations=16), dict(top_k=4), dict(top_p=0.7), dict(temperature=0.0), dict(micro_batch=7)],
    ids=str,
)
def test_graphs_draw_what_the_cpu_draws_in_every_call(make_model, monkeypatch, capsys, config, options):
    monkeypatch.setattr(static, "BUCKET", 8)
    monkeypatch.setattr(static, "PROMPT_BUCKET", 4)
    model, graphs = on_device(make_model, config), Graphs(DEVICE)
    kept, captured = Static(graphs), []
    capture = Graphs._captured
    monkeypatch.setattr(Graphs, "_captured", lambda self, function: captured.append(capture(self, function)) or captured[-1])
    for seed in (11, 12, 13):
        asked = request(seed=seed, **options)
        ours, theirs = generate(model, asked, kept), generate(make_model(config=config), asked)
        assert captured and graphs._works and capsys.readouterr().err == ""
        assert ours.tokens == theirs.tokens and ours.terminated == theirs.terminated
        for one, other in zip(ours.logprobs, theirs.logprobs):
            assert torch.allclose(torch.tensor(one), torch.tensor(other), rtol=0, atol=1e-9)
    if "micro_batch" not in options:
        assert len(captured) <= 3, "a graph a window, whatever the number of calls"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_graphs_run_in_reduced_precision(make_model, capsys, dtype):
    reduced = precision.Reduced(on_device(make_model, CONFIG, torch.float32), dtype)
    result = generate(reduced.refresh(), request(eos_token_id=-1), Static(Graphs(DEVICE)))
    assert all(math.isfinite(value) for row in result.logprobs for value in row) and capsys.readouterr().err == ""


def test_the_memory_of_graphs_comes_back(make_model):
    model, kept = on_device(make_model, CONFIG, torch.float32), Static(Graphs(DEVICE))
    reserved = []
    for _ in range(6):
        generate(model, request(num_generations=64, eos_token_id=-1), kept)
        kept.drop()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved(DEVICE))
    assert reserved[-1] == reserved[1]


@BOTH
@pytest.mark.parametrize("size", [(8, 40), (64, 400)], ids=str)
def test_a_repeated_update_has_the_same_bits(make_model, config, size):
    """Rows for several blocks of each kernel, with frequent tokens, so that many gradients meet in one
    row.
    """
    rows, length = size
    wide = replace(config, context_length=512)
    rng = random.Random(1)
    prompts = [[rng.randrange(29) for _ in range(length // 4)] for _ in range(4)]
    completions = [[rng.randrange(3) for _ in range(rng.randint(1, length))] for _ in range(rows)]
    asked = Update(prompts, [Sequence(i % 4, c, (-1.0) ** i) for i, c in enumerate(completions)], learning_rate=0.01)
    flats = []
    for _ in range(3):
        trainer = Trainer(on_device(make_model, wide, torch.float32), Adam())
        trainer.update(asked)
        flats.append(trainer.model.flat)
    assert torch.equal(flats[0], flats[1]) and torch.equal(flats[0], flats[2])


@BOTH
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_fused_step_is_that_of_the_pieces_and_offload_changes_no_bit(make_model, monkeypatch, capsys, config, decay):
    monkeypatch.setattr(adams, "STAGE", {"cuda": 1 << 12})
    flats = {}
    for name, fused, offload in (("pieces", (), False), ("fused", ("cuda",), False), ("offload", ("cuda",), True)):
        monkeypatch.setattr(adams, "FUSED", fused)
        trainer = Trainer(on_device(make_model, config), Adam(epsilon=1e-3, weight_decay=decay, offload=offload))
        for _ in range(3):
            trainer.update(REQUEST)
        assert trainer.adam.exp_avg.is_cuda != offload and trainer.adam._fused == bool(fused)
        flats[name] = trainer.model.flat
    assert torch.allclose(flats["pieces"], flats["fused"], rtol=0, atol=1e-9)
    assert torch.equal(flats["fused"], flats["offload"])
    assert capsys.readouterr().err == ""


def test_the_fused_step_holds_for_a_buffer_of_many_launches(monkeypatch):
    """The kernel takes at most 320 chunks of 65536 elements a launch."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    start, gradient = (torch.randn(30_000_001, generator=generator, device=DEVICE) for _ in range(2))
    flats = []
    for fused in ((), ("cuda",)):
        monkeypatch.setattr(adams, "FUSED", fused)
        flat, adam = start.clone(), Adam()
        adam.prepare(flat)
        for _ in range(3):
            adam.step(flat, gradient, 0.01)
        assert adam._fused == bool(fused)
        flats.append(flat)
    assert torch.allclose(*flats, rtol=0, atol=1e-5) and not torch.equal(flats[0], start)


@BOTH
def test_parking_frees_the_device_and_keeps_the_bits(make_model, config):
    plain, parked = (Trainer(on_device(make_model, config), Adam()) for _ in range(2))
    parking = Parking(parked.model)
    for _ in range(2):
        plain.update(REQUEST)
        parked.update(REQUEST)
        memory.trim()
        before = torch.cuda.memory_allocated(DEVICE)
        parking.park()
        parked.adam.park(DEVICE)
        memory.trim()
        freed = before - torch.cuda.memory_allocated(DEVICE)
        assert freed >= 3 * 8 * len(parked.model.flat) and parked.model.flat.is_pinned()
        parking.unpark()
        parked.adam.unpark(DEVICE)
        assert torch.equal(parked.model.flat, plain.model.flat) and all(leaf.is_cuda for leaf in parked.model.leaves)


def test_the_cap_is_kept_and_a_shortage_names_it():
    cap = torch.cuda.memory_reserved(DEVICE) + (64 << 20)
    try:
        memory.set_cap(DEVICE, cap)
        with pytest.raises(RuntimeError) as caught:
            torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
        found = shortage.describe(caught.value, DEVICE, cap)
        assert shortage.is_out_of_memory(caught.value)
        assert (found["where"], found["requested_bytes"], found["cap_bytes"]) == ("device", 256 << 20, cap)
        assert found["used_bytes"] <= cap < found["free_bytes"] <= found["total_bytes"]
    finally:
        memory.set_cap(DEVICE, 0)


def test_a_call_is_measured_from_begin_to_peak_and_the_peak_since_load_stays():
    meter = memory.Meter()
    meter.load(DEVICE)
    for size in (64 << 20, 1 << 20):
        begin = meter.begin()
        block = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        del block
        status = meter.status(begin)
        assert status["call_peak_bytes"] - status["call_begin_bytes"] == size
        assert status["device_peak_bytes"] >= 64 << 20
        grown = status["call_peak_reserved_bytes"] - status["call_begin_reserved_bytes"]
        low, high = (size, size + (32 << 20)) if size > 1 << 20 else (0, 2 << 20)  # small tensors share blocks of 2 MiB
        assert low <= grown <= high


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16"])
def test_a_session_trains_in_every_precision_with_everything_on(tmp_path, name):
    (tmp_path / "config.json").write_text(
        '{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 97, "eos_token_id": 13}'
    )
    engine = session.Session()
    load = Load(
        str(tmp_path), random_init=True, device="cuda:0", precision=name, gradient_checkpointing=True, self_test=True,
        optimizer_offload=True, param_offload=True, cuda_graphs=True,
    )  # fmt: skip
    difference = engine.load(load)["self_test_max_abs_diff"]
    assert difference < {"fp32": 1e-4, "tf32": 0.02}.get(name, 0.1)
    norms = []
    for seed in range(3):
        made = engine.generate(Generate([[1, 2], [3]], 4, 100, seed=seed))
        rows = [Sequence(i // 4, tokens, (-1.0) ** i) for i, tokens in enumerate(made["completions"])]
        norms.append(engine.update(Update([[1, 2], [3]], rows))["grad_norm"])
        engine.trim(None)
    assert len(norms) == 3 and all(math.isfinite(norm) and norm > 0 for norm in norms)


def test_an_engine_whose_device_is_lost_says_why_and_ends(tmp_path):
    """A real fault, after which CUDA answers every later call of the process with an error."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    engine = Engine(
        "import torch\nfrom engine import __main__, ranks\n"
        "def lose(*_):\n    torch.zeros(4, device='cuda')[torch.full((1,), 9, device='cuda')].tolist()\n"
        "ranks.Leader.memory = lose\n__main__.main()\n",
        direct=True,
    )
    try:
        engine.result("load", model_dir=str(tmp_path), random_init=True, device="cuda:0")
        error = engine.error("memory")
        assert error["kind"] == "internal"
        assert "device-side assert" in error["message"] and "the engine ends" in error["message"]
        assert engine.wait() == 0
    finally:
        engine.close()
