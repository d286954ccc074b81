"""What numbers are multiplied in: fp32 and tf32 by a switch of torch's, bf16 and fp16 by autocast over fp32 weights.

The weights, their gradients, Adam, the softmax over the vocabulary and the loss are fp32 in all of them. fp32, tf32 and
bf16 need nothing else; fp16's gradients are scaled (update.py).
"""

import contextlib
import copy

import torch

from .protocol import DEVICE, EngineError

REDUCED = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_matmul(precision):
    """Products of fp32 matrices on CUDA: in TF32 for "tf32", else exact. The one call all torch versions agree on."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def check(precision, device):
    """Refuses bf16 where the GPU has no units for it (before Ampere): torch 1.13 fails, later ones emulate it slowly."""
    if precision == "bf16" and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8:
        name = torch.cuda.get_device_name(device)
        raise EngineError(DEVICE, f"precision bf16 needs an Ampere GPU or newer, not {name}. Try: precision tf32")


def autocast(device, dtype):
    """The context in which forward passes run; dtype is a reduced one or None."""
    if dtype is None:
        return contextlib.nullcontext()
    # The cache of casts would hold nothing here, since the weights are views, and is at odds with CUDA graphs.
    return torch.autocast(device.type, dtype=dtype, cache_enabled=False)


class Reduced:
    """A model for sampling whose matrices and biases are a copy in a reduced dtype; the rest is the model's own.

    Each decoding step reads every matrix once and hardly does more, so half the bytes is nearly half the time. It runs
    outside autocast, which would cast at every step what is cast here once: the residual stream, the norms and their
    weights stay fp32, as in training, and only what enters a product is cast. Takes 2 bytes a parameter while it lives.
    """

    def __init__(self, model, dtype):
        self._model = model
        self._flat = torch.empty_like(model.flat, dtype=dtype)
        leaves = model.cut_leaves(self._flat)
        self.model = reduced = copy.copy(model)
        at = {id(leaf): low for leaf, low in zip(model.leaves, leaves)}
        reduced.layers = [
            type(layer)(*(leaf if "norm" in name else at[id(leaf)] for name, leaf in zip(layer._fields, layer))) for layer in model.layers
        ]
        reduced.head = at[id(model.head)]

    def refresh(self):
        """Copies the model's weights as they are now."""
        self._flat.copy_(self._model.flat.detach())
        return self.model
