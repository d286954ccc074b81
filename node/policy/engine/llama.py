"""Llama, Qwen2 and Qwen3 as plain functions: configuration, names and shapes, rotary positions, the
transformer block.

One family of decoders: RMSNorm, grouped-query attention, rotary positions, SwiGLU. Qwen2 adds biases to
queries, keys and values. Qwen3 normalizes each head's queries and keys. Llama 3 stretches the frequencies of
its rotary positions.

Sources: Llama (arXiv:2302.13971), Llama 3 (arXiv:2407.21783), Qwen2 (arXiv:2407.10671), Qwen3
(arXiv:2505.09388); RoPE, Su et al. 2021; RMSNorm, Zhang & Sennrich 2019; SwiGLU, Shazeer 2020; Hugging Face's
LlamaForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM for names, layout (Linear: weight [out, in]) and which
halves rotate. Letters in shapes as in model.py.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F

from .model import Model

PREFIX = "model."
HEAD = "lm_head.weight"
HAS_RMS_NORM = hasattr(F, "rms_norm")  # torch 2.4

# model_type -> class names in Hugging Face's config.json: with the head of a language model, and without a head.
CLASSES = {
    "llama": ("LlamaForCausalLM", "LlamaModel"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Model"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Model"),
}


@dataclass(frozen=True)
class Scaling:
    """Llama 3's scaling of the rotary frequencies (rope_type llama3).

    A wavelength below original_length / high_factor is unchanged. One above original_length / low_factor is
    multiplied by factor. Wavelengths between are interpolated.
    """

    factor: float
    low_factor: float
    high_factor: float
    original_length: int

    def fields(self):
        """The fields of config.json."""
        return {
            "rope_type": "llama3",
            "factor": self.factor,
            "low_freq_factor": self.low_factor,
            "high_freq_factor": self.high_factor,
            "original_max_position_embeddings": self.original_length,
        }


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
    architecture: str = "qwen2"  # a key of CLASSES
    scaling: Optional[Scaling] = None

    @property
    def biased(self):
        """Whether queries, keys and values have biases."""
        return self.architecture == "qwen2"

    @property
    def head_norms(self):
        """Whether each head's queries and keys are normalized."""
        return self.architecture == "qwen3"

    def saved_fields(self):
        """Fields that config.json must have besides those that were read. transformers 4 reads rope_theta
        only at the top level.
        """
        fields = {"model_type": self.architecture, "architectures": [CLASSES[self.architecture][0]], "rope_theta": self.rope_theta}
        if self.scaling is not None:
            fields["rope_scaling"] = self.scaling.fields()
        return fields

    def shapes(self):
        """Parameter name -> shape, in the order of the flat buffer. Parameters of one joined matrix are
        adjacent.
        """
        d, inner, h = self.width, self.inner, self.head_size
        wide, narrow = self.heads * h, self.kv_heads * h
        shapes = {PREFIX + "embed_tokens.weight": (self.vocab_size, d)}
        for i in range(self.layers):
            layer = f"{PREFIX}layers.{i}."
            attention = layer + "self_attn."
            shapes[layer + "input_layernorm.weight"] = (d,)
            for kind, shape in (("weight", (d,)), ("bias", ())) if self.biased else (("weight", (d,)),):
                for name, size in (("q", wide), ("k", narrow), ("v", narrow)):
                    shapes[f"{attention}{name}_proj.{kind}"] = (size, *shape)
            if self.head_norms:
                shapes[attention + "q_norm.weight"] = shapes[attention + "k_norm.weight"] = (h,)
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
        d = self.width
        layer = list(self.layer_shapes().values())
        return [(self.vocab_size, d)] + layer * self.layers + [(d,)] + ([] if self.tied else [(self.vocab_size, d)])

    def layer_shapes(self):
        """Field of Layer -> shape, in the order of the flat buffer."""
        d, inner, h = self.width, self.inner, self.head_size
        joined = (self.heads + 2 * self.kv_heads) * h
        shapes = {"norm1": (d,), "qkv_weight": (joined, d)}
        if self.biased:
            shapes["qkv_bias"] = (joined,)
        if self.head_norms:
            shapes["q_norm"] = shapes["k_norm"] = (h,)
        shapes.update(attention_weight=(d, self.heads * h), norm2=(d,), gate_up_weight=(2 * inner, d), down_weight=(d, inner))
        return shapes

    def name_of(self, stored):
        """The parameter name of a file's tensor, None for a tensor to skip.

        It skips the frequencies in old files, and the head if it is tied to the embedding.
        """
        if stored.endswith("rotary_emb.inv_freq") or (self.tied and stored == HEAD):
            return None
        return stored if stored == HEAD or stored.startswith(PREFIX) else PREFIX + stored

    def is_norm(self, name):
        return name.endswith("norm.weight")

    def initial_std(self, name):
        return self.initializer_range


