"""Sentences about two runs side by side, for `tacit compare` and a page."""

from collections.abc import Callable, Sequence
from typing import Any

from tacit.scenarios.seeing.compare import Divergence, Hashed, Side
from tacit.sim.labelled import Labelled

__all__ = ["divergence_lines", "pair", "value_text"]

_DIGEST = 16
"""The number of hexadecimal digits of a message's digest that are shown."""


def pair(one: float | None, other: float | None, show: Callable[[Any], str]) -> tuple[str, str, str]:
    """Both values and their difference as text; a dash for a missing one."""
    shown = ["-" if value is None else show(value) for value in (one, other)]
    if one is None and other is None:
        return shown[0], shown[1], ""
    difference = (other or 0) - (one or 0)
    sign = "+" if difference > 0 else "-"
    return shown[0], shown[1], "0" if not difference else f"{sign}{show(abs(difference))}"


def divergence_lines(
    sides: tuple[Side, Side], common: int, parts: Divergence | None, names: tuple[str, str] = ("A", "B")
) -> tuple[Labelled, list[str]]:
    """A line on the first event that differs, given by `divergence`, and lines that show the events around it.

    `names` are those of the runs.
    """
    if parts is None:
        hashes = {side.outcome.trace_hash for side in sides} - {""}
        same = "the traces are the same" if len(hashes) < 2 else "no recorded event differs, though trace hashes do"
        return Labelled("trace", f"{same}: {common:,} events"), []
    both = f"the first {common:,} events are the same" if common else "no event is the same"
    differ = f", and event {parts.number:,} differs" + (f" in {', '.join(parts.fields)}" if parts.fields else "")
    lines = [f"  {names[0]} = {names[1]} {_shown(row, ())}" for row in parts.before]
    for name, row in zip(names, (parts.first, parts.second), strict=True):
        lines.append(f"  {name}     {'has ended' if row is None else _shown(row, parts.fields)}")
    return Labelled("trace", f"{both}{differ}"), lines


def _shown(row: Hashed, fields: Sequence[str]) -> str:
    """An event in one line, with its exact time and the `fields` that differ."""
    ends = f"{row.party} -> {row.peer}" if row.peer else row.party
    shown = {"time", "kind", "party", "peer", "step", "type", "note"}
    extra = [f"{name}={_cut(getattr(row, name))}" for name in fields if name not in shown]
    words = (f"{row.time!r} s", row.kind, ends, row.step, row.type, row.note, *extra)
    return "  ".join(filter(None, (f"n={row.n}", *words)))


def _cut(value: object) -> str:
    return value[:_DIGEST] if isinstance(value, str) else repr(value)


def value_text(value: object) -> str:
    """The value of a key as shown beside that of another run; a dash for None."""
    return "-" if value is None else value if isinstance(value, str) and value else repr(value)
