"""Makes HTML. All text that is not `Html` is escaped, because names, titles, errors and files are foreign text."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import SupportsFloat

from tacit.scenarios.console.printing import Table
from tacit.sim.grammar import in_number
from tacit.sim.units import format_bytes, format_duration

__all__ = ["Html", "bytes_of", "details", "element", "facts", "join", "number", "of_table", "seconds_of", "table"]


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


def number(value: SupportsFloat | None, shown: str, name: str = "") -> Html:
    """A figure as `shown`, with its exact `value` for programs that read the page, under a `name`."""
    if value is None:
        return Html(escape(shown))
    exact = str(value) if isinstance(value, int) else repr(float(value))
    return element("data", shown, value=exact, data_name=name or None, title=exact if exact != shown else None)


def bytes_of(count: int, name: str = "") -> Html:
    """A number of bytes, as ``57.7 MB``."""
    return element("data", format_bytes(count), value=str(count), data_name=name or None, title=f"{count:,} bytes")


def seconds_of(seconds: float, name: str = "") -> Html:
    """A duration, as ``1 min 16 s``."""
    exact = repr(float(seconds))
    return element("data", format_duration(seconds), value=exact, data_name=name or None, title=f"{exact} s")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[str] = (),
    *,
    title: str,
    sums: Iterable[Sequence[str]] = (),
    marked: int | None = None,
) -> Html:
    """A table. The first cell of a row is its heading, and the columns in `numbers` are right-aligned.

    `title` describes the table for screen readers; `sums` are rows at the end; the row number `marked` is highlighted.
    """
    sides = ["n" if column in numbers else None for column in columns]

    def lines(group: Iterable[Sequence[str]], mark: int | None = None) -> Iterable[Html]:
        for place, row in enumerate(group):
            cells = [
                element("th" if not i else "td", _broken(cell), scope="row" if not i else None, class_=side)
                for i, (cell, side) in enumerate(zip(row, sides, strict=True))
            ]
            yield element("tr", *cells, class_="marked" if place == mark else None)

    heads = (
        element("th", _broken(column), scope="col", class_=side) for column, side in zip(columns, sides, strict=True)
    )
    found = [
        element("caption", title, class_="unseen"),
        element("thead", element("tr", *heads)),
        element("tbody", *lines(rows, marked)),
        *([element("tfoot", *ends)] if (ends := list(lines(sums))) else []),
    ]
    return element("div", element("table", *found), class_="scroll", role="region", aria_label=title)


def _broken(text: str) -> Html:
    """Text whose line feeds are line breaks; HTML unchanged."""
    return text if isinstance(text, Html) else join(text.split("\n"), "<br>")


def of_table(printed: Table, title: str) -> Html:
    """A table that was made for the terminal; the rows below its last line are sums."""
    last = printed.sections[-1] if printed.sections else len(printed.rows)
    numbers = sorted(printed.numbers)
    return table(printed.columns, printed.rows[:last], numbers, title=title, sums=printed.rows[last:])


def facts(pairs: Iterable[tuple[str, str]], class_: str = "facts") -> Html:
    """Names with their values, as a description list."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", what)) for name, what in pairs), class_=class_
    )


def details(summary: str, *content: Content, opened: bool = False, printed: bool = True) -> Html:
    """A section that opens on demand, and is always open in print unless it is too wide for paper."""
    class_ = None if printed else "screen"
    return element("details", element("summary", in_number(summary)), *content, open=opened, class_=class_)
