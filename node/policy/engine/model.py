"""Common parts of the architectures: weights as views of one flat buffer, gradients likewise, and causal
attention.

`Model` is the interface for training, sampling and saving. gpt2.py and llama.py implement it, and
architecture.py chooses one. A model's `config` has vocab_size, context_length, width, heads, kv_heads,
head_size, layers, eos_token_id (-1: none) and architecture (Hugging Face's model_type), and gives names and
shapes. The caller passes attention as a function to `block`, because training, prefill and decoding differ
only in that.

Letters in shapes: B rows, T positions, N = B·T, d width, H heads, K key/value heads, h head_size, V
vocabulary.
"""

import math

import torch
import torch.nn.functional as F

from .autograd import InPlace, Recomputed, given, repeatable


# PyPI's torch multiplies by MKL. Up to THIN rows, as in a decoding step, MKL takes 1.05 to 1.6 times as long for x Wᵀ
# as for W xᵀ, with W [out, in] (torch 2.15, AVX-512). With more rows it makes no difference. The heads of GPT-2 and
# SmolLM2 with the sampler after them take 1.27 and 1.10 times as long for 32 rows. OpenBLAS keeps x Wᵀ, for whose bits
# decoder.py's constants were found.
HAS_MKL = torch.backends.mkl.is_available()
THIN = 64


