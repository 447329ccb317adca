"""Secure sums compared: `tacit bench sums` averages one model by each of them, under the same losses and networks.

Each row is one round of FedAvg among n clients with d numbers. A share of the clients crashes before one protocol step,
in turn before each. The sums are those that `training.averaging` can take. Rows of up to 100 clients are real runs,
whose result is compared with the plaintext oracle. Rows of more are run on hollow values (`tacit predict`): messages,
bytes and virtual times are those of the run, and nothing is computed. Rows of 100,000 clients are by the formulas of
the protocols: payload alone, with nobody lost.

CPU seconds are those that the cost table charges, the sum over the jobs of the server, and of the clients divided by
their number; of peers they are measured. Bytes are payload, sealing and envelope; what the server relays counts at both
ends.
"""

import math
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from tacit.parties.data.splits import named
from tacit.protocols.crypto.quorum import threshold_of
from tacit.protocols.federated.registry import AVERAGINGS
from tacit.protocols.parts import Part, Step, taken
from tacit.protocols.sums.lightsecagg import LightSecAgg
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.prediction import payloads_of
from tacit.scenarios.running.recorder import Recorder
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.scenarios.seeing.critical_path import seconds_by
from tacit.scenarios.seeing.seen import Seen
from tacit.sim.taps import Taps
from tacit.sim.trace import Event
from tacit.sim.wire import Ledger

__all__ = [
    "NETWORKS", "PUBLISHED", "SUMS", "Cell", "Row", "cells", "measured", "steps_of", "width_of",
]  # fmt: skip

SUMS = tuple(way for way, part in AVERAGINGS.items() if way == "plain" or not part.proves)
"""The values of `training.averaging`, but for sums with proofs that clients compute, and with a second server."""

NETWORKS = {
    "lan": ("250us", "1Gbit/s"),
    "home": ("40ms", "20Mbit/s"),
    "4g": ("85ms", "9Mbit/s"),
}
"""Latency, and bandwidth up and down, of each client."""

LOST = (0.1, 0.3)
"""The shares of the clients that are lost."""

DROPOUTS, CORRUPT = 0.3, 0.1
"""The shares of the clients for whose loss and collusion sums are set up; for Flamingo's see `Cell.scenario`."""

MOST_REAL, MOST_RUN, MOST_NUMBERS = 100, 1_000, 10_000
"""The most clients of a sum that is really computed, and of one whose messages are sent; the most numbers of a secure
one among these: runs with a million of each of 1,000 clients take up to 10 GB of memory, and too long together."""


PUBLISHED = ((2**10, 2**20), (2**14, 2**24))
"""The clients and numbers for which Bonawitz et al. (CCS 2017) print the expansion, of numbers with 16 bits."""

_DECRYPTORS = 100
"""The most decryptors of a sum."""

_FEATURES, _CLASSES = 54, 7

SEED = 1


@cache
def _taken(way: str) -> tuple[Step | Part, ...]:
    tables = Scenario()
    return tuple(taken(AVERAGINGS[way].takes, lambda key: attrgetter(key)(tables)))


@cache
def steps_of(way: str) -> tuple[str, ...]:
    """The steps of a client in a sum before which clients are lost; for a plain average, the training."""
    found = dict.fromkeys(one.name for one in _taken(way) if isinstance(one, Step) and one.role == "client")
    return tuple(found) or ("train.update",)


