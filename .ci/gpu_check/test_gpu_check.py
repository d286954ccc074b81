"""The parts of gpu-check that need no GPU, and a dry run of the rest: python3 -m pytest .ci/gpu_check"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import flops  # noqa: E402
import footprint  # noqa: E402
import model  # noqa: E402
import report  # noqa: E402
import swarm  # noqa: E402

PROGRAM = os.environ.get("SWARM_PROGRAM", str(HERE.parents[1] / "bin" / "swarm"))


def test_gpt2_has_its_parameters():
    assert flops.GPT2.parameters == 124_439_808


def test_flops_are_those_of_six_a_weight_and_token():
    # 2 N a token forward and 4 N backward, for weights without embeddings, is the rule of thumb; attention and head come on top.
    shape, rows, prompt, new = flops.GPT2, 64, 192, 256
    weights = 12 * shape.layers * shape.width**2
    update = flops.update(shape, rows, prompt, new)
    assert 6 * weights * rows * (prompt + new - 1) < update < 2.2 * 6 * weights * rows * (prompt + new - 1)
    # Reading a prompt once and continuing it eight times costs less than eight times both.
    assert flops.generate(shape, 4, prompt, 8, new) < 8 * flops.generate(shape, 4, prompt, 1, new)
    whole = flops.round_of(shape, 4, 4, 8, prompt, new)
    assert whole == flops.generate(shape, 4, prompt, 8, new) + update


def test_targets_are_never_met_by_a_dry_run():
    r = report.Report(dry=True)
    r.check("swarm", "peak", 1, "bytes", "<= 52 GB", lambda v: True)
    assert r.rows[0].verdict == report.UNVERIFIED and report.DRY_RUN in r.table()
    r = report.Report()
    r.check("swarm", "a", 3.0, "s", "<= 4 s", lambda v: v <= 4)
    r.check("swarm", "b", 5.0, "s", "<= 4 s", lambda v: v <= 4)
    r.check("swarm", "c", None, "s", "<= 4 s", lambda v: v <= 4)
    r.fail("mps", "no\nMPS here")
    assert [row.verdict for row in r.rows] == [report.MET, report.MISSED, report.UNVERIFIED, report.FAILED]
    assert [row.name for row in r.missed()] == ["b", "mps"] and r.rows[3].note == "no MPS here"


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (6.5e9, "bytes", "6.50 GB"), (0.25, "ratio", "25.0 %"), (4.2e14, "FLOP/s", "420.0 TFLOP/s"), (None, "s", "-"), (3.14159, "s", "3.14 s"),
        (24, "nodes", "24 nodes"),
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
    assert seen.seconds_a_round(2) == 4.0  # rounds end at 12, 16 and 20; nobody finished the fourth
    assert swarm.Seen().seconds_a_round(2) is None


def test_what_goes_wrong_is_counted():
    seen = swarm.Seen()
    seen.take({"type": "exit", "node": "node_0", "cause": "out_of_memory", "message": "full"})
    seen.take({"type": "exit", "node": "node_1", "cause": "host_out_of_memory"})
    seen.take({"type": "exit", "node": "node_2"})
    seen.take({"type": "loaded", "node": "node_0", "time": 3})
    seen.take({"type": "loaded", "node": "node_0", "time": 9})
    assert seen.loaded == {"node_0": 3}
    seen.take({"type": "memory_step", "memory_step": {"action": "halve_micro_batch"}})
    assert seen.out_of_memory() == 2 and len(seen.steps) == 1


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
        predecessor.measure(model.write(tmp_path / "model", flops.SMALL), "cpu", Work(2, 2, 4, 48, 200), 1, tmp_path, 1)


@pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="make build")
def test_dry_run(tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "check.json"
    done = subprocess.run(
        [sys.executable, str(HERE), "--device", "cpu", "--quick", "--only", "plan,engine,swarm", "--swarm", PROGRAM, "--json", str(out)],
        capture_output=True, text=True, timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MISSED" not in done.stdout and "FAILED" not in done.stdout
    run = json.loads(out.read_text())["details"]["swarm"]["default"]
    assert run["exit_code"] == 0 and run["loaded"] == 2 and run["rounds"] == 3
    assert run["mean_length"] == 12 and 0 < run["reward"] < 1 and run["update_steps"] > 0


def test_it_says_why_it_can_not_run(tmp_path):
    done = subprocess.run([sys.executable, str(HERE), "--swarm", str(tmp_path / "absent")], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"Error: {tmp_path}/absent is not there. Try: make build, or --swarm PATH\n"
    done = subprocess.run([sys.executable, str(HERE), "--only", "sections"], capture_output=True, text=True)
    assert done.returncode == 2 and "--only sections: card, parity" in done.stderr
