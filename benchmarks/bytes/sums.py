"""The bytes of a secure sum by the number of clients: all with all (Bonawitz) and in a graph (SecAgg+).

For each n a sum of vectors of 1,000 numbers in a star, its keys included: the set-up of the round and `secure_sum`, the
same with signed identities, and `secure_sum` in a graph of the default tolerance. The payload by formula
(`tacit.protocols.crypto.sizes`) must equal that of a run, which is made where n is small enough; what clients send each
other counts on both hops. Where flwr is installed, the bytes of its SecAgg+ stand beside them, as serialised, with k
neighbours, too, or one fewer where k is odd.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from rich.console import Console

from tacit.benchmarks.bytes.flower import flower_bytes
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.federated.averaging import AveragingInGraph, SecureAveraging
from tacit.protocols.identities import Identities
from tacit.protocols.parts import Among, Part, payloads
from tacit.protocols.sums import secure_sum
from tacit.scenarios.console.printing import table
from tacit.scenarios.schema.scenario import ProtocolKeys, Scenario
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.world import World

__all__ = ["SumRow", "measure", "print_sums"]

_DIMENSION = 1000
_DEADLINE = 60.0
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


@dataclass(frozen=True)
class SumRow:
    """The payloads of a sum of `clients` by formula: all with all, `signed`, and in a graph of degree `k`.

    `measured`: those of runs, if run; `wire`: all bytes of these, `seconds`: the processor time that they took;
    `flower`: the bytes of Flower's SecAgg+; None where not measured.
    """

    clients: int
    k: int
    threshold: int
    complete: int
    signed: int
    graph: int
    measured: tuple[int, ...] | None = None
    wire: tuple[int, ...] | None = None
    seconds: tuple[float, ...] | None = None
    flower: int | None = None

    @property
    def different(self) -> bool:
        """True if a run sent other payloads than the formula says."""
        return self.measured not in (None, (self.complete, self.signed, self.graph))


class _Contributor(Client):
    def __init__(self, world: World, name: str, settings: secure_sum.Settings) -> None:
        super().__init__(world, name, _NOTHING)
        self.settings = settings

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer):
            group = setup.Group((), {}, {})
            if self.settings.tolerance is None:
                await self.recv(setup.RoundStart, self.server, _DEADLINE)
                group, _ = await setup.client(self, _DEADLINE, identities=self.settings.identities)
            settings = replace(self.settings, identities=group.identities)
            await secure_sum.client(self, np.ones(_DIMENSION), group.secrets, settings)


class _Adder(Server):
    def __init__(self, world: World, names: Sequence[str], settings: secure_sum.Settings) -> None:
        super().__init__(world, names)
        self.settings = settings

    async def main(self) -> None:
        self.advance(1, 0)
        settings = self.settings
        if settings.tolerance is None:
            group = await setup.server(self, self.clients, 1, 2, _DEADLINE, identities=settings.identities)
            settings = replace(settings, identities=group.identities)
        total = await secure_sum.server(self, self.clients, settings)
        assert (total.values == len(self.clients)).all()


def measure(most: int) -> list[SumRow]:
    """A row for each number of clients, with runs of those up to `most`."""
    rows = []
    for n in (10, 20, 50, 100, 200, 500, 1000):
        names, degree = [f"client/{i}" for i in range(n)], degree_of(n, Tolerance())
        every, signed, graph = (
            _formula(SecureAveraging(), "none", names),
            _formula(SecureAveraging(), "signed", names),
            _formula(AveragingInGraph(), "none", names),
        )
        ways: tuple[dict[str, Any], ...] = ({}, {"identities": Identities.simulated(1)}, {"tolerance": Tolerance()})
        found = [_run(names, way) for way in ways] if n <= most else []
        (measured, wire, seconds) = zip(*found, strict=True) if found else (None, None, None)
        shares = degree.k + 1 - degree.k % 2  # one of them its own; Flower's must be odd
        flower = flower_bytes(n, shares, shares // 2 + 1, _DIMENSION) if n <= most else None
        rows.append(SumRow(n, degree.k, degree.threshold, every, signed, graph, measured, wire, seconds, flower))
    return rows


def _formula(sums: Part, identity: Literal["none", "signed"], names: Sequence[str]) -> int:
    """Bytes of payload of a sum among `names`."""
    tables = Scenario(protocol=ProtocolKeys(identity=identity))
    among = Among(dict.fromkeys(names, 1), dimension=_DIMENSION)
    return sum(size or 0 for size in payloads(sums.takes, tables, among).values())


def _run(names: Sequence[str], way: Mapping[str, Any]) -> tuple[int, int, float]:
    """Payload and all bytes of a sum among `names`, and the processor time that it takes, in seconds."""
    world = World(1, conditions=Conditions("star", parse_latency("1ms")), cost=Free())
    settings = secure_sum.Settings(_DIMENSION, deadline=_DEADLINE, **way)
    began = time.process_time()
    play_out([_Adder(world, names, settings), *(_Contributor(world, name, settings) for name in names)])
    seconds, rows = time.process_time() - began, world.ledger.rows()
    return sum(row.payload for row in rows), sum(row.payload + row.sealing + row.envelope for row in rows), seconds


def print_sums(console: Console, rows: Sequence[SumRow]) -> None:
    """A table of bytes a client, by the number of clients."""
    ways = ("Bonawitz", "signed", "SecAgg+")
    names = (
        "k", "t", *ways, "ratio", *(f"{way}, sent" for way in ways), "Flower's SecAgg+, sent",
        *(f"{way}, ms" for way in ways),
    )  # fmt: skip
    lines = []
    for row in rows:
        sent, seconds = row.wire or (None, None, None), row.seconds or (None, None, None)
        each = [size if size is None else size // row.clients for size in (*sent, row.flower)]
        lines.append((
            f"{row.clients:,}", str(row.k), str(row.threshold), f"{row.complete // row.clients:,}",
            f"{row.signed // row.clients:,}", f"{row.graph // row.clients:,}", f"{row.complete / row.graph:.2f}",
            *("-" if size is None else f"{size:,}" for size in each),
            *("-" if one is None else f"{1000 * one / row.clients:.2f}" for one in seconds),
        ))  # fmt: skip
    title = f"secure sums of {_DIMENSION:,} numbers: bytes and milliseconds a client, payload by formula and all sent"
    console.print(table(("clients", *names), lines, names, title))
    for row in rows:
        if row.different:
            problem = (
                f"NOT THE FORMULA'S  {row.clients} clients: {row.measured}, not {(row.complete, row.signed, row.graph)}"
            )
            console.print(problem, style="bold red", markup=False, highlight=False, soft_wrap=True)
