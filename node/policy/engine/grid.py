"""A layout of the tokens of a pass for a GPU. It equals layout.Layout's, with a number of kernels that
does not depend on the prompts.

All prefixes are in one padded grid and attend in one call, all rows are in another grid, and one gather fills
both. Nothing reads the padding, and its results are discarded. The gradients are gathered too: no two threads
ever add to the same number, which would make the bits depend on chance.

Letters in shapes: P groups, n rows of the largest, R = P·n, S tokens of the longest prefix, T of the longest
row; N tokens of the pass, M of them own; H, K, h as in model.py.
"""

import math

import torch

from .layout import Tokens
from .model import HAS_SDPA, aligned_mask, causal_attention, causal_mask, masked_attention, merge_heads


class Grid(Tokens):
    def __init__(self, groups, model, dtype=None):
        """groups holds (prefix, [own lengths]) in the order of their tokens. dtype is the type of
        attention's queries, None: that of the weights.
        """
        super().__init__(groups, model.device)
        self._heads = (model.config.heads, model.config.kv_heads)
        self._shape = P, n, S, T = (
            len(groups), max(len(lengths) for _, lengths in groups), max(prefix for prefix, _ in groups),
            max(max(lengths) for _, lengths in groups),
        )  # fmt: skip
        place, back = [0] * (P * S + P * n * T), []  # token of each grid position; grid position of each token
        for g, (prefix, lengths) in enumerate(groups):
            places = [g * S + i for i in range(prefix)]
            for row, length in enumerate(lengths):
                places.extend(P * S + (g * n + row) * T + i for i in range(length))
            for at in places:
                place[at] = len(back)
                back.append(at)
        self._place, self._back = (torch.tensor(index, device=model.device) for index in (place, back))
        self._back_own = self._back.index_select(0, self.own) - P * S
        self._prefix_mask = None if HAS_SDPA else causal_mask(S, model.flat, dtype)
        self._mask = self._row_mask(groups, dtype or model.dtype, model.device)

    def _row_mask(self, groups, dtype, device):
        """Additive mask of the rows' queries: [T, S + T], or [R, 1, T, S + T] if prefixes differ in
        length.
        """
        P, n, S, T = self._shape
        prefixes = [prefix for prefix, _ in groups]
        count = 1 if min(prefixes) == S else P
        mask = aligned_mask((count, T, S + T), dtype, device)
        mask[:, :, S:] = torch.full((T, T), -math.inf, dtype=dtype, device=device).triu_(1)
        if count == 1:
            return mask[0]
        beyond = torch.arange(S, device=device) >= torch.tensor(prefixes, device=device).unsqueeze(1)
        mask[:, :, :S].masked_fill_(beyond.unsqueeze(1), -math.inf)
        if n > 1:
            mask = aligned_mask((P, n, T, S + T), dtype, device).copy_(mask.unsqueeze(1)).flatten(0, 1)
        return mask.unsqueeze(1)

    def attend(self, qkv):
        """Queries, keys and values [N, H + 2·K, h] -> [N, H·h]."""
        return self._attend(qkv, True)

    def attend_own(self, qkv):
        """The same for own tokens only: [M, H·h]."""
        return self._attend(qkv, False)

    def _attend(self, qkv, prefixes):
        P, n, S, T = self._shape
        gathered = _Gather.apply(qkv.flatten(1), self._place, self._back).unflatten(1, qkv.shape[1:])
        before, own = gathered.split((P * S, P * n * T))
        q, kv = self._parts(own, n, T)
        done = []
        if S:
            before_q, before_kv = self._parts(before, 1, S)
            if prefixes:
                done.append(merge_heads(causal_attention(before_q, *before_kv.squeeze(2).unbind(), self._prefix_mask)))
            kv = torch.cat((before_kv.expand(-1, -1, n, -1, -1, -1), kv), 4)
        k, v = kv.flatten(1, 2).unbind()
        done.append(merge_heads(masked_attention(q, k, v, self._mask)))
        y = torch.cat(done) if len(done) > 1 else done[0]
        return _Scatter.apply(y, self._back if prefixes else self._back_own)

    def _parts(self, x, rows, length):
        """[P·rows·length, H + 2·K, h] -> queries [P·rows, H, length, h], and keys and values [2, P, rows, K, length, h]."""
        heads, kv_heads = self._heads
        q, kv = x.unflatten(0, (self._shape[0], rows, length)).split((heads, 2 * kv_heads), 3)
        return q.flatten(0, 1).transpose(1, 2), kv.unflatten(3, (2, kv_heads)).permute(3, 0, 1, 4, 2, 5)


class _Gather(torch.autograd.Function):
    """Rows of x [N, ·] at the positions of a grid. back holds the grid position of each row."""

    @staticmethod
    def forward(ctx, x, place, back):
        ctx.save_for_backward(back)
        return x.index_select(0, place)

    @staticmethod
    def backward(ctx, gradient):
        (back,) = ctx.saved_tensors
        return gradient.index_select(0, back), None, None


class _Scatter(torch.autograd.Function):
    """The inverse: rows of the grid y at `back`, which has no duplicates."""

    @staticmethod
    def forward(ctx, y, back):
        ctx.save_for_backward(back)
        ctx.rows = len(y)
        return y.index_select(0, back)

    @staticmethod
    def backward(ctx, gradient):
        (back,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.rows, *gradient.shape[1:]).index_copy_(0, back, gradient), None
