"""Training and scoring: one forward and backward pass per micro-batch, then one Adam step for all of
them.

Takes a model, an Adam and parsed requests. Returns numbers. Nothing changes before every micro-batch has
passed, so that a failure (such as out of memory) leaves weights and optimizer unchanged.

Letters in shapes: N completion tokens of a micro-batch, d width.
"""

import math
from dataclasses import dataclass

import torch

from . import loss, precision
from .batch import micro_batches, row_length
from .head import score_targets
from .parallel import Group
from .protocol import NOT_FINITE, EngineError

_MAX_SCALE = 65536.0
_SCALE_GROWTH = 500  # gradients between two doublings of the scale


@dataclass
class Outcome:
    """Fields of UpdateResult: means over iterations, except entropy and log-probabilities, which are from
    before the first step.
    """

    loss: float = 0.0
    kl: float = 0.0
    grad_norm: float = 0.0
    entropy: float = 0.0
    mean_logprob: float = 0.0
    sampling_logp_difference_max: float = 0.0
    sampling_logp_difference_mean: float = 0.0
    sampling_tokens: int = 0
    clip_ratio_low: float = 0.0
    clip_ratio_high: float = 0.0
    external_clip_ratio: float = 0.0
    external_ess: float = 0.0
    external_dropped: int = 0
    external_tokens: int = 0
    steps: int = 0
    computed_sequences: int = 0
    tokens: int = 0


