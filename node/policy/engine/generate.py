"""Sampling: each prompt is prefilled once and shared by its G completions, which are decoded together.

Takes a model, token ids and options; returns token ids and log-probabilities. Must not touch weights or keep state.
The keys and values of a prompt are held once, those of a completion in a buffer of its own, so that memory is P
prompts plus P·G completions. Attention scores over the two are joined before the softmax, which makes the result that
of ordinary attention.

Completions are a function of weights, prompts, options and seed: the uniform numbers are drawn on the CPU for all rows
and steps at the start, so dropping rows that have ended doesn't change what the others draw.

Letters in shapes: P prompts, G completions of each, R = P·G rows, S prompt positions (padded), t tokens decoded so
far.
"""

from dataclasses import dataclass
from typing import List

import torch

from .model import by_row, causal_attention, causal_mask, merge_heads

# Rows that have ended are dropped when this share of the batch or less is left to decode.
COMPACT_BELOW = 0.75


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
def generate(model, request):
    """Samples request.num_generations completions of each prompt (protocol.Generate) from model."""
    decoder = Decoder(model, request.prompts, request.num_generations, request.max_new_tokens)
    limits, count = decoder.limits, decoder.steps
    total = len(limits)
    generator = torch.Generator().manual_seed(request.seed % (1 << 63))
    uniform = torch.rand(count, total, generator=generator, dtype=torch.float64).to(model.device)
    tokens = torch.zeros(count, total, dtype=torch.long, device=model.device)
    logprobs = torch.zeros(count, total, dtype=torch.float64, device=model.device)
    entropies = torch.zeros(count, total, dtype=torch.float64, device=model.device)
    ended_at, terminated = list(limits), [False] * total

    logits = decoder.prefill()
    alive = [True] * total
    for step in range(count):
        rows = decoder.rows
        token, logprob, entropy = sample(logits, uniform[step].index_select(0, rows), request)
        tokens[step].index_copy_(0, rows, token)
        logprobs[step].index_copy_(0, rows, logprob)
        entropies[step].index_copy_(0, rows, entropy)
        for row, value in zip(decoder.row_list, token.tolist()):
            if not alive[row]:
                continue
            if value == request.eos_token_id:
                ended_at[row], terminated[row], alive[row] = step + 1, True, False
            elif step + 1 >= limits[row]:
                alive[row] = False
        if step + 1 == count or not any(alive):
            break
        token = decoder.compact(alive, token)
        logits = decoder.decode(token)

    lengths = torch.tensor(ended_at, device=model.device)
    counted = torch.arange(count, device=model.device).unsqueeze(1) < lengths
    new_tokens = sum(ended_at)
    columns, logprob_columns = tokens.t().tolist(), logprobs.t().tolist()
    return Completions(
        tokens=[column[:n] for column, n in zip(columns, ended_at)],
        logprobs=[column[:n] for column, n in zip(logprob_columns, ended_at)],
        terminated=terminated,
        entropy=float((entropies * counted).sum()) / new_tokens,
        prefill_tokens=sum(map(len, request.prompts)),
        new_tokens=new_tokens,
    )


