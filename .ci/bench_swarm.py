"""Measures a real run of eight nano nodes: how much of a round is spent outside engine calls, and what the coordinator costs.

Usage: bench_swarm.py PATH/TO/swarm [ROUNDS]. Prints one JSON object. The first two rounds are warm-up and not counted.
"""

import json
import os
import subprocess
import sys
import tempfile

WARM_UP = 2


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_bytes(pid, key):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(key)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 22
    with tempfile.TemporaryDirectory() as home:
        command = [program, "--home", home, "up", "--config", "4loc4ext", "--model", "nano", "--device", "cpu", "--rounds", str(rounds),
                   "--set", "eval_questions=0", "-o", "json"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        plan = json.loads(subprocess.run([program, "--home", home, "plan", "--config", "4loc4ext", "--model", "nano", "--device", "cpu", "-o", "json"],
                                         check=True, capture_output=True, text=True).stdout)
        nodes, slots = plan["nodes"], plan["slots"]
        done, reports = {}, []
        begin = end = None
        resident = []
        for line in child.stdout:
            event = json.loads(line)
            if event["type"] != "round":
                continue
            number = event["round"]["round"]
            done[number] = done.get(number, 0) + 1
            if number >= WARM_UP:
                reports.append(event["round"])
            if done[number] == nodes:
                now = event["time"], cpu_seconds(child.pid)
                resident.append(status_bytes(child.pid, "VmRSS"))
                if number == WARM_UP - 1:
                    begin = now
                end = now
        child.wait()
    if child.returncode != 0:
        sys.exit(f"swarm up ended with {child.returncode}")
    wall, cpu = end[0] - begin[0], end[1] - begin[1]
    engine = sum(r["generate_time"] + r["update_time"] for r in reports)
    print(json.dumps({
        "nodes": nodes, "computing_at_once": slots, "rounds": rounds - WARM_UP,
        "seconds_per_round": round(wall / (rounds - WARM_UP), 3),
        "engine_seconds_per_round": round(engine / (rounds - WARM_UP), 3),
        "outside_engine_fraction": round(1 - engine / (slots * wall), 4), "outside_engine_target": 0.10,
        "coordinator_cpu_fraction_of_a_core": round(cpu / wall, 4), "coordinator_cpu_target": 0.02,
        "coordinator_rss_mean_bytes": sum(resident) // len(resident), "coordinator_rss_peak_bytes": max(resident), "coordinator_rss_target": 80_000_000,
    }, indent=2))


if __name__ == "__main__":
    main()
