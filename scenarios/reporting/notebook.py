"""A result as notebooks show it: the verdict, bytes by step and a small timeline. `show` turns this on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from tacit.scenarios.files.result import Result, draw_results

if TYPE_CHECKING:
    from tacit.scenarios.reporting.html import Html
    from tacit.scenarios.reporting.recorded import RecordedRun
    from tacit.scenarios.running.folder import ByteRow

__all__ = ["drawn", "show"]

_STEPS = 8
"""The most steps that a table of bytes names; the others share a line."""


def show() -> None:
    """Make notebooks show results by `drawn`."""
    draw_results(drawn)


def drawn(result: Result) -> str:
    """The HTML of `result`; if its folder is missing or holds another run, of the facts in the result alone."""
    from tacit.scenarios.reporting.html import Html, element
    from tacit.scenarios.reporting.run_page import timeline_of
    from tacit.scenarios.reporting.verdict import figures, losses, outcome
    from tacit.scenarios.running.folder import FolderError

    run = _recorded(result)
    parts: list[Html | None] = [
        element("style", Html(_style())),
        element("p", f"{run.title} (seed {result.seed})", class_="title"),
        outcome(run, linked=False),
        figures(run),
        losses(run),
    ]
    if run.scenario_text:
        parts.append(_bytes_by_step(run.rows))
        try:
            parts.append(timeline_of(run, compact=True))
        except FolderError as problem:
            parts.append(element("p", str(problem), class_="note"))
    else:
        parts.append(element("p", f"There is no record of this run in {result.folder}.", class_="note"))
    return element("div", *parts, class_="tacit-result")


def _recorded(result: Result) -> RecordedRun:
    """The known facts of the run: its folder's content, or the result alone, whose bytes then count as one step."""
    from tacit.scenarios.reporting.recorded import RecordedRun, read_run
    from tacit.scenarios.running.folder import ByteRow, FolderError

    try:
        run = read_run(result.folder)
    except FolderError:
        pass
    else:
        if run.result is not None and run.result.trace_hash == result.trace_hash:
            return run
    whole = ByteRow("", "", result.message_count, result.bytes_payload, result.bytes_sealing, result.bytes_envelope)
    return RecordedRun(
        folder=result.folder, outcome=result.outcome, reason=result.reason, result=result, scenario=None,
        about={"title": result.title, "scenario": result.scenario}, seconds=result.virtual_seconds, losses=result.lost,
        rounds=[], score=result.score, scores={}, figures={}, rows=[whole], formula={}, formula_problem="",
        scenario_text="",
    )  # fmt: skip


def _bytes_by_step(rows: Sequence[ByteRow]) -> Html:
    from tacit.scenarios.console import kinds
    from tacit.scenarios.console.table import Column, Table
    from tacit.scenarios.reporting.html import of_table

    sums: dict[str, list[int]] = {}
    for row in rows:
        found = sums.setdefault(row.step or "(no step)", [0, 0])
        found[0] += row.messages
        found[1] += row.total
    shown = [*sums.items()]
    if len(shown) > _STEPS:
        few = sorted(sums, key=lambda step: -sums[step][1])[: _STEPS - 1]
        others = [pair for step, pair in shown if step not in few]
        rest = [sum(column) for column in zip(*others, strict=True)]
        shown = [*((step, pair) for step, pair in shown if step in few), (f"{len(others)} other steps", rest)]
    whole = [sum(column) for column in zip(*sums.values(), strict=True)] or [0, 0]
    columns = ("step", Column("messages", kinds.COUNT), Column("bytes", kinds.BYTES))
    lines = ((step, *pair) for step, pair in shown)
    return of_table(Table(columns, lines, "bytes by step", sums=[("all steps", *whole)]))


@cache
def _style() -> str:
    """The style of the output, with the colours of a report's page, light or dark like the notebook."""
    folder = resources.files("tacit.scenarios.reporting")
    page = (folder / "page.css").read_text(encoding="utf-8")
    light, dark = (page.partition(f"{name} {{")[2].partition("}")[0] for name in (":root", ':root[data-theme="dark"]'))
    rules = (
        f".tacit-result {{{light}}}",
        f"@media (prefers-color-scheme: dark) {{ .tacit-result {{{dark}}} }}",
        f'[data-jp-theme-light="true"] .tacit-result {{{light}}}',
        f'[data-jp-theme-light="false"] .tacit-result {{{dark}}}',
    )
    return "\n".join((*rules, (folder / "notebook.css").read_text(encoding="utf-8")))