def parse_config(fields):
    """Reads Hugging Face's config (architecture.Fields), as written by transformers 4 and 5."""
    architecture = fields.raw["model_type"]
    fields.require(use_sliding_window=False, use_mrope=False, mlp_bias=False)
    if architecture != "qwen2":
        fields.require(attention_bias=False)
    fields.choice("hidden_act", {"silu": None}, default="silu")
    layers = fields.integer("num_hidden_layers")
    kinds = fields.raw.get("layer_types")
    if kinds is not None and kinds != ["full_attention"] * layers:
        raise fields.error(f"layer_types must be full_attention for each of the {layers} layers")
    width, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    kv_heads = fields.integer("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise fields.error(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    if fields.raw.get("head_dim") is None and architecture == "qwen3":
        head_size = 128  # Qwen3Config's default at any width
    elif fields.raw.get("head_dim") is None and width % heads:
        raise fields.error(f"hidden_size {width} is not a multiple of num_attention_heads {heads}")
    else:
        head_size = fields.integer("head_dim", default=max(1, width // heads))
    if head_size % 2:
        raise fields.error(f"a head of {head_size} is odd: its halves are rotated against each other")
    vocab_size = fields.integer("vocab_size")
    theta, scaling = rotary_fields(fields)
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
        rope_theta=theta,
        tied=fields.flag("tie_word_embeddings", False),
        initializer_range=fields.fraction("initializer_range", 0.02),
        eos_token_id=fields.eos_token_id(vocab_size),
        architecture=architecture,
        scaling=scaling,
    )


PLAIN = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
LLAMA3 = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}


def rotary_fields(fields):
    """The base of the rotary frequencies and their Scaling, None for plain RoPE. Refuses all other
    scalings.

    The base is at the top level in transformers 4, and in rope_parameters in 5.
    """
    theta, scaling = fields.number("rope_theta", 10000.0), None
    for name in ("rope_scaling", "rope_parameters"):
        if fields.raw.get(name) is None:
            continue
        inner = fields.inner(name)
        kind = inner.raw.get("rope_type", inner.raw.get("type", "default"))
        if kind not in ("default", "llama3") or not set(inner.raw) <= (PLAIN if kind == "default" else PLAIN | LLAMA3):
            raise fields.error(f"{name} = {fields.raw[name]!r} is not supported: this engine knows plain RoPE and Llama 3's scaling")
        if inner.raw.get("partial_rotary_factor", 1) != 1:
            raise inner.error("partial_rotary_factor other than 1 is not supported")
        theta = inner.number("rope_theta", theta)
        if kind == "llama3":
            scaling = Scaling(
                inner.required_number("factor"),
                inner.required_number("low_freq_factor"),
                inner.required_number("high_freq_factor"),
                inner.integer("original_max_position_embeddings"),
            )
            if scaling.high_factor <= scaling.low_factor:
                raise inner.error("high_freq_factor must be above low_freq_factor")
    return theta, scaling


class Layer(NamedTuple):
    norm1: torch.Tensor
    qkv_weight: torch.Tensor
    attention_weight: torch.Tensor
    norm2: torch.Tensor
    gate_up_weight: torch.Tensor
    down_weight: torch.Tensor
    qkv_bias: Optional[torch.Tensor] = None  # Qwen2
    q_norm: Optional[torch.Tensor] = None  # Qwen3
    k_norm: Optional[torch.Tensor] = None


class Llama(Model):
    def __init__(self, config, device="cpu", dtype=torch.float32):
        super().__init__(config, device, dtype)
        names, leaves = list(config.layer_shapes()), self.leaves
        end = 1 + len(names) * config.layers
        self.embedding = leaves[0]
        self.layers = [Layer(**dict(zip(names, leaves[i : i + len(names)]))) for i in range(1, end, len(names))]
        self.norm_weight = leaves[end]
        self.head = self.embedding if config.tied else leaves[end + 1]
        # For the whole context (8 MB for 32768 positions), because only the device knows the positions.
        self.rotary = rotary_table(config, self.device, dtype)

    def embed(self, ids, positions):
        return F.embedding(ids, self.embedding)

    def block(self, layer, x, positions, attend, kept=None):
        config = self.config
        heads, kv_heads = config.heads, config.kv_heads
        y = rms_norm(x, layer.norm1, config.norm_epsilon)
        qkv = self.linear(y, layer.qkv_weight, layer.qkv_bias).view(len(x), heads + 2 * kv_heads, config.head_size)
        qk, v = qkv.split((heads + kv_heads, kv_heads), 1)
        if layer.q_norm is not None:
            q, k = qk.split((heads, kv_heads), 1)
            pairs = ((q, layer.q_norm), (k, layer.k_norm))  # under autocast the products have 16 bits, and norms 32
            qk = torch.cat([rms_norm(part.to(weight.dtype), weight, config.norm_epsilon).to(v.dtype) for part, weight in pairs], 1)
        y = attend(torch.cat((rotate(qk, self.rotary.index_select(0, positions)), v), 1))
        x = x if kept is None else x.index_select(0, kept)
        x = x + self.linear(y, layer.attention_weight)
        y = rms_norm(x, layer.norm2, config.norm_epsilon)
        gate, up = self.linear(y, layer.gate_up_weight).chunk(2, -1)
        return x + self.linear(F.silu(gate) * up, layer.down_weight)

    def norm(self, x):
        return rms_norm(x, self.norm_weight, self.config.norm_epsilon)


def rms_norm(x, weight, epsilon):
    """x / sqrt(mean(x²) + epsilon) · weight over the last dimension, at least in float32."""
    if HAS_RMS_NORM:
        return F.rms_norm(x, weight.shape, weight, epsilon)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(-1, keepdim=True) + epsilon).rsqrt()).to(x.dtype) * weight


