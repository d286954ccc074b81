"""The engine from its parent's side: a real process, lines in, lines out, which cannot outlive its stdin."""

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time

import forks
import pytest
from forks import DEADLINE, PARENT

CONFIG = dict(model_type="gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=29, eos_token_id=13)


class Engine:
    """An engine's process, its calls and answers. It is a fork of a process with torch, unless direct."""

    def __init__(self, code=None, direct=False, fork_ranks=False):
        if direct:
            self.process = forks.direct(["-c", code] if code else ["-m", "engine"])
        else:
            self.process = forks.start(code or forks.MAIN, fork_ranks)
        self.number = 0

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self):
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        assert ready, "no answer"
        return json.loads(self.process.stdout.readline())

    def start(self, call, **params):
        self.number += 1
        self.send(json.dumps(dict(id=self.number, call=call, params=params)).encode() + b"\n")

    def answer(self, call, **params):
        self.start(call, **params)
        answer = self.receive()
        assert answer["id"] == self.number and ("result" in answer) != ("error" in answer)
        return answer

    def result(self, call, **params):
        answer = self.answer(call, **params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, call, **params):
        return self.answer(call, **params)["error"]

    def wait(self):
        return self.process.wait(DEADLINE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    (path / "config.json").write_text(json.dumps(CONFIG))
    return str(path)


@pytest.fixture(scope="module")
def shared(directory):
    engine = Engine()
    engine.result("load", model_dir=directory, random_init=True, seed=3, device="cpu", precision="fp32", threads=1)
    yield engine
    engine.close()


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def started():
    """An engine that has imported torch for itself."""
    engine = Engine(direct=True)
    yield engine
    engine.close()


MEMORY = {
    "rss_bytes", "peak_rss_bytes", "anonymous_bytes", "device_allocated_bytes", "device_reserved_bytes", "device_peak_bytes", "device_free_bytes",
    "device_total_bytes", "call_begin_bytes", "call_peak_bytes", "call_begin_reserved_bytes", "call_peak_reserved_bytes",
}  # fmt: skip


def test_every_call_answers_with_every_field(started, directory, tmp_path):
    engine = started
    hello = engine.result("hello", protocol=6)
    assert set(hello) == {"protocol", "torch", "python", "blas", "cuda", "devices", "rss_bytes", "anonymous_bytes", "pid"}
    assert hello["pid"] == engine.process.pid and hello["rss_bytes"] > 10 << 20
    assert engine.error("generate", prompts=[[1]], num_generations=1, max_new_tokens=1)["message"] == "no model is loaded"
    load = engine.result(
        "load", model_dir=directory, random_init=True, seed=1, device="cpu", precision="float64", threads=1,
        gradient_checkpointing=False, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, weight_decay=0,
        memory_cap_bytes=0, self_test=True,
    )  # fmt: skip
    assert load["self_test_max_abs_diff"] < 1e-12 and load["self_test_limit"] == 0.05 and set(load["memory"]) == MEMORY
    del load["seconds"], load["memory"], load["self_test_max_abs_diff"], load["self_test_limit"]
    assert load == dict(architecture="gpt2", parameters=28448, vocab_size=29, context_length=64, eos_token_id=13)

    options = dict(max_new_tokens=9, temperature=1, top_k=0, top_p=1, eos_token_id=13, seed=5)
    generated = engine.result("generate", prompts=[[1, 2], [3]], num_generations=4, **options)
    fields = {"completions", "logprobs", "terminated", "entropy", "seconds", "prefill_tokens", "new_tokens", "memory"}
    assert set(generated) == fields and len(generated["completions"]) == 8
    sequences = [
        dict(prompt=i // 4, completion=tokens, advantage=(-1) ** i, old_logprobs=old, sampling_logprobs=old)
        for i, (tokens, old) in enumerate(zip(generated["completions"], generated["logprobs"]))
    ]
    scored = engine.result("logprobs", prompts=[[1, 2], [3]], sequences=sequences, temperature=1, micro_batch=3)
    for row, expected in zip(scored["logprobs"], generated["logprobs"]):
        assert row == pytest.approx(expected, abs=1e-9)
    saved = engine.result("save", path=str(tmp_path / "a"), format="checkpoint", metadata={"round": "1"})
    assert set(saved) == {"pending", "pause", "bytes", "sha256", "weight_hash", "seconds"} and not saved["pending"]
    updated = engine.result(
        "update", prompts=[[1, 2], [3]], sequences=sequences, learning_rate=1e-3, temperature=1, epsilon=0.2, epsilon_high=0.28,
        beta=0.1, num_iterations=1, loss_type="bnpo", max_completion_length=9, max_grad_norm=1, micro_batch=4,
    )  # fmt: skip
    assert set(updated) == {
        "loss", "kl", "grad_norm", "entropy", "mean_logprob", "clip_ratio_low", "clip_ratio_high", "steps",
        "computed_sequences", "tokens", "seconds", "memory",
        "external_clip_ratio", "external_ess", "external_dropped", "external_tokens",
        "sampling_logp_difference_max", "sampling_logp_difference_mean", "sampling_tokens",
    }  # fmt: skip
    assert updated["steps"] == 1 and updated["kl"] == 0
    assert updated["sampling_logp_difference_max"] < 1e-9 and updated["sampling_tokens"] == generated["new_tokens"]
    changed = engine.result("save", path=str(tmp_path / "hf"), format="huggingface", dtype="float32")
    assert changed["weight_hash"] != saved["weight_hash"]
    # The reference is the model as first loaded, whatever the training since.
    assert engine.result("update", prompts=[[1]], sequences=[dict(prompt=0, completion=[2])], beta=1)["kl"] > 0
    restored = engine.result("restore", path=str(tmp_path / "a"), sha256=saved["sha256"])
    assert restored == dict(metadata={"round": "1"}, weight_hash=saved["weight_hash"], step=0)
    assert engine.result("update", prompts=[[1]], sequences=[dict(prompt=0, completion=[2])], beta=1)["kl"] == 0
    assert set(engine.result("memory")) == set(engine.result("trim")) == MEMORY
    engine.result("load", model_dir=str(tmp_path / "hf"), device="cpu", precision="float64")
    assert engine.result("save", path=str(tmp_path / "b"))["weight_hash"]
    assert engine.result("exit") == {}
    assert engine.wait() == 0


WRONG = [
    ("nothing", {}, "unknown call"),
    ("hello", dict(protocol=1), "protocol 1"),
    ("hello", {}, "protocol is missing"),
    ("load", dict(device="cpu"), "model_dir is missing"),
    ("load", dict(model_dir="/", device="tpu"), "device must be"),
    ("load", dict(model_dir="/", precision="int8"), "precision"),
    ("load", dict(model_dir="/", adam_beta1=1.5), "adam_beta1"),
    ("load", dict(model_dir="/", adam_beta1=1.0), "adam_beta1"),
    ("generate", dict(prompts=[], num_generations=1, max_new_tokens=1), "prompts is empty"),
    ("generate", dict(prompts=[[]], num_generations=1, max_new_tokens=1), r"prompts\[0\]"),
    ("generate", dict(prompts=[[29]], num_generations=1, max_new_tokens=1), "token id 29"),
    ("generate", dict(prompts=[[-1]], num_generations=1, max_new_tokens=1), r"prompts\[0\]"),
    ("generate", dict(prompts=[[1.5]], num_generations=1, max_new_tokens=1), r"prompts\[0\]"),
    ("generate", dict(prompts=[[True]], num_generations=1, max_new_tokens=1), r"prompts\[0\]"),
    ("generate", dict(prompts=["12"], num_generations=1, max_new_tokens=1), r"prompts\[0\]"),
    ("generate", dict(prompts=[[1] * 64], num_generations=1, max_new_tokens=1), "context of 64"),
    ("generate", dict(prompts=[[1]], num_generations=0, max_new_tokens=1), "num_generations"),
    ("generate", dict(prompts=[[1]], num_generations=1, max_new_tokens=1, temperature=-1), "temperature"),
    ("generate", dict(prompts=[[1]], num_generations=1, max_new_tokens=1, eos_token_id=29), "eos_token_id"),
    ("generate", dict(prompts=[[1]], num_generations=1, max_new_tokens=1, stop_token_ids=[1, 29]), "stop_token_ids holds token id 29"),
    ("generate", dict(prompts=[[1]], num_generations=1, max_new_tokens=1, stop_token_ids=[-1]), "stop_token_ids"),
    ("generate", dict(prompts=[[1]], num_generations=1, max_new_tokens=1, top_q=1), "top_q"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=1, completion=[1])]), "prompt is 1"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=[])]), "completion"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=None)]), "completion"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=[1] * 64)]), "65 tokens"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=[1], old_logprobs=[0, 0])]), "old_logprobs"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=[1, 2], sampling_logprobs=[-1])]), "].sampling_logprobs"),
    ("update", dict(prompts=[[1]], sequences=[dict(prompt=0, completion=[1], sampling_logprobs=[0.1])]), "].sampling_logprobs"),
    ("update", dict(prompts=[[1]], sequences=[3]), r"sequences\[0\]"),
    ("update", dict(prompts=[[1]], sequences=[], loss_type="sapo"), "loss_type"),
    ("update", dict(prompts=[[1]], sequences=[], loss_type="dr_grpo"), "max_completion_length"),
    ("update", dict(prompts=[[1]], sequences=[], temperature=0), "temperature"),
    ("update", dict(prompts=[[1]], sequences=[], learning_rate=10**400), "learning_rate"),
    ("save", dict(path="", format="checkpoint"), "path"),
    ("save", dict(path="x", format="pickle"), "format"),
    ("memory", dict(x=1), "x is not"),
]


