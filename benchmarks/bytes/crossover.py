"""The bandwidth at which SecureHamming by oblivious transfer (iknp) is as fast as by Paillier.

There is one pair of clients with n points of L bits each. The real clients and server set up keys and channels and run
`tacit.protocols.xclp.hamming` on a mesh, in which all three parties have the same bandwidth up and down, and every link
has the same constant latency. Computations take the times of the cost table (`cost = modelled`), on one core each. The
time is virtual, from the first client's `hamming.encode` to the server's H; the earlier set-up, with Paillier's key, is
not counted.

A pair is run once for each bandwidth and latency, always through the same simulator with real messages that are sealed
and opened. Only computations are not repeated: the engine (`tacit.scenarios.chaos.memory`) returns the result of an
equal job. As all randomness is seeded, later runs of a variant find nearly all their jobs computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.xclp import hamming
from tacit.protocols.xclp.hamming import SecureHamming
from tacit.protocols.xclp.hamming_iknp import IknpHamming
from tacit.protocols.xclp.hamming_paillier import PaillierHamming
from tacit.scenarios.chaos.memory import Remembering
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.streams import generator
from tacit.sim.trace import Event
from tacit.sim.world import World

__all__ = [
    "Crossing",
    "Grid",
    "Point",
    "crossings",
    "duration",
    "print_crossings",
    "save_plot",
    "sweep",
]

PAILLIER, IKNP = "paillier", "iknp"
_DEADLINE = 1e7  # virtual seconds: no party misses it on a slow network
_MINIMUM = 2


@dataclass(frozen=True)
class Grid:
    """Bandwidths in bit/s, ascending; latencies in seconds; and the sizes (n, L) of pairs."""

    bandwidths: tuple[float, ...]
    latencies: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    key_bits: int = 2048

    @classmethod
    def make(cls, quick: bool) -> "Grid":
        """The grid of 1 Mbit/s to 10 Gbit/s and 1 to 200 ms; a smaller one if `quick`."""
        if quick:
            return cls(tuple(np.logspace(6, 10, 9).tolist()), (0.001, 0.05), ((50, 1024),))
        return cls(tuple(np.logspace(6, 10, 13).tolist()), (0.001, 0.01, 0.05, 0.2), ((50, 1024), (200, 1024)))


@dataclass(frozen=True)
class Point:
    """The virtual `seconds` of one pair with one variant, under one bandwidth and latency."""

    n: int
    bits: int
    variant: str
    latency: float
    bandwidth: float
    seconds: float


@dataclass(frozen=True)
class Crossing:
    """The `bandwidth` in bit/s from which on iknp is faster; if None, `note` says always or never in the grid.

    `seconds` is the time of both variants at that bandwidth; None if `bandwidth` is None.
    """

    n: int
    bits: int
    latency: float
    bandwidth: float | None
    seconds: float | None
    note: str = ""


class _PairClient(Client):
    """A client that takes part only in the set-up and in SecureHamming, with random bits."""

    def __init__(self, world: World, name: str, variant: SecureHamming, bits: NDArray[np.bool_], **access: Any) -> None:
        count = len(bits)
        points = Shard(np.zeros((count, 1)), np.zeros(count, np.int64), np.zeros(count, np.bool_), np.arange(count))
        super().__init__(world, name, points, **access)
        self.variant, self.bits = variant, bits

    async def main(self) -> None:
        await self.recv(setup.RoundStart, self.server, _DEADLINE)
        group, keys = await setup.client(self, _DEADLINE, self.variant)
        await hamming.client(self, group, self.variant, keys, self.bits, _DEADLINE)


class _PairServer(Server):
    def __init__(
        self, world: World, clients: tuple[str, ...], variant: SecureHamming, bits: int, **access: Any
    ) -> None:
        super().__init__(world, clients, **access)
        self.variant, self.bits = variant, bits

    async def main(self) -> None:
        group = await setup.server(self, self.clients, 1, _MINIMUM, _DEADLINE, self.variant)
        await hamming.server(self, group, self.variant, self.bits, _MINIMUM, _DEADLINE)


def duration(variant: SecureHamming, n: int, bits: int, bandwidth: float, latency: float, engine: Remembering) -> float:
    """The virtual seconds of SecureHamming for a pair with n points of L = `bits` bits each; `bandwidth` in bit/s,
    `latency` in seconds."""
    begun: list[float] = []
    ended: list[float] = []

    def watch(event: Event) -> None:
        if (event.kind, event.step) == ("enter", "hamming.encode"):
            begun.append(event.time)
        if (event.kind, event.step) == ("leave", "hamming.collect"):
            ended.append(event.time)

    conditions = Conditions("mesh", parse_latency(f"{latency * 1e3:g}ms"))
    world = World(1, conditions=conditions, engine=engine, sinks=[watch])
    access: dict[str, Any] = {"up": bandwidth / 8, "down": bandwidth / 8}
    names = ("client/0", "client/1")
    vectors = [generator(1, "bits", name).integers(2, size=(n, bits)).astype(np.bool_) for name in names]
    clients = [_PairClient(world, name, variant, own, **access) for name, own in zip(names, vectors, strict=True)]
    server = _PairServer(world, names, variant, bits, **access)
    play_out([server, *clients])
    return max(ended) - min(begun)


def sweep(grid: Grid) -> list[Point]:
    """The times of every pair with both variants at all bandwidths and latencies."""
    points = []
    for n, bits in grid.pairs:
        variants = (PaillierHamming(bits, grid.key_bits, grid.key_bits < 2048), IknpHamming(bits, find_group("p256")))
        for variant in variants:
            engine = Remembering(most=1 << 32)  # a new engine for each variant, as results may be large
            points += [
                Point(n, bits, variant.name, latency, bandwidth, duration(variant, n, bits, bandwidth, latency, engine))
                for latency in grid.latencies
                for bandwidth in grid.bandwidths
            ]
    return points


def crossings(points: Sequence[Point]) -> list[Crossing]:
    """The crossing of each pair and latency. Between bandwidths, log(time / time) is taken as linear in
    log(bandwidth)."""
    found = []
    for n, bits, latency in dict.fromkeys((point.n, point.bits, point.latency) for point in points):
        chosen = [point for point in points if (point.n, point.bits, point.latency) == (n, bits, latency)]
        times = {(point.variant, point.bandwidth): point.seconds for point in chosen}
        bandwidths = sorted({point.bandwidth for point in chosen})
        paillier, iknp = ([times[name, bandwidth] for bandwidth in bandwidths] for name in (PAILLIER, IKNP))
        behind = [math.log(slow / fast) for slow, fast in zip(iknp, paillier, strict=True)]
        found.append(_crossing(n, bits, latency, bandwidths, behind, iknp))
    return found


def _crossing(
    n: int, bits: int, latency: float, bandwidths: list[float], behind: list[float], iknp: list[float]
) -> Crossing:
    last = max((i for i, value in enumerate(behind) if value > 0), default=-1)
    if last == -1:
        return Crossing(n, bits, latency, None, None, "always")
    if last == len(behind) - 1:
        return Crossing(n, bits, latency, None, None, "never")
    share = behind[last] / (behind[last] - behind[last + 1])

    def between(values: list[float]) -> float:
        return math.exp(math.log(values[last]) * (1 - share) + math.log(values[last + 1]) * share)

    return Crossing(n, bits, latency, between(bandwidths), between(iknp))


def print_crossings(console: Console, found: Sequence[Crossing], grid: Grid) -> None:
    """Print the crossing of each pair and latency."""
    low, high = (_rate(bandwidth) for bandwidth in (grid.bandwidths[0], grid.bandwidths[-1]))
    title = f"From which bandwidth iknp is done before Paillier ({grid.key_bits}-bit keys), one pair, {low} to {high}"
    console.print(title)
    from_rate = kinds.Kind(lambda bandwidth: f"from {_rate(bandwidth)}", "bits per second")
    columns = (
        Column("n", kinds.COUNT),
        Column("L", kinds.FIGURE, of=lambda one: str(one.bits)),
        Column("latency", kinds.significant(6, factor=1e3, suffix=" ms")),
        Column("iknp is faster", from_rate, of=lambda one: one.bandwidth or one.note),
        Column("then both take", kinds.significant(3, suffix=" s"), "seconds", missing=""),
    )
    print_table(console, Table.of(found, columns))


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / 1e9:.3g} Gbit/s" if bandwidth >= 1e9 else f"{bandwidth / 1e6:.3g} Mbit/s"


def save_plot(path: Path, points: Sequence[Point], found: Sequence[Crossing]) -> None:
    """Plot time against bandwidth: a panel for each pair, a colour for each latency, a circle at each crossing.

    Needs matplotlib, see `plots.check_plot`.
    """
    from matplotlib.figure import Figure

    pairs = list(dict.fromkeys((point.n, point.bits) for point in points))
    latencies = sorted({point.latency for point in points})
    figure = Figure(figsize=(6.4 * len(pairs), 4.8), layout="constrained")
    axes = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axis, (n, bits) in zip(axes, pairs, strict=True):
        for number, latency in enumerate(latencies):
            for variant, dash in ((PAILLIER, "--"), (IKNP, "-")):
                line = [p for p in points if (p.n, p.bits, p.latency, p.variant) == (n, bits, latency, variant)]
                label = f"{variant}, {latency * 1e3:g} ms"
                xs, ys = [p.bandwidth for p in line], [p.seconds for p in line]
                axis.plot(xs, ys, dash, color=f"C{number}", label=label)
            crossed = [c for c in found if (c.n, c.bits, c.latency) == (n, bits, latency) and c.bandwidth is not None]
            axis.plot([c.bandwidth for c in crossed], [c.seconds for c in crossed], "o", color=f"C{number}")
        axis.set(xscale="log", yscale="log", xlabel="bandwidth (bit/s)", ylabel="virtual time of SecureHamming (s)")
        axis.set_title(f"one pair, n = {n}, L = {bits}; circles: iknp is faster to the right", fontsize="medium")
        axis.grid(True, which="major", alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(path)
