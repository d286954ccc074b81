"""Training and scoring: one forward and backward pass a micro-batch, the head in chunks, one Adam step at the end.

Takes a model, an Adam and parsed requests; returns numbers. Rows are prompt + completion, right-padded, positions from 0, without
the last token, which predicts nothing. Logits exist for completion positions only, and for a chunk of them at a time: the loss is a
sum over tokens, so a chunk's gradient is known as soon as its log-probabilities are (see loss.py).

Nothing is changed before every micro-batch has passed, so a failure (out of memory, say) leaves weights and optimizer as they were.

Letters in shapes: b rows of a micro-batch, T positions (padded), N completion tokens of the micro-batch, V vocabulary, d width.
"""

import contextlib
import math
from dataclasses import dataclass
from typing import List

import torch

from . import loss
from .protocol import INTERNAL, EngineError

# Most positions, padding included, of one forward pass: more doesn't make a CPU faster, and takes memory.
_POSITIONS = {"cpu": 1024, "cuda": 1 << 62}
# Logits held at a time, and the part of them worked on at a time (on a CPU: what its cache holds).
_CHUNK = {"cpu": 1 << 24, "cuda": 1 << 26}
_BLOCK = {"cpu": 1 << 18, "cuda": 1 << 26}
_MAX_SCALE = 65536.0


@dataclass
class MicroBatch:
    rows: List[int]  # indices into the request's sequences
    lengths: List[int]  # completion tokens of each
    ids: torch.Tensor  # [b, T]
    select: torch.Tensor  # [N] places in the flattened [b·T] whose logits predict completion tokens
    targets: torch.Tensor  # [N]
    tokens: int  # positions without padding


@dataclass
class Outcome:
    """The fields of UpdateResult; means over iterations, but entropy and mean_logprob are those before the first step."""

    loss: float = 0.0
    kl: float = 0.0
    grad_norm: float = 0.0
    entropy: float = 0.0
    mean_logprob: float = 0.0
    clip_ratio_low: float = 0.0
    clip_ratio_high: float = 0.0
    steps: int = 0
    computed_sequences: int = 0
    tokens: int = 0


def micro_batches(request, rows, device):
    """Splits the chosen rows, longest first, so that little is padded. Independent of everything but the request."""
    most = request.micro_batch or len(rows)
    length = {row: len(request.prompts[request.sequences[row].prompt]) + len(request.sequences[row].completion) - 1 for row in rows}
    batches, batch = [], []
    for row in sorted(rows, key=lambda row: (-length[row], row)):
        if batch and (len(batch) >= most or (len(batch) + 1) * length[batch[0]] > _POSITIONS[device.type]):
            batches.append(batch)
            batch = []
        batch.append(row)
    if batch:
        batches.append(batch)
    return [_micro_batch(request, batch, device) for batch in batches]


def _micro_batch(request, rows, device):
    inputs, select, targets, lengths = [], [], [], []
    for row in rows:
        sequence = request.sequences[row]
        prompt = request.prompts[sequence.prompt]
        inputs.append(prompt + sequence.completion[:-1])
        targets.extend(sequence.completion)
        lengths.append(len(sequence.completion))
    longest = max(map(len, inputs))
    for place, (row, length) in enumerate(zip(rows, lengths)):
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


