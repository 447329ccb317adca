"""Observes a run: compares releases and labels with the oracle, and measures accuracy and the budget spent."""

import hashlib
import math
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.protocols.cells.cells import CellsClient, CellsServer
from tacit.protocols.cells.mechanism import Plan
from tacit.protocols.cells.oracle import Points, plain_cells
from tacit.protocols.experiment.simulated import Simulated, accuracy, balanced_accuracy, counting
from tacit.protocols.one_shot import OneShotObserver
from tacit.protocols.privacy.gaussian import epsilon_of
from tacit.protocols.privacy.spending import finite, seeded_caveats
from tacit.protocols.privacy.spent import Spent

__all__ = ["CellsObserver", "spent_on"]

_POINT = "one point of one client with its label, replaced"


def spent_on(plan: Plan, delta: float, entropy: str, sums: int, clients: int) -> Spent:
    """The privacy that the first `sums` of the plan's sums of `clients` spend together.

    Epsilons are those with `delta` and exact noise; the stated deltas have the sampling error added, (1 + e^epsilon)
    times the distance to exact noise in total variation.
    """
    costliest = max(plan.mu_after(1), plan.mu_of_counts)
    distance = plan.sampling_error(sums, clients)
    together, each = epsilon_of(plan.mu_after(sums), delta), epsilon_of(costliest, delta)
    caveats = seeded_caveats(entropy)
    return Spent(
        guaranteed=not caveats,
        caveats=caveats,
        mechanism="discrete Gaussian noise on sums over cells",
        neighbours=_POINT,
        covers="whoever sees the sums, the server among them, and clients that know their own noise as planned",
        rounds=sums,
        planned=plan.sums,
        delta=_stated(delta, together, distance),
        delta_round=_stated(delta, each, distance),  # that of all sums: more than that of any one
        epsilon=finite(together),
        epsilon_round=finite(each),
        noise=plan.multiplier,
        clip=plan.clip,
    )


def _stated(delta: float, epsilon: float, distance: float) -> float:
    """The sum of `delta` and the increase that a `distance` in total variation causes."""
    return min(1.0, delta + (distance and (1 + math.exp(min(epsilon, 700.0))) * distance))


class CellsObserver(OneShotObserver):
    """Compares every release and every label with the oracle, which is given the noise that was drawn."""

    plan: Plan
    delta: float
    entropy: str
    classes: tuple[str, ...]

    def sum_up(self) -> Simulated:
        found = super().sum_up()
        has_new = any(shard.new.any() for shard in self._shards.values())
        labels = self._labels()
        pairs = [
            (own[counts], self._shards[name].labels[counts])
            for name, own in labels.items()
            for counts in (self._counting(self._shards[name], has_new),)
        ]
        if pairs:
            both = [np.concatenate(column) for column in zip(*pairs, strict=True)]
            found.accuracy, found.balanced_accuracy = accuracy(*both), balanced_accuracy(*both)
        found.measured_on = f"the {'new' if has_new else 'unlabeled'} points of clients that got labels"
        found.labels_digest = _digest(labels)
        found.predictions = [
            (name, "", row, self.classes[label], 1.0)
            for name, own in labels.items()
            for row, label in zip(self._shards[name].rows.tolist(), own.tolist(), strict=True)
        ]
        return found

    @property
    def privacy(self) -> Spent:
        return spent_on(self.plan, self.delta, self.entropy, self._parties.asked, len(self._shards))

    @property
    def _parties(self) -> CellsServer:
        return cast(CellsServer, self._server)

    def _counting(self, shard: Shard, has_new: bool) -> NDArray[np.bool_]:
        return counting(shard.labels, shard.labeled, shard.new, has_new)

    def _labels(self) -> dict[str, NDArray[np.int64]]:
        """The labels of each living client that has some."""
        clients = {name: cast(CellsClient, client) for name, client in self._named.items()}
        return {name: one.found for name, one in clients.items() if one.alive and one.found is not None}

    def equals_oracle(self) -> bool | None:
        """True if sums, centres and labels equal the oracle's; None without a result, or if the noise is unknown."""
        released, plan = self._parties.released, self.plan
        if not self._server.found:
            return None
        points = {}
        for name in released[0].contributors:
            noise, shard = CellsClient.noise.of(self._named.devices[name]), self._shards[name]
            if noise is None:
                return None
            points[name] = Points(shard.features, np.where(shard.labeled, shard.labels, -1), noise.parts)
        wanted, cells, labels = plain_cells(
            points,
            [one.contributors for one in released],
            released[0].centres,
            plan.classes,
            plan.clip,
            plan.radius,
            plan.multiplier / 2,
        )
        same = all(
            np.array_equal(one.ring.view(np.int64), other.total) and np.array_equal(one.centres, other.centres)
            for one, other in zip(released, wanted, strict=True)
        )
        found = self._labels()
        return (
            same
            and np.array_equal(released[-1].labels, cells)
            and all(np.array_equal(own, labels[name]) for name, own in found.items())
        )


def _digest(labels: Mapping[str, NDArray[np.int64]]) -> str:
    state = hashlib.sha256()
    for name, own in labels.items():
        state.update(f"{name} {len(own)} ".encode() + own.astype("<i8").tobytes())
    return state.hexdigest()
