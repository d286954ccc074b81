"""make smollm2: when its folder of weights is made again, and which commands it shows."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shlex
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("smollm2")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script, with its folders in a folder of the test's. made counts the calls of gguf_folder.py."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    loader = importlib.machinery.SourceFileLoader("smollm2_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("smollm2_script", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", str(tmp_path / "weights"))
    monkeypatch.setattr(module, "HERE", str(tmp_path))
    monkeypatch.setattr(module, "gguf_file", lambda: "model.gguf")
    monkeypatch.setattr(module.environments, "prepare", lambda name: "python")
    module.made = 0

    def output(command, **_):
        module.made += 1
        os.mkdir(command[-1])
        return json.dumps({"tensors": {}, "parameters": module.PARAMETERS, "bytes": 1})

    monkeypatch.setattr(module, "output", output)
    return module


def test_weights_are_made_again_when_their_script_changes(script, tmp_path):
    (tmp_path / "gguf_folder.py").write_text("one")
    script.weights()
    (tmp_path / "weights" / "perplexity-1.txt").write_text("of the old weights")
    script.weights()
    assert script.made == 1
    (tmp_path / "gguf_folder.py").write_text("two")
    (tmp_path / "weights.new").mkdir()  # of a stopped call
    script.weights()
    assert script.made == 2 and not (tmp_path / "weights" / "perplexity-1.txt").exists()


def answers(script, monkeypatch, tasks, gpus):
    """Replaces the program's answers."""
    monkeypatch.setattr(script, "output", lambda command, **_: json.dumps({"devices": gpus} if "gpu" in command else tasks))


@pytest.mark.parametrize("questions", ["0", "30"])
def test_commands(script, monkeypatch, capsys, questions):
    ran = []
    for name in ("weights", "perplexity"):
        monkeypatch.setattr(script, name, lambda: True)
    answers(script, monkeypatch, [{"name": "basic_arithmetic"}], [])
    monkeypatch.setattr(script.subprocess, "run", lambda command, **_: ran.append(command))
    monkeypatch.setattr(sys, "argv", ["smollm2", "--home", "/a home", "--tasks", "basic_arithmetic", "--questions", questions])
    script.main()
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(shown) == len(ran) and all(line.startswith("$ swarm --home '/a home' ") for line in shown)
    assert [command[3] for command in ran] == ["up"] + ["eval"] * (questions != "0") + ["curve"] + ["model"] * 6
    prompts = [command for command in ran if command[3] == "model"]
    # The first weights and the newest answer each question.
    assert all(first == [*last, "--round", "0"] for first, last in zip(prompts[::2], prompts[1::2]))


def options(command):
    return dict(zip(command[:-1], command[1:]))


@pytest.mark.parametrize(
    "arguments,gpus,expected",
    [
        # The runs of issue 25.
        ([], [], ("4", "20", "4", "cpu")),
        ([], [{}], ("4", "20", "4", "auto")),
        (["--compare"], [{}], ("8", "50", "4", "auto")),
        (["--compare", "--nodes", "2", "--device", "cpu"], [{}], ("2", "50", "4", "cpu")),
    ],
)
def test_runs(script, tmp_path, monkeypatch, capsys, arguments, gpus, expected):
    answers(script, monkeypatch, [{"name": "arc_1d"}, {"name": "bf"}], gpus)
    monkeypatch.setattr(sys, "argv", ["smollm2", "--dry-run", *arguments])
    script.main()
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    shown = [shlex.split(line)[4:] for line in capsys.readouterr().out.splitlines() if line]
    runs = [options(command) for command in shown if command[0] == "up"]
    assert [run["up"].split(",")[1] for run in runs] == (["8loc0ext", "4loc4ext"] if arguments else ["4loc4ext"])
    for run in runs:
        assert (run["--nodes"], run["--rounds"], run["--num-generations"], run["--device"]) == expected
    names = [run["--name"] for run in runs]
    assert len(set(names)) == len(names)
    assert shown[-1] == ["compare", names[1], names[0], "--baseline", names[0]] if arguments else shown[-1][0] == "model"
