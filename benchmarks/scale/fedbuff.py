"""Training with stragglers, over virtual time: FedAvg, FedAvg that calls more clients than it needs, and FedBuff.

The scenario is `training-stragglers`: three of twelve clients take three times as long for everything. *Even* is FedAvg
without slow clients. All figures are virtual, and so equal on every machine: seconds per round (in FedBuff per filled
buffer), seconds until the model first has the target accuracy, the number of models averaged until then, and bytes of
the whole run. All runs are as long as the slowest of them needs.

tacit bench scale --only stragglers
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tacit.benchmarks.measure import environment, write_json
from tacit.protocols.federated.observer import TrainingObserver
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation

__all__ = ["Row", "main", "measure"]

_TARGET = 0.85
_QUICK = ("data.limit=360",)
_BUFFERED = ("protocol.name=fedbuff", "training.buffer=4", "training.rounds=75")
_WAYS: dict[str, tuple[str, ...]] = {
    "even": ("fault=[]",),
    "FedAvg": (),
    "FedAvg, 9 of 12": ("training.share=0.75", "training.extra=3", "training.rounds=30"),
    "FedBuff, K = 4": _BUFFERED,
    "FedBuff, K = 4, a = 0": (*_BUFFERED, "training.staleness=0.0"),
}


@dataclass(frozen=True)
class Row:
    """One run: `rounds`, virtual seconds of one round and of all, the time at which `target` was reached, and the
    models used.

    `until` and `models` are None if it was not reached. `accuracy` is that of the last model.
    """

    way: str
    rounds: int
    seconds_a_round: float
    seconds: float
    target: float
    until: float | None
    models: int | None
    accuracy: float
    bytes: int


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print a table, and write it to `json_file`."""
    console = make_console()
    rows = measure(quick)
    print_table(console, _table(rows))
    write_json(json_file, environment=environment(("torch", "numpy")), quick=quick, rows=rows)


def measure(quick: bool) -> list[Row]:
    """A row for each way; `quick`: with a quarter of the points, and half the target accuracy."""
    return [_row(way, (*changes, *(_QUICK if quick else ())), _TARGET / (1 + quick)) for way, changes in _WAYS.items()]


def _row(way: str, changes: tuple[str, ...], target: float) -> Row:
    with closing(Simulation(load("training-stragglers", changes), engine="inline")) as simulation:
        simulation.run()
    assert isinstance(simulation.observer, TrainingObserver)
    rounds, ended = simulation.observer.rounds, simulation.observer.ended
    accuracies = [one.accuracy or 0.0 for one in rounds]
    at = next((place for place, accuracy in enumerate(accuracies) if accuracy >= target), None)
    return Row(
        way=way,
        rounds=len(rounds),
        seconds_a_round=(ended[-1] - rounds[0].began) / len(rounds),
        seconds=ended[-1],
        target=target,
        until=None if at is None else ended[at],
        models=None if at is None else sum(len(one.averaged) for one in rounds[: at + 1]),
        accuracy=accuracies[-1],
        bytes=simulation.ledger.total("total"),
    )


def _table(rows: list[Row]) -> Table:
    columns = (
        "way",
        Column("rounds", kinds.COUNT),
        Column("s a round", kinds.decimals(3), "seconds_a_round"),
        Column("s", kinds.decimals(1), "seconds"),
        Column(f"s to {rows[0].target:g}", kinds.decimals(1), "until"),
        Column("models until then", kinds.COUNT, "models"),
        Column("accuracy", kinds.decimals(3)),
        Column("bytes", kinds.BYTES),
    )
    return Table.of(rows, columns, "Three of twelve clients three times as slow, virtual seconds", grouped=1)
