"""The shares of completing runs over many disjoint ranges of seeds, compared with independent draws.

If the seeds of runs give independent draws, the number of runs that complete in each range is binomial, with the same
probability in all ranges. Pearson's chi-square statistic of these numbers then has one degree of freedom less than
there are ranges. Larger values mean that seeds give dependent draws; much smaller ones, too.
"""

import dataclasses
import math
from pathlib import Path

from msgspec import Struct, json, structs
from scipy import stats

from tacit.benchmarks.survival.cases import CASES, case
from tacit.scenarios.console import kinds, printing
from tacit.scenarios.console.bars import shown
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import read
from tacit.scenarios.sweeping.survival import survival_of
from tacit.sim.compute import cores

__all__ = ["Spread", "main", "read_spreads", "spread", "summary"]

_BEYOND = 50_000
"""The distance of the first seed from the case's own, so that no seed of the comparison with real runs is used
again."""

_FEW = 50
"""The most runs that are made in one process."""


class Spread(Struct, frozen=True):
    """The numbers of completed runs in several ranges of `runs` seeds, for one case."""

    case: str
    runs: int
    completed: tuple[int, ...]

    @property
    def share(self) -> float:
        """The share of all runs that complete."""
        return sum(self.completed) / (self.runs * len(self.completed))

    @property
    def freedom(self) -> int:
        """The degrees of freedom of `square`; 0 if all runs end the same way."""
        return len(self.completed) - 1 if 0 < self.share < 1 else 0

    @property
    def square(self) -> float:
        """Pearson's chi-square statistic of the numbers, against the same probability in each range."""
        variance = self.runs * self.share * (1 - self.share)
        return math.fsum((one - self.runs * self.share) ** 2 for one in self.completed) / variance if variance else 0.0

    @property
    def probability(self) -> float:
        """The probability of a statistic that is at least as large if draws are independent."""
        return float(stats.chi2.sf(self.square, self.freedom)) if self.freedom else 1.0


def read_spreads(path: Path) -> list[Spread]:
    """Return the content of a JSON file written by `main`. Raises OSError and msgspec.DecodeError."""
    return json.decode(path.read_bytes(), type=list[Spread])


def spread(title: str, ranges: int, runs: int, jobs: int = 1) -> Spread:
    """Predict `ranges` ranges of `runs` consecutive seeds each, for the case with this title."""
    loaded = read(case(title))
    moved = structs.replace(loaded.scenario, seed=loaded.scenario.seed + _BEYOND)
    fates = survival_of(dataclasses.replace(loaded, scenario=moved), ranges * runs, jobs=jobs).fates
    firsts = range(0, ranges * runs, runs)
    return Spread(title, runs, tuple(sum(one.completed for one in fates[first : first + runs]) for first in firsts))


def summary(found: list[Spread]) -> str:
    """Return a sentence on all cases together."""
    square, freedom = math.fsum(one.square for one in found), sum(one.freedom for one in found)
    return (
        f"The statistics add up to {square:.1f} with {freedom} degrees of freedom. If draws are independent, a larger "
        f"sum has the probability {stats.chi2.sf(square, freedom):.2g}."
    )


def main(ranges: int, runs: int, json_file: Path | None, only: str = "") -> int:
    """Predict the ranges of every case, or only of the case `only`, print a table, and write the numbers to
    `json_file`.

    With `only`, other cases in the file remain in it and in the table. Returns 1 if all cases together vary more, or
    less, than independent draws do with a probability of 0.001.
    """
    found = {one.case: one for one in read_spreads(json_file)} if only and json_file and json_file.exists() else {}
    console, titles = printing.make_console(), [only] if only else list(CASES)
    with shown(printing.make_console(stderr=True), "survival") as tell:
        for place, title in enumerate(titles):
            tell(f"ranges (now {title})", place, len(titles))
            found[title] = spread(title, ranges, runs, cores() if ranges * runs > _FEW else 1)
            found = {one: found[one] for one in CASES if one in found}
            if json_file is not None:
                json_file.write_bytes(json.format(json.encode(list(found.values()))) + b"\n")
    every = list(found.values())
    third = kinds.decimals(3)
    columns = (
        "case",
        Column("ranges", kinds.FIGURE, of=lambda one: f"{len(one.completed)} of {one.runs:,} runs"),
        Column("completes", third, "share"),
        Column("lowest", third, of=lambda one: min(one.completed) / one.runs),
        Column("highest", third, of=lambda one: max(one.completed) / one.runs),
        Column("chi-square", kinds.decimals(1), "square"),
        Column("probability", kinds.significant(2)),
    )
    printing.print_table(console, Table.of(every, columns, "Predicted runs by ranges of seeds"))
    printing.print_lines(console, [summary(every)])
    square, freedom = math.fsum(one.square for one in every), sum(one.freedom for one in every)
    return int(freedom > 0 and not 0.0005 < stats.chi2.sf(square, freedom) < 0.9995)