class Model:
    """Weights in one flat buffer.

    `tensors` are its views by Hugging Face's names, for reading, saving and hashing. `leaves` are its views
    for the computation, which join some adjacent parameters to one matrix, and carry the gradients. Both are
    views of `flat`.
    """

    def __init__(self, config, device="cpu", dtype=torch.float32):
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.kind = self.device.type  # selects how work is split: "cpu" or "cuda"
        self.shapes = config.shapes()
        self.flat = torch.empty(sum(map(math.prod, self.shapes.values())), dtype=dtype, device=self.device)
        self.flat_grad = None
        self.tensors = self.views(self.flat)
        self._leaf_shapes = config.leaf_shapes()
        self.leaves = self.cut_leaves(self.flat)
        for leaf in self.leaves:
            leaf.requires_grad_(True)

    def views(self, flat):
        """Splits a buffer shaped like `flat` into tensors by parameter name."""
        return dict(zip(self.shapes, cut(flat, self.shapes.values())))

    def cut_leaves(self, flat):
        """Splits a buffer shaped like `flat` into leaves."""
        return cut(flat, self._leaf_shapes)

    def rebase(self, flat):
        """Makes flat, a copy of the weights on any device, the storage of all views. The views stay the
        same objects.

        There must be no gradients. `device` is unchanged: it is where the model computes.
        """
        self.flat = flat
        pairs = list(zip(self.tensors.values(), cut(flat, self.shapes.values())))
        for tensor, view in pairs + list(zip(self.leaves, self.cut_leaves(flat))):
            tensor.data = view

    def make_gradients(self):
        """Gives every leaf a zero gradient, a view of one flat buffer. Autograd adds to it in place."""
        if self.flat_grad is not None:
            self.flat_grad.zero_()  # never a second buffer
            return
        self.flat_grad = torch.zeros_like(self.flat)
        for leaf, grad in zip(self.leaves, cut(self.flat_grad, self._leaf_shapes)):
            leaf.grad = grad

    def drop_gradients(self):
        self.flat_grad = None
        for leaf in self.leaves:
            leaf.grad = None

    @torch.no_grad()
    def initialise(self, seed):
        """Draws weights from a normal distribution with the architecture's deviations, as a function of
        the seed. Norms are 1, biases 0.
        """
        generator = torch.Generator().manual_seed(seed % (1 << 63))
        for name, tensor in self.tensors.items():
            if name.endswith(".bias"):
                tensor.zero_()
            elif self.config.is_norm(name):
                tensor.fill_(1)
            else:
                # Always drawn in float32 on the CPU, so that a seed gives the same weights on every device.
                direct = tensor.dtype == torch.float32 and tensor.device.type == "cpu"
                drawn = tensor if direct else torch.empty(tensor.shape)
                drawn.normal_(0, self.config.initial_std(name), generator=generator)
                if not direct:
                    tensor.copy_(drawn)

    # Architectures provide: `layers`, one record of leaves per block; `embedding` [V, d]; `head` [V, d], the
    # output matrix, which is `embedding` itself if the two are tied; and the methods below.

    def embed(self, ids, positions):
        """Token ids and positions [N] -> residual stream [N, d]."""
        raise NotImplementedError

    def embed_backward(self, ids, positions, gradient):
        """Adds the gradient [N, d] of `embed`'s result to the gradients of the embeddings.

        Done by hand, because autograd would make a dense [V, d] tensor each time.
        """
        self.add_rows(self.embedding.grad, ids, gradient)

    def add_rows(self, target, index, rows):
        """Adds rows [N, d] to target [·, d] at index [N].

        On CUDA by sorting, because index_add_ adds to one row in any order there.
        """
        if self.kind == "cpu":
            target.index_add_(0, index, rows)
        else:
            target.index_put_((index,), rows, accumulate=True)

    def block(self, layer, x, positions, attend, kept=None):
        """One transformer block on the residual stream x [N, d] of tokens at positions [N].

        attend takes [N, H + 2·K, h], queries, keys and values, with positions applied if the architecture
        does so, and returns [N, H·h]. Query head i attends to key/value head i // (H / K). With kept, indices
        [M], only those tokens continue: attend returns [M, H·h], and the block [M, d].
        """
        raise NotImplementedError

    def norm(self, x):
        """The norm after the last block, on any rows of the residual stream. Logits are `norm(x) @
        head.T`.
        """
        raise NotImplementedError

    def logits(self, x):
        """Residual stream [N, d] -> logits [N, V]."""
        return self.linear(self.norm(x), self.head)

    def affine(self, x, weight, bias):
        """x [N, in] times weight [in, out], plus bias [out]."""
        if self._adds_in_place(weight):
            return InPlace.apply(x, weight, bias, False)
        return torch.addmm(bias, _operand(x, weight), weight)

    def linear(self, x, weight, bias=None):
        """x [N, in] times the transpose of weight [out, in], plus bias [out] if given."""
        if self._adds_in_place(weight):
            return InPlace.apply(x, weight, bias, True)
        x = _operand(x, weight)
        if HAS_MKL and self.kind == "cpu" and len(x) <= THIN and torch.is_inference_mode_enabled():  # sampling alone
            return (torch.mm(weight, x.t()) if bias is None else torch.addmm(bias.unsqueeze(1), weight, x.t())).t()
        return F.linear(x, weight, bias)

    def _adds_in_place(self, weight):
        """False on a CPU, where adding in place changes the bits of a sum, and under autocast."""
        return self.kind != "cpu" and weight.grad is not None and torch.is_grad_enabled() and not torch.is_autocast_enabled()

    def split_heads(self, qkv):
        """[N, H + 2·K, h] -> queries [N, H, h], keys and values [N, K, h]."""
        heads, kv_heads = self.config.heads, self.config.kv_heads
        return qkv.split((heads, kv_heads, kv_heads), 1)

    def backward(self, h, gradient, x):
        """Runs the backward pass of h, computed from x, from the gradient of the loss by h.

        It adds to the leaves' gradients, and leaves the gradient by x in x.grad.
        """
        if self.kind == "cpu":
            given(h, gradient).backward()
            return
        # Dozens of small additions in one kernel. SDPA's own backward pass is not deterministic unless
        # requested. A leaf whose products have already added in place has no gradient here. Under autocast
        # none do.
        with repeatable(self.device):
            x.grad, *gradients = torch.autograd.grad(given(h, gradient), [x, *self.leaves], allow_unused=True)
        found = [(leaf.grad, gradient) for leaf, gradient in zip(self.leaves, gradients) if gradient is not None]
        torch._foreach_add_(*map(list, zip(*found)))

    def hidden(self, x, layout, recompute=None):
        """All blocks over full sequences: x [N, d] of a layout.Layout's tokens -> [M, d] of its own
        tokens, before the last norm.

        The last block computes only keys and values of a prefix, because nothing else of it is used.
        recompute turns on gradient checkpointing: a function that returns the context of a forward pass.
        Blocks then run again in the backward pass.
        """
        arguments = [(layer, layout.attend, None) for layer in self.layers[:-1]] + [(self.layers[-1], layout.attend_own, layout.own)]
        for layer, attend, kept in arguments:

            def block(x, layer=layer, attend=attend, kept=kept):
                return self.block(layer, x, layout.positions, attend, kept)

            again = recompute is not None and torch.is_grad_enabled()
            x = Recomputed.apply(x, block, recompute) if again else block(x)
        return x


def cut(flat, shapes):
    """Consecutive views of flat with these shapes. They are plain tensors, because autograd's views would
    keep flat alive.
    """
    views, at = [], 0
    for shape in shapes:
        size = math.prod(shape)
        views.append(flat[at : at + size].view(shape).data)
        at += size
    return views


HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


class _LayerNorm(torch.autograd.Function):
    """Layer norm with the same bits on any number of threads.

    torch's CPU kernel sums the gradients of weight and bias in one part per thread, so here one thread sums
    them.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, epsilon):
        y, mean, deviation = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(x, weight, bias, mean, deviation)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, mean, deviation = ctx.saved_tensors
        arguments = (gradient, x, weight.shape, mean, deviation, weight, bias)
        backward, threads = torch.ops.aten.native_layer_norm_backward, torch.get_num_threads()
        if threads == 1:
            return (*backward(*arguments, [True, True, True]), None)
        by_x = backward(*arguments, [True, False, False])[0]
        torch.set_num_threads(1)
        try:
            _, by_weight, by_bias = backward(*arguments, [False, True, True])
        finally:
            torch.set_num_threads(threads)
        return by_x, by_weight, by_bias, None


def layer_norm(x, weight, bias, epsilon):
    """Layer norm of x [N, d] over its last dimension."""
    if x.is_cuda or not torch.is_grad_enabled():
        return F.layer_norm(x, weight.shape, weight, bias, epsilon)
    return _LayerNorm.apply(x, weight, bias, epsilon)


def _operand(x, weight):
    """x in the dtype of a reduced weight (precision.Reduced). With other weights x is unchanged, because
    autocast casts both.
    """
    return x.to(weight.dtype) if weight.dtype in (torch.bfloat16, torch.float16) else x


def causal_mask(length, like, dtype=None):
    """An additive mask, -inf where a position may not attend, of at least `length` positions. SDPA needs
    aligned rows.

    Use the queries' dtype (None: that of like). Every call of attention casts a mask of another dtype, and
    the backward pass keeps each cast.
    """
    length = -(-length // 16) * 16
    mask = torch.full((length, length), -math.inf, dtype=like.dtype, device=like.device).triu_(1)
    return mask if dtype is None else mask.to(dtype)


def by_row(x, rows):
    """Queries, keys or values [rows·T, H, h] -> [rows, H, T, h]."""
    return x.view(rows, -1, *x.shape[1:]).transpose(1, 2)


def merge_heads(y):
    """[rows, H, T, h] -> [rows·T, H·h]."""
    rows, heads, length, size = y.shape
    return y.transpose(1, 2).reshape(rows * length, heads * size)


def aligned_mask(shape, dtype, device):
    """A mask of zeros with rows that begin at multiples of 16 elements, as SDPA's kernels need."""
    return torch.zeros((*shape[:-1], -(-shape[-1] // 16) * 16), dtype=dtype, device=device)[..., : shape[-1]]


def causal_attention(q, k, v, mask):
    """softmax(q kᵀ / sqrt(h) + mask) v.

    Queries [rows, H, T, h] of the last T of S positions, keys and values [rows, K, S, h] of all positions ->
    [rows, H, T, h]. mask is from causal_mask. SDPA needs none if T equals S.
    """
    length, positions = q.shape[2], k.shape[2]
    if HAS_SDPA and length == positions:
        return F.scaled_dot_product_attention(q, *_repeated(q, k, v), is_causal=True)
    return masked_attention(q, k, v, mask[positions - length : positions, :positions].to(q.dtype))


def masked_attention(q, k, v, mask):
    """The same with a custom mask: [T, S], or [rows, 1, T, S], in the queries' dtype."""
    k, v = _repeated(q, k, v)
    if HAS_SDPA:
        # Contiguous: until torch 2.2 the memory-efficient kernel read wrong queries with a mask (pytorch
        # #112577).
        return F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous(), attn_mask=mask)
    rows, heads, length, size = q.shape
    positions = k.shape[2]
    q, k, v = (x.reshape(rows * heads, -1, size) for x in (q, k, v))
    mask = mask.expand(rows, heads, length, positions).reshape(rows * heads, length, positions) if mask.dim() == 4 else mask
    scores = torch.baddbmm(mask.expand(rows * heads, length, positions), q, k.transpose(1, 2), alpha=size**-0.5)
    return torch.bmm(scores.softmax(-1), v).view(rows, heads, length, size)


def _repeated(q, k, v):
    """Keys and values for each query head.

    Not with SDPA's enable_gqa (torch 2.5): with it float32 on CUDA falls back to the kernel that stores all
    scores.
    """
    if k.shape[1] == q.shape[1]:
        return k, v
    return tuple(x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
