"""The section "rl-swarm": a round as rl-swarm runs it, on the same card."""

import predecessor
from context import GB

FEW = 2  # generate calls to run when time is short; all are alike, so the rest is extrapolated


def check_predecessor(c):
    nodes = min(c.nodes, 2) if c.quick else c.nodes
    calls = c.work.generations if c.dry or c.left() > 200 else FEW
    result = predecessor.measure(c.folder, c.device, c.work, nodes, c.evidence.path("predecessor/node0.log").parent, c.scratch, min(c.left(), 240), calls)
    c.report.details["predecessor"] = result
    one = result["nodes"][0]
    note = one["library"] + (f"; {calls} of {c.work.generations} calls made, the rest extrapolated" if calls < c.work.generations else "")
    c.report.add("rl-swarm", f"round of {nodes} nodes, {c.work.generations} calls each", result["seconds"], "s", note=note)
    c.report.add("rl-swarm", f"{calls} of a node's generate calls", one["generate_seconds"], "s")
    c.report.add("rl-swarm", f"a node's update, {one['sequences_at_once']} of {one['sequences']} at once", one["update_seconds"], "s")
    if one["peak_bytes"]:
        peak = max(n["peak_bytes"] for n in result["nodes"])
        c.report.add("rl-swarm", "a node's peak in the update", peak, "bytes", note=f"{c.nodes} at a time would take {c.nodes * peak / GB:.0f} GB")
    if nodes == c.nodes:
        c.best["predecessor"] = result["seconds"]
