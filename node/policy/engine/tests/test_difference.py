"""The difference between the update's log-probabilities and the sampling ones: a figure that does not
affect the step.
"""

from dataclasses import replace

import pytest
import reference
import torch
from engine import batch as batching
from engine.adam import Adam
from engine.generate import generate
from engine.protocol import Generate, Sequence
from engine.update import Trainer
from test_update import PROMPTS, batch, make_request


def update(model, request, **options):
    trainer = Trainer(model, Adam())
    return trainer.update(replace(request, **options), trainer.score(request) if options.get("beta") else None)


def figures(outcome):
    return outcome.sampling_logp_difference_max, outcome.sampling_logp_difference_mean, outcome.sampling_tokens


def with_sampled(sequences, rows, value=-2.5):
    return [replace(s, sampling_logprobs=[value] * len(s.completion)) if i in rows else s for i, s in enumerate(sequences)]


@pytest.mark.parametrize("positions", [448, 20])
@pytest.mark.parametrize("options", [dict(), dict(num_iterations=3, learning_rate=0.02), dict(beta=0.3)])
def test_figures_are_those_of_a_direct_computation(make_model, monkeypatch, positions, options):
    """Own rows are 0 to 4. Row 3 has no advantage, so that only a KL makes the update compute it.
    External rows have old_logprobs.
    """
    monkeypatch.setattr(batching, "POSITIONS", {"cpu": positions})
    own = range(5)
    sequences = [s if i in own else replace(s, old_logprobs=[-4.0] * len(s.completion)) for i, s in enumerate(batch())]
    request = make_request(with_sampled(sequences, own))
    model = make_model()
    weights, expected = reference.copy_weights(model), []
    for i in own:
        if sequences[i].advantage or options.get("beta"):
            with torch.no_grad():
                logp = reference.logprobs(weights, model.config, PROMPTS[sequences[i].prompt], sequences[i].completion, 0.9)
            expected.extend((logp + 2.5).abs().tolist())
    largest, mean, tokens = figures(update(model, request, **options))
    assert tokens == len(expected)
    assert largest == pytest.approx(max(expected), abs=1e-9)
    assert mean == pytest.approx(sum(expected) / len(expected), abs=1e-9)


def test_the_step_is_the_same_bits(make_model):
    """With and without the sampling log-probabilities: weights, loss and all other figures."""
    sequences = batch()
    options = dict(num_iterations=2, beta=0.1)
    plain, told = make_model(torch.float32), make_model(torch.float32)
    one = update(plain, make_request(sequences), **options)
    other = update(told, make_request(with_sampled(sequences, range(4))), **options)
    assert torch.equal(plain.flat, told.flat)
    assert figures(one) == (0.0, 0.0, 0) and figures(other)[0] > 0.1
    none = dict(sampling_logp_difference_max=0.0, sampling_logp_difference_mean=0.0, sampling_tokens=0)
    assert replace(other, **none) == one


def rollouts(model):
    sampled = generate(model, Generate(PROMPTS, 4, 12, temperature=0.9, top_k=5, eos_token_id=13, seed=3))
    pairs = zip(sampled.tokens, sampled.logprobs)
    return make_request([Sequence(i // 4, tokens, (-1.0) ** i, sampling_logprobs=logps) for i, (tokens, logps) in enumerate(pairs)])


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_sampler_with_the_trainer_s_weights_agrees(make_model, dtype, tolerance):
    model = make_model(dtype)
    request = rollouts(model)
    largest, mean, tokens = figures(update(model, request))
    assert 0 <= mean <= largest < tolerance
    assert tokens == sum(len(s.completion) for s in request.sequences)


def test_a_sampler_with_other_weights_is_seen(make_model):
    stale, model = make_model(), make_model()
    with torch.no_grad():
        model.flat.mul_(1.05)
    largest, mean, _ = figures(update(model, rollouts(stale)))
    assert largest > 0.05 and mean > 0.005


def test_a_shift_is_found_whole(model):
    request = rollouts(model)
    shifted = [replace(s, sampling_logprobs=[v - 0.25 for v in s.sampling_logprobs]) for s in request.sequences]
    assert figures(update(model, request, sequences=shifted))[:2] == pytest.approx((0.25, 0.25), abs=1e-9)


@pytest.mark.parametrize("options", [dict(), dict(num_iterations=2)])
def test_rows_that_are_not_computed_give_no_figures(model, options):
    zero = [i for i, s in enumerate(batch()) if not s.advantage]
    assert zero
    assert figures(update(model, make_request(with_sampled(batch(), zero)), **options)) == (0.0, 0.0, 0)
    nothing = make_request(with_sampled(batch(zero=True), range(10)))
    assert figures(update(model, nothing, **options)) == (0.0, 0.0, 0)
