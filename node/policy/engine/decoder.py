"""Keys and values of a batch, and decoding steps of exact size for a CPU (static.py is for a GPU).

Takes a model and prompts. Returns logits. It does not handle sampling or the ends of completions. It stores
the keys and values of a prompt once, and those of a completion in a separate buffer, so that memory is P
prompts plus P·G completions. It joins attention scores over both before the softmax, so that the result is
that of ordinary attention.

Letters in shapes: P prompts, G completions of each, R = P·G rows, S prompt positions (padded), t own
positions, H heads, K key/value heads, n = H/K, h head size.
"""

import torch
import torch.nn.functional as F

from .model import HAS_SDPA, by_row, causal_attention, causal_mask, merge_heads

# On a CPU a completion's numbers must not depend on the number of completions decoded together. But kernels,
# and so the rounding of sums, depend on sizes. The constants below were found by experiment with torch 1.13
# and OpenBLAS 0.3 on AVX-512 (tests/test_bits.py).
LEAST = 16  # rows of a matrix product; fewer are padded with zeros
# Number of multiplications up to which OpenBLAS uses other kernels. Some of these round the head's layout differently.
SMALL = 1_000_000
VECTORS = 64  # columns that torch's sums take at a time; it sums the rest in another order
# Maximum padding of the head's products in rows; a model that needs more is so small that all its products are
# small.
_MOST = 128
TINY = 400  # multiplications below which torch.bmm does not call BLAS


