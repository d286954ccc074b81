"""Several ranks on the CPU: the results of one rank, and the end of all when one is lost. Real processes,
over gloo.
"""

import json
import os
import random
import resource
import signal
import time

import pytest
import torch
from engine import weights
from engine.parallel import Group, checksum
from engine.ranks import Leader
from test_process import Engine
from test_llama import RAW as QWEN2

CONFIGS = {
    "gpt2": dict(model_type="gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=29, eos_token_id=13),
    "qwen2": dict(QWEN2, tie_word_embeddings=False, initializer_range=0.3),
}
PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2]]
OPTIONS = dict(random_init=True, seed=3, device="cpu", precision="float64", threads=1, adam_epsilon=1e-2,
               adam_beta1=0.9, adam_beta2=0.999)  # fmt: skip
SAMPLE = dict(prompts=PROMPTS, num_generations=3, max_new_tokens=20, temperature=0.9, eos_token_id=13, seed=5)


def sequences():
    rng = random.Random(0)
    made = []
    for i in range(7):
        tokens = [rng.randrange(29) for _ in range(rng.randint(1, 15))]
        made.append(dict(prompt=i % 3, completion=tokens, advantage=0.0 if i == 4 else rng.gauss(0, 1)))
    made[2]["old_logprobs"] = [-3.0] * len(made[2]["completion"])
    return made


def make_update(**options):
    return dict(prompts=PROMPTS, sequences=sequences(), learning_rate=0.01, temperature=0.9, **options)


UPDATES = [make_update(), make_update(micro_batch=1, max_grad_norm=0.1, loss_type="grpo"), make_update(beta=0.2, num_iterations=2)]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    made = {}
    for name, config in CONFIGS.items():
        path = tmp_path_factory.mktemp(name)
        (path / "config.json").write_text(json.dumps(config))
        made[name] = str(path)
    return made


@pytest.fixture
def directory(directories):
    return directories["gpt2"]


@pytest.fixture
def engine():
    """An engine whose other ranks are forks."""
    engine = Engine(fork_ranks=True)
    yield engine
    engine.close()


def others(engine):
    """The pids of ranks 1 and up."""
    pid = engine.process.pid
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            found.extend(map(int, file.read().split()))
    return sorted(found)


