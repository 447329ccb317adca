"""Each client's influence columns from the distances.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| influence.request | LabeledPoints | client -> server | ceil(n_j / 8) | which of its points are labeled |
| influence.solve | Rows | server -> each that asked | sum of ceil(n_i / 8), their names | who gets which rows |
| influence.solve | Columns | server -> each that asked | 8 n l_j | its columns of S, float64, row by row |

Paper: XCLP, Algorithm 1 lines 6-12. The graph and S are in `graph`. A client that does not answer keeps its points in
the graph; its labels are not used and it gets no labels.

Security: semi-honest. The server learns which points are labeled, not how. A client learns its columns of S, which
are rows of S too, for S is symmetric; and which rows the others ask for, hence with `rows = "unlabeled"` which of
their points are labeled. If a client were given Z on its labeled points, Z there would be a linear system in the
others' labels with coefficients it knows; so by default a client gets the rows of its unlabeled points only. That
weakens the attack and does not end it: S on the other rows can be estimated from the columns that a client has
(Nystroem), and a curious client of a few small ones then recovers far more labels than by chance, more with every
round over the same labels. What it learns without guessing:

- Which classes the others hold: Z less its own part is above 0 in the columns of those classes and 0 in the others,
  wherever a labeled point of theirs is connected with one of its rows. Of 12 runs with 3 clients, 12 sets exactly.
- Most graph rows of its labeled points: S = I + alpha W + ..., so the largest entries of a column are the neighbours,
  of anybody's points (seven in ten of them, of 240 points).
- With one other client that has labels, that client's scores on its rows, for Z has no other part. `min_clients` is
  the least number of clients with labels, so 2 allows this.

The exact scores are the leak; only a coarser output (noise, labels alone) would close it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.fields import field_bytes
from tacit.protocols.crypto.sizes import FLOAT_BYTES, text
from tacit.protocols.outcome import require
from tacit.protocols.parts import Among, Part, Step
from tacit.protocols.setup import Group
from tacit.protocols.values import announced, understood, values_of
from tacit.protocols.xclp.blocks import Blocks
from tacit.protocols.xclp.graph import Influence, neighbour_graph
from tacit.protocols.xclp.solvers import FACTORED
from tacit.sim.compute import on_all_cores
from tacit.sim.hollow import array_in, blank, hollow
from tacit.sim.wire import Message

__all__ = ["STEPS", "ClientInfluence", "client", "server", "solve_works"]

STEPS = (
    Step("client", "influence.request", "say which points are labeled; receive their influence columns", "early"),
    Step("server", "influence.solve", "build the neighbour graph, solve for the labeled columns, send them"),
)


class LabeledPoints(Message):
    admits: ClassVar[tuple[str, ...]] = ("Rows",)
    flags: bytes


class Rows(Message):
    names_members: ClassVar[bool] = True
    names: list[str]
    flags: list[bytes]


class Columns(Message):
    values: bytes


@dataclass(frozen=True)
class ClientInfluence:
    """A client's view of the graph: its `columns` (n, l_j) of S, and the global indices of each asking client's `rows`.

    `labeled`: the asking clients that have labels.
    """

    columns: NDArray[np.float64]
    rows: dict[str, NDArray[np.int64]]
    labeled: frozenset[str]


async def client(me: Client, group: Group, rows: str, deadline: float) -> ClientInfluence:
    """Request the columns of the client's labeled points. `group`: the members Q; `rows`: "unlabeled" or "paper"."""
    labeled = me.shard.labeled
    with me.step("influence.request"):
        me.send(me.server, LabeledPoints(np.packbits(labeled).tobytes()))
        wanted = await me.recv(Rows, me.server, 2 * deadline)
        columns = await me.recv(Columns, me.server, 2 * deadline)
    with values_of(me, me.server, "Rows and Columns"):
        points = sum(group.points[name] for name in group.names)
        values = array_in(columns.values, "<f8").reshape(points, int(labeled.sum()))
        names = announced(me, wanted.names, group.names)
        counts = tuple((name, group.points[name]) for name in group.names)
        flags, having, indices = _shown(names, tuple(wanted.flags), counts, rows)
        if not np.array_equal(flags[me.name], labeled):
            raise ValueError(f"the labeled points that are ascribed to {me.name} are not those that it sent")
        return ClientInfluence(values, dict(indices), having)


async def server(
    me: Server,
    group: Group,
    h: Blocks,
    bits: int,
    k: int,
    alpha: float,
    min_clients: int,
    deadline: float,
    edge_power: int = 1,
    flip: float = 0.0,
) -> dict[str, int]:
    """Answer the members Q with their columns. Returns l_j of each that asked. Raises Abort."""
    with me.step("influence.solve"):
        asked = await me.collect(LabeledPoints, group.names, deadline=deadline)
        flags = understood(me, asked.answers, lambda name, answer: _flags(answer.flags, group.points[name]))
        missing = [name for name in group.names if name not in flags]
        me.lose(missing, "its points stay in the graph, its labels do not count")
        me.dismiss(missing, f"your request for influence columns did not come within {deadline:g} s")
        labeled = {name: int(flag.sum()) for name, flag in flags.items()}
        require(sum(count > 0 for count in labeled.values()), "clients with labels", min_clients)
        starts = _starts(tuple((name, group.points[name]) for name in group.names))
        indices = {name: starts[name] + np.flatnonzero(flag) for name, flag in flags.items()}
        announcement = Rows(list(flags), [np.packbits(flag).tobytes() for flag in flags.values()])
        async for name, values in _solved(me, _Graph(h, bits, k, edge_power, flip, alpha), labeled, indices):
            me.send(name, announcement)
            me.send(name, Columns(values))
    return labeled


