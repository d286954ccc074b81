"""The section "swarm": real runs with each way of sharing, precision and cap. verdicts.py makes their rows."""

import dataclasses
import shutil
import sys

import model
import swarm
import verdicts
from context import GB

RESERVE = 90.0  # seconds reserved for the predecessor
STOP = 15.0  # maximum seconds to stop a run


def runs(c):
    """Returns the runs to make, the most important first."""
    n = c.nodes
    if c.dry:
        return [swarm.Run("auto", n, 2, {"share": "auto"}, to_the_end=True), swarm.Run("lease", n, 3, {"share": "lease"}),
                swarm.Run("lease-direct", n, 2, {"share": "lease"}, direct=True), *real(c, n, {})]
    preset = {"cuda_graphs": "true", "micro_batch": 0}  # as in configs/models/gpt2.yaml: the plan chooses micro-batches
    lease = {"share": "lease", **preset}
    if c.quick:
        return [swarm.Run("lease", n, 3, lease)]
    return [
        swarm.Run("auto", n, 3, {"share": "auto", **preset}, to_the_end=True),
        swarm.Run("mps", n, 3, {"share": "mps", **preset}),
        swarm.Run("static", n, 3, {"share": "static", **preset}),
        swarm.Run("lease", n, 3, lease),
        swarm.Run("lease-direct", n, 2, lease, direct=True),
        *real(c, n, preset),
        swarm.Run("24-nodes", 24, 2, lease),
        swarm.Run("cap-15GB", n, 2, lease, gpu_memory=15 * GB),
        swarm.Run("micro-batch-16", n, 3, {**lease, "micro_batch": 16}),
        swarm.Run("micro-batch-32", n, 3, {**lease, "micro_batch": 32}),
        swarm.Run("bf16", n, 3, {**lease, "precision": "bf16"}),
        swarm.Run("fp16", n, 3, {**lease, "precision": "fp16"}),
        swarm.Run("fp32", n, 3, {**lease, "precision": "fp32"}),
    ]


def real(c, nodes, settings):
    return [swarm.Run("real-weights", nodes, 3, {"share": "lease", **settings}, model=c.weights)] if c.weights else []


NEED_A_CARD = ("mps", "static", "24-nodes", "cap-15GB", "micro-batch-16", "micro-batch-32", "bf16", "fp16", "fp32")


def check_swarm(c):
    items = model.write_items(c.scratch / "items.jsonl", c.work.prompt_tokens // 2)
    reserve = RESERVE if c.wants("rl-swarm") and not c.quick else 0.0
    for run in runs(c):
        if not c.wants("swarm." + run.name):
            continue
        takes = 10 + c.pace["load"] * run.nodes + c.pace["round"] * run.rounds * run.nodes
        left = c.left() - reserve
        if left < takes:
            c.report.fail("swarm", f"{left:.0f} s are left, but it takes about {takes:.0f} s. Try: --only swarm.{run.name}", run.name)
            continue
        print(f"gpu-check: swarm.{run.name}, {left:.0f} s left", file=sys.stderr, flush=True)
        try:
            verdicts.report_run(c, run, make_run(c, run, items, min(max(2 * takes, 90), max(30, left - STOP))))
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            verdicts.report_failure(c, run, f"{error}" if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}")
        c.save()
    if c.dry:
        for name in NEED_A_CARD:
            if c.wants("swarm." + name):
                c.report.needs_gpu("swarm", name)


def make_run(c, run, items, limit):
    """Makes a run. Under a cap, it adds offload if the plan requires it."""
    choices = [{}, {"optimizer_offload": "true"}, {"optimizer_offload": "true", "param_offload": "true"}] if run.gpu_memory else [{}]
    for i, more in enumerate(choices):
        home, name = c.scratch / f"home-{run.name}-{i}", f"swarm/{run.name}" + (f"-{i}" if i else "")
        tried = dataclasses.replace(run, settings={**run.settings, **more})
        line = swarm.command(c.program, sys.executable, home, run.model or c.folder, items, c.device, c.work, tried)
        c.evidence.watch_home(name, home)
        try:
            figures = swarm.up(line, tried, limit, c.evidence.path(f"{name}/up.stderr").parent, c.stall)
            return dict(figures, plan=swarm.plan_of(home))
        except RuntimeError as error:
            if "does not fit" not in str(error) or i + 1 == len(choices):
                raise
        finally:
            c.evidence.keep_home(name)
            shutil.rmtree(home, ignore_errors=True)
    raise AssertionError("unreachable")
