"""Micro-batches: the rows of a request, grouped by prompt and split into forward passes.

Takes a parsed request. Returns tensors of token ids and their layout. Every mask comes from lengths, never
from token values.
"""

from dataclasses import dataclass
from typing import List

import torch

from .grid import Grid
from .layout import Layout
from .model import causal_mask

# Maximum positions of one forward pass. More positions do not make the device faster and need more memory. On a CPU
# only this limit splits the passes, and not micro_batch, so that sums over positions, and the bits of an update, do not
# depend on memory settings. 448 positions are one block of the sums of OpenBLAS's AVX-512 kernels: up to that size the
# bits are the same on one thread and on two. A longer row is allowed, and its bits may depend on the number of threads.
# With AVX2 kernels the bits differ at every size. On CUDA, matrices of 8192 rows keep every multiprocessor of the
# largest cards busy even at GPT-2's width of 768. A single longer row is allowed. Without gradient checkpointing
# GPT-2's activations then need about 5 GiB.
POSITIONS = {"cpu": 448, "cuda": 8192}


@dataclass
class MicroBatch:
    rows: List[int]  # indices into the request's sequences
    lengths: List[int]  # completion tokens of each row
    ids: torch.Tensor  # [N]
    layout: Layout  # its own tokens predict the completions' tokens, row after row
    targets: torch.Tensor  # [M]


def micro_batches(request, rows, model, dtype=None):
    """Splits the chosen rows, and keeps a prompt's rows together if they fit.

    The result depends only on the request, and on a CPU not on its micro_batch. dtype is the type of
    attention's queries, None: that of the weights.
    """
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
    """Positions of a pass over parts, each with rows of one prompt: each prompt once, without its last
    token.

    On CUDA the limit is memory, so attention's grid counts too. It has as many rows for each prompt as the
    largest part, each as long as the longest prefix and row. Attention stores a quarter of what a layer
    stores per position. A row alone costs its positions.
    """
    prefixes = [len(request.prompts[request.sequences[part[0]].prompt]) - 1 for part in parts]
    positions = sum(prefixes) + sum(_own(request, row) for part in parts for row in part)
    if not cuda:
        return positions
    rows, longest = max(map(len, parts)), max(_own(request, row) for part in parts for row in part)
    return (3 * positions + len(parts) * rows * (max(prefixes) + longest) + 3) // 4


def _by_prompt(request, rows):
    """The rows of each prompt, longest first, so that rows of similar length stay together when a group
    is split.
    """
    groups = {}
    for row in rows:
        groups.setdefault(request.sequences[row].prompt, []).append(row)
    return [sorted(group, key=lambda row: (-_own(request, row), row)) for group in groups.values()]


def _cut(request, rows, room, most, cuda):
    """Splits rows of one prompt into as few parts as fit room and most, with about equal numbers of rows.

    A single row may be longer than room.
    """
    count = 1
    while True:
        size = -(-len(rows) // count)
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        if size == 1 or (size <= most and all(_cost(request, [part], cuda) <= room for part in parts)):
            return parts
        count += 1


def _packed(request, parts, room, most, cuda):
    """Packs parts into passes, the most expensive first, each part into the first pass with space for it."""
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
