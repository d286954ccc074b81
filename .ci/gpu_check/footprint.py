"""One node's engine alone, over micro-batches: memory between calls (resident), the additional memory of generate and
update (transient), and the speed of each.
"""

import random

import model
from engine_client import Engine, EngineError


def call_bytes(memory):
    return memory["call_peak_bytes"] - memory["call_begin_bytes"]


class Node:
    """An engine with the model loaded, after one warm-up round, so that Adam's moments are allocated."""

    def __init__(self, folder, device, precision, work, threads, log=None, **options):
        self.work = work
        self.engine = Engine(log)
        try:
            self.load = self.engine.call("load", model_dir=str(folder), device=device, precision=precision, threads=threads, **options)
            self.prompts = model.prompts(work.own, work.prompt_tokens, 50257, seed=1)
            self.train = model.prompts(work.own + work.external, work.prompt_tokens, 50257, seed=2)
            rng = random.Random(0)
            completions = model.prompts(len(self.train) * work.generations, work.new_tokens, 50257, seed=3)
            self.sequences = [
                {"prompt": i // work.generations, "completion": c, "advantage": rng.choice((-1.0, 1.0))} for i, c in enumerate(completions)
            ]
            self.generate(0, min(8, work.new_tokens))
            self.update(1, self.sequences[: work.generations])
        except BaseException:
            self.engine.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.engine.__exit__()

    def generate(self, micro_batch, new_tokens=None):
        return self.engine.call(
            "generate", prompts=self.prompts, num_generations=self.work.generations, max_new_tokens=new_tokens or self.work.new_tokens,
            temperature=1.0, eos_token_id=-1, seed=1, micro_batch=micro_batch,
        )

    def update(self, micro_batch, sequences=None):
        return self.engine.call(
            "update", prompts=self.train, sequences=sequences or self.sequences, learning_rate=1e-6, temperature=1.0, epsilon=0.2,
            epsilon_high=0.28, num_iterations=1, loss_type="bnpo", max_grad_norm=1.0, micro_batch=micro_batch,
        )

    def trim(self):
        return self.engine.call("trim")


def sweep(node, generate_sizes, update_sizes):
    """Runs the calls over micro-batches until memory runs out. Returns lists of dicts, and the engine's own figures.
    """
    generates, updates = [], []
    for kind, call, sizes, out in (("generate", node.generate, generate_sizes, generates), ("update", node.update, update_sizes, updates)):
        for size in sizes:
            node.trim()
            try:
                answer = call(size)
                answer = call(size)  # the second call, when graphs and workspaces exist
            except EngineError as error:
                out.append({"micro_batch": size, "error": error.kind, "shortage": error.shortage})
                if error.kind != "out_of_memory":
                    raise
                break
            memory = answer["memory"]
            entry = {"micro_batch": size, "seconds": answer["seconds"]}
            entry.update(resident_bytes=memory["call_begin_bytes"], transient_bytes=call_bytes(memory))
            if kind == "generate":
                entry["new_tokens"] = answer["new_tokens"]
            if memory["device_total_bytes"]:
                entry["outside_allocator_bytes"] = memory["device_total_bytes"] - memory["device_free_bytes"] - memory["device_reserved_bytes"]
            out.append(entry)
    return {"generate": generates, "update": updates}


def line(points):
    """Fits transient = base + slope x micro-batch by least squares; None for fewer than two points."""
    points = [(p["micro_batch"], p["transient_bytes"]) for p in points if "transient_bytes" in p]
    if len(points) < 2:
        return None
    n, mx, my = len(points), sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return {"points": n, "base_bytes": my - slope * mx, "bytes_per_sequence": slope}
