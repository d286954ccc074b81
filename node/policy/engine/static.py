"""Decoding in steps of fixed shape for a GPU, where the number of kernels limits a step of a small model.

Everything that changes between steps is on the device at fixed addresses. So one CUDA graph (graphs.py)
serves many steps, and calls of equal shape share graphs. A step reads own positions in a window of a multiple
of BUCKET, and masks those not yet written. Attention is two batched products, over the keys of a prompt,
stored once, and over those of each completion. Their scores share one buffer before the softmax. If each
query head has its own key head, nothing is copied to change its layout.

Letters in shapes: P prompts, G completions of each, R = G·P rows (row g·P + p, so that data shared by
completions is a stride), S prompt positions, padded, t own positions, W a window of them, H heads, K
key/value heads, n = H/K, h head size.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from .model import HAS_SDPA, by_row, causal_attention, causal_mask, merge_heads
from .sampler import BlockSampler

BUCKET = 64  # own positions
PROMPT_BUCKET = 128  # positions of a prompt: calls with prompts of similar length have the same shape


class Shape(NamedTuple):
    """The parameters of a StaticDecoder's buffers, and of the graphs on them."""

    prompts: int
    generations: int
    prompt_length: int
    steps: int  # maximum tokens of a completion
    temperature: float
    top_k: int
    top_p: float