class Trainer:
    """The update and the scoring of one model. autocast is a reduced dtype or None. float16 has a loss
    scale.

    In a `group` of several ranks each rank computes a share of an update's rows, and all take the same step.
    """

    def __init__(self, model, adam, gradient_checkpointing=False, autocast=None):
        self.model = model
        self.adam = adam
        self.gradient_checkpointing = gradient_checkpointing
        self.autocast = autocast
        self.group = Group()
        self.scale = _MAX_SCALE if autocast == torch.float16 else 1.0
        self.gradients = 0  # finite gradients so far; the scale may grow after every _SCALE_GROWTH of them

    def set_scale(self, scale=_MAX_SCALE, gradients=0):
        """Continues with this loss scale and number of gradients. Does nothing without float16."""
        if self.autocast == torch.float16:
            self.scale, self.gradients = scale, gradients

    def precision(self):
        """The context for forward passes."""
        return precision.autocast(self.model.device, self.autocast)

    @torch.no_grad()
    def score(self, request, model=None):
        """Log-probabilities of the request's completions: for each row a tensor [len(completion)] on the
        model's device.

        Rows of another rank are None.
        """
        return self._score(request, range(len(request.sequences)), model or self.model)

    def _score(self, request, rows, model):
        """`score` of some rows, without a gradient. All others are None."""
        result = [None] * len(request.sequences)
        for batch in micro_batches(request, self._share(request, rows), model, self.autocast):
            with self.precision():
                x = model.embed(batch.ids, batch.layout.positions)
                h = model.norm(model.hidden(x, batch.layout))
                logp, _, _ = score_targets(model, h, batch.targets, request.temperature)
            for row, part in zip(batch.rows, logp.split(batch.lengths)):
                result[row] = part
        return result

    def update(self, request, reference=None):
        """One GRPO step, or num_iterations of them, on request (protocol.Update).

        reference holds the reference model's log-probabilities, as from `score`, if beta is not 0. Returns an
        Outcome.
        """
        sequences = request.sequences
        advantages = [sequence.advantage for sequence in sequences]
        nonzero = [row for row, advantage in enumerate(advantages) if advantage != 0]
        rows = list(range(len(sequences))) if request.beta else nonzero
        outcome = Outcome(computed_sequences=len(nonzero))
        if not rows:
            return outcome
        objective = _Objective(request, reference, self.model, self._log_ratios(request))
        outcome.external_dropped = objective.dropped
        batches = micro_batches(request, self._share(request, rows), self.model, self.autocast)
        outcome.tokens = sum(row_length(request, row) for row in rows)
        self.adam.prepare(self.model.flat, self.model.device)
        before = self._snapshot() if request.num_iterations > 1 else None
        try:
            for iteration in range(request.num_iterations):
                sums, norm = self._gradient(objective, batches)
                if request.max_grad_norm and norm > request.max_grad_norm:
                    self.model.flat_grad.mul_(request.max_grad_norm / (norm + 1e-6))
                step = self.adam.ready(self.model.flat)
                self.group.agree()
                step(self.model.flat_grad, request.learning_rate)
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
                    outcome.external_tokens = int(sums["external"])
                    outcome.external_clip_ratio = sums["external_clipped"] / max(1, outcome.external_tokens)
                    outcome.external_ess = effective_share(
                        sums["external_weight"], sums["external_square"], outcome.external_tokens
                    )
                    outcome.sampling_tokens = int(sums["sampled"])
                    outcome.sampling_logp_difference_mean = sums["difference"] / max(1, outcome.sampling_tokens)
                    outcome.sampling_logp_difference_max = self.group.largest(objective.largest_difference())
        except BaseException:
            if before is not None:
                self._put_back(before)
            raise
        finally:
            self.model.drop_gradients()
        return outcome

    @torch.no_grad()
    def _log_ratios(self, request):
        """Sum over tokens of log pi - log mu, by row, for external completions whose correction needs the
        whole sequence.
        """
        rows = [
            row
            for row, sequence in enumerate(request.sequences)
            if request.correction and sequence.external and sequence.old_logprobs and sequence.advantage < 0
        ]
        if not rows:
            return {}
        ratios = torch.zeros(len(rows), dtype=torch.float64)
        scored = self._score(request, rows, self.model)
        for place, row in enumerate(rows):
            if scored[row] is not None:
                ratios[place] = float(scored[row].double().sum()) - math.fsum(request.sequences[row].old_logprobs)
        self.group.agree()
        return dict(zip(rows, self.group.sum_(ratios).tolist()))

    def _share(self, request, rows):
        """The part of rows that this rank computes."""
        rows = list(rows)
        return [rows[i] for i in self.group.share([row_length(request, row) for row in rows])]

    def _gradient(self, objective, batches):
        """Leaves the batch's gradient in model.flat_grad. Returns the objective's sums and the gradient's
        norm.
        """
        while True:
            self.model.make_gradients()
            objective.begin()
            for batch in batches:
                self._backward(objective, batch)
            self.group.agree()
            self.group.sum_(self.model.flat_grad)
            if self.scale != 1:
                self.model.flat_grad.mul_(1 / self.scale)
            norm = gradient_norm(self.model.flat_grad)
            if math.isfinite(norm):
                self.gradients += 1
                if self.autocast == torch.float16 and self.gradients % _SCALE_GROWTH == 0:
                    self.scale = min(2 * self.scale, _MAX_SCALE)
                objective.keep()
                return self.group.sum_numbers(objective.sums()), norm
            if self.autocast != torch.float16 or self.scale <= 1:
                raise EngineError(NOT_FINITE, "the gradient is not finite; no step was taken")
            self.scale /= 2

    def _backward(self, objective, batch):
        model = self.model
        with self.precision():
            with torch.no_grad():
                terms = objective.terms(batch)  # a copy to the device, which would otherwise wait for the forward pass
                x = model.embed(batch.ids, batch.layout.positions)
            x.requires_grad_(True)
            h = model.norm(model.hidden(x, batch.layout, self.precision if self.gradient_checkpointing else None))
            with torch.no_grad():
                derivative = lambda low, high, logp: terms.derivative(low, high, logp) * self.scale  # noqa: E731
                logp, entropy, gradient = score_targets(
                    model, h.detach(), batch.targets, objective.temperature, derivative
                )
                objective.add(batch, logp, entropy, terms)
        model.backward(h, gradient, x)
        model.embed_backward(batch.ids, batch.layout.positions, x.grad)

    def _snapshot(self):
        adam = self.adam
        return [t.to("cpu", copy=True) for t in (self.model.flat, adam.exp_avg, adam.exp_avg_sq)], adam.step_count

    @torch.no_grad()
    def _put_back(self, snapshot):
        tensors, self.adam.step_count = snapshot
        for tensor, saved in zip((self.model.flat, self.adam.exp_avg, self.adam.exp_avg_sq), tensors):
            tensor.copy_(saved)


