"""Sampling: each prompt is prefilled once and shared by its G completions, which are decoded together.

Takes a model, token ids and options; returns token ids and log-probabilities. Must not touch weights or keep state.
Completions are a function of weights, prompts, options and seed: neither rows that have ended and are dropped, nor how
many are decoded at a time, changes what the others draw.
"""

from dataclasses import dataclass
from typing import List

import torch

from .decoder import Decoder, padding
from .graphs import StaticSteps
from .sampler import Draws

# Tokens between two looks at which rows have ended: on CUDA each look makes the host wait for the device.
LOOK = {"cpu": 1, "cuda": 16}


@dataclass
class Completions:
    """P·G completions, generation g of prompt p at index p·G+g."""

    tokens: List[List[int]]
    logprobs: List[List[float]]
    terminated: List[bool]
    entropy: float  # mean over sampled tokens, nats
    prefill_tokens: int
    new_tokens: int


@torch.inference_mode()
def generate(model, request, graphs=None, span=None):
    """Samples request.num_generations completions of each prompt (protocol.Generate) from model.

    With graphs (graphs.Graphs) decoding runs in steps of fixed shape, which CUDA graphs can hold. span is (begin, end)
    where only those of the completions are wanted.
    """
    room = [min(request.max_new_tokens, model.config.context_length - len(prompt)) for prompt in request.prompts]
    draws = Draws(request, [n for n in room for _ in range(request.num_generations)], model.device)
    begin, end = span or (0, len(draws.alive))
    padded = padding(request.prompts, model)
    for first, last, each, row in parts(len(room), request.num_generations, request.micro_batch, begin, end):
        steps = max(room[first:last])
        decoder = Decoder(model, request.prompts[first:last], each, row, steps, graphs is not None, padded)
        run(EagerSteps(decoder, draws) if graphs is None else StaticSteps(decoder, draws, graphs), decoder, draws)
    return completions(request, draws, begin, end)


def parts(prompts, generations, micro_batch, begin=0, end=None):
    """Cuts prompts × generations into batches of at most micro_batch rows, 0: all; yields (first, last, each, row).

    Prompts first..last with `each` of their completions, which are rows row, row+1, …: whole groups where one fits, else
    parts of one group, which prefill its prompt again. Only rows begin..end.
    """
    row, end = begin, prompts * generations if end is None else end
    while row < end:
        prompt, done = divmod(row, generations)
        size = min(micro_batch or end, end - row)
        groups = 0 if done else size // generations
        if groups:
            yield prompt, prompt + groups, generations, row
            row += groups * generations
        else:
            each = min(size, generations - done)
            yield prompt, prompt + 1, each, row
            row += each


def run(steps, decoder, draws):
    """Draws tokens until all of the decoder's rows have ended."""
    try:
        steps.first()
        looked = 0
        for step in range(1, decoder.steps + 1):
            if step % steps.look == 0 or step == decoder.steps:
                draws.look(looked, step, decoder.rows, decoder.row_list)
                looked = step
                if not any(draws.alive[row] for row in decoder.row_list):
                    return
                steps.compact(draws.alive)
            steps.next()
    finally:
        steps.close()


class EagerSteps:
    """Steps over exactly the positions decoded so far."""

    compact_below = 0.75

    def __init__(self, decoder, draws):
        self.look = LOOK[decoder.model.device.type]
        self._decoder, self._draws = decoder, draws
        self._at = torch.zeros(1, dtype=torch.long, device=decoder.model.device)

    def first(self):
        """Draws the first token of each row."""
        self._token = self._draws.draw(self._decoder.prefill(), self._at, self._decoder.rows)
        self._decoder.allocate()

    def next(self):
        """Draws one more."""
        logits = self._decoder.decode(self._token)
        self._at += 1
        self._token = self._draws.draw(logits, self._at, self._decoder.rows)

    def compact(self, alive):
        """Drops rows that have ended, where that saves enough."""
        index = self._decoder.compact(alive, self.compact_below)
        if index is not None:
            self._token = self._token.index_select(0, index)

    def close(self):
        """Gives up what outlives no call."""


def completions(request, draws, begin, end):
    device, ended_at = draws.tokens.device, draws.ended_at[begin:end]
    lengths = torch.tensor(ended_at, dtype=torch.long, device=device)
    counted = torch.arange(len(draws.tokens), device=device).unsqueeze(1) < lengths
    new_tokens = sum(ended_at)
    columns, logprob_columns = draws.tokens[:, begin:end].t().tolist(), draws.logprobs[:, begin:end].t().tolist()
    return Completions(
        tokens=[column[:n] for column, n in zip(columns, ended_at)],
        logprobs=[column[:n] for column, n in zip(logprob_columns, ended_at)],
        terminated=draws.terminated[begin:end],
        entropy=float((draws.entropies[:, begin:end] * counted).sum()) / max(1, new_tokens),
        prefill_tokens=sum(map(len, request.prompts)),
        new_tokens=new_tokens,
    )
