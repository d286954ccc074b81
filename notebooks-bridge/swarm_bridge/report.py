"""A trainer's report of a round: event.Round's fields, by their JSON names."""

import math
import operator

# Optional numbers that are recorded as NULL if missing, because 0 would be a measurement.
MEASURED = (
    "reward", "reward_std", "training_reward", "frac_reward_zero_std", "format_rate", "completions_mean_length", "completions_clipped_ratio",
    "loss", "kl", "grad_norm", "entropy", "clip_ratio_low", "clip_ratio_high",
)
COUNTS = ("completions", "steps", "trained_own", "trained_external", "split_own", "split_external")
SECONDS = ("step_time", "generate_time", "update_time", "score_time", "lease_time", "barrier_time", "journal_time")
ROUNDS = ("staleness",)  # in rounds
# If missing, these are NULL without a reason.
OPTIONAL = (
    "completions_mean_terminated_length", "sampling_logp_difference_max", "sampling_logp_difference_mean",
    "external_clip_ratio", "external_dropped", "external_ess",
)
FLAGS = ("late", "generate_only")
LISTS = ("tasks", "peers")


def round_report(number, reward, fields):
    """Returns the round event's content. A non-finite number, and a missing one of MEASURED, is passed by name,
    because JSON has no such values.

    Raises ValueError for an unknown field, and TypeError or ValueError for a value of the wrong kind.
    """
    known = MEASURED + COUNTS + SECONDS + ROUNDS + OPTIONAL + LISTS + FLAGS
    for name in fields:
        if name not in known:
            raise ValueError("unknown metric {!r} of a round: allowed: {}".format(name, ", ".join(known)))
    number = _count(number)
    report, odd = {"round": number}, {}
    for name, value in dict(dict.fromkeys(MEASURED), **dict(fields, reward=reward)).items():
        if name in LISTS:
            report[name] = list(value)
        elif name in FLAGS:
            report[name] = bool(value)
        elif name in COUNTS:
            report[name] = int(value)
        else:
            value = math.nan if value is None else float(value)
            if not math.isfinite(value):
                odd[name] = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
                value = 0.0
            report[name] = value
    if odd:
        report["non_finite"] = odd
    return report


def _count(number):
    try:
        count = -1 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        count = -1
    if count < 0:
        raise ValueError("bad round {!r}: allowed: a whole number from 0".format(number))
    return count
