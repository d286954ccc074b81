"""Micro-batches: the rows of a request, sorted by length, padded and cut into forward passes.

Takes a parsed request; returns tensors of token ids and places. Every mask here comes from lengths, never from token
values.
"""

from dataclasses import dataclass
from typing import List

import torch

# Most positions, padding included, of one forward pass: more doesn't make the device faster, and takes memory. On a CPU that is all
# that decides on passes: micro_batch doesn't, so that the sums over positions, and with them the bits of an update, are the same
# whatever memory allowed. For models up to NARROW wide 256 are as fast as more are, and within one block of OpenBLAS's sums, which
# another number of threads cuts at other places; wider ones, whose gradients fit no cache, take twice as many, or would be a sixth
# slower. On CUDA matrices of 8192 rows keep every multiprocessor of the largest cards busy even where the width is GPT-2's 768; a
# single row may be longer. Without gradient checkpointing GPT-2's activations are then some 5 GiB.
POSITIONS = {"cpu": 256, "cuda": 8192}
NARROW = 256


@dataclass
class MicroBatch:
    rows: List[int]  # indices into the request's sequences
    lengths: List[int]  # completion tokens of each
    ids: torch.Tensor  # [b, T]
    select: torch.Tensor  # [N] places in the flattened [b·T] whose logits predict completion tokens
    targets: torch.Tensor  # [N]
    tokens: int  # positions without padding


def positions(model):
    """Most positions of one forward pass of model."""
    most = POSITIONS[model.device.type]
    return 2 * most if model.device.type == "cpu" and model.config.width > NARROW else most


def micro_batches(request, rows, model):
    """Splits the chosen rows, longest first, so that little is padded. Independent of everything but the request; and on a CPU of its
    micro_batch."""
    device, room = model.device, positions(model)
    most = len(rows) if device.type == "cpu" else request.micro_batch or len(rows)
    length = {row: row_length(request, row) for row in rows}
    batches, batch = [], []
    for row in sorted(rows, key=lambda row: (-length[row], row)):
        if batch and (len(batch) >= most or (len(batch) + 1) * length[batch[0]] > room):
            batches.append(batch)
            batch = []
        batch.append(row)
    if batch:
        batches.append(batch)
    return [_micro_batch(request, batch, device) for batch in batches]


def row_length(request, row):
    """Positions of a row: prompt and completion, without the last token, which predicts nothing."""
    sequence = request.sequences[row]
    return len(request.prompts[sequence.prompt]) + len(sequence.completion) - 1


def _micro_batch(request, rows, device):
    inputs, select, targets, lengths = [], [], [], []
    for row in rows:
        sequence = request.sequences[row]
        prompt = request.prompts[sequence.prompt]
        inputs.append(prompt + sequence.completion[:-1])
        targets.extend(sequence.completion)
        lengths.append(len(sequence.completion))
    longest = max(map(len, inputs))
    for place, length in enumerate(lengths):
        first = place * longest + len(inputs[place]) - length
        select.extend(range(first, first + length))
    return MicroBatch(
        rows=rows,
        lengths=lengths,
        ids=torch.tensor([ids + [0] * (longest - len(ids)) for ids in inputs], device=device),
        select=torch.tensor(select, device=device),
        targets=torch.tensor(targets, device=device),
        tokens=sum(map(len, inputs)),
    )
