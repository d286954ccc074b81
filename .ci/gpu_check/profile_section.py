"""The section "profile": the kernels of one node's decoding step and update pass."""

from report import NEEDS_GPU

STEP, PASS = 220, 600  # maximum kernels of a decoding step and of an update pass


def check_profile(c):
    w, precision = c.work, "fp32" if c.dry else "tf32"
    found = c.ask(
        "profile", "profiled.py", "--model", c.folder, "--device", c.device, "--precision", precision, "--own", w.own, "--generations",
        w.generations, "--prompt_tokens", w.prompt_tokens, "--new_tokens", w.new_tokens, "--threads", c.threads,
        cap=c.left(), env={"GPU_CHECK_SCRATCH": str(c.scratch)},
    )
    rows = f"{w.own * w.generations} rows, {precision}"
    report_load(c, found, precision)
    for name, label in (("decode", ""), ("graphs", ", graphs")):
        report_decoding(c, found, name, f"{label}, {rows}")
    report_update(c, found, precision)
    for key, label in (("trim first_seconds", "trim after a generate call"), ("trim again_seconds", "trim again"), ("gc seconds", "gc.collect")):
        if key in found:
            note = f"{found['gc objects']} objects" if key == "gc seconds" and "gc objects" in found else ""
            c.report.add("profile", label, 1000 * found[key], "ms", note)
    if c.dry:
        c.report.needs_gpu("profile", "decoding in CUDA graphs")


def report_load(c, found, precision):
    if "load seconds" in found:
        c.report.add("profile", f"load, {precision}", found["load seconds"], "s")
    if "load self_test" in found:
        c.report.check("profile", f"self-test of the load, {precision}", found["load self_test"], "nats", "<= 0.05", lambda v: v <= 0.05)


def report_decoding(c, found, name, label):
    if f"{name} step_seconds" not in found and f"{name} kernels" not in found:
        return
    step = found.get(f"{name} step_seconds")
    c.report.add("profile", f"a decode step{label}", step and 1000 * step, "ms")
    if f"{name} beyond_steps_seconds" in found:
        beyond = 1000 * found[f"{name} beyond_steps_seconds"]
        c.report.add("profile", f"a generate call beyond its steps{label}", beyond, "ms", "prefill, capture, copies")
        c.report.add("profile", f"the first generate call{label}", 1000 * found.get(f"{name} first_call_seconds", 0), "ms", "16 tokens")
    if c.dry:
        kernels = None
    else:
        kernels = found.get(f"{name} kernels") or None
        c.report.add("profile", f"copies and fills per decode step{label}", found.get(f"{name} copies"))
        busy = found.get(f"{name} device_us")
        c.report.add("profile", f"device busy while it decodes{label}", busy / 1e6 / step if busy and step else None, "ratio")
        c.report.add("profile", f"capture and instantiation in a call{label}", found.get(f"{name} instantiate_us", 0) / 1000, "ms")
        c.report.add("profile", f"allocations and frees in a call{label}", found.get(f"{name} mallocs"))
        listing(c, found, f"{name} runtime", f"profile: CUDA runtime calls of one generate call{label}")
    target(c, f"kernels a decode step{label}", kernels, STEP)
    listing(c, found, f"{name} top", f"profile: top 15 kernels of a decode step{label}")
    if c.dry:
        listing(c, found, f"{name} operators", f"profile: top 15 CPU operators of a decode step{label} (dry run)")


def report_update(c, found, precision):
    if "update pass_seconds" in found:
        c.report.add("profile", f"an update pass of 4 rows, {precision}", 1000 * found["update pass_seconds"], "ms")
    kernels = None if c.dry else found.get("update kernels") or None
    target(c, f"kernels an update pass of 4 rows, {precision}", kernels, PASS)
    if not c.dry and "update call_device_us" in found:
        whole = found.get("update seconds")
        c.report.add("profile", "device busy in an update call", found["update call_device_us"] / 1e6 / whole if whole else None, "ratio")
        c.report.add("profile", "SDPA kernels in the update", found.get("update attention"))
    listing(c, found, "update top", f"profile: top 15 kernels of an update pass of 4 rows, {precision}")
    if c.dry:
        listing(c, found, "update operators", f"profile: top 15 CPU operators of an update pass, {precision} (dry run)")


def target(c, name, kernels, most):
    """Checks a count of kernels against its target. On a card, a profile without kernels is a failure."""
    if kernels is None and not c.dry:
        c.report.fail("profile", "the profiler saw no kernels", name)
    else:
        c.report.check("profile", name, kernels, "", f"<= {most}", lambda v: v <= most, NEEDS_GPU if c.dry else "")


def listing(c, found, key, title):
    """Adds a table of the child to the report and to the evidence."""
    lines = found.get(key)
    if lines:
        c.report.listings[title] = lines
        name = "".join(letter if letter.isalnum() else "-" for letter in title)
        c.evidence.path(f"profile/{name}.txt").write_text(title + "\n" + "\n".join(lines) + "\n")
