"""Real runs of `swarm up`: seconds per round, tokens per second, the card's memory over the run, and all failures."""

import contextlib
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import time
from dataclasses import dataclass, field

import child
from host_memory import HostMemory, tree
from memory_watch import MemoryWatch
from plans import first_line

# Types of events that arrive even without progress of the nodes.
IDLE = ('"type":"memory"', '"type":"device"', '"type":"worker"')


@dataclass
class Run:
    """A run to make. settings are configuration keys."""

    name: str
    nodes: int
    rounds: int  # the first is warm-up and not counted
    settings: dict
    gpu_memory: int = 0  # bytes, 0: the whole card
    model: str = ""  # a folder of weights; empty: the check's
    direct: bool = False  # without the engine host: each engine imports torch itself
    to_the_end: bool = False  # until swarm up ends by itself, after a checkpoint of every node; otherwise it is stopped after the last round


@dataclass
class Seen:
    """Data from a run's events."""

    rounds: dict = field(default_factory=dict)  # number -> times when nodes finished
    reports: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    deaths: list = field(default_factory=list)
    spawned: dict = field(default_factory=dict)  # node -> time of its process's first start
    loaded: dict = field(default_factory=dict)  # node -> time of its first load
    generating: dict = field(default_factory=dict)  # node -> time of its first generation
    self_tests: list = field(default_factory=list)  # one per load
    checkpoints: list = field(default_factory=list)  # seconds each
    budget: int = 0
    measured: dict = field(default_factory=dict)  # maximum bytes of a node by kind

    def take(self, event):
        kind = event.get("type")
        if kind == "round":
            self.rounds.setdefault(event["round"]["round"], []).append(event["time"])
            self.reports.append(event["round"])
        elif kind == "memory_step":
            self.steps.append(event["memory_step"])
        elif kind == "exit" and event.get("cause"):
            self.deaths.append({"node": event.get("node"), "cause": event["cause"], "message": event.get("message", "")})
        elif kind == "spawn":
            self.spawned.setdefault(event.get("node"), event["time"])
        elif kind == "state" and event.get("state") == "generating":
            self.generating.setdefault(event.get("node"), event["time"])
        elif kind == "loaded":
            self.loaded.setdefault(event.get("node"), event["time"])
            self.self_tests.append((event.get("loaded") or {}).get("self_test_max_abs_diff", 0.0))
        elif kind == "checkpoint":
            self.checkpoints.append(event["checkpoint"].get("seconds", 0.0))
        elif kind == "memory":
            self.budget = max(self.budget, event["memory"].get("budget_bytes", 0))
            for kind in ("resident_bytes", "generate_bytes", "update_bytes"):
                self.measured[kind] = max(self.measured.get(kind, 0), event["memory"].get(kind, 0))

    def out_of_memory(self):
        return sum("out_of_memory" in death["cause"] for death in self.deaths)

    def done(self, nodes, rounds):
        """Tells whether every node has done that many rounds."""
        return all(len(self.rounds.get(number, ())) >= nodes for number in range(rounds))

    def sampling_difference(self):
        """Returns the (largest, mean) difference of log-probabilities between sampling and update; None if the rounds
        have none.
        """
        largest = [r["sampling_logp_difference_max"] for r in self.reports if r.get("sampling_logp_difference_max") is not None]
        means = [r["sampling_logp_difference_mean"] for r in self.reports if r.get("sampling_logp_difference_mean") is not None]
        return max(largest, default=None), mean(means)

    def start_seconds(self):
        """Returns the seconds from a node's start to its model's load, the median over nodes; None if no node has
        loaded.
        """
        took = [self.loaded[node] - began for node, began in self.spawned.items() if node in self.loaded]
        return statistics.median(took) if took else None

    def seconds_a_round(self, nodes):
        """Returns the seconds per round from the end of the first complete round to that of the last; None with fewer
        than two.
        """
        ends = [max(times) for number, times in sorted(self.rounds.items()) if len(times) >= nodes]
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None


def command(program, python, home, model, items, device, work, run):
    """Returns the run's command line."""
    options = [
        program, "--home", str(home), "--python", python, "up", "-o", "json", "--config", "4loc4ext", "--model", str(model), "--name", run.name,
        "--nodes", str(run.nodes), "--rounds", str(run.rounds if run.to_the_end else run.rounds + 1000), "--device", device, "--seed", "1",
    ]
    settings = {
        "swarm_size": max(8, run.nodes), "num_train_samples": work.own, "num_transplant_trees": work.external, "num_generations": work.generations,
        "tasks.file": items, "tasks.system_prompt": "none", "max_prompt_length": work.prompt_tokens, "max_completion_length": work.new_tokens,
        "learning_rate": 1e-6, "checkpoint_every": 1_000_000, "eval_questions": 0, "barrier_deadline": 300, **run.settings,
    }
    for key, value in settings.items():
        options += ["--set", f"{key}={value}"]
    if run.gpu_memory:
        options += ["--gpu-memory", f"{run.gpu_memory / 1e9:g}GB"]
    return options


