"""One cell of a training table at the paper's scale, on the device there is: rounds per second, and memory.

The cell is that of the table's scenario file: its settings at ``scale = "paper"``, and those of its row and column.
Only the number of rounds is changed, and with it, in proportion, the two stages of the run (labels alone, then
pseudo-labels) and the decay of the learning rate. Models are tested at least three times, and a checkpoint is written
after each hundredth of the run. By default the run has 1,500 rounds on a GPU, and a hundredth of them on a processor.

The run's folder is an ordinary one: a run that was stopped, by its time limit, Ctrl-C or the end of the machine,
continues from its last checkpoint here or by `tacit run --resume`. On a processor it then has the trace of an
uninterrupted run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tacit.benchmarks.measure import environment, write_json
from tacit.parties.learning import jobs
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.command import stopping
from tacit.scenarios.console.printing import make_console, print_lines
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.files.table_layout import Place
from tacit.scenarios.running import runner
from tacit.scenarios.running.checkpoint import check_unfinished, read_checkpoint
from tacit.scenarios.running.folder import Result
from tacit.scenarios.running.outlook import cautions
from tacit.scenarios.running.prediction import peak_memory
from tacit.scenarios.running.runner import Watch
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.keys import similar
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, Training
from tacit.sim.grammar import Labelled
from tacit.sim.trace import Event
from tacit.sim.units import format_bytes, format_duration

__all__ = ["ROUNDS", "ROW", "TABLE", "Cell", "Stage", "cell_of", "main", "resume", "shortened"]

TABLE, ROW = "training-cifar10-iid", "FedAvg+XCLP"
"""The table and its row by default; the column is the first one."""

ROUNDS = 1500
"""The rounds on a GPU by default."""

_HUNDREDTH = 100
"""The number of checkpoints in a run, and by what the rounds are divided on a processor."""

_QUICK = ("scale=small", "data.name=digits", "data.features=identity")
_QUICK_ROUNDS = 10

_SECONDS_A_LINE = 10.0
"""The least wall-clock seconds between two lines of progress."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what is run, the names of its row and column, and the figure that the paper prints for it.

    `rounds` and `label_from` are the cell's own, before they were shortened. `figure` is "" if there is none, or
    at the small scale. `hundredth`: it has a hundredth of the rounds, for want of a GPU.
    """

    loaded: Loaded
    row: str
    column: str
    figure: str
    rounds: int
    label_from: int
    hundredth: bool


@dataclass
class Stage:
    """The `rounds` of a stage of the run that this command has run, and the wall-clock `seconds` that they took."""

    name: str
    rounds: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Rounds per second; 0 without a round."""
        return self.rounds / self.seconds if self.seconds else 0.0