def padding(prompts, model):
    """The length to which all prompts of a request are padded.

    It is the same for all, because the softmax rounds differently over another number of scores. It fits
    BLAS's tiles.
    """
    longest = max(-(-TINY // model.config.head_size), *map(len, prompts))
    return -(-longest // LEAST) * LEAST


def at_least(x, rows):
    """x [R, ...], padded with rows of zeros to at least `rows`."""
    return x if len(x) >= rows else F.pad(x, (0, 0) * (x.dim() - 1) + (0, rows - len(x)))


class Decoder:
    """A grid of prompts times completions in progress. `rows` holds their indices among all rows of the
    request.

    `compact` may shrink the grid. A prompt with fewer unfinished rows than another is padded with finished
    rows.
    """

    def __init__(self, model, prompts, generations, first_row, steps, padded=0):
        """steps is the maximum number of tokens of a completion. padded is the length of a prompt's keys from
        `padding`.
        """
        self.model = model
        device = model.device
        self.prompts = prompts
        self.steps = steps
        self._padded = padded
        enough = SMALL // model.head.numel() + 1
        self._least, self._least_of_head = LEAST, max(LEAST, enough) if enough <= _MOST else LEAST
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        count = len(prompts) * generations
        self.row_list = list(range(first_row, first_row + count))
        self.rows = torch.arange(first_row, first_row + count, device=device)
        self.start = self.lengths.repeat_interleave(generations)
        self.written = 0  # own positions with keys and values so far
        self.prompt_keys, self.prompt_values = [], []  # per layer: [P, K, h, S] and [P, K, S, h]
        self.keys, self.values = [], []  # per layer: [steps, R, K, h]; time first, so that unused steps stay untouched
        self.mask = self._prompt_mask()

    def _prompt_mask(self):
        """Additive mask [P, 1, 1, S] over prompt positions, None if all prompts have the same length."""
        lengths = self.lengths.tolist()
        padded = self._padded or max(lengths)
        if min(lengths) == padded:
            return None
        beyond = torch.arange(padded, device=self.model.device) >= self.lengths.unsqueeze(1)
        mask = torch.zeros(beyond.shape, dtype=self.model.dtype, device=self.model.device)
        return mask.masked_fill_(beyond, float("-inf"))[:, None, None, :]

    def prefill(self):
        """Runs the right-padded prompts. Returns the logits of their last tokens, one copy per
        completion: [R, V].
        """
        model = self.model
        count, longest = len(self.prompts), self._padded or max(map(len, self.prompts))
        ids = torch.tensor([p + [0] * (longest - len(p)) for p in self.prompts], device=model.device)
        # The results at padded positions are discarded, but the positions must exist.
        positions = torch.arange(longest, device=model.device).clamp(max=model.config.context_length - 1).repeat(count)
        x = model.embed(ids.view(-1), positions)
        mask = None if HAS_SDPA else causal_mask(longest, x)

        def attend(qkv):
            q, k, v = (by_row(part, count) for part in model.split_heads(qkv))
            self.prompt_keys.append(k.transpose(2, 3).contiguous())
            self.prompt_values.append(v.contiguous())
            return merge_heads(causal_attention(q, k, v, mask))

        last = torch.arange(count, device=model.device) * longest + self.lengths - 1
        last = F.pad(last, (0, max(0, self._least - count)))
        for layer in model.layers[:-1]:
            x = model.block(layer, x, positions, attend)
        x = model.block(model.layers[-1], x, positions, lambda qkv: attend(qkv).index_select(0, last), last)
        return self._logits(x)[:count].repeat_interleave(len(self.row_list) // count, 0)

    def allocate(self):
        """Allocates the buffers of own keys and values, after `prefill` and before the first step."""
        config = self.model.config
        shape = (self.steps - 1, len(self.row_list), config.kv_heads, config.head_size)
        like = self.prompt_keys[0]
        for _ in self.model.layers:
            self.keys.append(torch.empty(shape, dtype=like.dtype, device=like.device))
            self.values.append(torch.empty(shape, dtype=like.dtype, device=like.device))

    def decode(self, token):
        """Feeds token [R], the last token of each row, and returns the logits [R, V] of the next tokens."""
        model, slot = self.model, self.written
        self.written += 1
        # A padding row may be past its own end. Its result is discarded, but its position must exist.
        positions = (self.start + slot).clamp(max=model.config.context_length - 1)
        rows, least = len(token), self._least
        x = at_least(model.embed(token, positions), least)
        positions = positions if rows >= least else F.pad(positions, (0, least - rows))
        for index, layer in enumerate(model.layers):

            def attend(qkv, index=index):
                return at_least(self._attend(index, slot, *model.split_heads(qkv[:rows])), least)

            x = model.block(layer, x, positions, attend)
        return self._logits(x)[:rows]

    def _logits(self, x):
        """Residual stream [N, d] -> logits [N, V]."""
        return self.model.logits(at_least(x, self._least_of_head))[: len(x)]

    def _attend(self, index, slot, q, k, v):
        """Query [R, H, h], key and value [R, K, h] of one new token per row -> [R, H·h]. Stores key and
        value.
        """
        rows, heads, size = q.shape
        kv_heads = k.shape[1]
        shared_by = heads // kv_heads
        keys, values = self.keys[index], self.values[index]
        keys[slot], values[slot] = k, v
        window = slot + 1
        keys, values = keys[:window], values[:window]
        q = (q * size**-0.5).view(rows, kv_heads, shared_by, size)

        prompt_keys, prompt_values = self.prompt_keys[index], self.prompt_values[index]
        count, _, _, padded = prompt_keys.shape
        each = rows // count
        queries = each * shared_by  # of one prompt and one key/value head
        grouped = q.view(count, each, kv_heads, shared_by, size).transpose(1, 2).reshape(-1, queries, size)
        shared = torch.bmm(grouped, prompt_keys.view(-1, size, padded))  # [P·K, G·n, S]
        if self.mask is not None:
            shared.view(count, kv_heads, queries, padded).add_(self.mask)
        own = scores_of(q, keys)  # [R, K, n, t]
        own = own.view(count, each, kv_heads, shared_by, window).transpose(1, 2).reshape(-1, queries, window)
        weights = torch.cat((shared, own), -1).softmax(-1)  # [P·K, G·n, S+t]

        y = torch.bmm(weights[:, :, :padded], prompt_values.view(-1, padded, size))
        y = y.view(count, kv_heads, each, shared_by, size).transpose(1, 2).reshape(rows, kv_heads, shared_by, size)
        own = weights[:, :, padded:].view(count, kv_heads, each, shared_by, window).transpose(1, 2)
        own = mix_of(own.reshape(rows, kv_heads, shared_by, window), values)
        return (y + own).reshape(rows, heads * size)

    def compact(self, alive, below):
        """Shrinks the grid to prompts and columns with unfinished rows, if at most the share `below` of
        it is left.

        Returns the indices [R'] of the kept rows in the old grid, None if nothing changed.
        """
        each = len(self.row_list) // len(self.lengths)
        groups = [self.row_list[i : i + each] for i in range(0, len(self.row_list), each)]
        living = [sum(alive[row] for row in group) for group in groups]
        widest = max(living)
        kept = [i for i, n in enumerate(living) if n]
        if len(kept) * widest > below * len(self.row_list) or len(kept) * widest == len(self.row_list):
            return None
        places = []
        for i in kept:
            order = sorted(range(each), key=lambda column, group=groups[i]: not alive[group[column]])
            places.extend(i * each + column for column in sorted(order[:widest]))
        self.row_list = [self.row_list[place] for place in places]
        index = torch.tensor(places, device=self.model.device)
        self.rows = self.rows.index_select(0, index)
        self.start = self.start.index_select(0, index)
        for i in range(len(self.keys)):
            self.keys[i] = self._select(self.keys[i], index)
            self.values[i] = self._select(self.values[i], index)
        if len(kept) < len(groups):
            prompts = torch.tensor(kept, device=self.model.device)
            self.lengths = self.lengths.index_select(0, prompts)
            self.mask = self._prompt_mask()
            longest = self._padded or int(self.lengths.max())
            for i in range(len(self.prompt_keys)):
                self.prompt_keys[i] = self.prompt_keys[i].index_select(0, prompts)[..., :longest].contiguous()
                self.prompt_values[i] = self.prompt_values[i].index_select(0, prompts)[:, :, :longest].contiguous()
        return index

    def _select(self, cache, index):
        smaller = torch.empty((cache.shape[0], len(index)) + cache.shape[2:], dtype=cache.dtype, device=cache.device)
        torch.index_select(cache[: self.written], 1, index, out=smaller[: self.written])
        return smaller


def scores_of(q, keys):
    """q [R, K, n, h] against each row's own keys [t, R, K, h] -> [R, K, n, t]."""
    t, rows, kv_heads, size = keys.shape
    shared_by = q.shape[2]
    if shared_by > 1:
        own = keys.reshape(t, -1, size).permute(1, 2, 0)
        return torch.bmm(q.reshape(-1, shared_by, size), own).view(rows, kv_heads, shared_by, t)
    # A batch of products with one vector each, for which torch.bmm would call BLAS R·H times.
    return (q.squeeze(2) * keys).sum(-1).permute(1, 2, 0).unsqueeze(2)


def mix_of(weights, values):
    """Sum over t of weights [R, K, n, t] times values [t, R, K, h] -> [R, K, n, h]."""
    t, rows, kv_heads, size = values.shape
    shared_by = weights.shape[2]
    if shared_by > 1:
        own = values.reshape(t, -1, size).transpose(0, 1)
        return torch.bmm(weights.reshape(-1, shared_by, t), own).view(rows, kv_heads, shared_by, size)
    product = (weights.permute(3, 0, 1, 2).contiguous() * values).view(t, -1)
    columns = product.shape[1]
    if columns % VECTORS:
        product = F.pad(product, (0, -columns % VECTORS))
    return product.sum(0)[:columns].view(rows, kv_heads, 1, size)
