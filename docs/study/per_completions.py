#!/usr/bin/env python3
"""Prints held-out pass@1 of studies' exports against completions that the swarm's own nodes generated.

    python3 docs/study/per_completions.py docs/study/paper.db.gz docs/study/corrected.db.gz

A run's nodes generate I x G completions each per round. Values between two evaluations are interpolated linearly. A
cell is the mean over seeds, with the lowest and the highest seed. "-" means that a run ended with fewer completions.
Only the standard library is needed.
"""

import gzip
import json
import sqlite3
import sys

AT = (12_800, 19_200, 38_400, 76_800)  # completions


def interpolate(points, x):
    """Returns the value at x of a curve of (x, y) pairs in order of x, or None outside of it."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def read(path):
    """Maps each experiment of an export to its runs: {experiment: [[(completions, pass@1), ...], ...]}."""
    db = sqlite3.connect(":memory:")
    db.deserialize(gzip.open(path).read())
    experiments = {}
    for run, experiment, config, nodes in db.execute("SELECT run, experiment, config, nodes FROM runs WHERE state = 'done' ORDER BY experiment, seed"):
        c = json.loads(config)
        each = nodes * c["num_train_samples"] * c["num_generations"]
        rows = db.execute("SELECT round, SUM(correct) / SUM(questions * generations) FROM (SELECT round, correct * 1.0 AS correct, questions, generations"
                          " FROM evals WHERE run = ?) GROUP BY round ORDER BY round", (run,))
        points = [(rounds * each, value) for rounds, value in rows]
        experiments.setdefault(experiment, []).append(points)
    return experiments


def cell(values):
    if None in values:
        return "-"
    return f"{sum(values) / len(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main(paths):
    print("experiment", "runs", *(f"{n / 1000:g}k" for n in AT), "last", sep="\t")
    for path in paths:
        for experiment, runs in read(path).items():
            cells = [cell([interpolate(run, n) for run in runs]) for n in AT]
            print(experiment, len(runs), *cells, cell([run[-1][1] for run in runs]), sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
