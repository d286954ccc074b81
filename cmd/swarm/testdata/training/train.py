#!/usr/bin/env python3
"""A small version of guide 3's trainer: a LoRA classifier with key=value overrides.

    python train.py model=lora dataset=flowers102 training.batch_size=32 training.gradient_accumulation_steps=4 device=cpu model.lora_r=4
"""

import argparse
import os

import memory
import settings
import switches


GROUPS = ("model=", "dataset=")  # Hydra's groups: files, not settings


def build(torch, rank, tokens=32, width=64, hidden=1024, blocks=3, classes=10, checkpointing=False):
    """Builds blocks of frozen layers with trainable low-rank additions, and a head. Backward needs about 0.8 MB per
    sample.
    """
    nn = torch.nn

    class LoRA(nn.Module):
        def __init__(self, n, m):
            super().__init__()
            self.base = nn.Linear(n, m)
            for parameter in self.base.parameters():
                parameter.requires_grad_(False)
            self.down, self.up = nn.Linear(n, rank, bias=False), nn.Linear(rank, m, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = LoRA(width, hidden), LoRA(hidden, width)

        def forward(self, x):
            return x + self.narrow(nn.functional.gelu(self.wide(x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = nn.ModuleList(Block() for _ in range(blocks)), nn.Linear(width, classes)

        def forward(self, x):  # (batch, tokens, width) -> (batch, classes)
            for block in self.blocks:
                if checkpointing:
                    x = torch.utils.checkpoint.checkpoint(block, x.requires_grad_() if x.is_leaf else x, use_reentrant=True)
                else:
                    x = block(x)
            return self.head(x.mean(1))

    def draw(n, generator):
        return torch.randn(n, tokens, width, generator=generator), torch.randint(classes, (n,), generator=generator)

    return Model(), draw


def configuration(path, overrides):
    """Returns the file's settings with those of model=NAME (model/NAME.yaml beside it), like Hydra's groups."""
    found, name = settings.read(path), "lora"
    for override in overrides:
        if override.startswith("model="):
            name = override[len("model="):]
    group = settings.read(os.path.join(os.path.dirname(path), "model", name + ".yaml"))
    found.update(("model." + key, value) for key, value in group.items())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="configs/config.yaml", help="the settings")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    switches.add(parser)
    options = parser.parse_intermixed_args()
    s = settings.override(configuration(options.config, options.overrides), [o for o in options.overrides if not o.startswith(GROUPS)])
    batch_size, accumulate = settings.whole(s, "training.batch_size"), settings.whole(s, "training.gradient_accumulation_steps")
    print("batch_size={} accumulate={} effective_batch={} device={}".format(batch_size, accumulate, batch_size * accumulate, s["device"]), flush=True)
    switches.begin(options, batch_size, s["device"])

    memory.one_thread()
    import torch
    import torch.utils.checkpoint

    from loop import train
    torch.manual_seed(settings.whole(s, "seed"))
    model, draw = build(torch, settings.whole(s, "model.lora_r"), checkpointing=s["training.gradient_checkpointing"])

    def loss_of(model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="sum")

    train(torch, model, draw, loss_of, options, batch_size, accumulate, settings.whole(s, "training.steps"), s["training.learning_rate"],
          s["training.offload"])
    raise SystemExit(options.exit)


if __name__ == "__main__":
    main()
