"""Real runs of `swarm up`: seconds a round, tokens a second, the card's memory over the run, and everything that went wrong."""

import json
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

from plans import first_line


@dataclass
class Run:
    """One run to make. settings are configuration keys."""

    name: str
    nodes: int
    rounds: int  # the first is warm-up and not counted
    settings: dict
    gpu_memory: int = 0  # bytes, 0: the whole card


@dataclass
class Seen:
    """What a run's events tell."""

    rounds: dict = field(default_factory=dict)  # number -> times of nodes' ends
    reports: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    deaths: list = field(default_factory=list)
    loaded: dict = field(default_factory=dict)  # node -> time of its first load
    budget: int = 0

    def take(self, event):
        kind = event.get("type")
        if kind == "round":
            self.rounds.setdefault(event["round"]["round"], []).append(event["time"])
            self.reports.append(event["round"])
        elif kind == "memory_step":
            self.steps.append(event["memory_step"])
        elif kind == "exit" and event.get("cause"):
            self.deaths.append({"node": event.get("node"), "cause": event["cause"], "message": event.get("message", "")})
        elif kind == "loaded":
            self.loaded.setdefault(event.get("node"), event["time"])
        elif kind == "memory":
            self.budget = max(self.budget, event["memory"].get("budget_bytes", 0))

    def out_of_memory(self):
        return sum("out_of_memory" in death["cause"] for death in self.deaths)

    def seconds_a_round(self, nodes):
        """From the end of the first whole round to that of the last; None with fewer than two."""
        ends = [max(times) for number, times in sorted(self.rounds.items()) if len(times) >= nodes]
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None


class MemoryWatch:
    """The card's memory in use, by nvidia-smi, five times a second; peak() is None where there is none."""

    def __init__(self):
        self.baseline = self._peak = None
        try:
            self._process = subprocess.Popen(
                ["nvidia-smi", "-i", "0", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
        except OSError:
            self._process = None
            return
        self._busy = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self._process.stdout:
            parts = [part.strip() for part in line.split(",")]
            if parts[0].isdigit():
                used = int(parts[0]) << 20
                self.baseline = used if self.baseline is None else self.baseline
                self._peak = max(self._peak or 0, used)
            if len(parts) > 1 and parts[1].isdigit():
                self._busy.append(int(parts[1]) / 100)

    def stop(self):
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._thread.join(5)

    def peak(self):
        """Bytes above what was in use before."""
        return None if self._peak is None else self._peak - self.baseline

    def utilization(self):
        return sum(self._busy) / len(self._busy) if self._process and self._busy else None


def command(program, python, home, model, items, device, work, run):
    """The run's command line."""
    options = [
        program, "--home", str(home), "--python", python, "up", "-o", "json", "--config", "4loc4ext", "--model", str(model), "--name", run.name,
        "--nodes", str(run.nodes), "--rounds", str(run.rounds), "--device", device, "--seed", "1",
    ]
    settings = {
        "swarm_size": max(8, run.nodes), "num_train_samples": work.own, "num_transplant_trees": work.external, "num_generations": work.generations,
        "tasks.file": items, "tasks.system_prompt": "none", "max_prompt_length": work.prompt_tokens, "max_completion_length": work.new_tokens,
        "learning_rate": 1e-6, "checkpoint_every": 1000, "barrier_deadline": 300, **run.settings,
    }
    for key, value in settings.items():
        options += ["--set", f"{key}={value}"]
    if run.gpu_memory:
        options += ["--gpu-memory", f"{run.gpu_memory / 1e9:g}GB"]
    return options


def up(line, run, limit, log):
    """Makes the run. Returns a dict of figures; raises RuntimeError with the program's own line where it failed."""
    watch, seen, began, started = MemoryWatch(), Seen(), time.monotonic(), time.time()
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True)
        timer = threading.Timer(limit, process.send_signal, [signal.SIGINT])
        hard = threading.Timer(limit + 25, process.kill)
        for t in (timer, hard):
            t.start()
        try:
            for text in process.stdout:
                if text.startswith("{"):
                    seen.take(json.loads(text))
            code = process.wait()
        finally:
            timer.cancel()
            hard.cancel()
    finally:
        watch.stop()
    log.seek(0)
    said = first_line(log.read())
    if code == 130:
        said = f"not done within {limit:.0f} s"
    reports = seen.reports
    figures = {
        "exit_code": code, "said": said if code else "", "nodes": run.nodes, "settings": run.settings, "gpu_memory": run.gpu_memory,
        "wall_seconds": time.monotonic() - began, "seconds_per_round": seen.seconds_a_round(run.nodes), "rounds": len(seen.rounds),
        "loaded": len(seen.loaded), "load_seconds": max(seen.loaded.values()) - started if seen.loaded else None,
        "peak_total_bytes": watch.peak(), "gpu_utilization": watch.utilization(), "budget_bytes": seen.budget,
        "out_of_memory_deaths": seen.out_of_memory(), "deaths": seen.deaths[:20],
        "memory_steps": seen.steps[:50], "memory_step_count": len(seen.steps),
        "mean_length": mean([r["completions_mean_length"] for r in reports]), "reward": mean([r["reward"] for r in reports]),
        "update_steps": sum(r["steps"] for r in reports),
        "generate_seconds": mean([r["generate_time"] for r in reports]), "update_seconds": mean([r["update_time"] for r in reports]),
        "lease_seconds": mean([r["lease_time"] for r in reports]), "barrier_seconds": mean([r["barrier_time"] for r in reports]),
    }
    if code not in (0, 4) or not reports:
        raise RuntimeError(said or f"swarm up ended with {code}")
    return figures


def mean(values):
    return sum(values) / len(values) if values else None
