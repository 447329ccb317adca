"""The share of real runs that complete, compared with the prediction from the same number of runs with other seeds.

Both shares vary by chance. If the prediction is right, the real share lies in the Wilson interval (95 %) of the
predicted one in 83 % of cases, because the difference of two shares has a standard error that is larger by sqrt(2). It
lies in the `range`, all shares that differ from the predicted one by less than 1.96 of these errors, in 95 % of cases.

The real runs are also predicted with their own seeds: each must end as predicted.
"""

import dataclasses
import math
from contextlib import closing
from pathlib import Path

from msgspec import Struct, json, structs
from scipy import stats

from tacit.benchmarks.survival.cases import CASES, case
from tacit.scenarios.console import kinds, printing
from tacit.scenarios.console.bars import shown
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.workers import in_workers
from tacit.scenarios.schema.scenario import Scenario
from tacit.scenarios.sweeping.survival import survival_of, wilson
from tacit.sim.compute import cores

__all__ = ["Compared", "apart", "compared", "main", "read_compared", "really", "share_range", "summary"]

_CHUNK = 50
_Z = 1.959963984540054


class Compared(Struct, frozen=True):
    """The shares of completed runs of one case: `predicted` with its interval, and `real`.

    `apart`: their difference in standard errors. `otherwise`: the real runs that end differently from the prediction
    with the same seed.
    """

    case: str
    runs: int
    predicted: float
    interval: tuple[float, float]
    range: tuple[float, float]
    real: float
    apart: float
    otherwise: int

    @property
    def in_interval(self) -> bool:
        """True if the real share lies in the Wilson interval of the prediction."""
        return self.interval[0] <= self.real <= self.interval[1]

    @property
    def in_range(self) -> bool:
        """True if the real share lies in the range of shares of other runs."""
        return self.range[0] <= self.real <= self.range[1]

    @property
    def verdict(self) -> str:
        """The place of the real share, in words: in the interval, in the range, or outside."""
        return "in the interval" if self.in_interval else "in the range" if self.in_range else "outside"


def read_compared(path: Path) -> list[Compared]:
    """Return the content of a JSON file written by `main`. Raises OSError and msgspec.DecodeError."""
    return json.decode(path.read_bytes(), type=list[Compared])


def really(scenario: Scenario, seeds: range) -> list[str]:
    """The outcomes of real runs with these seeds."""
    found = []
    for seed in seeds:
        with closing(Simulation(structs.replace(scenario, seed=seed), engine="inline")) as simulation:
            found.append(simulation.run().outcome)
    return found


def apart(first: int, second: int, runs: int) -> float:
    """The number of standard errors by which two shares of `runs` runs differ, with the pooled error of both."""
    share = (first + second) / (2 * runs)
    error = math.sqrt(2 * runs * share * (1 - share))
    return abs(first - second) / error if error else 0.0


def share_range(completed: int, runs: int) -> tuple[float, float]:
    """The lowest and the highest share of `runs` other runs that differs by less than 1.96 standard errors."""
    within = [other for other in range(runs + 1) if apart(completed, other, runs) < _Z]
    return within[0] / runs, within[-1] / runs


def compared(title: str, runs: int, jobs: int = 1) -> Compared:
    """Predict `runs` runs of the case with this title, and make `runs` real runs with the following seeds."""
    loaded = read(case(title))
    predicted = survival_of(loaded, runs, jobs=jobs)
    first = loaded.scenario.seed + runs
    seeds = range(first, first + runs)
    calls = [(loaded.scenario, seeds[place : place + _CHUNK]) for place in range(0, runs, _CHUNK)]
    here = ((place, really(*call)) for place, call in enumerate(calls))
    made = here if jobs == 1 else in_workers(jobs, really, calls)
    outcomes = [outcome for _, some in sorted(made) for outcome in some]
    alike = dataclasses.replace(loaded, scenario=structs.replace(loaded.scenario, seed=first))
    foreseen = [fate.outcome for fate in survival_of(alike, runs, jobs=jobs).fates]
    real = outcomes.count("completed")
    otherwise = sum(one != other for one, other in zip(outcomes, foreseen, strict=True))
    return Compared(
        title, runs, predicted.completed / runs, wilson(predicted.completed, runs),
        share_range(predicted.completed, runs), real / runs, apart(real, predicted.completed, runs), otherwise,
    )  # fmt: skip


def summary(found: list[Compared]) -> list[tuple[str, str]]:
    """Return the results for all cases together, as subjects and sentences."""
    count, runs = len(found), sum(one.runs for one in found)
    inside, within = sum(one.in_interval for one in found), sum(one.in_range for one in found)
    squares = math.fsum(one.apart**2 for one in found)
    by_chance = count * (2 * stats.norm.cdf(_Z / math.sqrt(2)) - 1)
    return [
        (
            "interval",
            f"{inside} of {count} real shares lie in the 95 % interval of the prediction; by chance {by_chance:.1f} "
            "are expected, as both shares vary",
        ),
        (
            "range",
            f"{within} of {count} lie in the 95 % range of shares of other runs; {0.95 * count:.1f} are expected",
        ),
        (
            "together",
            f"the squares of the standard errors apart add up to {squares:.1f}; a larger sum has the probability "
            f"{stats.chi2.sf(squares, count):.2g} if all predictions are right",
        ),
        (
            "seeds",
            f"{sum(one.otherwise for one in found)} of {runs:,} real runs end otherwise than the prediction with the "
            "same seed; a prediction with the seeds of the real runs has their share in "
            f"{sum(not one.otherwise for one in found)} of {count} cases",
        ),
    ]


def main(runs: int, json_file: Path | None, only: str = "") -> int:
    """Compare every case, or only the case `only`, print a table, and write the cases to `json_file` after each.

    With `only`, other cases in the file remain in it and in the table. Returns 1 if shares differ by more than 3
    standard errors, or if a run ends differently from the prediction with its seed.
    """
    found = {one.case: one for one in read_compared(json_file)} if only and json_file and json_file.exists() else {}
    console, titles = printing.make_console(), [only] if only else list(CASES)
    with shown(printing.make_console(stderr=True), "survival") as tell:
        for place, title in enumerate(titles):
            tell(f"cases (now {title})", place, len(titles))
            found[title] = compared(title, runs, cores() if runs > _CHUNK else 1)
            found = {one: found[one] for one in CASES if one in found}
            if json_file is not None:
                json_file.write_bytes(json.format(json.encode(list(found.values()))) + b"\n")
    between = kinds.Kind(lambda ends: "{:.3f} to {:.3f}".format(*ends))
    columns = (
        "case",
        Column("predicted", kinds.decimals(3)),
        Column("95 % interval", between, "interval"),
        Column("95 % range", between, "range"),
        Column("real", kinds.decimals(3)),
        Column("errors apart", kinds.decimals(2), "apart"),
        Column("verdict", kinds.FIGURE),
        Column("other ends", kinds.COUNT, "otherwise"),
    )
    every = list(found.values())
    sizes = " and ".join(f"{count:,}" for count in sorted({one.runs for one in every}))
    title = f"{sizes} predicted runs, and as many real ones"
    printing.print_table(console, Table.of(every, columns, title))
    printing.print_lines(console, (f"{name:10}{text}" for name, text in summary(every)))
    return int(any(one.apart > 3 or one.otherwise for one in every))
