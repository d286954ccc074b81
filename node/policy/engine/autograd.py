"""What the engine adds to torch's autograd: a backward pass that begins with a given gradient, blocks that are computed
again, products that add to their weight's gradient in place, and the same bits each time on CUDA.

torch's own ways to the first two import its compiler, from torch 2.1 on: 50 to 170 MB in every engine, for nothing.
"""

import contextlib

import torch
import torch.nn.functional as F


def given(h, gradient):
    """A scalar whose gradient by h is `gradient`: to run the backward pass of h from."""
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
    """Gradient checkpointing (Chen et al. 2016): keeps a function's input alone, and runs it once more for the backward pass.

    Gradients of the leaves that it uses are added to theirs, as in any backward pass.
    """

    @staticmethod
    def forward(ctx, x, function, context):
        """function(x), which makes its own graph when it runs within context() once more."""
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
    """A product with a leaf, whose gradient the backward pass adds to the leaf's in the product's own kernel: autograd would
    make it first, in as much memory again, and add it then."""

    @staticmethod
    def forward(ctx, x, weight, bias, transposed):
        ctx.save_for_backward(x)
        ctx.weight = weight  # the leaf itself, whose gradient a saved tensor need not have
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
def repeatable():
    """The context in which a backward pass on CUDA has the same bits each time: an update that is repeated after a crash must end with
    the same weights. Operations without such a form say so in a warning, once."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if hasattr(torch.utils, "deterministic"):  # torch 2.2: filling what torch.empty gives would be a kernel each
        torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
