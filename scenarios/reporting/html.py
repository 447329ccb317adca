"""Makes HTML. All text that is not `Html` is escaped, because names, titles, errors and files are foreign text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from tacit.scenarios.console.kinds import Kind
from tacit.scenarios.console.table import Column, Quantity, Table
from tacit.sim.grammar import in_number

__all__ = [
    "Html", "details", "element", "facts", "join", "of_table", "quantity",
]  # fmt: skip


class Html(str):
    """Text that is HTML and must not be escaped."""

    __slots__ = ()


Content = str | None
Attribute = str | float | bool | None

_VOID = ("br", "col", "input", "meta")


def element(name: str, /, *content: Content, **attributes: Attribute) -> Html:
    """An element. `content` is escaped unless it is `Html`; None is left out.

    Attributes are written with ``-`` for ``_``, and ``class_`` as class. True gives an attribute without a value; False
    and None are left out.
    """
    shown = "".join(map(_attribute, attributes.items()))
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(content)}</{name}>")


def _attribute(pair: tuple[str, Attribute]) -> str:
    name, value = pair[0].rstrip("_").replace("_", "-"), pair[1]
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def join(content: Iterable[Content], between: str = "") -> Html:
    """All of `content`, joined by `between`."""
    texts = (one if isinstance(one, Html) else escape(one) for one in content if one is not None)
    return Html(between.join(texts))


def quantity(value: Any, kind: Kind, name: str = "") -> Html:
    """A figure as its `kind` shows it, with its exact value for programs that read the page, under a `name`."""
    exact = str(value) if isinstance(value, int) else repr(float(value))
    shown = kind.show(value)
    title = f"{value:,} {kind.unit}" if kind.unit and isinstance(value, int) else f"{exact} {kind.unit}".rstrip()
    return element("data", shown, value=exact, data_name=name or None, title=title if title != shown else None)


def of_table(made: Table, title: str = "", *, marked: int | None = None) -> Html:
    """A table. The first cell of a row is its heading, and columns of numbers are right-aligned.

    `title` describes the table for screen readers, by default with its own title; the row number `marked` is
    highlighted. Cells that are `Html` stay as they are.
    """
    title = title or made.title
    sides = ["n" if column.kind.numbers else None for column in made.columns]

    def line(row: Sequence[Any], is_marked: bool = False) -> Html:
        cells = [
            element("th" if not at else "td", _cell(column, value), scope="row" if not at else None, class_=side)
            for at, (column, value, side) in enumerate(zip(made.columns, row, sides, strict=True))
        ]
        return element("tr", *cells, class_="marked" if is_marked else None)

    heads = (
        element("th", _broken(column.heading), scope="col", class_=side)
        for column, side in zip(made.columns, sides, strict=True)
    )
    found = [
        element("caption", title, class_="unseen"),
        element("thead", element("tr", *heads)),
        element("tbody", *(line(row, at == marked) for at, row in enumerate(made.rows))),
        *([element("tfoot", *map(line, made.sums))] if made.sums else []),
    ]
    return element("div", element("table", *found), class_="scroll", role="region", aria_label=title)


def _cell(column: Column, value: Any) -> Html:
    """A value of a column; a number is followed by its exact value."""
    if isinstance(value, Quantity):
        own = column if value.kind is None else replace(column, kind=value.kind)
        return join([_cell(own, value.value), value.remark])
    if column.kind.numbers and isinstance(value, int | float):
        return quantity(value, column.kind)
    return _broken(column.text(value))


def _broken(text: str) -> Html:
    """Text whose line feeds are line breaks; HTML unchanged."""
    return text if isinstance(text, Html) else join(text.split("\n"), "<br>")


def facts(pairs: Iterable[tuple[str, str]], class_: str = "facts") -> Html:
    """Names with their values, as a description list."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", what)) for name, what in pairs), class_=class_
    )


def details(summary: str, *content: Content, opened: bool = False, printed: bool = True) -> Html:
    """A section that opens on demand, and is always open in print unless it is too wide for paper."""
    class_ = None if printed else "screen"
    return element("details", element("summary", in_number(summary)), *content, open=opened, class_=class_)
