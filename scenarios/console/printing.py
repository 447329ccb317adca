"""Tables and lines that are readable on a terminal and in a file."""

import itertools
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from tacit.scenarios.console.table import Table
from tacit.sim.grammar import in_number

__all__ = ["Printed", "asked_width", "make_console", "print_lines", "print_table", "visible", "write_text"]

_PLAIN_WIDTH = 120
"""The width of a terminal that reports none, and without a terminal that of a table whose content is not wider."""

_PLAIN_HEIGHT = 25
"""The height of a terminal that reports none."""

_ANY_WIDTH = 10_000
"""The width of a console without a terminal, so that tables with longer lines are printed whole."""

_WORD = 20
"""The length from which a word may be broken if a table is too wide."""

_AT_ONCE = 1000
"""The number of lines printed at a time; printing them one by one takes forty microseconds each."""

_GAP = 3
"""The number of characters between two columns."""

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
"""The control characters, with which a terminal would change its colours, its title or what it shows already."""


def make_console(stderr: bool = False) -> Console:
    """Make a console as wide as COLUMNS or the terminal; a file gets plain text, and tables of their full width."""
    file = sys.stderr if stderr else sys.stdout
    if file.isatty():  # rich takes a terminal without cursor movements (TERM=dumb) to be 80 wide
        size = os.get_terminal_size(file.fileno())
        width, height = asked_width() or size.columns or _PLAIN_WIDTH, size.lines or _PLAIN_HEIGHT
        return Console(file=file, highlight=False, width=width, height=height)
    return Console(
        file=file, highlight=False, width=_ANY_WIDTH, force_terminal=False, force_jupyter=False, no_color=True
    )


def asked_width() -> int | None:
    """The width in the environment variable COLUMNS; None without one."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isascii() and asked.isdigit() and int(asked) else None


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines of prose as they are: without wrapping, cutting or markup."""
    every = iter(lines)
    while some := list(itertools.islice(every, _AT_ONCE)):
        console.print(Text(visible("\n".join(some))), soft_wrap=True)


def visible(text: str) -> str:
    """Return `text` with counted nouns in the right number, and with its control characters escaped.

    Names and reasons may come from plugins and other machines.
    """
    return in_number(text.translate(_ESCAPED))


def write_text(console: Console, path: Path, text: str) -> None:
    """Write `text` to the file `path`; to the console, as it is, if that is "-"."""
    if str(path) == "-":
        console.file.write(text)
    else:
        path.write_text(text, encoding="utf-8")


class Printed:
    """A table on a terminal or in a file, in which no figure is ever cut.

    Columns of numbers are right-aligned, and their cells stand on one line. The first column has names, whose words
    stay whole. On a terminal that is too narrow for the longest words and numbers, columns with a priority are left
    out, the lowest first, and a line below names them. If that is not enough, each row becomes a block of lines. In a
    file or a pipe the table has its full width, unless COLUMNS is set.
    """

    def __init__(self, made: Table) -> None:
        self._title, self._columns = made.title, made.columns
        self._heads = made.headings
        self._rows = [tuple(map(visible, row)) for row in made.texts()]
        starts = made.begins_group() if made.grouped else []
        lines = {at for at, begins in enumerate(starts) if begins} | made.sections | {len(made.rows)}
        self._lines_below = lines - {0, len(self._rows)}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        least = [self._least(place) for place in range(len(self._columns))]
        left = list(range(len(self._columns)))
        width = options.max_width if console.is_terminal else asked_width() or max(_PLAIN_WIDTH, _total(least))
        spare = [(column.priority, place) for place, column in enumerate(self._columns) if column.priority is not None]
        for _, place in sorted(spare):
            if _total(least[one] for one in left) > width:
                left.remove(place)
        if self._title:
            yield Text(self._title, style="italic")
        if _total(least[place] for place in left) > width:
            yield from self._stacked(width)
            return
        yield self._laid_out(left, least, width)
        if len(left) < len(self._columns):
            gone = ", ".join(" ".join(one.split()) for place, one in enumerate(self._heads) if place not in left)
            line = f"Columns left out, for which there is no room: {gone}."
            yield Text("\n".join(textwrap.wrap(line, width)))

    def _cells(self, place: int) -> list[str]:
        return [row[place] for row in self._rows]

    def _least(self, place: int) -> int:
        """The smallest width in characters of the column at `place`."""
        heads = [len(word) for word in self._heads[place].split()]
        if self._columns[place].kind.numbers:
            return max([*heads, *(len(line) for cell in self._cells(place) for line in cell.split("\n"))], default=1)
        words = [len(word) for cell in self._cells(place) for word in cell.split()]
        return max([*heads, *(min(word, _WORD) if place else word for word in words), 1])

    def _laid_out(self, left: Sequence[int], least: Sequence[int], width: int) -> RichTable:
        widths = {}
        for place in left:
            lines = [line for cell in (self._heads[place], *self._cells(place)) for line in cell.split("\n")]
            widths[place] = max(least[place], *map(len, lines))
        while _total(widths.values()) > width:  # narrow the widest column that still may be narrowed
            widest = max((place for place in left if widths[place] > least[place]), key=lambda place: widths[place])
            widths[widest] -= 1
        found = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
        for place in left:
            side: JustifyMethod = "right" if self._columns[place].kind.numbers else "left"
            found.add_column(Text(self._heads[place]), width=widths[place], justify=side, overflow="fold")
        for number, row in enumerate(self._rows, 1):
            found.add_row(*(Text(row[place]) for place in left), end_section=number in self._lines_below)
        return found

    def _stacked(self, width: int) -> Iterator[Text]:
        names = [" ".join(head.split()) for head in self._heads]
        places = [place for place, column in enumerate(self._columns) if column.kind.numbers]
        figures = [len(row[place]) for row in self._rows for place in places]
        head = max(map(len, names)) + 2
        beside = head + max([_WORD, *figures]) <= width
        for number, row in enumerate(self._rows):
            if number:
                yield Text()
            for name, cell in zip(names, row, strict=True):
                if cell:
                    lines = textwrap.wrap(" ".join(cell.split()), width - (head if beside else 2)) or [""]
                    if beside:
                        lines[0] = f"{name:<{head}}{lines[0]}"
                    else:
                        lines.insert(0, name)
                    yield Text(("\n" + " " * (head if beside else 2)).join(lines))


def _total(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + _GAP * (len(found) - 1)


def print_table(console: Console, made: Table) -> None:
    """Print a table as wide as the terminal allows."""
    console.print(Printed(made))