def main(
    table: str = TABLE,
    row: str = ROW,
    column: str = "",
    rounds: int | None = None,
    minutes: float | None = None,
    changes: Sequence[str] = (),
    seed: int | None = None,
    quick: bool = False,
    out: Path | None = None,
    json_file: Path | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Run the cell, print its progress and result, write the figures to `json_file`, and return the exit code.

    `minutes`: the wall-clock time after which no further checkpoint is waited for. Raises ScenarioError.
    """
    began, console = clock(), make_console()
    cell = cell_of(table, row, column, rounds, changes, seed, quick=quick)
    scenario = cell.loaded.scenario
    _introduce(console, scenario)
    lines = [Labelled("cell", f"{cell.rounds:,} rounds{_labels_from(scenario, cell.label_from)}")]
    if cell.figure:
        lines.append(Labelled("paper", f"{cell.figure} % accuracy in this cell, with all of its rounds"))
    if cell.hundredth:
        lines.append(Labelled("note", f"no GPU: a hundredth of {ROUNDS:,} rounds; --rounds N for another number"))
    print_lines(console, lines)
    watch = _Rounds(console, scenario, minutes, began, clock)
    stopping.interrupt_work()
    result = runner.carry_out(scenario, cell.loaded.name, out=out, watch=watch)
    return _conclude(console, scenario, result, watch, json_file)


def resume(
    folder: Path,
    minutes: float | None = None,
    json_file: Path | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Continue the run in `folder`, print, write and return the same as `main`. Raises FolderError."""
    began, console = clock(), make_console()
    check_unfinished(folder)
    scenario = read(folder).scenario
    _introduce(console, scenario)
    watch = _Rounds(console, scenario, minutes, began, clock)
    stopping.interrupt_work()
    result = runner.resume(folder, watch=watch)
    return _conclude(console, scenario, result, watch, json_file)


# The cell


def cell_of(
    table: str, row: str, column: str, rounds: int | None, changes: Sequence[str], seed: int | None = None,
    *, quick: bool = False,
) -> Cell:  # fmt: skip
    """The cell in `row` and `column` ("": the first one) of the table in the scenario file `table`.

    `rounds`: None for those that the device there is allows. `changes` are texts in the form of ``--set``. Raises
    ScenarioError if the file has no such cell, or if a change is of a key that the cell or the rounds set.
    """
    asked = [*(_QUICK if quick else ("scale=paper",)), *changes]
    layout = read(table, asked, seed=seed, without_data=True).layout
    if layout is None:
        raise ScenarioError(table, "table", "this file has no table; allowed: a scenario with [table] (`tacit list`)")
    given = [change.partition("=")[0].strip() for change in changes]
    for key in given:
        layout.check_change(key)
    if "training.rounds" in given:
        raise ScenarioError("--set", "training.rounds", "would leave the stages as they are; allowed: --rounds N")
    places = _place("row", row, layout.rows), _place("column", column, layout.columns) if column else 0
    sets = layout.sets(*places)
    whole = read(table, asked, seed=seed, cell=sets).scenario
    hundredth = rounds is None and not quick and _device(whole) == "cpu"
    if rounds is None:
        rounds = _QUICK_ROUNDS if quick else ROUNDS // _HUNDREDTH if hundredth else ROUNDS
    shorter = {key: value for key, value in shortened(whole.training, rounds).items() if key not in given}
    names = layout.rows[places[0]].name, layout.columns[places[1]].name
    title = {"title": "; ".join(filter(None, (layout.title or whole.title, *names)))}
    loaded = read(table, asked, seed=seed, cell=sets | shorter | title)
    own = whole.training
    figure = layout.figures[places[0]][places[1]] if layout.scale == "paper" else ""
    return Cell(loaded, *names, figure, own.rounds, own.label_from, hundredth)


def _place(kind: str, name: str, places: Sequence[Place]) -> int:
    names = [place.name for place in places]
    if name not in names:
        problem = f"the table has no {kind} {name!r}{similar(name, names)}; allowed: {', '.join(names)}"
        raise ScenarioError(f"--{kind}", "", problem)
    return names.index(name)


def shortened(training: Training, rounds: int) -> dict[str, Any]:
    """The dotted keys, with their values, of a run of `rounds` rounds (>= 1) that is otherwise as `training` says.

    Pseudo-labels begin, and the learning rate decays, after the same share of the rounds. Models are tested as often
    as in `training`, or after each third of the run, and a checkpoint is written at least after each hundredth.
    """
    own, hundredth = training.rounds, max(1, rounds // _HUNDREDTH)
    return {
        "training.rounds": rounds,
        "training.label_from": 1 + (training.label_from - 1) * rounds // own,
        "training.decay_rounds": -(-training.decay_rounds * rounds // own),
        "training.evaluate_every": min(training.evaluate_every, max(1, rounds // 3)),
        "training.checkpoint_every": min(training.checkpoint_every or hundredth, hundredth),
    }


# What is printed


class _Rounds(Watch):
    """Prints the rounds per second and the memory while a run goes on, and ends it at a checkpoint once time is up.

    The run is ended if another part of it up to the next checkpoint would, by the last part, last beyond `minutes`
    after `began`. `stopped` says so.
    """

    def __init__(
        self, console: Console, scenario: Scenario, minutes: float | None, began: float, clock: Callable[[], float]
    ) -> None:
        labels = _has_pseudo_labels(scenario)
        self.stages = (
            [Stage("rounds on labels alone"), Stage("rounds with pseudo-labels")] if labels else [Stage("rounds")]
        )
        self.first = self.last = 0
        self.stopped = ""
        self._console, self._scenario, self._clock = console, scenario, clock
        self._until = None if minutes is None else began + 60 * minutes
        self._minutes = minutes
        self._accuracy: float | None = None
        self._now = self._shown = self._stored = clock()
        self._shown_round = 0

    def __call__(self, event: Event) -> None:
        if event.kind == "metric" and event.note == "accuracy":
            self._accuracy = event.value

    @contextmanager
    def watching(self, simulation: Simulation) -> Iterator[None]:
        """Count the rounds until the run ends."""
        simulation.server.observers.append(lambda record: self._ended(record.number))
        self._now = self._shown = self._stored = self._clock()
        yield

    def _ended(self, number: int) -> None:
        training, now = self._scenario.training, self._clock()
        if not self.first:
            self.first, self._shown_round = number, number - 1
        stage = self.stages[-1 if number >= training.label_from else 0]
        stage.rounds, stage.seconds, self.last = stage.rounds + 1, stage.seconds + now - self._now, number
        self._now = now
        if number in (self.first, training.rounds) or now - self._shown >= _SECONDS_A_LINE:
            self._show(number, stage.name)
        if training.checkpoint_every and number % training.checkpoint_every == 0:
            took, self._stored = now - self._stored, now
            if self._until is not None and now + took > self._until and number < training.rounds:
                self.stopped = f"after round {number} of {training.rounds:,}, by --minutes {self._minutes:g}"
                raise KeyboardInterrupt(f"stopped {self.stopped}")

    def _show(self, number: int, stage: str) -> None:
        rate = (number - self._shown_round) / max(self._now - self._shown, 1e-9)
        parts = [
            f"{number:,} of {self._scenario.training.rounds:,} {stage}",
            f"{rate:.3g} rounds/s",
            "" if self._accuracy is None else f"accuracy {self._accuracy:.3f}",
            _memory_in_words(self._scenario),
        ]
        print_lines(self._console, [Labelled("round", ", ".join(filter(None, parts)))])
        self._console.file.flush()
        self._shown, self._shown_round = self._now, number


def _introduce(console: Console, scenario: Scenario) -> None:
    training = scenario.training
    rounds = f"{training.rounds:,} rounds{_labels_from(scenario, training.label_from)}"
    print_lines(
        console,
        [
            f"{scenario.title}   (seed {scenario.seed})",
            *(Labelled("WARNING", line, warns=True) for line in cautions(scenario)),
            Labelled("data", f"{scenario.data.name}, {scenario.data.clients:,} clients"),
            Labelled("device", _device(scenario)),
            Labelled("run", f"{rounds}, a checkpoint every {training.checkpoint_every}"),
        ],
    )


def _labels_from(scenario: Scenario, number: int) -> str:
    """The words for pseudo-labels from round `number` on; "" if the protocol has none."""
    return f", from round {number:,} on with pseudo-labels" if _has_pseudo_labels(scenario) else ""


def _has_pseudo_labels(scenario: Scenario) -> bool:
    return "training.label_from" in PROTOCOLS[scenario.protocol.name].uses


def _device(scenario: Scenario) -> str:
    """The device on which the networks run: ``cpu``, or a GPU's name."""
    return jobs.choose_device(scenario.training.device)


def _device_memory(scenario: Scenario) -> int | None:
    """The most bytes of the GPU that this process has taken so far; None if the networks run on the processor."""
    if _device(scenario) == "cpu":
        return None
    from tacit.parties.learning.backend import torch

    return int(torch.cuda.max_memory_reserved())


def _memory_in_words(scenario: Scenario) -> str:
    on_device = _device_memory(scenario)
    found = f"{format_bytes(peak_memory())} of memory at most"
    return found if on_device is None else f"{found}, {format_bytes(on_device)} of the GPU's"


def _conclude(console: Console, scenario: Scenario, result: Result, watch: _Rounds, json_file: Path | None) -> int:
    stages = [stage for stage in watch.stages if stage.rounds]
    for stage in stages:
        rate = f"{stage.rounds:,} {stage.name} in {format_duration(stage.seconds)}: {stage.rate:.3g} rounds/s"
        print_lines(console, [Labelled("measured", rate)])
    print_lines(console, [Labelled("memory", _memory_in_words(scenario))])
    if result.outcome == "interrupted":
        found = read_checkpoint(result.folder)
        kept = f"from round {found.round + 1:,} on" if found else "from its beginning, as it has no checkpoint yet"
        how = f"tacit bench paper-scale --resume {result.folder}   ({kept}; or tacit run --resume {result.folder})"
        lines = [Labelled("stopped", watch.stopped or result.reason), Labelled("resume", how)]
    else:
        accuracy = "" if result.accuracy is None else f", accuracy {100 * result.accuracy:.2f} %"
        best = (
            f", {100 * result.accuracy_selected:.2f} % in the best round by validation, {result.selected_round}"
            if result.accuracy_selected is not None
            else ""
        )
        reason = f": {result.reason}" if result.reason else ""
        lines = [Labelled("outcome", f"{result.outcome}{reason}{accuracy}{best}")]
        lines += [Labelled("", line, warns=True) for line in result.unmet]
    print_lines(console, [*lines, Labelled("folder", str(result.folder))])
    write_json(
        json_file, environment=environment(("torch", "numpy")), device=_device(scenario), title=scenario.title,
        rounds=scenario.training.rounds, label_from=scenario.training.label_from, first=watch.first, last=watch.last,
        stages=stages, memory=peak_memory(), device_memory=_device_memory(scenario), outcome=result.outcome,
        accuracy=result.accuracy, trace_hash=result.trace_hash, folder=str(result.folder),
    )  # fmt: skip
    return 0 if watch.stopped else runner.exit_code(result, scenario.expect)
