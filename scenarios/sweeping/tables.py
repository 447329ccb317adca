"""A table of a paper, filled in by runs: each cell is a mean over seeds, shown with the paper's figure.

Cells with the same scenario share their runs.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import scipy
from msgspec import Struct
from rich.console import Console

from tacit.protocols.privacy.spent import caveats_of
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console import kinds, printing
from tacit.scenarios.console.table import Table, as_csv, as_markdown, columns_of
from tacit.scenarios.files.reading import Loaded, Source, read
from tacit.scenarios.files.table_layout import Claim, Layout, Place
from tacit.scenarios.running.folder import FolderError, Result, writing
from tacit.scenarios.sweeping.runs import FIGURES, Plan, fields, folder_name

__all__ = [
    "Figure",
    "Planned",
    "Tabled",
    "Written",
    "caption",
    "fill",
    "keep_table",
    "plan_table",
    "read_table",
    "show",
    "verdicts",
    "write_runs",
]


class Planned(Struct, frozen=True):
    """The runs of a table; `cells[row][column]` has the places in `plans` of the runs whose mean is the cell's
    figure."""

    layout: Layout
    loaded: Loaded
    plans: tuple[Plan, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]


class Figure(Struct, frozen=True):
    """The value of a cell: mean and deviation (None below two runs) over the `counted` runs of `runs`.

    `values` has the value of each run, in the order of the seeds, None if it is not counted; `unfit` describes the ends
    of the runs that are not counted.
    """

    runs: int
    counted: int
    values: tuple[float | None, ...]
    mean: float | None
    deviation: float | None
    unit: str
    unfit: str

    def text(self) -> str:
        """Return the figure as the table shows it: a number from completed runs only, with the number of other runs."""
        if self.mean is None:
            return self.unfit or "-"
        shown = _number(self.mean, self.unit)
        if self.deviation is not None:
            is_rounding = self.unit == "s" and self.deviation < 1e-9 * abs(self.mean)
            shown += f" ± {_number(0.0 if is_rounding else self.deviation, self.unit)}"
        return shown + (f" ({self.counted} of {self.runs} runs: {self.unfit})" if self.unfit else "")


class Tabled(Struct, frozen=True):
    """A filled-in table. `fidelity` is that of its runs; `caveats` explain why their epsilons are no guarantee.

    `made_by` has the version of Tacit and the digest of its code (`tacit.sim.own_code`), once for each that made runs.
    """

    planned: Planned
    figures: tuple[tuple[Figure, ...], ...]
    fidelity: str
    caveats: tuple[str, ...]
    made_by: tuple[str, ...]


def plan_table(file: Source, first: Loaded, seeds: int | None, changes: Sequence[str]) -> Planned:
    """Plan all runs of the table of `file`, and check each before any starts. Raises ScenarioError.

    `first` is the file as read with these `changes` and no cell. The seeds are the file's and the following ones.
    """
    layout = first.layout
    assert layout is not None
    for change in changes:
        layout.check_change(change.partition("=")[0].strip())
    plans: list[Plan] = []
    places: dict[bytes, int] = {}
    known: dict[str, Loaded] = {}  # columns that set nothing have the scenarios of their row
    cells = []
    for row, of_row in enumerate(layout.rows):
        line = []
        for column, of_column in enumerate(layout.columns):
            names = (("row", of_row.name), ("column", of_column.name))
            mine = []
            for number in range(seeds or layout.seeds):
                seed, sets = first.scenario.seed + number, layout.sets(row, column)
                if (same := repr((seed, sets))) not in known:
                    known[same] = read(file, changes, seed=seed, cell=sets)
                loaded = known[same]
                key = msgspec.json.encode(loaded.scenario)
                if key not in places:
                    places[key] = len(plans)
                    label = f"{of_row.name}-{of_column.name}"
                    plans.append(Plan(names, loaded, folder_name(len(plans), label, loaded.scenario.seed)))
                mine.append(places[key])
            line.append(tuple(mine))
        cells.append(tuple(line))
    return Planned(layout, first, tuple(plans), tuple(cells))


def fill(planned: Planned, results: Mapping[int, Result]) -> Tabled:
    """Fill in the table with the `results` that exist, by the places of their plans."""
    figures = tuple(
        tuple(
            _figure([results.get(place) for place in places], *planned.layout.measure(row, column))
            for column, places in enumerate(line)
        )
        for row, line in enumerate(planned.cells)
    )
    fidelity = " and ".join(sorted({result.fidelity for result in results.values()}))
    caveats = caveats_of(said for _, result in sorted(results.items()) for said in (result.privacy, result.randomised))
    made_by = {f"Tacit {one.version}, code {one.environment.get('code', 'unknown')}" for one in results.values()}
    return Tabled(planned, figures, fidelity, tuple(caveats), tuple(sorted(made_by)))


def _figure(results: Sequence[Result | None], measure: str, unit: str) -> Figure:
    found: list[float | None] = []
    unfit = Counter[str]()
    for result in results:
        value = None if result is None or result.outcome != "completed" else _value(result, measure)
        found.append(value)
        if result is None or result.outcome == "interrupted":
            unfit["not run"] += 1
        elif result.outcome != "completed":
            unfit[result.outcome] += 1
        elif value is None:
            unfit[f"without {measure}"] += 1
    values = [value for value in found if value is not None]
    return Figure(
        runs=len(results),
        counted=len(values),
        values=tuple(found),
        mean=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        unit=unit,
        unfit=", ".join(f"{count} {what}" for what, count in unfit.items()),
    )


def _value(result: Result, measure: str) -> float | None:
    """Return the number at the dotted path `measure` in a result, or None if there is none.

    A number in a list is named by its index; the only number of a list also without an index.
    """
    found: Any = result.record()
    for name in measure.split("."):
        if isinstance(found, list):
            found = dict(enumerate(found)).get(int(name) if name.isdecimal() else -1)
        else:
            found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


_UNITS = {"%": kinds.decimals(2, factor=100), "B": kinds.BYTES, "s": kinds.SECONDS}


def _number(value: float, unit: str) -> str:
    other = kinds.decimals(0 if value == int(value) else 4)
    return _UNITS.get(unit, other).show(value)


# --- remarks


LEVEL = 0.95
"""The level of the confidence interval of a claim: it holds beyond the spread if the interval lies above 0."""


def verdicts(tabled: Tabled) -> list[str]:
    """Return one line for each of the paper's claims, with the rows (or columns) in which it holds, and the
    differences.

    A claim holds beyond the spread if the 95 % interval of Student's t for the mean difference, paired over seeds, is
    above 0; and by the means alone if only the mean difference is. With one seed it can hold only by the means.
    """
    return [_verdict(tabled, claim) for claim in tabled.planned.layout.claims]


def _verdict(tabled: Tabled, claim: Claim) -> str:
    layout = tabled.planned.layout
    own, others = (layout.columns, layout.rows) if claim.of_columns else (layout.rows, layout.columns)
    kind = "row" if claim.of_columns else "column"
    found: dict[str, list[str]] = {"beyond": [], "means": [], "broken": [], "unknown": []}
    for place in claim.within:
        above, below = (
            tabled.figures[place][mine] if claim.of_columns else tabled.figures[mine][place]
            for mine in (claim.above, claim.below)
        )
        how, shown = _difference(above, below)
        found[how].append(f"{others[place].name}: {shown}" if shown else others[place].name)
    count = len(claim.within)
    held = len(found["beyond"]) + len(found["means"])
    line = f"{own[claim.above].name} above {own[claim.below].name}: "
    line += f"in every {kind}" if held == count else f"in {held} of {count} {kind}s"
    if held:
        line += f", beyond the spread in {len(found['beyond']) or 'none'}"
    for how, words in (("beyond", ""), ("means", "by the means alone "), ("broken", "not "), ("unknown", "not known ")):
        if found[how]:
            line += f"; {words}in {'; '.join(found[how])}"
    return line


def _difference(above: Figure, below: Figure) -> tuple[str, str]:
    """Compare `above` with `below`: "beyond" the spread, by the "means" alone, "broken" or "unknown"; and the
    figures."""
    if above.mean is None or below.mean is None:
        return "unknown", ""
    pairs = zip(above.values, below.values, strict=True)
    gaps = [mine - other for mine, other in pairs if mine is not None and other is not None]
    gap = statistics.fmean(gaps) if gaps else above.mean - below.mean
    gap = 0.0 if abs(gap) < 1e-12 else gap  # equal up to the order of additions
    holds, shown = gap > 0, _signed(gap, above.unit)
    if len(gaps) < 2:
        return "means" if holds else "broken", f"{shown}, without spread"
    reach = float(scipy.special.stdtrit(len(gaps) - 1, (1 + LEVEL) / 2)) * statistics.stdev(gaps) / math.sqrt(len(gaps))
    shown += f" [{_signed(gap - reach, above.unit)}, {_signed(gap + reach, above.unit)}]"
    return ("beyond" if gap > reach else "means") if holds else "broken", shown


def _signed(value: float, unit: str) -> str:
    return ("+" if value >= 0 else "-") + _number(abs(value), unit)


def caption(tabled: Tabled) -> list[str]:
    """Return the lines above the table: its title and source; scale, seeds, sizes, and the code that made it."""
    planned = tabled.planned
    layout, first = planned.layout, planned.loaded.scenario
    seeds = sorted({one.loaded.scenario.seed for one in planned.plans})
    facts = [f"scale {layout.scale}", f"seeds {', '.join(map(str, seeds))}"]
    facts += [f"{key} {shown}" for key, shown in _sizes(planned)]
    if "sized" in tabled.fidelity:
        facts.append(f"fidelity {tabled.fidelity}")
    if tabled.made_by:
        facts.append(f"made by {' and '.join(tabled.made_by)}")
    title = layout.title or first.title
    return [title + (f" ({layout.source})" if layout.source else ""), "; ".join(facts)]


def _sizes(planned: Planned) -> list[tuple[str, str]]:
    """Return the sizes that all runs have in common."""
    scenarios = [one.loaded.scenario for one in planned.plans]
    trained = [one for one in scenarios if "training.rounds" in PROTOCOLS[one.protocol.name].uses]
    found = {
        "data": {one.data.name or Path(one.data.path).name for one in scenarios},
        "clients": {str(one.data.clients) for one in scenarios},
        "points": {str(one.data.limit or "all") for one in scenarios},
        "rounds": {str(one.training.rounds) for one in trained},
    }
    return [(key, values.pop()) for key, values in found.items() if len(values) == 1]


class Written(Struct, frozen=True):
    """A table with all its texts, as in ``table.json``; a cell of several lines has line feeds."""

    title: str
    command: str
    facts: str
    columns: list[str]
    rows: list[list[str]]
    remarks: list[str]


_JSON = "table.json"


def written(tabled: Tabled, command: str) -> Written:
    """Return the table as texts, with the `command` that made it, and remarks."""
    title, facts = caption(tabled)
    heads, *rows = _cells(tabled, whole=True)
    remarks = [*verdicts(tabled), *(f"No epsilon here is guaranteed: {caveat}" for caveat in tabled.caveats)]
    return Written(f"{title}.", command, f"{facts}.", heads, rows, [f"{line}." for line in remarks])


def keep_table(folder: Path, tabled: Tabled, command: str) -> None:
    """Write ``table.json``, and ``table.md`` for a page of results, into the sweep's `folder`."""
    found = written(tabled, command)
    with writing(folder / _JSON):
        (folder / _JSON).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    with writing(folder / "table.md"):
        (folder / "table.md").write_text(markdown(found), encoding="utf-8")


