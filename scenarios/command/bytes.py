"""The command `tacit bytes`: bytes of runs by step and message type, and of sweeps for each combination of values."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tacit.scenarios.console import kinds, printing
from tacit.scenarios.console.table import Column, Table, as_csv, as_records, columns_of
from tacit.scenarios.files.composing import label
from tacit.scenarios.reporting import printed
from tacit.scenarios.reporting.counted import SHOWN, Counted, counted, why_without_formula
from tacit.scenarios.reporting.recorded import scenario_of
from tacit.scenarios.running.folder import FolderError, client_bytes, message_bytes, remarks_on
from tacit.scenarios.sweeping.folder import NAME as SWEEP
from tacit.scenarios.sweeping.folder import runs_of

__all__ = ["show_bytes"]


def show_bytes(
    console: Console, folders: Sequence[Path], csv_file: Path | None, json_file: Path | None, *, check: bool = False,
    by_client: bool = False,
) -> int:  # fmt: skip
    """Print a table for each of the folders of runs and sweeps, and write all counts to the given files.

    `by_client`: the table of a run has a row for each client; files have the counts by step and type in any case, and
    the JSON file also those by client. For the file ``-`` it writes to standard output and prints no table. Returns the
    exit code: 1 with `check` if a formula is wrong. Raises FolderError.
    """
    if str(csv_file) == str(json_file) == "-":
        raise FolderError("--csv - and --json - both go to standard output; allowed: one of them")
    quiet, found = "-" in (str(csv_file), str(json_file)), []
    for folder in folders:
        swept = (folder / SWEEP).is_file()
        runs = [counted(path, values) for path, values in (runs_of(folder) if swept else [(folder, ())])]
        found += runs
        if not quiet and swept:
            _print_sweep(console, folder, runs)
        elif not quiet and by_client:
            _print_clients(console, folder)
        elif not quiet:
            _print_run(console, runs[0])
    for path, write in ((csv_file, _csv), (json_file, _json)):
        if path is not None:
            printing.write_text(console, path, write(found))
    return int(check and any(run.errors for run in found))


def _print_run(console: Console, run: Counted) -> None:
    remarks, sizes = remarks_on(run.folder), message_bytes(run.folder)
    printing.print_lines(console, [f"{run.folder} ({', '.join(remarks)})" if remarks else str(run.folder)])
    formula, model = run.formula or None, sizes.get("fedavg", 0)
    made = printed.byte_table(run.rows, exact=True, formula=formula, model=model, protocol=run.protocol)
    printing.print_table(console, made)
    printing.print_lines(console, printed.message_lines(sizes))
    printing.print_lines(console, printed.formula_lines(run.errors))
    if not run.formula:
        printing.print_lines(console, [f"formula   none: {why_without_formula(run.folder)}"])


def _print_clients(console: Console, folder: Path) -> None:
    """Print a line for each client of a run."""
    printing.print_table(console, printed.client_table(client_bytes(folder), exact=True))


def _print_sweep(console: Console, folder: Path, runs: Sequence[Counted]) -> None:
    """Print one line for each combination of values: means over its completed runs."""
    sized = " (sized)" if any(run.fidelity == "sized" for run in runs) else ""
    printing.print_lines(console, [f"{folder}{sized}: means over the completed runs"])
    groups: dict[tuple[tuple[str, str], ...], list[Counted]] = {}
    for run in runs:
        groups.setdefault(run.values, []).append(run)
    scenarios = list(filter(None, (scenario_of(run.folder) for run in runs)))
    shown = SHOWN if any(row.headers for run in runs for row in run.rows) else SHOWN[:-1]
    swept = [label(key, scenarios) for key, _ in runs[0].values] if runs else []
    columns = [*swept, *columns_of(("runs", *shown), _MEAN), Column("not completed", kinds.COUNT)]
    table = Table(columns)
    for values, members in groups.items():
        completed = [run.sums() for run in members if run.outcome == "completed"]
        means = [_mean([sums[name] for sums in completed]) for name in shown]
        left = len(members) - len(completed)
        table.rows.append([*(value for _, value in values), len(members), *means, left])
    printing.print_table(console, table)
    for run in runs:
        named = "".join(f"{key} {value}, " for key, value in run.values)
        printing.print_lines(console, (f"{line} ({named}{run.folder})" for line in printed.formula_lines(run.errors)))


_MEAN = kinds.Kind(lambda mean: f"{mean:,.{int(mean != int(mean))}f}")
"""Means, with one decimal if they are not whole."""


def _mean(values: Sequence[int | None]) -> float | None:
    """The mean; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def _csv(runs: Sequence[Counted]) -> str:
    """Format CSV with a line for each step and type of each run."""
    swept = list(dict.fromkeys(key for run in runs for key, _ in run.values))
    about = [name for name in ("scenario", "protocol", "seed", "outcome", "fidelity") if name not in swept]
    table = Table((*swept, *about, "step", "type", *SHOWN, "folder"))
    for run in runs:
        values = dict(run.values)
        first = [*(values.get(key, "") for key in swept), *(getattr(run, name) for name in about)]
        table.rows += [(*first, *line.values(), run.folder) for line in run.lines()]
    return as_csv(table)


def _json(runs: Sequence[Counted]) -> str:
    """Format JSON with the values, counts and sums of each run, and its counts by client."""
    records = [
        {
            **run.about(), "values": dict(run.values), **run.sums(), "rows": run.lines(),
            "clients": {one.pop("client"): one for one in as_records(printed.client_table(client_bytes(run.folder)))},
        }
        for run in runs
    ]  # fmt: skip
    return json.dumps({"runs": records}, indent=2) + "\n"
