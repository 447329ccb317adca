"""Tables and lines that can be read on a terminal and in a file alike."""

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["make_console", "print_lines", "table"]

_PLAIN_WIDTH = 120
"""The width where the output is no terminal: a table must not depend on the window that happens to be open."""

_WORD = 20
"""Words longer than this may be broken if a table is too wide."""


def make_console(stderr: bool = False) -> Console:
    """A console with the width of a terminal; anything else gets plain text of a fixed width."""
    file = sys.stderr if stderr else sys.stdout
    if file.isatty():
        return Console(file=file, highlight=False)
    return Console(
        file=file, highlight=False, width=_PLAIN_WIDTH, force_terminal=False, force_jupyter=False, no_color=True
    )


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print prose, which is never cut or wrapped here and has no markup."""
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = (), title: str | None = None
) -> Table:
    """A plain table; the columns named in `numbers` are right-aligned."""
    result = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1)
    )
    lines = [columns, *rows]
    for place, column in enumerate(columns):
        right = column in numbers
        words = (len(word) for line in lines for word in line[place].split())
        least = max((length for length in words if length <= _WORD), default=0)
        result.add_column(column, justify="right" if right else "left", min_width=least, no_wrap=right, overflow="fold")
    for row in lines[1:]:
        result.add_row(*(Text(cell) for cell in row))
    return result
