"""The data of an attack: the attacker's own, and the points that it asks about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.datasets.content import Points
from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.experiment.parts import Parts
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator

__all__ = ["NOBODY", "Probe", "attacked", "probe_of", "shadowed"]

NOBODY = -1
"""The owner of a point that no client has."""


def attacked(parts: Parts, tables: Tables) -> Parts:
    """The parts of a run that is attacked: half of the clients' points go to the attacker, drawn from (seed, "attack").

    Of the other half `attack.points` are outside. Raises Problem where too few are left.
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
    """The data of a run with the attacker's own points in place of the clients'; it tests nothing."""
    assert parts.attacker is not None
    return _hold_out(replace(parts, held=parts.attacker, attacker=None, test=None, validation=None), points, seed)


def _hold_out(parts: Parts, points: int, seed: int) -> Parts:
    """Take `points` of the clients' from them, so that they are outside."""
    order = generator(seed, "attack", "outside").permutation(len(parts.held.labels))
    outside, held = (parts.held.take(np.sort(rows)) for rows in (order[:points], order[points:]))
    return replace(parts, outside=outside, held=held)


@dataclass(frozen=True, eq=False)
class Probe:
    """n points with their labels, int64 (n,), which the attacker knows, and whose training data each is of.

    `owners`, int64 (n,), are the clients' numbers, or `NOBODY`: what the attacker wants to know.
    """

    points: Points
    labels: NDArray[np.int64]
    owners: NDArray[np.int64]

    def rows(self, client: int) -> NDArray[np.int64]:
        """Which points are asked about that client: its own, and nobody's. Others' may have reached it by now."""
        return np.flatnonzero((self.owners == client) | (self.owners == NOBODY))


def probe_of(parts: Parts, shards: Sequence[Shard], most: int, seed: int) -> Probe:
    """At most `most` training points of each shard, drawn from the stream (seed, "attack", "probe", its number).

    They follow the rows of `parts.outside`.
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
