"""The parts of gpu-check that need no GPU: python3 -m pytest .ci/gpu_check. test_runs.py has whole runs."""

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import barrier  # noqa: E402
import flops  # noqa: E402
import footprint  # noqa: E402
import host  # noqa: E402
import kernel_trace  # noqa: E402
import model  # noqa: E402
import report  # noqa: E402
import swarm  # noqa: E402


def test_gpt2_has_its_parameters():
    assert flops.GPT2.parameters == 124_439_808


def test_flops_are_those_of_six_a_weight_and_token():
    # The rule of thumb is 2 N per token forward and 4 N backward, for weights without embeddings. Attention and head
    # are added to it.
    shape, rows, prompt, new = flops.GPT2, 64, 192, 256
    weights = 12 * shape.layers * shape.width**2
    update = flops.update(shape, rows, prompt, new)
    assert 6 * weights * rows * (prompt + new - 1) < update < 2.2 * 6 * weights * rows * (prompt + new - 1)
    # Processing a prompt once and continuing it eight times costs less than eight times both.
    assert flops.generate(shape, 4, prompt, 8, new) < 8 * flops.generate(shape, 4, prompt, 1, new)
    whole = flops.round_of(shape, 4, 4, 8, prompt, new)
    assert whole == flops.generate(shape, 4, prompt, 8, new) + update


def test_targets_are_never_met_by_a_dry_run():
    r = report.Report(dry=True)
    r.check("swarm", "peak", 1, "bytes", "<= 52 GB", lambda v: True)
    r.needs_gpu("swarm", "mps")
    assert r.rows[0].verdict == report.UNVERIFIED and report.DRY_RUN in r.table() and not r.missed()
    r = report.Report()
    r.check("swarm", "a", 3.0, "s", "<= 4 s", lambda v: v <= 4)
    r.check("swarm", "b", 5.0, "s", "<= 4 s", lambda v: v <= 4)
    r.check("swarm", "c", None, "s", "<= 4 s", lambda v: v <= 4)
    r.fail("mps", "no\nMPS here")
    assert [row.verdict for row in r.rows] == [report.MET, report.MISSED, report.UNVERIFIED, report.FAILED]
    assert [row.name for row in r.missed()] == ["b", "mps"] and r.rows[3].note == "no MPS here"


def test_the_table_of_targets_comes_last_and_holds_what_has_a_verdict():
    r = report.Report()
    r.add("card", "GPU", "none")
    r.check("swarm", "round", 5.0, "s", "<= 4 s", lambda v: v <= 4)
    r.fail("parity", "no reference")
    r.listings["top"] = ["a line"]
    lines = r.table().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("section: target"))
    words = [line.split() for line in lines[begin:]]
    assert words[0] == ["section:", "target", "target", "measured", "verdict", "note"]
    assert words[1] == ["swarm:", "round", "<=", "4", "s", "5", "s", "MISSED"]
    assert words[2] == ["parity:", "parity", "-", "FAILED", "no", "reference"]
    assert lines[-1] == "0 met, 1 MISSED, 1 FAILED, 0 not verified" and "a line" in lines[:begin]


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (6.5e9, "bytes", "6.50 GB"), (0.25, "ratio", "25.0 %"), (4.2e14, "FLOP/s", "420.0 TFLOP/s"), (None, "s", "-"), (3.14159, "s", "3.14 s"),
        (24, "nodes", "24 nodes"), (2.5e9, "bytes/s", "2.50 GB/s"),
    ],
)
def test_figures_are_shown_for_people(value, unit, text):
    assert report.shown(value, unit) == text


def test_line_through_transients():
    points = [{"micro_batch": m, "transient_bytes": 100 + 7 * m} for m in (1, 2, 4, 8)] + [{"micro_batch": 16, "error": "out_of_memory"}]
    fit = footprint.line(points)
    assert fit["points"] == 4 and abs(fit["base_bytes"] - 100) < 1e-9 and abs(fit["bytes_per_sequence"] - 7) < 1e-9
    assert footprint.line(points[:1]) is None


def test_seconds_a_round_are_those_of_the_slowest_node():
    seen = swarm.Seen()
    for time, number in ((10, 0), (12, 0), (15, 1), (16, 1), (17, 2), (20, 2), (21, 3)):
        seen.take({"type": "round", "time": time, "round": {"round": number}})
    assert seen.seconds_a_round(2) == 4.0  # rounds end at 12, 16 and 20; no node finished the fourth
    assert swarm.Seen().seconds_a_round(2) is None
    assert seen.done(2, 3) and not seen.done(2, 4) and not seen.done(3, 1)


