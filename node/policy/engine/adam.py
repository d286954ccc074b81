"""Adam (Kingma & Ba 2015) with decoupled weight decay (AdamW, Loshchilov & Hutter 2019), on flat buffers.

The arithmetic is that of torch.optim.Adam and AdamW, in place: with torch's fused kernel on CUDA, elsewhere
in pieces that fit the processor's cache. A step allocates all its memory before it changes anything. The
module does not import torch.optim, which imports torch's compiler on torch 2.

With offload the moments stay on the host and pass through the device in pieces during the step. This saves 8
bytes a parameter on the device and needs 4 · STAGE elements of it during the step. The arithmetic, and so the
weights, are the same.
"""

import math
import sys

import torch

from .offload import Stage, host_empty
from .shortage import is_out_of_memory

_PIECE = {"cpu": 1 << 16, "cuda": 1 << 24}  # elements computed at a time, without the fused kernel
STAGE = {"cpu": 1 << 16, "cuda": 1 << 23}  # with offload, elements on the device at a time, of each moment, double-buffered
FUSED = ("cuda",)  # devices for which the fused kernel is used; the CPU's (torch 2.4 or later) is no faster than pieces


class Adam:
    """Moments of one flat parameter buffer: None before the first update. step_count counts updates."""

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, offload=False):
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay
        self.offload = offload
        self._fused = None
        self.reset()

    def reset(self):
        self.step_count = 0
        self.exp_avg = self.exp_avg_sq = None

    def prepare(self, like, device=None):
        """Allocates moments for a parameter buffer of this shape if there are none. Steps run on device."""
        if self.exp_avg is None:
            device = device or like.device
            first, second = (host_empty(like, device) if self.offload else torch.empty_like(like) for _ in range(2))
            self.exp_avg, self.exp_avg_sq = first.zero_(), second.zero_()

    def park(self, device):
        """Moves moments from device to the host, if they are on device."""
        if self.exp_avg is not None and not self.offload and self.exp_avg.device == device:
            self._move(lambda tensor: host_empty(tensor, device))

    def unpark(self, device):
        """Moves moments back to device, unless they are offloaded. If memory runs out, they stay on the
        host.
        """
        if self.exp_avg is not None and not self.offload and self.exp_avg.device != device:
            self._move(lambda tensor: torch.empty_like(tensor, device=device))

    def set_offload(self, offload, device):
        """Switches offload. On: the moments move to the host immediately. Off: `unpark` moves them back
        before the next step.
        """
        if offload:
            self.park(device)
        self.offload = offload

    def _move(self, empty):
        first, second = empty(self.exp_avg), empty(self.exp_avg_sq)
        self.exp_avg, self.exp_avg_sq = first.copy_(self.exp_avg), second.copy_(self.exp_avg_sq)

    def step(self, parameter, gradient, learning_rate):
        """Updates parameter [n] in place from gradient [n]. Call `prepare` first."""
        self.ready(parameter)(gradient, learning_rate)

    def ready(self, parameter):
        """Allocates all memory of a step on parameter [n] and returns the step as a function (gradient,
        learning_rate).

        So a shortage of memory shows before anything has changed.
        """
        work = self._fused_step(parameter) if self._has_fused(parameter) else self._plain_step(parameter)
        stage = None
        if self.offload:
            size = min(STAGE[parameter.device.type], len(parameter))
            stage = Stage((self.exp_avg, self.exp_avg_sq), size, parameter.device)

        @torch.no_grad()
        def step(gradient, learning_rate):
            self.step_count += 1
            whole = [(0, len(parameter), (self.exp_avg, self.exp_avg_sq))]
            for begin, end, (first, second) in stage.pieces() if stage else whole:
                work(parameter[begin:end], gradient[begin:end], first, second, learning_rate)

        return step

    def _plain_step(self, parameter):
        """Returns a function that updates any slice of the buffers, piece by piece."""
        piece = _PIECE[parameter.device.type]
        room = torch.empty_like(parameter[:piece])

        def work(parameter, gradient, exp_avg, exp_avg_sq, learning_rate):
            correction1 = 1 - self.beta1**self.step_count
            correction2 = math.sqrt(1 - self.beta2**self.step_count)
            for at in range(0, len(parameter), piece):
                p, g = parameter[at : at + piece], gradient[at : at + piece]
                first, second = exp_avg[at : at + piece], exp_avg_sq[at : at + piece]
                scratch = room[: len(p)]
                if self.weight_decay:
                    p.mul_(1 - learning_rate * self.weight_decay)
                first.mul_(self.beta1).add_(g, alpha=1 - self.beta1)
                second.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
                torch.sqrt(second, out=scratch).div_(correction2).add_(self.epsilon)
                p.addcdiv_(first, scratch, value=-learning_rate / correction1)

        return work

    def _fused_step(self, parameter):
        """The same with torch's fused kernel, which has no public function outside torch.optim."""
        step = torch.full((1,), self.step_count + 1.0, dtype=torch.float32, device=parameter.device)

        def work(parameter, gradient, exp_avg, exp_avg_sq, learning_rate):
            if self.weight_decay:  # by hand: torch 1.13 has no fused AdamW, and decay is all that AdamW adds
                parameter.mul_(1 - learning_rate * self.weight_decay)
            torch._fused_adam_(
                [parameter], [gradient], [exp_avg], [exp_avg_sq], [], [step], lr=learning_rate, beta1=self.beta1, beta2=self.beta2,
                weight_decay=0.0, eps=self.epsilon, amsgrad=False, maximize=False,
            )  # fmt: skip

        return work

    def _has_fused(self, parameter):
        """Whether the fused kernel exists and accepts these arguments. Tested once, on a few numbers."""
        if self._fused is None:
            self._fused = parameter.device.type in FUSED
            if self._fused:
                trial = [torch.ones(4, dtype=parameter.dtype, device=parameter.device) for _ in range(4)]
                work = self._fused_step(parameter)
                try:
                    work(*trial, 0.0)
                except (AttributeError, TypeError, RuntimeError) as error:
                    if is_out_of_memory(error):
                        raise
                    self._fused = False
                    line = str(error).splitlines()[0]
                    print(f"engine: no fused Adam ({line}); the step runs in pieces", file=sys.stderr, flush=True)
        return self._fused
