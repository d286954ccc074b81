"""The engine's own tests on this machine. CUDA tests come first, because only they find faults that need a card."""

import importlib.util
import re
import sys

import child
from context import POLICY, child_environment

FOLDER = POLICY / "engine" / "tests"
CUDA = ("test_cuda.py", "test_graphs.py")
CAP = 60.0  # seconds, for both
OTHERS = ("test_transformers.py", "test_model.py", "test_generate.py", "test_update.py", "test_loss.py", "test_weights.py", "test_layout.py")
_OUTCOME = re.compile(r"::.* (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")


def run(files, log, cap):
    """Returns (counts by outcome, why it was stopped or None) for test files. Tests before a stop count."""
    env = child_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    command = [sys.executable, "-u", "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider", *(FOLDER / name for name in files)]
    lines, code, problem = child.run(command, log, cap, env=env, cwd=FOLDER.parent)
    counts = count(lines)
    if problem is None and code not in (0, 1):
        problem = f"pytest ended with {code}: {child.last_line(log)}"
    return counts, problem


def count(lines):
    """Counts outcomes in the output of pytest -v."""
    out = {}
    for line in lines:
        found = _OUTCOME.search(line)
        if found:
            out[found.group(1)] = out.get(found.group(1), 0) + 1
    return out


def check_tests(c):
    """Runs test_cuda.py and test_graphs.py. Without pytest it is a failure, never a skip."""
    began = c.left()
    for name in CUDA:
        if has_pytest(c, "tests", name):
            report(c, "tests", name, (name,), max(1, CAP - (began - c.left())))


def check_more_tests(c):
    """Runs the tests that need no card, with this machine's torch."""
    if c.quick:
        c.report.add("more-tests", "the engine's other tests", "left out", note="a dry run or --quick")
    elif has_pytest(c, "more-tests", "the engine's other tests"):
        report(c, "more-tests", "the engine's other tests", OTHERS, max(1, c.left() - 2))


def has_pytest(c, section, name):
    if importlib.util.find_spec("pytest"):
        return True
    c.report.fail(section, f"not run: {sys.executable} has no pytest. Try: {sys.executable} -m pip install pytest", name)
    return False


def report(c, section, name, files, cap):
    files = [file for file in files if (FOLDER / file).exists()]
    if not files:
        c.report.fail(section, f"{FOLDER / name} is not there", name)
        return
    counts, problem = run(files, c.evidence.path(f"{section}/{name.replace(' ', '-')}.log"), max(1, min(cap, c.left() - 2)))
    c.report.details.setdefault(section, {})[name] = {"counts": counts, "problem": problem}
    passed, skipped = counts.get("PASSED", 0), counts.get("SKIPPED", 0)
    failed = counts.get("FAILED", 0) + counts.get("ERROR", 0)
    note = f"{passed} passed, {skipped} skipped" + (f"; {problem}" if problem else "")
    if name == "test_cuda.py" and not passed and c.dry:
        c.report.needs_gpu(section, name)
    elif problem or not passed:
        c.report.fail(section, f"{failed} failed, {note}", name)
    else:
        c.report.check(section, f"{name}: failed", failed, "", "0", lambda v: v == 0, note=note if not c.dry else "")
