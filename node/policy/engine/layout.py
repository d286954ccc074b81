"""Positions of the tokens of a forward pass and their attention: each prompt once, followed by all its
completions.

The G completions of a question attend to the same keys and values of the prompt, so a pass computes those
once instead of G times. This changes results, gradients included, only by rounding, because one position
affects another only through attention. The last token of a prompt is repeated in each completion, although
its logits do not differ between them. So exactly the own tokens are those that predict. Only attention uses
padding.

Letters in shapes: N tokens, M of them own, R rows of a group, p tokens of its prefix, T of its longest row;
H, K, h as in model.py.
"""

import torch

from .model import by_row, causal_attention, merge_heads


class Group:
    """`prefix` tokens, the first at position `begin`, then rows with these own lengths, one after
    another.
    """

    def __init__(self, begin, prefix, lengths, device):
        self.prefix, self.rows = prefix, len(lengths)
        self.own, self.end = begin + prefix, begin + prefix + sum(lengths)
        self._place = self._back = None  # indices of padded own tokens in the group, and the inverse
        longest = max(lengths)
        if min(lengths) < longest:
            starts = [sum(lengths[:i]) for i in range(len(lengths))]
            place = [start + min(t, n - 1) for start, n in zip(starts, lengths) for t in range(longest)]
            back = [row * longest + t for row, n in enumerate(lengths) for t in range(n)]
            self._place, self._back = (torch.tensor(index, device=device) for index in (place, back))

    def attend_prefix(self, q, k, v, mask):
        """The prefix's own attention: q [p, H, h], k and v [p, K, h] -> [p, H·h]."""
        return merge_heads(causal_attention(by_row(q, 1), by_row(k, 1), by_row(v, 1), mask))

    def attend_own(self, q, k, v, prefix_k, prefix_v, mask):
        """Rows attend to the prefix and to the earlier tokens of their row: q [m, H, h] -> [m, H·h]."""
        if self._place is not None:
            q, k, v = (x.index_select(0, self._place) for x in (q, k, v))
        q, k, v = (by_row(x, self.rows) for x in (q, k, v))
        if self.prefix:
            k, v = (torch.cat((by_row(x, 1).expand(self.rows, -1, -1, -1), own), 2) for x, own in ((prefix_k, k), (prefix_v, v)))
        y = merge_heads(causal_attention(q, k, v, mask))
        return y if self._back is None else y.index_select(0, self._back)


class Tokens:
    """The tokens of one pass. `positions` [N] are within their sequences, `own` [M] are the indices of
    those that predict.
    """

    def __init__(self, groups, device):
        """groups holds (prefix, [own lengths]) in the order of their tokens."""
        positions, own = [], []
        for prefix, lengths in groups:
            begin = len(positions) + prefix
            positions.extend(range(prefix))
            for length in lengths:
                positions.extend(range(prefix, prefix + length))
            own.extend(range(begin, begin + sum(lengths)))
        self.positions = torch.tensor(positions, device=device)
        self.own = torch.tensor(own, device=device)


class Layout(Tokens):
    """A layout for a CPU: group by group, so that the bits of a group do not depend on others."""

    def __init__(self, groups, model, mask):
        """mask is from model.causal_mask, for the longest sequence."""
        super().__init__(groups, mask.device)
        self._split_heads, self._mask, self._groups, begin = model.split_heads, mask, [], 0
        for prefix, lengths in groups:
            self._groups.append(Group(begin, prefix, lengths, mask.device))
            begin = self._groups[-1].end

    def attend(self, qkv):
        """Queries, keys and values [N, H + 2·K, h] -> [N, H·h]."""
        return self._attend(qkv, True)

    def attend_own(self, qkv):
        """The same for own tokens only: [M, H·h]."""
        return self._attend(qkv, False)

    def _attend(self, qkv, prefixes):
        q, k, v = self._split_heads(qkv)
        sizes = [size for group in self._groups for size in (group.prefix, group.end - group.own)]
        q, k, v = (x.split(sizes) for x in (q, k, v))  # not slices: autograd would pad and add the gradient of each
        parts = []
        for i, group in enumerate(self._groups):
            before, own = 2 * i, 2 * i + 1
            if group.prefix and prefixes:
                parts.append(group.attend_prefix(q[before], k[before], v[before], self._mask))
            parts.append(group.attend_own(q[own], k[own], v[own], k[before], v[before], self._mask))
        return torch.cat(parts)