def solve_works(points: int, labeled: Mapping[str, int]) -> list[tuple[dict[str, int], list[str]]]:
    """The server's jobs with a graph of `points` points: the operations of each, and the clients whose columns it
    makes.

    `labeled`: l_j of the clients that asked. Up to 4,096 points it is one job. With more, the graph is a job, and so
    are each client's columns, which are sent as soon as they are computed.
    """
    graph, each = {"graph.entry": points * points}, {name: {"solve.entry": points * n} for name, n in labeled.items()}
    if points <= FACTORED:
        return [(graph | {"solve.entry": points * sum(labeled.values())}, list(labeled))]
    return [(graph, []), *((work, [name]) for name, work in each.items())]


@dataclass(frozen=True, eq=False)
class _Graph:
    """The graph from which the influence is computed."""

    h: Blocks
    bits: int
    k: int
    edge_power: int
    flip: float
    alpha: float

    @hollow(lambda self: len(self.h))
    @on_all_cores
    def influence(self) -> Influence:
        return Influence(neighbour_graph(self.h, self.bits, self.k, self.edge_power, self.flip), self.alpha)


async def _solved(
    me: Server, graph: _Graph, labeled: Mapping[str, int], indices: Mapping[str, NDArray[np.int64]]
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the columns of each client that asked."""
    works = solve_works(len(graph.h), labeled)
    if len(works) == 1:
        columns = await me.compute(works[0][0], _solve, graph, list(indices.values()))
        for name, values in zip(indices, columns, strict=True):
            yield name, values
        return
    influence = await me.compute(works[0][0], graph.influence)
    for work, names in works[1:]:
        for name in names:
            yield name, await me.compute(work, _columns, influence, indices[name])


@hollow(lambda graph, indices: [blank(8 * len(graph.h) * len(own)) for own in indices])
def _solve(graph: _Graph, indices: list[NDArray[np.int64]]) -> list[bytes]:
    influence = graph.influence()
    return [_columns(influence, own) for own in indices]


@hollow(lambda points, indices: blank(8 * points * len(indices)))
@on_all_cores
def _columns(influence: Influence, indices: NDArray[np.int64]) -> bytes:
    return influence.columns(indices).astype("<f8", copy=False).tobytes()


def _flags(data: bytes, points: int) -> NDArray[np.bool_]:
    if len(data) != -(-points // 8):
        raise ValueError(f"flags of {points} points take {-(-points // 8)} bytes, not {len(data)}")
    return np.unpackbits(np.frombuffer(data, np.uint8), count=points).view(np.bool_)


Points = tuple[tuple[str, int], ...]
"""The members Q, each with its number of points."""

Shown = tuple[dict[str, NDArray[np.bool_]], frozenset[str], dict[str, NDArray[np.int64]]]
"""The flags of each client, the clients with labels, and the rows R_i of each client, as global indices."""


@lru_cache(2)  # all clients of a simulation are shown the same
def _shown(names: tuple[str, ...], shown: tuple[bytes, ...], points: Points, rows: str) -> Shown:
    """Decode the flags of `names`. Raises ValueError. Nobody may change the result."""
    counts = dict(points)
    flags = {name: _flags(data, counts[name]) for name, data in zip(names, shown, strict=True)}
    having = frozenset(name for name, flag in flags.items() if np.count_nonzero(flag))
    indices = _row_indices(points, flags, rows)
    for one in (*flags.values(), *indices.values()):
        one.flags.writeable = False
    return flags, having, indices


def _starts(points: Points) -> dict[str, int]:
    """The global index of each client's first point."""
    return dict(zip(dict(points), accumulate((count for _, count in points), initial=0), strict=False))


def _row_indices(points: Points, flags: dict[str, NDArray[np.bool_]], rows: str) -> dict[str, NDArray[np.int64]]:
    """The rows R_i of each client, as global indices."""
    starts, everything = _starts(points), rows == "paper"
    if everything:
        return {name: starts[name] + np.arange(len(flag)) for name, flag in flags.items()}
    return {name: starts[name] + (~flag).nonzero()[0] for name, flag in flags.items()}


class InfluenceColumns(Part):
    """The neighbour graph and its influence columns as a part of XCLP."""

    takes = STEPS

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, flags = len(among.names), sum(field_bytes(n_j, 1) for n_j in among.points.values())
        return {
            "LabeledPoints": flags,
            "Rows": p * (flags + text(among.names)),
            "Columns": FLOAT_BYTES * sum(among.points.values()) * sum(among.labeled.values()),
        }

    def waits(self, tables: Any) -> int:
        return 2
