"""The engine's CUDA code on CPU tensors: the numbers equal those of the CPU code and of the reference.

`model.kind` selects micro-batches, layout, products and chunks of the head. Here a whole call goes through
all of them. test_cuda.py tests a card's kernels, and test_fake_cuda.py devices and dtypes.
"""

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import batch, head
from engine.adam import Adam
from engine.generate import Static, generate
from engine.protocol import Generate, Logprobs, Sequence, Update
from engine.update import Trainer

BOTH = pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2]]
ROWS = [
    Sequence(0, [4, 5, 13], 1.0), Sequence(0, [4], -1.0, [-0.5]), Sequence(0, [9, 9, 9, 9, 9], 0.0), Sequence(1, [6, 7], -1.0),
    Sequence(1, [6, 8], 0.5), Sequence(2, [1, 2, 3, 4, 5, 6], 0.25), Sequence(2, [1], -0.75),
]  # fmt: skip


def make(make_model, config, kind, dtype=torch.float64):
    model = make_model(dtype, config)
    model.kind = kind
    return model


@BOTH
@pytest.mark.parametrize("options", [{}, dict(micro_batch=2), dict(micro_batch=3, temperature=0.7), dict(beta=0.1, delta=1.5, num_iterations=2)], ids=str)
@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "checkpointing"])
def test_an_update_makes_the_same_step(make_model, config, options, checkpointing):
    """It also reports the same figures."""
    request = Update(PROMPTS, ROWS, **dict(dict(learning_rate=0.01, max_grad_norm=0.5), **options))
    results = []
    for kind in ("cpu", "cuda"):
        trainer = Trainer(make(make_model, config, kind), Adam(epsilon=1e-3), checkpointing)
        reference = trainer.score(Logprobs(PROMPTS, ROWS, request.temperature)) if request.beta else None
        results.append((trainer.update(request, reference), trainer.model.flat.detach().clone()))
    (ours, weights), (theirs, expected) = results
    assert torch.allclose(weights, expected, rtol=0, atol=1e-9) and not torch.equal(weights, make(make_model, config, "cpu").flat)
    for name, value in vars(theirs).items():
        assert getattr(ours, name) == pytest.approx(value, rel=1e-9, abs=1e-12), name


@BOTH
@pytest.mark.parametrize("chunk, block", [(1 << 25, 1 << 25), (5 * 29, 2 * 29), (29, 29), (1, 1)])
def test_the_chunks_of_the_head_change_no_number(make_model, monkeypatch, config, chunk, block):
    monkeypatch.setitem(head.CHUNK, "cuda", chunk)
    monkeypatch.setitem(head.BLOCK, "cuda", block)
    scores, gradients = [], []
    for kind in ("cpu", "cuda"):
        model = make(make_model, config, kind)
        scores.append(torch.cat(Trainer(model, Adam()).score(Logprobs(PROMPTS, ROWS, 0.7))))
        targets, h = torch.arange(9), torch.randn(9, config.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        model.make_gradients()
        gradients.append(head.score_targets(model, h, targets, 0.7, lambda low, high, logp: logp * 0.1)[2])
        gradients.append(model.head.grad.clone())
    assert torch.allclose(*scores, rtol=0, atol=1e-10)
    assert torch.allclose(gradients[0], gradients[2], rtol=0, atol=1e-10) and torch.allclose(gradients[1], gradients[3], rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", [1, 9, 30, 8192])
@pytest.mark.parametrize("micro_batch", [0, 1, 3])
def test_how_passes_are_packed_changes_no_score(make_model, monkeypatch, positions, micro_batch):
    monkeypatch.setitem(batch.POSITIONS, "cuda", positions)
    expected = Trainer(make(make_model, CONFIG, "cpu"), Adam()).score(Logprobs(PROMPTS, ROWS))
    model = make(make_model, CONFIG, "cuda")
    passes = batch.micro_batches(Logprobs(PROMPTS, ROWS, micro_batch=micro_batch), range(len(ROWS)), model)
    assert sorted(row for one in passes for row in one.rows) == list(range(len(ROWS)))
    assert all(len(one.rows) <= (micro_batch or len(ROWS)) for one in passes) and (positions > 1 or len(passes) == len(ROWS))
    found = Trainer(model, Adam()).score(Logprobs(PROMPTS, ROWS, micro_batch=micro_batch))
    for ours, theirs in zip(found, expected):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)


@BOTH
@pytest.mark.parametrize("limit", [1, 2, 40])
def test_what_is_sampled_is_what_is_scored(make_model, config, limit):
    """The log-probabilities of static steps equal those of a pass over the same tokens, up to the end of
    the context.
    """
    model = make(make_model, config, "cuda")
    made = generate(model, Generate(PROMPTS, 4, limit, eos_token_id=-1, seed=3), Static())
    rows = [Sequence(i // 4, tokens) for i, tokens in enumerate(made.tokens)]
    assert any(len(row.completion) == min(limit, config.context_length - 1) for row in rows)
    for ours, theirs in zip(made.logprobs, Trainer(model, Adam()).score(Logprobs(PROMPTS, rows))):
        assert torch.allclose(torch.tensor(ours, dtype=torch.float64), theirs, rtol=0, atol=1e-9)


@BOTH
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_bfloat16_scores_and_updates_are_near_single_precisions(make_model, monkeypatch, config, kind):
    """Through autocast on the CPU: the same casts as on a card, with other kernels."""
    enabled = torch.is_autocast_cpu_enabled
    # Without a device argument, torch answers for CUDA.
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: enabled())
    if kind == "cuda" and tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 0):
        pytest.skip("torch 1.13 has no SDPA to take bfloat16 on a CPU")
    request, scores, norms, steps = Update(PROMPTS, ROWS, learning_rate=0.01), [], [], []
    for dtype in (None, torch.bfloat16):
        trainer = Trainer(make(make_model, config, kind, torch.float32), Adam(epsilon=1e-3), False, dtype)
        begin = trainer.model.flat.detach().clone()
        scores.append(torch.cat(trainer.score(Logprobs(PROMPTS, ROWS))))
        norms.append(trainer.update(request).grad_norm)
        steps.append(trainer.model.flat.detach() - begin)
        assert scores[-1].dtype == steps[-1].dtype == trainer.adam.exp_avg.dtype == torch.float32
    difference = (scores[0] - scores[1]).abs()
    assert 0 < difference.max() < 0.3 and difference.mean() < 0.06
    assert norms[1] == pytest.approx(norms[0], rel=0.05)
    assert torch.nn.functional.cosine_similarity(*steps, dim=0) > 0.98
