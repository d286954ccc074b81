"""GPT-2 as plain functions: configuration, names and shapes, the transformer block.

Sources: Radford et al. 2019; Hugging Face's GPT2LMHeadModel for names and layout (Conv1D: weight [in, out]).
Letters in shapes as in model.py.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .model import Model, layer_norm

PREFIX = "transformer."

# Class names in Hugging Face's config.json: with the head of a language model, and without a head.
CLASSES = ("GPT2LMHeadModel", "GPT2Model")


@dataclass(frozen=True)
class Config:
    vocab_size: int
    context_length: int
    width: int
    heads: int
    layers: int
    inner: int
    norm_epsilon: float
    gelu: str  # "tanh" or "none", the argument of F.gelu
    eos_token_id: int  # -1: none

    architecture = "gpt2"

    @property
    def kv_heads(self):
        return self.heads

    @property
    def head_size(self):
        return self.width // self.heads

    def saved_fields(self):
        """Fields that config.json must have besides those that were read."""
        return {"model_type": self.architecture, "architectures": [CLASSES[0]]}

    def shapes(self):
        """Parameter name -> shape, in the order of the flat buffer. The head is the embedding and has no
        entry.
        """
        d, inner = self.width, self.inner
        shapes = {PREFIX + "wte.weight": (self.vocab_size, d), PREFIX + "wpe.weight": (self.context_length, d)}
        for i in range(self.layers):
            h = f"{PREFIX}h.{i}."
            shapes[h + "ln_1.weight"] = shapes[h + "ln_1.bias"] = (d,)
            shapes[h + "attn.c_attn.weight"], shapes[h + "attn.c_attn.bias"] = (d, 3 * d), (3 * d,)
            shapes[h + "attn.c_proj.weight"], shapes[h + "attn.c_proj.bias"] = (d, d), (d,)
            shapes[h + "ln_2.weight"] = shapes[h + "ln_2.bias"] = (d,)
            shapes[h + "mlp.c_fc.weight"], shapes[h + "mlp.c_fc.bias"] = (d, inner), (inner,)
            shapes[h + "mlp.c_proj.weight"], shapes[h + "mlp.c_proj.bias"] = (inner, d), (d,)
        shapes[PREFIX + "ln_f.weight"] = shapes[PREFIX + "ln_f.bias"] = (d,)
        return shapes

    def leaf_shapes(self):
        """Shapes of the leaves of the computation in the same buffer. GPT-2 joins no parameters."""
        return list(self.shapes().values())

    def name_of(self, stored):
        """The parameter name of a file's tensor, None for a tensor to skip.

        It skips the buffers of the attention mask, and the head, which is the embedding.
        """
        if stored.endswith((".attn.bias", ".attn.masked_bias")) or stored == "lm_head.weight":
            return None
        return stored if stored.startswith(PREFIX) else PREFIX + stored

    def is_norm(self, name):
        return ".ln_" in name

    def initial_std(self, name):
        """0.02; residual projections divided by sqrt(2·layers)."""
        return 0.02 / math.sqrt(2 * self.layers) if ".c_proj." in name else 0.02


def parse_config(fields):
    """Reads Hugging Face's config (architecture.Fields)."""
    fields.require(
        scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True, add_cross_attention=False, tie_word_embeddings=True
    )
    gelu = fields.choice(
        "activation_function", {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}, default="gelu_new"
    )
    width, heads = fields.integer("n_embd"), fields.integer("n_head")
    if width % heads:
        raise fields.error(f"n_embd {width} is not a multiple of n_head {heads}")
    vocab_size = fields.integer("vocab_size")
    return Config(
        vocab_size=vocab_size,
        context_length=fields.integer("n_positions", "n_ctx"),
        width=width,
        heads=heads,
        layers=fields.integer("n_layer"),
        inner=fields.integer("n_inner", default=4 * width),
        norm_epsilon=fields.fraction("layer_norm_epsilon", 1e-5),
        gelu=gelu,
        eos_token_id=fields.eos_token_id(vocab_size),
    )


class Layer(NamedTuple):
    norm1_weight: torch.Tensor
    norm1_bias: torch.Tensor
    qkv_weight: torch.Tensor
    qkv_bias: torch.Tensor
    attention_weight: torch.Tensor
    attention_bias: torch.Tensor
    norm2_weight: torch.Tensor
    norm2_bias: torch.Tensor
    up_weight: torch.Tensor
    up_bias: torch.Tensor
    down_weight: torch.Tensor
    down_bias: torch.Tensor


class GPT2(Model):
    def __init__(self, config, device="cpu", dtype=torch.float32):
        super().__init__(config, device, dtype)
        leaves = self.leaves
        self.embedding, self.positions = leaves[:2]
        self.head = self.embedding
        self.layers = [Layer(*leaves[i : i + 12]) for i in range(2, len(leaves) - 2, 12)]
        self.norm_weight, self.norm_bias = leaves[-2:]

    def embed(self, ids, positions):
        return F.embedding(ids, self.embedding) + F.embedding(positions, self.positions)

    def embed_backward(self, ids, positions, gradient):
        super().embed_backward(ids, positions, gradient)
        self.add_rows(self.positions.grad, positions, gradient)

    def block(self, layer, x, positions, attend, kept=None):
        config = self.config
        y = layer_norm(x, layer.norm1_weight, layer.norm1_bias, config.norm_epsilon)
        y = attend(self.affine(y, layer.qkv_weight, layer.qkv_bias).view(len(x), 3 * config.heads, -1))
        x = x if kept is None else x.index_select(0, kept)
        x = x + self.affine(y, layer.attention_weight, layer.attention_bias)
        y = layer_norm(x, layer.norm2_weight, layer.norm2_bias, config.norm_epsilon)
        y = F.gelu(self.affine(y, layer.up_weight, layer.up_bias), approximate=config.gelu)
        return x + self.affine(y, layer.down_weight, layer.down_bias)

    def norm(self, x):
        return layer_norm(x, self.norm_weight, self.norm_bias, self.config.norm_epsilon)
