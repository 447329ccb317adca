"""The bytes of a secure sum by the number of clients: all with all (Bonawitz) and in a graph (SecAgg+).

For each n a sum of vectors of 1,000 numbers in a star, its keys included: the set-up of the round and `secure_sum`, and
`secure_sum` in a graph of the default tolerance. The payload by formula (`protocols.crypto.sizes`) must equal that of a
run, which is made where n is small enough; what clients send each other counts on both hops. Where flwr is installed,
the bytes of its SecAgg+ stand beside them, as serialised, with k neighbours, too, or one fewer where k is odd.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.bytes_flower import flower_bytes
from parties.client import Client, DismissedError
from parties.data.splits import Shard
from parties.party import NoAnswer
from parties.play import play_out
from parties.server import Server
from protocols import secure_sum, setup
from protocols.crypto import sizes
from protocols.crypto.regular_graph import Tolerance, degree_of
from scenarios.console.printing import table
from sim.compute import Free
from sim.latency import parse_latency
from sim.network import Conditions
from sim.world import World

__all__ = ["SumRow", "measure", "print_sums"]

_DIMENSION = 1000
_DEADLINE = 60.0
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
_RELAYED = ("Seed", "DealtShares")


@dataclass(frozen=True)
class SumRow:
    """The payloads of a sum of `clients` by formula, all with all and in a graph of degree `k`; those of runs, if run.

    `wire`: all bytes of the two runs; `flower`: those of Flower's SecAgg+; None where not measured.
    """

    clients: int
    k: int
    threshold: int
    complete: int
    graph: int
    measured: tuple[int, int] | None = None
    wire: tuple[int, int] | None = None
    flower: int | None = None

    @property
    def different(self) -> bool:
        """Whether a run sent other payloads than the formula says."""
        return self.measured not in (None, (self.complete, self.graph))


class _Contributor(Client):
    def __init__(self, world: World, name: str, settings: secure_sum.Settings) -> None:
        super().__init__(world, name, _NOTHING)
        self.settings = settings

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer):
            secrets = {}
            if self.settings.tolerance is None:
                await self.recv(setup.RoundStart, self.server, _DEADLINE)
                secrets = (await setup.client(self, _DEADLINE))[0].secrets
            await secure_sum.client(self, np.ones(_DIMENSION), secrets, self.settings)


class _Adder(Server):
    def __init__(self, world: World, names: Sequence[str], settings: secure_sum.Settings) -> None:
        super().__init__(world, names)
        self.settings = settings

    async def main(self) -> None:
        self.advance(1, 0)
        if self.settings.tolerance is None:
            await setup.server(self, self.clients, 1, 2, _DEADLINE)
        total = await secure_sum.server(self, self.clients, self.settings)
        assert (total.values == len(self.clients)).all()


def measure(most: int) -> list[SumRow]:
    """A row for each number of clients, with runs of those up to `most`."""
    rows = []
    for n in (10, 20, 50, 100, 200, 500, 1000):
        names, degree = [f"client/{i}" for i in range(n)], degree_of(n, Tolerance())
        every = _relayed({**sizes.setup(names), **sizes.secure_sum(names, _DIMENSION)})
        graph = _relayed(sizes.secagg_plus(names, _DIMENSION, degree))
        found = [_run(names, tolerance) for tolerance in (None, Tolerance())] if n <= most else []
        (measured, wire) = zip(*found, strict=True) if found else (None, None)
        shares = degree.k + 1 - degree.k % 2  # one of them its own; Flower's must be odd
        flower = flower_bytes(n, shares, shares // 2 + 1, _DIMENSION) if n <= most else None
        rows.append(SumRow(n, degree.k, degree.threshold, every, graph, measured, wire, flower))
    return rows


def _relayed(payloads: dict[str, int]) -> int:
    return sum(size * (2 if kind in _RELAYED else 1) for kind, size in payloads.items())


def _run(names: Sequence[str], tolerance: Tolerance | None) -> tuple[int, int]:
    """Payload and all bytes of a sum among `names`."""
    world = World(1, conditions=Conditions("star", parse_latency("1ms")), cost=Free())
    settings = secure_sum.Settings(_DIMENSION, deadline=_DEADLINE, tolerance=tolerance)
    play_out([_Adder(world, names, settings), *(_Contributor(world, name, settings) for name in names)])
    rows = world.ledger.rows()
    return sum(row.payload for row in rows), sum(row.payload + row.sealing + row.envelope for row in rows)


def print_sums(console: Console, rows: Sequence[SumRow]) -> None:
    """A table of bytes a client, by the number of clients."""
    names = ("k", "t", "Bonawitz", "SecAgg+", "ratio", "Bonawitz, sent", "SecAgg+, sent", "Flower's SecAgg+, sent")
    lines = []
    for row in rows:
        sent = row.wire or (None, None)
        each = [size if size is None else size // row.clients for size in (*sent, row.flower)]
        lines.append((
            f"{row.clients:,}", str(row.k), str(row.threshold), f"{row.complete // row.clients:,}",
            f"{row.graph // row.clients:,}", f"{row.complete / row.graph:.2f}",
            *("-" if size is None else f"{size:,}" for size in each),
        ))  # fmt: skip
    title = f"secure sums of {_DIMENSION:,} numbers: bytes a client, payload by formula and all that is sent"
    console.print(table(("clients", *names), lines, names, title))
    for row in rows:
        if row.different:
            problem = f"NOT THE FORMULA'S  {row.clients} clients: {row.measured}, not {(row.complete, row.graph)}"
            console.print(problem, style="bold red", markup=False, highlight=False, soft_wrap=True)
