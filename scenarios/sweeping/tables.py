"""A table of a paper by runs of our own: every cell a mean over seeds, beside the paper's figure.

Cells that come down to the same scenario share their runs.
"""

import csv
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console

from protocols.privacy.spent import caveats_of
from protocols.registry import PROTOCOLS
from scenarios.console import printing
from scenarios.files.reading import Loaded, Source, read
from scenarios.files.table_layout import Claim, Layout
from scenarios.running.folder import Result
from scenarios.sweeping.runs import FIGURES, Plan, fields, folder_name
from sim.units import format_bytes, format_duration

__all__ = ["Figure", "Planned", "Tabled", "caption", "fill", "markdown", "plan_table", "show", "verdicts", "write_runs"]


class Planned(Struct, frozen=True):
    """The runs of a table, and which of them each cell is the mean of: `cells[row][column]` are places in `plans`."""

    layout: Layout
    loaded: Loaded
    plans: tuple[Plan, ...]
    cells: tuple[tuple[tuple[int, ...], ...], ...]


class Figure(Struct, frozen=True):
    """The value of a cell: mean and deviation (None below two runs) of the `counted` runs of `runs`.

    `unfit` says how the runs ended that are not counted, in words; they are no part of the mean.
    """

    runs: int
    counted: int
    mean: float | None
    deviation: float | None
    unit: str
    unfit: str

    def text(self) -> str:
        """The figure as a table shows it: a number only of runs that were completed, the others beside it."""
        if self.mean is None:
            return self.unfit or "-"
        shown = _number(self.mean, self.unit)
        if self.deviation is not None:
            shown += f" ± {_number(self.deviation, self.unit)}"
        return shown + (f" ({self.counted} of {self.runs} runs: {self.unfit})" if self.unfit else "")


class Tabled(Struct, frozen=True):
    """A table filled in. `fidelity`: those of its runs; `caveats`: why epsilons of theirs are no guarantee."""

    planned: Planned
    figures: tuple[tuple[Figure, ...], ...]
    fidelity: str
    caveats: tuple[str, ...]


def plan_table(file: Source, first: Loaded, seeds: int | None, changes: Sequence[str]) -> Planned:
    """All runs of the table of `file`, each checked before any starts. Raises ScenarioError.

    `first`: the file as read with these `changes` and no cell. The seeds are the file's and those after it.
    """
    layout = first.layout
    assert layout is not None
    for change in changes:
        layout.check_change(change.partition("=")[0].strip())
    plans: list[Plan] = []
    places: dict[bytes, int] = {}
    cells = []
    for row, of_row in enumerate(layout.rows):
        line = []
        for column, of_column in enumerate(layout.columns):
            names = (("row", of_row.name), ("column", of_column.name))
            mine = []
            for number in range(seeds or layout.seeds):
                loaded = read(file, changes, seed=first.scenario.seed + number, cell=layout.sets(row, column))
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
    """The table of what there is of `results`, by the place of their plans."""
    figures = tuple(
        tuple(
            _figure([results.get(place) for place in places], *planned.layout.measure(row, column))
            for column, places in enumerate(line)
        )
        for row, line in enumerate(planned.cells)
    )
    fidelity = " and ".join(sorted({result.fidelity for result in results.values()}))
    caveats = caveats_of(result.privacy for _, result in sorted(results.items()))
    return Tabled(planned, figures, fidelity, tuple(caveats))


def _figure(results: Sequence[Result | None], measure: str, unit: str) -> Figure:
    values, unfit = [], Counter[str]()
    for result in results:
        value = None if result is None else _value(result, measure)
        if result is None or result.outcome == "interrupted":
            unfit["not run"] += 1
        elif result.outcome != "completed":
            unfit[result.outcome] += 1
        elif value is None:
            unfit[f"without {measure}"] += 1
        else:
            values.append(value)
    return Figure(
        runs=len(results),
        counted=len(values),
        mean=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        unit=unit,
        unfit=", ".join(f"{count} {what}" for what, count in unfit.items()),
    )


def _value(result: Result, measure: str) -> float | None:
    """The number at the dotted path `measure` in a result, None where there is none.

    A number of a list goes by its place, the only one also without.
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


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{100 * value:.2f}"
    if unit == "B":
        return format_bytes(value)
    if unit == "s":
        return format_duration(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:.4f}"


# --- remarks


def verdicts(tabled: Tabled) -> list[str]:
    """One line for each of the paper's claims: in which rows (or columns) it holds; the figures where it does not."""
    return [_verdict(tabled, claim) for claim in tabled.planned.layout.claims]


