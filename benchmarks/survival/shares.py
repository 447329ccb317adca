"""The share of real runs that complete, beside the prediction from as many runs with other seeds."""

import json
import math
from contextlib import closing
from pathlib import Path

from msgspec import structs

from tacit.benchmarks.survival.cases import CASES, case
from tacit.scenarios.console import printing
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.workers import in_workers
from tacit.scenarios.schema.scenario import Scenario
from tacit.scenarios.sweeping.survival import survival_of
from tacit.sim.cores import cores

__all__ = ["compared", "main", "really"]

_CHUNK = 50


def really(scenario: Scenario, seeds: range) -> list[str]:
    """The outcomes of real runs with these seeds."""
    found = []
    for seed in seeds:
        with closing(Simulation(structs.replace(scenario, seed=seed), engine="inline")) as simulation:
            found.append(simulation.run().outcome)
    return found


def compared(title: str, runs: int, jobs: int = 1) -> dict[str, float | str | bool]:
    """The prediction from `runs` runs of the case with this title, and `runs` real runs with the seeds after those.

    `apart`: how many standard errors the two shares differ by.
    """
    loaded = read(case(title))
    predicted = survival_of(loaded, runs, jobs=jobs)
    first = loaded.scenario.seed + runs
    seeds = range(first, first + runs)
    calls = [(loaded.scenario, seeds[place : place + _CHUNK]) for place in range(0, runs, _CHUNK)]
    outcomes = (
        [really(*call) for call in calls] if jobs == 1 else [found for _, found in in_workers(jobs, really, calls)]
    )
    share = sum(outcome == "completed" for some in outcomes for outcome in some) / runs
    low, high = predicted.interval
    middle = (share + predicted.probability) / 2
    error = math.sqrt(2 * middle * (1 - middle) / runs)
    apart = abs(share - predicted.probability) / error if error else 0.0
    return {
        "case": title, "runs": runs, "predicted": predicted.probability, "low": low, "high": high, "real": share,
        "inside": low <= share <= high, "apart": apart,
    }  # fmt: skip


def main(runs: int, json_file: Path | None) -> int:
    """Compare every case, print a table, and write it to `json_file`. Returns 1 if shares differ by over 3 errors."""
    found = [compared(title, runs, cores() if runs > _CHUNK else 1) for title in CASES]
    rows = [
        [
            str(one["case"]), f"{one['predicted']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}", f"{one['real']:.3f}",
            "yes" if one["inside"] else "no", f"{one['apart']:.2f}",
        ]
        for one in found
    ]  # fmt: skip
    columns = ("predicted", "95 % interval", "real", "inside", "standard errors apart")
    console = printing.make_console()
    console.print(printing.table(("case", *columns), rows, columns, title=f"{runs} predicted and {runs} real runs"))
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return int(any(float(one["apart"]) > 3 for one in found))
