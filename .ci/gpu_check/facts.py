"""Reports of a measuring child to its parent: one JSON object per line, {"fact": name, "value": ...} or {"failed":
step, "why": ...}.

A fact is reported at once, so that a child that dies or hangs has already reported its earlier facts.
"""

import contextlib
import ctypes
import json
import signal
import sys
import traceback


def begin():
    """Makes a child end with its parent. Call it first in a child."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass


def tell(name, value):
    print(json.dumps({"fact": name, "value": value}, default=str), flush=True)


@contextlib.contextmanager
def step(name):
    """A step that may fail without ending the others."""
    print(f"gpu-check: {name}", file=sys.stderr, flush=True)
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the next step may work
        traceback.print_exc(file=sys.stderr)
        why = (str(error).strip().splitlines() or ["no message"])[0]
        print(json.dumps({"failed": name, "why": f"{type(error).__name__}: {why}"[:300]}), flush=True)


def read(lines):
    """Returns (facts by name, failures as (step, why)) from a child's lines. Other lines are skipped."""
    found, failures = {}, []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "fact" in entry:
            found[entry["fact"]] = entry.get("value")
        elif isinstance(entry, dict) and "failed" in entry:
            failures.append((entry["failed"], entry.get("why", "")))
    return found, failures
