"""Counts the kernels of a decoding step and of an update's pass on CUDA, as operations that reach the
dispatcher.

A small model's speed there is bound by launches, so that these counts determine it. They are for GPT-2's
twelve layers, with the branches for CUDA forced on CPU tensors. A fake SDPA is one operation, with CUDA's
layout of the result.
"""

import collections
import contextlib
import dataclasses

import pytest
import torch
from engine import autograd, batch, generate, gpt2, head, model, protocol, static, update
from engine.adam import Adam
from torch.utils._python_dispatch import TorchDispatchMode

CONFIG = gpt2.Config(50257, 1024, width=48, heads=12, layers=12, inner=96, norm_epsilon=1e-5, gelu="tanh", eos_token_id=50256)
# Operations that reach the dispatcher and launch nothing: views, allocations, and conversions to the type
# that a tensor already has.
NOTHING = {
    "view", "_unsafe_view", "_reshape_alias", "as_strided", "transpose", "t", "expand", "slice", "select", "unsqueeze", "squeeze", "permute",
    "split", "split_with_sizes", "chunk", "unbind", "flatten", "unflatten", "detach", "alias", "is_same_size", "to",
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh",
}  # fmt: skip


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.found, self.paused = collections.Counter(), False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        if not self.paused and name not in NOTHING:
            self.found[name] += 1
        return function(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def as_one(self, name):
        if self.paused:
            yield
            return
        self.found[name] += 1
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def total(self):
        return sum(self.found.values())


def one_attention(counter):
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, mask, is_causal):
            with counter.as_one("attention"):
                if is_causal:
                    mask = torch.full((q.shape[2], k.shape[2]), float("-inf")).triu(1)
                weights = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + mask).softmax(-1)
                y = (weights @ v).transpose(1, 2).contiguous().transpose(1, 2)
            ctx.save_for_backward(q, k, v, weights)
            return y

        @staticmethod
        def backward(ctx, gradient):
            q, k, v, weights = ctx.saved_tensors
            with counter.as_one("attention's backward"):
                by_weights = gradient @ v.transpose(2, 3)
                by_scores = weights * (by_weights - (by_weights * weights).sum(-1, keepdim=True)) * q.shape[3] ** -0.5
                return by_scores @ k, by_scores.transpose(2, 3) @ q, weights.transpose(2, 3) @ gradient, None, None

    return lambda q, k, v, attn_mask=None, is_causal=False: Attention.apply(q, k, v, attn_mask, is_causal)


def gpt2_on_cuda(config=CONFIG):
    made = gpt2.GPT2(config)
    made.initialise(0)
    made.kind = "cuda"
    return made


def test_a_decoding_step_is_at_most_220(monkeypatch):
    counts, step = [], static.StaticDecoder.step

    def counted(self, window):
        counter = Counter()
        with counter:
            step(self, window)
        counts.append(counter)

    monkeypatch.setattr(static.StaticDecoder, "step", counted)
    generate.generate(gpt2_on_cuda(), protocol.Generate([[1, 2, 3], [4] * 5], 4, 6), generate.Static())
    assert len(counts) == 5
    assert all(counter.total() <= 220 for counter in counts), counts[0].found.most_common()


@pytest.mark.parametrize(
    "prompts, lengths, most",
    [(1, [50, 64, 45, 63], 679), (4, [50, 64, 45, 63], 679), (2, [64, 50] * 8, 891)],
    ids=["4 rows of a prompt", "4 rows of 4 prompts", "16 rows of 2 prompts"],
)  # fmt: skip
def test_the_operations_of_an_updates_pass_do_not_grow(monkeypatch, prompts, lengths, most):
    """The vocabulary is small, and the head's chunks have a quarter of the positions that GPT-2's have, as all lengths here."""
    on_cuda = gpt2_on_cuda(dataclasses.replace(CONFIG, vocab_size=257, eos_token_id=256))
    with autograd.repeatable(on_cuda.device):
        pass  # the first one tries kernels
    for sizes in (head.CHUNK, head.BLOCK):
        monkeypatch.setitem(sizes, "cuda", sizes["cuda"] // CONFIG.vocab_size * 257 // 4)
    counter = Counter()
    monkeypatch.setattr(model, "HAS_SDPA", True)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", one_attention(counter), raising=False)
    monkeypatch.setattr(gpt2, "layer_norm", lambda x, w, b, e: torch.nn.functional.layer_norm(x, w.shape, w, b, e))
    rows = [protocol.Sequence(i % prompts, list(range(n)), 1.0, None, [-1.0] * n) for i, n in enumerate(lengths)]
    request = protocol.Update([list(range(48))] * prompts, rows)
    trainer = update.Trainer(on_cuda, Adam())
    (one,) = batch.micro_batches(request, range(len(rows)), on_cuda)
    objective = update._Objective(request, None, on_cuda, {})
    on_cuda.make_gradients()
    with counter:
        trainer._backward(objective, one)
    assert counter.total() <= most, counter.found.most_common()
    assert on_cuda.flat_grad.abs().max() > 0