def gone(pids, within=10):
    """Whether none of the processes is alive. A zombie without a parent counts as gone."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        states = []
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    states.append(file.read().rpartition(")")[2].split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
        if all(state in "ZX" for state in states):
            return True
        time.sleep(0.02)
    return False


def tensors(path):
    read = {}
    with weights.File(path) as file:
        for name, entry in file.entries.items():
            read[name] = torch.empty(entry.shape, dtype=weights.DTYPES[entry.dtype])
            file.read(name, read[name])
    return read


def work(engine, directory, ranks, path):
    """A short training. Returns all answers and the tensors of a checkpoint at the end."""
    loaded = engine.result("load", model_dir=directory, ranks=ranks, self_test=True, **OPTIONS)
    answers = [loaded, engine.result("generate", **SAMPLE), engine.result("generate", micro_batch=2, **SAMPLE)]
    for update in UPDATES:
        answers.append(engine.result("update", **update))
        answers.append(engine.result("logprobs", prompts=PROMPTS, sequences=sequences(), temperature=0.9))
    answers.append(engine.result("save", path=path))
    answers.append(engine.result("restore", path=path))
    answers.append(engine.result("configure", gradient_checkpointing=True))
    answers.append(engine.result("update", **make_update()))
    answers.append(engine.result("trim"))
    answers.append(engine.result("generate", **SAMPLE))
    engine.result("save", path=path)
    return answers, tensors(path)


def same(one, other, where=""):
    """Asserts that two answers are equal except for rounding, times and memory."""
    if isinstance(one, dict):
        assert set(one) == set(other), where
        for name in set(one) - {"seconds", "pause", "memory", "sha256", "weight_hash"}:
            if not name.endswith("_bytes"):
                same(one[name], other[name], f"{where}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other)):
            same(*pair, f"{where}[{i}]")
    elif isinstance(one, float) and one != other:
        assert one == pytest.approx(other, rel=1e-11, abs=1e-12), where
    else:
        assert one == other, where


@pytest.mark.parametrize("architecture,ranks", [("gpt2", 2), ("gpt2", 3), ("qwen2", 2)])
def test_several_ranks_give_one_rank_s_results(directories, tmp_path, architecture, ranks):
    """With ranks that rank 0 starts as for users. The other tests fork theirs."""
    alone, engine = Engine(), Engine()
    try:
        expected, theirs = work(alone, directories[architecture], 1, str(tmp_path / "one"))
        answers, ours = work(engine, directories[architecture], ranks, str(tmp_path / "several"))
        assert len(others(engine)) == ranks - 1
    finally:
        alone.close()
        engine.close()
    for i, (answer, one) in enumerate(zip(answers, expected)):
        same(answer, one, f"answer {i}")
    assert answers[0]["memory"]["rss_bytes"] > 1.5 * expected[0]["memory"]["rss_bytes"]
    assert set(ours) == set(theirs) and any(name.startswith("adam.") for name in ours)
    for name, tensor in ours.items():
        assert (tensor.double() - theirs[name].double()).abs().max() < 1e-12, name


def test_the_difference_to_the_sampler_is_that_of_all_ranks(directory, engine):
    """The largest difference is found on any rank. No rank computes row 4."""
    alone = Engine()
    try:
        for each, ranks in ((alone, 1), (engine, 3)):
            each.result("load", model_dir=directory, ranks=ranks, **OPTIONS)
        for worst in range(7):
            update = dict(make_update(), learning_rate=0.0)
            for row, sequence in enumerate(update["sequences"]):
                sequence["sampling_logprobs"] = [-9.0 - row if row == worst else -3.0] * len(sequence["completion"])
            ours, one = engine.result("update", **update), alone.result("update", **update)
            same(ours, one, f"row {worst}")
            assert (ours["sampling_logp_difference_max"] > 5) == (worst != 4)
            assert ours["sampling_tokens"] == sum(len(s["completion"]) for s in update["sequences"] if s["advantage"])
    finally:
        alone.close()


def test_more_ranks_than_work(directory, engine):
    engine.result("load", model_dir=directory, ranks=3, **OPTIONS)
    short = dict(prompts=[[5]], num_generations=2, max_new_tokens=3, seed=1, eos_token_id=-1)
    assert [len(tokens) for tokens in engine.result("generate", **short)["completions"]] == [3, 3]
    one = [dict(prompt=0, completion=[1, 2], advantage=1.0)]
    assert engine.result("update", prompts=[[5]], sequences=one, learning_rate=0.01)["steps"] == 1
    assert engine.result("update", prompts=[[5]], sequences=[], learning_rate=0.01)["steps"] == 0
    assert engine.result("logprobs", prompts=[[5]], sequences=[])["logprobs"] == []


def test_a_wrong_request_changes_nothing(directory, engine):
    engine.result("load", model_dir=directory, ranks=2, **OPTIONS)
    before = engine.result("generate", **SAMPLE)
    assert engine.error("generate", **dict(SAMPLE, prompts=[[29]]))["kind"] == "bad_request"
    huge = [dict(prompt=0, completion=[1, 2], advantage=1e308)]
    assert engine.error("update", **dict(make_update(), sequences=huge))["kind"] == "not_finite"
    same(engine.result("generate", **SAMPLE), before)


def test_a_load_that_fails_leaves_no_ranks(directory, engine, tmp_path):
    assert engine.error("load", model_dir=str(tmp_path), ranks=2)["kind"] == "model"
    assert engine.error("generate", **SAMPLE)["message"] == "no model is loaded"
    assert others(engine) == []
    device = engine.error("load", model_dir=directory, ranks=2, device="cuda")
    assert device["kind"] == "device" and "0 CUDA devices" in device["message"]
    assert engine.error("load", model_dir=directory, ranks=2, device="cuda:1")["kind"] == "bad_request"
    for ranks in (2, 1, 3):
        engine.result("load", model_dir=directory, ranks=ranks, **OPTIONS)
        assert len(others(engine)) == ranks - 1
        assert engine.result("update", **make_update())["steps"] == 1


def test_closing_stdin_ends_all(directory, engine):
    engine.result("load", model_dir=directory, ranks=3, **OPTIONS)
    pids = others(engine)
    engine.start("generate", **dict(SAMPLE, prompts=[[1]] * 64, num_generations=64, max_new_tokens=60, eos_token_id=-1))
    engine.process.stdin.close()
    assert engine.wait() == 0
    assert gone(pids)


def test_killing_rank_0_ends_all(directory, engine):
    engine.result("load", model_dir=directory, ranks=3, **OPTIONS)
    pids = others(engine)
    assert len(pids) == 2 and not gone(pids, within=0.1)
    engine.process.kill()
    assert gone(pids)


@pytest.mark.parametrize("call", ["update", "generate", "idle", "stopped parts"])
def test_a_killed_rank_is_answered_within_seconds_and_ends_all(directory, engine, call):
    engine.result("load", model_dir=directory, ranks=3, **OPTIONS)
    pids = others(engine)
    if call == "update":
        rows = [dict(prompt=0, completion=[1] * 60, advantage=1.0)] * 400
        engine.start("update", prompts=[[1]], sequences=rows, learning_rate=0.01)
    elif call == "generate":
        engine.start("generate", **dict(SAMPLE, prompts=[[1]] * 16, num_generations=16, max_new_tokens=40))
    elif call == "stopped parts":  # the other ranks wait for it in a vote
        os.kill(pids[0], signal.SIGSTOP)
        engine.start("update", **make_update())
    began = time.monotonic()
    os.kill(pids[0], signal.SIGKILL)
    if call == "idle":
        engine.start("update", **make_update())
    error = engine.receive()["error"]
    assert time.monotonic() - began < 15
    assert error["kind"] == "internal" and "rank 1 was killed by signal 9" in error["message"]
    assert engine.wait() == 0
    assert gone(pids)


def test_a_rank_without_memory_is_answered_and_the_rest_lives_on(directory, engine):
    engine.result("load", model_dir=directory, ranks=2, **OPTIONS)
    before = engine.result("logprobs", prompts=PROMPTS, sequences=sequences())
    (pid,) = others(engine)
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (size + (32 << 20), resource.RLIM_INFINITY))
    rows = [dict(prompt=0, completion=[1] * 60, advantage=1.0)] * 20
    for _ in range(2):
        error = engine.error("generate", **dict(SAMPLE, prompts=[[1]] * 64, num_generations=64, max_new_tokens=60))
        assert error["kind"] == "out_of_memory" and error["message"].startswith("rank 1: ")
        assert error["shortage"]["where"] == "host" and error["shortage"]["cap_bytes"] > 0
    resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    same(engine.result("logprobs", prompts=PROMPTS, sequences=sequences()), before)
    assert engine.result("update", prompts=[[1]], sequences=rows, learning_rate=0.01)["steps"] == 1


def test_a_rank_that_hangs_is_given_up(directory):
    code = "from engine import __main__, parallel\nparallel.TIMEOUT = 3\n__main__.main()\n"
    engine = Engine(code)
    try:
        engine.result("load", model_dir=directory, ranks=2, **OPTIONS)
        pids = others(engine)
        os.kill(pids[0], signal.SIGSTOP)
        error = engine.error("update", **make_update())
        assert error["kind"] == "internal" and "silent" in error["message"]
        assert engine.wait() == 0
        assert gone(pids)
    finally:
        engine.close()


def test_ranks_that_drift_apart_are_noticed(directory):
    code = "from engine import __main__, ranks\nranks.checksum = lambda flat: 5\n__main__.main()\n"
    engine = Engine(code)
    try:
        error = engine.error("load", model_dir=directory, ranks=2, **OPTIONS)
        assert error["kind"] == "internal" and "different weights" in error["message"]
    finally:
        engine.close()


def test_checksum_sees_one_bit_and_not_more():
    for dtype in (torch.float32, torch.float64):
        for size in (1, 2, 1001):
            flat = torch.randn(size, dtype=dtype)
            other = flat.clone()
            assert checksum(flat) == checksum(other) >= 0
            other[size // 2] = float(other[size // 2]) * (1 + torch.finfo(dtype).eps)
            assert checksum(flat) != checksum(other)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_work_is_parted_without_gap_or_overlap(size):
    rng = random.Random(size)
    for count in (0, 1, 2, 7, 64):
        groups = [Group(rank, size) for rank in range(size)]
        costs = [rng.randint(1, 200) for _ in range(count)]
        shares = [group.share(costs) for group in groups]
        assert sorted(i for share in shares for i in share) == list(range(count))
        loads = [sum(costs[i] for i in share) for share in shares]
        assert max(loads) - min(loads) <= max(costs, default=0)
        spans = [group.span(count) for group in groups]
        assert [i for begin, end in spans for i in range(begin, end)] == list(range(count))


def test_memory_of_ranks_on_devices_is_the_fullest():
    leader = Leader()
    leader._device = torch.device("cuda:0")
    parts = [dict(rss_bytes=3, anonymous_bytes=2, peak_rss_bytes=4, device_free_bytes=7, device_total_bytes=9, call_begin_bytes=1, call_peak_bytes=5),
             dict(rss_bytes=2, anonymous_bytes=1, peak_rss_bytes=4, device_free_bytes=6, device_total_bytes=9, call_begin_bytes=2, call_peak_bytes=3)]  # fmt: skip
    assert leader._memory(parts) == dict(
        rss_bytes=5, anonymous_bytes=3, peak_rss_bytes=8, device_free_bytes=6, device_total_bytes=9, call_begin_bytes=2, call_peak_bytes=5
    )
