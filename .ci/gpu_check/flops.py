"""Floating-point operations of GPT-2's calls, counted as model FLOPs. Pure.

A multiply-add is two. Work that is computed twice (checkpointing) counts once. Softmax and norms don't count.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int

    @property
    def parameters(self):
        """Weights and biases, with the tied head counted once: 124 439 808 for GPT-2."""
        d = self.width
        return self.layers * (12 * d * d + 13 * d) + 2 * d + (self.vocabulary + self.context) * d


GPT2 = Shape(layers=12, heads=12, width=768, context=1024, vocabulary=50257)
SMALL = Shape(layers=2, heads=4, width=64, context=256, vocabulary=50257)  # for the dry run


def blocks(shape, positions, attended):
    """Forward pass of all blocks at positions that each attend to `attended` others: 24 d^2 per layer for the
    weights, 4 d per pair.
    """
    return positions * shape.layers * (24 * shape.width**2 + 4 * shape.width * attended)


def head(shape, positions):
    return 2 * positions * shape.width * shape.vocabulary


def generate(shape, prompts, prompt_tokens, generations, new_tokens):
    """Each prompt is processed once and continued `generations` times."""
    rows = prompts * generations
    reading = blocks(shape, prompts * prompt_tokens, (prompt_tokens + 1) / 2) + head(shape, prompts)
    writing = blocks(shape, rows * (new_tokens - 1), prompt_tokens + new_tokens / 2) + head(shape, rows * (new_tokens - 1))
    return reading + writing


def update(shape, rows, prompt_tokens, new_tokens):
    """Forward and backward (twice the forward) of whole sequences, the head at completion positions."""
    length = prompt_tokens + new_tokens - 1
    return 3 * (blocks(shape, rows * length, (length + 1) / 2) + head(shape, rows * new_tokens))


def round_of(shape, own, external, generations, prompt_tokens, new_tokens):
    """One node's round: I prompts sampled G times, (I + J) G sequences trained on."""
    return generate(shape, own, prompt_tokens, generations, new_tokens) + update(shape, (own + external) * generations, prompt_tokens, new_tokens)
