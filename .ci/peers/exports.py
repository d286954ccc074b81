"""A real run's exports, opened by TensorBoard and brought into trackio, MLflow and W&B: the curves read back are equal."""

import csv
import json
import math
import os
import struct
import sys
import time

from peers import common

RUN, NODE = "sparse-4loc4ext-1", "node_0"
# Columns of the table rounds, and TRL's names for them, which event files use.
TAGS = {"reward": "reward", "loss": "loss", "grad_norm": "grad_norm", "completions_mean_length": "completions/mean_length"}
METRICS = tuple(TAGS)
BLOCK, FULL, LAST = 32768, 1, 4  # LevelDB's
WHOLE_SECONDS = 60  # until a .wandb file is whole
DATABASE = os.path.join(common.ROOT, "docs", "study", "sparse.db.gz")


def single(value):
    """value as float32, which event files hold."""
    return struct.unpack("f", struct.pack("f", value))[0]


def export(scratch):
    """The exports' folders by format."""
    common.swarm("import", DATABASE)
    folders = {}
    for form in ("tensorboard", "csv", "jsonl"):
        folders[form] = os.path.join(scratch, form)
        common.swarm("export", RUN, "--format", form, "--out", folders[form])
    return folders


def expected():
    """{(where, tag): {round: value}} as `swarm curve` has them, of the mean over nodes ("swarm") and of NODE."""
    curves = {}
    for metric in METRICS:
        curve = common.swarm_json("curve", RUN, "--metric", metric, "--window", "1")["curves"][0]
        node = next(n for n in curve["nodes"] if n["node"] == NODE)
        for where, values in (("swarm", curve["mean"]), (NODE, node["values"])):
            curves[where, metric] = {r: v for r, v in zip(curve["round"], values) if v is not None}
    return curves


def rows_of(folder, form):
    """NODE's rows of the table rounds, by round."""
    with open(os.path.join(folder, "rounds." + form), encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file) if form == "csv" else map(json.loads, file)
        return {int(row["round"]): row for row in rows if row["node"] == NODE}


def in_tensorboard(folders, curves):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for where in ("swarm", NODE):
        events = EventAccumulator(os.path.join(folders["tensorboard"], RUN, where), size_guidance={"scalars": 0})
        events.Reload()
        for metric, tag in TAGS.items():
            found[where, metric] = {e.step: e.value for e in events.Scalars(tag)}
    return {key: {r: single(v) for r, v in curves[key].items()} for key in found}, found


def in_tables(folders, curves):
    found, wanted = {}, {}
    for form in ("csv", "jsonl"):
        rows = rows_of(folders[form], form)
        for metric in METRICS:
            found[form, metric] = {r: float(row[metric]) for r, row in rows.items() if row[metric] not in ("", None)}
            wanted[form, metric] = curves[NODE, metric]
    return wanted, found


def in_trackio(folders, curves, scratch):
    """By its importers of event files and of CSV files."""
    os.environ["TRACKIO_DIR"] = os.path.join(scratch, "trackio")
    import pandas
    import trackio
    from trackio.utils import simplify_column_names

    trackio.import_tf_events(os.path.join(folders["tensorboard"], RUN, "swarm"), project="events", name="swarm")
    table = pandas.DataFrame(list(rows_of(folders["csv"], "csv").values()))
    path = os.path.join(scratch, "node.csv")
    table[["round", *METRICS]].rename(columns={"round": "step"}).to_csv(path, index=False)  # it asks for a column step
    trackio.import_csv(path, project="table", name=NODE)
    found, wanted = {}, {}
    for project, where, names in (("events", "swarm", TAGS), ("table", NODE, simplify_column_names(list(METRICS)))):
        logs = trackio_logs(trackio, project)
        for metric, name in names.items():
            found[where, metric] = {int(row["step"]): row[name] for row in logs if row.get(name) is not None}
            wanted[where, metric] = {r: single(v) if where == "swarm" else v for r, v in curves[where, metric].items()}
    return wanted, found, "trackio's import of CSV cuts the names of columns, so event files are the better way"


def trackio_logs(trackio, project):
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = SQLiteStorage.get_runs(project)
    logs = SQLiteStorage.get_logs(project, run)
    # trackio may put the folder's name before the tag.
    return [{key.removeprefix("main/"): value for key, value in row.items()} for row in logs]


