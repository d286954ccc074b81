"""Rows for the runs of a swarm: figures, and the issue's targets."""

import flops
from context import GB

DIFFERENCE = 0.05  # nats: above it, sampler and trainer disagree
SECONDS = 4.0  # per round of eight nodes
# Runs whose seconds per round may be the best way of sharing: TF32 and the whole card.
BEST = ("auto", "mps", "static", "lease", "micro-batch-16", "micro-batch-32")


def report_run(c, run, figures):
    report = c.report
    report.details.setdefault("swarm", {})[run.name] = figures
    trained = figures["rounds"] >= run.rounds and figures["loaded"] >= run.nodes
    whole = trained and figures["exit_code"] == 0 and not figures["said"]
    if figures["load_seconds"]:
        c.pace["load"] = figures["load_seconds"] / run.nodes
    seconds, peak = figures["seconds_per_round"], figures["peak_total_bytes"]
    if not whole:
        report.fail("swarm", figures["said"] or f"{figures['rounds']} of {run.rounds} rounds, exit code {figures['exit_code']}", run.name)
    note = "stopped after its last round" if figures["cut"] else "to its end"
    report.add("swarm", f"{run.name}: nodes that trained {run.rounds} rounds", figures["loaded"] if trained else 0, note=note)
    report.add("swarm", f"{run.name}: seconds to load {run.nodes} nodes", figures["load_seconds"], "s")
    report.add("swarm", f"{run.name}: seconds a round of {run.nodes} nodes", seconds, "s")
    report.add("swarm", f"{run.name}: a node's start to its load, median", figures["start_seconds"], "s")
    report.add("swarm", f"{run.name}: command to first generating of all", figures["first_generating_seconds"], "s")
    report.add("swarm", f"{run.name}: host memory, sum of PSS, peak", figures["host_peak_bytes"], "bytes")
    report.add("swarm", f"{run.name}: peak total", peak, "bytes")
    report.add("swarm", f"{run.name}: out of memory, steps on the ladder", f"{figures['out_of_memory_deaths']}, {figures['memory_step_count']}")
    planned(c, run, figures)
    agreement(c, run, figures)
    if seconds:
        rates(c, run, figures, seconds)
    hosted = report.details["swarm"].get("lease") if run.direct else None
    if hosted:
        beside_direct(report, hosted, figures)
    if run.name == "mps":
        report.check("swarm", "MPS proof passes", figures["loaded"] >= run.nodes, "", "passes", bool)
    if run.name == "lease" and run.nodes == 8:
        report.check("swarm", "8 nodes: peak total", peak, "bytes", "<= 52 GB", lambda v: v <= 52 * GB)
        report.check("swarm", "8 nodes: deaths by out of memory", figures["out_of_memory_deaths"], "", "0", lambda v: v == 0)
    if run.name == "cap-15GB":
        ok = whole and peak is not None and peak <= 15 * GB
        report.check("swarm", "8 nodes under a 15 GB cap", ok if peak is not None or not whole else None, "", "they train, <= 15 GB", bool)
    if run.name == "24-nodes":
        report.check("swarm", "24 nodes under lease", whole, "", "they train", bool)


def beside_direct(report, hosted, direct):
    """Reports what the engine host saves, with the figures of the run with it beside those of the run without.

    On a GPU it has no target, because every process has its own CUDA context, whose share of host memory is to be
    measured.
    """
    for what, key in (("host memory", "host_peak_bytes"), ("a node's start", "start_seconds"), ("first generating", "first_generating_seconds")):
        both = hosted[key] and direct[key]
        report.add("swarm", f"{what}, with the engine host to without", hosted[key] / direct[key] if both else None, "ratio")


def planned(c, run, figures):
    """Reports the plan's choices, and its estimates beside the measurements."""
    plan, measured = figures.get("plan") or {}, figures.get("measured") or {}
    if not plan:
        return
    offload = [name for name in ("optimizer_offload", "param_offload") if figures["settings"].get(name)]
    c.report.add("swarm", f"{run.name}: share, micro-batch, slots", f"{plan.get('share')}, {plan.get('micro_batch')}, {plan.get('slots')}",
                 note=", ".join([f"by {plan.get('source')}", *offload]))
    node = plan.get("per_node", {})
    pairs = [f"{kind} {node.get(kind + '_bytes', 0) / GB:.2f}, {measured.get(kind + '_bytes', 0) / GB:.2f}" for kind in ("resident", "generate", "update")]
    c.report.add("swarm", f"{run.name}: GB per node, planned and measured", "; ".join(pairs))


def rates(c, run, figures, seconds):
    report, w, n = c.report, c.work, run.nodes
    c.pace["round"] = 1.5 * seconds / n
    precision = figures["settings"].get("precision", "fp32" if c.dry else "tf32")
    report.add("swarm", f"{run.name}: new tokens a second", n * w.own * w.generations * (figures["mean_length"] or 0) / seconds, "tokens/s")
    if not run.model:
        rate = n * flops.round_of(c.shape, w.own, w.external, w.generations, w.prompt_tokens, w.new_tokens) / seconds
        report.add("swarm", f"{run.name}: model FLOPs", rate, "FLOP/s")
        if c.gemm.get(precision):
            report.add("swarm", f"{run.name}: of the {precision} GEMM rate", rate / c.gemm[precision], "ratio")
    if run.name in BEST and n == c.nodes:
        c.best["swarm"] = min(seconds, c.best.get("swarm", seconds))


def agreement(c, run, figures):
    """Compares sampler and trainer. In reduced precision the figures have no target."""
    exact = figures["settings"].get("precision", "tf32") in ("tf32", "fp32")
    for name, value in (("self-test of every load", figures["self_test"]), ("sampling_logp_difference/max", figures["sampling_logp_difference_max"])):
        if exact:
            note = "" if value is not None else "the events do not contain it"
            c.report.check("swarm", f"{run.name}: {name}", value, "nats", "<= 0.05", lambda v: v <= DIFFERENCE, note)
        elif value is not None:
            c.report.add("swarm", f"{run.name}: {name}", value, "nats")
    if figures["sampling_logp_difference_mean"] is not None:
        c.report.add("swarm", f"{run.name}: sampling_logp_difference/mean", figures["sampling_logp_difference_mean"], "nats")


def report_failure(c, run, why):
    """Reports a run without figures. If the card lacks a capability, the run counts as refused, not as a failure."""
    precision = run.settings.get("precision", "")
    if precision == "bf16" and "needs an Ampere" in why:
        c.report.add("swarm", run.name, f"refused: {why}"[:160])
        return
    c.report.fail("swarm", why, run.name)
    if run.name == "mps":
        c.report.check("swarm", "MPS proof passes", False, "", "passes", bool, note=" ".join(why.split())[:200])
    if run.name == "cap-15GB":
        c.report.check("swarm", "8 nodes under a 15 GB cap", False, "", "they train, <= 15 GB", bool)
    if run.name == "24-nodes":
        c.report.check("swarm", "24 nodes under lease", False, "", "they train", bool)


def report_targets(c):
    """Reports targets that compare sections."""
    if not (c.wants("swarm") and c.nodes == 8 or c.best):
        return
    best, before = c.best.get("swarm"), c.best.get("predecessor")
    c.report.check("targets", f"round of {c.nodes} nodes, TF32, best way of sharing", best, "s", "<= 4 s", lambda v: v <= SECONDS)
    c.report.check("targets", "faster than rl-swarm's way", before / best if best and before else None, "times", ">= 5", lambda v: v >= 5)
