"""Sampling: each prompt is prefilled once and shared by its G completions, which are decoded together.

Takes a model, token ids and options. Returns token ids and log-probabilities. Must not change weights or keep
state. Completions are a function of weights, prompts, options and seed. They do not depend on dropped
finished rows or on the number of completions decoded at a time.
"""

from dataclasses import dataclass
from typing import List

import torch

from .decoder import Decoder, padding
from .sampler import Draws
from .static import StaticDecoder, shape_of


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
def generate(model, request, static=None, span=None):
    """Samples request.num_generations completions of each prompt (protocol.Generate) from model.

    With static (Static) decoding runs in steps of fixed shape, for a GPU. Without it, in steps of exact size.
    span is (begin, end) of the completions to sample; None: all.
    """
    room = [min(request.max_new_tokens, model.config.context_length - len(prompt)) for prompt in request.prompts]
    draws = Draws(request, [n for n in room for _ in range(request.num_generations)], model.device)
    begin, end = span or (0, len(draws.alive))
    padded = padding(request.prompts, model)
    most = 0
    for first, last, each, row in parts(len(room), request.num_generations, request.micro_batch, begin, end):
        prompts = request.prompts[first:last]
        if static is None:
            decoder = Decoder(model, prompts, each, row, max(room[first:last]), padded)
            run(ExactSteps(decoder, draws), decoder, draws)
        else:
            most = max(most, last - first)  # the last part may have fewer prompts, but uses the same buffers
            shape = shape_of(request, most, each, max(room), model.config.context_length)
            static.run(model, shape, request, prompts, draws, range(row, row + (last - first) * each))
    return completions(request, draws, begin, end)


def parts(prompts, generations, micro_batch, begin=0, end=None):
    """Splits prompts × generations into batches of at most micro_batch rows, 0: all. Yields (first, last,
    each, row).

    A batch has `each` completions of prompts first..last, in rows row, row+1, …: whole groups if one fits,
    else parts of one group, which prefill its prompt again. Only rows begin..end.
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
    steps.first()
    looked = 0
    for step in range(1, decoder.steps + 1):
        if step % steps.look == 0 or step == decoder.steps:
            steps.collect(looked, step)
            draws.look(looked, step, decoder.rows, decoder.row_list)
            looked = step
            if not any(draws.alive[row] for row in decoder.row_list):
                return
            steps.compact(draws.alive)
        steps.next()


class ExactSteps:
    """Steps over exactly the positions decoded so far, for a CPU, where time grows with rows and positions."""

    look = 1  # tokens between two checks for finished rows
    compact_below = 0.75

    def __init__(self, decoder, draws):
        self._decoder, self._draws = decoder, draws
        self._at = torch.zeros(1, dtype=torch.long, device=decoder.model.device)

    def first(self):
        """Draws the first token of each row."""
        self._token = self._draws.draw(self._decoder.prefill(), self._at, self._decoder.rows)
        self._decoder.allocate()

    def next(self):
        """Draws the next token of each row."""
        logits = self._decoder.decode(self._token)
        self._at += 1
        self._token = self._draws.draw(logits, self._at, self._decoder.rows)

    def collect(self, begin, end):
        """Does nothing: the request's Draws already has the tokens."""

    def compact(self, alive):
        """Drops finished rows, if that saves enough."""
        index = self._decoder.compact(alive, self.compact_below)
        if index is not None:
            self._token = self._token.index_select(0, index)


class Static:
    """Decodes in steps of fixed shape (static.StaticDecoder).

    With graphs it keeps them, and the buffers that they use, for calls of the same shape until `drop`. If
    graphs is None, it launches each step's kernels one by one and keeps nothing.
    """

    def __init__(self, graphs=None):
        self._graphs = graphs
        self._decoder = None
        self.keeps = graphs is not None

    def run(self, model, shape, request, prompts, draws, rows):
        decoder = self._decoder
        if decoder is None or decoder.model is not model or decoder.shape != shape:
            self.drop()
            decoder = self._decoder = StaticDecoder(model, shape, request)
        try:
            decoder.begin(prompts, draws, rows)
            run(_StaticSteps(decoder, self._graphs), decoder, draws)
        except BaseException:
            self.drop()
            raise
        if not self.keeps:
            self.drop()

    def drop(self):
        """Frees graphs and buffers, before the model's weights move or to free their memory."""
        self._decoder = None
        if self._graphs is not None:
            self._graphs.drop()


class _StaticSteps:
    look = 16  # each check makes the host wait for the device

    def __init__(self, decoder, graphs):
        self._decoder, self._graphs = decoder, graphs
        self.first, self.collect = decoder.first, decoder.collect

    def next(self):
        decoder, window = self._decoder, self._decoder.window()
        if self._graphs is None:
            decoder.step(window)
        else:
            self._graphs.run(window, lambda: decoder.step(window))
        decoder.written += 1

    def compact(self, alive):
        """Does nothing. Finished rows continue, because on a GPU the time depends on the number of kernels more than
        on the number of rows.
        """


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
