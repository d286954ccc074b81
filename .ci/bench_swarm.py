"""Measures a real run of eight nano nodes: the share of a round outside engine calls, the coordinator's cost, and the
cost that the live view and the dashboard with a reader add.

Usage: bench_swarm.py PATH/TO/swarm [ROUNDS]. Prints one JSON object. The first two rounds are warm-up and not
counted. There are two figures for a coordinator's memory. Resident (RSS) counts all pages of the program, which the
nodes share. Proportional (PSS) counts its share of them. The program is a copy, like that of `make install`, because
the kernel maps 15 MB more of a file straight from the linker.
"""

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urljoin

WARM_UP = 2
CONFIG = ["--config", "4loc4ext", "--model", "nano", "--device", "cpu"]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid, key):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(key)


def up(program, home, rounds):
    return [program, "--home", home, "up", *CONFIG, "--rounds", str(rounds), "--set", "eval_questions=0"]


class Cost:
    """A process's use of resources between the first and the last sample."""

    def __init__(self, pid):
        self.pid, self.looks, self.resident, self.proportional = pid, [], [], []

    def look(self):
        self.looks.append((time.monotonic(), cpu_seconds(self.pid)))
        self.resident.append(memory_bytes(self.pid, "Rss"))
        self.proportional.append(memory_bytes(self.pid, "Pss"))

    def told(self):
        (begin, before), (end, after) = self.looks[0], self.looks[-1]
        return {
            "cpu_fraction_of_a_core": round((after - before) / (end - begin), 4),
            "rss_mean_bytes": sum(self.resident) // len(self.resident), "rss_peak_bytes": max(self.resident),
            "pss_mean_bytes": sum(self.proportional) // len(self.proportional),
        }


def alone(program, home, rounds):
    """Runs without live view and dashboard, and reads the events as JSON lines. Returns the cost, the rounds'
    reports, and seconds.
    """
    child = subprocess.Popen([*up(program, home, rounds), "-o", "json"], stdout=subprocess.PIPE, text=True)
    nodes = plan(program, home)["nodes"]
    cost, done, reports, times = Cost(child.pid), {}, [], []
    for line in child.stdout:
        event = json.loads(line)
        if event["type"] != "round":
            continue
        number = event["round"]["round"]
        done[number] = done.get(number, 0) + 1
        if number >= WARM_UP:
            reports.append(event["round"])
        if done[number] == nodes and number >= WARM_UP - 1:
            times.append(event["time"])
            if number < rounds - 1:  # the process ends after the last round
                cost.look()
    ended(child)
    return cost, reports, times[-1] - times[0]


def plan(program, home):
    command = [program, "--home", home, "plan", *CONFIG, "-o", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def with_view(program, home, rounds):
    """The same on a terminal, whose output is read completely."""
    terminal, theirs = pty.openpty()
    environment = dict(os.environ, TERM="xterm-256color", COLUMNS="120", LINES="40")
    child = subprocess.Popen(up(program, home, rounds), stdin=theirs, stdout=theirs, start_new_session=True, env=environment)
    os.close(theirs)
    reader = threading.Thread(target=drain, args=(terminal,), daemon=True)
    reader.start()
    cost = followed(child, home, rounds)
    ended(child)
    return cost


def drain(descriptor):
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:  # the other end has closed
        pass


def with_dashboard(program, home, rounds):
    """The same with an open page: its stream is read, and the run's document is requested every second."""
    child = subprocess.Popen([*up(program, home, rounds), "--dashboard=127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if line.startswith("Dashboard: "):
            url = line.split()[1]
            break
    else:
        sys.exit("swarm up has no dashboard")
    threading.Thread(target=drain, args=(child.stdout.fileno(),), daemon=True).start()
    answers = [0, 0]
    threading.Thread(target=browse, args=(urljoin(url, "/api/stream"), answers, 0), daemon=True).start()
    threading.Thread(target=browse, args=(urljoin(url, "/api/runs/4loc4ext-1"), answers, 1), daemon=True).start()
    cost = followed(child, home, rounds)
    ended(child)
    if not all(answers):
        sys.exit(f"the dashboard sent {answers[0]} lines and {answers[1]} documents")
    return cost


def browse(url, answers, which):
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                for _ in answer:
                    answers[which] += 1
        except (urllib.error.URLError, OSError):  # the run has ended
            pass
        time.sleep(1)


def followed(child, home, rounds):
    """Takes a sample every second during the counted rounds. The rounds come from the database."""
    cost, database = Cost(child.pid), None
    while child.poll() is None:
        time.sleep(1)
        try:
            database = database or sqlite3.connect(f"file:{home}/swarm.db?mode=ro", uri=True)
            least = database.execute("SELECT MIN(done) FROM (SELECT COUNT(*) AS done FROM rounds GROUP BY node)").fetchone()[0]
        except sqlite3.OperationalError:  # the database is being created
            continue
        if least is not None and WARM_UP <= least < rounds - 1:
            cost.look()
    return cost


def ended(child):
    if child.wait() != 0:
        sys.exit(f"swarm up ended with {child.returncode}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        measure_all(shutil.copy(sys.argv[1], folder))


def measure_all(program):
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 22
    with tempfile.TemporaryDirectory() as home:
        cost, reports, wall = alone(program, home, rounds)
        planned = plan(program, home)
    counted = rounds - WARM_UP
    engine = sum(r["generate_time"] + r["update_time"] for r in reports)
    base = cost.told()
    added = {}
    for name, measure in (("live_view", with_view), ("dashboard", with_dashboard)):
        with tempfile.TemporaryDirectory() as home:
            told = measure(program, home, rounds).told()
        added[name] = dict(told, **{"added_" + key: round(told[key] - base[key], 4) for key in base})
    print(json.dumps({
        "nodes": planned["nodes"], "computing_at_once": planned["slots"], "rounds": counted,
        "seconds_per_round": round(wall / counted, 3),
        "engine_seconds_per_round": round(engine / counted, 3),
        "outside_engine_fraction": round(1 - engine / (planned["slots"] * wall), 4), "outside_engine_target": 0.10,
        "coordinator": dict(base, cpu_target=0.02, rss_target_bytes=60_000_000), **{"with_" + name: told for name, told in added.items()},
    }, indent=2))


if __name__ == "__main__":
    main()
