"""Sweeps from Python, and the parts shared with the command line: the runs and the files of a sweep."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tacit.scenarios.files.arguments import check_count, check_type, check_types
from tacit.scenarios.files.reading import Loaded, Source, read
from tacit.scenarios.files.result import data_frame
from tacit.scenarios.running.folder import Result, locked, new_folder, scenario_text, writing
from tacit.scenarios.running.runner import INTERRUPTED
from tacit.scenarios.running.workers import Jobs, check_jobs
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario, as_table
from tacit.scenarios.sweeping.folder import Asked, write_options
from tacit.scenarios.sweeping.runs import FIGURES, Plan, fields, perform, plan, write_table
from tacit.scenarios.sweeping.tables import Planned, fill, keep_table, plan_table, write_runs

__all__ = ["Sweep", "plan_all", "sweep", "write_tables"]


class Sweep(list[tuple[dict[str, Any], Result]]):
    """The values and the result of each run of a sweep, in the order of the runs."""

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row for each run: the swept keys, the seed, and the columns of
        ``sweep.csv``; and one for each further metric.

        Raises ImportError without pandas.
        """
        return data_frame(
            {
                **values,
                "seed": result.seed,
                **dict(zip(FIGURES, fields(result), strict=True)),
                **result.measured,
                "folder": result.folder,
            }
            for values, result in self
        )


def sweep(
    scenario: Source,
    over: Mapping[str, Iterable[Any]] | None = None,
    *,
    seeds: int | None = None,
    changes: Sequence[str] = (),
    jobs: Jobs = 1,
    out: str | Path | None = None,
    watch: Callable[[int, int, Result], None] | None = None,
) -> Sweep:
    """Run `scenario` with every combination of the values in `over`; return the values and the result of each run.

    The list has `frame()`: a pandas DataFrame with a row for each run.

    `scenario`: one made in Python or by `load`; or a name or path for `load`. `over` has lists of values by key, such
    as ``{"protocol.k": [3, 10]}``. Without it, a file that defines a table gives the runs of the table, whose values
    are the names of ``row`` and ``column``. Each combination is run with `seeds` seeds: the scenario's and the
    following ones; by default one, or the table's number. `changes` are as in `load`. With more than one of `jobs`,
    each run has a process of its own; a script then needs ``if __name__ == "__main__":``. With "ray" or "ray:HOST:PORT"
    runs are made on Ray. `out` is the folder to make, by default ``runs/NAME-sweep-NUMBER``; it holds the folders of
    the runs and ``sweep.csv``. `watch` is called after each run with the number of runs done, the total number, and the
    result.

    All runs are checked before any starts. Runs that fail are in the results. Raises ScenarioError, TypeError,
    FileExistsError if `out` exists, and KeyboardInterrupt after Ctrl-C; ``tacit sweep --resume FOLDER`` then resumes
    it.
    """
    check_type("scenario", scenario, (Scenario, str, Path), "a Scenario, or a name or path as str or Path")
    values = _values(over)
    check_types("changes", changes, str, 'a list of texts such as ["protocol.k=5"]')
    check_type("out", out, (str, Path, type(None)), "the folder to make, as str or Path, or None")
    check_jobs(jobs)
    if seeds is not None:
        check_count("seeds", seeds, 1)
    texts = [f"{key}={toml(listed)}" for key, listed in values.items()]
    asked = Asked(file=str(scenario), over=texts, seeds=seeds, changes=list(changes))
    first, plans, table = plan_all(scenario, asked)
    folder = new_folder(None if out is None else Path(out), first.name + "-sweep")
    with locked(folder):
        write_options(folder, _repeatable(scenario, asked, first, folder))
        results = _run(asked, plans, table, folder, jobs, watch)
    return Sweep((_named(one, values), results[place]) for place, one in enumerate(plans))


def plan_all(scenario: Source, asked: Asked) -> tuple[Loaded, Sequence[Plan], Planned | None]:
    """Return the scenario, all runs of the sweep, and the table that they fill in, None if there is no table.

    A `scenario` replaces the file that `asked` names. Raises ScenarioError.
    """
    first = read(scenario, asked.changes, seed=asked.seed)
    if first.layout is None or asked.over:
        return first, plan(scenario, asked.over, asked.seeds or 1, asked.changes, asked.seed), None
    table = plan_table(scenario, first, asked.seeds, asked.changes)
    return first, table.plans, table


def write_tables(
    asked: Asked, plans: Sequence[Plan], table: Planned | None, folder: Path, results: dict[int, Result]
) -> None:
    """Write the files of the sweep's `folder` besides its runs: ``sweep.csv``, and for a table ``table.json`` and
    ``table.md``."""
    if table is None:
        write_table(folder / "sweep.csv", plans, results)
    else:
        write_runs(folder / "sweep.csv", table, results)
        keep_table(folder, fill(table, results), asked.command)


def _values(over: Mapping[str, Iterable[Any]] | None) -> dict[str, list[Any]]:
    allowed = 'lists of values by key, such as {"protocol.k": [3, 10]}'
    check_type("over", over, (Mapping, type(None)), allowed)
    found = {}
    for key, values in (over or {}).items():
        check_type("a key of over", key, str, "a text such as protocol.k")
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise TypeError(f"over[{key!r}] is {values!r}, of type {type(values).__name__}; allowed: {allowed}")
        found[key] = [msgspec.to_builtins(value, enc_hook=_python_number) for value in values]
    return found


def _python_number(value: Any) -> Any:
    """Return a number of numpy as a number of Python."""
    try:
        return value.item()
    except AttributeError:
        raise TypeError(f"over has the value {value!r}, of type {type(value).__name__}; allowed: as in TOML") from None


def _repeatable(scenario: Source, asked: Asked, first: Loaded, folder: Path) -> Asked:
    """Return `asked`, in which a scenario made in Python is replaced by a file in the sweep's `folder`."""
    if not isinstance(scenario, Scenario):
        return asked
    file = folder / "swept.toml"
    named = msgspec.structs.replace(read(scenario, without_data=True).scenario, name=first.name)
    with writing(file):
        file.write_text(scenario_text(as_table(named)), encoding="utf-8")
    return msgspec.structs.replace(asked, file=str(file.absolute()))


def _run(
    asked: Asked,
    plans: Sequence[Plan],
    table: Planned | None,
    folder: Path,
    jobs: Jobs,
    watch: Callable[[int, int, Result], None] | None,
) -> dict[int, Result]:
    """Carry out the `plans` and return the results by their places."""
    results: dict[int, Result] = {}
    try:
        with closing(perform(plans, folder, jobs)) as runs:
            for place, result, code in runs:
                results[place] = result
                if code == INTERRUPTED:
                    raise KeyboardInterrupt
                if watch is not None:
                    watch(len(results), len(plans), result)
    finally:
        write_tables(asked, plans, table, folder, results)
    return results


def _named(one: Plan, values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the values of the swept keys in a run, as they were passed."""
    shown = {key: {_shown(value): value for value in listed} for key, listed in values.items()}
    return {key: shown[key][text] if key in shown else text for key, text in one.values}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else toml(value)
