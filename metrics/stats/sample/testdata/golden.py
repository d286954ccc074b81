#!/usr/bin/python3
"""Writes golden.json: SciPy's results for the samples of the tests of metrics/stats/sample. Run manually: /usr/bin/python3 golden.py"""
import json
import math
import pathlib

import numpy as np
import scipy
from scipy import stats

# Welch's examples from Wikipedia ("Welch's t-test", examples 1 and 2), Fisher's "Student's sleep data", and rewards
# in the style of swarms.
SAMPLES = {
    "wikipedia 1": (
        [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4],
        [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4],
    ),
    "wikipedia 2": (
        [17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8],
        [21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5, 22.5, 23.5, 21.5, 21.8],
    ),
    "sleep": ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]),
    "three seeds": ([0.0683, 0.0654, 0.0701], [0.0351, 0.0362, 0.0338]),
    "three against five": ([0.31, 0.28, 0.35], [0.29, 0.27, 0.33, 0.30, 0.26]),
    "ties": ([0.25, 0.5, 0.5, 0.75], [0.25, 0.25, 0.5]),
    "two seeds": ([0.41, 0.47], [0.36, 0.40]),
    "one side constant": ([0.3, 0.3, 0.3], [0.2, 0.25, 0.24]),
}


def interval(a, b):
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = stats.t.ppf(0.975, freedom) * math.sqrt(va + vb)
    difference = np.mean(a) - np.mean(b)
    return freedom, difference - half, difference + half


def case(a, b):
    freedom, low, high = interval(a, b)
    out = {
        "a": a, "b": b, "difference": np.mean(a) - np.mean(b), "freedom": freedom, "low": low, "high": high,
        "p": stats.ttest_ind(a, b, equal_var=False).pvalue,
        "probability": stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)),
        "mean_low": np.mean(a) - stats.t.ppf(0.975, len(a) - 1) * stats.sem(a),
        "mean_high": np.mean(a) + stats.t.ppf(0.975, len(a) - 1) * stats.sem(a),
    }
    exact = math.comb(len(a) + len(b), len(a)) <= 20_000
    test = stats.permutation_test(
        (a, b), lambda x, y: abs(np.mean(x) - np.mean(y)), alternative="greater", vectorized=False,
        n_resamples=np.inf if exact else 50_000, random_state=7,
    )
    out["permutation"], out["exact"] = test.pvalue, exact
    out["iqm"] = stats.trim_mean(a, 0.25)
    out["iqm_low"], out["iqm_high"] = bootstrapped((a,), lambda x: stats.trim_mean(x, 0.25))
    return out


def bootstrapped(samples, statistic):
    """The percentile interval, each sample resampled by itself."""
    interval = stats.bootstrap(samples, statistic, vectorized=False, method="percentile", n_resamples=20_000, random_state=7).confidence_interval
    return interval.low, interval.high


def power(noncentrality, freedom, level):
    critical = stats.t.ppf(1 - level / 2, freedom)
    return stats.nct.sf(critical, freedom, noncentrality) + stats.nct.cdf(-critical, freedom, noncentrality)


def pooled_power(difference, n):
    """Power of a test of two groups of n values, both with standard deviation 1."""
    return power(difference * math.sqrt(n / 2), 2 * n - 2, 0.05)


golden = {
    "scipy": scipy.__version__,
    "differences": {name: case(a, b) for name, (a, b) in SAMPLES.items()},
    "powers": [
        {"noncentrality": d, "freedom": f, "level": level, "power": power(d, f, level)}
        for d in (0.5, 1.5, 2.8, 4.0) for f in (1.5, 2, 4, 10, 63.7) for level in (0.05, 0.05 / 3)
    ],
    # Fewest values per side for a power of 0.8, for two groups with standard deviation 1. Cohen (1988), table 2.4.1,
    # has 26 for d = 0.8 and 64 for d = 0.5.
    "seeds": [{"difference": d, "n": next(n for n in range(2, 2000) if pooled_power(d, n) >= 0.8)} for d in (0.5, 0.8, 1.5, 3.0)],
}
path = pathlib.Path(__file__).with_name("golden.json")
path.write_text(json.dumps(golden, indent=1, default=float) + "\n")
