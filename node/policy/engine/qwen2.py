"""Qwen2 as plain functions: configuration, names and shapes, rotary positions, the transformer block.

Sources: Qwen2 technical report (arXiv:2407.10671); RoPE, Su et al. 2021; RMSNorm, Zhang & Sennrich 2019; SwiGLU,
Shazeer 2020; Hugging Face's Qwen2ForCausalLM for names, layout (Linear: weight [out, in]) and which halves rotate.
Letters in shapes as in model.py.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .model import Model

PREFIX = "model."
HEAD = "lm_head.weight"
HAS_RMS_NORM = hasattr(F, "rms_norm")  # torch 2.4


@dataclass(frozen=True)
class Config:
    vocab_size: int
    context_length: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    layers: int
    inner: int
    norm_epsilon: float
    rope_theta: float
    tied: bool  # the head is the embedding
    initializer_range: float
    eos_token_id: int  # -1: none

    architecture = "qwen2"

    def saved_fields(self):
        """What config.json must say besides what was read: transformers 4 looks for rope_theta at the top only."""
        return {"model_type": self.architecture, "architectures": ["Qwen2ForCausalLM"], "rope_theta": self.rope_theta}

    def shapes(self):
        """Parameter name -> shape, in the order of the flat buffer: what is multiplied together stands together."""
        d, inner, h = self.width, self.inner, self.head_size
        wide, narrow = self.heads * h, self.kv_heads * h
        shapes = {PREFIX + "embed_tokens.weight": (self.vocab_size, d)}
        for i in range(self.layers):
            layer = f"{PREFIX}layers.{i}."
            attention = layer + "self_attn."
            shapes[layer + "input_layernorm.weight"] = (d,)
            for kind, shape in (("weight", (d,)), ("bias", ())):
                for name, size in (("q", wide), ("k", narrow), ("v", narrow)):
                    shapes[f"{attention}{name}_proj.{kind}"] = (size, *shape)
            shapes[attention + "o_proj.weight"] = (d, wide)
            shapes[layer + "post_attention_layernorm.weight"] = (d,)
            shapes[layer + "mlp.gate_proj.weight"] = shapes[layer + "mlp.up_proj.weight"] = (inner, d)
            shapes[layer + "mlp.down_proj.weight"] = (d, inner)
        shapes[PREFIX + "norm.weight"] = (d,)
        if not self.tied:
            shapes[HEAD] = (self.vocab_size, d)
        return shapes

    def leaf_shapes(self):
        """The same buffer with q, k, v as one matrix and one bias, and gate and up as one matrix."""
        d, inner, h = self.width, self.inner, self.head_size
        joined = (self.heads + 2 * self.kv_heads) * h
        layer = [(d,), (joined, d), (joined,), (d, self.heads * h), (d,), (2 * inner, d), (d, inner)]
        return [(self.vocab_size, d)] + layer * self.layers + [(d,)] + ([] if self.tied else [(self.vocab_size, d)])

    def name_of(self, stored):
        """The parameter that a file's tensor of this name holds; None for one to pass over.

        Those are the frequencies that old files hold, and a tied head written out.
        """
        if stored.endswith("rotary_emb.inv_freq") or (self.tied and stored == HEAD):
            return None
        return stored if stored == HEAD or stored.startswith(PREFIX) else PREFIX + stored

    def is_norm(self, name):
        return name.endswith("norm.weight")

    def initial_std(self, name):
        return self.initializer_range


def parse_config(fields):
    """Reads Hugging Face's config (architecture.Fields), as transformers 4 and 5 write it."""
    fields.require(use_sliding_window=False, use_mrope=False)
    fields.choice("hidden_act", {"silu": None}, default="silu")
    layers = fields.integer("num_hidden_layers")
    kinds = fields.raw.get("layer_types")
    if kinds is not None and kinds != ["full_attention"] * layers:
        raise fields.error(f"layer_types must be full_attention for each of the {layers} layers")
    width, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    kv_heads = fields.integer("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise fields.error(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    if fields.raw.get("head_dim") is None and width % heads:
        raise fields.error(f"hidden_size {width} is not a multiple of num_attention_heads {heads}")
    head_size = fields.integer("head_dim", default=max(1, width // heads))
    if head_size % 2:
        raise fields.error(f"a head of {head_size} is odd: its halves are rotated against each other")
    vocab_size = fields.integer("vocab_size")
    return Config(
        vocab_size=vocab_size,
        context_length=fields.integer("max_position_embeddings"),
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        layers=layers,
        inner=fields.integer("intermediate_size"),
        norm_epsilon=fields.fraction("rms_norm_eps", 1e-6),
        rope_theta=rope_theta(fields),
        tied=fields.flag("tie_word_embeddings", False),
        initializer_range=fields.fraction("initializer_range", 0.02),
        eos_token_id=fields.eos_token_id(vocab_size),
    )


def rope_theta(fields):
    """The base of the rotary frequencies: at the top in transformers 4, in rope_parameters in 5. Scaled RoPE is refused."""
    found = fields.number("rope_theta", 10000.0)
    for name in ("rope_scaling", "rope_parameters"):
        if fields.raw.get(name) is None:
            continue
        inner = fields.inner(name)
        kind = inner.raw.get("rope_type", inner.raw.get("type", "default"))
        if kind != "default" or not set(inner.raw) <= {"rope_type", "type", "rope_theta", "partial_rotary_factor"}:
            raise fields.error(f"{name} = {fields.raw[name]!r} is not supported: this engine knows plain RoPE")
        if inner.raw.get("partial_rotary_factor", 1) != 1:
            raise inner.error("partial_rotary_factor other than 1 is not supported")
        found = inner.number("rope_theta", found)
    return found


class Layer(NamedTuple):
    norm1: torch.Tensor
    qkv_weight: torch.Tensor
    qkv_bias: torch.Tensor
    attention_weight: torch.Tensor
    norm2: torch.Tensor
    gate_up_weight: torch.Tensor
    down_weight: torch.Tensor


class Qwen2(Model):
    def __init__(self, config, device="cpu", dtype=torch.float32):
        super().__init__(config, device, dtype)
        leaves, end = self.leaves, 1 + 7 * config.layers
        self.embedding = leaves[0]
        self.layers = [Layer(*leaves[i : i + 7]) for i in range(1, end, 7)]
        self.norm_weight = leaves[end]
        self.head = self.embedding if config.tied else leaves[end + 1]
        # Of the whole context (8 MB for 32768 positions), since positions are known to the device only.
        self.rotary = rotary_table(config, self.device, dtype)

    def embed(self, ids, positions):
        return F.embedding(ids, self.embedding)

    def block(self, layer, x, positions, attend, kept=None):
        config = self.config
        heads, kv_heads = config.heads, config.kv_heads
        y = rms_norm(x, layer.norm1, config.norm_epsilon)
        qkv = self.linear(y, layer.qkv_weight, layer.qkv_bias).view(len(x), heads + 2 * kv_heads, config.head_size)
        qk, v = qkv.split((heads + kv_heads, kv_heads), 1)
        y = attend(torch.cat((rotate(qk, self.rotary.index_select(0, positions)), v), 1))
        x = x if kept is None else x.index_select(0, kept)
        x = x + self.linear(y, layer.attention_weight)
        y = rms_norm(x, layer.norm2, config.norm_epsilon)
        gate, up = self.linear(y, layer.gate_up_weight).chunk(2, -1)
        return x + self.linear(F.silu(gate) * up, layer.down_weight)

    def norm(self, x):
        return rms_norm(x, self.norm_weight, self.config.norm_epsilon)


def rms_norm(x, weight, epsilon):
    """x / sqrt(mean(x²) + epsilon) · weight over the last dimension, in float32 at least."""
    if HAS_RMS_NORM:
        return F.rms_norm(x, weight.shape, weight, epsilon)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(-1, keepdim=True) + epsilon).rsqrt()).to(x.dtype) * weight


def rotary_table(config, device, dtype):
    """[context, h]: cosines, then sines, of position · theta^(-2i/h) for i below h/2, rounded as Hugging Face's are."""
    size = config.head_size
    frequency = 1.0 / config.rope_theta ** (torch.arange(0, size, 2, device=device).to(dtype) / size)
    angle = torch.arange(config.context_length, device=device).to(dtype).unsqueeze(1) * frequency
    return torch.cat((angle.cos(), angle.sin()), 1)


def rotate(x, rotary):
    """Turns pairs (i, i + h/2) of each head of x [N, ·, h] by their angles; rotary [N, h] holds rows of the table."""
    cos, sin = rotary.unsqueeze(1).chunk(2, -1)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
