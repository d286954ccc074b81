#!/usr/bin/env python3
"""Measures what the engine host saves in a run of eight nano nodes: time to the first completions, time until a
killed node computes again, and host memory. Runs with and without the engine host alternate.

Usage: bench_start.py PATH/TO/swarm [REPEATS]. Prints one JSON object with the median of each figure. Host memory is
the sum of the proportional set sizes (PSS) of the run's Python processes, including the host. A page that several
processes share counts once.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_check"))
from host_memory import HostMemory  # noqa: E402

NODES, VICTIM = 8, "node_1"


def pythons(home):
    """Returns the PIDs of a run's Python processes, by the variable SWARM_HOME."""
    marker = f"SWARM_HOME={home}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"python" not in os.path.basename(os.readlink(f"/proc/{name}/exe")).encode():
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if marker in file.read().split(b"\0"):
                    yield int(name)
        except OSError:
            pass


def one(program, hosted):
    with tempfile.TemporaryDirectory() as home:
        environ = dict(os.environ, SWARM_HOME=home, SWARM_ENGINE_HOST="" if hosted else "off")
        began = time.time()
        command = [program, "up", "--config", "4loc4ext", "--model", "nano", "--device", "cpu", "--nodes", str(NODES), "--rounds", "6",
                   "--set", "eval_questions=0", "--set", "barrier_deadline=600", "-o", "json"]  # fmt: skip
        run = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        memory = HostMemory(lambda: pythons(home), every=1.0)
        computing, pid, result = set(), None, {}
        killed = None
        for line in run.stdout:
            event = json.loads(line)
            node = event.get("node")
            if event["type"] == "spawn" and node == VICTIM:
                pid = event["pid"]
            if event["type"] == "state" and event.get("state") == "generating":
                computing.add(node)
                if len(computing) == NODES:
                    result.setdefault("first_generating_of_all_seconds", event["time"] - began)
            if event["type"] == "restart" and node == VICTIM:
                result["restart_waits_seconds"] = event.get("seconds", 0)
            if killed and "again_seconds" not in result and node == VICTIM and event["type"] == "state":
                if event["state"] in ("generating", "updating", "replaying") and event["time"] > killed:
                    result["again_seconds"] = event["time"] - killed
            if event["type"] == "round" and node == VICTIM and event["round"]["round"] == 2 and killed is None:
                killed = time.time()
                os.kill(pid, 9)
        memory.stop()
        if run.wait() != 0:
            raise SystemExit(f"swarm up ended with {run.returncode}")
        result["host_memory_peak_bytes"] = memory.peak()
        result["seconds"] = time.time() - began
        return result


def main():
    program, repeats = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    told = {"engine_host": [], "direct": []}
    for _ in range(repeats):
        for name, results in told.items():
            results.append(one(program, name == "engine_host"))
    print(json.dumps({
        name: {key: round(statistics.median(result[key] for result in results), 3) for key in results[0]} for name, results in told.items()
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
