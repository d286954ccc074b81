"""Plots for notebooks. Every number comes from the program or the database. This module computes nothing."""

import math

from . import database, program
from .errors import USAGE, SwarmError

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")  # Okabe and Ito's palette, distinguishable with color blindness
DASHES = ("-", "--", "-.", ":")
POINTS = 600  # per curve; the program keeps every extreme


def curves(*names, metric="reward", window=None, points=POINTS, home=None):
    """Returns the documents of `swarm curve -o json`, one per run: of the named runs and experiments (all runs of
    each), or of all.

    window is the trailing moving average in rounds (None: the paper's 100; 1: none).
    """
    home = program.home_folder(home)
    runs = [r["run"] for r in database.rows("runs", list(names) or None, home)]
    if not runs:
        raise SwarmError("no run is recorded yet", USAGE, "swarm_bridge.up()")
    flags = program.arguments({"metric": metric, "window": window, "points": points})
    return program.document(["curve"] + runs + flags, home)["curves"]


def plot_rewards(*names, metric="reward", window=None, nodes=False, ax=None, home=None):
    """Plots a metric of runs over their rounds like the paper, and returns the axes.

    A curve is the mean over nodes, in a band from the lowest to the highest node. Each node is smoothed by `window`
    rounds first (None: the paper's 100; 1: not at all). An experiment has one color, its runs (seeds) different
    dashes. nodes: thin lines for the nodes instead of the band. names: runs and experiments; none: all.
    """
    found = curves(*names, metric=metric, window=window, home=home)
    ax = ax or _axes()
    colours, drawn = {}, {}
    for curve in found:
        experiment = curve["experiment"]
        colour = colours.setdefault(experiment, PALETTE[len(colours) % len(PALETTE)])
        nth = drawn[experiment] = drawn.get(experiment, 0) + 1
        mean = [_gap(v) for v in curve["mean"]]
        label = "{} ({}), seed {}".format(experiment, curve["config"], curve["seed"])
        ax.plot(curve["round"], mean, color=colour, linestyle=DASHES[(nth - 1) % len(DASHES)], label=_plain(label))
        if nodes:
            for node in curve["nodes"]:
                ax.plot(curve["round"], [_gap(v) for v in node["values"]], color=colour, linewidth=0.5, alpha=0.5)
        else:
            ax.fill_between(curve["round"], [_gap(v) for v in curve["low"]], [_gap(v) for v in curve["high"]], color=colour, alpha=0.15, linewidth=0)
    windows = sorted({c["window"] for c in found})
    smoothed = " and ".join(str(w) for w in windows)
    ax.set_title("{}{}".format(metric, "" if windows == [1] else ", moving average of {} rounds".format(smoothed)))
    ax.set_xlabel("round")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(metric)
    ax.legend()
    return ax


def plot_memory(run=None, ax=None, home=None):
    """Plots the memory of a run's nodes over time, and returns the axes.

    For nodes on GPUs it plots GPU memory, with each card's size and total use. Otherwise it plots host memory:
    proportional shares (PSS) if each sample has one, else resident (RSS). run is a run, or an experiment for its
    newest run; None: the newest run of all.
    """
    home = program.home_folder(home)
    found = database.rows("runs", run, home)
    if not found:
        raise SwarmError("no run is recorded yet", USAGE, "swarm_bridge.up()")
    newest, began = found[-1]["run"], found[-1]["started"]
    samples, cards = database.rows("memory", newest, home), database.rows("devices", newest, home)
    if not samples:
        raise SwarmError("{} has no memory recorded yet".format(newest), remedy="the same call again in ten seconds")
    on_gpu = any(s["device_bytes"] for s in samples)
    shares = all(s.get("pss_bytes") for s in samples)  # databases before schema 11 have no such column
    column = "device_bytes" if on_gpu else "pss_bytes" if shares else "rss_bytes"
    ax = ax or _axes()
    for nth, node in enumerate(sorted({s["node"] for s in samples}, key=_natural)):
        own = [s for s in samples if s["node"] == node]
        style = {"color": PALETTE[nth % len(PALETTE)], "linestyle": DASHES[nth // len(PALETTE) % len(DASHES)], "marker": "." * (len(own) < 3)}
        ax.plot([_since(s, began) for s in own], [s[column] / 1e9 for s in own], label=_plain(node), **style)
    for uuid in sorted({c["uuid"] for c in cards} if on_gpu else ()):
        own = [c for c in cards if c["uuid"] == uuid]
        name = "GPU {} {}".format(own[-1]["gpu"], own[-1]["name"])
        ax.plot([_since(c, began) for c in own], [c["memory_used_bytes"] / 1e9 for c in own], color="#888888", label=_plain(name + ", in use"))
        ax.axhline(own[-1]["memory_total_bytes"] / 1e9, color="#000000", linewidth=0.8, linestyle=":", label=_plain(name + ", all there is"))
    ax.set_title(_plain("{}: {}".format(newest, "GPU memory" if on_gpu else "host memory (PSS)" if shares else "host memory (RSS)")))
    ax.set_xlabel("seconds since its start")
    ax.set_ylabel("GB")
    ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
    ax.legend()
    return ax


def _axes():
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SwarmError("plots need matplotlib", remedy="pip install matplotlib") from None
    return pyplot.subplots(figsize=(9, 4.5), constrained_layout=True)[1]


def _since(sample, began):
    """Returns seconds since the run's start. A sample's time is the start of its slot, which the run's start may be
    in.
    """
    return max(0.0, sample["time"] - began)


def _gap(value):
    """Converts null to a gap in a line."""
    return math.nan if value is None else value


def _plain(text):
    """Returns a label that matplotlib neither hides (a leading _) nor treats as mathematics ($)."""
    text = text.replace("$", "\\$")
    return " " + text if text.startswith("_") else text


def _natural(name):
    """Sort key that puts node_10 after node_9."""
    head, _, tail = name.rpartition("_")
    return (head, int(tail), "") if tail.isdigit() else (name, -1, tail)
