"""Paired differences: runs with the same seed under two combinations of keys, compared pair by pair.

Two runs with one seed share their data, its partition and the first model, so their difference varies less than either.
The interval is Student's, for the mean of the differences; the p-values are of Student's paired t-test and of
Wilcoxon's signed-rank test (Wilcoxon, Biometrics Bulletin 1945), both two-sided.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.running.folder import FolderError, Result, read_result
from tacit.scenarios.seeing.compare import keys_of
from tacit.scenarios.sweeping.folder import expanded
from tacit.scenarios.sweeping.runs import Plan

__all__ = ["Difference", "Scores", "difference", "differences", "scores", "scores_of"]

_ASIDE = ("seed", "name", "title", "engine", "plugins")
"""Keys by which runs that are compared may differ."""


class Difference(Struct, frozen=True):
    """The `score` of `second`, such as the accuracy, minus that of `first`, over `pairs` of runs with the same seed.

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
    score: str = ACCURACY


class Scores(NamedTuple):
    """The score `name` of completed runs, by combination of keys in words and by seed."""

    name: str
    values: Mapping[str, Mapping[int, float]]


def scores(plans: Sequence[Plan], results: Mapping[int, Result]) -> Scores:
    """Return the scores of a sweep's completed runs. Raises FolderError if these have different ones."""
    found: dict[str, dict[int, float]] = {}
    for place, result in sorted(results.items()):
        if (value := _score(result)) is not None:
            named = ", ".join(f"{key} = {wanted}" for key, wanted in plans[place].values)
            found.setdefault(named, {})[result.seed] = value
    return Scores(_common(results.values()), found)


def _score(result: Result) -> float | None:
    """The score of a completed run; None for others."""
    return result.scored if result.outcome == "completed" else None


def _common(results: Iterable[Result]) -> str:
    """The name of the score of all `results`. Raises FolderError if they have different ones."""
    names = [*dict.fromkeys(result.score for result in results if _score(result) is not None)] or [ACCURACY]
    if len(names) > 1:
        raise FolderError(f"the runs have different scores: {', '.join(names)}; allowed: runs with the same one")
    return names[0]


def scores_of(folders: Iterable[Path]) -> Scores:
    """Return the scores of the completed runs in `folders`, by the keys in which the runs differ.

    A sweep's folder stands for its runs. Raises FolderError for a folder without a run that has ended, for two runs
    with the same keys and seed, for runs that differ in no key besides their seeds, and for different scores.
    """
    results = [read_result(folder) for folder in expanded(folders)]
    known = [keys_of(result.folder) for result in results]
    names = [name for name in dict.fromkeys(name for one in known for name in one) if name not in _ASIDE]
    differ = [name for name in names if any(one.get(name) != known[0].get(name) for one in known)]
    if not differ:
        raise FolderError(f"the {len(results)} runs differ in no key besides their seeds; allowed: runs that do")
    found: dict[str, dict[int, float]] = {}
    for result, one in zip(results, known, strict=True):
        named = ", ".join(f"{name} = {one.get(name, '-')}" for name in differ)
        if (value := _score(result)) is not None:
            if result.seed in found.setdefault(named, {}):
                raise FolderError(f"{result.folder}: another run has the same keys and the seed {result.seed}, too")
            found[named][result.seed] = value
    return Scores(_common(results), found)


def differences(runs: Scores) -> list[Difference]:
    """Return the difference of each combination to the first one, over the seeds that both have."""
    found = runs.values
    first, *others = found or [""]
    made = []
    for other in others:
        seeds = sorted(found[first].keys() & found[other].keys())
        if seeds:
            values = [found[other][seed] - found[first][seed] for seed in seeds]
            made.append(structs.replace(difference(first, other, values), score=runs.name))
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
