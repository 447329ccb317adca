"""The bandwidth at which SecureHamming by oblivious transfer (iknp) is as fast as by Paillier.

There is one pair of clients with n points of L bits each, in a mesh in which all three parties have the same bandwidth
up and down, and every link has the same constant latency. Computations take the times of the cost table (`cost =
modelled`), on one core each. Each figure is that of a hollow run, as `tacit predict` makes: all messages are sent, and
nothing is computed. The time is virtual, from the first client's `hamming.encode` to the server's H; the set-up before
it, with Paillier's key, is not counted.
"""

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.trace import Event

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
_PAIR = (
    "fault=[]", "expect={}", 'data={name="synthetic"}', "data.clients=2", "data.partition=iid", "data.labeled=0.5",
    "protocol.min_clients=2", "protocol.k=1", "protocol.oracle=false", "protocol.baselines=false",
    "protocol.deadline=2000h",  # no party misses it on a slow network
    "network.topology=mesh", "engine=inline",
)  # fmt: skip


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


def duration(variant: str, n: int, bits: int, bandwidth: float, latency: float, key_bits: int = 2048) -> float:
    """The virtual seconds of SecureHamming for a pair with n points of L = `bits` bits each; `bandwidth` in bit/s,
    `latency` in seconds."""
    begun: list[float] = []
    ended: list[float] = []

    def watch(event: Event) -> None:
        if (event.kind, event.step) == ("enter", "hamming.encode"):
            begun.append(event.time)
        if (event.kind, event.step) == ("leave", "hamming.collect"):
            ended.append(event.time)

    changes = (
        *_PAIR, f"data.limit={2 * n}", f"protocol.hamming={variant}", f"protocol.bits={bits}",
        f"protocol.key_bits={key_bits}", f"protocol.insecure_keys={str(key_bits < 2048).lower()}",
        f"network.latency={latency * 1e3:g}ms",
        *(f"network.{end}bandwidth={bandwidth}bit/s" for end in ("", "server_")),
    )  # fmt: skip
    with closing(Simulation(load("xclp-digits", changes), sinks=[watch], engine="inline", hollow=True)) as simulation:
        simulation.run()
    return max(ended) - min(begun)


def sweep(grid: Grid) -> list[Point]:
    """The times of every pair with both variants at all bandwidths and latencies."""
    return [
        Point(n, bits, variant, latency, bandwidth, duration(variant, n, bits, bandwidth, latency, grid.key_bits))
        for n, bits in grid.pairs
        for variant in (PAILLIER, IKNP)
        for latency in grid.latencies
        for bandwidth in grid.bandwidths
    ]


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
