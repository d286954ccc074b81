"""The update against the reference, gradients and weights after the step, and failures that change
nothing.
"""

import math
import random
from dataclasses import replace

import pytest
import reference
import torch
from engine import batch as batching
from engine import head
from engine import update as updating
from engine.adam import Adam
from engine.protocol import EngineError, Logprobs, Sequence, Update
from engine.update import Trainer

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [2, 2]]


def batch(seed=0, old=False, zero=False, advantages=None):
    """Ragged groups, truncated and terminated completions, EOS (13) inside prompts, one zero-advantage
    row in four.
    """
    rng = random.Random(seed)
    sequences = []
    for prompt, size in ((0, 3), (1, 2), (2, 4), (3, 1)):
        for i in range(size):
            tokens = [rng.choice([t for t in range(29) if t != 13]) for _ in range(rng.randint(1, 15))]
            if i % 2:
                tokens[-1] = 13
            advantage = 0.0 if zero or len(sequences) % 4 == 3 else rng.gauss(0, 1.5)
            given = [min(0.0, -3 + rng.gauss(0, 1)) for _ in tokens] if old and i != 1 else None
            sequences.append(Sequence(prompt, tokens, advantage, given))
    return sequences


def others(sequences):
    """The same, with the rows of the last two prompts from another policy, which found some of them
    likelier.
    """
    rng, external = random.Random(5), [s for s in sequences if s.prompt >= 2]
    assert len(external) == 5
    for s in sequences:
        s.old_logprobs = None
    for s, advantage, shift in zip(external, (-0.8, 0.5, -1.1, 1.2, 0.9), (2.0, None, -2.0, 1.0, -1.0)):
        s.external, s.advantage = True, advantage
        if shift is not None:  # a token's log-probability is about -3.4 here
            s.old_logprobs = [min(0.0, -3.4 + shift + rng.gauss(0, 0.3)) for _ in s.completion]
    return sequences


def make_request(sequences, **options):
    values = dict(temperature=0.9, learning_rate=0.003, max_completion_length=15)
    return Update(PROMPTS, sequences, **dict(values, **options))


def run_engine(model, request, first=None, checkpointing=False, autocast=None, **adam):
    """One update. Returns (trainer, outcome, gradient before clipping of the last iteration)."""
    trainer = Trainer(model, Adam(**adam), checkpointing, autocast)
    kept = {}
    gradient = trainer._gradient

    def watched(*arguments):
        result = gradient(*arguments)
        kept.update({name: t.clone() for name, t in model.views(model.flat_grad).items()})
        return result

    trainer._gradient = watched
    outcome = trainer.update(request, trainer.score(request, first) if request.beta else None)
    return trainer, outcome, kept