def up(line, run, limit, logs, stall):
    """Runs it and returns a dict of figures. Raises RuntimeError with the program's own error line if it failed. logs
    is a folder.
    """
    watch, seen, began, started = MemoryWatch(), Seen(), time.monotonic(), time.time()
    said, cut = "", False
    try:
        with open(logs / "up.stderr", "ab") as log, open(logs / "events.jsonl", "a", encoding="utf-8") as events:
            process = child.start(line, log, env={**os.environ, "SWARM_ENGINE_HOST": "off" if run.direct else ""})
            host = HostMemory(lambda: tree(process.pid))
            try:
                for text in child.follow(process, limit, stall, progress=lambda text: not any(kind in text for kind in IDLE)):
                    if not text.startswith("{"):
                        continue
                    events.write(text + "\n")
                    events.flush()
                    seen.take(json.loads(text))
                    if not run.to_the_end and seen.done(run.nodes, run.rounds):
                        cut = True
                        stop(process, events)
                        break
            except child.Stopped as stopped:
                said = str(stopped)
                stop(process, events)
            except BaseException:  # the check ends: stop the run's MPS daemons, too
                stop(process, events)
                raise
            finally:
                host.stop()
                code = finish(process)
    finally:
        watch.stop()
    said = said or (first_line((logs / "up.stderr").read_text(errors="replace")) if code and not cut else "")
    figures = figures_of(run, seen, watch, host, started)
    figures.update(exit_code=0 if cut else code, said=said, cut=cut, wall_seconds=time.monotonic() - began)
    if not cut and not seen.reports:
        raise RuntimeError(said or f"swarm up ended with {code}")
    return figures


def stop(process, events):
    """Stops a run at once, without checkpoints, with two SIGINT. Its remaining output is kept."""
    for _ in range(2):
        try:
            process.send_signal(signal.SIGINT)
        except ProcessLookupError:
            return
        time.sleep(0.6)  # two pending signals would count as one
    try:
        for text in child.follow(process, 10):
            events.write(text + "\n")
    except child.Stopped:
        process.send_signal(signal.SIGQUIT)  # Go prints its goroutines, which show where it hangs


def finish(process):
    """Returns the exit code of a run that has ended, or ends it."""
    try:
        return process.wait(5)
    except subprocess.TimeoutExpired:
        pass
    finally:
        child.kill(process)
    return process.returncode


def figures_of(run, seen, watch, host, started):
    reports = seen.reports
    largest, average = seen.sampling_difference()
    return {
        "nodes": run.nodes, "settings": run.settings, "gpu_memory": run.gpu_memory,
        "seconds_per_round": seen.seconds_a_round(run.nodes), "rounds": sum(len(times) >= run.nodes for times in seen.rounds.values()),
        "loaded": len(seen.loaded), "load_seconds": max(seen.loaded.values()) - started if seen.loaded else None,
        "start_seconds": seen.start_seconds(), "host_peak_bytes": host.peak(),
        "first_generating_seconds": max(seen.generating.values()) - started if len(seen.generating) >= run.nodes else None,
        "self_test": max(seen.self_tests, default=None), "checkpoint_seconds": max(seen.checkpoints, default=None),
        "sampling_logp_difference_max": largest, "sampling_logp_difference_mean": average,
        "measured": seen.measured, "peak_total_bytes": watch.peak(), "gpu_utilization": watch.utilization(), "budget_bytes": seen.budget,
        "out_of_memory_deaths": seen.out_of_memory(), "deaths": seen.deaths[:20],
        "memory_steps": seen.steps[:50], "memory_step_count": len(seen.steps),
        "mean_length": mean([r["completions_mean_length"] for r in reports]), "reward": mean([r["reward"] for r in reports]),
        "update_steps": sum(r["steps"] for r in reports),
        "generate_seconds": mean([r["generate_time"] for r in reports]), "update_seconds": mean([r["update_time"] for r in reports]),
        "lease_seconds": mean([r["lease_time"] for r in reports]), "barrier_seconds": mean([r["barrier_time"] for r in reports]),
    }


def plan_of(home):
    """Returns the run's plan from its database; {} if there is none."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{home}/swarm.db?mode=ro", uri=True)) as database:
            row = database.execute("SELECT plan FROM runs ORDER BY started DESC LIMIT 1").fetchone()
        return json.loads(row[0]) if row and row[0] else {}
    except (sqlite3.Error, ValueError):
        return {}


def mean(values):
    return sum(values) / len(values) if values else None
