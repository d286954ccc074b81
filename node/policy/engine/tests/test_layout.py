"""Prompts shared by their completions in a pass: what is computed, and how rows are gathered into passes."""

import random
from types import SimpleNamespace

import pytest
import torch
from engine import batch as batching
from engine.adam import Adam
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
    together = hidden_of(model, before + sum(rows, []) + [1, 2], Layout([(prefix, lengths), (1, [1])], mask))
    parts = together.split([*lengths, 1])
    for row, part in zip(rows, parts):
        alone = hidden_of(model, before + row, Layout([(0, [prefix + len(row)])], mask))
        assert (part - alone[prefix:]).abs().max() < 1e-12


def test_a_row_is_deaf_to_the_other_rows(model):
    mask, results = causal_mask(16, model.flat), []
    for other in ([5, 6, 7], [1, 2, 3]):
        results.append(hidden_of(model, [4, 9, 2, 3, *other], Layout([(2, [2, 3])], mask))[:2])
    assert torch.equal(*results)


@pytest.mark.parametrize("seed", range(30))
def test_passes_hold_every_row_once_and_keep_their_bounds(seed):
    rng = random.Random(seed)
    prompts = [[1] * rng.randint(1, 60) for _ in range(rng.randint(1, 6))]
    rows = [Sequence(rng.randrange(len(prompts)), [2] * rng.randint(1, 40)) for _ in range(rng.randint(1, 40))]
    request = Logprobs(prompts, rows)
    room, most = rng.choice((30, 90, 400)), rng.choice((1, 3, 8, 40))
    parts = [part for group in batching._by_prompt(request, range(len(rows))) for part in batching._cut(request, group, room, most)]
    passes = batching._packed(request, parts, room, most)
    assert sorted(row for chosen in passes for part in chosen for row in part) == list(range(len(rows)))
    for chosen in passes:
        positions = sum(batching._cost(request, part) for part in chosen)
        count = sum(map(len, chosen))
        assert count <= most and (positions <= room or count == 1)
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


def test_on_a_device_micro_batch_bounds_the_rows_of_a_pass(model, monkeypatch):
    monkeypatch.setattr(batching, "POSITIONS", {"cpu": 4096})
    request = Logprobs([[2, 7]], [Sequence(0, [1, 2])] * 10, micro_batch=4)
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"), flat=model.flat)
    monkeypatch.setitem(batching.POSITIONS, "cuda", 4096)
    assert [len(batch.rows) for batch in batching.micro_batches(request, range(10), gpu)] == [4, 4, 2]
