"""Paired differences: runs with the same seed under two combinations of keys, compared pair by pair.

Two runs with one seed share their data, its partition and the first model, so their difference varies less than either.
The interval is Student's, for the mean of the differences; the p-values are of Student's paired t-test and of
Wilcoxon's signed-rank test (Wilcoxon, Biometrics Bulletin 1945), both two-sided.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tacit.scenarios.running.folder import Result
from tacit.scenarios.sweeping.runs import Plan

__all__ = ["Difference", "accuracies", "difference", "differences"]


class Difference(Struct, frozen=True):
    """The accuracy of `second` minus that of `first`, over `pairs` of runs with the same seed.

    `low` and `high` are the ends of the 95% interval of the mean, `t` and `wilcoxon` the p-values. They are None for
    fewer than two pairs, and the p-values also where no pair differs.
    """

    first: str
    second: str
    pairs: int
    mean: float
    low: float | None = None
    high: float | None = None
    t: float | None = None
    wilcoxon: float | None = None


Accuracies = Mapping[str, Mapping[int, float]]
"""The accuracy of completed runs, by combination of keys in words and by seed."""


def accuracies(plans: Sequence[Plan], results: Mapping[int, Result]) -> Accuracies:
    """Return the accuracies of a sweep's completed runs."""
    found: dict[str, dict[int, float]] = {}
    for place, result in sorted(results.items()):
        if result.outcome == "completed" and result.accuracy is not None:
            named = ", ".join(f"{key} = {value}" for key, value in plans[place].values)
            found.setdefault(named, {})[result.seed] = result.accuracy
    return found


def differences(found: Accuracies) -> list[Difference]:
    """Return the difference of each combination to the first one, over the seeds that both have."""
    first, *others = found or [""]
    made = []
    for other in others:
        seeds = sorted(found[first].keys() & found[other].keys())
        if seeds:
            values = [found[other][seed] - found[first][seed] for seed in seeds]
            made.append(difference(first, other, values))
    return made


def difference(first: str, second: str, values: Sequence[float]) -> Difference:
    """Return the statistics of `values`, the differences of the pairs, of which there is at least one."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return Difference(first, second, count, mean)
    from scipy import stats  # takes a second to import

    error = statistics.stdev(values) / math.sqrt(count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    if not any(values):
        return Difference(first, second, count, mean, mean - reach, mean + reach)
    chance = 0.0 if error == 0 else float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return Difference(
        first, second, count, mean, mean - reach, mean + reach, chance, float(stats.wilcoxon(values).pvalue)
    )