def width_of(numbers: int) -> int:
    """The width of the layer with which the model has about this number of numbers."""
    return max(1, round((numbers - _CLASSES) / (_FEATURES + 1 + _CLASSES)))


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
    def fidelity(self) -> str:
        """The source of the cell's figures: a "real" run, a "hollow" run, or the "formula"."""
        if self.clients <= MOST_REAL:
            return "real"
        small = self.numbers <= MOST_NUMBERS or self.sum == "plain"
        return "hollow" if self.clients <= MOST_RUN and small else "formula"

    @property
    def gone(self) -> range:
        """The numbers of the clients that are lost."""
        return range(math.ceil(self.lost * self.clients) if self.before else 0)

    def scenario(self) -> Scenario:
        """The scenario of the cell. Raises ScenarioError if the sum does not support it."""
        latency, bandwidth = NETWORKS[self.network]
        crashes = [f'{{kind="crash", party="client/{number}", before="{self.before}"}}' for number in self.gone]
        changes = [
            'data={name="synthetic"}', f"data.clients={self.clients}", f"data.limit={max(200, 4 * self.clients)}",
            "data.labeled=1.0", "protocol.name=fedavg", "model.name=linear_embedding",
            f"model.embedding={width_of(self.numbers)}", "training.rounds=1", "training.epochs=1",
            "training.validation=0", "training.label_from=1",
            f"training.averaging={self.sum}", f"sum.tolerated_dropouts={DROPOUTS}",
            f"sum.corrupt_clients={CORRUPT}", "training.min_clients=2",
            f"network.latency={latency}", f"network.bandwidth={bandwidth}",
            "protocol.deadline=60s", f"fault=[{', '.join(crashes)}]", "expect={}", "engine=inline",
        ]  # fmt: skip
        if self.sum != "plain":
            changes += [f"sum.value_bits={self.value_bits}", "sum.clip=2.0"]
        if self.sum == "flamingo":  # fewer than a third of the decryptors may be lost or corrupt
            few = self.clients <= _DECRYPTORS
            changes += [
                f"sum.decryptors={min(self.clients, _DECRYPTORS)}",
                f"sum.tolerated_dropouts={0.2 if few else 0.1}", f"sum.failure_exponent={40 if few else 10}",
            ]  # fmt: skip
        runs = self.fidelity == "real"
        return read("fedavg-xclp-digits", changes, seed=SEED, without_data=not runs).scenario

    @property
    def value_bits(self) -> int:
        """The bits of a number: 16, or 14 with more than 32,000 clients, which LightSecAgg's field can hold."""
        return 16 if self.clients <= 32_000 else 14

    @property
    def colluders(self) -> int | None:
        """The most clients that may collude with the server; None if the server sees each model."""
        if self.sum == "plain":
            return None
        if self.sum == "secure":
            return threshold_of(None, self.clients) - 1
        if self.sum == "lightsecagg":
            return LightSecAgg.of(self.scenario()).limits(self.clients, self.clients).private
        return max(1, math.floor(CORRUPT * self.clients))


@dataclass(frozen=True)
class Row:
    """The figures of a cell; bytes and CPU seconds of a client are means over all clients.

    `critical`: the parts of the critical path with the most virtual seconds. `colluders`: how many clients may collude
    with the server; None where it sees each model anyway. `trace`: the trace hash, of hollow runs the shape hash; empty
    where the randomness is the operating system's.
    """

    sum: str
    clients: int
    numbers: int
    network: str
    lost: float
    before: str
    fidelity: str
    outcome: str
    equals_plaintext: bool | None = None
    client_up: float | None = None
    client_down: float | None = None
    server_bytes: int | None = None
    client_seconds: float | None = None
    server_seconds: float | None = None
    virtual_seconds: float | None = None
    critical: str = ""
    colluders: int | None = None
    trace: str = ""


def cells(quick: bool) -> Iterator[Cell]:
    """The cells of the table; with `quick` those of ten clients with 10,000 numbers, of which nobody or 30% are lost.

    All losses are struck in the network `home` among 10 clients, and among 100 with 10,000 numbers. Among 100 with a
    million, 30% are lost before each step, and 10% before the one that costs most (`_costly`). The networks `lan` and
    `4g` are compared with nobody lost; so are 1,000 clients, of whom 30% are lost where the sum is run, and 100,000.
    The sizes of `PUBLISHED` are by formula.
    """
    for clients, numbers in [(10, 10_000)] if quick else [(10, 10_000), (10, 10**6), (100, 10_000), (100, 10**6)]:
        for way in SUMS:
            yield Cell(way, clients, numbers, "home")
            for before in steps_of(way):
                for lost in LOST[-1:] if quick else LOST:
                    if clients * numbers < 10**8 or lost == LOST[-1] or before == _costly(way):
                        yield Cell(way, clients, numbers, "home", lost, before)
    if quick:
        return
    for way in SUMS:
        for network in ("lan", "4g"):
            yield Cell(way, 100, 10**6, network)
        for numbers in (10_000, 10**6):
            calm = Cell(way, 1_000, numbers, "home")
            yield calm
            if calm.fidelity == "hollow":
                yield Cell(way, 1_000, numbers, "home", LOST[-1], _costly(way))
            yield Cell(way, 100_000, numbers, "home")
    for clients, numbers in PUBLISHED:
        yield Cell("plain", clients, numbers, "home")
        yield Cell("secure", clients, numbers, "home")


