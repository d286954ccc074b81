"""The program's verdict on which configuration is better."""

from . import page, program

COLUMNS = ("experiment", "config", "runs", "rounds", "cumulative_reward", "improvement", "verdict", "paper_improvement", "eval_reward", "ci_low",
           "ci_high", "p_value_holm")
_PERCENT = ("improvement", "ci_low", "ci_high", "paper_improvement")
_GATE = (0, 5, 6)  # better, worse, undecided: results, not failures


class Comparison(dict):
    """The document of `swarm compare -o json`, shown as a table in a notebook."""

    def _repr_html_(self):
        return page.html_table(COLUMNS, self._cells())

    def __str__(self):
        return page.text_table(COLUMNS, self._cells())

    def frame(self):
        """Returns the rows in a pandas.DataFrame."""
        from .database import frame_of
        return frame_of(self["rows"])

    def _cells(self):
        rows = [dict(row, experiment=row.get("name", row.get("experiment"))) for row in self["rows"]]
        return [[_cell(name, row.get(name)) for name in COLUMNS] for row in rows]


def compare(*experiments, baseline=None, home=None, **flags):
    """Returns the Comparison of the named experiments, or of all: means over runs, improvements over the baseline,
    intervals, p-values and verdicts. flags are those of `swarm compare` (by="config", measure="eval", target=0.5 …).
    """
    args = list(experiments) + program.arguments(dict(flags, baseline=baseline))
    return Comparison(program.document(["compare"] + args, program.home_folder(home), _GATE))


def plan(home=None, **flags):
    """Returns the document of `swarm plan -o json`: how many nodes fit, where, and why. flags are those of `swarm
    plan` (gpu_memory="15GB" …).
    """
    return program.document(["plan"] + program.arguments(flags), program.home_folder(home))


def _cell(name, value):
    if value is None:
        return "–"
    if name in _PERCENT:
        return "{:+.1f} %".format(100 * value)
    return "{:.4g}".format(value) if isinstance(value, float) else str(value)
