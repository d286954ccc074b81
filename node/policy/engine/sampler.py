"""One token per row from logits, by temperature, top-k and top-p, with its log-probability and the
entropy.

Pure, and without reading device values on the host, so that it can run inside a CUDA graph.
"""

import torch

BLOCK = 256  # tokens of a block of the two-level inverse CDF


def sample(logits, uniform, request, room=(None, None, None)):
    """Draws one token per row from logits [R, V] by inverse CDF of uniform [R].

    room has three buffers [R, V] to work in, None: new ones.

    Returns the token, its log-probability at the sampling temperature before top-k and top-p, and the entropy
    there (nats), each [R]. Temperature 0 takes the largest logit and reports log-probabilities at temperature
    1. top-k keeps ties of the k-th logit. top-p keeps the smallest set of largest probabilities that reaches
    top_p, like Hugging Face's samplers.
    """
    logits, logp, probs = distribution(logits, request, *room[:2])
    entropy = -torch.mul(probs, logp, out=room[2]).sum(-1)
    if request.temperature == 0:
        token = logits.argmax(-1, keepdim=True)
    else:
        cdf = torch.cumsum(filtered(logits, probs, request), -1, out=room[2])
        mass = cdf[:, -1:]
        # Strictly below the total mass, so that the first entry above it exists and has a positive
        # probability.
        below = mass.nextafter(torch.zeros_like(mass))
        target = torch.minimum((uniform.unsqueeze(1) * mass.double()).to(cdf.dtype), below)
        token = torch.searchsorted(cdf, target, right=True)
    return token.squeeze(1), logp.gather(1, token).squeeze(1).double(), entropy.double()


