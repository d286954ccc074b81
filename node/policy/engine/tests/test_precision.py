"""Reduced precision through the same code on the CPU, with the CPU's bfloat16 autocast in place of the
GPU's.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import precision, static
from engine.adam import Adam
from engine.generate import Static, generate
from engine.protocol import EngineError, Generate
from engine.session import Session
from engine.static import StaticDecoder
from engine.update import Trainer
from torch.utils._python_dispatch import TorchDispatchMode

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2]]


def request(**options):
    return Generate(PROMPTS, 4, **dict(dict(max_new_tokens=12, temperature=0.8, eos_token_id=13, seed=11), **options))


@pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
def test_matrices_cast_once_give_what_autocast_gives(make_model, config):
    model = make_model(torch.float32, config)
    reduced = precision.Reduced(model, torch.bfloat16).refresh()
    with precision.autocast(torch.device("cpu"), torch.bfloat16):
        expected = generate(model, request())
    cast = generate(reduced, request())
    assert cast.tokens == expected.tokens
    assert all(a == pytest.approx(b, abs=0.02) for a, b in zip(sum(cast.logprobs, []), sum(expected.logprobs, [])))
    assert generate(reduced, request(), Static()).tokens
    cast = [(name, t) for layer in reduced.layers for name, t in zip(layer._fields, layer) if t is not None] + [("head", reduced.head)]
    assert all(t.dtype == (torch.float32 if "norm" in name else torch.bfloat16) for name, t in cast)
    assert reduced.embedding is model.embedding and model.head.dtype == torch.float32
    assert all(t.dtype == torch.float32 for layer in model.layers for t in layer if t is not None)


def test_the_copy_follows_the_weights_at_the_same_address(make_model):
    model = make_model(torch.float32)
    copied = precision.Reduced(model, torch.bfloat16)
    first = copied.refresh().layers[1].up_weight
    model.flat.data.mul_(2)
    second = copied.refresh().layers[1].up_weight
    assert second.data_ptr() == first.data_ptr()
    assert torch.equal(second, model.layers[1].up_weight.detach().to(torch.bfloat16))


def test_a_step_of_a_reduced_model_casts_what_enters_products_and_nothing_else(make_model):
    """Four casts per layer, before the first, second and third product and before attention, one before the
    head, and one of the logits.
    """
    model = make_model(torch.float32)
    reduced, casts = precision.Reduced(model, torch.bfloat16).refresh(), []

    class Casts(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if function.__name__.split(".")[0] in ("to", "_to_copy") and result.dtype != args[0].dtype:
                casts.append(result.shape)
            return result

    step = StaticDecoder.step
    with pytest.MonkeyPatch.context() as patch:
        def counted(self, window):
            with Casts():
                step(self, window)

        patch.setattr(StaticDecoder, "step", counted)
        generate(reduced, request(eos_token_id=-1, max_new_tokens=2), Static())
    assert len(casts) == 4 * len(model.layers) + 2


@pytest.mark.parametrize("config", [CONFIG, QWEN2], ids=["gpt2", "qwen2"])
def test_attention_of_a_reduced_model_keeps_differences_between_large_scores(make_model, config):
    """Queries and keys have a large common part, as Qwen2.5's biases give them: scores near 3000 that differ by
    about 10.
    """
    generator = torch.Generator().manual_seed(1)
    reduced = precision.Reduced(make_model(torch.float32, config), torch.bfloat16).refresh()
    prompts, steps, heads, kv, h = [[1, 2, 3, 4]], 4, config.heads, config.kv_heads, config.head_size
    shape = static.Shape(1, 2, 4, steps, 1.0, 0, 1.0)
    decoder = StaticDecoder(reduced, shape, Generate(prompts, 2, steps))
    decoder._mask.zero_()
    common = 20 + torch.arange(h) % 3

    def drawn(*size):
        return (common + torch.randn(*size, h, generator=generator)).bfloat16()

    q, prompt_keys, own_keys = drawn(2, heads), drawn(kv, 4), drawn(2, kv)
    prompt_values, own_values = torch.randn(kv, 4, h, generator=generator).bfloat16(), torch.randn(2, kv, h, generator=generator).bfloat16()
    decoder._prompt_keys[0].copy_(prompt_keys)
    decoder._prompt_values[0].copy_(prompt_values)
    decoder._mask[:, 5:] = -math.inf
    y = decoder._attend(0, 3, decoder._mask[:, :7], torch.cat((q, own_keys, own_values), 1))
    for row in range(2):
        for head in range(heads):
            at = head * kv // heads
            keys = torch.cat((prompt_keys[at], own_keys[row, at : at + 1])).double()
            values = torch.cat((prompt_values[at], own_values[row, at : at + 1])).double()
            expected = (keys @ q[row, head].double() / h**0.5).softmax(0) @ values
            assert torch.allclose(y[row].view(heads, h)[head].double(), expected, atol=0.02)


def test_the_reduced_copy_is_kept_only_beside_graphs(make_model):
    session, trainer = Session(), SimpleNamespace(model=make_model(torch.float32), autocast=torch.bfloat16)
    for keeps in (False, True):
        session._static = Static()
        session._static.keeps = keeps  # as with graphs
        assert session._sample(trainer, request()).tokens
        assert (session._reduced is not None) == keeps


def test_reduced_logprobs_are_near_the_exact_ones(make_model):
    model = make_model(torch.float32)
    options = dict(max_new_tokens=1, temperature=1.0, eos_token_id=-1, seed=3)
    exact, reduced = (
        generate(each, request(**options)) for each in (model, precision.Reduced(model, torch.bfloat16).refresh())
    )
    pairs = [
        (ours[0], theirs[0]) for ours, theirs, a, b in zip(exact.logprobs, reduced.logprobs, exact.tokens, reduced.tokens) if a == b
    ]
    assert len(pairs) >= 10
    assert all(theirs == pytest.approx(ours, abs=0.1) for ours, theirs in pairs)


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
        with pytest.raises(EngineError, match="Tesla T4. Try: precision tf32") as caught:
            precision.check("bf16", device)
        assert caught.value.kind == "bad_request", "the node must not be restarted for it"
    else:
        precision.check("bf16", device)


CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize("difference", [0.0, 1e-3, 0.05])
def test_a_self_test_within_rounding_passes(difference):
    assert precision.judge(difference, None, "tf32", CUDA, True) == 0.05


@pytest.mark.parametrize(
    "torch_version, name, device, graphs, remedies",
    [
        ("2.1.2+cu121", "tf32", CUDA, True, "torch 2.2 or newer or precision fp32 or cuda_graphs false"),
        ("1.13.1", "fp32", CPU, False, "torch 2.2 or newer"),
        ("2.15.0+cu132", "fp32", CUDA, False, "another version of torch"),
        ("2.15.0+cu132", "fp32", CUDA, True, "another version of torch or cuda_graphs false"),
        ("2.15.0+cpu", "bf16", CPU, False, "another version of torch"),
    ],
)
def test_a_self_test_beyond_rounding_fails_and_says_what_helps(monkeypatch, torch_version, name, device, graphs, remedies):
    monkeypatch.setattr(torch, "__version__", torch_version)
    with pytest.raises(EngineError) as caught:
        precision.judge(0.31416, None, name, device, graphs)
    assert caught.value.kind == "self_test" and str(caught.value) == (
        "the self-test failed: log-probabilities of the same tokens differ between sampling and training by up to 0.314 nats, "
        f"where 0.05 is the limit (torch {torch_version}, {device}, precision {name}, CUDA graphs {'on' if graphs else 'off'}). "
        f"Try: {remedies}"
    )


@pytest.mark.parametrize("dtype, limit", [(torch.bfloat16, 0.5), (torch.float16, 0.1)])
def test_reduced_precision_has_a_wider_limit_and_never_fails_for_a_number(dtype, limit):
    for difference in (1e-3, limit, 9.0):
        assert precision.judge(difference, dtype, "bf16", CUDA, True) == limit


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("difference", [math.nan, math.inf])
def test_a_self_test_that_is_not_finite_fails_in_every_precision(difference, dtype):
    with pytest.raises(EngineError, match="differ between sampling and training and are not finite .*Try: .* precision fp32"):
        precision.judge(difference, dtype, "fp16", CUDA, False)


def test_one_nan_among_the_self_tests_differences_is_found(make_model, monkeypatch):
    model = make_model(torch.float32)
    scored = Trainer.score

    def broken(self, request, model=None):
        rows = scored(self, request, model)
        rows[1][2] = math.nan
        return rows

    monkeypatch.setattr(Trainer, "score", broken)
    assert math.isnan(Session()._self_test(Trainer(model, Adam())))


def test_cudnns_attention_is_switched_off_where_torch_has_it(monkeypatch):
    switched = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", switched.append, raising=False)
    precision.avoid_cudnn_attention()
    assert switched == [False]
    monkeypatch.delattr(torch.backends.cuda, "enable_cudnn_sdp")
    precision.avoid_cudnn_attention()
