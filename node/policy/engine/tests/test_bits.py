"""On a CPU neither memory settings nor a second thread change a bit, so that a repeated computation gives
the same result.

The claims are about this machine's BLAS, as are the program's. The shapes are those at which it changes
kernels.
"""

import random
from dataclasses import replace

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import session
from engine.adam import Adam
from engine.generate import ExactSteps, generate
from engine.model import layer_norm
from engine.protocol import Generate, Logprobs, Sequence, Update
from engine.update import Trainer

# Widths below and above a multiple of a vector. In the second, the feed-forward layer sums over more than
# one block of OpenBLAS.
NARROW = replace(CONFIG, vocab_size=257, context_length=256)
WIDE = replace(NARROW, width=128, inner=512)
SHAPES = {
    "narrow": NARROW,
    "odd": replace(NARROW, width=48, inner=192),
    "wide": WIDE,
    "wider": replace(NARROW, width=192, inner=768),
    "qwen2": replace(QWEN2, vocab_size=257, context_length=256),
    "qwen3": replace(QWEN3, vocab_size=257, context_length=256),
    "llama": replace(LLAMA3, vocab_size=257, context_length=256),
}


def avx512():
    """Whether products use OpenBLAS's AVX-512 kernels.

    The AVX2 kernels (Haswell, Zen) round a row by its place among twelve and by the remainder, and sum by
    threads. MKL, in PyPI's builds, rounds by the number of rows.
    """
    return session.blas() in ("openblas SkylakeX", "openblas Cooperlake", "openblas SapphireRapids")


def assert_same(one, other, said=""):
    """The same completions: bit for bit if the kernels allow it, else to the last digits."""
    assert one.tokens == other.tokens, said
    if avx512():
        assert (one.logprobs, one.entropy) == (other.logprobs, other.entropy), said
        return
    for a, b in zip(one.logprobs, other.logprobs):
        assert a == pytest.approx(b, abs=1e-4), said


def prompts(count, rng):
    return [[rng.randrange(257) for _ in range(rng.randint(3, 90))] for _ in range(count)]


def update_request(micro_batch=0):
    rng = random.Random(5)
    given = prompts(4, rng)
    rows = [Sequence(i // 6, [rng.randrange(257) for _ in range(rng.randint(1, 40))], rng.choice((-1.0, 0.5, 1.0))) for i in range(24)]
    return Update(given, rows, learning_rate=0.01, micro_batch=micro_batch, max_grad_norm=1.0)


def updated(model, request, checkpointing=False):
    trainer = Trainer(model, Adam(), checkpointing)
    outcomes = [trainer.update(request) for _ in range(2)]
    return model.flat.detach().clone(), outcomes


@pytest.mark.parametrize("shape", SHAPES)
def test_an_update_has_the_same_bits_with_every_micro_batch_and_with_gradient_checkpointing(make_model, shape):
    weights, outcomes = updated(make_model(torch.float32, SHAPES[shape]), update_request())
    for options in (dict(micro_batch=1), dict(micro_batch=5), dict(micro_batch=16), dict(checkpointing=True)):
        checkpointing = options.pop("checkpointing", False)
        again, told = updated(make_model(torch.float32, SHAPES[shape]), update_request(**options), checkpointing)
        assert torch.equal(again, weights) and told == outcomes, options


def test_scores_have_the_same_bits_with_every_micro_batch(make_model):
    trainer, request = Trainer(make_model(torch.float32, WIDE), Adam()), update_request()
    scored = [trainer.score(Logprobs(request.prompts, request.sequences, micro_batch=size)) for size in (0, 1, 7)]
    for others in scored[1:]:
        assert all(torch.equal(one, other) for one, other in zip(scored[0], others))


def generate_request(model, **options):
    """30 completions, some of which end long before others, because the end token is one that the model
    does draw.
    """
    request = Generate(prompts(5, random.Random(6)), 6, 24, temperature=0.9, seed=3)
    drawn = [tokens[5] for tokens in generate(model, request).tokens]
    return replace(request, eos_token_id=max(drawn, key=drawn.count), **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_completions_have_the_same_bits_however_many_are_decoded_at_a_time(make_model, shape):
    model = make_model(torch.float32, SHAPES[shape])
    whole = generate(model, generate_request(model))
    assert len({len(tokens) for tokens in whole.tokens}) > 1, "no row ends before another: nothing is dropped"
    for size in (1, 2, 5, 6, 13, 24):
        assert_same(generate(model, generate_request(model, micro_batch=size)), whole, size)


@pytest.mark.parametrize("shape, count, sizes", [("wide", 20, (15, 8, 4)), ("wider", 8, (6, 3))])
def test_completions_have_the_same_bits_however_many_prompts_are_decoded_at_a_time(make_model, shape, count, sizes):
    model = make_model(torch.float32, SHAPES[shape])
    request = Generate(prompts(count, random.Random(6)), 1, 3, temperature=0.9, seed=3)
    whole = generate(model, request)
    for size in sizes:
        assert_same(generate(model, replace(request, micro_batch=size)), whole, size)


def test_completions_have_the_same_bits_whether_rows_that_ended_are_dropped(make_model, monkeypatch):
    model, results = make_model(torch.float32, WIDE), []
    for below in (0.0, 1.0):
        monkeypatch.setattr(ExactSteps, "compact_below", below)
        results.append(generate(model, generate_request(model)))
    assert_same(*results)


@pytest.mark.skipif(not avx512(), reason="other kernels sum by threads at every size (batch.py)")
def test_one_thread_and_two_give_the_same_bits(make_model):
    """Only two threads, because more split elementwise work at places that are not a multiple of a
    vector.
    """
    results = []
    for threads in (1, 2):
        session.set_threads(threads)
        try:
            weights, outcomes = updated(make_model(torch.float32, WIDE), update_request())
            model = make_model(torch.float32, WIDE)
            results.append((weights, outcomes, generate(model, generate_request(model))))
        finally:
            session.set_threads(1)
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]


def test_the_layer_norm_has_torchs_gradients():
    generator = torch.Generator().manual_seed(2)
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((7, 12), (12,), (12,))]
    results = []
    for norm in (lambda x, w, b: layer_norm(x, w, b, 1e-5), lambda x, w, b: torch.nn.functional.layer_norm(x, (12,), w, b, 1e-5)):
        leaves = [value.clone().requires_grad_(True) for value in values]
        y = norm(*leaves)
        (y * torch.arange(84, dtype=torch.float64).view(7, 12)).sum().backward()
        results.append([y.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*results):
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)
