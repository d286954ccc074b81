"""Prints the mean surprise of a text in nats per token as JSON: its exponential is the perplexity.

    python perplexity.py engine FOLDER < ids.json          # swarm's engine; needs torch
    python perplexity.py transformers MODEL.gguf < ids.json   # transformers' own reading of the file

ids.json is a list of token ids. The first has no surprise, because no token precedes it.
"""

import json
import os
import sys

import torch


def by_engine(folder, ids):
    """Logits [len(ids), V] of the engine that is in this tree."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "node", "policy"))
    from engine import architecture, weights
    from engine.layout import Layout
    from engine.model import causal_mask

    config, _ = architecture.read_config(folder)
    model = architecture.make_model(config)
    weights.load(model, folder)
    layout = Layout([(0, [len(ids)])], model, causal_mask(len(ids), model.flat))
    x = model.embed(ids, layout.positions)
    return model.norm(model.hidden(x, layout)) @ model.head.t()


def by_transformers(path, ids):
    """The same from transformers."""
    import transformers

    folder, name = os.path.split(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32, attn_implementation="eager")
    return model.eval()(ids.unsqueeze(0)).logits[0]


def main():
    how, path = sys.argv[1:]
    ids = torch.tensor(json.load(sys.stdin))
    with torch.no_grad():
        logits = {"engine": by_engine, "transformers": by_transformers}[how](path, ids)
        surprise = -logits[:-1].log_softmax(-1).gather(1, ids[1:, None]).mean()
    print(json.dumps(surprise.item()))


if __name__ == "__main__":
    main()
