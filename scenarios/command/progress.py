"""The progress of a run, on a terminal only: round, step, messages, virtual clock, real time left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table

from scenarios.running.runner import Watch
from scenarios.running.simulation import Simulation
from sim.trace import Event
from sim.units import format_duration

__all__ = ["Progress"]

_SENT = frozenset(("send", "relay"))
_ENOUGH = 0.03


class Progress(Watch):
    """Shows one line, drawn eight times a second and erased at the end; nothing if there is no terminal.

    The estimate of the time left assumes that the rest of the announced computing is as fast as before.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._messages = 0
        self._began = time.perf_counter()
        self._done = 0.0  # in earlier parts of a resumed run
        self._spinner = Spinner("dots")

    def __call__(self, event: Event) -> None:
        self._messages += event.kind in _SENT

    @contextmanager
    def watching(self, simulation: Simulation) -> Iterator[None]:
        """Draw the line until the run ends."""
        if not self._console.is_terminal:
            yield
            return
        self._began, self._done = time.perf_counter(), simulation.done
        with Live(
            get_renderable=lambda: self._line(simulation),
            console=self._console,
            refresh_per_second=8,
            transient=True,
        ):
            yield

    def _line(self, simulation: Simulation) -> RenderableType:
        planned, done = simulation.planned, simulation.done
        line = Table.grid(padding=(0, 2))
        for shrinks in (False, False, False, False, True, False):  # in a narrow window the bar shrinks
            line.add_column(no_wrap=not shrinks)
        line.add_row(
            self._spinner,
            _place(simulation),
            f"{self._messages} messages",
            f"virtual {format_duration(simulation.now)}",
            ProgressBar(total=max(planned, 1e-9), completed=min(done, planned), width=16),
            self.left(planned, done),
        )
        return line

    def left(self, planned: float, done: float) -> str:
        """The real time left, in words; empty while too little is done for an estimate."""
        here = done - self._done
        if here < _ENOUGH * planned or here <= 0:
            return ""
        seconds = (time.perf_counter() - self._began) * max(planned - done, 0) / here
        return f"{format_duration(round(seconds))} left"


def _place(simulation: Simulation) -> str:
    """The step that the server is in, and the round if there are several."""
    (number, rounds), step = simulation.round, simulation.step or "starting"
    return f"round {number} of {rounds}  {step}" if rounds > 1 and number else step
