"""Prompts shared by their completions in a pass: the results, and the packing of rows into passes."""

import random

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import batch as batching
from engine.adam import Adam
from engine.grid import Grid
from engine.layout import Layout
from engine.model import causal_mask
from engine.protocol import Logprobs, Sequence
from engine.update import Trainer


def hidden_of(model, ids, layout):
    with torch.no_grad():
        return model.hidden(model.embed(torch.tensor(ids), layout.positions), layout)


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_rows_that_share_a_prefix_are_as_each_is_alone(model, prefix):
    before, rows = [7, 3, 9, 1, 4][:prefix], [[5, 6, 2], [8], [2, 2, 2, 11]]
    mask = causal_mask(16, model.flat)
    lengths = [len(row) for row in rows]
    together = hidden_of(model, before + sum(rows, []) + [1, 2], Layout([(prefix, lengths), (1, [1])], model, mask))
    parts = together.split([*lengths, 1])
    for row, part in zip(rows, parts):
        alone = hidden_of(model, before + row, Layout([(0, [prefix + len(row)])], model, mask))
        assert (part - alone[prefix:]).abs().max() < 1e-12


def test_a_row_is_deaf_to_the_other_rows(model):
    mask, results = causal_mask(16, model.flat), []
    for other in ([5, 6, 7], [1, 2, 3]):
        results.append(hidden_of(model, [4, 9, 2, 3, *other], Layout([(2, [2, 3])], model, mask))[:2])
    assert torch.equal(*results)


@pytest.mark.parametrize("seed", range(30))
def test_passes_hold_every_row_once_and_keep_their_bounds(seed):
    rng = random.Random(seed)
    prompts = [[1] * rng.randint(1, 60) for _ in range(rng.randint(1, 6))]
    rows = [Sequence(rng.randrange(len(prompts)), [2] * rng.randint(1, 40)) for _ in range(rng.randint(1, 40))]
    request = Logprobs(prompts, rows)
    room, most, cuda = rng.choice((30, 90, 400)), rng.choice((1, 3, 8, 40)), rng.random() < 0.5
    parts = [part for group in batching._by_prompt(request, range(len(rows))) for part in batching._cut(request, group, room, most, cuda)]
    passes = batching._packed(request, parts, room, most, cuda)
    assert sorted(row for chosen in passes for part in chosen for row in part) == list(range(len(rows)))
    for chosen in passes:
        cost = batching._cost(request, chosen, cuda)
        count = sum(map(len, chosen))
        assert count <= most and (cost <= room or count == 1)
        assert all(len({rows[row].prompt for row in part}) == 1 for part in chosen)


def test_a_prompt_is_computed_once_a_pass(model):
    request = Logprobs([[3] * 10, [4] * 7], [Sequence(i % 2, [5] * 4) for i in range(8)])
    (batch,) = batching.micro_batches(request, range(8), model)
    assert len(batch.ids) == (10 - 1) + (7 - 1) + 8 * 4 and len(batch.layout.own) == 8 * 4


@pytest.mark.parametrize("room", [1, 23, 64])
def test_where_a_group_is_cut_changes_no_score(model, monkeypatch, room):
    rng = random.Random(1)
    request = Logprobs([[2, 7, 1, 8], [3] * 9], [Sequence(i % 2, [rng.randrange(29) for _ in range(1 + i)]) for i in range(9)])
    whole = Trainer(model, Adam()).score(request)
    monkeypatch.setattr(batching, "POSITIONS", {"cpu": room})
    cut = Trainer(model, Adam()).score(request)
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(whole, cut))


def on_cuda(model):
    """The model, with passes as on CUDA."""
    model.kind = "cuda"
    return model


@pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
@pytest.mark.parametrize(
    "groups",
    [
        [(0, [3])], [(5, [4])], [(5, [3, 1, 4])], [(5, [2, 2]), (5, [2, 2])], [(0, [2]), (4, [3, 1]), (7, [1])], [(1, [1]), (0, [1])],
    ],
)  # fmt: skip
def test_the_grid_of_a_device_gives_the_numbers_and_gradients_of_the_layout_of_a_cpu(make_model, config, groups):
    model, other = on_cuda(make_model(config=config)), make_model(config=config)
    rng = random.Random(3)
    tokens = sum(prefix + sum(lengths) for prefix, lengths in groups)
    ids = torch.tensor([rng.randrange(29) for _ in range(tokens)])

    def trained(model, layout):
        model.make_gradients()
        x = model.embed(ids, layout.positions).detach().requires_grad_(True)
        h = model.norm(model.hidden(x, layout))
        slope = torch.linspace(-1, 1, h.numel(), dtype=h.dtype).view(h.shape).sin()
        model.backward(h, slope, x)
        return h.detach(), x.grad

    results = trained(model, Grid(groups, model)), trained(other, Layout(groups, other, causal_mask(16, other.flat)))
    for ours, theirs in zip(*results):
        assert (ours - theirs).abs().max() < 1e-12
    assert (model.flat_grad - other.flat_grad).abs().max() < 1e-11 and model.flat_grad.abs().max() > 0.1


def test_on_a_device_micro_batch_bounds_the_rows_of_a_pass(model):
    request = Logprobs([[2, 7]], [Sequence(0, [1, 2])] * 10, micro_batch=4)
    assert [len(batch.rows) for batch in batching.micro_batches(request, range(10), on_cuda(model))] == [4, 4, 2]


def test_on_a_device_a_pass_weighs_what_attention_pads_and_repeats(model):
    """32 rows of one long prompt, all but one with one token.

    By positions they are one pass, with keys and values of 32 long rows.
    """
    request = Logprobs([[3] * 768], [Sequence(0, [5] * (256 if row == 0 else 1)) for row in range(32)])
    passes = batching.micro_batches(request, range(32), on_cuda(model))
    assert len(passes) == 2
    for batch in passes:
        assert 3 * len(batch.ids) + len(batch.rows) * (767 + max(batch.lengths)) <= 4 * batching.POSITIONS["cuda"]
    # A row alone costs its positions.
    assert [batching._cost(request, [[row]], True) for row in (0, 1)] == [767 + 256, 767 + 1]


def test_the_mask_is_cast_once(model):
    request = Logprobs([[2, 7, 1]], [Sequence(0, [1, 2])] * 3)
    assert Grid([(2, [2] * 3)], model, torch.bfloat16)._mask.dtype == torch.bfloat16
    (batch,) = batching.micro_batches(request, range(3), model, torch.bfloat16)
    assert batch.layout._mask.dtype == torch.bfloat16
    (batch,) = batching.micro_batches(request, range(3), model)
    assert batch.layout._mask.dtype == model.flat.dtype
