"""Measures everything about swarm on a GPU and prints one table: `make gpu-check`, or

    python3 .ci/gpu_check                    all of it, within nine minutes
    python3 .ci/gpu_check --quick            a short form, within two
    python3 .ci/gpu_check --only plan,engine,swarm.mps
    python3 .ci/gpu_check --device cpu --quick      a dry run of the same code; its figures are of no GPU

Needs Linux, a CUDA GPU, python3 with torch, and the built program (bin/swarm, or --swarm PATH); neither Go nor network. Every section
survives the failure of another and says why it has none. The table goes to stdout and, with everything that was measured, to files (--json).
Exit codes: 0, no target was missed; 1, some were, or something failed; 2, it can't run here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import flops  # noqa: E402
import parity  # noqa: E402
import plans  # noqa: E402
import predecessor  # noqa: E402
from context import GB, Check, Work  # noqa: E402
from engine_section import check_engine  # noqa: E402
from report import Report  # noqa: E402
from swarm_section import check_swarm  # noqa: E402

CAPS = (15 * GB, 24 * GB, 40 * GB, 80 * GB)
SECTIONS = ("card", "parity", "plan", "engine", "predecessor", "swarm", "tests")


def check_card(c):
    """Sets c.gemm as well: model FLOPs utilisation is told beside it."""
    done = subprocess.run([sys.executable, str(HERE / "card.py"), "--device", c.device], capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["card.py said nothing"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    c.report.details["card"] = found
    environment = found["environment"]
    software = f"torch {environment['torch']}, CUDA {environment['cuda']}, driver {environment.get('driver_version', '?')}"
    c.report.add("card", "GPU", environment.get("gpu", "none"), note=software)
    for precision, rate in found["gemm"].items():
        c.report.add("card", f"GEMM {precision}", rate, "FLOP/s")
    c.report.add("card", "copy, read + written", found["copy_bytes_per_second"], "bytes/s")
    c.gemm.update(found["gemm"])


def check_parity(c):
    folder = parity.random_folder(c.scratch / "parity", c.folder, c.threads)
    result = parity.compare(folder, c.device, ("fp32",) if c.dry else ("fp32", "tf32", "bf16"), c.threads)
    c.report.details["parity"] = result
    library = result.pop("library")
    exact = max(result.pop("generated"), result.pop("fp32"))
    c.report.check("parity", f"|log-prob. - {library}|, fp32", exact, "nats", "<= 0.001", lambda v: v <= 1e-3)
    for precision, worst in result.items():
        c.report.add("parity", f"|log-prob. - {library} fp32|, {precision}", worst, "nats")


def check_tests(c):
    passed, failed, last = parity.engine_tests(max(5, c.left()))
    c.report.details["tests"] = last
    c.report.check("tests", "engine's tests that fail here", failed if passed else None, "", "0", lambda v: v == 0)


def check_plan(c):
    details = c.report.details.setdefault("plan", {})
    for memory in (*(() if c.dry else (None,)), *CAPS):
        card = f"{memory / GB:g} GB" if memory else "this card"
        for share in plans.SHARES:
            # The preset's shape: plans need no weights.
            nodes, answer = plans.most_nodes(c.program, c.scratch / "plans", "gpt2", memory, share, c.device)
            details[f"{card} {share}"] = answer
            c.report.add("plan", f"GPT-2 nodes that fit, {card}, {share}", nodes, note="by swarm plan")
            if memory == 80 * GB and share == "lease":
                c.report.check("plan", "planned on 80 GB under lease", nodes, "nodes", ">= 24", lambda v: v >= 24)
            if memory == 15 * GB and share == "lease+offload":
                c.report.check("plan", "planned on 15 GB, lease + offload", nodes, "nodes", ">= 8", lambda v: v >= 8)


def check_predecessor(c):
    limit = min(c.left(), 60 if c.quick and not c.dry else 240)
    nodes = min(c.nodes, 2) if c.quick else c.nodes
    result = predecessor.measure(c.folder, c.device, c.work, nodes, c.scratch, limit)
    c.report.details["predecessor"] = result
    one = result["nodes"][0]
    c.report.add("predecessor", f"round of {nodes} nodes, {c.work.generations} calls each", result["seconds"], "s", note=one["library"])
    c.report.add("predecessor", "a node's generate calls", one["generate_seconds"], "s")
    c.report.add("predecessor", f"a node's update, {one['sequences_at_once']} of {one['sequences']} at once", one["update_seconds"], "s")
    if one["peak_bytes"]:
        peak = max(n["peak_bytes"] for n in result["nodes"])
        c.report.add("predecessor", "a node's peak in the update", peak, "bytes", note=f"{c.nodes} at a time would take {c.nodes * peak / GB:.0f} GB")
    if nodes == c.nodes:
        c.best["predecessor"] = result["seconds"]


def check_targets(c):
    """Targets between sections."""
    if not (c.wants("swarm") and c.nodes == 8 or c.best):
        return
    best, before = c.best.get("swarm"), c.best.get("predecessor")
    c.report.check("targets", f"round of {c.nodes} nodes, TF32, best way of sharing", best, "s", "<= 4 s", lambda v: v <= 4)
    c.report.check("targets", "faster than the predecessor's way", before / best if best and before else None, "times", ">= 5", lambda v: v >= 5)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__.splitlines()[0])
    parser.add_argument("--swarm", default=str(HERE.parents[1] / "bin" / "swarm"), help="the built program")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="a short form: fewer sizes and runs")
    parser.add_argument("--only", default="", help="sections, separated by commas: " + ", ".join(SECTIONS) + "; swarm.NAME is one run")
    parser.add_argument("--budget", type=float, help="seconds for everything (540; 110 with --quick)")
    parser.add_argument("--json", default=str(HERE.parents[1] / "bin" / "gpu-check.json"), help="where everything that was measured goes")
    parser.add_argument("--scratch", help="where model and checkpoints go meanwhile: 40 GB for 24 nodes (the system's temporary directory)")
    out = parser.parse_args(arguments)
    out.only = {name.strip() for name in out.only.split(",") if name.strip()}
    unknown = {name for name in out.only if name.split(".")[0] not in SECTIONS}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: {', '.join(SECTIONS)}, or swarm.NAME")
    return out


def usable(options):
    """Why it can't run here, or None."""
    if not os.access(options.swarm, os.X_OK):
        return f"{options.swarm} is not there. Try: make build, or --swarm PATH"
    try:
        import torch
    except ImportError:
        return f"{sys.executable} has no torch. Try: python3 of an environment with torch"
    if options.device == "cuda" and not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA GPU. Try: nvidia-smi; --device cpu is a dry run"
    return None


