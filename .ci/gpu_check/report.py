"""Measured figures with their targets, as tables and as JSON. Pure."""

from dataclasses import asdict, dataclass, field
from typing import Any, Optional

MET, MISSED, UNVERIFIED, FAILED = "met", "MISSED", "not verified", "FAILED"
DRY_RUN = "CPU dry run, not a GPU figure"
NEEDS_GPU = "needs a GPU"


@dataclass
class Row:
    section: str
    name: str
    value: Any  # number, text or None if unavailable
    unit: str = ""
    target: str = ""  # in the words
    verdict: str = ""
    note: str = ""


@dataclass
class Report:
    dry: bool = False  # on a CPU: the figures only show that the check runs
    rows: list = field(default_factory=list)
    details: dict = field(default_factory=dict)  # by section: all measurements
    listings: dict = field(default_factory=dict)  # title -> lines, for tables too long for rows

    def add(self, section, name, value, unit="", note=""):
        self.rows.append(Row(section, name, value, unit, note=DRY_RUN if self.dry and not note else note))

    def check(self, section, name, value, unit, target, holds, note=""):
        """Adds a figure with a target. value None: it could not be measured. On a CPU no target is met or missed."""
        verdict = UNVERIFIED if value is None or self.dry else MET if holds(value) else MISSED
        self.rows.append(Row(section, name, value, unit, target, verdict, DRY_RUN if self.dry and not note else note))

    def needs_gpu(self, section, name):
        """Records that a part was left out without a GPU. In a dry run that is no failure."""
        self.rows.append(Row(section, name, NEEDS_GPU))

    def fail(self, section, why, name=""):
        """Records in one line why a section, or a part of one, has no figures."""
        self.rows.append(Row(section, name or section, None, verdict=FAILED, note=" ".join(str(why).split())[:300]))

    def missed(self):
        return [row for row in self.rows if row.verdict in (MISSED, FAILED)]

    def to_json(self):
        return {"dry_run": self.dry, "rows": [asdict(row) for row in self.rows], "listings": self.listings, "details": self.details}

    def figures(self):
        """Returns all figures, by section."""
        cells = [("what", "measured", "target", "verdict", "note")]
        section: Optional[str] = None
        for row in self.rows:
            if row.section != section:
                section = row.section
                cells.append((f"-- {section}", "", "", "", ""))
            cells.append((row.name, shown(row.value, row.unit), row.target, row.verdict, row.note))
        return columns(cells)

    def targets(self):
        """Returns the rows with targets, and the failures."""
        cells = [("section: target", "target", "measured", "verdict", "note")]
        for row in self.rows:
            if row.verdict:
                cells.append((f"{row.section}: {row.name}", row.target, shown(row.value, row.unit), row.verdict, row.note))
        counts = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in (MET, MISSED, FAILED, UNVERIFIED)}
        return columns(cells) + "\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())

    def table(self):
        """Returns figures, listings and, last, the targets."""
        parts = ["All figures are from a dry run on a CPU, none from a GPU."] if self.dry else []
        parts.append(self.figures())
        parts += [f"-- {title}\n" + "\n".join(lines) for title, lines in self.listings.items()]
        parts.append(self.targets())
        return "\n\n".join(parts)


def columns(cells):
    widths = [max(len(line[i]) for line in cells) for i in range(4)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(line, widths)), line[4]]).rstrip() for line in cells)


def shown(value, unit):
    """Formats a figure: bytes as GB of 10^9, as in the guides; FLOP/s as TFLOP/s."""
    if value is None:
        return "-"
    if isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
        return str(value)
    if unit == "bytes":
        return f"{value / 1e9:.2f} GB" if abs(value) >= 1e8 else f"{value / 1e6:.1f} MB"
    if unit == "bytes/s":
        return f"{value / 1e9:.0f} GB/s" if value >= 1e10 else f"{value / 1e9:.2f} GB/s"
    if unit == "FLOP/s":
        return f"{value / 1e12:.1f} TFLOP/s" if value >= 1e11 else f"{value / 1e9:.1f} GFLOP/s"
    if unit == "ratio":
        return f"{100 * value:.1f} %"
    text = f"{value:.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".strip()
