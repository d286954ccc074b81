"""GPT-2, as plain functions over one flat buffer of weights.

Owns the architecture: configuration, parameter names and shapes (Hugging Face's), initialisation and the transformer
block. How attention looks at its keys is the caller's: `block` takes a function, because training, prefill and
decoding differ in nothing else. Sources: Radford et al. 2019; Hugging Face's GPT2LMHeadModel for names and layout
(Conv1D: weight [in, out]).

Letters in shapes: B rows, T positions, N = B·T, d width, H heads, h = d/H, V vocabulary.
"""

import json
import math
import os
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from .protocol import MODEL, EngineError

PREFIX = "transformer."


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

    def shapes(self):
        """Parameter name -> shape, in the order of the flat buffer. The head is the embedding, so it has no entry."""
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


def read_config(directory):
    """Reads config.json; returns (Config, the whole JSON object). Raises EngineError("model")."""
    path = os.path.join(directory, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise EngineError(MODEL, f"{path}: {error}") from None
    if not isinstance(raw, dict):
        raise EngineError(MODEL, f"{path}: not a JSON object")
    return parse_config(raw, path), raw


def parse_config(raw, path):
    def integer(*names, default=None):
        for name in names:
            value = raw.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31:
                return value
            if value is not None:
                raise EngineError(MODEL, f"{path}: {name} must be a positive integer")
        if default is None:
            raise EngineError(MODEL, f"{path}: {names[0]} is missing")
        return default

    architecture = raw.get("model_type")
    if architecture != "gpt2":
        raise EngineError(MODEL, f"{path}: model_type is {architecture!r}; this engine knows gpt2")
    for name, known in (
        ("scale_attn_by_inverse_layer_idx", False),
        ("scale_attn_weights", True),
        ("add_cross_attention", False),
        ("tie_word_embeddings", True),
    ):
        if raw.get(name, known) is not known:
            raise EngineError(MODEL, f"{path}: {name} = {raw[name]!r} is not supported")
    activation = raw.get("activation_function", "gelu_new")
    gelu = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}.get(activation)
    if gelu is None:
        raise EngineError(MODEL, f"{path}: activation_function {activation!r} is not supported")
    epsilon = raw.get("layer_norm_epsilon", 1e-5)
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        raise EngineError(MODEL, f"{path}: layer_norm_epsilon must be a number between 0 and 1")
    width, heads = integer("n_embd"), integer("n_head")
    if width % heads:
        raise EngineError(MODEL, f"{path}: n_embd {width} is not a multiple of n_head {heads}")
    vocab_size = integer("vocab_size")
    eos = raw.get("eos_token_id")
    if isinstance(eos, list):
        eos = eos[0] if eos else None
    if eos is not None and not (isinstance(eos, int) and 0 <= eos < vocab_size):
        raise EngineError(MODEL, f"{path}: eos_token_id {eos!r} is not in the vocabulary")
    return Config(
        vocab_size=vocab_size,
        context_length=integer("n_positions", "n_ctx"),
        width=width,
        heads=heads,
        layers=integer("n_layer"),
        inner=integer("n_inner", default=4 * width),
        norm_epsilon=float(epsilon),
        gelu=gelu,
        eos_token_id=-1 if eos is None else eos,
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


class GPT2:
    """Weights in one flat buffer, seen through named views; gradients, when there are any, likewise."""

    def __init__(self, config, device="cpu", dtype=torch.float32):
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.shapes = config.shapes()
        self.flat = torch.empty(sum(map(math.prod, self.shapes.values())), dtype=dtype, device=self.device)
        self.flat_grad = None
        self.tensors = self.views(self.flat)
        for tensor in self.tensors.values():
            tensor.requires_grad_(True)
        named = list(self.tensors.values())
        self.embedding, self.positions = named[:2]
        self.layers = [Layer(*named[i : i + 12]) for i in range(2, len(named) - 2, 12)]
        self.norm_weight, self.norm_bias = named[-2:]

    def views(self, flat):
        """Cuts a buffer shaped like `flat` into tensors by parameter name."""
        views, at = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            views[name] = flat[at : at + size].view(shape)
            at += size
        return views

    def make_gradients(self):
        """Gives every parameter a zero gradient, a view of one flat buffer; autograd adds to it in place."""
        self.flat_grad = torch.zeros_like(self.flat)
        for name, grad in self.views(self.flat_grad).items():
            self.tensors[name].grad = grad

    def drop_gradients(self):
        self.flat_grad = None
        for tensor in self.tensors.values():
            tensor.grad = None

    @torch.no_grad()
    def initialise(self, seed):
        """GPT-2's: normal(0, 0.02), residual projections divided by sqrt(2·layers), norms 1, biases 0."""
        generator = torch.Generator().manual_seed(seed % (1 << 63))
        for name, tensor in self.tensors.items():
            if name.endswith(".bias"):
                tensor.zero_()
            elif ".ln_" in name:
                tensor.fill_(1)
            else:
                std = 0.02 / math.sqrt(2 * self.config.layers) if ".c_proj." in name else 0.02
                # Drawn in float32 on the CPU whatever the device, so that a seed means the same weights everywhere.
                direct = tensor.dtype == torch.float32 and tensor.device.type == "cpu"
                drawn = tensor if direct else torch.empty(tensor.shape)
                drawn.normal_(0, std, generator=generator)
                if not direct:
                    tensor.copy_(drawn)

    def embed(self, ids, positions):
        """Token ids and positions [N] -> the residual stream [N, d]."""
        return F.embedding(ids, self.embedding) + F.embedding(positions, self.positions)

    def block(self, layer, x, attend):
        """One transformer block on the residual stream x [N, d].

        attend takes queries, keys and values, each [N, H, h], and returns [N, d].
        """
        config = self.config
        y = F.layer_norm(x, (config.width,), layer.norm1_weight, layer.norm1_bias, config.norm_epsilon)
        qkv = torch.addmm(layer.qkv_bias, y, layer.qkv_weight)
        y = attend(*qkv.view(len(x), 3, config.heads, -1).unbind(1))
        x = x + torch.addmm(layer.attention_bias, y, layer.attention_weight)
        y = F.layer_norm(x, (config.width,), layer.norm2_weight, layer.norm2_bias, config.norm_epsilon)
        y = F.gelu(torch.addmm(layer.up_bias, y, layer.up_weight), approximate=config.gelu)
        return x + torch.addmm(layer.down_bias, y, layer.down_weight)

    def hidden(self, x, rows, gradient_checkpointing=False):
        """All blocks over full sequences: x [rows·T, d], right-padded, -> [rows·T, d] before the last norm.

        Positions attend to those before them only, so padding on the right reaches no token's result.
        """
        mask = causal_mask(x.shape[0] // rows, x)

        def attend(q, k, v):
            return merge_heads(causal_attention(by_row(q, rows), by_row(k, rows), by_row(v, rows), mask))

        for layer in self.layers:
            if gradient_checkpointing and torch.is_grad_enabled():
                x = checkpoint(self.block, layer, x, attend, use_reentrant=False, preserve_rng_state=False)
            else:
                x = self.block(layer, x, attend)
        return x

    def norm(self, x):
        """The last layer norm; the head is `norm(x) @ embedding.T`."""
        return F.layer_norm(x, (self.config.width,), self.norm_weight, self.norm_bias, self.config.norm_epsilon)


HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


def causal_mask(length, like):
    """Additive mask [T, T]: 0 where a position may look, -inf where it may not."""
    return torch.full((length, length), -math.inf, dtype=like.dtype, device=like.device).triu_(1)


def by_row(x, rows):
    """Queries, keys or values [rows·T, H, h] -> [rows, H, T, h]."""
    return x.view(rows, -1, *x.shape[1:]).transpose(1, 2)


def merge_heads(y):
    """[rows, H, T, h] -> [rows·T, d]."""
    rows, heads, length, size = y.shape
    return y.transpose(1, 2).reshape(rows * length, heads * size)


def causal_attention(q, k, v, mask):
    """softmax(q kᵀ / sqrt(h) + mask) v, each [rows, H, T, h]."""
    if HAS_SDPA:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    rows, heads, length, size = q.shape
    flat = (rows * heads, length, size)
    q, k, v = q.reshape(flat), k.reshape(flat), v.reshape(flat)
    scores = torch.baddbmm(mask.to(q.dtype).expand(flat[0], length, length), q, k.transpose(1, 2), alpha=size**-0.5)
    return torch.bmm(scores.softmax(-1), v).view(rows, heads, length, size)