def distribution(logits, request, logp_out=None, probs_out=None):
    """Logits divided by the temperature, their log-probabilities and probabilities, [R, V] each. The last
    two are in logp_out and probs_out if given.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if request.temperature not in (0, 1):
        logits = logits / request.temperature
    logp = torch.log_softmax(logits, -1, out=logp_out)
    return logits, logp, torch.exp(logp, out=probs_out)


def filtered(logits, probs, request):
    """probs [R, V], with 0 where top-k or top-p excludes a token."""
    if 0 < request.top_k < logits.shape[1]:
        smallest = logits.topk(request.top_k).values[:, -1:]
        probs = probs.masked_fill(logits < smallest, 0)
    if 0 < request.top_p < 1:
        ordered, index = probs.sort(-1, descending=True)
        before = ordered.cumsum(-1) - ordered
        ordered = ordered.masked_fill(before >= request.top_p * ordered.sum(-1, keepdim=True), 0)
        probs = torch.zeros_like(probs).scatter_(-1, index, ordered)
    return probs


class BlockSampler:
    """Draws like `sample`, with few kernels and little memory traffic, for a device that computes in
    parallel.

    A parallel sum over a whole vocabulary needs double precision to be safe, which is 16 bytes an entry. So
    the inverse CDF has two levels. The running sum of double-precision sums over blocks of BLOCK tokens
    selects the block. The running sum of that block's probabilities selects the token. Both running sums grow
    only where a probability is positive, so that no other token is ever drawn.
    """

    def __init__(self, rows, vocabulary, request, dtype, device):
        """dtype is the dtype of the log-probabilities: float32, or float64 for a float64 model."""
        self._request = request
        self._vocabulary = vocabulary
        blocks = -(-vocabulary // BLOCK)
        self._room = torch.zeros(rows, (blocks + 1) * BLOCK, dtype=dtype, device=device)  # its tail stays 0
        self._zero = torch.zeros(rows, 1, dtype=torch.float64, device=device)
        self._before = torch.zeros(rows, blocks + 1, dtype=torch.float64, device=device)  # its first column stays 0

    def draw(self, logits, uniform, token_out, figures_out):
        """Draws one token per row from logits [R, V] by uniform [R].

        Writes it to token_out [R, 1], and the log-probability and the entropy to figures_out [2, R].
        """
        request, room = self._request, self._room[:, : self._vocabulary]
        logits, logp, probs = distribution(logits, request, probs_out=room)
        torch.sum(probs * logp, -1, out=figures_out[1])  # the negative entropy
        if request.temperature == 0:
            torch.argmax(logits, -1, keepdim=True, out=token_out)
        else:
            kept = filtered(logits, probs, request)
            if kept is not probs:
                room.copy_(kept)
            self._search(uniform.unsqueeze(1), token_out)
        torch.gather(logp, 1, token_out, out=figures_out[0].unsqueeze(1))

    def _search(self, uniform, token_out):
        rows = len(self._room)
        blocks = self._room.view(rows, -1, BLOCK)
        sums = blocks[:, :-1].sum(-1, dtype=torch.float64)
        cdf = sums.cumsum(-1)
        # In double precision a uniform number below 1 times the mass is below the mass, so that a first sum
        # above it exists.
        target = uniform * cdf[:, -1:]
        # A NaN has no sum above it, which selects the block of zeros at the end.
        block = torch.searchsorted(cdf, target, right=True)
        self._before[:, 1:] = cdf
        within = blocks.gather(1, block.unsqueeze(2).expand(-1, 1, BLOCK)).squeeze(1).cumsum(-1, dtype=torch.float64)
        # Rounding may put the rest of the target at or above the block's own sum.
        rest = torch.minimum(target - self._before.gather(1, block), within[:, -1:].nextafter(self._zero))
        torch.add(torch.searchsorted(within, rest, right=True), block, alpha=BLOCK, out=token_out)
        # On CUDA an index past the end ends the process, and under MPS all others on its GPU.
        token_out.clamp_(max=self._vocabulary - 1)


class Draws:
    """The random numbers of all rows and steps of a request, and the tokens drawn with them.

    The uniform numbers are drawn on the CPU at the start. A completion is therefore a function of weights,
    prompts, options and seed, and does not depend on the rows decoded with it or on their ends.
    """

    def __init__(self, request, limits, device):
        """limits holds the maximum number of tokens of each row, [P·G]."""
        self._request = request
        self._ends = {request.eos_token_id, *request.stop_token_ids}
        self._limits = limits
        shape = (max(limits), len(limits))
        generator = torch.Generator().manual_seed(request.seed % (1 << 63))
        self.uniform = torch.rand(*shape, generator=generator, dtype=torch.float64).to(device)
        self.tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, dtype=torch.float64, device=device)
        self.entropies = torch.zeros(shape, dtype=torch.float64, device=device)
        self.ended_at, self.terminated = list(limits), [False] * len(limits)
        self.alive = [True] * len(limits)
        self._room = None  # buffers of `sample`, kept because fresh memory at each step costs page faults

    def draw(self, logits, at, rows):
        """Draws and stores token number `at` [1] of these rows [R] from logits [R, V]. Returns the tokens
        [R].
        """
        uniform = self.uniform.index_select(0, at).squeeze(0).index_select(0, rows)
        token, logprob, entropy = sample(logits, uniform, self._request, self._room_of(logits))
        for kept, value in ((self.tokens, token), (self.logprobs, logprob), (self.entropies, entropy)):
            kept.index_put_((at, rows), value)
        return token

    def _room_of(self, logits):
        """The buffers for logits [R, V]."""
        if self._room is None or self._room.shape[1] < len(logits):
            self._room = None  # frees it first
            self._room = logits.new_empty((3, *logits.shape), dtype=torch.promote_types(logits.dtype, torch.float32))
        return self._room[:, : len(logits)].unbind()

    def look(self, begin, end, rows, row_list):
        """Updates which rows (rows [R], and as a list) have ended with tokens begin..end. Makes the host
        wait for the tokens.
        """
        for step, tokens in enumerate(self.tokens[begin:end].index_select(1, rows).tolist(), begin):
            for row, token in zip(row_list, tokens):
                if not self.alive[row]:
                    continue
                if token in self._ends:
                    self.ended_at[row], self.terminated[row], self.alive[row] = step + 1, True, False
                elif step + 1 >= self._limits[row]:
                    self.alive[row] = False
