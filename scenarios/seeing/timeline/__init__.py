"""The timeline of a run in virtual time, as a self-contained part of a page: `fragment`."""

import json
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from tacit.scenarios.seeing.critical_path import Segment, seconds_by
from tacit.scenarios.seeing.seen import Seen
from tacit.scenarios.seeing.timeline.encoding import encoded
from tacit.scenarios.seeing.timeline.model import Model, model_of
from tacit.scenarios.seeing.timeline.reducing import reduced
from tacit.sim.units import format_duration

__all__ = ["fragment"]

_MOST = 1_350_000
"""The most characters of a timeline's data; larger data are reduced to counts."""

_MOST_COMPACT = 180_000

_ATTEMPTS = 4
"""The most times that a timeline is reduced until its data are short enough."""

_ROWS = 6
"""The most rows of a table of the critical path; the last one sums up the rest."""

_SCRIPTS = ("data.js", "words.js", "scene.js", "picture.js", "timeline.js")


def fragment(folder: Path, *, compact: bool = False, seen: Seen | None = None) -> str:
    """The timeline of the run in `folder`, as HTML with its own style, data and script; it loads nothing else.

    For a run in progress, or one that was killed, the timeline shows the recorded part. `compact`: low, without filters
    and tables, for a notebook. `seen` is the part of the record that has been read already. Raises FolderError.
    """
    model = model_of(folder, seen)
    data, shown = _fitting(model, _MOST_COMPACT if compact else _MOST)
    kind = "timeline tl-compact" if compact else "timeline"
    script = "\n".join(_resource(name) for name in _SCRIPTS)
    tables = "" if compact else _tables(model)
    return (
        f'<section class="{kind}" aria-label="Timeline">\n<style>\n{_resource("timeline.css")}</style>\n'
        f'<p class="tl-summary">{escape(_summary(model))}</p>\n'
        f'<div class="tl-place"></div>\n'
        f"{_counted(shown)}{tables}"
        f'<script type="application/json">{data}</script>\n<script>(() => {{\n{script}}})();</script>\n</section>\n'
    )


def _resource(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def _fitting(model: Model, most: int) -> tuple[str, Model]:
    """The data as JSON, reduced until it is not longer than `most` if possible, and the reduced model."""
    names = sum(len(name) + 3 for name in model.parties)
    columns = 8 * (len(model.messages) + len(model.waits)) + 7 * len(model.copies) + 6 * len(model.bars)
    if names + columns <= most:  # a lower bound: each value takes at least one character
        data = _json(encoded(model) | {"said": _description(model)})
        if len(data) <= most:
            return data, model
    for attempt in range(_ATTEMPTS) if names <= most else (_ATTEMPTS - 1,):
        shown, counts = reduced(model, attempt)
        data = _json(encoded(shown, counts) | {"said": _description(model)})
        if len(data) <= most:
            break
    return data, shown


def _json(data: object) -> str:
    """JSON in which no text can end the enclosing script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _summary(model: Model) -> str:
    folded = sum(end - begin for begin, end in model.folded)
    idle = f", {format_duration(folded)} of it idle and folded" if folded else ""
    state = "" if model.ended else " The run has not ended in the record; this is what is recorded."
    return (
        f"{format_duration(model.end)} of virtual time{idle}: {_count(len(model.messages), 'message')}, "
        f"{_count(len(model.bars), 'job')} and {_count(len(model.waits), 'wait')} of "
        f"{_count(len(model.parties), 'party', 'parties')}.{state}"
    )


def _description(model: Model) -> str:
    """A description of the picture for screen readers."""
    unreceived = model.columns.where(np.isnan(model.columns.received))
    lost = sum(one.fate in ("lost", "dropped") for one in unreceived)
    parts = [_summary(model), f"{_count(lost, 'message')} not received." if lost else "All messages were received."]
    if lost == 0 and unreceived:
        parts[1] = "Some messages are on their way."
    marks = [f"{one.party} at {format_duration(one.time)}: {one.text}" for one in model.marks[:6]]
    longest = list(seconds_by(model.path, "kind", "place", "step").items())[:3]
    chain = [f"{kind} of {place} in {step}, {format_duration(took)}" for (kind, place, step), took in longest]
    return " ".join([*parts, *(f"{mark}." for mark in marks), *(["Critical path: " + "; ".join(chain)] * bool(chain))])


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def _counted(model: Model) -> str:
    return f'<p class="tl-note">{escape(model.counted)}</p>\n' if model.counted else ""


def _tables(model: Model) -> str:
    """Tables of the seconds of the critical path by kind, by party or link, and by step."""
    if not model.path:
        return ""
    tables = "".join(
        _table(title, model.path, name)
        for title, name in (("by kind", "kind"), ("by party or link", "place"), ("by step", "step"))
    )
    intro = "The critical path: what the end of the run waited for, one longest chain from the beginning on."
    return f'<p class="tl-note"><i class="tl-swatch tl-path"></i>{intro}</p>\n<div class="tl-tables">{tables}</div>\n'


def _table(title: str, path: Iterable[Segment], name: str) -> str:
    segments = list(path)
    found = [(key, seconds) for (key,), seconds in seconds_by(segments, name).items()]
    total = sum(seconds for _, seconds in found)
    rest = found[_ROWS:]
    rows = found[:_ROWS] + ([(f"{len(rest)} others", sum(seconds for _, seconds in rest))] if rest else [])
    body = "".join(
        f'<tr><th scope="row">{escape(key or "(outside of steps)")}</th><td style="--share:{seconds / total:.4f}">'
        f"{seconds:,.3f}</td></tr>"
        for key, seconds in rows
    )
    return (
        f"<table><thead><tr><th>{escape(title)}</th><th>seconds</th></tr></thead><tbody>{body}</tbody>"
        f'<tfoot><tr><th scope="row">all</th><td>{total:,.3f}</td></tr></tfoot></table>'
    )
