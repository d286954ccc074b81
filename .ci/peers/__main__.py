"""Does the same work with swarm and with its peers, in one run, and prints a table.

Usage: peers [--only ROW,ROW] [--fast] [--json FILE]. The peers come from PyPI, with the versions that environments.py
pins. Each row is a module of this folder that runs in a process of its own, with that environment's Python, and has a
limit in seconds: a row that hangs fails, and the others keep their limits. A row prints one JSON object {"measured",
"verdict", "note"}: verdict is equal, differs, ahead, behind, cannot run (the peer cannot be imported), or failed. Exit
code 1: a row failed, or differs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, ".ci"))

import environments  # noqa: E402


class Row(NamedTuple):
    name: str  # of the module
    packages: Tuple[str, ...]  # of the peers
    limit: int  # seconds
    fast: bool  # whether `make test` runs it, if the environment is complete


ROWS = (
    Row("tasks", ("reasoning-gym",), 150, True),
    Row("verdicts", ("scipy", "statsmodels", "rliable"), 150, True),
    Row("exports", ("tensorboard", "trackio", "mlflow", "wandb"), 200, True),
    Row("loss", ("trl", "transformers", "torch"), 200, True),
    Row("parity", ("transformers", "tokenizers"), 150, True),
    Row("genrl", ("gensyn-genrl", "transformers"), 150, False),
    Row("trackers", ("trackio", "mlflow", "wandb"), 200, False),
    Row("speed", ("transformers", "trl", "torch"), 600, False),
    Row("memory", ("accelerate",), 200, False),
    Row("steps", ("trl", "gensyn-genrl"), 600, False),
    Row("install", ("trl",), 900, False),
)
FINE = ("equal", "ahead", "behind", "cannot run")


def main():
    parser = argparse.ArgumentParser(prog="peers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows, separated by commas: " + ", ".join(row.name for row in ROWS))
    parser.add_argument("--fast", action="store_true", help="only the rows that make test runs; downloads nothing")
    parser.add_argument("--json", default="", help="also write the rows to this file")
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the running row is ended too
    names = [name for name in o.only.split(",") if name]
    for name in names:
        if name not in [row.name for row in ROWS]:
            parser.error(f"no row {name!r}: there are {', '.join(row.name for row in ROWS)}")
    chosen = [row for row in ROWS if (row.name in names or not names) and (row.fast or not o.fast)]
    try:
        python = environments.python_of("peers") if o.fast else environments.prepare("peers")
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: environment peers: {error}\nTry: make peers again; what was downloaded is kept")
    if python is None:
        print(f"peers: skipped {', '.join(row.name for row in chosen)}: there is no environment; make peers prepares it")
        return
    rows = [run(python, row) for row in chosen]
    print_table(rows)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    sys.exit(0 if all(row["verdict"] in FINE for row in rows) else 1)


def run(python, row):
    """Runs a row in a process group of its own and returns what it found, with versions and seconds."""
    print(f"== {row.name}", file=sys.stderr, flush=True)
    found = {"row": row.name, "peer": {}, "measured": "", "verdict": "failed", "note": "", "seconds": 0.0}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, open(os.path.join(scratch, "stderr"), "w+", encoding="utf-8") as errors:
        try:
            found["peer"] = versions(python, row.packages)
            process = start(python, row.name, scratch, errors, row.limit)
            try:
                out, _ = process.communicate(timeout=row.limit)
            finally:
                kill(process)
            found.update(json.loads(out.strip().splitlines()[-1]))
        except subprocess.TimeoutExpired:
            found["note"] = f"no answer in {row.limit} s"
        except (subprocess.CalledProcessError, OSError, ValueError, IndexError) as error:
            errors.flush()
            errors.seek(0)
            text = errors.read().strip()
            print(text[-4000:], file=sys.stderr)
            found["note"] = (text.splitlines() or [str(error)])[-1]
    found["seconds"] = time.monotonic() - begin
    return found


def versions(python, packages):
    code = f"import json; from importlib.metadata import version; print(json.dumps({{name: version(name) for name in {list(packages)!r}}}))"
    return json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout)


def start(python, name, scratch, errors, limit):
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, ".ci"), SWARM_PROGRAM=os.path.join(ROOT, "bin", "swarm"),
                       SWARM_HOME=os.path.join(scratch, "home"), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRL_EXPERIMENTAL_SILENCE="1",
                       WANDB_MODE="offline", WANDB_SILENT="true", MLFLOW_DISABLE_TELEMETRY="true")  # fmt: skip
    # The alarm outlives exec: a row ends even if its parent has died.
    return subprocess.Popen([python, "-m", "peers." + name, scratch], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=scratch,
                            start_new_session=True, preexec_fn=lambda: signal.alarm(limit + 30))  # fmt: skip


def kill(process):
    """Ends a row's whole process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def print_table(rows):
    print("| row | peer | measured | verdict | seconds |\n|---|---|---|---|---|")
    for row in rows:
        peer = ", ".join(f"{name} {version}" for name, version in row["peer"].items())
        note = f": {row['note']}" if row["note"] else ""
        print(f"| `{row['row']}` | {peer} | {row['measured']} | {row['verdict']}{note} | {row['seconds']:.0f} |")


if __name__ == "__main__":
    main()
