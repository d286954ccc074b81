"""Answers questions greedily with a model folder opened by transformers: {"folder", "questions", "limit"} on stdin,
{"ids", "texts"} on stdout.
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch  # noqa: E402
import transformers  # noqa: E402

asked = json.load(sys.stdin)
tokenizer = transformers.AutoTokenizer.from_pretrained(asked["folder"])
model = transformers.AutoModelForCausalLM.from_pretrained(asked["folder"]).eval()
found = []
for question in asked["questions"]:
    prompt = tokenizer(question, return_tensors="pt")
    with torch.no_grad():
        ids = model.generate(**prompt, max_new_tokens=asked["limit"], do_sample=False)[0, prompt["input_ids"].shape[1] :]
    found.append(ids.tolist())
json.dump(
    {
        "version": transformers.__version__,
        "ids": found,
        "texts": [tokenizer.decode(ids, skip_special_tokens=True) for ids in found],
    },
    sys.stdout,
)
