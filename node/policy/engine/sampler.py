"""One token a row from logits: temperature, top-k, top-p, and the log-probability and entropy that go with it.

Pure and without a look at values from the host, so that it runs inside a CUDA graph.
"""

import torch


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
    logp = logits.log_softmax(-1)
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
        # A device sums in parallel: in single precision the sum could fall where probabilities are 0, and a token without any be drawn.
        cdf = probs.cumsum(-1, dtype=torch.float64 if probs.is_cuda else None)
        mass = cdf[:, -1:]
        # Strictly below the whole mass, so that the first entry above it exists and has a probability of its own.
        below = mass.nextafter(torch.zeros_like(mass))
        target = torch.minimum((uniform.unsqueeze(1) * mass.double()).to(cdf.dtype), below)
        token = torch.searchsorted(cdf, target, right=True)
    return token.squeeze(1), logp.gather(1, token).squeeze(1).double(), entropy.double()


class Draws:
    """The random numbers of all rows and steps of a request, and what was drawn with them.

    The uniform numbers are drawn on the CPU at the start, so that a completion is a function of weights, prompts,
    options and seed, whichever rows are decoded together and whenever others end.
    """

    def __init__(self, request, limits, device):
        """limits holds the most tokens of each row, [P·G]."""
        self._request = request
        self._limits = limits
        shape = (max(limits), len(limits))
        generator = torch.Generator().manual_seed(request.seed % (1 << 63))
        self._uniform = torch.rand(*shape, generator=generator, dtype=torch.float64).to(device)
        self.tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, dtype=torch.float64, device=device)
        self.entropies = torch.zeros(shape, dtype=torch.float64, device=device)
        self.ended_at, self.terminated = list(limits), [False] * len(limits)
        self.alive = [True] * len(limits)

    def draw(self, logits, at, rows):
        """Draws token number `at` [1] of these rows [R] from logits [R, V], and keeps it; returns the tokens [R]."""
        uniform = self._uniform.index_select(0, at).squeeze(0).index_select(0, rows)
        token, logprob, entropy = sample(logits, uniform, self._request)
        for kept, value in ((self.tokens, token), (self.logprobs, logprob), (self.entropies, entropy)):
            kept.index_put_((at, rows), value)
        return token

    def look(self, begin, end, rows, row_list):
        """Sees which rows (rows [R], and as a list) have ended with tokens begin..end; makes the host wait for them."""
        for step, tokens in enumerate(self.tokens[begin:end].index_select(1, rows).tolist(), begin):
            for row, token in zip(row_list, tokens):
                if not self.alive[row]:
                    continue
                if token == self._request.eos_token_id:
                    self.ended_at[row], self.terminated[row], self.alive[row] = step + 1, True, False
                elif step + 1 >= self._limits[row]:
                    self.alive[row] = False
