"""Additions to torch's autograd.

A backward pass that begins with a given gradient, recomputed blocks, products that add to their weight's
gradient in place, and bit-identical results on CUDA. torch's own functions for the first two import its
compiler from torch 2.1 on, which would cost every engine 50 to 170 MB.
"""

import contextlib
import functools

import torch
import torch.nn.functional as F


def given(h, gradient):
    """A scalar with the gradient `gradient` with respect to h, to start the backward pass of h."""
    return _Given.apply(h, gradient)


class _Given(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, gradient):
        ctx.gradient = gradient
        return h.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return ctx.gradient, None


class Recomputed(torch.autograd.Function):
    """Gradient checkpointing (Chen et al. 2016): stores only a function's input, and runs the function
    again in the backward pass.

    It adds to the gradients of the leaves that the function uses, as any backward pass does.
    """

    @staticmethod
    def forward(ctx, x, function, context):
        """Returns function(x). The backward pass runs it again within context(), where it builds its own
        graph.
        """
        ctx.save_for_backward(x)
        ctx.again = function, context
        return function(x)

    @staticmethod
    def backward(ctx, gradient):
        function, context = ctx.again
        x = ctx.saved_tensors[0].detach().requires_grad_(True)
        with torch.enable_grad():
            with context():
                y = function(x)
            begin = given(y, gradient)
        begin.backward()
        return x.grad, None, None


class InPlace(torch.autograd.Function):
    """A product with a leaf. Its backward pass adds to the leaf's gradient in the product's own kernel.

    Autograd would first make the gradient in separate memory of the same size, and then add it.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, transposed):
        ctx.save_for_backward(x)
        ctx.weight = weight  # the leaf itself, because a saved tensor need not have its gradient
        ctx.transposed, ctx.biased = transposed, bias is not None
        if transposed:
            return F.linear(x, weight, bias)
        return torch.addmm(bias, x, weight)

    @staticmethod
    def backward(ctx, gradient):
        (x,), weight = ctx.saved_tensors, ctx.weight
        if ctx.transposed:
            weight.grad.addmm_(gradient.t(), x)
        else:
            weight.grad.addmm_(x.t(), gradient)
        by_x = torch.mm(gradient, weight if ctx.transposed else weight.t())
        return by_x, None, gradient.sum(0) if ctx.biased else None, None


@contextlib.contextmanager
def repeatable(device):
    """The context in which a backward pass on CUDA is bit-identical each time.

    An update that is repeated after a crash must end with the same weights. If an operation has no
    deterministic form, or cuBLAS was set to another workspace, torch warns once instead.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if hasattr(torch.utils, "deterministic"):  # torch 2.2: filling each result of torch.empty would cost a kernel
        torch.utils.deterministic.fill_uninitialized_memory = False
    warn_only = not _all_deterministic(device)
    _set_deterministic(True, warn_only)
    try:
        yield
    finally:
        _set_deterministic(*before)


def _set_deterministic(mode, warn_only):
    """torch.use_deterministic_algorithms, which from torch 2.10 on also loads the compiler."""
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)


@functools.lru_cache(maxsize=None)
def _all_deterministic(device):
    """Whether this torch has a deterministic form of all that a backward pass uses. It is tried once, because
    the kernels of attention have one only if others are refused, and a pass that fails cannot be repeated.
    """
    attention = getattr(F, "scaled_dot_product_attention", lambda q, k, v, **_: q + k + v)
    _set_deterministic(True, False)
    try:
        for dtype in (torch.float32, torch.float16) if device.type == "cuda" else (torch.float32,):
            x = torch.zeros(1, 1, 16, 64, dtype=dtype, device=device, requires_grad=True)
            y = attention(x, x, x, is_causal=True) + attention(x, x, x, attn_mask=x.new_zeros(16, 16))
            rows = y.view(16, 64).index_select(0, torch.zeros(2, dtype=torch.long, device=device))
            torch.autograd.grad(torch.mm(rows, rows.t()).sum(), x)
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        return False
    finally:
        _set_deterministic(False, False)
    return True