def read_table(folder: Path) -> Written | None:
    """Return the table of the sweep in `folder`; None if it makes none.

    Raises FolderError for a table that cannot be read, or that was written by a version with only ``table.md``.
    """
    path = folder / _JSON
    try:
        return msgspec.json.decode(path.read_bytes(), type=Written)
    except FileNotFoundError:
        if not (folder / "table.md").is_file():
            return None
        problem = f"missing, as in sweeps of earlier versions; `tacit sweep --resume {folder}` writes it"
        raise FolderError(f"{path}: {problem}") from None
    except ValueError as error:
        raise FolderError(f"{path}: no table of a sweep: {error}") from None


def markdown(found: Written) -> str:
    """Return the table as Markdown for a page of results."""
    lines = [found.title, "", f"`{found.command}`", "", found.facts, "", as_markdown(Table(found.columns, found.rows))]
    return "\n".join([*lines, *([""] if found.remarks else []), *(f"- {line}" for line in found.remarks)]) + "\n"


def _cells(tabled: Tabled, *, whole: bool) -> list[list[str]]:
    """Return the headings and the rows of the table; with `whole` names, otherwise with the label on a line below the
    group.

    The paper's figures are below ours, or, if they belong to other data, in further rows.
    """
    layout = tabled.planned.layout
    apart = layout.paper_data
    own, papers = [], []
    for row, figures, quoted in zip(layout.rows, tabled.figures, layout.figures, strict=True):
        cells = [
            figure.text() + (f"\n(paper: {paper})" if paper and not apart else "")
            for figure, paper in zip(figures, quoted, strict=True)
        ]
        own.append([_head(row, whole, not apart), *cells])
        if apart and any(quoted):
            papers.append([f"{apart} (paper): {row.paper or row.name}", *(paper or "-" for paper in quoted)])
    return [["", *(_head(place, whole, True) for place in layout.columns)], *own, *papers]


