"""Which of two experiments of five seeds is better: the steps and seconds to the answer with `swarm compare`, trackio, MLflow and W&B offline.

Each tracker gets the held-out pass@1 of ten runs, reads the last ones back and puts them through Welch's test of SciPy,
because it has none. The p-values must equal that of `swarm compare`. Seconds are those of the calls, without imports.
"""

import glob
import importlib.util
import json
import os
import re
import sys
import time

from scipy import stats

from peers import common
from peers.exports import wandb_records

STUDY = os.path.join(common.ROOT, "docs", "study", "sparse.db.gz")
ARMS = ("sparse-4loc4ext", "sparse-8loc0ext")
SEEDS = range(1, 6)
TESTS = r"ttest_|mannwhitney|wilcoxon|multipletests|permutation_test\(|(from|import) scipy\.stats|from scipy import stats"


class Watch:
    """A user's steps with a tracker, and the seconds of logging and of asking."""

    def __init__(self):
        self.steps, self.seconds = [], {"log": 0.0, "ask": 0.0}
        self.begin = time.monotonic()

    def step(self, kind, text):
        """Ends a step. kind is log or ask."""
        now = time.monotonic()
        self.seconds[kind] += now - self.begin
        self.steps.append(text)
        self.begin = now

    def test(self, arms):
        if {arm: len(values) for arm, values in arms.items()} != dict.fromkeys(ARMS, len(SEEDS)):
            raise ValueError(f"values read back: {arms}")
        p = stats.ttest_ind(arms[ARMS[0]], arms[ARMS[1]], equal_var=False).pvalue
        self.step("ask", "a test of SciPy")
        return p


def with_trackio(runs, _):
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    watch, arms = Watch(), {}
    for (arm, seed), points in runs.items():
        trackio.init(project="swarm", name=f"{arm}-{seed}", config={"arm": arm}, embed=False, auto_log_cpu=False)
        for step, value in points:
            trackio.log({"pass1": value}, step=step)
        trackio.finish()
    watch.step("log", "init, log and finish of each run")
    found = list(trackio.Api().runs("swarm"))
    watch.step("ask", "the list of runs")
    for run in found:
        arms.setdefault(run.config["arm"], []).append(SQLiteStorage.get_logs("swarm", run.name)[-1]["pass1"])
    watch.step("ask", "the last value of each run, from its storage class: its Api has no values")
    return watch, watch.test(arms)


def with_mlflow(runs, scratch):
    import mlflow
    from mlflow.entities import Metric

    watch = Watch()
    mlflow.set_tracking_uri("sqlite:///" + os.path.join(scratch, "mlflow.db"))
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("swarm", artifact_location=os.path.join(scratch, "artifacts"))
    watch.step("log", "a store and an experiment")
    for (arm, seed), points in runs.items():
        run = client.create_run(experiment, run_name=f"{arm}-{seed}", tags={"arm": arm}).info.run_id
        client.log_batch(run, metrics=[Metric("pass1", value, 0, step) for step, value in points])
    watch.step("log", "create_run and log_batch of each run")
    table = mlflow.search_runs(experiment_ids=[experiment])
    arms = {arm: table[table["tags.arm"] == arm]["metrics.pass1"].tolist() for arm in ARMS}
    watch.step("ask", "search_runs, by tag")
    return watch, watch.test(arms)


def with_wandb(runs, scratch):
    import wandb

    watch, arms = Watch(), {}
    for (arm, seed), points in runs.items():
        run = wandb.init(project="swarm", name=f"{arm}-{seed}", group=arm, dir=scratch, mode="offline")
        for step, value in points:
            run.log({"pass1": value}, step=step)
        run.finish()
    watch.step("log", "init, log and finish of each run")
    for path in glob.glob(os.path.join(scratch, "wandb", "offline-run-*", "*.wandb")):
        group = last = None
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "run":
                group = record.run.run_group
            if record.WhichOneof("record_type") == "history":
                row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                last = row.get("pass1", last)
        arms.setdefault(group, []).append(last)
    watch.step("ask", "a parser of its files")
    return watch, watch.test(arms)


def wandb_offline():
    """What wandb's own query says offline."""
    import wandb

    try:
        return f"answers with {len(wandb.Api().runs('swarm'))} runs"
    except Exception as error:  # whatever it raises is the finding
        return " ".join(str(error).split())


def tests_in(package):
    """The files of an installed package that name a statistical test."""
    folder = importlib.util.find_spec(package).submodule_search_locations[0]
    found = []
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True):
        with open(path, encoding="utf-8", errors="replace") as file:
            if re.search(TESTS, file.read()):
                found.append(os.path.relpath(path, folder))
    return found


def main():
    scratch, notes, differ, behind = sys.argv[1], [], [], []
    os.environ["TRACKIO_DIR"] = os.path.join(scratch, "trackio")  # read at import
    begin = time.monotonic()
    common.swarm("import", STUDY)
    imported = time.monotonic()
    pair = common.swarm_json("compare", *ARMS, "--baseline", ARMS[1])["pairs"][0]
    ours = time.monotonic() - begin
    told = [f"swarm: 2 steps, import {imported - begin:.1f} s and compare {begin + ours - imported:.1f} s"]
    runs = {(arm, seed): [(r["round"], r["pass"][0]["value"]) for r in common.swarm_json("eval", f"{arm}-{seed}")["rows"]] for arm in ARMS for seed in SEEDS}
    named = {}
    for name, package, ask in (("trackio", "trackio", with_trackio), ("MLflow", "mlflow", with_mlflow), ("W&B offline", "wandb", with_wandb)):
        importlib.import_module(package)
        watch, p = ask(runs, scratch)
        log, asked = watch.seconds["log"], watch.seconds["ask"]
        told.append(f"{name}: {len(watch.steps)} steps ({'; '.join(watch.steps)}), {log:.1f} s to log and {asked:.1f} s to ask")
        if len(watch.steps) <= 2 or log + asked < ours:
            behind.append(f"{name} takes {len(watch.steps)} steps and {log + asked:.1f} s, swarm 2 steps and {ours:.1f} s")
        if abs(p - pair["p_value"]) > 1e-9:
            differ.append(f"{name}: p {p} against {pair['p_value']}")
        named[name] = tests_in(package)
    told.append(f"p = {pair['p_value']:.2g} (Welch) {'differs' if differ else 'in all'}; compare adds the interval and decides by p = {pair['permutation_p_value']:.2g} (permutations)")
    notes += differ + behind
    without = [name for name, files in named.items() if not files]
    if without:
        notes.append(f"no Python file of {', '.join(without)} names a test of SciPy or statsmodels (searched)")
    notes += [f"{name} names one in {', '.join(files[:3])}" for name, files in named.items() if files]
    notes.append(f"wandb's own query of runs says offline: {wandb_offline()}")
    notes.append("the trackers' web pages were not examined")
    common.answer("; ".join(told), "differs" if differ else "behind" if behind else "ahead", "; ".join(notes))


if __name__ == "__main__":
    main()
