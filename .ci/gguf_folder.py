"""Writes a Llama-shaped GGUF file as a folder in Hugging Face's layout: config.json, safetensors, tokenizer files.

    python gguf_folder.py MODEL.gguf FOLDER

Quantized tensors become float32. Needs gguf, numpy and safetensors. Source of the names and of the order of rotary
pairs: llama.cpp's convert_hf_to_gguf.py.
"""

import json
import os
import sys

import gguf
import numpy
from safetensors.numpy import save_file

CONTROL = 3  # the token type of a special token
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main():
    source, folder = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    value = lambda key: reader.fields[key].contents()
    if value("general.architecture") != "llama" or value("tokenizer.ggml.model") != "gpt2" or value("tokenizer.ggml.pre") != "smollm":
        sys.exit(f"Error: {source} is not SmolLM2's: architecture {value('general.architecture')}, tokenizer {value('tokenizer.ggml.pre')}")
    os.makedirs(folder, exist_ok=True)
    config = config_of(value, tied=all(t.name != "output.weight" for t in reader.tensors))
    tensors, kinds = {}, {}
    for t in reader.tensors:
        weights = numpy.ascontiguousarray(gguf.dequantize(t.data, t.tensor_type), dtype=numpy.float32)
        kinds[t.tensor_type.name] = kinds.get(t.tensor_type.name, 0) + 1
        name = name_of(t.name)
        heads = {"q_proj.weight": config["num_attention_heads"], "k_proj.weight": config["num_key_value_heads"]}.get(".".join(name.split(".")[-2:]))
        tensors[name] = half_by_half(weights, heads) if heads else weights
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    write(folder, "config.json", config)
    write(folder, "tokenizer.json", tokenizer_of(value))
    eos, bos = value("tokenizer.ggml.tokens")[config["eos_token_id"]], value("tokenizer.ggml.tokens")[config["bos_token_id"]]
    write(folder, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "chat_template": value("tokenizer.chat_template"),
                                            "eos_token": eos, "bos_token": bos, "pad_token": eos, "add_prefix_space": False})  # fmt: skip
    parameters = sum(tensor.size for tensor in tensors.values())
    print(json.dumps({"tensors": kinds, "parameters": parameters, "bytes": os.path.getsize(source)}))


def config_of(value, tied):
    """config.json's object, from the file's metadata."""
    heads, width = value("llama.attention.head_count"), value("llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(value("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": float(value("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": float(value("llama.rope.freq_base")),
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float32",
    }


def name_of(name):
    """Hugging Face's name of a tensor: blk.3.attn_q.weight is model.layers.3.self_attn.q_proj.weight."""
    if name in NAMES:
        return NAMES[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{kind}"


def half_by_half(weights, heads):
    """GGUF rotates neighboring rows of a head, Hugging Face rows half a head apart. Returns the rows in that order."""
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return numpy.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def tokenizer_of(value):
    """tokenizer.json's object: byte-level BPE that takes each digit alone, as SmolLM2's does."""
    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token, **flags} for i, token in enumerate(tokens) if kinds[i] == CONTROL],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
        "post_processor": None,
        "decoder": {**level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": value("tokenizer.ggml.merges"),
        },
    }


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
