"""The page of several runs side by side, aligned by their steps."""

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.scenarios.console import kinds
from tacit.scenarios.console.kinds import Kind
from tacit.scenarios.console.table import Table
from tacit.scenarios.reporting import charts
from tacit.scenarios.reporting.compared import divergence_lines, side_by_side, value_text
from tacit.scenarios.reporting.html import Html, element, facts, join, of_table
from tacit.scenarios.reporting.page import Section, page
from tacit.scenarios.reporting.recorded import RecordedRun, read_run
from tacit.scenarios.reporting.run_page import curve_section, timeline_of
from tacit.scenarios.reporting.verdict import losses, warnings_of
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.seeing.compare import Divergence, Side, divergence, read_side
from tacit.scenarios.seeing.critical_path import seconds_by
from tacit.scenarios.seeing.plot import labels
from tacit.scenarios.seeing.reading import opened

__all__ = ["several_page"]

_MOST = 8
"""The most runs on a page."""

_KEYS = 60
"""The most keys that are listed."""

_SPANS = 400
"""The most bars of steps that are drawn; with more, a step has one bar from its first to its last round."""


class Compared(Struct, frozen=True):
    """A run with its letter on the page and its distinguishing keys; `parts` is the first event that differs from the
    first run.

    `common` is the number of events before that event.
    """

    letter: str
    label: str
    run: RecordedRun
    side: Side
    common: int
    parts: Divergence | None

    def event_of(self, first: bool) -> Any:
        """The event that differs, in the first run or in this one; None if there is no such event."""
        return None if self.parts is None else self.parts.first if first else self.parts.second


def several_page(folders: Sequence[Path]) -> str:
    """The whole page. Raises FolderError."""
    if len(folders) > _MOST:
        raise FolderError(f"{len(folders)} runs do not fit on a page; allowed: up to {_MOST}, or the folder of a sweep")
    runs = [read_run(folder) for folder in folders]
    found: list[Compared] = []
    for letter, label, run in zip(string.ascii_uppercase, labels(folders), runs, strict=False):
        common, parts = divergence(folders[0], run.folder) if found else (0, None)
        found.append(Compared(letter, label, run, read_side(run.folder), common, parts))
    sections = [
        Section("verdict", "Verdict", _verdict(found)),
        Section("differences", "Differences", _differences(found)),
        Section("steps", "Step by step", _steps(found)),
        Section("timeline", "Timelines", join(_timelines(found))),
        *([Section("learning", "Learning", curves)] if (curves := curve_section(runs)) else []),
        Section("losses", "Losses and warnings", join(_losses(found))),
    ]
    titles = list(dict.fromkeys(run.title for run in runs))
    title = titles[0] if len(titles) == 1 else f"{len(runs)} runs"
    return page(title, f"{len(runs)} runs side by side", sections)


def _verdict(found: Sequence[Compared]) -> Html:
    runs = [one.run for one in found]
    equal = {True: "equal", False: "NOT equal", None: "not compared"}
    rows: list[tuple[str, Kind, Sequence[Any]]] = [
        ("outcome", kinds.TEXT, [run.outcome + (f": {run.reason}" if run.reason else "") for run in runs]),
        ("beside the oracle", kinds.TEXT, [equal[run.equals_plaintext] for run in runs]),
        *(
            (score, kinds.decimals(4), [run.scored if run.score == score else None for run in runs])
            for score in dict.fromkeys(run.score for run in runs)
        ),
        ("virtual time", kinds.SECONDS, [run.seconds for run in runs]),
        ("bytes", kinds.BYTES, [run.sums()["total"] for run in runs]),
        ("messages", kinds.COUNT, [run.messages for run in runs]),
        ("parties lost", kinds.COUNT, [one.side.lost for one in found]),
        ("trace", kinds.TEXT, [None if run.result is None else run.result.trace_hash[:16] or None for run in runs]),
    ]
    named = facts(
        (one.letter, join([element("strong", one.label), element("br"), str(one.run.folder)])) for one in found
    )
    made = side_by_side("", [one.letter for one in found], rows)
    return join([named, of_table(made, "the results of the runs")])


def _differences(found: Sequence[Compared]) -> Html:
    events = (_event(found[0], one) for one in found[1:])
    return join([element("h3", "Keys"), _keys(found), element("h3", "First event that differs"), *events])