CASES = {
    "bnpo": dict(),
    "grpo": dict(loss_type="grpo"),
    "dr_grpo": dict(loss_type="dr_grpo"),
    "micro-batch 1": dict(micro_batch=1),
    "micro-batch 3": dict(micro_batch=3, loss_type="grpo"),
    "clipped norm": dict(max_grad_norm=0.05),
    "old log-probabilities": dict(old=True),
    "old log-probabilities, bounded": dict(old=True, delta=1.5, seed=1),
    "iterations": dict(num_iterations=3, learning_rate=0.02),
    "iterations, old": dict(num_iterations=2, old=True, learning_rate=0.02),
    "kl": dict(beta=0.3),
    "kl, iterations, grpo": dict(beta=0.3, num_iterations=2, loss_type="grpo", micro_batch=4),
    "temperature 1": dict(temperature=1.0),
    "weight decay": dict(weight_decay=0.1),
    "gradient checkpointing": dict(checkpointing=True),
    "tapered": dict(correction="tapered", external=True),
    "tapered, iterations": dict(correction="tapered", external=True, num_iterations=3, learning_rate=0.02, micro_batch=2),
    "ftis": dict(correction="ftis", divergence=0.2, external=True),
    "ftis, iterations": dict(correction="ftis", divergence=0.2, external=True, num_iterations=3, learning_rate=0.02),
    "ftis, nothing dropped": dict(correction="ftis", divergence=1e9, external=True, loss_type="grpo"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_update_equals_the_reference(make_model, case, dtype, tolerance):
    options = dict(CASES[case])
    external = options.pop("external", False)
    sequences = batch(options.pop("seed", 0), old=options.pop("old", external))
    if external:
        sequences = others(sequences)
    checkpointing = options.pop("checkpointing", False)
    decay = options.pop("weight_decay", 0.0)
    request = make_request(sequences, **options)
    model, first = make_model(dtype), make_model(dtype, seed=2)
    weights, first_weights = reference.copy_weights(model), reference.copy_weights(first)
    # A large epsilon: otherwise Adam's first step is lr·sign(g), and rounding decides where a gradient is
    # nearly zero.
    kind = torch.optim.AdamW if decay else torch.optim.Adam
    optimizer = kind(weights.values(), lr=request.learning_rate, eps=1e-2, weight_decay=decay)
    loss, norm, gradients, metrics = reference.update(weights, model.config, request, optimizer, first_weights)

    _, outcome, ours = run_engine(model, request, first, checkpointing, epsilon=1e-2, weight_decay=decay)
    assert abs(outcome.loss - loss) < tolerance
    assert abs(outcome.grad_norm - norm) < tolerance * max(1, norm)
    assert abs(outcome.kl - metrics["kl"]) < tolerance * max(1, metrics["kl"])
    assert (outcome.clip_ratio_low, outcome.clip_ratio_high) == pytest.approx((metrics["low"], metrics["high"]), abs=1e-12)
    assert outcome.steps == request.num_iterations
    for name, tensor in model.tensors.items():
        assert (ours[name] - gradients[name]).abs().max() < tolerance, name
        assert (tensor - weights[name]).abs().max() < tolerance, name
    if request.delta:
        unbounded = reference.update(
            reference.copy_weights(make_model(dtype)), model.config, replace(request, delta=0.0), optimizer, first_weights
        )
        assert abs(unbounded[0] - loss) > 0.01  # otherwise the case does not test the bound
    if case.startswith("iterations"):
        assert metrics["low"] + metrics["high"] > 0  # otherwise the case does not test clipping


def test_entropy_and_mean_logprob_are_those_before_the_step(model):
    request = make_request(batch(), num_iterations=2)
    weights = reference.copy_weights(model)
    entropies, logps = [], []
    for s in request.sequences:
        if s.advantage:
            with torch.no_grad():
                logp = reference.distribution(weights, model.config, PROMPTS[s.prompt], s.completion, 0.9)
            entropies.extend((-(logp.exp() * logp).sum(-1)).tolist())
            logps.extend(logp[range(len(s.completion)), s.completion].tolist())
    _, outcome, _ = run_engine(model, request)
    assert outcome.entropy == pytest.approx(sum(entropies) / len(entropies), abs=1e-9)
    assert outcome.mean_logprob == pytest.approx(sum(logps) / len(logps), abs=1e-9)
    computed = [s for s in request.sequences if s.advantage]
    assert outcome.computed_sequences == len(computed)
    assert outcome.tokens == sum(len(PROMPTS[s.prompt]) + len(s.completion) - 1 for s in computed)


def test_chunks_of_the_head_change_nothing(make_model, monkeypatch):
    whole, pieces = make_model(), make_model()
    request = make_request(batch())
    run_engine(whole, request)
    monkeypatch.setattr(head, "CHUNK", {"cpu": 29 * 7})
    monkeypatch.setattr(head, "BLOCK", {"cpu": 29 * 3})
    monkeypatch.setattr(batching, "POSITIONS", {"cpu": 40})
    run_engine(pieces, request)
    assert (whole.flat - pieces.flat).abs().max() < 1e-9


def test_all_zero_advantages_take_no_step(model):
    before = model.flat.clone()
    trainer, outcome, _ = run_engine(model, make_request(batch(zero=True)))
    assert (outcome.steps, outcome.computed_sequences, outcome.tokens) == (0, 0, 0)
    assert torch.equal(model.flat, before) and trainer.adam.step_count == 0
    _, outcome, _ = run_engine(model, make_request([]))
    assert outcome.steps == 0
    _, outcome, _ = run_engine(model, make_request(batch(zero=True), beta=0.1), first=model)
    assert outcome.steps == 1


def test_zero_rows_stay_in_the_denominator(make_model):
    """Rows with zero advantage still count in the denominator: twice the tokens, half the loss."""
    rows = [Sequence(0, [1, 2, 3], 1.0), Sequence(0, [4, 5, 6], 0.0)]
    _, with_zero, _ = run_engine(make_model(), make_request(rows))
    _, alone, _ = run_engine(make_model(), make_request(rows[:1]))
    assert with_zero.loss == pytest.approx(alone.loss / 2)
    assert with_zero.grad_norm == pytest.approx(alone.grad_norm / 2)


def test_same_request_same_bits(make_model):
    results = []
    for _ in range(2):
        model = make_model(torch.float32)
        run_engine(model, make_request(batch(), micro_batch=4))
        results.append(model.flat.clone())
    assert torch.equal(*results)


@pytest.mark.parametrize("iterations", [1, 3])
def test_running_out_of_memory_changes_nothing(model, monkeypatch, iterations):
    monkeypatch.setattr(batching, "POSITIONS", {"cpu": 1})  # one row per pass
    passes = sum(1 for sequence in batch() if sequence.advantage)
    trainer = Trainer(model, Adam())
    trainer.update(make_request(batch()))
    before = [t.clone() for t in (model.flat, trainer.adam.exp_avg, trainer.adam.exp_avg_sq)]
    calls, score = [], updating.score_targets

    def failing(*arguments):
        calls.append(None)
        if len(calls) == passes * iterations - 1:  # in the last iteration, after most micro-batches
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return score(*arguments)

    monkeypatch.setattr(updating, "score_targets", failing)
    with pytest.raises(RuntimeError):
        trainer.update(make_request(batch(), num_iterations=iterations))
    assert len(calls) == passes * iterations - 1
    after = (model.flat, trainer.adam.exp_avg, trainer.adam.exp_avg_sq)
    assert all(torch.equal(a, b) for a, b in zip(after, before))
    assert trainer.adam.step_count == 1 and model.flat_grad is None


def test_a_gradient_that_is_not_finite_is_refused(model):
    trainer = Trainer(model, Adam())
    before = model.flat.clone()
    with pytest.raises(EngineError, match="not finite") as refused:
        trainer.update(make_request([Sequence(0, [1], 1e308), Sequence(0, [2], -1e308)], loss_type="dr_grpo", temperature=1e-6))
    assert refused.value.kind == "not_finite"
    assert torch.equal(model.flat, before) and trainer.adam.step_count == 0


def test_scoring_equals_the_reference(model):
    weights = reference.copy_weights(model)
    request = Logprobs(PROMPTS, batch(), temperature=0.7, micro_batch=3)
    for sequence, row in zip(request.sequences, Trainer(model, Adam()).score(request)):
        expected = reference.logprobs(weights, model.config, PROMPTS[sequence.prompt], sequence.completion, 0.7)
        assert (row - expected).abs().max() < 1e-9


def test_reduced_precision_runs_and_comes_close(make_model):
    """bfloat16 autocast on the CPU in place of the GPU's: dtypes must fit and results be close."""
    exact, reduced = make_model(torch.float32), make_model(torch.float32)
    request = make_request(batch())
    _, expected, _ = run_engine(exact, request)
    outcome = Trainer(reduced, Adam(), autocast=torch.bfloat16).update(request)
    assert outcome.loss == pytest.approx(expected.loss, abs=0.05)
    assert outcome.grad_norm == pytest.approx(expected.grad_norm, rel=0.1)
    assert math.isfinite(float(reduced.flat.sum()))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_torchs(decay):
    generator = torch.Generator().manual_seed(4)
    ours = torch.randn(70_000, generator=generator)
    theirs = ours.clone().requires_grad_(True)
    adam = Adam(0.8, 0.95, 1e-6, decay)
    adam.prepare(ours)
    optimizer = (torch.optim.AdamW if decay else torch.optim.Adam)([theirs], 0.01, (0.8, 0.95), 1e-6, decay)
    for _ in range(5):
        gradient = torch.randn(70_000, generator=generator)
        theirs.grad = gradient.clone()
        optimizer.step()
        adam.step(ours, gradient, 0.01)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


def test_gradient_norm_keeps_its_digits():
    assert updating.gradient_norm(torch.full((3_000_000,), 1e-3)) == pytest.approx(math.sqrt(3_000_000) * 1e-3, rel=1e-5)


@pytest.mark.parametrize("correction", ["", "tapered", "ftis"])
def test_what_others_tokens_count_is_reported(make_model, correction):
    sequences = others(batch(old=True))
    request = make_request(sequences, correction=correction, divergence=0.2, epsilon=0.2, delta=0.0 if correction else 4.0)
    model = make_model()
    weights = reference.copy_weights(model)
    counted, limited, dropped = [], 0, 0
    for s in sequences:
        if not s.external or not s.old_logprobs or not s.advantage:
            continue
        with torch.no_grad():
            logp = reference.logprobs(weights, model.config, PROMPTS[s.prompt], s.completion, 0.9)
        ratio = (logp - torch.tensor(s.old_logprobs, dtype=logp.dtype)).exp()
        if not correction:
            weight = torch.where((ratio < 0.8) | (ratio > 4) if s.advantage < 0 else ratio > 1.28, 0 * ratio, ratio)
            limited += int((weight == 0).sum())
        else:
            weight = reference.importance(request, s, logp)
            whole = s.advantage < 0 and float(ratio.log().sum()) > 0.01
            limited += len(ratio) * whole if correction == "tapered" else int((ratio > 2).sum())
            dropped += correction == "ftis" and float(weight.abs().sum()) == 0
        counted.extend(weight.tolist())
    _, outcome, _ = run_engine(model, request)
    assert outcome.external_tokens == len(counted) > 20
    assert outcome.external_dropped == dropped and (dropped > 0) == (correction == "ftis")
    assert outcome.external_clip_ratio == pytest.approx(limited / len(counted), abs=1e-12) and limited > 0
    expected = sum(counted) ** 2 / len(counted) / sum(w * w for w in counted)
    assert outcome.external_ess == pytest.approx(expected, abs=1e-9) and expected < 0.99


@pytest.mark.parametrize("correction", ["tapered", "ftis"])
def test_a_correction_changes_nothing_of_ones_own(make_model, correction):
    for external in (False, True):  # external rows without a probability count as own ones
        plain, corrected = make_model(), make_model()
        sequences = [replace(s, external=external, old_logprobs=None) for s in batch()]
        run_engine(plain, make_request(sequences))
        _, outcome, _ = run_engine(corrected, make_request(sequences, correction=correction, divergence=0.1))
        assert torch.equal(plain.flat, corrected.flat)
        assert (outcome.external_tokens, outcome.external_dropped, outcome.external_ess) == (0, 0, 0.0)


def test_tapered_raises_a_right_answer_that_importance_mutes(make_model):
    """All but impossible here, certain for its own policy: a positive advantage has weight 1 under
    tapered, nearly 0 as a ratio.
    """
    norms = {}
    for name, advantage in (("right", 1.0), ("wrong", -1.0)):
        for correction in ("", "tapered"):
            sequence = Sequence(1, [4, 4, 4], advantage, [-1e-6] * 3, external=True)
            _, outcome, _ = run_engine(make_model(), make_request([sequence], correction=correction, epsilon_high=9.0))
            norms[name, correction] = outcome.grad_norm
    assert norms["right", "tapered"] > 5 * norms["right", ""] > 0
    assert norms["wrong", "tapered"] < norms["right", "tapered"] / 100
