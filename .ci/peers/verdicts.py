"""P-values, intervals and P(improvement) of `swarm compare` beside SciPy's, statsmodels' and rliable's, on the studies'
exports: of all pairs, and of the comparisons that a study planned. Intervals over seeds and questions are beside
NumPy's, which draws other resamples."""

import glob
import gzip
import os
import sqlite3
import sys

import numpy
from rliable import metrics as rliable
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

from peers import common

TOLERANCE = 1e-9
WIDTH = 0.06  # largest difference of a bootstrap interval's ends, relative to its width
RESAMPLES = 10_000


def values(path, explored):
    """Held-out pass@1 after the last round, without the explored seeds: {experiment: [value of each seed]}. The same by
    question: {experiment: a row for each seed}. The questions' tasks."""
    db = sqlite3.connect(":memory:")
    with gzip.open(path) as file:
        db.deserialize(file.read())
    out, questions, tasks = {}, {}, []
    for run, experiment, seed in db.execute("SELECT run, experiment, seed FROM runs WHERE state = 'done' ORDER BY experiment, seed"):
        if seed in explored:
            continue
        last = "SELECT SUM(correct * 1.0) / SUM(questions * generations) FROM evals WHERE run = ? AND round = (SELECT MAX(round) FROM evals WHERE run = ?)"
        rows = db.execute(last, (run, run))
        out.setdefault(experiment, []).append(rows.fetchone()[0])
        each = """SELECT task, AVG(q.correct * 1.0 / generations) FROM evals JOIN eval_questions AS q USING (run, round, node)
            WHERE run = ? AND round = (SELECT MAX(round) FROM evals WHERE run = ?) GROUP BY question ORDER BY question"""
        rows = db.execute(each, (run, run)).fetchall()
        questions.setdefault(experiment, []).append([x for _, x in rows])
        tasks = [task for task, _ in rows]
    return out, {experiment: numpy.array(x) for experiment, x in questions.items()}, tasks


def drawn(tasks, random):
    """Returns the weights of the questions in each resample, and a probability for the error of its seeds."""
    weights = numpy.zeros((RESAMPLES, len(tasks)))
    for task in sorted(set(tasks)):
        columns = numpy.flatnonzero(numpy.array(tasks) == task)
        n = len(columns)
        weights[:, columns] = random.multinomial(max(1, n - 1), numpy.full(n, 1 / n), size=RESAMPLES) * n / max(1, n - 1) / len(tasks)
    return weights, random.random(RESAMPLES)


def over_questions(a, b, tasks):
    """The interval of mean(a) - mean(b) over seeds (rows) and questions (columns), as docs/METRICS.md defines it."""
    random = numpy.random.default_rng(1)
    weights, probabilities = drawn(tasks, random)
    seeds = stats.ttest_ind(a.mean(axis=1), b.mean(axis=1), equal_var=False)
    error = (a.mean() - b.mean()) / seeds.statistic * stats.t.ppf(probabilities, seeds.df)
    return numpy.quantile(weights @ (a.mean(axis=0) - b.mean(axis=0)) + error, (0.025, 0.975))


def ratios(a, b, p_value, within=1e-12):
    """The least and the largest a / b - 1 whose p_value is 0.05. p_value gets a ratio and is largest in between."""
    middle = numpy.mean(a) / numpy.mean(b)
    ends = []
    for direction in (-1, 1):
        step = direction * abs(middle)
        while p_value(middle + step) > 0.05:
            step *= 2
        ends.append(optimize.brentq(lambda r: p_value(r) - 0.05, middle, middle + step, xtol=within) - 1)
    return ends


def near(improvement):
    """The logarithm above 0: the upper end of a wide interval of a ratio is far out, where single draws decide."""
    return numpy.log1p(improvement) if improvement > 0 else improvement


def over_questions_ratio(a, b, tasks):
    """The interval of mean(a) / mean(b) - 1 over seeds and questions: that of mean(a) - r mean(b) contains 0."""
    weights, probabilities = drawn(tasks, numpy.random.default_rng(2))
    means_a, means_b, seeds_a, seeds_b = weights @ a.mean(axis=0), weights @ b.mean(axis=0), a.mean(axis=1), b.mean(axis=1)

    def p_value(r):
        va, vb = seeds_a.var(ddof=1) / len(seeds_a), r * r * seeds_b.var(ddof=1) / len(seeds_b)
        freedom = (va + vb) ** 2 / (va**2 / (len(seeds_a) - 1) + vb**2 / (len(seeds_b) - 1))
        below = numpy.mean(means_a - r * means_b + numpy.sqrt(va + vb) * stats.t.ppf(probabilities, freedom) < 0)
        return 2 * min(below, 1 - below)

    return ratios(seeds_a, seeds_b, p_value, within=1e-4)


