"""The data of an attack: the attacker's own points, and the points that it asks about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.datasets.content import Points
from tacit.protocols.experiment.experiment import Parts, Tables
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator

__all__ = ["NOBODY", "Probe", "attacked", "probe_of", "shadowed"]

NOBODY = -1
"""The owner of a point that no client has."""


def attacked(parts: Parts, tables: Tables) -> Parts:
    """The parts of a run that is attacked: half of the clients' points go to the attacker, drawn from (seed, "attack").

    `attack.points` points of the other half are outside. Raises Problem if too few are left.
    """
    n, points, clients = len(parts.held.labels), tables.attack.points, tables.data.clients
    half = n // 2
    if half < points + clients:
        problem = f"{points} points that nobody has and {clients} clients need more than half of {n} points"
        raise Problem("attack.points", f"{problem}; allowed: 2 to {half - clients}")
    order = generator(tables.seed, "attack").permutation(n)
    attacker = parts.held.take(np.sort(order[half : 2 * half]))
    return _hold_out(
        replace(parts, held=parts.held.take(np.sort(order[:half])), attacker=attacker), points, tables.seed
    )


def shadowed(parts: Parts, points: int, seed: int) -> Parts:
    """The data of a run with the attacker's own points instead of the clients', without test points."""
    assert parts.attacker is not None
    return _hold_out(replace(parts, held=parts.attacker, attacker=None, test=None, validation=None), points, seed)


def _hold_out(parts: Parts, points: int, seed: int) -> Parts:
    """Move `points` points from the clients to `outside`."""
    order = generator(seed, "attack", "outside").permutation(len(parts.held.labels))
    outside, held = (parts.held.take(np.sort(rows)) for rows in (order[:points], order[points:]))
    return replace(parts, outside=outside, held=held)


@dataclass(frozen=True, eq=False)
class Probe:
    """The points of an attack: n points with their labels, int64 (n,), known to the attacker, and their owners.

    `owners`, int64 (n,), are the numbers of the clients that train on them, or `NOBODY`: the attacker tries to infer
    this.
    """

    points: Points
    labels: NDArray[np.int64]
    owners: NDArray[np.int64]

    def rows(self, client: int) -> NDArray[np.int64]:
        """The indices of the points asked about a client: its own and nobody's.

        Others' points may have reached it by now.
        """
        return np.flatnonzero((self.owners == client) | (self.owners == NOBODY))


def probe_of(parts: Parts, shards: Sequence[Shard], most: int, seed: int) -> Probe:
    """The probe of at most `most` training points of each shard, drawn from the stream (seed, "attack", "probe", its
    number).

    The points follow the rows of `parts.outside`.
    """
    outside = parts.outside
    assert outside is not None
    points, labels = [outside.points], [outside.labels]
    owners = [np.full(len(outside.labels), NOBODY)]
    for number, shard in enumerate(shards):
        order = generator(seed, "attack", "probe", number).permutation(np.flatnonzero(shard.labeled))[:most]
        points.append(shard.points[order])
        labels.append(shard.labels[order])
        owners.append(np.full(len(order), number))
    return Probe(np.concatenate(points), np.concatenate(labels), np.concatenate(owners))
