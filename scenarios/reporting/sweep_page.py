"""The page of a sweep: means and deviations over the swept keys, and every run."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.protocols.privacy.spent import caveats_of
from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Table, columns_of
from tacit.scenarios.files.composing import label
from tacit.scenarios.reporting import charts
from tacit.scenarios.reporting.html import Html, details, element, join, of_table
from tacit.scenarios.reporting.page import Section, page
from tacit.scenarios.reporting.printed import sweep_lines, sweep_table
from tacit.scenarios.reporting.recorded import scenario_of
from tacit.scenarios.running.folder import FolderError, Result, read_result
from tacit.scenarios.schema.scenario import Scenario
from tacit.scenarios.sweeping.folder import read_options, runs_of
from tacit.scenarios.sweeping.runs import Cell, cell
from tacit.scenarios.sweeping.tables import Written, read_table
from tacit.sim.grammar import in_number
from tacit.sim.units import duration, rate

__all__ = ["sweep_page"]

_SERIES = 6
"""The most lines of a chart."""

_SPREAD = 30
"""The ratio of the largest to the smallest value from which on an axis is logarithmic."""

_LINES = 12
"""The most warnings, and the most unexpected runs, that are listed."""

Values = tuple[tuple[str, str], ...]
Run = tuple[Path, Values, Result | None]


def sweep_page(folder: Path) -> str:
    """The whole page of the sweep in `folder`. Raises FolderError."""
    asked = read_options(folder)
    runs = [(path, values, _result(path)) for path, values in runs_of(folder)]
    known = {path: scenario_of(path) for path, *_ in runs}
    scenarios = [one for one in known.values() if one is not None]
    results = [result for *_, result in runs if result is not None]
    made = read_table(folder)
    cells = [] if made is not None else _cells(runs, known)
    sections = [
        Section("verdict", "Verdict", _verdict(runs, asked.command)),
        *([Section("means", "Means", _means(cells))] if cells else []),
        *([Section("table", "Table", _tabled(made))] if made is not None else []),
        Section("runs", "Runs", _every(runs, scenarios)),
    ]
    title = results[0].title or results[0].scenario if results else asked.file
    return page(title, in_number(f"A sweep of {len(runs)} runs") + f" · {folder}", sections)


def _result(path: Path) -> Result | None:
    with suppress(OSError, FolderError):
        return read_result(path)
    return None


def _cells(runs: Sequence[Run], known: Mapping[Path, Scenario | None]) -> list[Cell]:
    groups: dict[Values, list[tuple[Path, Result]]] = {}
    for path, values, result in runs:
        if result is not None:
            groups.setdefault(values, []).append((path, result))
    scenarios = [one for one in known.values() if one is not None]
    labels = {key: label(key, scenarios) for values in groups for key, _ in values}
    return [
        cell(values, labels, [result for _, result in members], known[members[0][0]])
        for values, members in groups.items()
    ]


def _verdict(runs: Sequence[Run], command: str) -> Html:
    found = {path: result for path, _, result in runs}
    results = [result for result in found.values() if result is not None]
    outcomes = Counter(result.outcome for result in results)
    left = len(found) - len(results)
    good = outcomes["completed"] == len(found)
    head = in_number(f"{outcomes['completed']} of {len(found)} runs completed")
    others = [f"{count} {outcome}" for outcome, count in outcomes.items() if outcome != "completed"]
    others += [f"{left} without a result"] if left else []
    parts = [
        element("p", head, class_=f"outcome {'good' if good else 'warn'}", data_name="outcome"),
        element("p", ", ".join(others)) if others else None,
        _checks(results),
    ]
    problems = [
        element("li", f"{path.name}: {'; '.join([*([result.reason] if result.reason else []), *result.unmet])}")
        for path, result in found.items()
        if result is not None and (result.unmet or result.outcome in ("failed", "aborted"))
    ]
    if problems:
        more = [element("li", f"{len(problems) - _LINES} more")] if len(problems) > _LINES else []
        parts += [
            element("h3", "Runs that gave up, failed or are not as expected"),
            element("ul", *problems[:_LINES], *more),
        ]
    caveats = caveats_of(said for one in results for said in (one.privacy, one.randomised))
    lines = [f"NO epsilon of these runs is guaranteed: {line}" for line in caveats]
    for line, count in Counter(line for result in results for line in result.warnings).items():
        lines.append(line + f" (in {count} of {len(results)} runs)" * (count < len(results)))
    warned = (element("li", element("strong", "Warning: ", class_="warn"), line) for line in lines[:_LINES])
    parts.append(element("ul", *warned) if lines else None)
    parts += [element("h3", "Run it again"), element("pre", command, class_="line", data_name="replay")]
    return join(parts)


def _checks(results: Sequence[Result]) -> Html | None:
    compared = [result.equals_plaintext for result in results if result.equals_plaintext is not None]
    if not compared:
        return None
    equal = sum(compared)
    sign, class_ = ("✓", "good") if equal == len(compared) else ("✗", "bad")
    text = f"{equal} of {len(compared)} results are equal to the plaintext oracle."
    return element("ul", element("li", element("span", sign, class_=class_), element("span", text)), class_="checks")


def _means(cells: Sequence[Cell]) -> Html:
    content: list[Html | None] = [_charts(cells), of_table(sweep_table(cells), "means over the completed runs")]
    lines = [line.text for line in sweep_lines(cells)]
    return join([*content, *(element("p", line, class_="note") for line in lines)])


def _charts(cells: Sequence[Cell]) -> Html | None:
    """A chart of each figure over the key with the most values, with a line for each combination of the other keys."""
    keys = [key for key, _ in cells[0].values]
    distinct = {key: list(dict.fromkeys(dict(one.values)[key] for one in cells)) for key in keys}
    if not keys or max(map(len, distinct.values())) < 2:
        return None
    swept = max(keys, key=lambda key: len(distinct[key]))
    groups: dict[str, list[Cell]] = {}
    for one in cells:
        groups.setdefault(", ".join(value for key, value in one.values if key != swept), []).append(one)
    others = ", ".join(key for key in keys if key != swept)
    axis = _axis(distinct[swept])
    found = []
    scores = dict.fromkeys(name for members in groups.values() for one in members for name in one.ranges)
    of_scores: list[_Figure] = [(name, "", partial(_score_of, name)) for name in scores]
    for name, unit, of in (*of_scores, *_FIGURES):
        series = [
            charts.Series(
                label_, [(axis.at(dict(one.values)[swept]), *spread) for one in members if (spread := of(one))]
            )
            for label_, members in itertools.islice(groups.items(), _SERIES)
        ]
        series = [one for one in series if one.points]
        means = [mean for one in series for _, mean, _ in one.points]
        lows = [mean - (deviation or 0) for one in series for _, mean, deviation in one.points]
        if means:
            title = name if name in scores and name != ACCURACY else name.capitalize()
            tall = name not in scores and min(lows) > 0 and max(means) >= _SPREAD * min(means)
            found.append(
                charts.lines(
                    series, f"{title}, mean and deviation", f"{swept}{axis.unit}", f"{name}{unit}",
                    kind=axis.kind, log=(axis.is_log, tall), order=axis.order, legend=others,
                )
            )  # fmt: skip
    notes = []
    if len(groups) > _SERIES:
        notes.append(element("p", f"The first {_SERIES} of {len(groups)} lines; the table has all.", class_="note"))
    return join([charts.panels(*found), *notes])


_Figure = tuple[str, str, Callable[[Cell], tuple[float, float | None] | None]]
"""The name of a figure, its unit, and its mean and deviation in a row of the summary."""

_FIGURES: tuple[_Figure, ...] = (
    ("output", "", lambda one: one.output[0] if one.output else None),
    ("virtual time", " (s)", lambda one: one.virtual_seconds),
    ("bytes", "", lambda one: one.bytes_total),
    ("energy", " (J)", lambda one: one.joules),
)


def _score_of(name: str, one: Cell) -> tuple[float, float | None] | None:
    return one.score_of(name)


class _Axis:
    """The axis of a key: numeric if all values are numbers, durations or rates, otherwise in the order of the
    values."""

    def __init__(self, values: Sequence[str], kind: str, unit: str, read: Callable[[str], float]) -> None:
        self.kind, self.unit, self._read = kind, unit, read
        self.order: Sequence[str] = values if kind == "ordinal" else ()
        numbers = sorted(map(read, values)) if kind != "ordinal" else [0.0]
        steps = [high / low for low, high in itertools.pairwise(numbers)] if numbers[0] > 0 else []
        even = len(steps) > 1 and max(steps) / min(steps) < 1.2 and min(steps) > 1.5
        self.is_log = bool(steps) and (even or numbers[-1] >= _SPREAD * numbers[0])

    def at(self, text: str) -> float | str:
        """The place of a value on the axis."""
        return text if self.kind == "ordinal" else self._read(text)


def _axis(values: Sequence[str]) -> _Axis:
    for read, unit in ((float, ""), (duration, " (s)"), (rate, " (B/s)")):
        with suppress(ValueError):
            if all(abs(read(value)) < float("inf") for value in values):
                return _Axis(values, "quantitative", unit, read)
    return _Axis(values, "ordinal", "", float)


def _tabled(made: Written) -> Html:
    """The table that the sweep filled in: title, facts, rows and remarks."""
    paragraphs = [element("p", text) for text in (made.title, made.command, made.facts)]
    shown = of_table(Table(made.columns, made.rows, "the table of the sweep"))
    remarks = element("ul", *(element("li", line) for line in made.remarks)) if made.remarks else None
    return join([*paragraphs, shown, remarks])


def _every(runs: Sequence[Run], scenarios: Sequence[Scenario]) -> Html:
    keys = list(dict.fromkeys(key for _, values, _ in runs for key, _ in values))
    scores = [*dict.fromkeys(result.score for *_, result in runs if result is not None)] or [ACCURACY]
    columns = (
        *columns_of((label(key, scenarios) for key in keys), kinds.TEXT),
        Column("seed", kinds.FIGURE),
        Column("outcome"),
        *columns_of(scores, kinds.decimals(4)),
        Column("virtual time", kinds.SECONDS),
        Column("bytes", kinds.BYTES),
        *columns_of(("lost", "folder"), kinds.TEXT),
    )
    rows: list[Sequence[Any]] = []
    for path, values, result in runs:
        known = dict(values)
        cells = [known.get(key, "") for key in keys]
        if result is None:
            rows.append([*cells, "", "no result", *[None] * len(scores), None, None, "", path.name])
            continue
        scored = [result.scored if name == result.score else None for name in scores]
        lost = ", ".join(dict.fromkeys(loss.party for loss in result.lost)) or "nobody"
        rows.append(
            [*cells, str(result.seed), result.outcome, *scored, result.virtual_seconds, result.bytes_total, lost,
             path.name]
        )  # fmt: skip
    found = of_table(Table(columns, rows, "every run"))
    return details(f"All {len(rows)} runs", found) if len(rows) > 24 else found
