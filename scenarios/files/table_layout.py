"""The table of a scenario file at one scale: its rows and columns, and the keys that each of them sets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tacit.scenarios.files.result import Result
from tacit.scenarios.schema.keys import moved, similar, toml
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import Part, ScenarioError, ScenarioFile, Table

__all__ = ["Claim", "Layout", "Place", "flat", "layout_of"]


class Place(Struct, frozen=True):
    """A row or a column: its label and group, the paper's name if that differs, and the keys that it sets."""

    label: str
    group: str
    paper: str
    sets: tuple[tuple[str, Any], ...]
    measure: str
    unit: str

    @property
    def name(self) -> str:
        """The name as `GROUP: LABEL`, or `LABEL`."""
        return f"{self.group}: {self.label}" if self.group else self.label


class Claim(Struct, frozen=True):
    """A claim that in each of some rows (columns) the cell in one of two columns (rows) has the larger mean."""

    of_columns: bool
    above: int
    below: int
    within: tuple[int, ...]


class Layout(Struct, frozen=True):
    """A table at its `scale`; `title` and `source` may be empty.

    `figures` are those of the paper: one for each column of each row, "" for none. `paper_data`, if given, names the
    data that they were measured on.
    """

    title: str
    source: str
    scale: str
    seeds: int
    rows: tuple[Place, ...]
    columns: tuple[Place, ...]
    figures: tuple[tuple[str, ...], ...]
    paper_data: str
    claims: tuple[Claim, ...]

    def sets(self, row: int, column: int) -> dict[str, Any]:
        """The dotted keys of a cell, with their values."""
        return dict(self.rows[row].sets + self.columns[column].sets)

    def measure(self, row: int, column: int) -> tuple[str, str]:
        """The path in a result and the unit of a cell's value."""
        part = self.columns[column] if self.columns[column].measure else self.rows[row]
        return part.measure or "accuracy", part.unit or "%"

    def check_change(self, key: str) -> None:
        """Raise ScenarioError if rows or columns set `key`, so that the command line must not change it."""
        parts = [("row", part) for part in self.rows] + [("column", part) for part in self.columns]
        for kind, part in parts:
            for own, value in part.sets:
                if own == key or own.startswith(f"{key}.") or key.startswith(f"{own}."):
                    problem = f"the table's {kind} {toml(part.name)} sets {own} = {toml(value)}; "
                    problem += either(
                        "allowed: other keys, or any with `tacit run` or `tacit sweep --over`",
                        "allowed: other keys, or any with over",
                    )
                    raise ScenarioError(called("--set"), key, problem)


def flat(tables: Mapping[str, Any], known: Collection[str], place: str) -> Iterator[tuple[str, Any]]:
    """Yield each dotted key in `tables`, which may be nested, with its value; and a table left empty, such as expect.

    Raises ScenarioError at `place`, without a file's name.
    """
    for key, value in tables.items():
        emptied = value == {} and any(one.startswith(f"{key}.") for one in known)
        if key in known or emptied:
            yield key, value
        elif isinstance(value, dict) and value:
            yield from flat({f"{key}.{last}": item for last, item in value.items()}, known, place)
        else:
            if new := moved(key):
                raise ScenarioError("", place, f"{toml(key)} is now {new}")
            problem = f"{toml(key)} is no key of a scenario{similar(key, known)}"
            raise ScenarioError("", place, f"{problem}; allowed: dotted keys (`tacit keys`)")


def layout_of(file: ScenarioFile, known: Collection[str]) -> Layout:
    """The table of `file` at its scale. Raises ScenarioError, without a file's name, if its parts do not fit each
    other.

    `known`: the dotted keys that rows and columns may set.
    """
    table, scale = file.table, file.scale
    for kind, parts in (("row", table.row), ("column", table.column)):
        if not parts:
            raise ScenarioError("", f"table.{kind}", f"a table has at least one; allowed: [[table.{kind}]]")
    for number, row in enumerate(table.row):
        if row.paper and len(row.paper) != len(table.column):
            problem = f"{len(row.paper)} figures for {len(table.column)} columns; allowed: one for each, or none"
            raise ScenarioError("", f"table.row.{number}.paper", problem)
    rows = [(number, row) for number, row in enumerate(table.row) if row.only in ("", scale)]
    columns = [(number, column) for number, column in enumerate(table.column) if column.only in ("", scale)]
    layout = Layout(
        title=table.title,
        source=table.source,
        scale=scale,
        seeds=table.seeds,
        rows=_places("row", rows, scale, known),
        columns=_places("column", columns, scale, known),
        figures=tuple(tuple(row.paper[at] if row.paper else "" for at, _ in columns) for _, row in rows),
        paper_data=table.paper_data if scale == "small" else "",
        claims=tuple(_claims(table, [part for _, part in columns], [part for _, part in rows])),
    )
    for place in layout.rows:
        for other in layout.columns:
            _check_cell(place, other)
    return layout


