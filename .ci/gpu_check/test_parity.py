"""Parity on a card that lacks a precision, and the engine's own tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import flops  # noqa: E402
import model  # noqa: E402
import report  # noqa: E402
from stage import Stage  # noqa: E402


class T4:
    """An engine on a T4, simulated by a real one on the CPU: bf16 is refused at load, as precision.check does there.
    """

    def __init__(self, log=None):
        from engine_client import Engine

        self._engine = Engine(log)

    def __exit__(self, *_):
        self._engine.__exit__()

    def call(self, name, **params):
        from engine_client import EngineError

        if name == "load" and params["precision"] == "bf16":
            raise EngineError({"kind": "bad_request", "message": "precision bf16 needs an Ampere GPU or newer, not Tesla T4. Try: precision tf32"})
        return self._engine.call(name, **params)


def test_a_card_without_bf16_has_parity_of_all_else(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    import parity
    import parity_section

    shape = flops.Shape(layers=1, heads=2, width=32, context=64, vocabulary=50257)
    folder = parity.random_folder(tmp_path, model.write(tmp_path / "model", shape), 1)
    monkeypatch.setattr(parity, "Engine", T4)
    prompts, ways = parity.ask_engine(folder, "cpu", parity.PRECISIONS, 1, tmp_path / "engine.log")
    rows = [[prompts[s["prompt"]], s["completion"]] for way in ways for s in way.sequences]
    truth = parity.ask_reference(folder, "cpu", rows, tmp_path / "reference.log")
    c = Stage()
    parity_section.report_ways(c, ways, truth, "", "random weights")
    assert not c.report.missed()
    refused = [row.name for row in c.report.rows if str(row.value).startswith("refused: bad_request: precision bf16 needs an Ampere")]
    assert refused == ["bf16, random weights", "bf16, graphs, random weights"]
    met = c.verdicts()
    assert set(met.values()) == {report.MET}
    for way in ("fp32", "fp32, graphs", "tf32", "tf32, graphs"):
        assert f"self-test of the load, {way}, random weights" in met
    scored = [row for row in c.report.rows if row.name.startswith("|scored") and "fp16" in row.name]
    assert len(scored) == 2 and all(row.value < 1e-3 for row in scored)


def test_other_log_probabilities_than_the_references_miss_the_target():
    import parity
    import parity_section

    way = parity.Way("fp32", False, 0.2, [{"prompt": 0, "completion": [1, 2]}], [[-1.0, -2.0]], [[-1.0, -2.002]])
    c = Stage()
    parity_section.report_ways(c, [way], {"library": "plain torch", "logprobs": [[-1.0, -2.0]]}, "", "random weights")
    assert [row.name.split(",")[0] for row in c.report.missed()] == ["self-test of the load", "|scored - plain torch|"]
    with pytest.raises(ValueError):
        parity.difference([[-1.0]], [])


def test_tests_are_counted_by_pytests_lines():
    import engine_tests

    lines = ["tests/test_cuda.py::test_a[gpt2] PASSED [ 10%]", "tests/test_cuda.py::test_b FAILED [ 20%]", "x::test_c SKIPPED (no CUDA device) [ 30%]",
             "== 1 failed, 1 passed ==", "FAILED tests/test_cuda.py::test_b - assert 0"]
    assert engine_tests.count(lines) == {"PASSED": 1, "FAILED": 1, "SKIPPED": 1}


def test_a_card_on_which_every_cuda_test_is_skipped_has_failed(tmp_path, monkeypatch):
    import engine_tests
    from evidence import Evidence

    c = Stage()
    c.evidence, c.left = Evidence(tmp_path / "e", tmp_path / "a.tar.gz"), lambda: 100.0
    monkeypatch.setattr(engine_tests, "run", lambda files, log, cap: ({"SKIPPED": 30}, None))
    engine_tests.check_tests(c)
    assert c.verdicts() == {"test_cuda.py": report.FAILED, "test_graphs.py": report.FAILED}
    c.report = report.Report()
    monkeypatch.setattr(engine_tests.importlib.util, "find_spec", lambda name: None)
    engine_tests.check_tests(c)
    assert c.verdicts() == {"test_cuda.py": report.FAILED, "test_graphs.py": report.FAILED} and "has no pytest" in c.report.rows[0].note
