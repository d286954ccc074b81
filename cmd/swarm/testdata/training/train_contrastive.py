#!/usr/bin/env python3
"""A small version of guide 2's trainer: an embedder that separates an anchor's positive from its negatives.

It reads conf/config.yaml and a stage's file.

    python train_contrastive.py --stage 01
"""

import argparse
import os

import memory
import settings
import switches


def build(torch, length, negatives, positives, vocabulary=1000, width=32, hidden=256):
    """Returns an encoder of sequences, a function that draws batches, and the loss function.

    An anchor has one positive (from a pool of n_positives) and its negatives: n_negatives + 2 sequences per anchor,
    about 25 KB each.
    """
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.wide, self.narrow = nn.Embedding(vocabulary, width), nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, tokens):  # (sequences, length) -> (sequences, width), of length 1
            return nn.functional.normalize(self.narrow(nn.functional.gelu(self.wide(self.words(tokens)))).mean(1), dim=-1)

    def draw(n, generator):
        anchors = torch.randint(vocabulary, (n, length), generator=generator)
        which = torch.randint(positives, (n, 1), generator=generator)
        like = (anchors + which) % vocabulary
        others = torch.randint(vocabulary, (n, negatives, length), generator=generator)
        return (torch.cat([anchors[:, None], like[:, None], others], dim=1),)  # (n, n_negatives + 2, length)

    def loss_of(model, batch):
        sequences = batch[0]
        embedded = model(sequences.flatten(0, 1)).view(sequences.shape[0], -1, width)
        scores = (embedded[:, :1] * embedded[:, 1:]).sum(-1) / 0.1  # (n, 1 + n_negatives): the positive comes first
        return nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long), reduction="sum")

    return Encoder(), draw, loss_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config-path", default="conf/config.yaml")
    parser.add_argument("--stage", default="01", choices=("01", "02", "03", "04", "05"))
    switches.add(parser)
    options = parser.parse_args()
    s = settings.read(options.config_path)
    stage = settings.read(os.path.join(os.path.dirname(options.config_path), "text_curriculum", options.stage + "_stage.yaml"))
    batch_size, accumulate = settings.whole(s, "data_loader.batch_size"), settings.whole(s, "training.trainer.accumulate_grad_batches")
    negatives, positives = settings.whole(stage, "n_negatives"), settings.whole(stage, "n_positives")
    print("stage={} batch_size={} accumulate={} effective_batch={} n_positives={} n_negatives={}".format(
        options.stage, batch_size, accumulate, batch_size * accumulate, positives, negatives), flush=True)
    switches.begin(options, batch_size, "cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu")

    memory.one_thread()
    import torch

    from loop import train
    torch.manual_seed(7)
    model, draw, loss_of = build(torch, max(1, settings.whole(s, "data_loader.tokenization.max_length") // 64), negatives, positives)
    train(torch, model, draw, loss_of, options, batch_size, accumulate, settings.whole(s, "training.trainer.max_steps"),
          s["training.learning_rate"])
    raise SystemExit(options.exit)


if __name__ == "__main__":
    main()
