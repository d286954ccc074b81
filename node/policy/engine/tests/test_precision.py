"""Reduced precision through the same code on the CPU: bfloat16 autocast stands in for the GPU's."""

import pytest
import torch
from conftest import CONFIG, QWEN2
from engine import precision
from engine.generate import generate
from engine.protocol import EngineError, Generate
from test_graphs import Direct

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2]]


def sample(model, graphs=None):
    request = Generate(PROMPTS, 4, 12, temperature=0.8, eos_token_id=13, seed=11)
    with precision.autocast(torch.device("cpu"), torch.bfloat16):
        return generate(model, request, graphs)


@pytest.mark.parametrize("config", [CONFIG, QWEN2], ids=["gpt2", "qwen2"])
def test_matrices_cast_once_give_what_autocast_gives(make_model, config):
    model = make_model(torch.float32, config)
    cast = precision.for_sampling(model, torch.bfloat16)
    assert sample(cast) == sample(model)
    assert sample(cast, Direct()).tokens
    matrices = [t for layer in cast.layers for t in layer if t.dim() == 2] + [cast.head]
    assert all(t.dtype == torch.bfloat16 for t in matrices)
    assert cast.embedding is model.embedding and model.head.dtype == torch.float32
    assert all(t.dtype == torch.float32 for layer in model.layers for t in layer)


def test_reduced_logprobs_are_near_the_exact_ones(make_model):
    model = make_model(torch.float32)
    exact = generate(model, Generate(PROMPTS, 4, 1, seed=3))
    with precision.autocast(torch.device("cpu"), torch.bfloat16):
        reduced = generate(precision.for_sampling(model, torch.bfloat16), Generate(PROMPTS, 4, 1, seed=3))
    pairs = [
        (ours[0], theirs[0]) for ours, theirs, a, b in zip(exact.logprobs, reduced.logprobs, exact.tokens, reduced.tokens) if a == b
    ]
    assert len(pairs) >= 10
    assert all(theirs == pytest.approx(ours, abs=0.1) for ours, theirs in pairs)


def test_without_a_reduced_dtype_nothing_is_copied(model):
    assert precision.for_sampling(model, None) is model
    with precision.autocast(torch.device("cpu"), None):
        assert not torch.is_autocast_cpu_enabled()


def test_the_switch_of_tf32(monkeypatch):
    before = torch.get_float32_matmul_precision()
    try:
        precision.set_matmul("tf32")
        assert torch.get_float32_matmul_precision() == "high" and torch.backends.cuda.matmul.allow_tf32
        for exact in ("fp32", "bf16", "fp16", "float64"):
            precision.set_matmul(exact)
            assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("major, refused", [(7, True), (8, False), (9, False)])
def test_bf16_is_refused_where_it_would_be_emulated(monkeypatch, major, refused):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    device = torch.device("cuda", 0)
    precision.check("tf32", device)
    precision.check("bf16", torch.device("cpu"))
    if refused:
        with pytest.raises(EngineError, match="Tesla T4. Try: precision tf32"):
            precision.check("bf16", device)
    else:
        precision.check("bf16", device)
