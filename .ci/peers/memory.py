"""Compares `accelerate estimate-memory` for a training of GPT-2's size with `swarm plan` and the engine's use."""

import json
import os
import re
import resource
import subprocess
import sys

from peers import common

SEQUENCES, PROMPT_TOKENS, NEW_TOKENS = 4, 192, 48  # of the measured update


def make_folder(folder):
    """A folder with GPT-2's config.json, as transformers writes it."""
    import transformers

    transformers.GPT2Config().save_pretrained(folder)


def by_command(folder):
    """Bytes of a training with Adam, by the documented command. Raises OSError with its error."""
    command = [os.path.join(os.path.dirname(sys.executable), "accelerate"), "estimate-memory", folder, "--library_name", "transformers", "--dtypes", "float32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"float32\D.*?([0-9.]+) ([KMG]B)\s*│\s*([0-9.]+) ([KMG]B)\s*│\s*([0-9.]+) ([KMG]B)", done.stdout)
    if done.returncode or not found:
        raise OSError((done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1])
    return float(found.group(5)) * {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[found.group(6)]


def by_function(folder):
    """The same by the functions of that command that need no hub: a model without memory, and its bytes times four."""
    import accelerate
    import transformers
    from accelerate.utils import calculate_maximum_sizes

    with accelerate.init_empty_weights():
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder))
    total, _ = calculate_maximum_sizes(model)
    return 4 * total


def by_plan():
    """Bytes of a node's resident memory and of its update, beyond Python with torch, as `swarm plan` estimates them."""
    lengths = ["--set", f"max_prompt_length={PROMPT_TOKENS}", "--set", f"max_completion_length={NEW_TOKENS}", "--set", f"micro_batch={SEQUENCES}"]
    node = common.swarm_json("plan", "4loc4ext", "--model", "gpt2", "--device", "cpu", "--nodes", "1", *lengths)["per_node"]
    return node["resident_bytes"] - node["context_bytes"] + node["update_bytes"]


def child():
    """Measures an update in this process: prints the bytes of its peak beyond those of an interpreter with torch."""
    common.engine_path()
    from engine import protocol, session
    from engine.adam import Adam
    from engine.gpt2 import GPT2, Config
    from engine.update import Trainer

    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    session.set_threads(1)
    before = peak()
    model = GPT2(Config(50257, 1024, 768, 12, 12, 3072, 1e-5, "tanh", 50256))
    model.initialise(0)
    rows = [protocol.Sequence(i, [7] * NEW_TOKENS, (-1.0) ** i) for i in range(SEQUENCES)]
    trainer = Trainer(model, Adam())
    for _ in range(2):  # Adam's moments are made in the first
        trainer.update(protocol.Update([[i + 3] * PROMPT_TOKENS for i in range(SEQUENCES)], rows, micro_batch=SEQUENCES))
    print(json.dumps(peak() - before))


def main():
    if sys.argv[1] == "--child":
        child()
        return
    folder, notes = os.path.join(sys.argv[1], "gpt2"), []
    make_folder(folder)
    try:
        theirs = by_command(folder)
    except (OSError, subprocess.SubprocessError) as error:
        theirs = by_function(folder)
        notes.append(f"the command cannot run offline ({' '.join(str(error).split())[:120]}), so its functions were called")
    planned = by_plan()
    done = subprocess.run([sys.executable, "-m", "peers.memory", "--child"], check=True, capture_output=True, text=True, timeout=150)
    measured = json.loads(done.stdout.splitlines()[-1])
    apart = {"accelerate": theirs / measured - 1, "swarm plan": planned / measured - 1}
    told = f"an update of GPT-2, {SEQUENCES} sequences of {PROMPT_TOKENS + NEW_TOKENS} tokens, beyond Python with torch: measured {measured / 1e6:.0f} MB, "
    told += f"accelerate {theirs / 1e6:.0f} MB ({apart['accelerate']:+.0%}), swarm plan {planned / 1e6:.0f} MB ({apart['swarm plan']:+.0%})"
    notes.append("accelerate's figure is four times the weights: it does not know lengths and batch")
    common.answer(told, "ahead" if abs(apart["swarm plan"]) <= abs(apart["accelerate"]) else "behind", "; ".join(notes))


if __name__ == "__main__":
    main()