def head(model, h, targets, temperature, derivative=None):
    """Log-probabilities of targets [N] and entropies, both [N], from normed hidden states h [N, d].

    With derivative, a function (begin, end, logp) -> d loss / d logp of those tokens, also adds the loss's gradient to the embedding's
    and returns that by h, [N, d]; without it the third result is None.
    """
    count, vocabulary = len(h), len(model.embedding)
    kind = h.device.type
    chunk, block = (max(1, size[kind] // vocabulary) for size in (_CHUNK, _BLOCK))
    weight = model.embedding.detach()
    logp, entropy = h.new_empty(count, dtype=model.dtype), h.new_empty(count, dtype=model.dtype)
    gradient = torch.empty_like(h) if derivative else None
    for begin in range(0, count, chunk):
        end = min(begin + chunk, count)
        logits = torch.mm(h[begin:end], weight.t()).to(model.dtype)
        for low in range(begin, end, block):
            high = min(low + block, end)
            z = logits[low - begin : high - begin]
            target = targets[low:high].unsqueeze(1)
            if temperature != 1:
                z.div_(temperature)
            z.sub_(z.amax(-1, keepdim=True))
            exp = z.exp()
            total = exp.sum(-1, keepdim=True)
            log_total = total.log()
            logp[low:high] = (z.gather(1, target) - log_total).squeeze(1)
            entropy[low:high] = (log_total - exp.mul(z).sum(-1, keepdim=True) / total).squeeze(1)
            if derivative:
                # d logp_target / d logits = (onehot - softmax) / temperature, written over the logits.
                slope = derivative(low, high, logp[low:high]).unsqueeze(1) / temperature
                torch.mul(exp, -slope / total, out=z)
                z.scatter_add_(1, target, slope)
        if derivative:
            gradient[begin:end] = torch.mm(logits, weight)
            if torch.is_autocast_enabled():
                model.embedding.grad.add_(torch.mm(logits.t(), h[begin:end]))
            else:
                model.embedding.grad.addmm_(logits.t(), h[begin:end])
    return logp, entropy, gradient


class Trainer:
    """The update and the scoring of one model. autocast is a reduced dtype or None; float16 gets a loss scale."""

    def __init__(self, model, adam, gradient_checkpointing=False, autocast=None):
        self.model = model
        self.adam = adam
        self.gradient_checkpointing = gradient_checkpointing
        self.autocast = autocast
        self.scale = _MAX_SCALE if autocast == torch.float16 else 1.0

    def precision(self):
        """The context in which forward passes run."""
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.type, dtype=self.autocast)

    @torch.no_grad()
    def score(self, request, model=None, rows=None):
        """Log-probabilities of the request's completions, a tensor [len(completion)] on the model's device a row; None for rows left out."""
        model = model or self.model
        rows = range(len(request.sequences)) if rows is None else rows
        result = [None] * len(request.sequences)
        for batch in micro_batches(request, rows, model.device):
            with self.precision():
                x = self._embed(model, batch)
                h = model.norm(model.hidden(x, len(batch.rows)).index_select(0, batch.select))
                logp, _, _ = head(model, h, batch.targets, request.temperature)
            for row, part in zip(batch.rows, logp.split(batch.lengths)):
                result[row] = part
        return result

    def update(self, request, reference=None):
        """One GRPO step, or num_iterations of them, on request (protocol.Update).

        reference holds the log-probabilities to keep close to, as `score` gives them, when beta is not 0. Returns an Outcome.
        """
        sequences = request.sequences
        advantages = [sequence.advantage for sequence in sequences]
        nonzero = [row for row, advantage in enumerate(advantages) if advantage != 0]
        rows = list(range(len(sequences))) if request.beta else nonzero
        outcome = Outcome(computed_sequences=len(nonzero))
        if not rows:
            return outcome
        objective = _Objective(request, reference, self.model)
        batches = micro_batches(request, rows, self.model.device)
        outcome.tokens = sum(batch.tokens for batch in batches)
        self.adam.prepare(self.model.flat)
        before = self._snapshot() if request.num_iterations > 1 else None
        try:
            for iteration in range(request.num_iterations):
                sums, norm = self._gradient(objective, batches)
                if request.max_grad_norm and norm > request.max_grad_norm:
                    self.model.flat_grad.mul_(request.max_grad_norm / (norm + 1e-6))
                self.adam.step(self.model.flat, self.model.flat_grad, request.learning_rate)
                outcome.steps += 1
                share = 1 / request.num_iterations
                outcome.loss += sums["loss"] * share
                outcome.grad_norm += norm * share
                outcome.kl += sums["kl"] / objective.all_tokens * share
                outcome.clip_ratio_low += sums["low"] / objective.all_tokens * share
                outcome.clip_ratio_high += sums["high"] / objective.all_tokens * share
                if iteration == 0:
                    outcome.entropy = sums["entropy"] / sums["tokens"]
                    outcome.mean_logprob = sums["logp"] / sums["tokens"]
        except BaseException:
            if before is not None:
                self._put_back(before)
            raise
        finally:
            self.model.drop_gradients()
        return outcome

    def _gradient(self, objective, batches):
        """Leaves the whole batch's gradient in model.flat_grad; returns the objective's sums and the gradient's norm."""
        while True:
            self.model.make_gradients()
            objective.begin()
            for batch in batches:
                self._backward(objective, batch)
            if self.scale != 1:
                self.model.flat_grad.mul_(1 / self.scale)
            norm = gradient_norm(self.model.flat_grad)
            if math.isfinite(norm):
                objective.keep()
                return objective.sums(), norm
            if self.autocast != torch.float16 or self.scale <= 1:
                raise EngineError(INTERNAL, "the gradient is not finite; no step was taken")
            self.scale /= 2

    def _backward(self, objective, batch):
        model = self.model
        with self.precision():
            with torch.no_grad():
                x = self._embed(model, batch)
            x.requires_grad_(True)
            h = model.hidden(x, len(batch.rows), self.gradient_checkpointing)
            h = model.norm(h.index_select(0, batch.select))
            with torch.no_grad():
                terms = objective.terms(batch)
                derivative = lambda low, high, logp: terms.derivative(low, high, logp) * self.scale  # noqa: E731
                logp, entropy, gradient = head(model, h.detach(), batch.targets, objective.temperature, derivative)
                objective.add(batch, logp, entropy, terms)
        h.backward(gradient)
        # The embeddings' gradient by hand: autograd's would be a dense [V, d] tensor a micro-batch.
        model.embedding.grad.index_add_(0, batch.ids.view(-1), x.grad)
        length = batch.ids.shape[1]
        model.positions.grad[:length].add_(x.grad.view(len(batch.rows), length, -1).sum(0))

    @staticmethod
    def _embed(model, batch):
        rows, length = batch.ids.shape
        positions = torch.arange(length, device=model.device).repeat(rows)
        return model.embed(batch.ids.view(-1), positions)

    def _snapshot(self):
        adam = self.adam
        return [t.to("cpu", copy=True) for t in (self.model.flat, adam.exp_avg, adam.exp_avg_sq)], adam.step_count

    @torch.no_grad()
    def _put_back(self, snapshot):
        tensors, self.adam.step_count = snapshot
        for tensor, saved in zip((self.model.flat, self.adam.exp_avg, self.adam.exp_avg_sq), tensors):
            tensor.copy_(saved)


class _Terms:
    """What the loss of one micro-batch's tokens is made of, all [N]; old is NaN where the token counts as on-policy."""

    def __init__(self, objective, weight, advantage, old, reference):
        self.objective, self.weight, self.advantage = objective, weight, advantage
        self.old, self.reference = old, reference
        self.total = dict.fromkeys(("loss", "kl", "low", "high"), 0.0)

    def derivative(self, begin, end, logp):
        """d loss / d logp of tokens begin..end; adds their loss to the totals."""
        objective, part = self.objective, slice(begin, end)
        old = torch.where(self.old[part].isnan(), logp, self.old[part])
        value, slope, low, high = loss.clipped_surrogate(
            logp, old, self.advantage[part], objective.epsilon, objective.epsilon_high
        )
        if objective.beta:
            kl, kl_slope = loss.kl_k3(logp, self.reference[part])
            value, slope = value + objective.beta * kl, slope + objective.beta * kl_slope
            self.total["kl"] += kl.double().sum()
        self.total["loss"] += (value * self.weight[part]).double().sum()
        self.total["low"] += low.sum()
        self.total["high"] += high.sum()
        return slope * self.weight[part]


class _Objective:
    """The loss of a whole request: token weights fixed before the split, old log-probabilities, and running sums."""

    def __init__(self, request, reference, model):
        self.temperature, self.beta = request.temperature, request.beta
        self.epsilon, self.epsilon_high = request.epsilon, request.epsilon_high
        self._sequences, self._reference = request.sequences, reference
        self._dtype, self._device = model.dtype, model.device
        lengths = [len(sequence.completion) for sequence in request.sequences]
        self.all_tokens = sum(lengths)
        self._weights = loss.token_weights(lengths, request.loss_type, request.max_completion_length)
        self._first = {}  # row -> log-probabilities of the first iteration
        self._current = {}
        self.begin()

    def begin(self):
        self._sums = dict.fromkeys(("loss", "kl", "low", "high", "logp", "entropy"), 0.0)
        self._tokens = 0
        self._current = {}

    def keep(self):
        """Makes the first iteration's log-probabilities those that later ones are compared with."""
        if not self._first:
            self._first = self._current

    def terms(self, batch):
        repeats = torch.tensor(batch.lengths, device=self._device)

        def spread(values):
            return self._tensor(values).repeat_interleave(repeats)

        old = torch.cat([self._old(row, length) for row, length in zip(batch.rows, batch.lengths)])
        reference = torch.cat([self._reference[row] for row in batch.rows]) if self.beta else None
        weight = spread([self._weights[row] for row in batch.rows])
        return _Terms(self, weight, spread([self._sequences[row].advantage for row in batch.rows]), old, reference)

    def _old(self, row, length):
        given = self._sequences[row].old_logprobs
        if given is not None:
            return self._tensor(given)
        return self._first.get(row, torch.full((length,), math.nan, dtype=self._dtype, device=self._device))

    def _tensor(self, values):
        return torch.tensor(values, dtype=self._dtype, device=self._device)

    def add(self, batch, logp, entropy, terms):
        for name, value in terms.total.items():
            self._sums[name] += value
        self._sums["logp"] += logp.double().sum()
        self._sums["entropy"] += entropy.double().sum()
        self._tokens += len(logp)
        for row, part in zip(batch.rows, logp.split(batch.lengths)):
            self._current[row] = part

    def sums(self):
        return dict({name: float(value) for name, value in self._sums.items()}, tokens=self._tokens)


def gradient_norm(flat, piece=4096):
    """The Euclidean norm. Pieces are summed in double precision: float32 alone is 2 % off over 10^8 elements."""
    whole = len(flat) // piece * piece
    squares = flat[:whole].view(-1, piece).norm(dim=1).double().square().sum() + flat[whole:].norm().double().square()
    return math.sqrt(float(squares))