def _places(kind: str, parts: Sequence[tuple[int, Part]], scale: str, known: Collection[str]) -> tuple[Place, ...]:
    places: list[Place] = []
    for number, part in parts:
        at = f"table.{kind}.{number}"
        sets = dict(flat(part.set, known, f"{at}.set"))
        paper = dict(flat(part.set_paper, known, f"{at}.set_paper"))
        full = scale == "paper"
        place = Place(
            label=part.label_paper if full and part.label_paper else part.label,
            group=part.group_paper if full and part.group_paper else part.group,
            paper="" if full else _papers(part),
            sets=tuple((sets | (paper if full else {})).items()),
            measure=part.measure,
            unit=part.unit,
        )
        if place.name in (other.name for other in places):
            raise ScenarioError("", f"{at}.label", f"{toml(place.name)} is there already; allowed: another label")
        field = part.measure.partition(".")[0]
        if field and field not in _FIELDS:
            problem = f"a result has no {toml(field)}{similar(field, _FIELDS)}"
            raise ScenarioError("", f"{at}.measure", f"{problem}; allowed: {', '.join(_FIELDS)}")
        places.append(place)
    return tuple(places)


_FIELDS = tuple(name for name in Result.__struct_encode_fields__ if name not in ("folder", "error"))


def _check_cell(row: Place, column: Place) -> None:
    names = f"row {toml(row.name)} and column {toml(column.name)}"
    if row.measure and column.measure:
        raise ScenarioError("", "table", f"{names} both have a measure; allowed: in one of them")
    for key, _ in row.sets:
        if key in dict(column.sets):
            raise ScenarioError("", "table", f"{names} both set {key}; allowed: in one of them")


def _claims(table: Table, columns: Sequence[Part], rows: Sequence[Part]) -> Iterator[Claim]:
    """Yield the claims of the table whose parts all exist at this scale."""
    every: dict[str, Sequence[Part]] = {"column": table.column, "row": table.row}
    for number, claim in enumerate(table.order):
        at = f"table.order.{number}"
        found = [_find(claim.above, every["column"]), _find(claim.below, every["column"])]
        of_columns = None not in found
        kind = "column" if of_columns else "row"
        own, others = (columns, rows) if of_columns else (rows, columns)
        other = "row" if of_columns else "column"
        pair = []
        for key in ("above", "below"):
            part = _find(getattr(claim, key), every[kind])
            if part is None:
                known = [_name(each) for each in (*every["column"], *every["row"])]
                label = getattr(claim, key)
                problem = f"{toml(label)} is no label, or that of several{similar(label, known)}; "
                raise ScenarioError("", f"{at}.{key}", f"{problem}allowed: two of one kind, of {', '.join(known)}")
            pair.append(part)
        wanted = []
        for label in claim.within:
            part = _find(label, every[other])
            if part is None:
                raise ScenarioError("", f"{at}.within", f"{toml(label)} is not the label of a {other}")
            wanted.append(part)
        if all(part in own for part in pair):
            within = tuple(place for place, part in enumerate(others) if not wanted or part in wanted)
            yield Claim(of_columns, own.index(pair[0]), own.index(pair[1]), within)


def _papers(part: Part) -> str:
    """The paper's name for the row or column; "" if it is the same as the label."""
    return f"{part.group_paper}: {part.label_paper or part.label}" if part.group_paper else part.label_paper


def _name(part: Part) -> str:
    return f"{part.group}: {part.label}" if part.group else part.label


def _find(name: str, parts: Sequence[Part]) -> Part | None:
    """The only row or column of that label, or of `GROUP: LABEL`; None if there is none or there are several."""
    found = [part for part in parts if _name(part) == name] or [part for part in parts if part.label == name]
    return found[0] if len(found) == 1 else None
