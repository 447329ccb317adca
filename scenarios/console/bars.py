"""The progress of long work before a run: a bar on a terminal, otherwise a line every few seconds."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tacit.parties.datasets.content import Report

__all__ = ["shown"]

_SECONDS_A_LINE = 5.0
"""The fewest seconds between two lines of progress if the output is no terminal."""


@contextlib.contextmanager
def shown(console: Console, name: str) -> Iterator[Report]:
    """Yield a function that shows the progress of `name`: as a bar on a terminal, otherwise in lines."""
    if not console.is_terminal:
        yield _Lines(console, name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[share]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(name, total=None, share="", visible=False)

        def show(what: str, done: int, total: int) -> None:
            share = f"{100 * done // total} %" if total else ""
            bars.update(
                task, description=f"{name}: {what}", completed=done, total=total or None, share=share, visible=True
            )

        yield show


class _Lines:
    """Prints each piece of work when it begins, and its progress every few seconds."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._what, self._said = "", 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if what == self._what and now - self._said < _SECONDS_A_LINE:
            return
        share = f" {100 * done // total} %" if total and what == self._what else ""
        self._what, self._said = what, now
        self._console.print(f"{self._name}: {what}{share}", markup=False, soft_wrap=True)
