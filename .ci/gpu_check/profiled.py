"""A child that profiles one node's engine in this process: the duration of a decoding step and of an update, and
their kernels.

Figures of one step are differences of two calls with different lengths, so that prefill, capture and start-up cancel
out. Times are measured without the profiler, kernels with it.
"""

import argparse
import gc
import os
import random

import facts
import kernel_trace
import model
from timing import seconds

SHORT, LONG = 16, 56  # new tokens: both within one window of 64
VOCABULARY = 50257


class Node:
    """A session with the calls that are compared."""

    def __init__(self, options):
        from engine import protocol, session

        self.protocol, self.options = protocol, options
        self.session = session.Session()
        self.prompts = model.prompts(options.own, options.prompt_tokens, VOCABULARY, seed=1)
        self.completions = model.prompts(4 * options.generations, options.new_tokens, VOCABULARY, seed=3)

    def load(self):
        options = self.options
        request = self.protocol.Load(options.model, device=options.device, precision=options.precision, threads=options.threads, self_test=True)
        return self.session.load(request)

    def generate(self, tokens):
        options = self.options
        self.session.generate(self.protocol.Generate(self.prompts, options.generations, tokens, eos_token_id=-1, seed=1))

    def update(self, prompts):
        """Updates with `prompts` times G rows, four per pass."""
        rng, each = random.Random(0), self.options.generations
        rows = [self.protocol.Sequence(i // each, self.completions[i], rng.choice((-1.0, 1.0))) for i in range(prompts * each)]
        questions = model.prompts(prompts, self.options.prompt_tokens, VOCABULARY, seed=2)
        self.session.update(self.protocol.Update(questions, rows, micro_batch=4, learning_rate=1e-6))


def decoding(node, name):
    """Reports facts about a decoding step under name."""
    device = node.options.device
    with facts.step(f"{name}: first call"):
        facts.tell(f"{name} first_call_seconds", seconds(lambda: node.generate(SHORT), device, 1))
    with facts.step(f"{name}: time"):
        short, long = (seconds(lambda n=n: node.generate(n), device) for n in (SHORT, LONG))
        step = (long - short) / (LONG - SHORT)
        facts.tell(f"{name} step_seconds", step)
        facts.tell(f"{name} beyond_steps_seconds", short - SHORT * step)
    with facts.step(f"{name}: kernels"):
        short, long = (kernel_trace.record(lambda n=n: node.generate(n), device) for n in (SHORT, LONG))
        tell_difference(name, long, short, LONG - SHORT)
        facts.tell(f"{name} runtime", kernel_trace.top(long.runtime, 12))
        facts.tell(f"{name} instantiate_us", sum(t for n, (_, t) in long.runtime.items() if "Instantiate" in n or "Capture" in n))
        facts.tell(f"{name} mallocs", sum(c for n, (c, _) in long.runtime.items() if n.startswith(("cudaMalloc", "cudaFree", "cudaHostAlloc"))))


def updating(node):
    device = node.options.device
    with facts.step("update: time"):
        node.update(1)
        small, large = (seconds(lambda n=n: node.update(n), device, 2) for n in (1, 2))
        facts.tell("update seconds", large)
        facts.tell("update pass_seconds", (large - small) / passes(node))
    with facts.step("update: kernels"):
        small, large = (kernel_trace.record(lambda n=n: node.update(n), device) for n in (1, 2))
        tell_difference("update", large, small, passes(node))
        facts.tell("update call_device_us", large.device_time())
        facts.tell("update attention", kernel_trace.attention(large.kernels))


def passes(node):
    """Returns the passes of four rows that one more question needs."""
    return max(1, node.options.generations // 4)


def tell_difference(name, long, short, steps):
    kernels = kernel_trace.minus(long.kernels, short.kernels, steps)
    count, time_of = kernel_trace.totals(kernels)
    copies = kernel_trace.minus(long.copies, short.copies, steps)
    facts.tell(f"{name} kernels", count)
    facts.tell(f"{name} copies", kernel_trace.totals(copies)[0])
    facts.tell(f"{name} device_us", time_of + kernel_trace.totals(copies)[1])
    facts.tell(f"{name} top", kernel_trace.top(kernels))
    facts.tell(f"{name} operators", kernel_trace.top(kernel_trace.minus(long.operators, short.operators, steps)))


def tidying(node):
    device = node.options.device
    with facts.step("trim and gc"):
        node.generate(SHORT)
        facts.tell("trim first_seconds", seconds(lambda: node.session.trim(None), device, 1))
        facts.tell("trim again_seconds", seconds(lambda: node.session.trim(None), device, 3))
        facts.tell("gc seconds", seconds(gc.collect, device, 3))
        facts.tell("gc objects", len(gc.get_objects()))


def main():
    parser = argparse.ArgumentParser()
    for name in ("model", "device", "precision"):
        parser.add_argument("--" + name)
    for name in ("own", "generations", "prompt_tokens", "new_tokens", "threads"):
        parser.add_argument("--" + name, type=int)
    options = parser.parse_args()
    facts.begin()
    from engine import environment

    environment.prepare(os.environ)
    with facts.step("load"):
        node = Node(options)
        loaded = node.load()
        facts.tell("load seconds", loaded["seconds"])
        facts.tell("load self_test", loaded["self_test_max_abs_diff"])
        kernel_trace.record(lambda: node.generate(2), options.device)  # the first trace of a process may lack events
        decoding(node, "decode")
        updating(node)
        tidying(node)
        if options.device == "cuda":
            with facts.step("graphs"):
                node.session.configure(node.protocol.Configure(cuda_graphs=True))
                decoding(node, "graphs")


if __name__ == "__main__":
    main()
