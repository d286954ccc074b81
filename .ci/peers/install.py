"""The way to a first result: TRL's quick start in a fresh environment, `swarm up` in an empty home, and what rl-swarm asks for.

TRL is installed by pip without a cache, so its time depends on the network. Its quick start (README of 1.16.0) takes a
dataset and a model from the hub. Here both are local, and it makes one step: of nano, eight completions of up to 48
tokens. rl-swarm's script needs its login page, its chain and the hub, so nothing of it runs here. Its steps are counted
in its README and its script, and the answer says so.
"""

import json
import os
import subprocess
import sys
import time

import environments
from peers import common
from peers.genrl_swarm import make_tokenizer

PINNED = [r for r in environments.ENVIRONMENTS["peers"].requirements if r.split("==")[0] in ("torch", "numpy", "transformers", "accelerate", "trl")]
SCRIPT = """from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer(
    model="{model}",
    reward_funcs=lambda completions, **_: [float("7" in text) for text in completions],
    args=GRPOConfig(output_dir="{out}", max_steps=1, max_completion_length=48, bf16=False, use_cpu=True, report_to="none"),
    train_dataset=Dataset.from_dict({{"prompt": ["Give the value of 4 + 3."] * 8}}),
)
trainer.train()
"""
UNREACHABLE = ("Could not find a version", "No matching distribution", "Name or service not known", "Temporary failure in name resolution")
# https://github.com/gensyn-ai/rl-swarm, README.md and run_rl_swarm.sh of commit 9c95410b (2026-01-05).
RL_SWARM = (
    "rl-swarm, not run, read in commit 9c95410b: 6 steps (clone; install Docker; docker-compose run; log in on a page in the browser; answer whether to "
    "upload to Hugging Face; answer whether to join its prediction market), 32 GB of memory without a GPU; its script waits for the login, then installs "
    "Ollama and Python packages, takes its model from the hub and registers on its chain, so offline it ends before training; its trainer GenRL runs in the "
    "rows genrl and steps"
)


def run(command, **options):
    """Seconds of a command. Raises OSError with the end of its stderr."""
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()[-500:]}")
    return time.monotonic() - begin


def megabytes(folder):
    done = subprocess.run(["du", "-sm", folder], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0])


def debian_megabytes():
    """The megabytes of the packages that the program needs, PyTorch, NumPy and their libraries, or 0 if they are not installed."""
    form = "${Package} ${Status} ${Installed-Size}\n"
    names = ["python3-torch", "libtorch*", "python3-numpy", "libopenblas0*", "python3-typing-extensions", "libgloo*", "libprotobuf*", "libonnx*"]
    done = subprocess.run(["dpkg-query", "-W", "-f", form, *names], capture_output=True, text=True)
    sizes = {line.split()[0]: int(line.split()[-1]) for line in done.stdout.splitlines() if " installed " in line}
    return round(sum(sizes.values()) / 1024) if "python3-torch" in sizes else 0


def trl(scratch):
    """TRL's quick start: what was done, its megabytes, and the seconds to the first step."""
    import transformers

    model, script = os.path.join(scratch, "model"), os.path.join(scratch, "quickstart.py")
    transformers.AutoModelForCausalLM.from_pretrained(os.path.join(common.ROOT, "node", "model", "nano")).save_pretrained(model)
    make_tokenizer().save_pretrained(model)
    text = SCRIPT.format(model=model, out=os.path.join(scratch, "out"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    place = os.path.join(scratch, "trl")
    python = os.path.join(place, "bin", "python")
    made = run([sys.executable, "-m", "venv", place])
    installed = run([python, "-m", "pip", "install", "--no-cache-dir", "--progress-bar", "off", *PINNED])
    size = megabytes(place)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    first = run([python, script], env=environment)
    lines = sum(1 for line in text.splitlines() if line)
    told = f"TRL: 4 steps (an environment; pip install {' '.join(PINNED)}; a script of {lines} lines; run it), {made + installed:.0f} s to install {size} MB (pip takes the CUDA build of PyTorch), "
    return told + f"{first:.0f} s to the first step", size, first


def swarm_up(scratch):
    """The README's way, from a built program: what was done, its megabytes (0 if unknown), and the seconds to the first round."""
    debian = debian_megabytes()
    environment = dict(os.environ, SWARM_HOME=os.path.join(scratch, "home"), SWARM_PYTHON="/usr/bin/python3" if debian else sys.executable)
    command = [common.PROGRAM, "up", "4loc4ext", "--nodes", "8", "--model", "nano", "--device", "cpu", "--rounds", "2", "--set", "eval_questions=0", "-o", "json"]
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ended, first = set(), None
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "round":
            ended.add(event["node"])
        if len(ended) == 8 and first is None:
            first = time.monotonic() - begin
    if process.wait() or first is None:
        raise OSError(f"swarm up: exit code {process.returncode}, {len(ended)} nodes ended a round")
    binary = os.path.getsize(common.PROGRAM) / 1e6
    torch = f"Debian's PyTorch {debian} MB (its installation and the build were not timed)" if debian else "the peers' PyTorch, because Debian's is not installed"
    told = f"swarm: 2 steps (clone; make up), the program {binary:.0f} MB and {torch}, {first:.1f} s from swarm up to the first round of eight nodes"
    return told, debian and binary + debian, first


def main():
    scratch = sys.argv[1]
    ours, small, soon = swarm_up(scratch)
    try:
        theirs, size, first = trl(scratch)
    except OSError as error:
        if not any(text in str(error) for text in UNREACHABLE):
            raise
        common.answer(f"{ours}; TRL: pip cannot reach PyPI", "cannot run", RL_SWARM)
        return
    common.answer(f"{ours}; {theirs}", "ahead" if 0 < small < size and soon < first else "behind", RL_SWARM)


if __name__ == "__main__":
    main()
