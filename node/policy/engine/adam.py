"""Adam (Kingma & Ba 2015) with decoupled weight decay (AdamW, Loshchilov & Hutter 2019), on flat buffers.

The same arithmetic as torch.optim.Adam and AdamW, in place and in pieces that stay in the processor's cache. It
allocates nothing once `prepare` has run, so memory can't run out in the middle of a step; and it spares the import of
torch's compiler, which torch.optim pulls in on torch 2.
"""

import math

import torch

_PIECE = {"cpu": 1 << 16, "cuda": 1 << 24}  # elements


class Adam:
    """Moments of one flat parameter buffer: None before the first update. step_count counts updates."""

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0):
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay
        self.reset()

    def reset(self):
        self.step_count = 0
        self.exp_avg = self.exp_avg_sq = self._scratch = None

    def prepare(self, like):
        """Allocates moments and scratch for a parameter buffer shaped like this one, if there are none yet."""
        if self.exp_avg is None:
            first, second = torch.zeros_like(like), torch.zeros_like(like)
            self.exp_avg, self.exp_avg_sq = first, second
        if self._scratch is None:
            self._scratch = torch.empty_like(like[: _PIECE[like.device.type]])

    @torch.no_grad()
    def step(self, parameter, gradient, learning_rate):
        """One update of parameter [n] in place from gradient [n]. `prepare` must have run."""
        self.step_count += 1
        correction1 = 1 - self.beta1**self.step_count
        correction2 = math.sqrt(1 - self.beta2**self.step_count)
        piece = len(self._scratch)
        for at in range(0, len(parameter), piece):
            p, g = parameter[at : at + piece], gradient[at : at + piece]
            first, second = self.exp_avg[at : at + piece], self.exp_avg_sq[at : at + piece]
            scratch = self._scratch[: len(p)]
            if self.weight_decay:
                p.mul_(1 - learning_rate * self.weight_decay)
            first.mul_(self.beta1).add_(g, alpha=1 - self.beta1)
            second.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            torch.sqrt(second, out=scratch).div_(correction2).add_(self.epsilon)
            p.addcdiv_(first, scratch, value=-learning_rate / correction1)
