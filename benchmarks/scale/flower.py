"""Flower apps on Tacit's network: rounds per second, and Flower's SecAgg+ with a dropout compared with Tacit's secure
sums.

Times are wall-clock times of this process. The first table runs an app that only moves models (`apps/averaging.py`),
with few and with more rounds: the difference gives the time of a round, the rest the start. The second table runs one
round among ten clients, one of which crashes before it sends its masked vector of 650 numbers; the longest wait of each
sum is 10 virtual seconds.

tacit bench scale --only Flower
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tacit.benchmarks.measure import environment, write_json
from tacit.protocols.flower.declaration import FlowerApp, check_version
from tacit.protocols.flower.keys import FlowerKeys
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Data, Fault, Network, Scenario
from tacit.sim.setting_error import Problem
from tacit.sim.units import format_bytes

__all__ = ["Moved", "Summed", "main", "moved", "summed"]

_APPS = Path(__file__).parents[1] / "apps"
_SECURE = {"Tacit, secure sum": "secure", "Tacit, SecAgg+": "secagg+"}
_NETWORK = Network(latency="40ms", bandwidth="20Mbit/s")


@dataclass(frozen=True)
class Moved:
    """Rounds of moving models among `clients`: wall-clock seconds of `a_round`, and of the `start`."""

    clients: int
    numbers: int
    a_round: float
    start: float


@dataclass(frozen=True)
class Summed:
    """One secure sum with one dropout: wall-clock and virtual seconds, and the bytes of each step."""

    protocol: str
    seconds: float
    virtual_seconds: float
    bytes: dict[str, int]


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print two tables, and write them to `json_file`."""
    console = make_console()
    try:
        check_version()
    except Problem as missing:
        console.print(f"Flower: {missing.problem}")
        return
    rows = [moved(clients, quick) for clients in ((10,) if quick else (10, 100))]
    columns = (
        Column("clients", kinds.COUNT),
        Column("numbers", kinds.COUNT),
        Column("rounds a second", kinds.decimals(2), of=lambda row: 1 / row.a_round),
        Column("s a round", kinds.decimals(3), "a_round"),
        Column("start, s", kinds.decimals(2), "start"),
    )
    print_table(console, Table.of(rows, columns))
    sums = summed()
    columns = (
        Column("protocol"),
        Column("wall s", kinds.decimals(2), "seconds"),
        Column("virtual s", kinds.decimals(1), "virtual_seconds"),
        Column("bytes", kinds.BYTES, of=lambda one: sum(one.bytes.values())),
        Column("of which", of=_parts),
    )
    print_table(console, Table.of(sums, columns))
    write_json(json_file, environment=environment(("flwr", "numpy")), quick=quick, moved=rows, summed=sums)


def _parts(one: Summed) -> str:
    return ", ".join(f"{step} {format_bytes(size)}" for step, size in one.bytes.items())


def _app(name: str, clients: int, *faults: Fault) -> Scenario:
    keys = FlowerKeys(name=FlowerApp.name, app=str(_APPS / f"{name}.py"))
    return Scenario(seed=1, data=Data(clients=clients), protocol=keys, network=_NETWORK, fault=faults)


def _timed(scenario: Scenario) -> tuple[float, Simulation]:
    """The wall-clock seconds of a run in this process, from making it to its end, and the run."""
    began = time.perf_counter()
    simulation = Simulation(load(scenario), engine="inline")
    found = simulation.run()
    seconds = time.perf_counter() - began
    simulation.close()
    if found.outcome != "completed":
        raise RuntimeError(f"{scenario.protocol.name} ended as {found.outcome}: {found.reason}")
    return seconds, simulation


def moved(clients: int, quick: bool = False) -> Moved:
    """Run the app that moves models among `clients`, with few rounds and with more."""
    few, more = (1, 3) if quick else (2, 12)
    numbers = 1_000 if quick else 109_386
    seconds = []
    for rounds in (few, few, more):  # the first run loads libraries
        os.environ |= {"ROUNDS": str(rounds), "NUMBERS": str(numbers)}
        seconds.append(_timed(_app("averaging", clients))[0])
    a_round = (seconds[2] - seconds[1]) / (more - few)
    return Moved(clients, numbers, a_round, max(0.0, seconds[1] - few * a_round))


def summed(clients: int = 10) -> list[Summed]:
    """Run one round of each secure sum, with one client that crashes."""
    dropout = Fault(party="client/3", at="flower.collect_masked_vectors")
    os.environ["NUMBERS"] = "650"  # as many as the linear model of Tacit's sums has
    _timed(_app("secure", clients, dropout))  # loads libraries
    found = [_summed("Flower, SecAgg+", *_timed(_app("secure", clients, dropout)))]
    for name, averaging in _SECURE.items():
        changes = [
            "protocol.name=fedavg", "model.name=linear", "training.rounds=1", "training.epochs=1",
            "training.device=cpu", f"training.averaging={averaging}", f"data.clients={clients}", "data.limit=400",
            "network.latency=40ms", "protocol.deadline=10s",
            'fault=[{kind="crash", party="client/3", at="sum.mask"}]', "expect={}",
        ]  # fmt: skip
        scenario = load("fedavg-xclp-digits", changes)
        _timed(scenario)
        found.append(_summed(name, *_timed(scenario)))
    return found


def _summed(name: str, seconds: float, simulation: Simulation) -> Summed:
    sizes: dict[str, int] = {}
    for row in simulation.ledger.rows():
        sizes[row.step] = sizes.get(row.step, 0) + row.total
    return Summed(name, seconds, simulation.now, sizes)
