"""State that the sections of a check share."""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import child
import facts
import flops
import model
from evidence import Evidence
from report import Report

GB = 10**9
HERE = Path(__file__).resolve().parent
POLICY = HERE.parents[1] / "node" / "policy"  # the folder of the engine's package


def child_environment(**more):
    """Returns the environment of a child that imports the engine: ours, with the engine's folder first."""
    paths = [str(POLICY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1", **more)


@dataclass(frozen=True)
class Work:
    """A round of one node: the issue's I, J, G and lengths."""

    own: int = 4
    external: int = 4
    generations: int = 8
    prompt_tokens: int = 192
    new_tokens: int = 256


@dataclass
class Check:
    """State that the sections share."""

    program: str
    device: str
    quick: bool
    work: Work
    shape: flops.Shape
    nodes: int
    scratch: Path
    deadline: float
    report: Report
    only: set
    out: Path
    evidence: Evidence
    weights: str = ""  # a folder with real weights
    stall: float = child.STALL
    gemm: dict = field(default_factory=dict)  # FLOP/s by precision
    pace: dict = field(default_factory=lambda: {"load": 6.0, "round": 1.0})  # seconds: to load a node, and per round and node
    best: dict = field(default_factory=dict)  # seconds per round: "swarm", "predecessor"
    parity_folder: str = ""  # plain random weights, when written
    section_deadline: float = 0.0

    @property
    def dry(self):
        return self.device == "cpu"

    @property
    def threads(self):
        return 1 if self.dry else 0

    @property
    def folder(self):
        """The model's folder, written at its first use."""
        path = self.scratch / "model"
        return path if path.exists() else model.write(path, self.shape)

    def left(self):
        """Returns the seconds left for this section, or for all remaining sections between sections."""
        deadline = min(self.deadline, self.section_deadline) if self.section_deadline else self.deadline
        return deadline - time.monotonic()

    def ask(self, section, script, *arguments, cap, env=None, name=""):
        """Runs a measuring child of this folder and returns its facts. Failures in it become rows. It is stopped
        before the section's time is over, so that its facts count.
        """
        name = name or script.removesuffix(".py")
        log = self.evidence.path(f"{section}/{name}.log")
        environment = child_environment(PYTHONUNBUFFERED="1", **(env or {}))
        command = [sys.executable, HERE / script, *arguments]
        lines, code, problem = child.run(command, log, max(1, min(cap, self.left() - 2)), self.stall, env=environment, cwd=POLICY)
        found, failures = facts.read(lines)
        for step, why in failures:
            self.report.fail(section, why, f"{name}: {step}" if step != name else name)
        if problem or code:
            self.report.fail(section, problem or f"ended with {code}: {child.last_line(log)}", name)
        self.report.details.setdefault(section, {})[name] = found
        return found

    def save(self):
        """Writes the results so far, in case the machine is lost."""
        self.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.report.to_json(), indent=1, default=str) + "\n"
        for name, content in (("gpu-check.json", text), ("gpu-check.txt", self.report.table() + "\n")):
            part = self.out / (name + ".part")
            part.write_text(content, encoding="utf-8")
            os.replace(part, self.out / name)
        self.evidence.pack()

    def wants(self, name):
        return not self.only or name in self.only or name.split(".")[0] in self.only or any(o.startswith(name + ".") for o in self.only)