def _verdict(tabled: Tabled, claim: Claim) -> str:
    layout = tabled.planned.layout
    own, others = (layout.columns, layout.rows) if claim.of_columns else (layout.rows, layout.columns)
    kind = "row" if claim.of_columns else "column"
    broken, unknown = [], []
    for place in claim.within:
        above, below = (
            tabled.figures[place][mine] if claim.of_columns else tabled.figures[mine][place]
            for mine in (claim.above, claim.below)
        )
        if above.mean is None or below.mean is None:
            unknown.append(others[place].name)
        elif not above.mean > below.mean:
            broken.append(f"{others[place].name}: {above.text()} against {below.text()}")
    count = len(claim.within)
    held = count - len(broken) - len(unknown)
    line = f"{own[claim.above].name} above {own[claim.below].name}: "
    line += f"in every {kind}" if held == count else f"in {held} of {count} {kind}s"
    if broken:
        line += f"; not in {'; '.join(broken)}"
    if unknown:
        line += f"; not known in {'; '.join(unknown)}"
    return line


def caption(tabled: Tabled) -> list[str]:
    """The heading of the table, in lines: its title and source; scale, seeds and sizes."""
    planned = tabled.planned
    layout, first = planned.layout, planned.loaded.scenario
    seeds = sorted({one.loaded.scenario.seed for one in planned.plans})
    facts = [f"scale {layout.scale}", f"seeds {', '.join(map(str, seeds))}"]
    facts += [f"{key} {shown}" for key, shown in _sizes(planned)]
    if "sized" in tabled.fidelity:
        facts.append(f"fidelity {tabled.fidelity}")
    title = layout.title or first.title
    return [title + (f" ({layout.source})" if layout.source else ""), "; ".join(facts)]


def _sizes(planned: Planned) -> list[tuple[str, str]]:
    """The sizes that all runs have in common."""
    scenarios = [one.loaded.scenario for one in planned.plans]
    trained = [one for one in scenarios if "training.rounds" in PROTOCOLS[one.protocol.name].uses]
    found = {
        "data": {one.data.name or Path(one.data.path).name for one in scenarios},
        "clients": {str(one.data.clients) for one in scenarios},
        "points": {str(one.data.limit or "all") for one in scenarios},
        "rounds": {str(one.training.rounds) for one in trained},
    }
    return [(key, values.pop()) for key, values in found.items() if len(values) == 1]


def markdown(tabled: Tabled, command: str) -> str:
    """The table with the command that made it, for a page of results."""
    layout = tabled.planned.layout
    title, facts = caption(tabled)
    heads = ["", *(_head(place.name, place.paper) for place in layout.columns)]
    lines = [f"{title}.", "", f"`{command}`", "", f"{facts}.", "", _line(heads), _line(["---"] * len(heads))]
    for row, figures, papers in zip(layout.rows, tabled.figures, layout.figures, strict=True):
        cells = (_cell(figure, paper, "<br>") for figure, paper in zip(figures, papers, strict=True))
        lines.append(_line([_head(row.name, row.paper), *cells]))
    remarks = [*verdicts(tabled), *(f"No epsilon of these runs is guaranteed: {caveat}" for caveat in tabled.caveats)]
    return "\n".join([*lines, *([""] if remarks else []), *(f"- {line}." for line in remarks)]) + "\n"


def show(console: Console, tabled: Tabled) -> None:
    """Print the table with the paper's figures, and whether what the paper claims shows in it."""
    printing.print_lines(console, caption(tabled))
    layout = tabled.planned.layout
    heads = ["", *(_lines(place.group, place.label, _paper(place.paper)) for place in layout.columns)]
    lines = [
        [
            _lines(row.group, row.label, _paper(row.paper)),
            *(_cell(figure, paper, "\n") for figure, paper in zip(figures, papers, strict=True)),
        ]
        for row, figures, papers in zip(layout.rows, tabled.figures, layout.figures, strict=True)
    ]
    console.print(printing.table(heads, lines, heads[1:]))
    printing.print_lines(console, (f"order     {line}" for line in verdicts(tabled)))
    printing.print_lines(console, (f"privacy   NO guarantee: {line}" for line in tabled.caveats))


def _lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _paper(text: str) -> str:
    return f"paper: {text}" if text else ""


def _head(name: str, paper: str) -> str:
    return name + (f"<br>({_paper(paper)})" if paper else "")


def _cell(figure: Figure, paper: str, between: str) -> str:
    return figure.text() + (f"{between}(paper: {paper})" if paper else "")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write_runs(path: Path, planned: Planned, results: Mapping[int, Result]) -> None:
    """One line for each run of each cell that ended, as comma-separated values; what cells share is there for each."""
    layout = planned.layout
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "column", "measure", "value", "seed", *FIGURES, "folder"))
        for row, line in enumerate(planned.cells):
            for column, places in enumerate(line):
                measure, _ = layout.measure(row, column)
                names = (layout.rows[row].name, layout.columns[column].name, measure)
                for place in places:
                    if (result := results.get(place)) is not None:
                        value = _value(result, measure) if result.outcome == "completed" else None
                        writer.writerow((*names, value, result.seed, *fields(result), planned.plans[place].folder))