class _Terms:
    """The inputs of the loss of one micro-batch's tokens, all [N]. old is NaN where the token counts as
    on-policy.

    sampled is not part of the loss: it holds the sampling log-probabilities of the rows that have them, or
    None. external is None if the batch has no row of another policy.
    """

    def __init__(self, objective, weight, advantage, old, reference, sampled, external):
        self.objective, self.weight, self.advantage = objective, weight, advantage
        self.old, self.reference, self.sampled, self.external = old, reference, sampled, external
        self.total = dict.fromkeys(_TOTALS, 0.0)

    def derivative(self, begin, end, logp):
        """d loss / d logp of tokens begin..end. Adds their loss to the totals."""
        objective, part = self.objective, slice(begin, end)
        old = torch.where(self.old[part].isnan(), logp, self.old[part])
        advantage, clipped = self.advantage[part], None
        if self.external is not None:
            advantage, clipped = self.external.correct(part, old, advantage)
        value, slope, low, high = loss.clipped_surrogate(
            logp, old, advantage, objective.epsilon, objective.epsilon_high, objective.delta
        )
        if self.external is not None:
            self.external.count(part, self.advantage[part], slope, clipped, self.total)
        if objective.beta:
            kl, kl_slope = loss.kl_k3(logp, self.reference[part])
            value, slope = value + objective.beta * kl, slope + objective.beta * kl_slope
            self.total["kl"] += kl.double().sum()
        self.total["loss"] += (value * self.weight[part]).double().sum()
        self.total["low"] += low.sum()
        self.total["high"] += high.sum()
        return slope * self.weight[part]


# Sums over a micro-batch's tokens. The external ones are over the external tokens with a known behavior
# log-probability.
_TOTALS = ("loss", "kl", "low", "high", "external", "external_clipped", "external_weight", "external_square")


class _External:
    """The weights of a micro-batch's external tokens, all [N].

    behaviour is log mu of each token, NaN for the node's own tokens and where mu is unknown. scale and
    limited belong to the whole sequence: its weight, and whether that was bounded.
    """

    def __init__(self, correction, behaviour, scale, limited):
        self.correction, self.behaviour, self.scale, self.limited = correction, behaviour, scale, limited

    def correct(self, part, policy, advantage):
        """The weighted advantages of a part of the tokens, and a mask of the tokens with a bounded
        weight.

        policy is their log-probability at the start of the update. The mask is None if only the clip of the
        ratio bounds.
        """
        if self.correction == "tapered":
            return advantage * self.scale[part], self.limited[part]
        if self.correction == "ftis":
            known = ~self.behaviour[part].isnan()
            weight, capped = loss.truncated(policy, torch.where(known, self.behaviour[part], policy))
            return advantage * self.scale[part] * weight, capped
        return advantage, None

    def count(self, part, advantage, slope, clipped, total):
        """Adds a part's tokens to the totals, with their weights relative to the node's own tokens."""
        counted = ~self.behaviour[part].isnan() & (advantage != 0)
        one, none = torch.ones_like(advantage), torch.zeros_like(advantage)
        weight = torch.where(counted, -slope / torch.where(counted, advantage, one), none).double()
        total["external"] += counted.sum()
        total["external_weight"] += weight.sum()
        total["external_square"] += weight.square().sum()
        total["external_clipped"] += (counted & (weight == 0 if clipped is None else clipped)).sum()


