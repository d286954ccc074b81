"""Measures how fast a swarm of eight nano nodes resumes: after a kill -9 of all processes between two checkpoints,
and after an orderly stop.

Usage: bench_resume.py PATH/TO/swarm. Prints one JSON object. Both are compared with a new run's cold start: the time
from the command to the first round of every node. For a resumed run it is the time to the first new round of every
node. A first start, not counted, loads torch into the page cache.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

NODES, TIMES, EVERY = 8, 3, 5  # EVERY: rounds between two checkpoints, nano's checkpoint_every


class Up:
    """One `swarm up -o json` and its events."""

    def __init__(self, program, home):
        self.home, self.rounds, self.reports, self.replays = home, {}, [], []
        self.began = time.monotonic()
        self.child = subprocess.Popen(
            [program, "--home", home, "up", "--config", "4loc4ext", "--model", "nano", "--device", "cpu", "--nodes", str(NODES),
             "--rounds", "100000", "--checkpoint-every", str(EVERY), "--set", "eval_questions=0", "-o", "json"],
            stdout=subprocess.PIPE, text=True, env=dict(os.environ, BENCH_HOME=home))

    def until(self, rounds, before=None):
        """Returns the seconds from the start until every node has done that many new rounds. before maps nodes to the
        rounds already done.
        """
        for line in self.child.stdout:
            self.see(line)
            if len(self.rounds) == NODES and all(done >= rounds + (before or {}).get(node, 0) for node, done in self.rounds.items()):
                return time.monotonic() - self.began
        sys.exit(f"swarm up ended with {self.child.wait()}")

    def see(self, line):
        try:
            event = json.loads(line)
        except ValueError:
            return  # torn last line of a killed process
        if event["type"] == "loaded":
            self.replays.append(event["loaded"])
        if event["type"] == "round":
            if not event.get("replayed"):
                self.reports.append(event["round"])
            self.rounds[event["node"]] = max(self.rounds.get(event["node"], 0), event["round"]["round"] + 1)

    def kill(self):
        """Kills the whole process tree at once."""
        for pid in processes(self.home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.finish()

    def stop(self):
        began = time.monotonic()
        self.child.send_signal(signal.SIGTERM)
        self.finish()
        return time.monotonic() - began

    def finish(self):
        for line in self.child.stdout:  # buffered output
            self.see(line)
        self.child.wait()
        while processes(self.home):
            time.sleep(0.01)


def processes(home):
    """Returns the living processes with the home in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if f"BENCH_HOME={home}".encode() in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
    return found


def main():
    program = sys.argv[1]
    cold, killed, stopped, stops, reports, replays = [], [], [], [], [], []
    for attempt in range(TIMES + 1):
        with tempfile.TemporaryDirectory() as home:
            up = Up(program, home)
            seconds = up.until(1)
            if attempt == 0:
                up.kill()
                continue
            cold.append(seconds)
            up.until(EVERY + EVERY // 2)
            reports += up.reports[NODES * 2:]
            up.kill()
            before, up = up.rounds, Up(program, home)
            killed.append(up.until(1, before))
            replays += [r for r in up.replays if r["replayed_rounds"]]
            stops.append(up.stop())
            before, up = up.rounds, Up(program, home)
            stopped.append(up.until(1, before))
            up.kill()
    one, two, three = (statistics.median(x) for x in (cold, killed, stopped))
    replay = sum(r["replay_seconds"] for r in replays) / max(1, sum(r["replayed_rounds"] for r in replays))
    update = statistics.mean(r["update_time"] for r in reports)
    print(json.dumps({
        "nodes": NODES, "checkpoint_every": EVERY, "cold_start_seconds": round(one, 2),
        "resume_after_kill_seconds": round(two, 2), "resume_after_kill_ratio": round(two / one, 3),
        "resume_after_stop_seconds": round(three, 2), "resume_after_stop_ratio": round(three / one, 3), "resume_target": 1.5,
        "replayed_rounds": sum(r["replayed_rounds"] for r in replays), "replay_seconds_per_round": round(replay, 4),
        "update_seconds_per_round": round(update, 4), "replay_over_update": round(replay / update, 3), "replay_target": 1.0,
        "journal_share_of_round": round(sum(r["journal_time"] for r in reports) / sum(r["step_time"] for r in reports), 5), "journal_target": 0.01,
        "orderly_stop_seconds": round(statistics.median(stops), 2), "orderly_stop_target": 25,
    }, indent=2))


if __name__ == "__main__":
    main()
