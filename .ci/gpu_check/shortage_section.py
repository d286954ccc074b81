"""The section "shortage": memory runs out on purpose, and the engine must report it."""

import footprint
import host
from engine_client import EngineError
from held import Held

MiB = 1 << 20
# Case of exhaustion.py -> (description, bytes left on the card by another process; None: it has the card to itself).
CASES = {
    "cap": ("an update beyond its own cap", None),
    "full": ("an update on a full card", 3000 * MiB),
    "full-load": ("a load on a full card", 200 * MiB),
}


def check_shortage(c):
    if c.dry:
        for what, _ in CASES.values():
            c.report.needs_gpu("shortage", what)
        c.report.needs_gpu("shortage", "the same through the engine's protocol")
        return
    for case, (what, leave) in CASES.items():
        try:
            if leave is None:
                found = c.ask("shortage", "exhaustion.py", "--model", c.folder, "--case", case, cap=40, name=case)
            else:
                with Held("hoard", c.evidence.path(f"shortage/{case}.hoard.log"), "--leave", str(leave), cap=60) as hoard:
                    hoard.ready()
                    c.report.details.setdefault("shortage", {})[f"{case} hoard"] = {"taken": hoard.fact, "smi": host.smi()}
                    found = c.ask("shortage", "exhaustion.py", "--model", c.folder, "--case", case, cap=40, name=case)
            report_case(c, found, what)
        except (RuntimeError, OSError, ValueError) as error:
            c.report.fail("shortage", error, what)
    try:
        through_protocol(c)
    except (RuntimeError, OSError, KeyError) as error:
        c.report.fail("shortage", error, "through the engine's protocol")


def report_case(c, found, what):
    text = " ".join(str(found.get("text", "")).split())[:200]
    c.report.add("shortage", f"{what}: class", found.get("class"), note=text)
    c.report.check("shortage", f"{what}: recognized", found.get("recognized"), "", "True", bool, note=cause(found.get("cause")))
    if what != CASES["full-load"][0]:
        c.report.check("shortage", f"{what}: the session continues", found.get("lives on", False), "", "True", bool)


def cause(found):
    """Formats a Shortage object."""
    if not found:
        return "no cause"
    gigabytes = {name.removesuffix("_bytes"): f"{value / 1e9:.2f}" for name, value in found.items() if name.endswith("_bytes")}
    return f"{found.get('where')}: " + ", ".join(f"{name} {value}" for name, value in gigabytes.items()) + " GB"


def through_protocol(c):
    """Returns the kind and the cause that a node receives."""
    with footprint.Node(c.folder, c.device, "tf32", c.work, c.threads, log=c.evidence.path("shortage/engine.log")) as node:
        held = node.engine.call("memory")["device_reserved_bytes"]
        node.engine.call("configure", memory_cap_bytes=held + 64 * MiB)
        kind, note = "nothing was raised", ""
        try:
            node.update(len(node.sequences))
        except EngineError as error:
            kind, note = error.kind, cause(error.shortage)
        c.report.check("shortage", "an update beyond its own cap, through the protocol", kind, "", "out_of_memory", lambda v: v == "out_of_memory", note)
        node.engine.call("configure", memory_cap_bytes=0)
        node.update(4)
        c.report.add("shortage", "an update after it, without the cap", "done")
