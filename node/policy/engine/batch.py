"""Micro-batches: the rows of a request, gathered by prompt and cut into forward passes.

Takes a parsed request; returns tensors of token ids and their layout. Every mask comes from lengths, never from token
values.
"""

from dataclasses import dataclass
from typing import List

import torch

from .grid import Grid
from .layout import Layout
from .model import causal_mask

# Most positions of one forward pass: more doesn't make the device faster, and takes memory. On a CPU that is all
# that decides on passes: micro_batch doesn't, so that the sums over positions, and with them the bits of an update, are
# the same whatever memory allowed. 448 are one block of the sums of OpenBLAS's kernels for AVX-512: up to there the
# bits are the same on one thread and on two. A row may be longer, and its bits then another number of threads'; kernels
# for AVX2 differ at every size. On CUDA matrices of 8192 rows keep every multiprocessor of the largest cards busy even
# where the width is GPT-2's 768; a single row may be longer. Without gradient checkpointing GPT-2's activations are
# then some 5 GiB.
POSITIONS = {"cpu": 448, "cuda": 8192}


@dataclass
class MicroBatch:
    rows: List[int]  # indices into the request's sequences
    lengths: List[int]  # completion tokens of each
    ids: torch.Tensor  # [N]
    layout: Layout  # its own tokens predict the completions', row after row
    targets: torch.Tensor  # [M]


def micro_batches(request, rows, model, dtype=None):
    """Splits the chosen rows: a prompt's stay together where they fit. Independent of everything but the request; and on a CPU of its
    micro_batch. dtype is that of attention's queries, None the weights'."""
    cuda = model.kind == "cuda"
    room = POSITIONS[model.kind]
    most = (request.micro_batch if cuda else 0) or len(rows)
    parts = []
    for group in _by_prompt(request, rows):
        parts.extend(_cut(request, group, room, most, cuda))
    if cuda:
        layout = lambda groups: Grid(groups, model, dtype)  # noqa: E731
    else:
        mask = causal_mask(max((row_length(request, row) for row in rows), default=0), model.flat, dtype)
        layout = lambda groups: Layout(groups, model, mask)  # noqa: E731
    return [_micro_batch(request, chosen, layout, model.device) for chosen in _packed(request, parts, room, most, cuda)]


def row_length(request, row):
    """Positions of a row alone: prompt and completion, without the last token, which predicts nothing."""
    sequence = request.sequences[row]
    return len(request.prompts[sequence.prompt]) + len(sequence.completion) - 1


def _own(request, row):
    return len(request.sequences[row].completion)


def _cost(request, parts, cuda):
    """Positions of a pass over parts, each rows of one prompt: all of a prompt but its last token once.

    On CUDA what counts is memory, and attention gives each row the prompt's keys and values, and queries and results as
    many as the longest has, in a grid of as many rows for each prompt: a quarter of what a layer keeps of a position. A row
    alone weighs its positions.
    """
    prefixes = [len(request.prompts[request.sequences[part[0]].prompt]) - 1 for part in parts]
    positions = sum(prefixes) + sum(_own(request, row) for part in parts for row in part)
    if not cuda:
        return positions
    rows, longest = max(map(len, parts)), max(_own(request, row) for part in parts for row in part)
    return (3 * positions + len(parts) * rows * (max(prefixes) + longest) + 3) // 4


def _by_prompt(request, rows):
    """The rows of each prompt, longest first: their lengths are alike where a group is cut."""
    groups = {}
    for row in rows:
        groups.setdefault(request.sequences[row].prompt, []).append(row)
    return [sorted(group, key=lambda row: (-_own(request, row), row)) for group in groups.values()]


def _cut(request, rows, room, most, cuda):
    """Cuts rows of one prompt into as few parts as keep to room and most, of about as many rows each; one row may be longer than room."""
    count = 1
    while True:
        size = -(-len(rows) // count)
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        if size == 1 or (size <= most and all(_cost(request, [part], cuda) <= room for part in parts)):
            return parts
        count += 1


def _packed(request, parts, room, most, cuda):
    """Passes: lists of parts, each put into the first that has room for it, the dearest first."""
    passes = []
    for _, part in sorted(((_cost(request, [part], cuda), part) for part in parts), key=lambda entry: (-entry[0], entry[1])):
        for chosen in passes:
            if sum(map(len, chosen)) + len(part) <= most and _cost(request, [*chosen, part], cuda) <= room:
                chosen.append(part)
                break
        else:
            passes.append([part])
    return passes


def _micro_batch(request, parts, layout, device):
    ids, groups, targets = [], [], []
    for part in parts:
        prompt = request.prompts[request.sequences[part[0]].prompt]
        completions = [request.sequences[row].completion for row in part]
        groups.append((len(prompt) - 1, [len(completion) for completion in completions]))
        ids.extend(prompt[:-1])
        for completion in completions:
            ids.extend(prompt[-1:] + completion[:-1])
            targets.extend(completion)
    return MicroBatch(
        rows=[row for part in parts for row in part],
        lengths=[length for _, lengths in groups for length in lengths],
        ids=torch.tensor(ids, device=device),
        layout=layout(groups),
        targets=torch.tensor(targets, device=device),
    )
