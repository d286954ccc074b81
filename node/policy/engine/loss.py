"""The GRPO objective, per token, as pure functions with their derivatives.

Takes and returns tensors, without models, batches or devices. The loss is a weighted sum over completion
tokens, so that its gradient with respect to a token's log-probability depends only on that token. Because the
gradient has a closed form, the update can run head, loss and backward chunk by chunk. Sources: DeepSeekMath
(arXiv:2402.03300) eq. 3 and 4, DAPO (arXiv:2503.14476) for epsilon_high, INTELLECT-2 (arXiv:2505.07291) for
delta, Dr. GRPO (arXiv:2503.20783); names as in TRL. For external completions: TOPR (arXiv:2503.14286) for
`tapered`, F-TIS (arXiv:2605.22537) for `truncated`.
"""

import torch


def token_weights(lengths, loss_type, max_completion_length=0):
    """The weight of each token of each sequence in the batch's loss, one float per sequence.

    lengths are the completion lengths of the whole batch, before it is split, including rows with advantage
    zero. bnpo: 1 / all tokens. grpo: 1 / (B · own tokens). dr_grpo: 1 / (B · max_completion_length).
    """
    count = len(lengths)
    if loss_type == "bnpo":
        return [1.0 / sum(lengths)] * count
    if loss_type == "grpo":
        return [1.0 / (count * length) for length in lengths]
    if loss_type == "dr_grpo":
        return [1.0 / (count * max_completion_length)] * count
    raise ValueError(f"unknown loss type {loss_type!r}")


def clipped_surrogate(logp, old, advantage, epsilon, epsilon_high, delta=0.0):
    """-min(min(r, delta)·A, clip(r, 1-epsilon, 1+epsilon_high)·A) with r = exp(logp - old); all tensors
    [N].

    delta bounds the weight of a token with A < 0 that has become far likelier; 0: no bound. Returns the loss,
    its derivative by logp, and two masks: tokens clipped below (A < 0) and above (A > 0). The derivative is 0
    where a token is clipped, and beyond delta where A < 0.
    """
    ratio = torch.exp(logp - old)
    low = (ratio < 1 - epsilon) & (advantage < 0)
    high = (ratio > 1 + epsilon_high) & (advantage > 0)
    flat = low | high
    if delta:
        flat |= (ratio > delta) & (advantage < 0)
        ratio = ratio.clamp(max=delta)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
    loss = -torch.minimum(ratio * advantage, clipped * advantage)
    derivative = (-ratio * advantage).masked_fill(flat, 0)
    return loss, derivative, low, high


RATIO_CAP = 2.0  # cap of `truncated`
NOTICEABLE = 0.01  # log of a ratio; a ratio nearer to 1 counts as not clipped, because only rounding decides there


def tapered(log_ratio):
    """The weight of a sequence with a negative advantage: clip(pi / mu, 0, 1) of the whole sequence.

    log_ratio is the sum of log pi - log mu over its tokens. A sequence with a positive advantage has weight
    1.
    """
    return log_ratio.clamp(max=0).exp()


def truncated(logp, behaviour):
    """The weight of a token, min(pi / mu, RATIO_CAP), and a mask of the tokens above the cap; all tensors
    [N].
    """
    ratio = torch.exp(logp - behaviour)
    return ratio.clamp(max=RATIO_CAP), ratio > RATIO_CAP


def kl_k3(logp, reference):
    """Schulman's k3 estimate of KL(policy ‖ reference) and its derivative by logp.

    exp(d) - d - 1 with d = reference - logp, per token.
    """
    difference = reference - logp
    growth = torch.exp(difference)
    return growth - difference - 1, 1 - growth