def test_what_goes_wrong_is_counted():
    seen = swarm.Seen()
    seen.take({"type": "exit", "node": "node_0", "cause": "out_of_memory", "message": "full"})
    seen.take({"type": "exit", "node": "node_1", "cause": "host_out_of_memory"})
    seen.take({"type": "exit", "node": "node_2"})
    seen.take({"type": "loaded", "node": "node_0", "time": 3, "loaded": {"self_test_max_abs_diff": 0.01}})
    seen.take({"type": "loaded", "node": "node_0", "time": 9, "loaded": {"self_test_max_abs_diff": 0.07}})
    assert seen.loaded == {"node_0": 3} and max(seen.self_tests) == 0.07
    seen.take({"type": "memory_step", "memory_step": {"action": "halve_micro_batch"}})
    assert seen.out_of_memory() == 2 and len(seen.steps) == 1


def test_the_sampling_difference_is_read_where_rounds_tell_it():
    seen = swarm.Seen()
    seen.take({"type": "round", "time": 1, "round": {"round": 0}})
    assert seen.sampling_difference() == (None, None)
    for largest, average in ((0.01, 0.002), (0.08, 0.004)):
        seen.take({"type": "round", "time": 2, "round": {"round": 1, "sampling_logp_difference_max": largest, "sampling_logp_difference_mean": average}})
    assert seen.sampling_difference() == (0.08, 0.003)


def event(category, name, microseconds):
    return {"ph": "X", "cat": category, "name": name, "dur": microseconds}


def test_a_step_is_the_difference_of_two_traces():
    def call(steps):
        events = [event("kernel", "prefill", 90.0), event("cuda_runtime", "cudaGraphInstantiate", 700.0), {"ph": "M", "name": "process_name"}]
        for _ in range(steps):
            events += [event("kernel", "gemm", 5.0), event("kernel", "gemm", 5.0), event("kernel", "softmax", 2.0), event("gpu_memcpy", "Memcpy DtoD", 1.0)]
        return kernel_trace.parse({"traceEvents": events})

    long, short = call(20), call(10)
    step = kernel_trace.minus(long.kernels, short.kernels, 10)
    assert step == {"gemm": [2.0, 10.0], "softmax": [1.0, 2.0]} and kernel_trace.totals(step) == (3.0, 12.0)
    assert long.count() == 61 and long.moved() == 20 and long.device_time() == 90 + 20 * 13
    assert [line.split()[-1] for line in kernel_trace.top(step)] == ["gemm", "softmax"]
    # Without Kineto torch writes an array without categories.
    assert kernel_trace.parse([{"ph": "X", "pid": "CPU functions", "name": "aten::mm", "dur": 3}]).operators == {"aten::mm": [1, 3.0]}


@pytest.mark.parametrize(
    "kernel, backend",
    [
        ("pytorch_flash::flash_fwd_kernel<...>", "flash"), ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "memory-efficient"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "cudnn"), ("ampere_sgemm_128x64_tn", "math"),
    ],
)
def test_attention_is_told_by_its_kernels(kernel, backend):
    assert kernel_trace.attention({kernel: [1, 1.0], "elementwise_kernel": [1, 1.0]}) == backend


def test_limits_of_a_cgroup_are_read(tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "self").write_text("0::/job\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "job/memory.max").write_text("1000000\n")
    (tmp_path / "job/cpu.max").write_text("150000 100000\n")
    assert host.cgroup(tmp_path, tmp_path / "self") == {"cgroup_memory_bytes": 1000000, "cgroup_cores": 1.5, "cgroup_processes": None}


def test_time_is_up_even_where_every_exception_is_caught():
    with pytest.raises(barrier.TimeUp, match="not done within 0 s"):
        with barrier.cap(0.2):
            while True:
                try:
                    __import__("time").sleep(10)
                except Exception:  # noqa: BLE001 - as a careless section would
                    pass


def test_the_model_answers_with_one_of_three_digits(tmp_path):
    torch = pytest.importorskip("torch")
    import reference

    torch.manual_seed(0)
    folder = model.write(tmp_path / "model", flops.SMALL)
    net = reference.Plain(folder, "cpu")
    rows = net.sample(torch.tensor(model.prompts(24, 9, 50257)), 9).tolist()
    for row in rows:
        assert row[:3] == [model.OPEN, model.WORD, model.CLOSE] and row[3] in model.DIGITS and row[4:7] == [model.BACK, model.WORD, model.CLOSE]
        assert model.END not in row
    assert {row[3] for row in rows} == set(model.DIGITS)


def test_a_predecessor_that_hangs_is_given_up(tmp_path):
    pytest.importorskip("torch")
    import predecessor
    from context import Work

    with pytest.raises(RuntimeError, match="not done within 1 s"):
        predecessor.measure(model.write(tmp_path / "model", flops.SMALL), "cpu", Work(2, 2, 4, 48, 200), 1, tmp_path, tmp_path, 1, 4)


def test_facts_that_a_child_told_before_it_failed_count():
    import facts

    lines = ['{"fact": "a", "value": 1}', "noise", "3", json.dumps({"failed": "b", "why": "RuntimeError: no"}), '{"fact": "c"']
    assert facts.read(lines) == ({"a": 1}, [("b", "RuntimeError: no")])
