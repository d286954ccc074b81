"""Eight trainings at once, and a swarm of eight that share rollouts: start-up, seconds a round, peak memory and failures beside TRL and GenRL.

All have nano's weights and the same Python and torch. Every process says when it has ended a round. A round counts as
ended when the last of the eight has ended it, so the time of a round is (end of round 7 − end of round 3) / 4, and
start-up is the time to the end of the first. Our nodes draw the nine tasks of the set nano at random. TRL gets
questions of that set in our wording, of eight tasks in equal shares: without bf, and with seeds of their own. GenRL
draws these eight in reasoning-gym's wording. The mean lengths of the completions show how equal the work is.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from peers import common

NODES, ROUNDS, WARM, GROUPS, GENERATIONS, NEW_TOKENS = 8, 7, 3, 8, 8, 48
SECONDS = 280  # of eight trainings
NANO = os.path.join(common.ROOT, "node", "model", "nano")
SOURCES = ("arc_1d", "basic_arithmetic", "base_conversion", "binary_matrix", "calendar_arithmetic", "decimal_arithmetic", "fraction_simplification",
           "propositional_logic")  # fmt: skip


class Trained(NamedTuple):
    """What eight trainings took."""

    start: float  # seconds until all have ended the first round
    round: float  # seconds of a round, from the end of round WARM to that of the last
    peak: int  # bytes of all processes, shared pages once
    failed: int  # processes
    length: float  # tokens of a completion, mean
    errors: str  # whether they were too slow, and the end of their stderr

    def text(self):
        return f"{self.start:.1f} s to the first round, {self.round:.2f} s a round, {self.peak / 1e6:.0f} MB, {self.failed} failed, {self.length:.1f} tokens a completion"


class Memory(threading.Thread):
    """Samples the proportional memory of processes and their children, and keeps the highest sum."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.processes, self.peak, self.ended = processes, 0, threading.Event()

    def run(self):
        import psutil

        while not self.ended.wait(0.5):
            total = 0
            for process in self.processes:
                try:
                    parent = psutil.Process(process.pid)
                    for one in (parent, *parent.children(recursive=True)):
                        total += one.memory_full_info().pss
                except psutil.Error:
                    pass
            self.peak = max(self.peak, total)


def follow(process, begin, told):
    """Appends (round, seconds since begin, tokens of a completion) to told for each round that a process ends."""
    for line in process.stdout:
        try:
            said = json.loads(line)
        except ValueError:  # libraries print too
            continue
        if isinstance(said, dict) and said.get("type") == "round":  # an event of swarm up
            said = {"round": said["round"]["round"] + 1, "length": said["round"]["completions_mean_length"]}
        if isinstance(said, dict) and "length" in said:
            told.append((said["round"], time.monotonic() - begin, said["length"]))


