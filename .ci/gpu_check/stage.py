"""A stand-in for a Check on a card, for tests of sections."""

import flops
import report
from context import Work


class Stage:
    """The part of a Check that the verdicts read."""

    def __init__(self, nodes=8):
        self.report, self.dry, self.nodes, self.gemm, self.pace, self.best = report.Report(), False, nodes, {}, {}, {}
        self.work, self.shape = Work(), flops.GPT2

    def wants(self, _):
        return True

    def verdicts(self):
        return {row.name: row.verdict for row in self.report.rows if row.verdict}
