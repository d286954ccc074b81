"""What the sections of a check share."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import flops
import model
from report import Report

GB = 10**9


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
    """What the sections share."""

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
    json: Path
    gemm: dict = field(default_factory=dict)  # FLOP/s by precision
    pace: dict = field(default_factory=lambda: {"load": 6.0, "round": 1.0})  # seconds: to load a node, of a round for each node
    best: dict = field(default_factory=dict)  # seconds a round: "swarm", "predecessor"

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
        return self.deadline - time.monotonic()

    def save(self):
        """What there is so far: a machine that goes away shall not take it along."""
        self.json.parent.mkdir(parents=True, exist_ok=True)
        self.json.write_text(json.dumps(self.report.to_json(), indent=1, default=str) + "\n", encoding="utf-8")
        self.json.with_suffix(".txt").write_text(self.report.table() + "\n", encoding="utf-8")

    def wants(self, name):
        return not self.only or name in self.only or name.split(".")[0] in self.only or any(o.startswith(name + ".") for o in self.only)