def expected(a, b):
    """Returns the peers' results for two samples."""
    test = stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval(0.95)
    # The test uses the absolute difference. SciPy's own two-sided p-value doubles the smaller tail, which is a
    # different test if the samples differ in size. It is rounded, because SciPy counts equal differences as different
    # if their last bits are.
    exact = stats.permutation_test(
        (a, b), lambda x, y: round(abs(numpy.mean(x) - numpy.mean(y)), 12), alternative="greater", permutation_type="independent", n_resamples=numpy.inf
    )
    improvement = float(rliable.probability_of_improvement(numpy.array(a)[:, None], numpy.array(b)[:, None]))
    fieller = ratios(a, b, lambda r: stats.ttest_ind(a, r * numpy.array(b), equal_var=False).pvalue)
    theta, more, pairs = improvement, (len(a) + len(b)) / 2 - 1, len(a) * len(b)

    def newcombe(p):  # method 5: 0 at an end of the interval
        return abs(theta - p) - stats.norm.ppf(0.975) * numpy.sqrt(p * (1 - p) / pairs * (1 + more * ((1 - p) / (2 - p) + p / (1 + p))))

    inside = min(max(theta, 1e-9), 1 - 1e-9)
    low = optimize.brentq(newcombe, 0, inside, xtol=1e-14) if theta > 0 else 0
    high = optimize.brentq(newcombe, inside, 1, xtol=1e-14) if theta < 1 else 1
    return {"probability_ci_low": low, "probability_ci_high": high, "improvement_ci_low": fieller[0], "improvement_ci_high": fieller[1], "difference": numpy.mean(a) - numpy.mean(b), "p_value": test.pvalue, "ci_low": interval.low, "ci_high": interval.high,
            "permutation_p_value": exact.pvalue, "probability_of_improvement": improvement}  # fmt: skip


def holm(pairs, planned):
    """The corrected p-values of pairs: the larger of both tests decides. Planned comparisons beyond these count with p = 1."""
    deciding = [max(p["permutation_p_value"], p["p_value"]) for p in pairs]
    return multipletests(deciding + [1.0] * (planned - len(deciding)), method="holm")[1][: len(pairs)] if pairs else []


class Compared:
    """Counts figures and keeps what differs, in words."""

    def __init__(self):
        self.figures, self.differ = 0, []

    def figure(self, what, name, found, want, within):
        self.figures += 1
        if found is None or abs(found - want) > within:
            self.differ.append(f"{what}: {name} {found} against {want}")

    def pair(self, study, p, names, corrected, held_out):
        """Compares a pair, or a planned comparison, of the experiments with these names."""
        by_experiment, by_question, tasks = held_out
        a, b = names
        what = f"{study} {p['a']} against {p['b']}"
        for name, value in dict(expected(by_experiment[a], by_experiment[b]), p_value_holm=corrected).items():
            if name.startswith("probability_") and name not in p:  # planned comparisons have none
                continue
            # permutation_error is 0 if the test is exact.
            error = 5 * p.get("permutation_error", 0) if name == "permutation_p_value" else 0
            self.figure(what, name, p[name], value, TOLERANCE * max(1, abs(value)) + error)
        low, high = over_questions(by_question[a], by_question[b], tasks)
        for name, value in {"questions_ci_low": low, "questions_ci_high": high}.items():
            self.figure(what, name, p[name], value, WIDTH * (high - low))
        low, high = map(near, over_questions_ratio(by_question[a], by_question[b], tasks))
        for name, value in {"questions_improvement_ci_low": low, "questions_improvement_ci_high": high}.items():
            self.figure(what, name, None if p[name] is None else near(p[name]), value, WIDTH * (high - low))


def main():
    scratch = sys.argv[1]
    compared, planned = Compared(), 0
    for path in sorted(glob.glob(os.path.join(common.ROOT, "docs", "study", "*.db.gz"))):
        study = os.path.basename(path).split(".")[0]
        document = common.swarm_json("--home", os.path.join(scratch, study), "compare", "--study", study, "--database", path)
        explored = {seed for arm in document["study"]["explored"] or () for seed in arm["seeds"]}
        held_out, arms = values(path, explored), {arm["name"]: arm["experiment"] for arm in document["study"]["arms"]}
        contrasts = document["study"]["contrasts"]
        tested = [p for p in contrasts if p["permutation_p_value"] is not None]
        planned += len(tested)
        of_planned = {}  # by the two experiments: corrected for the planned comparisons alone
        for p, corrected in zip(tested, holm(tested, len(contrasts))):
            names = arms[p["a"]], arms[p["b"]]
            of_planned[frozenset(names)] = corrected
            compared.pair(study + ", planned", p, names, corrected, held_out)
        tested = [p for p in document["study"]["pairs"] if p["permutation_p_value"] is not None]
        for p, corrected in zip(tested, holm(tested, len(arms) * (len(arms) - 1) // 2)):
            names = p["a"], p["b"]
            compared.pair(study, p, names, of_planned.get(frozenset(names), corrected), held_out)
        for row in document["rows"]:
            if row["experiment"] not in held_out[0]:
                continue
            want = rliable.aggregate_iqm(numpy.array(held_out[0][row["experiment"]])[:, None])
            compared.figure(f"{study} {row['experiment']}", "iqm", row["iqm"], want, TOLERANCE)
    for line in compared.differ[:20]:
        print(line)
    note = "permutation p-values count arrangements as far apart; SciPy's default doubles one tail"
    if compared.differ:
        note = f"{len(compared.differ)} differences, the first: {compared.differ[0]}"
    measured = f"{compared.figures} figures of all pairs and of {planned} planned comparisons of the studies' exports, to {TOLERANCE:g} "
    measured += f"(bootstraps: {WIDTH:.0%} of their width)"
    common.answer(measured, "differs" if compared.differ or not planned else "equal", note)


if __name__ == "__main__":
    main()
