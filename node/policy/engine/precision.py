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


def for_sampling(model, dtype):
    """The model with the matrices of its blocks and its head in a reduced dtype, everything else shared; None: model.

    Each decoding step reads every matrix once and hardly does more, so half the bytes is nearly half the time, where
    autocast alone would read fp32 and write and read its cast at every step. Costs 2 bytes a parameter while it lives.
    """
    if dtype is None:
        return model
    reduced = copy.copy(model)
    reduced.layers = [
        type(layer)(*(tensor.detach().to(dtype) if tensor.dim() == 2 else tensor for tensor in layer)) for layer in model.layers
    ]
    reduced.head = model.head.detach().to(dtype)
    return reduced
