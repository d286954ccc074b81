"""Does the same work with swarm and with its peers, in one run, and prints a table. Usage: peers [--only ROW,ROW] [--fast] [--json FILE]

The peers come from PyPI, with the versions that environments.py pins. Each row is a module of this folder that runs in
a process of its own, with that environment's Python, and has a limit in seconds: a row that hangs fails. A row prints
one JSON object {"measured", "verdict", "note"}: verdict is equal, differs, ahead, behind, or cannot run. Exit code 1: a row
failed, or differs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, ".ci", "peers")
sys.path.insert(0, os.path.join(ROOT, ".ci"))

import environments  # noqa: E402

# Row, peer's packages, limit in seconds, whether `make test` runs it where the environment is there.
ROWS = (
    ("tasks", ("reasoning-gym",), 600, True),
    ("verdicts", ("scipy", "statsmodels", "rliable"), 300, True),
    ("exports", ("tensorboard", "trackio", "mlflow", "wandb"), 300, True),
    ("loss", ("trl", "transformers"), 300, True),
    ("genrl", ("gensyn-genrl", "trl"), 600, False),
    ("speed", ("transformers", "trl"), 1200, False),
    ("memory", ("accelerate",), 300, False),
)
FINE = ("equal", "ahead", "cannot run")


def main():
    parser = argparse.ArgumentParser(prog="peers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows, separated by commas: " + ", ".join(row[0] for row in ROWS))
    parser.add_argument("--fast", action="store_true", help="only the rows that make test runs; downloads nothing")
    parser.add_argument("--json", default="", help="also write the rows to this file")
    o = parser.parse_args()
    names = [name for name in o.only.split(",") if name]
    for name in names:
        if name not in [row[0] for row in ROWS]:
            parser.error(f"no row {name!r}: there are {', '.join(row[0] for row in ROWS)}")
    try:
        python = environments.python_of("peers") if o.fast else environments.prepare("peers")
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: environment peers: {error}\nTry: make peers again; what was downloaded is kept")
    if python is None:
        print("peers: skipped, there is no environment: make peers prepares it")
        return
    rows = [run(python, *row[:3]) for row in ROWS if (row[0] in names or not names) and (row[3] or not o.fast)]
    print_table(rows)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    sys.exit(0 if all(row["verdict"] in FINE for row in rows) else 1)


def run(python, name, packages, limit):
    """Runs a row in a process group of its own and returns what it found, with versions and seconds."""
    code = f"import json; from importlib.metadata import version; print(json.dumps({{name: version(name) for name in {list(packages)!r}}}))"
    row = {"row": name, "peer": {}, "measured": "", "verdict": "failed", "note": "", "seconds": 0.0}
    print(f"== {name}", file=sys.stderr, flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, open(os.path.join(scratch, "stderr"), "w+", encoding="utf-8") as errors:
        environment = dict(os.environ, SWARM_PROGRAM=os.path.join(ROOT, "bin", "swarm"), SWARM_HOME=os.path.join(scratch, "home"), HF_HUB_OFFLINE="1",
                           TOKENIZERS_PARALLELISM="false", WANDB_MODE="offline", WANDB_SILENT="true")  # fmt: skip
        try:
            row["peer"] = json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout)
            process = subprocess.Popen([python, os.path.join(HERE, name + ".py"), scratch], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
                                       cwd=scratch, start_new_session=True)  # fmt: skip
            try:
                out, _ = process.communicate(timeout=limit)
            finally:
                kill(process)
            row.update(json.loads(out.strip().splitlines()[-1]))
        except subprocess.TimeoutExpired:
            row["note"] = f"no answer in {limit} s"
        except (subprocess.CalledProcessError, OSError, ValueError, IndexError) as error:
            errors.flush()
            errors.seek(0)
            row["note"] = (errors.read().strip().splitlines() or [str(error)])[-1]
    row["seconds"] = time.monotonic() - begin
    return row


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
