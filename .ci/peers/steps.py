"""Compares the waiting times of a user with TRL, GenRL and the usual trackers: eight trainings at once, a comparison, an installation.

Everything runs with the same Python and torch, unless the row says Debian.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time

from peers import common

NODES, ROUNDS, GROUPS, GENERATIONS, NEW_TOKENS = 8, 3, 8, 8, 48
SECONDS = 240  # of eight trainings
STUDY = os.path.join(common.ROOT, "docs", "study", "sparse.db.gz")
ARMS = ("sparse-4loc4ext", "sparse-8loc0ext")


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


def run_all(commands, environment, log=os.devnull):
    """Runs commands at once, and returns (seconds of the last, peak bytes of all, failures). Their errors go into log."""
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as errors:
        processes = [subprocess.Popen(c, env=environment, stdout=subprocess.DEVNULL, stderr=errors) for c in commands]
    memory = Memory(processes)
    memory.start()
    failed = 0
    try:
        for process in processes:
            try:
                failed += process.wait(max(1, begin + SECONDS - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                failed += 1
    finally:
        for process in processes:
            process.kill()
            process.wait()
        memory.ended.set()
        memory.join()
    return time.monotonic() - begin, memory.peak, failed


def swarm_up(scratch, preset):
    """Eight nano nodes."""
    environment = dict(os.environ, SWARM_PYTHON=sys.executable, SWARM_HOME=os.path.join(scratch, "home-" + preset))
    command = [common.PROGRAM, "up", preset, "--nodes", str(NODES), "--model", "nano", "--device", "cpu", "--rounds", str(ROUNDS),
               "--set", "eval_questions=0", "-o", "json"]  # fmt: skip
    return run_all([command], environment)


def eight_trls(scratch):
    """Eight processes of TRL with a model of nano's shape, and as many completions as eight nodes that share nothing."""
    one = [sys.executable, "-m", "peers.steps", "--trl", os.path.join(scratch, "trl")]
    return run_all([one + [str(i)] for i in range(NODES)], dict(os.environ, OMP_NUM_THREADS="1"))


def genrl_swarm(scratch):
    """Eight agents of a local GenRL swarm with nano's weights, which share rollouts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    one = [sys.executable, "-m", "peers.genrl_swarm", scratch]
    log = os.path.join(scratch, "genrl.log")
    found = run_all([[*one, str(i), str(NODES), port] for i in range(NODES)], dict(os.environ, OMP_NUM_THREADS="1"), log)
    if found[2]:
        with open(log, encoding="utf-8") as errors:
            print(errors.read()[-2000:], file=sys.stderr)
    return found


def trl(scratch, number):
    """A training with TRL: ROUNDS steps, each of GROUPS × GENERATIONS completions of up to NEW_TOKENS bytes."""
    import tokenizers
    import torch
    import transformers
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    torch.manual_seed(int(number))
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(257)}, unk_token="t0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="t256", pad_token="t0", unk_token="t0", padding_side="left")
    shape = dict(n_layer=4, n_head=4, n_embd=128, n_positions=256, vocab_size=257, eos_token_id=256, bos_token_id=256)
    options = GRPOConfig(output_dir=scratch + number, max_steps=ROUNDS, num_generations=GENERATIONS, max_completion_length=NEW_TOKENS,
                         per_device_train_batch_size=GROUPS * GENERATIONS, learning_rate=1e-4, gradient_checkpointing=False, bf16=False, use_cpu=True,
                         report_to="none", save_strategy="no", disable_tqdm=True)  # fmt: skip
    prompts = [" ".join(f"t{32 + (i * 7 + j) % 90}" for j in range(64)) for i in range(GROUPS * ROUNDS)]
    GRPOTrainer(model=transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)), args=options, processing_class=tokenizer,
                reward_funcs=lambda completions, **_: [float(len(text) % 2) for text in completions],
                train_dataset=Dataset.from_dict({"prompt": prompts})).train()  # fmt: skip


def compare_two(scratch):
    """Seconds to the answer "which of two experiments of five seeds is better", by `swarm compare` and by MLflow and a test of one's own."""
    begin = time.monotonic()
    common.swarm("import", STUDY)
    imported = time.monotonic()
    row = common.swarm_json("compare", *ARMS, "--baseline", ARMS[1])["pairs"][0]
    ours = time.monotonic() - imported
    import mlflow
    from mlflow.entities import Metric
    from scipy import stats

    loading = time.monotonic()
    mlflow.set_tracking_uri("sqlite:///" + os.path.join(scratch, "compare.db"))
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("swarm", artifact_location=os.path.join(scratch, "artifacts"))
    for arm in ARMS:
        for seed in range(1, 6):
            rows = common.swarm_json("eval", f"{arm}-{seed}")["rows"]
            run = client.create_run(experiment, tags={"arm": arm}).info.run_id
            client.log_batch(run, metrics=[Metric("pass1", r["pass"][0]["value"], 0, r["round"]) for r in rows])
    loaded = time.monotonic()
    table = mlflow.search_runs(experiment_ids=[experiment])
    a, b = (table[table["tags.arm"] == arm]["metrics.pass1"].tolist() for arm in ARMS)
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    theirs = time.monotonic() - loaded
    if len(a) != 5 or abs(p - row["p_value"]) > 1e-9:
        raise ValueError(f"answers differ: p {row['p_value']} against {p}, values {a} {b}")
    return (imported - begin, ours), (loaded - loading, theirs), row