def shape_of(request, prompts, generations, steps, context_length):
    """The Shape for a number of request's prompts at a time.

    It is a function of the request alone, so that a repeated call runs the same kernels.
    """
    longest = -(-max(map(len, request.prompts)) // PROMPT_BUCKET) * PROMPT_BUCKET
    return Shape(
        prompts, generations, min(longest, context_length), steps, request.temperature, request.top_k, request.top_p
    )


class StaticDecoder:
    """Buffers for one Shape of one model, and the steps on them. Call `begin`, `first`, then `step` for
    each further token.
    """

    def __init__(self, model, shape, request):
        self.model, self.shape = model, shape
        config, device, P, G = model.config, model.device, shape.prompts, shape.generations
        S, t = shape.prompt_length, max(1, shape.steps - 1)
        self.steps, self._own = shape.steps, t
        self._shared_by = config.heads // config.kv_heads
        layers, K, h = config.layers, config.kv_heads, config.head_size
        # Not the dtype of reduced weights: scores with large common parts, as of Qwen2.5, lose their differences
        # in 16 bits. SDPA, which training uses from torch 2 on, keeps scores in fp32, too.
        kept = model.dtype
        self._scale = h**-0.5
        self._prompt_keys = torch.zeros(layers, P, K, S, h, dtype=kept, device=device)
        self._prompt_values = torch.zeros_like(self._prompt_keys)
        # Per layer: [R, K, 2·t, h], first keys, then values. If n is 1, the query is stored before them, so
        # that one kernel writes all three.
        self._queries = 1 if self._shared_by == 1 else 0
        self._caches = torch.zeros(layers, P * G, K, self._queries + 2 * t, h, dtype=kept, device=device)
        self._mask = torch.zeros(P, S + t, dtype=kept, device=device)
        # For each step the rows' positions and, as raw bytes, their random numbers, so that one kernel selects both.
        self._given = torch.zeros(shape.steps, 2, P * G, dtype=torch.long, device=device)
        self._positions, self._uniform = self._given[:, 0], self._given[:, 1].view(torch.float64)
        self._start = self._counters(0)
        self._increment = self._counters(1) - self._start
        self._now = self._start.clone()
        self._token = torch.zeros(P * G, 1, dtype=torch.long, device=device)
        # The results of a step: R tokens, then their log-probabilities and entropies as raw bytes.
        figures = torch.float64 if model.dtype == torch.float64 else torch.float32
        longs = 2 if figures == torch.float64 else 1
        drawn = torch.zeros(P * G * (1 + longs), dtype=torch.long, device=device)
        self._drawn, self._tape = drawn, torch.zeros(shape.steps, len(drawn), dtype=torch.long, device=device)
        self._drawn_token = drawn[: P * G].view(-1, 1)
        self._drawn_figures = drawn[P * G :].view(figures).view(2, P * G)
        self._sampler = BlockSampler(P * G, config.vocab_size, request, figures, device)

    def _counters(self, slot):
        """Indices for a step that feeds own position `slot`.

        They are the slots of query, key and value in a cache, the column of the mask, and the number of the
        token that the step draws.
        """
        slots = ([0] if self._queries else []) + [self._queries + slot, self._queries + self._own + slot]
        return torch.tensor(slots + [self.shape.prompt_length + slot, slot + 1], device=self.model.device)

    def begin(self, prompts, draws, rows):
        """Takes up to P prompts, and the random numbers of rows [their count · G] from draws, prompt by
        prompt.
        """
        shape, model, device = self.shape, self.model, self.model.device
        self._draws = draws
        self.row_list, self.written = list(rows), 0
        fill = prompts + [prompts[0]] * (shape.prompts - len(prompts))  # the tokens of padding prompts are never read
        lengths = torch.tensor([len(prompt) for prompt in fill])
        # Padding rows and rows past their own end continue, so their positions must exist.
        positions = lengths + torch.arange(shape.steps).unsqueeze(1) - 1
        positions = positions.clamp(max=model.config.context_length - 1).repeat(1, shape.generations)
        self._positions.copy_(positions)
        count = len(prompts)
        # From the request's order, prompt by prompt, to this decoder's order, and back for the drawn tokens.
        order = torch.arange(len(self.row_list)).view(count, shape.generations).t()
        order = F.pad(order, (0, shape.prompts - count), value=0).reshape(-1)
        self.rows = torch.tensor(self.row_list, device=device)
        self._uniform.copy_(draws.uniform[: shape.steps].index_select(1, self.rows.index_select(0, order.to(device))))
        places = torch.arange(shape.generations).view(1, -1) * shape.prompts + torch.arange(count).view(-1, 1)
        self._places = places.reshape(-1).to(device)
        # A NaN from an earlier call would survive the zero weight of masked positions.
        self._caches.zero_()
        mask = torch.arange(shape.prompt_length) >= lengths.unsqueeze(1)
        self._mask[:, shape.prompt_length :].fill_(float("-inf"))
        self._mask[:, : shape.prompt_length].copy_(torch.zeros(mask.shape).masked_fill_(mask, float("-inf")))
        self._now.copy_(self._start)
        self._fill = fill

    def first(self):
        """Runs the prompts and draws the first token of each row."""
        model, shape = self.model, self.shape
        P, S = shape.prompts, shape.prompt_length
        ids = torch.tensor([prompt + [0] * (S - len(prompt)) for prompt in self._fill], device=model.device)
        positions = torch.arange(S, device=model.device).repeat(P)
        mask = None if HAS_SDPA else causal_mask(S, model.flat, model.head.dtype)
        last = torch.arange(P, device=model.device) * S + torch.tensor(list(map(len, self._fill)), device=model.device) - 1
        x = model.embed(ids.view(-1), positions)
        for index, layer in enumerate(model.layers):

            def attend(qkv, index=index):
                q, k, v = (by_row(part, P) for part in model.split_heads(qkv))
                self._prompt_keys[index].copy_(k)
                self._prompt_values[index].copy_(v)
                y = merge_heads(causal_attention(q, k, v, mask))
                return y if index < len(model.layers) - 1 else y.index_select(0, last)

            x = model.block(layer, x, positions, attend, None if index < len(model.layers) - 1 else last)
        logits = model.logits(x).repeat(shape.generations, 1)
        self._draw(logits, torch.zeros(1, dtype=torch.long, device=model.device), self._uniform[0])

    def window(self):
        """The window of the next step."""
        return min(-(-(self.written + 1) // BUCKET) * BUCKET, self._own)

    def step(self, window):
        """Feeds each row's last token and draws the next. It attends to own positions below window. Pure
        device work.
        """
        model = self.model
        drawn = self._now[-1:]
        self._mask.index_fill_(1, self._now[-2:-1], 0)
        positions, uniform = self._given.index_select(0, drawn)[0]
        mask = self._mask[:, : self.shape.prompt_length + window]
        x = model.embed(self._drawn_token.view(-1), positions)
        for index, layer in enumerate(model.layers):
            x = model.block(layer, x, positions, lambda qkv, index=index: self._attend(index, window, mask, qkv))
        self._draw(model.logits(x), drawn, uniform.view(torch.float64))
        self._now.add_(self._increment)

    def _draw(self, logits, number, uniform):
        self._sampler.draw(logits, uniform, self._drawn_token, self._drawn_figures)
        self._tape.index_copy_(0, number, self._drawn.unsqueeze(0))

    def _attend(self, index, window, mask, qkv):
        """Query, key and value [R, H + 2·K, h] of one new token per row -> [R, H·h]. Stores key and
        value.
        """
        qkv = qkv.to(self._caches.dtype)
        shape, n, h = self.shape, self._shared_by, qkv.shape[2]
        P, G, K, S, W = shape.prompts, shape.generations, self.model.config.kv_heads, shape.prompt_length, window
        cache, first = self._caches[index], self._queries
        keys = cache[:, :, first : first + W].flatten(0, 1)  # [R·K, W, h]
        values = cache[:, :, first + self._own : first + self._own + W].flatten(0, 1)
        slots = self._now[: first + 2]
        if first:
            cache.index_copy_(2, slots, qkv.view(-1, 3, K, h).transpose(1, 2))
            q = cache[:, :, 0].flatten(0, 1)  # [R·K, h]
            grouped = q.view(G, P * K, h).transpose(0, 1)  # [P·K, G, h]
            q = q.unsqueeze(1)
        else:
            heads, both = qkv.split((n * K, 2 * K), 1)
            cache.index_copy_(2, slots, both.view(-1, 2, K, h).transpose(1, 2))
            q = heads.reshape(-1, n, h)  # [R·K, n, h]
            grouped = q.view(G, P * K, n, h).transpose(0, 1).reshape(P * K, G * n, h)
        scores = torch.empty(G, P * K, n, S + W, dtype=qkv.dtype, device=qkv.device)
        torch.bmm(q, keys.transpose(1, 2), out=scores.view(-1, n, S + W)[:, :, S:])
        prompt_keys = self._prompt_keys[index].view(P * K, S, h).transpose(1, 2)
        prompt_values = self._prompt_values[index].view(P * K, S, h)
        if n == 1:
            torch.bmm(grouped, prompt_keys, out=scores.view(G, P * K, S + W).transpose(0, 1)[:, :, :S])
        else:
            scores[..., :S] = torch.bmm(grouped, prompt_keys).view(P * K, G, n, S).transpose(0, 1)
        scores = scores.view(G, P, K * n, S + W)
        weights = torch.add(mask.unsqueeze(1), scores, alpha=self._scale).softmax(-1)
        weights = weights.view(G, P * K, n, S + W)
        y = torch.empty(G, P * K, n, h, dtype=qkv.dtype, device=qkv.device)
        if n == 1:
            torch.bmm(weights[:, :, 0, :S].transpose(0, 1), prompt_values, out=y.squeeze(2).transpose(0, 1))
        else:
            shared = weights[..., :S].transpose(0, 1).reshape(P * K, G * n, S)
            y.copy_(torch.bmm(shared, prompt_values).view(P * K, G, n, h).transpose(0, 1))
        y.view(-1, n, h).baddbmm_(weights.view(-1, n, S + W)[:, :, S:], values)
        return y.view(P * G, -1)

    def collect(self, begin, end):
        """Copies tokens begin..end to the request's Draws. Queues device work without waiting for it."""
        draws, rows, count = self._draws, self.rows, len(self._token)
        tape = self._tape[begin:end]
        figures = tape[:, count:].contiguous().view(self._drawn_figures.dtype).view(end - begin, 2, count)
        at = torch.arange(begin, end, device=rows.device).unsqueeze(1)
        draws.tokens[at, rows] = tape[:, :count].index_select(1, self._places)
        draws.logprobs[at, rows] = figures[:, 0].index_select(1, self._places).double()
        draws.entropies[at, rows] = -figures[:, 1].index_select(1, self._places).double()
