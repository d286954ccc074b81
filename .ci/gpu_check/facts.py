"""What a measuring child tells its parent: one JSON object a line, {"fact": name, "value": ...} or {"failed": step, "why": ...}.

A fact is told as soon as it is known, so that a child that dies or hangs has said what it found before.
"""

import contextlib
import ctypes
import json
import signal
import sys
import traceback


def begin():
    """To be called first in a child: it ends when its parent does."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass


def tell(name, value):
    print(json.dumps({"fact": name, "value": value}, default=str), flush=True)


@contextlib.contextmanager
def step(name):
    """A part that may fail without ending the others."""
    print(f"gpu-check: {name}", file=sys.stderr, flush=True)
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the next step may work
        traceback.print_exc(file=sys.stderr)
        why = (str(error).strip().splitlines() or ["no message"])[0]
        print(json.dumps({"failed": name, "why": f"{type(error).__name__}: {why}"[:300]}), flush=True)


def read(lines):
    """(facts by name, failures as (step, why)) of a child's lines; other lines are skipped."""
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
