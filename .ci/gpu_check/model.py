"""A GPT-2-shaped model folder with generated weights, for machines without network.

The weights are random, like GPT-2's at the start of training, except for one feed-forward layer, which is a table of
successors of tokens. From any prompt the model writes "<answer>" and then endless digits, "1</answer>3</answer>2...".
So every completion has its full length, and its answer is one of three digits. Rewards differ, and updates have work
to do. The cost of a call doesn't depend on the weights' values.
"""

import ctypes
import json
import math
import random
import struct
from pathlib import Path

# Ids of GPT-2's vocabulary.
OPEN, WORD, CLOSE, BACK, DIGITS, END = 27, 41484, 29, 3556, (16, 17, 18), 50256
FOLLOWS = {OPEN: (WORD,), WORD: (CLOSE,), CLOSE: DIGITS, BACK: (WORD,), **{digit: (BACK,) for digit in DIGITS}}
STRENGTH = 150.0  # of the table, relative to the random weights


def write(folder, shape, seed=0):
    """Writes config.json and model.safetensors, and returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": shape.layers, "n_head": shape.heads, "n_embd": shape.width,
        "n_positions": shape.context, "n_ctx": shape.context, "vocab_size": shape.vocabulary, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new", "bos_token_id": END, "eos_token_id": END, "tie_word_embeddings": True,
    }))
    save(folder / "model.safetensors", weights(shape, seed))
    return folder


def weights(shape, seed):
    import torch

    d, generator = shape.width, torch.Generator().manual_seed(seed)

    def normal(*size, std=0.02):
        return torch.empty(size).normal_(0, std, generator=generator)

    # Token vectors have length 1 at any width, so that the table works equally at every size.
    out = {"wte.weight": normal(shape.vocabulary, d, std=d**-0.5), "wpe.weight": normal(shape.context, d, std=0.001)}
    for layer in range(shape.layers):
        for name, tensor in {
            "ln_1.weight": torch.ones(d), "ln_1.bias": torch.zeros(d), "ln_2.weight": torch.ones(d), "ln_2.bias": torch.zeros(d),
            "attn.c_attn.weight": normal(d, 3 * d), "attn.c_attn.bias": torch.zeros(3 * d),
            "attn.c_proj.weight": normal(d, d, std=0.02 / math.sqrt(2 * shape.layers)), "attn.c_proj.bias": torch.zeros(d),
            "mlp.c_fc.weight": normal(d, 4 * d), "mlp.c_fc.bias": torch.zeros(4 * d),
            "mlp.c_proj.weight": normal(4 * d, d, std=0.02 / math.sqrt(2 * shape.layers)), "mlp.c_proj.bias": torch.zeros(d),
        }.items():
            out[f"h.{layer}.{name}"] = tensor
    out["ln_f.weight"] = torch.full((d,), 60 / math.sqrt(d))  # logits of up to 60 / sqrt(choices)
    out["ln_f.bias"] = torch.zeros(d)
    _write_table(out, d)
    return out


def _write_table(out, d):
    """Makes neuron i of the first layer fire only for the i-th token of FOLLOWS, and replace the default, "<", by the
    token's successors.
    """
    import torch

    vectors, peak = out["wte.weight"], math.sqrt(d)  # length of a normalized token vector
    tokens = list(FOLLOWS)
    # Orthogonal, of equal length and without mean, so that all successors are equally likely.
    apart = torch.linalg.qr(torch.cat([torch.ones(d, 1), vectors[tokens].t()], 1))[0]
    vectors[tokens] = apart[:, 1:].t().contiguous()
    detect, threshold = out["h.0.mlp.c_fc.weight"], out["h.0.mlp.c_fc.bias"]
    write_back, always = out["h.0.mlp.c_proj.weight"], out["h.0.mlp.c_proj.bias"]
    out["h.0.attn.c_proj.weight"].zero_()  # the input depends on the token alone
    always.copy_(STRENGTH * vectors[OPEN])
    for neuron, (token, following) in enumerate(FOLLOWS.items()):
        detect[:, neuron] = vectors[token]
        threshold[neuron] = -peak / 2
        wanted = sum(vectors[choice] for choice in following) * STRENGTH
        write_back[neuron] = (wanted - STRENGTH * vectors[OPEN]) / (peak / 2)


def save(path, tensors):
    """Writes a safetensors file of 32-bit floats."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0  # transformers requires it
    for name, tensor in sorted(tensors.items()):
        size = 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(tensors.items()):
            tensor = tensor.contiguous().float()
            file.write(ctypes.string_at(tensor.data_ptr(), 4 * tensor.numel()))


def write_items(path, words, count=400):
    """Writes questions of about `words` tokens whose answers are 1, 2 or 3."""
    rng = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            filler = " ".join(rng.choice(("apple", "river", "stone", "light", "seven", "green")) for _ in range(max(1, words - 16)))
            question = f"{filler}. Question {number}: one of three digits?"
            file.write(json.dumps({"question": question, "answer": str(number % 3 + 1), "metadata": {}}) + "\n")
    return path


def prompts(count, length, vocabulary, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(vocabulary) for _ in range(length)] for _ in range(count)]