def in_mlflow(folders, curves, scratch):
    """By log_batch, from JSON lines: it has no importer."""
    import mlflow
    from mlflow.entities import Metric

    mlflow.set_tracking_uri("sqlite:///" + os.path.join(scratch, "mlflow.db"))
    client = mlflow.MlflowClient()
    run = client.create_run(client.create_experiment("swarm", artifact_location=os.path.join(scratch, "artifacts"))).info.run_id
    batch = [
        Metric(metric, row[metric], int(row["time"] * 1000), round_)
        for round_, row in rows_of(folders["jsonl"], "jsonl").items()
        for metric in METRICS
        if row[metric] is not None
    ]
    for begin in range(0, len(batch), 1000):  # its limit
        client.log_batch(run, metrics=batch[begin : begin + 1000])
    found = {(NODE, m): {point.step: point.value for point in client.get_metric_history(run, m)} for m in METRICS}
    refused = ""
    try:
        client.log_metric(run, "eval/pass@1", 0.5)
    except mlflow.MlflowException:
        refused = "MLflow refuses the tag eval/pass@1 because of @"
    return {key: curves[key] for key in found}, found, refused


def in_wandb(folders, curves, scratch):
    """By run.log offline, from JSON lines, read back from the file that `wandb sync` uploads."""
    import wandb

    run = wandb.init(project="swarm", name=NODE, dir=scratch, mode="offline")
    for round_, row in sorted(rows_of(folders["jsonl"], "jsonl").items()):
        run.log({m: row[m] for m in METRICS if row[m] is not None}, step=round_)
    folder = run.settings.sync_dir
    run.finish()
    (path,) = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".wandb")]
    found = {(NODE, m): {} for m in METRICS}
    for record in wandb_records(path):
        if record.WhichOneof("record_type") != "history":
            continue
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for m in METRICS:
            if m in row:
                found[NODE, m][int(row["_step"])] = row[m]
    return {key: curves[key] for key in found}, found


def wandb_records(path):
    """All records of a .wandb file. The last one is exit, which is often written after the run's finish has returned."""
    end = time.monotonic() + WHOLE_SECONDS
    while True:
        with open(path, "rb") as file:
            records = list(parse_wandb(file.read()))
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        if time.monotonic() > end:
            raise ValueError(f"{path} has {len(records)} records and no exit")
        time.sleep(0.02)


def parse_wandb(data):
    """The records of a file's bytes, which are in LevelDB's log format after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    place, whole = 7, b""
    while place + 7 <= len(data):
        left = BLOCK - place % BLOCK
        if left < 7:  # a header never spans blocks
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        if place + 7 + size > len(data):  # not written yet
            return
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def differences(name, wanted, found):
    """What differs, in words, and how many points were compared."""
    out, points = [], 0
    for key, curve in wanted.items():
        points += len(curve)
        if set(found[key]) != set(curve):
            out.append(f"{name} {key}: {len(found[key])} points against {len(curve)}")
            continue
        bad = [r for r, v in curve.items() if not (found[key][r] == v or math.isnan(v) and math.isnan(found[key][r]))]
        if bad:
            out.append(f"{name} {key}: {len(bad)} points, round {bad[0]}: {found[key][bad[0]]!r} against {curve[bad[0]]!r}")
    return out, points


def main():
    scratch = sys.argv[1]
    folders = export(scratch)
    curves = expected()
    differ, told, notes = [], [], []
    for name, read in (("TensorBoard", in_tensorboard), ("CSV and JSON lines", in_tables), ("trackio", in_trackio), ("MLflow", in_mlflow), ("W&B", in_wandb)):
        extra = () if read in (in_tensorboard, in_tables) else (scratch,)
        try:
            wanted, found, *rest = read(folders, curves, *extra)
        except ImportError as error:
            notes.append(f"{name} cannot run: {error}")
            continue
        bad, points = differences(name, wanted, found)
        differ += bad
        notes += [text for text in rest if text]
        told.append(f"{name} {points:,}")
    for line in differ:
        print(line)
    if differ:
        notes.insert(0, f"{len(differ)} differences, the first: {differ[0]}")
    measured = f"points of {len(METRICS)} metrics of {RUN} read back equal, of event files as float32: " + ", ".join(told)
    common.answer(measured, "differs" if differ else "equal", "; ".join(notes))


if __name__ == "__main__":
    main()
