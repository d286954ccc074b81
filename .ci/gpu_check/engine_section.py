"""The section "engine": a single node."""

import flops
import footprint
from engine_client import EngineError

WAYS = {
    "gradient_checkpointing": {"gradient_checkpointing": True},
    "optimizer_offload": {"optimizer_offload": True},
    "optimizer + param offload": {"optimizer_offload": True, "param_offload": True},
}


def check_engine(c):
    """Measures resident and transient memory over micro-batches at the default precision, then speed at each
    precision, and what offload saves.
    """
    details = c.report.details.setdefault("engine", {})
    rows = (c.work.own + c.work.external) * c.work.generations
    sizes = [s for s in ((4, rows) if c.quick else (1, 2, 4, 8, 16, 32, 64)) if s <= rows]
    drawn = [s for s in ((rows // 2,) if c.quick else (rows // 8, rows // 4, rows // 2)) if s > 0]  # of I x G completions
    first = "fp32" if c.dry else "tf32"
    for precision in (first,) if c.dry else (first, "bf16", "fp32"):
        options = {} if c.dry else {"cuda_graphs": True}
        try:
            with footprint.Node(c.folder, c.device, precision, c.work, c.threads, log=c.evidence.path("engine/engine.log"), **options) as node:
                swept = footprint.sweep(node, drawn, sizes) if precision == first else footprint.sweep(node, drawn[-1:], sizes[-1:])
        except EngineError as error:
            if error.kind == "bad_request" and precision in str(error):  # bf16 before Ampere
                c.report.add("engine", precision, f"refused: {error}")
            else:
                c.report.fail("engine", f"{error.kind}: {error}", precision)
            continue
        except (RuntimeError, OSError) as error:
            c.report.fail("engine", error, precision)
            continue
        swept["fit"] = {kind: footprint.line(swept[kind]) for kind in ("generate", "update")}
        details[precision] = swept
        report_engine(c, precision, swept, precision == first)
    for name, options in WAYS.items():
        if c.left() < 10:
            c.report.fail("engine", "no time left", name)
            continue
        try:
            with footprint.Node(c.folder, c.device, first, c.work, c.threads, log=c.evidence.path("engine/engine.log"), **options) as node:
                answer = node.update(sizes[-1])
                waiting = node.trim()
        except (EngineError, RuntimeError, OSError) as error:
            c.report.fail("engine", error, name)
            continue
        memory = answer["memory"]
        waiting = waiting.get("memory", waiting)
        resident = waiting["device_allocated_bytes"] if not c.dry else waiting["rss_bytes"]
        details[name] = {"update": answer, "waiting": waiting}
        c.report.add("engine", f"{name}: waiting node holds", resident, "bytes")
        c.report.add("engine", f"{name}: update of {sizes[-1]} at once, transient", footprint.call_bytes(memory), "bytes")


def report_engine(c, precision, swept, whole):
    w, report = c.work, c.report
    for kind in ("generate", "update"):
        for entry in swept[kind]:
            if "error" in entry:
                report.add("engine", f"{precision} {kind}, {entry['micro_batch']} at once", entry["error"])
            elif whole:
                report.add("engine", f"{precision} {kind}, {entry['micro_batch']} at once: transient", entry["transient_bytes"], "bytes")
    good = {kind: [e for e in swept[kind] if "error" not in e] for kind in ("generate", "update")}
    if not good["generate"] or not good["update"]:
        return
    generate, update = good["generate"][-1], good["update"][-1]
    if whole:
        report.add("engine", "resident between calls", update["resident_bytes"], "bytes")
        if "outside_allocator_bytes" in update:
            report.add("engine", "outside the allocator (CUDA context)", update["outside_allocator_bytes"], "bytes")
    work = {"generate": flops.generate(c.shape, w.own, w.prompt_tokens, w.generations, w.new_tokens),
            "update": flops.update(c.shape, (w.own + w.external) * w.generations, w.prompt_tokens, w.new_tokens)}
    report.add("engine", f"{precision} generate, one node alone", generate["new_tokens"] / generate["seconds"], "new tokens/s")
    for kind, entry in (("generate", generate), ("update", update)):
        rate = work[kind] / entry["seconds"]
        report.add("engine", f"{precision} {kind}: seconds", entry["seconds"], "s")
        report.add("engine", f"{precision} {kind}: model FLOPs", rate, "FLOP/s")
        if c.gemm.get(precision):
            report.add("engine", f"{precision} {kind}: of the GEMM rate", rate / c.gemm[precision], "ratio")
