"""The progress of a run: a line on a terminal, and otherwise a new line every few seconds."""

import io
import queue
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tacit import load, run
from tacit.scenarios.command.progress import Progress
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.trace import Event
from tacit.sim.units import format_bytes, format_duration


class Looked(Progress):
    """A progress whose clock advances with each message that the server gets, by the time that it waits."""

    def __init__(self) -> None:
        self.asked: queue.Queue[float] = queue.Queue()
        self.passed: queue.Queue[bool] = queue.Queue()
        self.sent = 0
        self.known: list[tuple[str, str]] = []
        self.file = io.StringIO()
        super().__init__(Console(file=self.file, force_terminal=False), self.wait)

    def wait(self, seconds: float) -> bool:
        self.asked.put(seconds)
        return self.passed.get(timeout=60)

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event.kind in ("send", "relay"):
            self.sent += event.payload + event.sealing + event.envelope
        if event.kind == "deliver" and event.receiver == "server":
            assert self.asked.get(timeout=60) == 10.0
            self.known.append((format_bytes(self.sent), format_duration(event.time)))
            self.passed.put(False)
            self.asked.put(self.asked.get(timeout=60))  # the line has been printed

    @contextmanager
    def watching(self, simulation: Simulation) -> Iterator[None]:
        with super().watching(simulation):
            try:
                yield
            finally:
                self.passed.put(True)


def test_without_a_terminal_a_line_is_printed_every_ten_seconds(tiny: Path, tmp_path: Path) -> None:
    progress = Looked()
    result = run(load(tiny, ["protocol.name=fedavg"]), out=tmp_path / "run", watch=progress)
    lines = progress.file.getvalue().splitlines()
    assert result.outcome == "completed" and len(lines) == len(progress.known)
    for line, (sent, now) in zip(lines, progress.known, strict=True):
        assert (
            re.match(r"progress  \d+ s passed, (round [12] of 2, )?train\.", line)
            and f", {sent} sent, virtual {now}" in line
        )
    waits = [re.search(r"round 2 .* waits for (client/\d[^s]*|4 parties)(?:, \d+ s left)?$", line) for line in lines]
    assert [found[1] for found in waits if found] == [
        "4 parties", "client/1, client/2, client/3", "client/2, client/3", "client/3",
    ]  # fmt: skip
    first, second = (f"accuracy {row['accuracy']:.3f}" for row in result.frame("rounds").to_dict("records"))
    assert all(("accuracy" in line) == ("round 2" in line) for line in lines)
    assert first in lines[-1] and first != second


def test_a_terminal_shows_the_progress_in_one_line(tiny: Path, tmp_path: Path) -> None:
    shown: list[str] = []

    class Drawn(Progress):
        def __init__(self) -> None:
            super().__init__(Console(file=io.StringIO(), width=150, force_terminal=True))

        @contextmanager
        def watching(self, simulation: Simulation) -> Iterator[None]:
            with super().watching(simulation):
                self.simulation = simulation
                yield

        def __call__(self, event: Event) -> None:
            super().__call__(event)
            if event.kind == "deliver" and event.receiver == "server":
                page = io.StringIO()
                Console(file=page, width=150).print(self._drawn(self.simulation))
                shown.append(page.getvalue())

    assert run(load(tiny, ["protocol.name=fedavg"]), out=tmp_path / "run", watch=Drawn()).outcome == "completed"
    assert all(line.count("\n") == 1 for line in shown)
    assert re.search(
        r"round 2 of 2  train\.\w+  accuracy 0\.\d{3}  [\d.]+ kB sent  virtual .*s  waits for client/3 ", shown[-1]
    )


def test_no_time_left_is_shown_once_the_planned_work_is_done() -> None:
    progress = Progress(Console(file=io.StringIO()))
    assert progress.time_left(100.0, 100.0) == progress.time_left(100.0, 130.0) == progress.time_left(100.0, 1.0) == ""
