"""The engine's parity tests with transformers (test_transformers.py), run with the peers' Python."""

import os
import subprocess
import sys
import xml.etree.ElementTree

from peers import common

TESTS = os.path.join(common.POLICY, "engine", "tests", "test_transformers.py")


def main():
    report = os.path.join(sys.argv[1], "report.xml")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-W", "ignore", "--junitxml", report, TESTS]
    subprocess.run(command, cwd=common.ROOT, stdout=sys.stderr, env=dict(os.environ, OMP_NUM_THREADS="1"))
    suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
    tests, failed, errors, skipped = (int(suite.get(kind)) for kind in ("tests", "failures", "errors", "skipped"))
    passed = tests - failed - errors - skipped
    measured = "GPT-2, Llama, Qwen2, Qwen3: logits, gradients, greedy and seeded completions, directories, tokenizers and chat templates: "
    measured += f"{passed} tests passed, {failed + errors} failed, {skipped} skipped"
    common.answer(measured, "differs" if failed else "equal" if passed and not errors else "failed")


if __name__ == "__main__":
    main()
