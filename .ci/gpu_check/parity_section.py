"""The section "parity": every precision with and without graphs, each reported independently of the others."""

import parity

SELF_TEST = 0.05  # nats: above it, a load of fp32 or tf32 computes different results when sampling
EXACT = 1e-3  # nats


def check_parity(c):
    folder = parity.random_folder(c.scratch / "parity", c.folder, c.threads, c.evidence.path("parity/random.log"))
    compare(c, folder, "random weights")
    if c.weights:
        compare(c, c.weights, "real weights")


def compare(c, folder, weights):
    """Rows for one folder of weights."""
    label = weights.replace(" ", "-")
    precisions = ("fp32", "bf16") if c.dry else parity.PRECISIONS  # on a CPU the engine uses bf16 for fp32
    graphs = (False,) if c.dry else (False, True)
    prompts, ways = parity.ask_engine(folder, c.device, precisions, c.threads, c.evidence.path(f"parity/{label}.log"), graphs)
    rows = [[prompts[s["prompt"]], s["completion"]] for way in ways for s in way.sequences]
    reference, why = {"library": "reference", "logprobs": []}, ""
    try:
        if rows:
            reference = parity.ask_reference(folder, c.device, rows, c.evidence.path(f"parity/{label}.reference.log"))
    except (RuntimeError, OSError, ValueError) as error:
        why = str(error)
    report_ways(c, ways, reference, why, weights)
    if c.dry:
        c.report.needs_gpu("parity", "tf32, fp16 and CUDA graphs")


def report_ways(c, ways, reference, why, weights):
    library, at = reference["library"], 0
    if why:
        c.report.fail("parity", why, f"reference, {weights}")
    for way in ways:
        truth = reference["logprobs"][at : at + len(way.sequences)]
        at += len(way.sequences)
        exact = way.precision in ("fp32", "tf32")
        found = {"self_test": way.self_test, "refused": way.refused, "failed": way.failed}
        c.report.details.setdefault("parity", {}).setdefault(weights, {})[way.name] = found
        if way.refused:
            c.report.add("parity", f"{way.name}, {weights}", f"refused: {way.refused}"[:160])
            continue
        if way.failed:
            c.report.fail("parity", way.failed, f"{way.name}, {weights}")
        if way.self_test is not None:
            name = f"self-test of the load, {way.name}, {weights}"
            if exact:
                c.report.check("parity", name, way.self_test, "nats", "<= 0.05", lambda v: v <= SELF_TEST)
            else:
                c.report.add("parity", name, way.self_test, "nats")
        pairs = [("drawn", "scored", way.drawn, way.scored)] if way.drawn and way.scored else []
        if truth:
            pairs += [("drawn", library, way.drawn, truth), ("scored", library, way.scored, truth)]
        for one, other, a, b in pairs:
            if not a:
                continue
            found[f"{one} - {other}"] = value = parity.difference(a, b)
            name = f"|{one} - {other}|, {way.name}, {weights}"
            if way.precision == "fp32" and other == library:
                c.report.check("parity", name, value, "nats", "<= 0.001", lambda v: v <= EXACT)
            else:
                c.report.add("parity", name, value, "nats")
