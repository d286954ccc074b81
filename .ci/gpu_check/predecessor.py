"""A round as rl-swarm runs it, on the same card in the same run: G calls that each sample one completion of
every prompt, one after another, and one update of all sequences at once with every logit in memory. N processes do it
side by side, like its nodes.

    predecessor.py --model DIR --device cuda ...      one such node: prints "loaded", waits for a line, does a round, prints JSON

Their updates take turns, which favors rl-swarm: side by side they ran out of memory.
"""

import argparse
import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path

import child
import facts

HERE = Path(__file__).resolve().parent


def run_round(model, device, arguments, lock):
    """Runs one round and returns times and memory. rows are I prompts. It trains on (I + J) G sequences."""
    import torch

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    generator = torch.Generator().manual_seed(0)
    vocabulary = 50257
    prompts = torch.randint(vocabulary, (arguments.own, arguments.prompt_tokens), generator=generator).to(device)
    began = time.perf_counter()
    completions = [model.sample(prompts, arguments.new_tokens) for _ in range(arguments.calls)]
    wait()
    generated = time.perf_counter() - began
    completions = [completions[i % len(completions)] for i in range(arguments.generations)]
    ids = torch.cat([torch.cat((prompts, completion), 1) for completion in completions])
    ids = torch.cat([ids] * max(1, (arguments.own + arguments.external) // arguments.own))  # others' sequences have the same shape
    advantages = torch.where(torch.arange(len(ids), device=device) % 2 == 0, 1.0, -1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    with open(lock, "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        began = time.perf_counter()
        at_once = update(model, ids, advantages, arguments.prompt_tokens, optimizer)
        wait()
        updated = time.perf_counter() - began
        peak = torch.cuda.max_memory_reserved() if device == "cuda" else 0
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.empty_cache()
    return {"generate_seconds": generated, "update_seconds": updated, "sequences_at_once": at_once, "sequences": len(ids), "peak_bytes": peak}


def update(model, ids, advantages, prompt_tokens, optimizer):
    """Updates with all sequences at once, and halves their number whenever memory runs out. Returns the number at
    once.
    """
    import torch

    at_once = len(ids)
    while True:
        try:
            optimizer.zero_grad(set_to_none=True)
            for part, weight in zip(ids.split(at_once), advantages.split(at_once)):
                logits = model.logits(part)[:, prompt_tokens - 1 : -1]
                logp = logits.log_softmax(-1).gather(2, part[:, prompt_tokens:].unsqueeze(2)).squeeze(2)
                (-(logp.mean(1) * weight).sum() / len(ids)).backward()
            optimizer.step()
            return at_once
        except RuntimeError as error:
            if "out of memory" not in str(error) or at_once == 1:
                raise
        logits = logp = None
        torch.cuda.empty_cache()
        at_once //= 2


def main():
    import torch

    import reference

    facts.begin()
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--device")
    parser.add_argument("--lock")
    for name in ("own", "external", "generations", "prompt_tokens", "new_tokens", "calls"):
        parser.add_argument("--" + name, type=int)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True  # as in the engine
    model, library = reference.load(arguments.model, arguments.device)
    model.sample(torch.zeros(1, 4, dtype=torch.long, device=arguments.device), 2)  # loads the kernels
    print("loaded", flush=True)
    sys.stdin.readline()
    print(json.dumps(dict(run_round(model, arguments.device, arguments, arguments.lock), library=library)), flush=True)


def measure(folder, device, work, nodes, logs, scratch, limit, calls):
    """Runs `nodes` of them side by side. Returns their JSON with the wall time of the round, from the common start to
    the last end.

    Only `calls` of the generate calls run. The others are estimated from the slowest node's.
    """
    command = [sys.executable, HERE / "predecessor.py", "--model", folder, "--device", device, "--lock", Path(scratch) / "turn", "--calls", calls]
    for name in ("own", "external", "generations", "prompt_tokens", "new_tokens"):
        command += ["--" + name, getattr(work, name)]
    children, deadline = [], time.monotonic() + limit

    def said(process, log):
        """Returns the next line of a node."""
        for line in child.follow(process, max(0.1, deadline - time.monotonic()), limit):
            return line
        raise RuntimeError(f"a node ended: {child.last_line(log)}")

    paths = [Path(logs) / f"node{i}.log" for i in range(nodes)]
    try:
        for path in paths:
            with open(path, "ab") as log:
                children.append(child.start(command, log, cwd=HERE, stdin=subprocess.PIPE))
        for process, path in zip(children, paths):
            if said(process, path).strip() != "loaded":
                raise RuntimeError(f"a node did not start: {child.last_line(path)}")
        began = time.perf_counter()
        for process in children:
            process.stdin.write(b"go\n")
            process.stdin.flush()
        out = [json.loads(said(process, path)) for process, path in zip(children, paths)]
        seconds = time.perf_counter() - began
    except child.Stopped:
        raise RuntimeError(f"the round was not done within {limit:.0f} s") from None
    finally:
        for process in children:
            child.kill(process)
    missing = (work.generations - calls) / calls * max(node["generate_seconds"] for node in out)
    return {"seconds": seconds + missing, "measured_seconds": seconds, "calls": calls, "nodes": out}


if __name__ == "__main__":
    main()
