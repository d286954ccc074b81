"""The precision of products: fp32 and tf32 by a switch of torch, bf16 and fp16 by autocast over fp32
weights.

The weights, their gradients, Adam, the softmax over the vocabulary and the loss are fp32 in all of them.
fp32, tf32 and bf16 need nothing else. fp16's gradients are scaled (update.py).
"""

import contextlib
import copy
import math

import torch

from .protocol import SELF_TEST, EngineError, bad

REDUCED = {"bf16": torch.bfloat16, "fp16": torch.float16}

# The largest difference in nats between a token's log-probability in sampling and in training that rounding
# explains. fp32 and tf32: far above rounding (1e-6 and 1e-3), far below a difference that moves a clipped
# ratio. In the reduced dtypes sampling and training round products separately. One rounding step of a logit
# near 100, which GPT-2 has, is 0.5 in bf16 and 0.0625 in fp16. Not measured.
SELF_TEST_LIMIT = 0.05
REDUCED_LIMIT = {torch.bfloat16: 0.5, torch.float16: 0.1}


def set_matmul(precision):
    """Sets products of fp32 matrices on CUDA to TF32 for "tf32", else to exact, by the one call that all
    torch versions have.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def check(precision, device):
    """Refuses bf16 on a GPU without units for it (before Ampere). torch 1.13 fails there, and later
    versions emulate it slowly.
    """
    if precision == "bf16" and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8:
        name = torch.cuda.get_device_name(device)
        raise bad(f"precision bf16 needs an Ampere GPU or newer, not {name}. Try: precision tf32")


def judge(difference, dtype, precision, device, graphs):
    """Returns the limit of a load's self-test. dtype is the reduced one in use, or None.

    Raises EngineError if the difference is not finite, or above the limit without a reduced dtype. In a
    reduced dtype a larger difference may still be rounding, and the parent warns of it.
    """
    limit = REDUCED_LIMIT.get(dtype, SELF_TEST_LIMIT)
    if math.isfinite(difference) and (difference <= limit or dtype is not None):
        return limit
    remedies = ["torch 2.2 or newer" if _version() < (2, 2) else "another version of torch"]
    if device.type == "cuda" and precision != "fp32":
        remedies.append("precision fp32")
    if graphs:
        remedies.append("cuda_graphs false")
    figure = f"by up to {difference:.3g} nats, where {limit:g} is the limit" if math.isfinite(difference) else "and are not finite"
    raise EngineError(
        SELF_TEST,
        f"the self-test failed: log-probabilities of the same tokens differ between sampling and training {figure} "
        f"(torch {torch.__version__}, {device}, precision {precision}, "
        f"CUDA graphs {'on' if graphs else 'off'}). Try: {' or '.join(remedies)}",
    )


def _version():
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def avoid_cudnn_attention():
    """Turns cuDNN's attention kernels off, if this torch has them (about 2.4 on). Other kernels replace
    them.

    On Hopper, in bf16 and fp16, they fail with "No execution plans support the graph" (pytorch #140930), or
    the gradient of the queries is NaN with a mask (#196678).
    """
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)


def autocast(device, dtype):
    """The context for forward passes. dtype is a reduced one or None."""
    if dtype is None:
        return contextlib.nullcontext()
    # No cache of casts: it would stay empty, because the weights are views, and it conflicts with CUDA
    # graphs.
    return torch.autocast(device.type, dtype=dtype, cache_enabled=False)


class Reduced:
    """A model for sampling with a reduced-dtype copy of its matrices and biases. The rest is the model's
    own.

    Each decoding step reads every matrix once and does little more, so that half the bytes take nearly half
    the time. The copy runs outside autocast, which would repeat the casts at every step. The residual stream,
    the norms and their weights stay fp32, as in training, and only inputs of products are cast. The copy
    needs 2 bytes a parameter.
    """

    def __init__(self, model, dtype):
        self._model = model
        self._flat = torch.empty_like(model.flat, dtype=dtype)
        leaves = model.cut_leaves(self._flat)
        self.model = reduced = copy.copy(model)
        at = {id(leaf): low for leaf, low in zip(model.leaves, leaves)}
        reduced.layers = [
            type(layer)(*(leaf if leaf is None or "norm" in name else at[id(leaf)] for name, leaf in zip(layer._fields, layer))) for layer in model.layers
        ]
        reduced.head = at[id(model.head)]

    def refresh(self):
        """Copies the model's current weights."""
        self._flat.copy_(self._model.flat.detach())
        return self.model