def rotary_table(config, device, dtype):
    """Cosines, then sines, of position · frequency: [context, h].

    The h/2 frequencies are theta^(-2i/h), rounded like Hugging Face's.
    """
    size = config.head_size
    frequency = 1.0 / config.rope_theta ** (torch.arange(0, size, 2, device=device).to(dtype) / size)
    if config.scaling is not None:
        frequency = stretched(frequency, config.scaling)
    angle = torch.arange(config.context_length, device=device).to(dtype).unsqueeze(1) * frequency
    return torch.cat((angle.cos(), angle.sin()), 1)


def stretched(frequency, scaling):
    """Llama 3's frequencies. See Scaling."""
    wavelength = 2 * math.pi / frequency
    share = (scaling.original_length / wavelength - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)
    between = (1 - share) * frequency / scaling.factor + share * frequency
    long, short = scaling.original_length / scaling.low_factor, scaling.original_length / scaling.high_factor
    return torch.where(wavelength > long, frequency / scaling.factor, torch.where(wavelength < short, frequency, between))


def rotate(x, rotary):
    """Rotates pairs (i, i + h/2) of each head of x [N, ·, h] by their angles. rotary [N, h] holds rows of
    the table.
    """
    cos, sin = rotary.unsqueeze(1).chunk(2, -1)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
