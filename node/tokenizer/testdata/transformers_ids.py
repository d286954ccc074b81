"""Encodes texts with the tokenizer that transformers opens from a folder: {"folder", "texts"} on stdin, {"ids", "decoded", …} on stdout."""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import transformers  # noqa: E402

asked = json.load(sys.stdin)
tokenizer = transformers.AutoTokenizer.from_pretrained(asked["folder"])
ids = [tokenizer(text)["input_ids"] for text in asked["texts"]]
json.dump(
    {
        "version": transformers.__version__,
        "class": type(tokenizer).__name__,
        "size": len(tokenizer),
        "eos": tokenizer.eos_token_id,
        "pad": tokenizer.pad_token_id,
        "inputs": sorted(tokenizer("a")),
        "ids": ids,
        "decoded": [tokenizer.decode(list(row)) for row in ids],
        "ended": [tokenizer.decode([*row, tokenizer.eos_token_id], skip_special_tokens=True) for row in ids],
    },
    sys.stdout,
)
