"""The engine's parity tests with transformers (test_transformers.py), run with the peers' Python.

The row differs only if an assertion failed. If a test could not run, or none did, the row failed.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree

from peers import common

TESTS = os.path.join(common.POLICY, "engine", "tests", "test_transformers.py")


def end_of(text):
    """The last lines of a text, in one."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-3:])[-300:]


def judge(report, code, output):
    """The row's answer from pytest's report, exit code and output."""
    try:
        suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, xml.etree.ElementTree.ParseError):
        return "", "failed", f"pytest ended with {code}: {end_of(output)}"
    tests, errors, skipped = (int(suite.get(kind)) for kind in ("tests", "errors", "skipped"))
    unequal, broken = [], []
    for case in suite.iter("testcase"):
        for failure in (*case.findall("failure"), *case.findall("error")):
            asserted = failure.tag == "failure" and failure.get("message", "").startswith(("assert", "AssertionError"))
            (unequal if asserted else broken).append(f"{case.get('name')}: {end_of(failure.text or '')}")
    passed = tests - errors - skipped - len(suite.findall("testcase/failure"))
    measured = "GPT-2, Llama, Qwen2, Qwen3: logits, gradients, greedy and seeded completions, directories, tokenizers and chat templates: "
    measured += f"{passed} tests passed, {len(unequal)} differed, {len(broken)} could not run, {skipped} skipped"
    verdict = "differs" if unequal else "equal" if passed and not code else "failed"
    return measured, verdict, "; ".join([*unequal, *broken][:3]) or ("" if passed else f"pytest ended with {code}: {end_of(output)}")


def main():
    report = os.path.join(sys.argv[1], "report.xml")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-W", "ignore", "--junitxml", report, TESTS]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    print(done.stdout, file=sys.stderr)
    common.answer(*judge(report, done.returncode, done.stdout))


if __name__ == "__main__":
    main()
