"""Tables and sentences about runs side by side, for `tacit compare` and a page."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from tacit.scenarios.console.kinds import Kind
from tacit.scenarios.console.table import Quantity, Row, Table, columns_of
from tacit.scenarios.seeing.compare import Divergence, Hashed, Side
from tacit.sim.grammar import Labelled

__all__ = ["divergence_lines", "side_by_side", "value_text"]

_DIGEST = 16
"""The number of hexadecimal digits of a message's digest that are shown."""


def side_by_side(
    heading: str,
    names: Sequence[str],
    facts: Iterable[tuple[str, Kind, Sequence[Any]]],
    sums: Iterable[tuple[str, Kind, Sequence[Any]]] = (),
) -> Table:
    """A table with a row for each fact of the runs with these `names`, and of two runs the difference.

    A fact has a name, the kind of its values and a value for each run, None for a missing one.
    """
    two = len(names) == 2

    def row(name: str, kind: Kind, values: Sequence[Any]) -> Row:
        shown = [Quantity(value, kind) for value in values]
        return (name, *shown, *([_difference(kind, values[0], values[1])] if two else []))

    columns = (heading, *columns_of((*names, *([f"{names[1]} - {names[0]}"] if two else []))))
    return Table(columns, itertools.starmap(row, facts), sums=itertools.starmap(row, sums))


def _difference(kind: Kind, one: float | None, other: float | None) -> Quantity | str:
    if not kind.numbers or (one is None and other is None):
        return ""

    def signed(gap: float) -> str:
        return f"{'+' if gap > 0 else '-'}{kind.show(abs(gap))}" if gap else "0"

    first, second = one or 0, other or 0
    return Quantity(0 if math.isclose(first, second, rel_tol=1e-12) else second - first, Kind(signed, kind.unit))


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