def _head(place: Place, whole: bool, paper: bool) -> str:
    name = place.name if whole else "\n".join(filter(None, (place.group, place.label)))
    return name + (f"\n(paper: {place.paper})" if place.paper and paper else "")


def show(console: Console, tabled: Tabled) -> None:
    """Print the table with the paper's figures, and the verdicts on the paper's claims."""
    printing.print_lines(console, caption(tabled))
    heads, *rows = _cells(tabled, whole=False)
    printing.print_table(console, Table((heads[0], *columns_of(heads[1:])), rows))
    printing.print_lines(console, (f"order     {line}" for line in verdicts(tabled)))
    printing.print_lines(console, (f"privacy   NO guarantee: {line}" for line in tabled.caveats))


def write_runs(path: Path, planned: Planned, results: Mapping[int, Result]) -> None:
    """Write one line for each run of each cell that ended, as comma-separated values; a shared run once per cell."""
    layout = planned.layout
    made = Table(("row", "column", "measure", "value", "seed", *FIGURES, "folder"))
    for row, line in enumerate(planned.cells):
        for column, places in enumerate(line):
            measure, _ = layout.measure(row, column)
            names = (layout.rows[row].name, layout.columns[column].name, measure)
            for place in places:
                if (result := results.get(place)) is not None:
                    value = _value(result, measure) if result.outcome == "completed" else None
                    made.rows.append((*names, value, result.seed, *fields(result), planned.plans[place].folder))
    with writing(path):
        path.write_text(as_csv(made), encoding="utf-8")