def _keys(found: Sequence[Compared]) -> Html:
    names = dict.fromkeys(name for one in found for name in one.side.keys)
    values = {name: [one.side.keys.get(name) for one in found] for name in names}
    differ = {name: line for name, line in values.items() if any(value != line[0] for value in line)}
    if not differ:
        return element("p", "The scenarios are the same.")
    rows = [(element("code", name), *map(value_text, line)) for name, line in list(differ.items())[:_KEYS]]
    content = [of_table(Table(("key", *(one.letter for one in found)), rows), "keys that differ")]
    if len(differ) > _KEYS:
        content.append(element("p", f"{len(differ) - _KEYS} more keys differ.", class_="note"))
    return join(content)


def _event(first: Compared, one: Compared) -> Html:
    said, lines = divergence_lines((first.side, one.side), one.common, one.parts, (first.letter, one.letter))
    head = element("p", element("strong", f"{first.letter} and {one.letter}: "), said.text)
    return join([head, *([element("pre", "\n".join(lines))] if lines else [])])


def _steps(found: Sequence[Compared]) -> Html:
    """A section on the steps: when each was taken, the bytes sent in it, and its share of the critical path."""
    spans = [_spans(one.run.folder) for one in found]
    steps = list(dict.fromkeys(step for of_run in spans for step, *_ in of_run))
    sizes = [one.side.bytes_by_step() for one in found]
    seconds = [{step: value for (step,), value in seconds_by(one.side.path, "step").items()} for one in found]
    columns: list[Mapping[str, float]] = [*sizes, *seconds]
    steps = list(dict.fromkeys([*steps, *(step for column in columns for step in column)]))
    events = [one.event_of(False) or one.event_of(True) for one in found[1:]]
    marked = next((event.step for event in events if event is not None), "")
    rows = [
        (one.letter, step, began, ended)
        for one, of_run in zip(found, spans, strict=True)
        for step, began, ended in of_run
    ]
    marks = [
        (name, event.time, event.step)
        for one in found[1:]
        for name, event in ((found[0].letter, one.event_of(True)), (one.letter, one.event_of(False)))
        if event is not None
    ]
    title = "Each step from the first party that entered it to the last that left it" + (
        "; the marks are the first events that differ" if marks else ""
    )
    chart = charts.spans(rows, marks, steps, [one.letter for one in found], title)
    place = steps.index(marked) if marked in steps else None
    return join(
        [
            chart,
            element("h3", "Bytes by step, on all hops"),
            _aligned(found, steps, sizes, kinds.BYTES, "bytes by step", place),
            element("h3", "Virtual time of the critical path, by step"),
            _aligned(found, steps, seconds, kinds.SECONDS, "seconds of the critical path by step", place),
            None if place is None else element("p", f"Marked: {marked}, where they differ first.", class_="note"),
        ]
    )  # fmt: skip


def _aligned(
    found: Sequence[Compared], steps: Sequence[str], columns: Sequence[Mapping[str, float]],
    kind: Kind, title: str, marked: int | None,
) -> Html:  # fmt: skip
    shown = [step for step in steps if any(step in column for column in columns)]
    rows = [(step or "-", kind, [column.get(step) for column in columns]) for step in shown]
    total = ("total", kind, [sum(column.values()) for column in columns])
    place = shown.index(steps[marked]) if marked is not None and steps[marked] in shown else None
    return of_table(side_by_side("step", [one.letter for one in found], rows, [total]), title, marked=place)


def _spans(folder: Path) -> list[tuple[str, float, float]]:
    """The times of each step of each round, from the first party's beginning to the last party's end."""
    text = (
        'SELECT step, min(entered), max(coalesce("left", entered)), round FROM steps '
        "GROUP BY step, {} ORDER BY min(entered)"
    )
    with opened(folder) as connection:
        rows = connection.execute(text.format("round")).fetchall()
        if len(rows) > _SPANS:
            rows = connection.execute(text.format("1")).fetchall()
    return [(step, began, ended) for step, began, ended, _ in rows]


def _timelines(found: Sequence[Compared]) -> list[Html]:
    content = []
    for one in found:
        content += [element("h3", f"{one.letter}: {one.label}"), timeline_of(one.run, compact=True)]
    return content


def _losses(found: Sequence[Compared]) -> list[Html | None]:
    content: list[Html | None] = []
    for one in found:
        lost = losses(one.run, heading=f"Lost in {one.letter}")
        nobody = "Nobody was lost in" if one.run.result is not None else "No loss is recorded so far in"
        content.append(lost or element("p", f"{nobody} {one.letter}."))
        content += [element("p", element("strong", "Warning: ", class_="warn"), line) for line in warnings_of(one.run)]
    return content
