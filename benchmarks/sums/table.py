"""Secure sums compared: `tacit bench sums` averages one model by each of them, under the same losses and networks.

Each row is one round of FedAvg among n clients with d numbers. A share of the clients crashes before one protocol
step, in turn before each. Rows of small sums are real runs, whose result is compared with the plaintext oracle. Others
are run on hollow values (`tacit predict`): messages, bytes and virtual times are those of the run, and nothing is
computed.

CPU seconds are those that the cost table charges, the sum over the jobs of the server, and of the clients divided by
their number. Bytes are payload, sealing and envelope; what the server relays counts at both ends.
"""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from tacit.scenarios.console.printing import table
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.trace import Event
from tacit.sim.units import format_bytes, format_duration

__all__ = ["Cell", "Row", "cells", "main", "measured"]

SUMS = ("plain", "secure", "secagg+", "lightsecagg", "committee")

NETWORKS = {
    "lan": ("250us", "1Gbit/s"),
    "home": ("40ms", "20Mbit/s"),
    "4g": ("85ms", "9Mbit/s"),
}
"""Latency, and bandwidth up and down, of each client."""

_STEPS = {
    "plain": ("train.update",),
    "secure": ("setup.keys", "setup.seed", "sum.deal", "sum.mask", "sum.reveal"),
    "secagg+": ("sum.deal", "sum.mask", "sum.reveal"),
    "lightsecagg": ("setup.keys", "setup.seed", "sum.deal", "sum.mask", "sum.reveal"),
    "committee": ("setup.keys", "setup.seed", "sum.mask", "sum.hold", "sum.agree", "sum.reveal"),
}
"""The steps of a client before which clients are lost."""

_LOST = (0.1, 0.3)

_REAL = 2_000_000
"""The most numbers of all clients together in a sum that is really computed."""

_FEATURES, _CLASSES = 54, 7

SEED = 1


@dataclass(frozen=True)
class Cell:
    """One sum among `clients` of about `numbers` each: a share `lost` of them crashes before the step `before`."""

    sum: str
    clients: int
    numbers: int
    network: str
    lost: float = 0.0
    before: str = ""

    @property
    def is_real(self) -> bool:
        """True if the sum is computed, and not only its messages."""
        return self.clients * self.numbers <= _REAL

    def scenario(self) -> Scenario:
        """The scenario of the cell."""
        latency, bandwidth = NETWORKS[self.network]
        width = round((self.numbers - _CLASSES) / (_FEATURES + 1 + _CLASSES))
        gone = range(math.ceil(self.lost * self.clients) if self.before else 0)
        crashes = [f'{{kind="crash", party="client/{number}", before="{self.before}"}}' for number in gone]
        changes = [
            'data={name="synthetic"}', f"data.clients={self.clients}", f"data.limit={max(200, 4 * self.clients)}",
            "data.labeled=1.0", "protocol.name=fedavg", "model.name=linear_embedding", f"model.embedding={width}",
            "training.rounds=1", "training.epochs=1", "training.validation=0", "training.label_from=1",
            f"training.averaging={self.sum}", "training.tolerated_dropouts=0.3", "training.corrupt_clients=0.1",
            "training.min_clients=2", f"network.latency={latency}", f"network.bandwidth={bandwidth}",
            "protocol.deadline=60s", f"fault=[{', '.join(crashes)}]", "expect={}", "engine=inline",
        ]  # fmt: skip
        if self.sum != "plain":
            changes += ["training.value_bits=16", "training.clip=2.0"]
        return read("fedavg-xclp-digits", changes, seed=SEED).scenario


@dataclass(frozen=True)
class Row:
    """The figures of a cell; bytes and CPU seconds of a client are means over all clients."""

    sum: str
    clients: int
    numbers: int
    network: str
    lost: float
    before: str
    fidelity: str
    outcome: str
    equals_plaintext: bool | None
    client_up: float
    client_down: float
    server_bytes: int
    client_seconds: float
    server_seconds: float
    virtual_seconds: float
    shape_hash: str


def cells(quick: bool) -> Iterator[Cell]:
    """The cells of the table; with `quick` those of ten clients over one network."""
    sizes = [(10, 10_000)] if quick else [(10, 10_000), (10, 1_000_000), (100, 10_000), (100, 1_000_000)]
    for network in ("home",) if quick else NETWORKS:
        for clients, numbers in sizes:
            for way in SUMS:
                yield Cell(way, clients, numbers, network)
                for before in _STEPS[way]:
                    for lost in _LOST:
                        yield Cell(way, clients, numbers, network, lost, before)


def measured(cell: Cell, *, hollow: bool | None = None) -> Row:
    """Run a cell, and count. `hollow`: on hollow values; by default where the cell is too large to be computed."""
    hollow = not cell.is_real if hollow is None else hollow
    busy = {"server": 0.0, "client": 0.0}

    def note(event: Event) -> None:
        if event.kind == "compute":
            busy["server" if event.party == "server" else "client"] += event.value

    simulation = Simulation(cell.scenario(), sinks=[note], engine="inline", hollow=hollow)
    with closing(simulation):
        found = simulation.run()
    up = down = through = 0
    for row in simulation.ledger.rows():
        size = row.payload + row.sealing + row.envelope
        through += size
        up += size * (row.sender != "server")
        down += size * (row.receiver != "server")
    return Row(
        cell.sum,
        cell.clients,
        cell.numbers,
        cell.network,
        cell.lost,
        cell.before,
        "hollow" if hollow else "real",
        found.outcome,
        None if hollow else found.equals_plaintext,
        up / cell.clients,
        down / cell.clients,
        through,
        busy["client"] / cell.clients,
        busy["server"],
        simulation.now,
        simulation.trace.shape_hash,
    )


def main(quick: bool, json_file: Path | None = None, csv_file: Path | None = None) -> int:
    """Print the table, and write it to the files that are given."""
    console, rows = Console(), [measured(cell) for cell in cells(quick)]
    for network in dict.fromkeys(row.network for row in rows):
        for clients, numbers in dict.fromkeys((row.clients, row.numbers) for row in rows):
            some = [row for row in rows if (row.network, row.clients, row.numbers) == (network, clients, numbers)]
            title = f"{clients} clients, {numbers:,} numbers, network {network}, {some[0].fidelity}"
            console.print(table(_COLUMNS, map(_printed, some), _COLUMNS[3:], title))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if csv_file is not None:
        with csv_file.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])))
            writer.writeheader()
            writer.writerows(map(asdict, rows))
    return 0


_COLUMNS = ("sum", "lost before", "outcome", "client up", "client down", "server", "client CPU", "server CPU", "time")


def _printed(row: Row) -> Sequence[str]:
    outcome = row.outcome if row.equals_plaintext is not False else f"{row.outcome}, NOT the oracle's"
    return (
        row.sum,
        f"{row.lost:.0%} {row.before}" if row.before else "nobody",
        outcome,
        *map(format_bytes, (round(row.client_up), round(row.client_down), row.server_bytes)),
        *map(format_duration, (row.client_seconds, row.server_seconds, row.virtual_seconds)),
    )
