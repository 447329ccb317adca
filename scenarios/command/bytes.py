"""The command `tacit bytes`: bytes of runs by step and message type, and of sweeps for each combination of values."""

import csv
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console

from scenarios.console import printing
from scenarios.files.list_fields import label
from scenarios.reporting import printed
from scenarios.reporting.recorded import scenario_of
from scenarios.running.folder import ByteRow, FolderError, byte_rows, message_bytes, read_result, remarks_on
from scenarios.running.prediction import predicted
from scenarios.sweeping.folder import NAME as SWEEP
from scenarios.sweeping.folder import runs_of

__all__ = ["show_bytes"]

_COUNTS = ("messages", "payload", "sealing", "envelope", "total", "headers")
_SHOWN = ("messages", "payload", "formula", "sealing", "envelope", "total", "headers")


class Counted(Struct, frozen=True):
    """The messages and bytes of one run.

    `values` are those of the swept keys, in a run of a sweep. `formula` is the payload of each type by formula, empty
    where none applies, as in a run that lost a party, and without types whose number depends on the run.
    """

    folder: Path
    values: tuple[tuple[str, str], ...]
    scenario: str
    protocol: str
    seed: int | None
    outcome: str
    fidelity: str
    rows: list[ByteRow]
    formula: dict[str, int]

    def sums(self) -> dict[str, int | None]:
        """The numbers of all messages and bytes, and the whole payload by formula."""
        counts = {name: sum(getattr(row, name) for row in self.rows) for name in _COUNTS}
        whole = {row.type for row in self.rows if row.messages} <= {*self.formula}
        return {**counts, "formula": sum(self.formula.values()) if self.formula and whole else None}

    def lines(self) -> list[dict[str, Any]]:
        """Messages and bytes by step and type; a type's payload by formula is at its first step, None elsewhere."""
        left = dict(self.formula)
        return [
            {
                "step": row.step,
                "type": row.type,
                **{name: left.pop(row.type, None) if name == "formula" else getattr(row, name) for name in _SHOWN},
            }
            for row in self.rows
        ]

    def about(self) -> dict[str, Any]:
        """The fields that identify the run."""
        names = ("scenario", "protocol", "seed", "outcome", "fidelity")
        return {**{name: getattr(self, name) for name in names}, "folder": str(self.folder)}


def show_bytes(console: Console, folders: Sequence[Path], csv_file: Path | None, json_file: Path | None) -> int:
    """Print a table for each of the folders of runs and sweeps, and write all counts into the given files.

    A file ``-`` is standard output, and no table is printed then. Returns the exit code. Raises FolderError.
    """
    if str(csv_file) == str(json_file) == "-":
        raise FolderError("--csv - and --json - both go to standard output; allowed: one of them")
    quiet, found = "-" in (str(csv_file), str(json_file)), []
    for folder in folders:
        swept = (folder / SWEEP).is_file()
        counted = [_counted(path, values) for path, values in (runs_of(folder) if swept else [(folder, ())])]
        found += counted
        if not quiet and swept:
            _print_sweep(console, folder, counted)
        elif not quiet:
            _print_run(console, counted[0])
    for path, write in ((csv_file, _csv), (json_file, _json)):
        if path is not None:
            _write(console, path, write(found))
    return 0


def _counted(folder: Path, values: tuple[tuple[str, str], ...]) -> Counted:
    rows, scenario = byte_rows(folder), scenario_of(folder)
    fields: Mapping[str, Any] = {}
    with suppress(OSError, FolderError):  # interrupted, or of another version: its bytes are known all the same
        result = read_result(folder)
        fields = {name: getattr(result, name) for name in ("scenario", "seed", "outcome", "fidelity")}
    return Counted(
        folder=folder,
        values=values,
        scenario=fields.get("scenario", ""),
        protocol="" if scenario is None else scenario.protocol.name,
        seed=fields.get("seed"),
        outcome=fields.get("outcome", ""),
        fidelity=fields.get("fidelity", ""),
        rows=rows,
        formula=predicted(folder, {row.type for row in rows}),
    )


def _print_run(console: Console, run: Counted) -> None:
    remarks, sizes = remarks_on(run.folder), message_bytes(run.folder)
    printing.print_lines(console, [f"{run.folder} ({', '.join(remarks)})" if remarks else str(run.folder)])
    model = sizes.get("fedavg", 0)
    console.print(printed.byte_table(run.rows, exact=True, formula=run.formula, model=model))
    printing.print_lines(console, printed.message_lines(sizes))


def _print_sweep(console: Console, folder: Path, runs: Sequence[Counted]) -> None:
    """Print one line for each combination of values: means over its completed runs."""
    sized = " (sized)" if any(run.fidelity == "sized" for run in runs) else ""
    printing.print_lines(console, [f"{folder}{sized}: means over the completed runs"])
    groups: dict[tuple[tuple[str, str], ...], list[Counted]] = {}
    for run in runs:
        groups.setdefault(run.values, []).append(run)
    scenarios = list(filter(None, (scenario_of(run.folder) for run in runs)))
    shown = _SHOWN if any(row.headers for run in runs for row in run.rows) else _SHOWN[:-1]
    swept = [label(key, scenarios) for key, _ in runs[0].values] if runs else []
    lines = []
    for values, members in groups.items():
        completed = [run.sums() for run in members if run.outcome == "completed"]
        means = [_mean([sums[name] for sums in completed]) for name in shown]
        left = len(members) - len(completed)
        lines.append([*(value for _, value in values), str(len(members)), *means, str(left)])
    figures = ("runs", *shown, "not completed")
    console.print(printing.table((*swept, *figures), lines, figures))


def _mean(values: Sequence[int | None]) -> str:
    """The mean in bytes, with one decimal if it is not whole; a dash if a value is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "-"
    mean = statistics.fmean(known)
    return f"{mean:,.0f}" if mean.is_integer() else f"{mean:,.1f}"


def _csv(runs: Sequence[Counted]) -> str:
    """CSV with a line for each step and type of each run."""
    swept = list(dict.fromkeys(key for run in runs for key, _ in run.values))
    about = [name for name in ("scenario", "protocol", "seed", "outcome", "fidelity") if name not in swept]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*swept, *about, "step", "type", *_SHOWN, "folder"))
    for run in runs:
        values = dict(run.values)
        first = [*(values.get(key, "") for key in swept), *(getattr(run, name) for name in about)]
        writer.writerows((*first, *line.values(), run.folder) for line in run.lines())
    return text.getvalue()


def _json(runs: Sequence[Counted]) -> str:
    """JSON with the values, counts and sums of each run."""
    records = [{**run.about(), "values": dict(run.values), **run.sums(), "rows": run.lines()} for run in runs]
    return json.dumps({"runs": records}, indent=2) + "\n"


def _write(console: Console, path: Path, text: str) -> None:
    if str(path) == "-":
        console.file.write(text)
    else:
        path.write_text(text, encoding="utf-8")
