"""A table: typed columns and plain values, which say nothing of where they are shown.

`printing` renders it for a terminal, `tacit.scenarios.reporting.html` for a page, and `as_csv`, `as_records` and
`as_markdown` below for files.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tacit.scenarios.console.kinds import FIGURE, TEXT, Kind

__all__ = [
    "Column", "Quantity", "Row", "Spread", "Table", "as_csv", "as_markdown", "as_records", "columns_of",
]  # fmt: skip


class Spread(NamedTuple):
    """A mean with the deviation of its runs; None below two runs."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Quantity:
    """A value with a `kind` other than its column's, or with a `remark` behind it."""

    value: Any
    kind: Kind | None = None
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `key` is its name in files, by default the heading with underscores; `of`: how a record of `Table.of` gives the
    value, by default the attribute or item `key`. On a narrow terminal columns with a `priority` are left out, the
    lowest first. `missing` is shown for None.
    """

    heading: str
    kind: Kind = TEXT
    key: str = ""
    priority: int | None = None
    missing: str = "-"
    of: Callable[[Any], Any] | None = None

    @property
    def name(self) -> str:
        """The name of the column in files."""
        return self.key or "_".join(self.heading.split())

    def text(self, value: Any) -> str:
        """Return the value as it is shown to people; text as it is."""
        if isinstance(value, Quantity):
            own = self if value.kind is None else replace(self, kind=value.kind)
            return own.text(value.value) + value.remark
        if isinstance(value, Spread):
            return " ± ".join(self.kind.show(one) for one in value if one is not None)
        return self.missing if value is None else value if isinstance(value, str) else self.kind.show(value)

    def value_of(self, record: Any) -> Any:
        """Return the value that a record has for this column."""
        if self.of is not None:
            return self.of(record)
        return record[self.name] if isinstance(record, Mapping) else getattr(record, self.name)


def columns_of(headings: Iterable[str], kind: Kind = FIGURE) -> tuple[Column, ...]:
    """Return columns of one kind."""
    return tuple(Column(heading, kind) for heading in headings)


Row = Sequence[Any]


class Table:
    """Rows of plain values under typed columns; `sums` are rows below a line at the end.

    Of a column of texts the heading is enough.

    A terminal draws a line above the rows whose numbers are in `sections`, and where one of the first `grouped` values
    changes; a group shows its first value once.
    """

    def __init__(
        self, columns: Iterable[Any], rows: Iterable[Row] = (), title: str = "", *, sums: Iterable[Row] = (),
        grouped: int = 0,
    ) -> None:  # fmt: skip
        self.columns: tuple[Column, ...] = tuple(Column(one) if isinstance(one, str) else one for one in columns)
        self.title, self.grouped = title, grouped
        self.sections: set[int] = set()
        self.rows, self.sums = list(map(self._checked, rows)), list(map(self._checked, sums))

    @classmethod
    def of(cls, records: Iterable[Any], columns: Iterable[Any], title: str = "", **options: Any) -> "Table":
        """Return the table with a row for each of the records, structs or mappings."""
        found = cls(columns, (), title, **options)
        found.rows += [tuple(column.value_of(record) for column in found.columns) for record in records]
        return found

    def _checked(self, row: Row) -> Row:
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {len(row)} values in a table of {len(self.columns)} columns")
        return row

    def add_total(self, *names: Any) -> None:
        """Add the sums of all rows and sums so far as the last row; `names` stand for the first columns."""
        places = range(len(names), len(self.columns))
        self.sums.append((*names, *(sum(row[at] for row in (*self.rows, *self.sums)) for at in places)))

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of all columns."""
        return tuple(column.heading for column in self.columns)

    def texts(self) -> list[tuple[str, ...]]:
        """Return the rows and then the sums as they are shown to people."""
        rows = [tuple(map(Column.text, self.columns, row)) for row in (*self.rows, *self.sums)]
        begins = [*self.begins_group(), *(True for _ in self.sums)]
        return [row if first else ("", *row[1:]) for row, first in zip(rows, begins, strict=True)]

    def begins_group(self) -> list[bool]:
        """Return for each row, without sums, whether it begins a group; each does in a table that is not grouped."""
        firsts = [tuple(row[: self.grouped]) for row in self.rows]
        return [not self.grouped or not at or firsts[at - 1] != first for at, first in enumerate(firsts)]


def as_records(table: Table) -> list[dict[str, Any]]:
    """Return a mapping for each row, without sums: exact values by the names of the columns.

    A column of means has a second entry for their deviations.
    """
    names, *rows = _exact(table)
    return [dict(zip(names, row, strict=True)) for row in rows]


def as_csv(table: Table, digits: int | None = None) -> str:
    """Return the table as comma-separated values under the names of its columns, without sums and rounding.

    `digits`: floats have at most this many significant digits. None is an empty cell.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [f"{one:.{digits}g}" if digits is not None and isinstance(one, float) else one for one in line]
        for line in _exact(table)
    )
    return text.getvalue()


def _exact(table: Table) -> Iterator[list[Any]]:
    """The names of the columns, then the exact values of each row."""
    means = [any(isinstance(row[at], Spread) for row in table.rows) for at in range(len(table.columns))]
    of_means = list(zip(table.columns, means, strict=True))
    yield [name for one, mean in of_means for name in (one.name, f"{one.name}_deviation")[: 1 + mean]]
    for row in table.rows:
        values = [value.value if isinstance(value, Quantity) else value for value in row]
        pairs = [value if isinstance(value, Spread) else (value, None) for value in values]
        yield [one for pair, mean in zip(pairs, means, strict=True) for one in pair[: 1 + mean]]


def as_markdown(table: Table) -> str:
    """Return the table in Markdown, with its sums as its last rows; line feeds in cells are line breaks."""
    ruler = ["---:" if column.kind.numbers else "---" for column in table.columns]
    shown = [
        [cell.replace("|", "\\|").replace("\n", "<br>") for cell in line] for line in (table.headings, *table.texts())
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (shown[0], ruler, *shown[1:]))
