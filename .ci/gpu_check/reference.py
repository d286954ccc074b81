"""Reference implementations of GPT-2: transformers if it is installed, else plain torch operations written from the
paper's formulas.

Parity compares the engine with it, and predecessor.py uses it. It shares no code with the engine.
"""

import json
import math
import struct
from pathlib import Path

import torch


def load(folder, device, attention=None):
    """Returns a model with logits(ids), sample(ids, new_tokens) and parameters(), in fp32, and the library's name.
    attention is one of transformers' implementations; None is its default.
    """
    try:
        import transformers
    except ImportError:
        return Plain(folder, device), "plain torch"
    options = {"attn_implementation": attention} if attention else {}
    model = transformers.GPT2LMHeadModel.from_pretrained(str(folder), **options).to(device).eval()
    return Transformers(model), f"transformers {transformers.__version__}"


class Transformers:
    def __init__(self, model):
        self.model = model

    def parameters(self):
        return list(self.model.parameters())

    def logits(self, ids):
        """[b, T] -> [b, T, V]"""
        return self.model(input_ids=ids, use_cache=False).logits

    @torch.no_grad()
    def sample(self, ids, new_tokens):
        """Samples one completion of each row of ids [b, T], with the library's own method."""
        out = self.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=self.model.config.eos_token_id,
        )
        return out[:, ids.shape[1]:]


class Plain:
    """GPT-2 (Radford et al. 2019) with pre-norm blocks, tied head and a cache that grows by concatenation."""

    def __init__(self, folder, device):
        config = json.loads((Path(folder) / "config.json").read_text())
        self.layers, self.heads, self.epsilon = config["n_layer"], config["n_head"], config["layer_norm_epsilon"]
        tensors = read_safetensors(Path(folder) / "model.safetensors")
        self.w = {name.removeprefix("transformer."): t.to(device).requires_grad_(True) for name, t in tensors.items()}

    def parameters(self):
        return list(self.w.values())

    def logits(self, ids, cache=None):
        x = self._hidden(ids, cache)
        return x @ self.w["wte.weight"].t()

    @torch.no_grad()
    def sample(self, ids, new_tokens):
        cache, out, step = {}, [], ids
        for _ in range(new_tokens):
            step = torch.multinomial(self.logits(step, cache)[:, -1].softmax(-1), 1)
            out.append(step)
        return torch.cat(out, 1)

    def _hidden(self, ids, cache):
        past = cache[0][0].shape[2] if cache else 0
        positions = torch.arange(past, past + ids.shape[1], device=ids.device)
        x = self.w["wte.weight"][ids] + self.w["wpe.weight"][positions]
        for layer in range(self.layers):
            x = x + self._attend(self._norm(x, f"h.{layer}.ln_1"), layer, cache)
            inner = torch.nn.functional.gelu(self._linear(self._norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc"), approximate="tanh")
            x = x + self._linear(inner, f"h.{layer}.mlp.c_proj")
        return self._norm(x, "ln_f")

    def _attend(self, x, layer, cache):
        b, length, d = x.shape
        q, k, v = (t.view(b, length, self.heads, -1).transpose(1, 2) for t in self._linear(x, f"h.{layer}.attn.c_attn").split(d, 2))
        if cache is not None:
            if layer in cache:
                k, v = torch.cat((cache[layer][0], k), 2), torch.cat((cache[layer][1], v), 2)
            cache[layer] = (k, v)
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        seen = torch.ones(length, k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - length)
        scores = scores.masked_fill(~seen, -math.inf)
        return self._linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, length, d), f"h.{layer}.attn.c_proj")

    def _norm(self, x, name):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.epsilon)

    def _linear(self, x, name):
        return x @ self.w[name + ".weight"] + self.w[name + ".bias"]


def read_safetensors(path):
    """Returns the tensors of a file of 32-bit floats, by name."""
    data = bytearray(Path(path).read_bytes())
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, not F32")
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data[8 + size + begin : 8 + size + end], dtype=torch.float32).view(entry["shape"]).clone()
    return tensors


def exact_matmuls():
    """Turns TF32 off, so that fp32 is exact."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