@pytest.mark.parametrize("call,params,named", WRONG)
def test_a_wrong_request_gets_an_answer(shared, call, params, named):
    import re

    error = shared.error(call, **params)
    assert error["kind"] == "bad_request" and re.search(named, error["message"]), error


def test_lines_that_are_no_requests_get_an_answer(shared):
    lines = [b"", b"hello", b"[]", b"\xff\xfe", b"{", b'{"id":1,"call":"memory","params":NaN}', b"[" * 100000]
    lines += [b'{"call":"memory"}', b'{"id":"7","call":"memory"}', b'{"id":7}', b'{"id":7,"call":"memory","params":[]}']
    for line in lines:
        shared.send(line + b"\n")
        if line:
            answer = shared.receive()
            assert answer["error"]["kind"] == "bad_request", (line, answer)
    shared.send(b'{"id":1,"call":"memory","params":null}\r\n\n')
    assert shared.receive()["result"]["rss_bytes"] > 0


def test_a_line_that_is_too_long_gets_an_answer(shared):
    for _ in range(65):
        shared.send(b" " * (1 << 20))
    shared.send(b"\n")
    assert "longer" in shared.receive()["error"]["message"]
    assert shared.result("memory")["rss_bytes"] > 0


def test_model_device_and_checkpoint_errors_have_their_kinds(shared, tmp_path):
    assert shared.error("load", model_dir=str(tmp_path))["kind"] == "model"
    assert shared.error("load", model_dir=str(tmp_path), device="cuda:99")["kind"] == "device"
    assert shared.error("restore", path=str(tmp_path / "none"))["kind"] == "checkpoint"


