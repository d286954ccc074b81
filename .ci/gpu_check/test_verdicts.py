"""Runs of swarms compared with their targets."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import report  # noqa: E402
import swarm  # noqa: E402
import verdicts  # noqa: E402
from stage import Stage  # noqa: E402


def figures(**changes):
    """Figures of a good run of eight nodes and three rounds."""
    found = {
        "settings": {}, "gpu_memory": 0, "seconds_per_round": 3.0, "rounds": 3, "loaded": 8, "load_seconds": 40.0, "self_test": 0.001,
        "sampling_logp_difference_max": 0.01, "sampling_logp_difference_mean": 0.001, "peak_total_bytes": 40 * 10**9, "exit_code": 0, "said": "",
        "cut": True, "out_of_memory_deaths": 0, "memory_step_count": 0, "mean_length": 256.0,
        "start_seconds": 0.5, "first_generating_seconds": 45.0, "host_peak_bytes": 4 * 10**9,
    }  # fmt: skip
    return dict(found, **changes)


def test_a_good_run_meets_its_targets():
    c = Stage()
    verdicts.report_run(c, swarm.Run("lease", 8, 3, {}), figures())
    verdicts.report_run(c, swarm.Run("mps", 8, 3, {}), figures(seconds_per_round=2.0))
    verdicts.report_run(c, swarm.Run("cap-15GB", 8, 3, {}), figures(peak_total_bytes=14 * 10**9))
    verdicts.report_run(c, swarm.Run("24-nodes", 24, 2, {}), figures(loaded=24))
    c.best["predecessor"] = 12.0
    verdicts.report_targets(c)
    assert set(c.verdicts().values()) == {report.MET} and not c.report.missed()
    assert {"MPS proof passes", "8 nodes: peak total", "8 nodes under a 15 GB cap", "24 nodes under lease", "faster than rl-swarm's way"} <= set(c.verdicts())
    assert c.best["swarm"] == 2.0


@pytest.mark.parametrize(
    "name, changes, missed",
    [
        ("lease", {"peak_total_bytes": 53 * 10**9}, "8 nodes: peak total"),
        ("lease", {"self_test": 0.06}, "lease: self-test of every load"),
        ("lease", {"sampling_logp_difference_max": 0.06}, "lease: sampling_logp_difference/max"),
        ("lease", {"out_of_memory_deaths": 1}, "8 nodes: deaths by out of memory"),
        ("cap-15GB", {"peak_total_bytes": 16 * 10**9}, "8 nodes under a 15 GB cap"),
        ("24-nodes", {"rounds": 1}, "24 nodes under lease"),
        ("lease", {"said": "no progress for 60 s", "cut": False, "exit_code": 130}, "lease"),
    ],
)
def test_a_bad_run_misses_its_target(name, changes, missed):
    c = Stage()
    verdicts.report_run(c, swarm.Run(name, 24 if name == "24-nodes" else 8, 3, {}), figures(loaded=24 if name == "24-nodes" else 8, **changes))
    assert missed in [row.name for row in c.report.missed()]


def test_a_run_that_fails_misses_its_target_and_a_card_without_bf16_fails_nothing():
    c = Stage()
    verdicts.report_failure(c, swarm.Run("mps", 8, 3, {}), "Error: MPS on GPU 0: no limit (limit_ignored)")
    assert c.verdicts() == {"mps": report.FAILED, "MPS proof passes": report.MISSED}
    c = Stage()
    verdicts.report_failure(c, swarm.Run("bf16", 8, 3, {"precision": "bf16"}), "Error: precision bf16 needs an Ampere GPU or newer, not Tesla T4")
    assert not c.report.missed() and c.report.rows[0].value.startswith("refused:")


def test_the_engine_host_is_compared_with_direct_starts():
    c = Stage()
    verdicts.report_run(c, swarm.Run("lease", 8, 3, {}), figures())
    verdicts.report_run(c, swarm.Run("lease-direct", 8, 2, {}, direct=True), figures(start_seconds=2.0, first_generating_seconds=None, host_peak_bytes=16 * 10**9))
    told = {row.name: row.value for row in c.report.rows}
    assert told["host memory, with the engine host to without"] == told["a node's start, with the engine host to without"] == 0.25
    assert told["first generating, with the engine host to without"] is None
