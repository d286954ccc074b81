"""Measures a checkpoint of GPT-2 124M with Adam (1.5 GB) against the disk and against a copy in memory.

    python3 node/policy/engine/bench/bench_checkpoint.py [FOLDER]

Prints one JSON object with ratios of medians of alternating runs:

* `checkpoint_write_ratio`: a background checkpoint, from the call to its end, over writing as many bytes to the
  same folder with fsync
* `pause_copy_ratio`: the time that the call blocked training, over copying the same bytes into new memory
* `pause_share`: the pause over the whole save

Weights and moments are random. FOLDER, by default the system's temporary folder, holds the files. They need 3 GB
and are removed. Takes about half a minute.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from statistics import median

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from engine import environment  # noqa: E402

environment.prepare(os.environ)

import torch  # noqa: E402
from engine import protocol, weights  # noqa: E402
from engine.session import Session, set_threads  # noqa: E402

CONFIG = dict(model_type="gpt2", n_layer=12, n_head=12, n_embd=768, n_positions=1024, vocab_size=50257, eos_token_id=50256)
BLOCK = 8 << 20


def make_session(folder):
    """A loaded GPT-2 with moments like those of a trained model."""
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    session = Session()
    session.load(protocol.Load(folder, random_init=True))
    trainer = session._trainer
    trainer.adam.prepare(trainer.model.flat)
    trainer.adam.exp_avg.normal_(0, 1e-3)
    trainer.adam.exp_avg_sq.normal_(0, 1e-3).square_()
    trainer.adam.step_count = 1
    return session, [trainer.model.flat.detach(), trainer.adam.exp_avg, trainer.adam.exp_avg_sq]


def time_write(path, flats):
    """Seconds to write all bytes of flats to path and sync them to disk."""
    began = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for flat in flats:
            data = weights.bytes_of(flat)
            for at in range(0, len(data), BLOCK):
                file.write(data[at : at + BLOCK])
        os.fsync(file.fileno())
    return time.perf_counter() - began


def time_copy(flats):
    """Seconds to copy flats into new memory of the process, and again into the same memory."""
    began = time.perf_counter()
    targets = [torch.empty_like(flat).copy_(flat) for flat in flats]
    new = time.perf_counter() - began
    began = time.perf_counter()
    for target, flat in zip(targets, flats):
        target.copy_(flat)
    return new, time.perf_counter() - began


def time_checkpoint(session, path):
    """Returns (seconds from the call to the end, seconds until the answer to the call, bytes)."""
    began = time.perf_counter()
    answer = session.save(protocol.Save(path, background=True))
    pause = time.perf_counter() - began
    if not answer["pending"]:
        sys.exit("the host's memory has no room for a copy: nothing to measure")
    size = session.saved(protocol.Saved(wait=True))["bytes"]
    return time.perf_counter() - began, pause, size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="where the files go")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    runs = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        session, flats = make_session(folder)
        plain, path = os.path.join(folder, "plain"), os.path.join(folder, "checkpoint")
        for _ in range(arguments.repeats):
            run = dict(write_seconds=time_write(plain, flats))
            os.unlink(plain)
            run["checkpoint_seconds"], run["pause_seconds"], run["bytes"] = time_checkpoint(session, path)
            os.unlink(path)
            run["copy_seconds"], run["copy_again_seconds"] = time_copy(flats)
            runs.append(run)
    middle = {name: median(run[name] for run in runs) for name in runs[0]}
    print(json.dumps({
        "checkpoint_write_ratio": middle["checkpoint_seconds"] / middle["write_seconds"],
        "pause_copy_ratio": middle["pause_seconds"] / middle["copy_seconds"],
        "pause_share": middle["pause_seconds"] / middle["checkpoint_seconds"],
        "settings": dict(model="gpt2 124M, random weights and moments", threads=arguments.threads, torch=torch.__version__),
        "medians": middle, "runs": runs,
    }, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