def test_same_seed_in_another_process_gives_the_same_bits(shared, started, directory):
    engine = started  # the other is a fork
    load = dict(model_dir=directory, random_init=True, seed=3, threads=1)
    options = dict(prompts=[[1, 2, 3], [4]], num_generations=4, max_new_tokens=30, seed=8, eos_token_id=13)
    engine.result("load", **load)
    engine.result("generate", **dict(options, seed=9))
    one, other = engine.result("generate", **options), shared.result("generate", **options)
    assert one["completions"] == other["completions"] and one["logprobs"] == other["logprobs"]


def test_equal_runs_have_equal_checkpoints_also_after_a_kill(tmp_path, directory):
    """The files of two processes with one seed, and of a third that continues from the middle of the
    first.
    """
    update = dict(prompts=[[1, 2]], sequences=[dict(prompt=0, completion=[4, 5], advantage=1.0)], learning_rate=0.01)

    def live(name, first, rounds):
        engine, sums = Engine(), []
        try:
            engine.result("load", model_dir=directory, random_init=True, seed=3, threads=1)
            if first:
                engine.result("restore", path=str(tmp_path / first))
            for i in rounds:
                engine.result("generate", prompts=[[1, 2]], num_generations=2, max_new_tokens=5, seed=i)
                engine.result("update", **update)
                path = tmp_path / f"{name}-{i}"
                saved = engine.result("save", path=str(path), background=i % 2 == 0, metadata={"round": str(i)})
                saved = engine.result("saved", wait=True) if saved["pending"] else saved
                assert saved["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
                sums.append(saved["sha256"])
            engine.process.kill()
        finally:
            engine.close()
        return sums

    calm = live("calm", None, range(4))
    assert len(set(calm)) == 4
    assert live("again", None, range(4)) == calm
    assert live("resumed", "again-1", range(2, 4)) == calm[2:]


# A forward pass so large that its activations are most of an update's memory.
WIDE = "from engine import __main__, batch; batch.POSITIONS['cpu'] = 1024"


def limited(megabytes, more=""):
    """An engine with a limit on the growth of its address space: allocations beyond it really fail. more
    is code to run before it serves.
    """
    return Engine(
        "import resource\n"
        "from engine import serve, __main__\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size + ({megabytes} << 20),) * 2)\n"
        f"{more}\n"
        "__main__.main()\n"
    )


def address_space_limit(engine):
    with open(f"/proc/{engine.process.pid}/limits") as file:
        return next(int(line.split()[3]) for line in file if line.startswith("Max address space"))


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A model with large keys, values and activations for its work: 32 KB of keys and values a token."""
    path = tmp_path_factory.mktemp("deep")
    (path / "config.json").write_text(json.dumps(dict(CONFIG, n_embd=128, n_layer=32, n_inner=32)))
    return str(path)


def test_out_of_memory_is_told_with_its_bytes_and_survived(deep):
    engine = limited(500)
    try:
        engine.result("load", model_dir=deep, random_init=True, threads=1)
        options = dict(prompts=[[1]], num_generations=2000, max_new_tokens=8, eos_token_id=-1)
        error = engine.error("generate", **options)
        assert error["kind"] == "out_of_memory"
        found = error["shortage"]
        assert set(found) == {"where", "requested_bytes", "used_bytes", "cap_bytes", "free_bytes", "total_bytes"}
        assert found["where"] == "host" and found["requested_bytes"] > 1 << 20
        assert found["cap_bytes"] == address_space_limit(engine)
        assert 100 << 20 < found["used_bytes"] < found["cap_bytes"]
        # The same completions fit in parts.
        assert engine.result("generate", micro_batch=500, **options)["new_tokens"] == 16000
    finally:
        engine.close()


def test_an_update_that_runs_out_changes_nothing_and_fits_with_gradient_checkpointing(deep, engine, tmp_path):
    load = dict(model_dir=deep, random_init=True, seed=3, threads=1, precision="float64")
    rows = [dict(prompt=0, completion=[1 + i % 20] * 50, advantage=(-1.0) ** i) for i in range(24)]
    # 20 rows of 51 positions are one forward pass of the engine that is to run out of memory.
    update = dict(prompts=[[1, 2]], sequences=rows, learning_rate=1e-3)
    small = limited(500, WIDE)
    try:
        for each in (small, engine):
            each.result("load", **load)
        before = small.result("save", path=str(tmp_path / "a"))["weight_hash"]
        error = small.error("update", **update)
        assert (error["kind"], error["shortage"]["where"]) == ("out_of_memory", "host")
        assert error["shortage"]["requested_bytes"] > 0
        assert small.result("save", path=str(tmp_path / "a"))["weight_hash"] == before
    finally:
        small.close()
    small = limited(500, WIDE)
    try:
        small.result("load", **load, gradient_checkpointing=True)
        ours, theirs = small.result("update", **update), engine.result("update", **update)
        for name in ("loss", "grad_norm", "entropy", "mean_logprob"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-12)
    finally:
        small.close()


def test_gradient_checkpointing_takes_a_fraction_of_the_memory(deep):
    rows = [dict(prompt=0, completion=[1 + i % 20] * 50, advantage=(-1.0) ** i) for i in range(20)]
    took = []
    for checkpointing in (False, True):
        engine = Engine(WIDE + "; __main__.main()")
        try:
            engine.result("load", model_dir=deep, random_init=True, threads=1, gradient_checkpointing=checkpointing)
            memory = engine.result("update", prompts=[[1, 2]], sequences=rows)["memory"]
            took.append(memory["call_peak_bytes"] - memory["call_begin_bytes"])
        finally:
            engine.close()
    assert took[1] < took[0] / 2


def test_a_call_reports_the_memory_it_took(engine, deep):
    engine.result("load", model_dir=deep, random_init=True, threads=1)
    options = dict(prompts=[[1]], max_new_tokens=17, eos_token_id=-1)
    engine.result("generate", num_generations=1, **options)
    answers = []
    for generations in (1, 200, 1):
        engine.result("trim")
        answers.append(engine.result("generate", num_generations=generations, **options)["memory"])
    own = 200 * 16 * 32 * 2 * 128 * 4  # bytes of keys and values: 105 MB
    took = [answer["call_peak_bytes"] - answer["call_begin_bytes"] for answer in answers]
    assert own < took[1] < 1.5 * own and took[0] < own / 16 and took[2] < own / 16
    assert answers[2]["peak_rss_bytes"] >= answers[1]["call_peak_bytes"] > answers[2]["call_peak_bytes"]
    memory = engine.result("memory")
    assert memory["call_begin_bytes"] == memory["call_peak_bytes"] == 0


OFFLOADS = [
    dict(optimizer_offload=True),
    dict(param_offload=True),
    dict(param_offload=True, optimizer_offload=True, gradient_checkpointing=True, cuda_graphs=True, memory_cap_bytes=1 << 40),
    dict(param_offload=False),
    dict(optimizer_offload=False, gradient_checkpointing=False),
]


def test_settings_of_memory_change_no_result_whenever_they_change(shared, engine, directory, tmp_path):
    """Two engines run the same rounds. One of them is configured and trimmed in between, and saved while
    parked.
    """
    load = dict(model_dir=directory, random_init=True, seed=3, threads=1)
    engines = (shared, engine)
    shared.result("load", **load)
    engine.result("load", **load, optimizer_offload=True, param_offload=True)
    for number, settings in enumerate([{}, *OFFLOADS]):
        if settings:
            assert set(engine.result("configure", **settings)) == MEMORY
        engine.result("trim")
        answers = []
        for each in engines:
            generated = each.result("generate", prompts=[[1, 2], [3]], num_generations=3, max_new_tokens=9, seed=number)
            rows = [dict(prompt=i // 3, completion=c, advantage=(-1.0) ** i) for i, c in enumerate(generated["completions"])]
            updated = each.result("update", prompts=[[1, 2], [3]], sequences=rows, learning_rate=1e-2, beta=0.1)
            if each is engine:
                each.result("trim")
            saved = each.result("save", path=str(tmp_path / "ck"))
            if each is engine:
                each.result("restore", path=str(tmp_path / "ck"), sha256=saved["sha256"])
                each.result("logprobs", prompts=[[1]], sequences=[dict(prompt=0, completion=[2])])
            answers.append((generated["completions"], generated["logprobs"], updated["grad_norm"], updated["kl"], saved["weight_hash"]))
        assert answers[0] == answers[1], settings


def long_call(engine, directory):
    engine.result("load", model_dir=directory, random_init=True, threads=1)
    engine.start("generate", prompts=[[1]] * 64, num_generations=256, max_new_tokens=60, eos_token_id=-1)


def busy(engine):
    """Waits until the engine computes: its memory has grown well beyond that of an idle engine."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with open(f"/proc/{engine.process.pid}/statm") as file:
            if int(file.read().split()[1]) * 4096 > 330 << 20:
                return
        time.sleep(0.01)
    raise AssertionError("the call did not start")


def test_exits_when_stdin_closes_in_the_middle_of_a_call(engine, directory):
    long_call(engine, directory)
    busy(engine)
    began = time.monotonic()
    engine.process.stdin.close()
    assert engine.wait() == 0
    assert time.monotonic() - began < 3
    assert engine.process.stdout.read() == b""


def test_exits_at_once_when_stdin_closes_during_start(started):
    started.process.stdin.close()
    assert started.wait() == 0


def test_interrupt_and_terminate_are_ignored(engine):
    engine.result("hello", protocol=6)
    for number in (signal.SIGINT, signal.SIGTERM):  # a batch system sends SIGTERM to every process of a job
        os.killpg(engine.process.pid, number)
        assert engine.result("memory")["rss_bytes"] > 0
    engine.process.stdin.close()
    assert engine.wait() == 0


def test_exits_when_its_parent_dies_though_its_stdin_stays_open():
    """The grandparent holds the write end, so that only the watch on the parent's pid can notice."""
    read, write = os.pipe()
    middle = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys, time\n"
         "p = subprocess.Popen([sys.executable, '-u', '-m', 'engine'])\nprint(p.pid, flush=True)\ntime.sleep(60)"],
        stdin=read, stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=PARENT),
    )  # fmt: skip
    try:
        os.close(read)
        child = int(middle.stdout.readline())
        os.write(write, b'{"id":1,"call":"memory"}\n')
        json.loads(middle.stdout.readline())
        middle.kill()
        middle.wait(DEADLINE)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and alive(child):
            time.sleep(0.05)
        assert not alive(child)
    finally:
        middle.kill()
        middle.wait(DEADLINE)
        middle.stdout.close()
        os.close(write)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_stray_print_does_not_reach_the_protocol():
    code = (
        "import os\nfrom engine import __main__, ranks\n"
        "class Noisy(ranks.Leader):\n"
        "    def memory(self, request):\n"
        "        print('from Python')\n        os.write(1, b'from C\\n')\n        return super().memory(request)\n"
        "ranks.Leader = Noisy\n__main__.main()\n"
    )
    engine = Engine(code)
    try:
        assert engine.result("memory")["rss_bytes"] > 0
        engine.process.stdin.close()
        engine.wait()
        errors = engine.process.stderr.read()
        assert b"from Python" in errors and b"from C" in errors
    finally:
        engine.close()
