"""Encodes texts with the tokenizers that transformers opens from folders.

Reads a list of {"folder", "texts", "rows", "chats", "options", "saved"} from stdin, and writes a list of {"ids",
"decoded", "prompts", …} to stdout. rows holds ids to decode, chats lists of messages for the chat template, and options
the template's own arguments. With saved, it also encodes as a user does who passes no options.
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import transformers  # noqa: E402


def answer(asked):
    tokenizer = transformers.AutoTokenizer.from_pretrained(asked["folder"])
    texts, rows, chats, options = (asked.get(name) or empty for name, empty in (("texts", []), ("rows", []), ("chats", []), ("options", {})))
    # Chats first: split_special_tokens, below, changes a state of the tokenizer.
    prompts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False, **options) for chat in chats]
    plain = [tokenizer(text)["input_ids"] for text in texts] if asked["saved"] else []
    ids = [tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] for text in texts]
    return {
        "version": transformers.__version__,
        "class": type(tokenizer).__name__,
        "size": len(tokenizer),
        "eos": tokenizer.eos_token_id,
        "pad": tokenizer.pad_token_id,
        "inputs": sorted(tokenizer("a")),
        "plain": plain,
        "ids": ids,
        "decoded": [tokenizer.decode(list(row)) for row in ids],
        "ended": [tokenizer.decode([*row, tokenizer.eos_token_id], skip_special_tokens=True) for row in plain],
        "rows": [tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False) for row in rows],
        "prompts": [list(prompt) for prompt in prompts],
    }


json.dump([answer(asked) for asked in json.load(sys.stdin)], sys.stdout)
