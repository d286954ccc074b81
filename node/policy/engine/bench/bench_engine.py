"""Measures the engine against the processor's peak and against rl-swarm's way of sampling.

    python3 node/policy/engine/bench/bench_engine.py

Prints one JSON object with the underlying figures and:

* `update_gemm_fraction`: rate of a GPT-2 124M update over the rate of a large matrix product on the same thread
* `generate_speedup` and `generate_memory_ratio`: 64 completions of 8 prompts in one batch, against 8 calls of 8
  prompts. Each of those prefills again, computes logits of the whole prompt and grows its cache by concatenation

Weights are random. Each part runs in its own process, so that its peak memory is its own. Takes about two minutes.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from engine import environment  # noqa: E402

environment.prepare(os.environ)

import torch  # noqa: E402
from engine import protocol, session  # noqa: E402
from engine.adam import Adam  # noqa: E402
from engine.generate import generate  # noqa: E402
from engine.gpt2 import GPT2, Config  # noqa: E402
from engine.model import by_row, causal_attention, causal_mask, merge_heads  # noqa: E402
from engine.update import Trainer  # noqa: E402

CONFIG = Config(50257, 1024, 768, 12, 12, 3072, 1e-5, "tanh", 50256)
UPDATE = dict(sequences=8, prompt_tokens=64, completion_tokens=65)
GENERATE = dict(prompts=8, generations=8, prompt_tokens=192, new_tokens=48)
PARTS = ("update", "engine", "predecessor")


def make_model():
    model = GPT2(CONFIG)
    model.initialise(0)
    return model


def make_prompts(count, length):
    rng = random.Random(0)
    return [[rng.randrange(CONFIG.vocab_size) for _ in range(length)] for _ in range(count)]


def gemm_rate(size=2048, repeats=3):
    """FLOP/s of the fastest of a few products of two size × size float32 matrices."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        torch.mm(a, b)
        best = max(best, 2 * size**3 / (time.perf_counter() - began))
    return best


def bench_update(repeats=3):
    """Counts 6 FLOPs per weight and position, the head at completion positions, and the causal half of
    attention.
    """
    count, before, after = UPDATE["sequences"], UPDATE["prompt_tokens"], UPDATE["completion_tokens"]
    rng = random.Random(1)
    completions = make_prompts(count, after)
    sequences = [protocol.Sequence(i, completions[i], rng.choice((-1.0, 1.0))) for i in range(count)]
    request = protocol.Update(make_prompts(count, before), sequences)
    trainer = Trainer(make_model(), Adam())
    width, length = CONFIG.width, before + after - 1
    flops = 6 * 12 * width**2 * CONFIG.layers * count * length
    flops += 6 * width * CONFIG.vocab_size * count * after
    flops += 6 * 2 * width * length**2 / 2 * CONFIG.layers * count
    seconds, rate = [], gemm_rate()
    for _ in range(repeats):
        began = time.perf_counter()
        trainer.update(request)
        seconds.append(time.perf_counter() - began)
        rate = max(rate, gemm_rate())
    return dict(UPDATE, seconds=min(seconds), flops=flops, gemm_flops_per_second=rate, update_flops_per_second=flops / min(seconds))


def bench_engine():
    prompts = make_prompts(GENERATE["prompts"], GENERATE["prompt_tokens"])
    request = protocol.Generate(prompts, GENERATE["generations"], GENERATE["new_tokens"])
    model = make_model()
    began = time.perf_counter()
    tokens = generate(model, request).new_tokens
    return dict(seconds=time.perf_counter() - began, new_tokens=tokens)


def bench_predecessor():
    prompts = torch.tensor(make_prompts(GENERATE["prompts"], GENERATE["prompt_tokens"]))
    model = make_model()
    began = time.perf_counter()
    tokens = sum(predecessor_call(model, prompts, GENERATE["new_tokens"]) for _ in range(GENERATE["generations"]))
    return dict(seconds=time.perf_counter() - began, new_tokens=tokens)


@torch.inference_mode()
def predecessor_call(model, prompts, new_tokens):
    """One completion of each prompt, with the engine's block and weights, and a cache that grows by
    concatenation.
    """
    rows, ids, start, cache = len(prompts), prompts, 0, {}
    for _ in range(new_tokens):
        length = ids.shape[1]
        positions = torch.arange(start, start + length).repeat(rows)
        x = model.embed(ids.reshape(-1), positions)
        for index, layer in enumerate(model.layers):

            def attend(qkv, index=index):
                q, k, v = (by_row(part, rows) for part in model.split_heads(qkv))
                if index not in cache:
                    cache[index] = (k.contiguous(), v.contiguous())
                    return merge_heads(causal_attention(q, k, v, causal_mask(length, q)))
                k, v = cache[index] = tuple(torch.cat(pair, 2) for pair in zip(cache[index], (k, v)))
                weights = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-1)
                return merge_heads(weights @ v)

            x = model.block(layer, x, positions, attend)
        logits = (model.norm(x) @ model.head.t()).view(rows, length, -1)
        start += length
        ids = torch.multinomial(logits[:, -1].softmax(-1), 1)
    return rows * new_tokens


def run_part(part, threads):
    session.set_threads(threads)
    result = {"update": bench_update, "engine": bench_engine, "predecessor": bench_predecessor}[part]()
    result["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return dict(result, blas=session.blas())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="one part only, in this process")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt-tokens", type=int, default=GENERATE["prompt_tokens"])
    parser.add_argument("--new-tokens", type=int, default=GENERATE["new_tokens"])
    arguments = parser.parse_args()
    GENERATE.update(prompt_tokens=arguments.prompt_tokens, new_tokens=arguments.new_tokens)
    if arguments.part:
        print(json.dumps(run_part(arguments.part, arguments.threads)))
        return
    results = {}
    for part in PARTS:
        command = [sys.executable, os.path.abspath(__file__), "--part", part, "--threads", str(arguments.threads)]
        command += ["--prompt-tokens", str(arguments.prompt_tokens), "--new-tokens", str(arguments.new_tokens)]
        results[part] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout)
    update, engine, predecessor = (results[part] for part in PARTS)
    summary = {
        "update_gemm_fraction": update["update_flops_per_second"] / update["gemm_flops_per_second"],
        "generate_speedup": predecessor["seconds"] / engine["seconds"],
        "generate_memory_ratio": engine["peak_rss_bytes"] / predecessor["peak_rss_bytes"],
        "settings": dict(model="gpt2 124M, random weights", threads=arguments.threads, torch=torch.__version__, generate=GENERATE),
        "parts": results,
    }
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