def megabytes(folder):
    done = subprocess.run(["du", "-sm", folder], capture_output=True, text=True)
    return int(done.stdout.split()[0]) if done.stdout else 0


def debian_megabytes():
    """Returns the megabytes of the packages that the program needs: PyTorch, NumPy and their libraries."""
    form = "${Package} ${Status} ${Installed-Size}\n"
    names = ["python3-torch", "libtorch*", "python3-numpy", "libopenblas0*", "python3-typing-extensions", "libgloo*", "libprotobuf*", "libonnx*"]
    done = subprocess.run(["dpkg-query", "-W", "-f", form, *names], capture_output=True, text=True)
    sizes = [int(line.split()[-1]) for line in done.stdout.splitlines() if " installed " in line]
    return round(sum(sizes) / 1024)


def main():
    if sys.argv[1] == "--trl":
        trl(*sys.argv[2:])
        return
    scratch, told, notes, verdict = sys.argv[1], [], [], "ahead"
    for what, preset, name, peer in (
        (f"{NODES} trainings of nano's size, {ROUNDS} rounds of {GROUPS} × {GENERATIONS} completions", "8loc0ext", f"{NODES} processes of TRL", eight_trls),
        (f"a swarm of {NODES} nano nodes that share rollouts, {ROUNDS} rounds of 4 own and 4 others' groups", "4loc4ext", "GenRL", genrl_swarm),
    ):
        ours, theirs = swarm_up(scratch, preset), peer(scratch)
        told.append(f"{what}: swarm up {ours[0]:.0f} s, {ours[1] / 1e6:.0f} MB; {name} {theirs[0]:.0f} s, {theirs[1] / 1e6:.0f} MB")
        notes += [f"{who}: {failed} of {of} failed" for who, failed, of in (("swarm up", ours[2], 1), (name, theirs[2], NODES)) if failed]
        if ours[2] or not theirs[2] and (ours[0] > theirs[0] or ours[1] > theirs[1]):
            verdict = "behind"
        elif theirs[2] and verdict == "ahead":
            verdict = "cannot run"
    (read, asked), (loaded, tested), row = compare_two(scratch)
    told.append(f"two experiments of five seeds: swarm import {read:.1f} s and compare {asked:.1f} s, 1 command; MLflow {loaded:.1f} s to log, {tested:.1f} s to ask, "
                f"and a test of one's own (Welch, p = {row['p_value']:.2g}, equal)")  # fmt: skip
    notes.append("MLflow, trackio and W&B show curves and tables: no interval, no p-value, no correction for several comparisons, no check that the questions are equal")
    binary = round(os.path.getsize(common.PROGRAM) / 1e6)
    told.append(f"installed: the program {binary} MB and Debian's PyTorch {debian_megabytes()} MB; the peers' environment {megabytes(sys.prefix)} MB")
    print(json.dumps(row))
    common.answer("; ".join(told), verdict, "; ".join(notes))


if __name__ == "__main__":
    main()
