"""Flamingo's published comparison with SecAgg+, on hollow values: n = 1,024 clients, d = 16,000 numbers of 32 bits.

The public implementation (eniac/flamingo, `util/param.py`) has a server that waits for a fixed time in each step,
chosen for its model of latency and 1% of late clients: 10, 3 and 3 s in Flamingo, and 10, 10, 30, 10, 3 and 2 s in the
sum that it compares with, Bell et al. with signatures. The server's computing is added to them. Tacit's server goes on
as soon as all have answered. The deadline here is 10 s, so a step in which a client is lost takes as long as theirs.

Each row is the second of two rounds of FedAvg, from the call to the sum. So Flamingo has its keys, and SecAgg+ makes
new ones, as in each round. Both have the graph for 2% lost and 2% corrupt clients; 60 decryptors, as theirs,
of whom fewer than a third are then lost or corrupt, with a probability of all but 2^-40.
"""

from contextlib import closing
from dataclasses import dataclass

from tacit.benchmarks.sums.table import SEED, width_of
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.trace import Event

__all__ = ["WAITS", "Again", "Published", "again", "cells"]

WAITS = {"secagg+": (10, 10, 30, 10, 3, 2), "flamingo": (10, 3, 3)}
"""The seconds for which the server of the public implementation waits in each step of a round."""

_CLIENTS, _NUMBERS = 1_024, 16_000
_LOST = 11  # 1% of 1,024 clients, for which the published waits are chosen
_LAST = 2  # rounds
_ENDS = ("RoundDone", "SumDone")


@dataclass(frozen=True)
class Published:
    """A sum among `clients`, each with about `numbers` numbers; `lost` of them crash before they send masked values."""

    sum: str
    lost: int
    clients: int = _CLIENTS
    numbers: int = _NUMBERS

    def scenario(self) -> Scenario:
        """The scenario: latencies of 10 to 100 ms and no limit of bandwidth, as in the public implementation."""
        crashes = [
            f'{{kind="crash", party="client/{number}", before="sum.mask", round={_LAST}}}'
            for number in range(self.lost)
        ]
        changes = [
            'data={name="synthetic"}', f"data.clients={self.clients}", f"data.limit={4 * self.clients}",
            "data.labeled=1.0", "protocol.name=fedavg", "model.name=linear_embedding",
            f"model.embedding={width_of(self.numbers)}", f"training.rounds={_LAST}", "training.epochs=1",
            "training.validation=0", "training.label_from=1", f"training.averaging={self.sum}",
            "sum.tolerated_dropouts=0.02", "sum.corrupt_clients=0.02", "training.min_clients=2",
            "sum.value_bits=22", "sum.clip=2.0", "network.latency=uniform:10ms,100ms",
            "protocol.deadline=10s", f"fault=[{', '.join(crashes)}]", "expect={}", "engine=inline",
        ]  # fmt: skip
        if self.sum == "flamingo":
            changes += [f"sum.decryptors={min(60, self.clients)}", "sum.decryptor_rounds=10"]
        return read("fedavg-xclp-digits", changes, seed=SEED, without_data=True).scenario


@dataclass(frozen=True)
class Again:
    """The figures of a round: virtual seconds, the server's modelled CPU seconds, and mean bytes per client.

    `waits`: the seconds of the public implementation's fixed waits; `theirs`: the same with our server's computing
    added.
    """

    sum: str
    clients: int
    numbers: int
    lost: int
    outcome: str
    seconds: float
    server_seconds: float
    client_up: float
    client_down: float
    waits: int
    theirs: float
    trace: str


def cells(quick: bool) -> list[Published]:
    """The cells: each sum, with nobody lost and with 1%; with `quick` among 64 clients."""
    small = (64, 1_000) if quick else (_CLIENTS, _NUMBERS)
    return [Published(way, min(lost, small[0] // 32), *small) for way in WAITS for lost in (0, _LOST)]


def again(cell: Published) -> Again:
    """Run a cell, and measure its last round, from the call to the sum."""
    busy = up = down = 0.0
    began = ended = 0.0

    def note(event: Event) -> None:
        nonlocal began, ended, busy, up, down
        if ended or not (began or event.round == _LAST):
            return
        began = began or event.time
        if event.kind == "compute" and event.party == "server":
            busy += event.value
        elif event.kind == "send":
            ended = event.time if event.type in _ENDS else 0.0
            size = event.payload + event.sealing + event.envelope
            up, down = up + size * (event.party != "server"), down + size * (event.party == "server")
        elif event.kind == "relay":
            down += event.payload + event.sealing + event.envelope

    simulation = Simulation(cell.scenario(), sinks=[note], engine="inline", hollow=True)
    with closing(simulation):
        found = simulation.run()
    waits = sum(WAITS[cell.sum])
    sizes = up / cell.clients, down / cell.clients
    about = cell.sum, cell.clients, cell.numbers, cell.lost, found.outcome
    return Again(*about, ended - began, busy, *sizes, waits, waits + busy, simulation.trace.shape_hash)