class _Objective:
    """The loss of a whole request: token weights fixed before the split, old log-probabilities, and
    running sums.
    """

    def __init__(self, request, reference, model, log_ratios):
        self.temperature, self.beta = request.temperature, request.beta
        self._correction, self._scales, self._limited = request.correction, {}, set()
        for row, ratio in log_ratios.items():
            if request.correction == "tapered":
                self._scales[row] = float(loss.tapered(torch.tensor(ratio, dtype=torch.float64)))
                if ratio > loss.NOTICEABLE:
                    self._limited.add(row)
            elif -ratio / len(request.sequences[row].completion) > request.divergence:
                self._scales[row] = 0.0
        self.dropped = 0 if request.correction != "ftis" else len(self._scales)
        self.epsilon, self.epsilon_high, self.delta = request.epsilon, request.epsilon_high, request.delta
        self._sequences, self._reference = request.sequences, reference
        self._dtype, self._device = model.dtype, model.device
        lengths = [len(sequence.completion) for sequence in request.sequences]
        self.all_tokens = sum(lengths)
        self._weights = loss.token_weights(lengths, request.loss_type, request.max_completion_length)
        self._first = {}  # row -> log-probabilities of the first iteration
        self._current = {}
        self.begin()

    def begin(self):
        self._sums = dict.fromkeys(_TOTALS + ("logp", "entropy", "difference"), 0.0)
        self._tokens = self._sampled = 0
        self._largest = None
        self._current = {}

    def keep(self):
        """Keeps the first iteration's log-probabilities, with which later iterations compare."""
        if not self._first:
            self._first = self._current

    def terms(self, batch):
        repeats = torch.tensor(batch.lengths, device=self._device)

        def spread(values):
            # With a given size, the host need not wait for the device to add up the lengths.
            return self._tensor(values).repeat_interleave(repeats, output_size=sum(batch.lengths))

        reference = torch.cat([self._reference[row] for row in batch.rows]) if self.beta else None
        weight = spread([self._weights[row] for row in batch.rows])
        advantage = spread([self._sequences[row].advantage for row in batch.rows])
        return _Terms(
            self, weight, advantage, self._old(batch), reference, self._sampling(batch), self._external(batch, spread)
        )

    def _external(self, batch, spread):
        """The batch's external tokens, None if there are none."""
        rows = [self._sequences[row] for row in batch.rows]
        known = [sequence.external and bool(sequence.old_logprobs) for sequence in rows]
        if not any(known):
            return None
        tokens = (
            sequence.old_logprobs if of else [math.nan] * len(sequence.completion) for of, sequence in zip(known, rows)
        )
        return _External(
            self._correction,
            self._tensor([value for row in tokens for value in row]),
            spread([self._scales.get(row, 1.0) for row in batch.rows]),
            spread([float(row in self._limited) for row in batch.rows]) > 0,
        )

    def _sampling(self, batch):
        """The sampling log-probabilities of the batch's tokens, if given; None after the first step."""
        given = [self._sequences[row].sampling_logprobs or () for row in batch.rows]
        return self._tensor([value for row in given for value in row]) if any(given) and not self._first else None

    def _old(self, batch):
        sequences = [self._sequences[row] for row in batch.rows]
        # These corrections weight external completions themselves. The clipped ratio is then that of the
        # update's own steps.
        given = [None if self._correction and s.external else s.old_logprobs for s in sequences]
        if self._first:
            pairs = zip(batch.rows, given)
            return torch.cat([self._first[row] if old is None else self._tensor(old) for row, old in pairs])
        tokens = (old or [math.nan] * length for old, length in zip(given, batch.lengths))
        return self._tensor([value for old in tokens for value in old])

    def _tensor(self, values):
        return torch.tensor(values, dtype=self._dtype, device=self._device)

    def add(self, batch, logp, entropy, terms):
        for name, value in terms.total.items():
            self._sums[name] += value
        self._sums["logp"] += logp.double().sum()
        self._sums["entropy"] += entropy.double().sum()
        self._tokens += len(logp)
        parts = logp.split(batch.lengths)
        self._current.update(zip(batch.rows, parts))
        if terms.sampled is not None:
            given = [part for row, part in zip(batch.rows, parts) if self._sequences[row].sampling_logprobs]
            self._compare(torch.cat(given) if len(given) < len(parts) else logp, terms.sampled)

    def _compare(self, logp, sampled):
        difference = (logp - sampled).abs_()
        largest = difference.max()
        self._largest = largest if self._largest is None else torch.maximum(self._largest, largest)
        self._sums["difference"] += difference.sum(dtype=torch.float64)
        self._sampled += len(difference)

    def sums(self):
        sums = {name: float(value) for name, value in self._sums.items()}
        return dict(sums, tokens=self._tokens, sampled=self._sampled)

    def largest_difference(self):
        """The largest |current log-probability - sampling log-probability|; 0 if none was given."""
        return 0.0 if self._largest is None else float(self._largest)


def effective_share(weight, square, count):
    """Effective sample size (Kish) from the sum of weights and of their squares, as a share of their
    number; 0 without weights.
    """
    return weight * weight / (count * square) if square else 0.0


def gradient_norm(flat, piece=4096):
    """The Euclidean norm. Sums pieces in double precision, because float32 alone is 2 % off over 10^8
    elements.
    """
    whole = len(flat) // piece * piece
    squares = flat[:whole].view(-1, piece).norm(dim=1).double().square().sum() + flat[whole:].norm().double().square()
    return math.sqrt(float(squares))