def sample(logits, uniform, request):
    """Draws one token a row from logits [R, V] by inverse CDF of uniform [R].

    Returns token, log-probability at the sampling temperature before top-k and top-p, and entropy there (nats), each
    [R]. Temperature 0 takes the largest logit and reports log-probabilities at temperature 1. top-k keeps ties of the
    k-th logit; top-p keeps the smallest set of largest probabilities that reaches top_p, as Hugging Face's samplers
    do.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if request.temperature not in (0, 1):
        logits = logits / request.temperature
    normaliser = logits.logsumexp(-1, keepdim=True)
    logp = logits - normaliser
    probs = logp.exp()
    entropy = -(probs * logp).sum(-1)
    if request.temperature == 0:
        token = logits.argmax(-1, keepdim=True)
    else:
        if 0 < request.top_k < logits.shape[1]:
            smallest = logits.topk(request.top_k).values[:, -1:]
            probs = probs.masked_fill(logits < smallest, 0)
        if 0 < request.top_p < 1:
            ordered, index = probs.sort(-1, descending=True)
            before = ordered.cumsum(-1) - ordered
            ordered = ordered.masked_fill(before >= request.top_p * ordered.sum(-1, keepdim=True), 0)
            probs = torch.zeros_like(probs).scatter_(-1, index, ordered)
        cdf = probs.cumsum(-1)
        mass = cdf[:, -1:]
        # Strictly below the whole mass, so that the first entry above it exists and has a probability of its own.
        below = mass.nextafter(torch.zeros_like(mass))
        target = torch.minimum((uniform.unsqueeze(1) * mass.double()).to(cdf.dtype), below)
        token = torch.searchsorted(cdf, target, right=True)
    return token.squeeze(1), logp.gather(1, token).squeeze(1).double(), entropy.double()


class Decoder:
    """Keys, values and row bookkeeping of one batch.

    The rows at work form a grid of prompts times completions; `rows` holds their indices among all P·G. `compact` may
    shrink the grid; a prompt with fewer living rows than another is filled up with rows that have ended.
    """

    def __init__(self, model, prompts, generations, max_new_tokens):
        self.model = model
        config, device = model.config, model.device
        self.prompts = prompts
        self.generations = generations
        per_prompt = [min(max_new_tokens, config.context_length - len(prompt)) for prompt in prompts]
        self.limits = [limit for limit in per_prompt for _ in range(generations)]
        self.steps = max(per_prompt)
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self.row_list = list(range(len(self.limits)))
        self.rows = torch.arange(len(self.limits), device=device)
        self.position = self.lengths.repeat_interleave(generations)
        self.decoded = 0
        self.prompt_keys, self.prompt_values = [], []  # a layer: [P, H, h, S] and [P, H, S, h]
        self.keys, self.values = [], []  # a layer: [steps, R, H, h]; time first, so that unused steps stay untouched
        self.mask = self._mask()

    def _mask(self):
        """Additive mask [P, 1, 1, S] over prompt positions, None where all prompts have one length."""
        lengths = self.lengths.tolist()
        if min(lengths) == max(lengths):
            return None
        beyond = torch.arange(max(lengths), device=self.model.device) >= self.lengths.unsqueeze(1)
        mask = torch.zeros(beyond.shape, dtype=self.model.dtype, device=self.model.device)
        return mask.masked_fill_(beyond, float("-inf"))[:, None, None, :]

    def prefill(self):
        """Runs the prompts, right-padded; returns the logits of their last tokens, one copy a completion: [R, V]."""
        model = self.model
        count, longest = len(self.prompts), max(map(len, self.prompts))
        ids = torch.tensor([p + [0] * (longest - len(p)) for p in self.prompts], device=model.device)
        positions = torch.arange(longest, device=model.device).repeat(count)
        x = model.embed(ids.view(-1), positions)
        mask = causal_mask(longest, x)

        def attend(q, k, v):
            q, k, v = by_row(q, count), by_row(k, count), by_row(v, count)
            self.prompt_keys.append(k.transpose(2, 3).contiguous())
            self.prompt_values.append(v.contiguous())
            return merge_heads(causal_attention(q, k, v, mask))

        for layer in model.layers:
            x = model.block(layer, x, attend)
        last = torch.arange(count, device=model.device) * longest + self.lengths - 1
        logits = model.norm(x.index_select(0, last)) @ model.embedding.t()
        return logits.repeat_interleave(self.generations, 0)

    def decode(self, token):
        """Feeds token [R], the last of each row, and returns the logits [R, V] of what follows."""
        model = self.model
        if not self.keys:
            size = model.config.width // model.config.heads
            shape = (self.steps - 1, len(self.row_list), model.config.heads, size)
            dtype = self.prompt_keys[0].dtype
            for _ in model.layers:
                self.keys.append(torch.empty(shape, dtype=dtype, device=model.device))
                self.values.append(torch.empty(shape, dtype=dtype, device=model.device))
        # A filler row may be past its own end; its result is thrown away, its position must exist.
        x = model.embed(token, self.position.clamp(max=model.config.context_length - 1))
        for index, layer in enumerate(model.layers):
            x = model.block(layer, x, lambda q, k, v: self._attend(index, q, k, v))
        self.position = self.position + 1
        self.decoded += 1
        return model.norm(x) @ model.embedding.t()

    def _attend(self, index, q, k, v):
        """Query, key and value [R, H, h] of one new token a row -> [R, d]; stores key and value."""
        rows, heads, size = q.shape
        now = self.decoded + 1
        keys, values = self.keys[index], self.values[index]
        keys[self.decoded], values[self.decoded] = k, v
        q = q * size**-0.5

        prompt_keys, prompt_values = self.prompt_keys[index], self.prompt_values[index]
        count, _, _, padded = prompt_keys.shape
        each = rows // count
        grouped = q.view(count, each, heads, size).transpose(1, 2).reshape(count * heads, each, size)
        shared = torch.bmm(grouped, prompt_keys.view(-1, size, padded))  # [P·H, G, S]
        if self.mask is not None:
            shared.view(count, heads, each, padded).add_(self.mask)
        own = scores_of(q, keys[:now]).view(count, each, heads, now).transpose(1, 2)
        weights = torch.cat((shared, own.reshape(-1, each, now)), -1).softmax(-1)  # [P·H, G, S+t]

        y = torch.bmm(weights[:, :, :padded], prompt_values.view(-1, padded, size))
        y = y.view(count, heads, each, size).transpose(1, 2).reshape(rows, heads, size)
        own = weights[:, :, padded:].view(count, heads, each, now).permute(3, 0, 2, 1).reshape(now, rows, heads)
        return (y + mix_of(own, values[:now])).reshape(rows, heads * size)

    def compact(self, alive, token):
        """Shrinks the grid to prompts and columns with living rows, where that saves enough; returns their tokens."""
        each = len(self.row_list) // len(self.lengths)
        groups = [self.row_list[i : i + each] for i in range(0, len(self.row_list), each)]
        living = [sum(alive[row] for row in group) for group in groups]
        widest = max(living)
        kept = [i for i, n in enumerate(living) if n]
        if len(kept) * widest > COMPACT_BELOW * len(self.row_list):
            return token
        places = []
        for i in kept:
            order = sorted(range(each), key=lambda column, group=groups[i]: not alive[group[column]])
            places.extend(i * each + column for column in sorted(order[:widest]))
        self.row_list = [self.row_list[place] for place in places]
        index = torch.tensor(places, device=self.model.device)
        self.rows = self.rows.index_select(0, index)
        self.position = self.position.index_select(0, index)
        for i in range(len(self.keys)):
            self.keys[i] = self._select(self.keys[i], index)
            self.values[i] = self._select(self.values[i], index)
        if len(kept) < len(groups):
            prompts = torch.tensor(kept, device=self.model.device)
            self.lengths = self.lengths.index_select(0, prompts)
            self.mask = self._mask()
            longest = int(self.lengths.max())
            for i in range(len(self.prompt_keys)):
                self.prompt_keys[i] = self.prompt_keys[i].index_select(0, prompts)[..., :longest].contiguous()
                self.prompt_values[i] = self.prompt_values[i].index_select(0, prompts)[:, :, :longest].contiguous()
        return token.index_select(0, index)

    def _select(self, cache, index):
        smaller = torch.empty((cache.shape[0], len(index)) + cache.shape[2:], dtype=cache.dtype, device=cache.device)
        torch.index_select(cache[: self.decoded], 1, index, out=smaller[: self.decoded])
        return smaller


def scores_of(q, keys):
    """q [R, H, h] against each row's own keys [t, R, H, h] -> [R, H, t]."""
    if q.is_cuda:
        t, rows, heads, size = keys.shape
        return torch.bmm(q.view(-1, 1, size), keys.view(t, -1, size).permute(1, 2, 0)).view(rows, heads, t)
    # A batch of products with one vector each: BLAS would be called R·H times.
    return (q * keys).sum(-1).permute(1, 2, 0)


def mix_of(weights, values):
    """Sum over t of weights [t, R, H] times values [t, R, H, h] -> [R, H, h]."""
    if weights.is_cuda:
        t, rows, heads, size = values.shape
        mixed = torch.bmm(weights.view(t, -1).t().unsqueeze(1), values.view(t, -1, size).transpose(0, 1))
        return mixed.view(rows, heads, size)
    return (weights.unsqueeze(-1) * values).sum(0)
