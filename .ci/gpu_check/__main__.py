"""Measures all of swarm on a GPU and prints one table of target, measured value and verdict.

    make gpu-check GPU_CHECK="--part engine"        5 minutes at most: one node. Needs a GPU, python3 with torch, pytest
    make gpu-check GPU_CHECK="--part swarm"         9 minutes at most: swarms. Needs bin/swarm as well
    make gpu-check                                  both, 14 minutes at most
    make gpu-check GPU_CHECK="--only swarm.mps"     one section, or one run of a section
    make gpu-check GPU_CHECK="--device cpu"         a dry run of the same code, 9 minutes at most, without GPU figures

Part engine: card and driver; test_cuda.py and test_graphs.py; parity and self-test at each precision, with and
without graphs; a profile of decoding and update; costs of single operations; forced out-of-memory; memory and speed
over micro-batches; the engine's other tests.
Part swarm: card; plans; runs by way of sharing, without the engine host, with 24 nodes, under a 15 GB cap, by
micro-batch and precision; rl-swarm's way.

It needs neither Go nor network, nor GPT-2's weights: it uses random weights of GPT-2's shape. A section that fails or
hangs does not stop the others. Each section is written to --out when it ends: gpu-check.txt, gpu-check.json, and the
evidence (logs, events, databases) gpu-check.tar.gz.
Exit codes: 0 no target was missed, 1 a target was missed or something failed, 2 it can't run here, 130 or 143 stopped
by a signal.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import barrier  # noqa: E402
import child  # noqa: E402
import flops  # noqa: E402
import program  # noqa: E402
import scratch as places  # noqa: E402
import sections  # noqa: E402
import verdicts  # noqa: E402
from context import Check, Work  # noqa: E402
from evidence import Evidence  # noqa: E402
from report import Report  # noqa: E402

BUDGETS = {"engine": 300, "swarm": 540, "all": 840}  # seconds
DRY_BUDGET, QUICK_BUDGET = 540, 110
NAMES = tuple(section.name for section in sections.ALL)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=tuple(BUDGETS), default="all", help="engine: one node; swarm: swarms; all: both")
    parser.add_argument("--swarm", default=str(ROOT / "bin" / "swarm"), help="the built program, or PATH.gz of it")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run without a GPU")
    parser.add_argument("--weights", default="", help="folder with GPT-2's config.json and model.safetensors, for parity and an additional swarm")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and runs, within two minutes on a GPU")
    parser.add_argument("--only", default="", help="sections, separated by commas: " + ", ".join(NAMES) + "; swarm.NAME is one run")
    parser.add_argument("--budget", type=float, help="seconds for everything (300 for engine, 540 for swarm, 840 for all)")
    parser.add_argument("--out", default=str(ROOT / "bin" / "gpu-check"), help="folder for table, JSON and evidence")
    parser.add_argument("--scratch", help="folder for the model and homes during the check (default: /dev/shm if 48 GB are free there, else the temporary folder)")
    out = parser.parse_args(arguments)
    out.only = {name.strip() for name in out.only.split(",") if name.strip()}
    unknown = {name for name in out.only if name.split(".")[0] not in NAMES}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: {', '.join(NAMES)}, or swarm.NAME")
    return out


def chosen(options):
    """Returns the sections to run. --only selects from both parts."""
    names = {name.split(".")[0] for name in options.only}
    return [s for s in sections.ALL if (s.name in names if names else options.part == "all" or options.part in s.parts)]


def usable(options, wanted):
    """Returns the reason why it can't run here, or None."""
    if {"plan", "swarm"} & {section.name for section in wanted} and not program.find(options.swarm):
        return f"{options.swarm} is not there. Try: make build, or --swarm PATH, or --part engine"
    if options.weights and not os.path.exists(os.path.join(options.weights, "config.json")):
        return f"--weights {options.weights} has no config.json. Try: a folder with config.json and model.safetensors"
    code = "import json, torch; print(json.dumps([torch.__version__, torch.cuda.is_available()]))"
    with tempfile.TemporaryDirectory() as folder:
        lines, status, problem = child.run([sys.executable, "-c", code], os.path.join(folder, "torch.log"), 60)
        why = problem or child.last_line(os.path.join(folder, "torch.log"))
    if status or problem or not lines:
        return f"{sys.executable} has no torch that works: {why}. Try: python3 of an environment with torch"
    version, cuda = json.loads(lines[-1])
    if options.device == "cuda" and not cuda:
        return f"torch {version} sees no CUDA GPU. Try: nvidia-smi; --device cpu is a dry run"
    return None


