"""The section "swarm": real runs, under each way of sharing, precision and cap."""

import shutil
import sys

import flops
import model
import swarm
from context import GB


def runs(c):
    """The runs to make, what matters most first."""
    n = c.nodes
    if c.dry:
        return [swarm.Run("default", n, 3, {})]
    preset = {"cuda_graphs": "true", "micro_batch": 4}  # as configs/models/gpt2.yaml
    lease, static = {"share": "lease", **preset}, {"share": "static", **preset}
    if c.quick:
        return [swarm.Run("lease", n, 3, lease)]
    return [
        swarm.Run("lease", n, 4, lease),
        swarm.Run("cap-15GB", n, 2, lease, gpu_memory=15 * GB),
        swarm.Run("mps", n, 3, {"share": "mps", **preset}),
        swarm.Run("24-nodes", 24, 2, lease),
        swarm.Run("static", n, 3, static),
        swarm.Run("bf16", n, 3, {**lease, "precision": "bf16"}),
        swarm.Run("fp32", n, 3, {**lease, "precision": "fp32"}),
        swarm.Run("micro-batch-16", n, 3, {**lease, "micro_batch": 16}),
        swarm.Run("fp16", n, 3, {**lease, "precision": "fp16"}),
    ]


def check_swarm(c):
    items = model.write_items(c.scratch / "items.jsonl", c.work.prompt_tokens // 2)
    for run in runs(c):
        if not c.wants("swarm." + run.name):
            continue
        takes = 15 + c.pace["load"] * run.nodes + c.pace["round"] * run.rounds * run.nodes
        if c.left() < takes:
            c.report.fail("swarm", f"{run.name}: {c.left():.0f} s are left and it takes about {takes:.0f}; --only swarm.{run.name} makes it alone")
            continue
        try:
            figures = make_run(c, run, items, min(max(2 * takes, 90), max(30, c.left())))
            report_run(c, run, figures)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            c.report.fail("swarm", f"{run.name}: {error}")
        c.save()


def make_run(c, run, items, limit):
    """Under a cap, offload is added where the plan asks for it."""
    home = c.scratch / f"home-{run.name}"
    choices = [{}, {"optimizer_offload": "true"}, {"optimizer_offload": "true", "param_offload": "true"}] if run.gpu_memory else [{}]
    for i, more in enumerate(choices):
        tried = swarm.Run(run.name, run.nodes, run.rounds, {**run.settings, **more}, run.gpu_memory)
        line = swarm.command(c.program, sys.executable, home, c.folder, items, c.device, c.work, tried)
        try:
            with open(c.scratch / f"{run.name}.log", "w+", encoding="utf-8") as log:
                return swarm.up(line, tried, limit, log)
        except RuntimeError as error:
            if "does not fit" not in str(error) or i + 1 == len(choices):
                raise
        finally:
            shutil.rmtree(home, ignore_errors=True)
    raise AssertionError("unreachable")


def report_run(c, run, figures):
    report = c.report
    report.details.setdefault("swarm", {})[run.name] = figures
    whole = figures["exit_code"] == 0
    if figures["load_seconds"]:
        c.pace["load"] = figures["load_seconds"] / run.nodes
    seconds, peak = figures["seconds_per_round"], figures["peak_total_bytes"]
    report.add("swarm", f"{run.name}: nodes that trained to the end", figures["loaded"] if whole else f"lost some: {figures['said']}")
    precision = figures["settings"].get("precision", "fp32" if c.dry else "tf32")
    report.add("swarm", f"{run.name}: seconds a round of {run.nodes} nodes", seconds, "s")
    report.add("swarm", f"{run.name}: peak total", peak, "bytes")
    report.add("swarm", f"{run.name}: out of memory, steps on the ladder", f"{figures['out_of_memory_deaths']}, {figures['memory_step_count']}")
    if seconds:
        c.pace["round"] = 1.5 * seconds / run.nodes
        w, n = c.work, run.nodes
        tokens = n * w.own * w.generations * (figures["mean_length"] or 0)
        rate = n * flops.round_of(c.shape, w.own, w.external, w.generations, w.prompt_tokens, w.new_tokens) / seconds
        report.add("swarm", f"{run.name}: new tokens a second", tokens / seconds, "tokens/s")
        report.add("swarm", f"{run.name}: model FLOPs", rate, "FLOP/s")
        if c.gemm.get(precision):
            report.add("swarm", f"{run.name}: of the {precision} GEMM rate", rate / c.gemm[precision], "ratio")
        if run.name in ("lease", "static", "mps", "micro-batch-16", "default"):
            c.best["swarm"] = min(seconds, c.best.get("swarm", seconds))
    if run.name == "lease" and run.nodes == 8:
        report.check("swarm", "8 nodes: peak total", peak, "bytes", "<= 52 GB", lambda v: v <= 52 * GB)
        report.check("swarm", "8 nodes: deaths by out of memory", figures["out_of_memory_deaths"], "", "0", lambda v: v == 0)
    if run.name == "cap-15GB":
        ok = whole and figures["loaded"] >= 8 and peak is not None and peak <= 15 * GB
        report.check("swarm", "8 nodes under a 15 GB cap", ok if peak is not None else None, "", "they train, <= 15 GB", bool)
    if run.name == "24-nodes":
        report.check("swarm", "24 nodes under lease", whole and figures["loaded"] >= 24, "", "they train", bool)