def run_all(commands, environment, log):
    """Runs commands at once."""
    begin, told = time.monotonic(), []
    with open(log, "w", encoding="utf-8") as errors:
        processes = [subprocess.Popen(c, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) for c in commands]
    threads = [Memory(processes), *(threading.Thread(target=follow, args=(p, begin, told), daemon=True) for p in processes)]
    for thread in threads:
        thread.start()
    failed, late = 0, ""
    try:
        for process in processes:
            try:
                failed += process.wait(max(1, begin + SECONDS - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                failed, late = failed + 1, f"not all ended in {SECONDS} s; "
    finally:
        for process in processes:
            process.kill()
            process.wait()
        threads[0].ended.set()
        for thread in threads:
            thread.join(10)
    with open(log, encoding="utf-8", errors="replace") as errors:
        text = late + errors.read()[-4000:]
    print(text, file=sys.stderr)
    ends = {n: [t for r, t, _ in told if r == n] for n in range(1, ROUNDS + 1)}
    if not failed and any(len(times) != NODES for times in ends.values()):
        raise ValueError(f"{commands[0]}: not every round of every node was told: {ends}")
    end = lambda n: max(ends[n], default=float("nan"))
    lengths = [length for _, _, length in told] or [float("nan")]
    return Trained(end(1), (end(ROUNDS) - end(WARM)) / (ROUNDS - WARM), threads[0].peak, failed, sum(lengths) / len(lengths), text)


def swarm_up(scratch, preset):
    """Eight nano nodes."""
    environment = dict(os.environ, SWARM_PYTHON=sys.executable, SWARM_HOME=os.path.join(scratch, "home-" + preset))
    command = [common.PROGRAM, "up", preset, "--nodes", str(NODES), "--model", "nano", "--device", "cpu", "--rounds", str(ROUNDS),
               "--set", "eval_questions=0", "-o", "json"]  # fmt: skip
    return run_all([command], environment, os.path.join(scratch, "swarm.log"))


def eight_trls(scratch):
    """Eight processes of TRL, and as many completions as eight nodes that share nothing."""
    commands = []
    for i in range(NODES):
        path = os.path.join(scratch, f"questions{i}.json")
        each = -(-GROUPS * ROUNDS // len(SOURCES))
        samples = [common.swarm("task", "sample", task, "--set", "nano", "--seed", str(i), "-n", str(each), "-o", "json").splitlines() for task in SOURCES]
        with open(path, "w", encoding="utf-8") as file:
            json.dump([json.loads(line) for lines in zip(*samples) for line in lines][: GROUPS * ROUNDS], file)
        commands.append([sys.executable, "-m", "peers.steps", "--trl", path, str(i)])
    return run_all(commands, dict(os.environ, OMP_NUM_THREADS="1"), os.path.join(scratch, "trl.log"))


def genrl_swarm(scratch):
    """Eight agents of a local GenRL swarm, which share rollouts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    commands = [[sys.executable, "-m", "peers.genrl_swarm", scratch, str(i), str(NODES), port, str(ROUNDS)] for i in range(NODES)]
    return run_all(commands, dict(os.environ, OMP_NUM_THREADS="1"), os.path.join(scratch, "genrl.log"))


def trl(path, number):
    """A training with TRL, a step for each GROUPS questions of a file, each with GENERATIONS completions of up to NEW_TOKENS bytes."""
    import reasoning_gym
    import torch
    import transformers
    from datasets import Dataset
    from reasoning_gym.utils import extract_answer
    from trl import GRPOConfig, GRPOTrainer

    from peers.genrl_swarm import make_tokenizer

    class Told(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "completions/mean_length" in (logs or {}):
                print("\n" + json.dumps({"round": state.global_step, "length": logs["completions/mean_length"]}), flush=True)

    torch.set_num_threads(1)
    torch.manual_seed(int(number))
    with open(path, encoding="utf-8") as file:
        items = {item["question"]: item for item in json.load(file)}

    def reward(prompts, completions, **_):
        out = []
        for prompt, completion in zip(prompts, completions):
            score = reasoning_gym.get_score_answer_fn(items[prompt]["metadata"]["source_dataset"])
            try:
                out.append(float(score(extract_answer(completion), items[prompt])))
            except Exception:  # a scorer may raise at odd texts
                out.append(0.0)
        return out

    options = GRPOConfig(output_dir=f"{path}.{number}", max_steps=ROUNDS, num_generations=GENERATIONS, max_completion_length=NEW_TOKENS,
                         per_device_train_batch_size=GROUPS * GENERATIONS, learning_rate=1e-4, gradient_checkpointing=False, bf16=False, use_cpu=True,
                         disable_dropout=True, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True)  # fmt: skip
    GRPOTrainer(model=transformers.AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32), args=options, processing_class=make_tokenizer(),
                reward_funcs=reward, train_dataset=Dataset.from_dict({"prompt": list(items)}), callbacks=[Told()]).train()  # fmt: skip


def main():
    if sys.argv[1] == "--trl":
        trl(*sys.argv[2:])
        return
    scratch, told, notes, verdict = sys.argv[1], [], [], "ahead"
    for what, preset, name, peer in (
        (f"{NODES} trainings of nano, rounds of {GROUPS} × {GENERATIONS} completions", "8loc0ext", f"{NODES} processes of TRL", eight_trls),
        (f"a swarm of {NODES} that share rollouts, rounds of 4 own and 4 others' groups", "4loc4ext", "GenRL", genrl_swarm),
    ):
        ours, theirs = swarm_up(scratch, preset), peer(scratch)
        told.append(f"{what}: swarm up {ours.text()}; {name} {theirs.text()}")
        if theirs.failed and "ImportError" in theirs.errors or "ModuleNotFoundError" in theirs.errors:
            notes.append(f"{name} cannot run: {theirs.errors.strip().splitlines()[-1]}")
            verdict = "cannot run" if verdict == "ahead" else verdict
        elif ours.failed or theirs.failed:
            text = (ours if ours.failed else theirs).errors.strip()
            notes.append(f"failed: {text[:40]} … {text[-200:]}")
            verdict = "failed"
        elif verdict != "failed" and any(getattr(ours, name) > getattr(theirs, name) for name in ("start", "round", "peak")):
            verdict = "behind"
    notes.append("GenRL has a Payload.__getitem__ of ours: without it, 0.3.0 draws no groups of others")
    common.answer("; ".join(told), verdict, "; ".join(notes))


if __name__ == "__main__":
    main()