def prepare_cpu():
    """Sets the engine's own choice of CPU kernels for children, so that the reference does not run on older kernels.
    """
    sys.path.insert(0, str(ROOT / "node" / "policy"))
    from engine import environment

    environment.prepare(os.environ)


def make_check(options, folder, began):
    dry = options.device == "cpu"
    quick = options.quick or dry
    budget = options.budget or (min(DRY_BUDGET, BUDGETS[options.part]) if dry else QUICK_BUDGET if options.quick else BUDGETS[options.part])
    return Check(
        program=options.swarm, device=options.device, quick=quick, work=Work(2, 2, 4, 48, 12) if dry else Work(),
        shape=flops.SMALL if dry else flops.GPT2, nodes=2 if dry else 8, scratch=folder, deadline=began + budget, report=Report(dry=dry),
        only=options.only, out=Path(options.out), evidence=Evidence(folder / "evidence", Path(options.out) / "gpu-check.tar.gz"),
        weights=options.weights and os.path.abspath(options.weights), stall=120 if dry else child.STALL,
    )


def run_section(c, section):
    """Runs one section behind its barrier, so that the next one follows in any case."""
    began = time.monotonic()
    cap = min(section.cap, c.deadline - began)
    print(f"gpu-check: {section.name}, {c.deadline - began:.0f} s left", file=sys.stderr, flush=True)
    if cap < 5:
        c.report.fail(section.name, f"no time left. Try: --only {section.name}")
        return
    c.section_deadline = began + cap
    try:
        with barrier.cap(cap):
            section.check(c)
    except Exception as error:  # noqa: BLE001 - another section may still say something
        c.report.fail(section.name, f"{type(error).__name__}: {error}")
    except barrier.TimeUp as late:
        c.report.fail(section.name, late)
    finally:
        c.section_deadline = 0.0
        child.kill_all()
        c.report.details.setdefault("seconds", {})[section.name] = time.monotonic() - began
    c.save()


def main(arguments=None):
    options = parse(arguments)
    wanted = chosen(options)
    barrier.catch_signals()
    began, code, folder, unpacked = time.monotonic(), None, None, None
    try:
        why = usable(options, wanted)
        if why:
            print(f"Error: {why}", file=sys.stderr)
            return 2
        prepare_cpu()
        options.swarm, unpacked = program.unpack(program.find(options.swarm) or options.swarm)
        folder = Path(tempfile.mkdtemp(prefix="gpu-check-", dir=places.choose(options.scratch, options.device == "cpu")))
        c = make_check(options, folder, began)
        try:
            c.save()
            c.evidence.start()
            for section in wanted:
                run_section(c, section)
        except barrier.Interrupted as signal:
            code = signal.code
            c.report.fail("check", f"stopped by {signal}: the remaining sections are missing")
        child.kill_all()
        verdicts.report_targets(c)
        c.report.details["settings"] = {"work": vars(c.work), "shape": vars(c.shape), "nodes": c.nodes, "quick": c.quick, "part": options.part,
                                        "arguments": sys.argv[1:], "seconds": time.monotonic() - began}
        c.save()
        c.evidence.close()
        print(c.report.table(), flush=True)
        print(f"\nall measurements: {options.out}; {time.monotonic() - began:.0f} s", file=sys.stderr)
        return code or (1 if c.report.missed() else 0)
    except barrier.Interrupted as signal:
        return signal.code
    finally:
        child.kill_all()
        for path in filter(None, (folder, unpacked)):
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
