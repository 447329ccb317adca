"""The progress of a run: round, step, accuracy, bytes, virtual clock, awaited parties, real time left."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.console.printing import print_lines
from tacit.scenarios.running.runner import Watch
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.trace import Event
from tacit.sim.units import format_bytes, format_duration

__all__ = ["Progress"]

_SENT = frozenset(("send", "relay"))
_ENOUGH = 0.03

_NAMES = 3
"""The most awaited parties that are named."""

_BAR = 8
"""The width of the progress bar of computations."""

_SECONDS_A_LINE = 10.0
"""The real seconds between two lines if the output is no terminal."""


class Progress(Watch):
    """Shows one line, drawn eight times a second and erased at the end; without a terminal a new line every 10 seconds.

    The estimate of the time left assumes that the remaining announced work is as fast as before. `wait` waits for a
    number of seconds, or until the run has ended, and returns true if it has.
    """

    def __init__(self, console: Console, wait: Callable[[float], bool] | None = None) -> None:
        self._console = console
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._bytes = 0
        self._score, self._scored = ACCURACY, math.nan
        self._began = time.perf_counter()
        self._done = 0.0  # work done before the run was resumed
        self._spinner = Spinner("dots")

    def __call__(self, event: Event) -> None:
        if event.kind in _SENT:
            self._bytes += event.payload + event.sealing + event.envelope
        elif event.kind == "metric" and event.note == self._score and not event.fact:
            self._scored = event.value

    @contextmanager
    def watching(self, simulation: Simulation) -> Iterator[None]:
        """Show the progress until the run ends."""
        self._began, self._done = time.perf_counter(), simulation.done
        self._score = simulation.score
        self._bytes = sum(row.payload + row.sealing + row.envelope for row in simulation.ledger.rows())
        if self._console.is_terminal:
            with Live(
                get_renderable=lambda: self._drawn(simulation),
                console=self._console,
                refresh_per_second=8,
                transient=True,
            ):
                yield
            return
        printer = threading.Thread(target=self._print, args=(simulation,), name="progress", daemon=True)
        printer.start()
        try:
            yield
        finally:
            self._ended.set()
            printer.join()

    def _print(self, simulation: Simulation) -> None:
        while not self._wait(_SECONDS_A_LINE):
            passed = format_duration(round(time.perf_counter() - self._began))
            parts = [f"{passed} passed", *self._parts(simulation), self.time_left(simulation.planned, simulation.done)]
            print_lines(self._console, ["progress  " + ", ".join(filter(None, parts))])
            self._console.file.flush()

    def _parts(self, simulation: Simulation) -> list[str]:
        names = simulation.waits_for
        awaited = ", ".join(names) if len(names) <= _NAMES else f"{len(names)} parties"
        number, rounds = simulation.round
        return [
            f"round {number} of {rounds}" if rounds > 1 and number else "",
            simulation.step or "starting",
            "" if math.isnan(self._scored) else f"{self._score} {self._scored:.3f}",
            f"{format_bytes(self._bytes)} sent",
            f"virtual {format_duration(simulation.now)}",
            f"waits for {awaited}" if awaited else "",
        ]

    def _drawn(self, simulation: Simulation) -> RenderableType:
        planned, done = simulation.planned, simulation.done
        left = self.time_left(planned, done)
        line = Table.grid(padding=(0, 2))
        for width in (1, None, _BAR, len(left)):  # only the text may wrap in a narrow window
            line.add_column(width=width, no_wrap=width is not None)
        bar = ProgressBar(total=max(planned, 1e-9), completed=min(done, planned), width=_BAR)
        line.add_row(self._spinner, Text("  ".join(filter(None, self._parts(simulation)))), bar, left)
        return line

    def time_left(self, planned: float, done: float) -> str:
        """The estimated real time left, in words; "" if too little is done for an estimate, or all planned work is
        done."""
        here = done - self._done
        if here < _ENOUGH * planned or here <= 0:
            return ""
        seconds = round((time.perf_counter() - self._began) * max(planned - done, 0) / here)
        return f"{format_duration(seconds)} left" if seconds else ""