def _costly(way: str) -> str:
    """The step before which a loss is most costly for a masked sum: masking, after all keys have been dealt."""
    return next((step for step in steps_of(way) if step.endswith(".mask")), steps_of(way)[-1])


def measured(cell: Cell, *, hollow: bool | None = None) -> Row:
    """Run a cell and count its costs. `hollow`: on hollow values; by default if it has too many clients to be
    computed."""
    try:
        scenario = cell.scenario()
        colluders = cell.colluders
    except ScenarioError as error:
        return begun(cell, fidelity=cell.fidelity, outcome=f"refused: {error.problem}")
    if cell.fidelity == "formula" and hollow is None:
        return _by_formula(cell, scenario)
    hollow = cell.fidelity != "real" if hollow is None else hollow
    found, figures = run_counted(scenario, cell.clients, hollow=hollow)
    equal = None if hollow else found.equals_plaintext
    fidelity = "hollow" if hollow else "real"
    return begun(cell, fidelity=fidelity, outcome=found.outcome, equals_plaintext=equal, colluders=colluders, **figures)


def begun(cell: Cell, **figures: Any) -> Row:
    """The row of a cell with these figures."""
    return Row(cell.sum, cell.clients, cell.numbers, cell.network, cell.lost, cell.before, **figures)


def run_counted(scenario: Scenario, clients: int, *, hollow: bool = False) -> tuple[Any, dict[str, Any]]:
    """Run a scenario. Returns its end, and bytes, seconds, critical path and hash by their names in `Row`."""
    busy = {"server": 0.0, "client": 0.0}

    def note(event: Event) -> None:
        if event.kind == "compute":
            busy["server" if event.party == "server" else "client"] += event.value

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "run.sqlite")
        with closing(recorder):
            taps = Taps(waits=[recorder.wait])
            simulation = Simulation(scenario, sinks=[note, recorder], taps=taps, engine="inline", hollow=hollow)
            with closing(simulation):
                found = simulation.run()
        parts = seconds_by(Seen(Path(folder)).path(simulation.now), "kind", "step")
    up, down, through = _bytes(simulation.ledger)
    return found, {
        "client_up": up / clients,
        "client_down": down / clients,
        "server_bytes": through,
        "client_seconds": busy["client"] / clients,
        "server_seconds": busy["server"],
        "virtual_seconds": simulation.now,
        "critical": ", ".join(f"{' '.join(key)} {seconds:.3g} s" for key, seconds in list(parts.items())[:3]),
        "trace": simulation.trace.shape_hash if hollow else simulation.trace.trace_hash,
    }


def _bytes(ledger: Ledger) -> tuple[int, int, int]:
    """The bytes that clients sent, that they received, and that went into or out of the server."""
    up = down = through = 0
    for row in ledger.rows():
        through += row.total
        up += row.total * (row.sender != "server")
        down += row.total * (row.receiver != "server")
    return up, down, through


def _by_formula(cell: Cell, scenario: Scenario) -> Row:
    """A row of payloads by formula, with nobody lost. A run among ten clients shows which message types clients
    send."""
    material = material_of(scenario)
    sizes = payloads_of(scenario, material.parts, named(material.shards))
    few = Simulation(Cell(cell.sum, 10, 1_000, cell.network).scenario(), engine="inline", hollow=True)
    with closing(few):
        few.run()
    ends: dict[str, set[bool]] = {}
    for row in few.ledger.rows():
        ends.setdefault(row.type, set()).add(row.sender == "server")
    halves = {kind: (size or 0) / len(ends.get(kind, {True})) for kind, size in sizes.items()}
    up = sum(half for kind, half in halves.items() if False in ends.get(kind, ()))
    down = sum(half for kind, half in halves.items() if True in ends.get(kind, ()))
    each = {"client_up": up / cell.clients, "client_down": down / cell.clients, "server_bytes": round(up + down)}
    return begun(cell, fidelity="formula", outcome="not run", colluders=cell.colluders, **each)