def prepare_cpu():
    """Gives the children the engine's own choice of CPU kernels: what they are compared with must not run on older ones."""
    sys.path.insert(0, str(HERE.parents[1] / "node" / "policy"))
    from engine import environment

    environment.prepare(os.environ)


def main(arguments=None):
    options = parse(arguments)
    why = usable(options)
    if why:
        print(f"Error: {why}", file=sys.stderr)
        return 2
    began, dry = time.monotonic(), options.device == "cpu"
    prepare_cpu()
    budget = options.budget or (110 if options.quick and not dry else 540)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", dir=options.scratch) as scratch:
        c = Check(
            program=options.swarm, device=options.device, quick=options.quick, work=Work(2, 2, 4, 48, 12) if dry else Work(),
            shape=flops.SMALL if dry else flops.GPT2, nodes=2 if dry else 8, scratch=Path(scratch), deadline=began + budget,
            report=Report(dry=dry), only=options.only, json=Path(options.json),
        )
        for name, section in zip(SECTIONS, (check_card, check_parity, check_plan, check_engine, check_predecessor, check_swarm, check_tests)):
            if not c.wants(name):
                continue
            print(f"gpu-check: {name}, {c.left():.0f} s left", file=sys.stderr, flush=True)
            try:
                if c.left() < 5:
                    raise RuntimeError("no time left")
                section(c)
            except Exception as error:  # another section may still say something
                c.report.fail(name, f"{type(error).__name__}: {error}")
            c.save()
        check_targets(c)
    took = time.monotonic() - began
    c.report.details["settings"] = {"work": vars(c.work), "shape": vars(c.shape), "nodes": c.nodes, "quick": c.quick, "seconds": took}
    c.save()
    print(c.report.table())
    print(f"\neverything that was measured: {options.json}; {took:.0f} s", file=sys.stderr)
    return 1 if c.report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
