"""The sources of the pseudo-labels of a round.

| labeller | pseudo-labels of a client's points |
| --- | --- |
| `NetworkLabeller` | the classes that the model of this round predicts, weighed by its confidence |
| `Alone` | label propagation among the client's own points, in the features of the model |
| `Across` | XCLP among the cohort, in the features of the model |
| `Once` | those of another labeller in the first round, kept from then on |

Paper: Scott, Yeo, Lampert (XCLP), Section 4.2: FedAvg+network, FedAvg+perclientLP and FedAvg+XCLP in `NetworkLabeller`,
`Alone` and `Across`; FedSem+ in `Once`. A confidence is 1 - entropy / log C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.learning import jobs
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.server import Server
from tacit.protocols.federated.method import PseudoLabels
from tacit.protocols.setup import Group
from tacit.protocols.xclp import xclp
from tacit.protocols.xclp.label_propagation import label_by, propagate
from tacit.protocols.xclp.lsh import SEED_BYTES, distances, hash_bits, planes
from tacit.protocols.xclp.recipe import PAPER, Recipe
from tacit.sim.compute import Work
from tacit.sim.hollow import hollow

__all__ = ["Across", "Alone", "NetworkLabeller", "Once"]


class _Local:
    """A labeller without a server."""

    waits: ClassVar[int] = 0
    uses_features: ClassVar[bool] = False
    across: ClassVar[bool] = False
    fewest: ClassVar[int] = 1

    def plan(self, me: Client, members: Mapping[str, int]) -> None:
        pass

    async def server(self, me: Server, members: Sequence[str]) -> None:
        pass


@dataclass(frozen=True)
class NetworkLabeller(_Local):
    """Labels by predictions of the model, on `device`; the `recipe` decides on probabilities or logits."""

    spec: ModelSpec
    recipe: Recipe = PAPER
    device: str = "auto"

    def work(self, points: int, labelled: bool = False) -> Work:
        return jobs.embed_work(self.spec, points)

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        images = me.shard.points
        return await me.compute(self.work(len(images)), _predict, self, model, images)


def _all_labelled(points: int) -> PseudoLabels:
    return PseudoLabels(np.zeros(points, np.int64), np.ones(points, np.float32))


@hollow(lambda settings, model, images: _all_labelled(len(images)))
def _predict(settings: NetworkLabeller, model: bytes, images: NDArray[np.generic]) -> PseudoLabels:
    scores_of = jobs.logits if settings.recipe.logits else jobs.probabilities
    scores = scores_of(settings.spec, model, images, settings.device).astype(np.float64)
    scores[~np.isfinite(scores).all(axis=1)] = 0.0  # a model that has diverged says nothing
    labels, confidence = label_by(settings.recipe, scores, np.zeros(settings.spec.classes))
    return PseudoLabels(labels, confidence.astype(np.float32))


@dataclass(frozen=True)
class Alone(_Local):
    """Label propagation on the client's own graph, over `bits` hash bits of its features, like XCLP on the joint graph.

    A client without labels gets none. `orthogonal`: the planes are orthogonal (`xclp.lsh`).
    """

    spec: ModelSpec
    bits: int
    k: int
    alpha: float
    recipe: Recipe = PAPER
    device: str = "auto"
    orthogonal: bool = False
    uses_features: ClassVar[bool] = True

    def work(self, points: int, labelled: bool = False) -> Work:
        n = points
        work = {"lsh.multiply": n * self.bits, "hamming.word": n * n * -(-self.bits // 64), "graph.entry": n * n}
        return dict(jobs.embed_work(self.spec, n)) | work

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        shard = me.shard
        known = np.where(shard.labeled, shard.labels, -1)
        work = self.work(len(shard.labels))
        seed = me.entropy("planes").bytes(SEED_BYTES)
        return await me.compute(work, _propagate_alone, self, model, shard.points, known, seed)


def _hollow_alone(
    settings: Alone, model: bytes, images: NDArray[np.generic], known: NDArray[np.int64], seed: bytes
) -> PseudoLabels:
    if (known >= 0).any():
        return _all_labelled(len(images))
    return PseudoLabels(np.full(len(images), -1), np.zeros(len(images), np.float32))


@hollow(_hollow_alone)
def _propagate_alone(
    settings: Alone, model: bytes, images: NDArray[np.generic], known: NDArray[np.int64], seed: bytes
) -> PseudoLabels:
    features = jobs.embed_all(settings.spec, model, images, settings.device).astype(np.float64)
    bits = hash_bits(features, planes(seed, settings.bits, features.shape[1], orthogonal=settings.orthogonal))
    found = propagate(
        distances(bits, bits), settings.bits, known, settings.spec.classes, settings.k, settings.alpha, settings.recipe
    )
    return PseudoLabels(found.labels, found.confidence.astype(np.float32))


@dataclass(frozen=True)
class Once(_Local):
    """Asks another labeller in a client's first round with pseudo-labels, and stores the result on its disk."""

    labeller: NetworkLabeller | Alone

    @property
    def uses_features(self) -> bool:  # type: ignore[override]
        return self.labeller.uses_features

    def work(self, points: int, labelled: bool) -> Work | None:
        return None if labelled else self.labeller.work(points)

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        if "pseudo-labels" not in me.disk:
            me.disk["pseudo-labels"] = await self.labeller.client(me, model)
        kept: PseudoLabels = me.disk["pseudo-labels"]
        return kept


@dataclass(frozen=True)
class Across:
    """Labels by XCLP among the cohort, on features of the model; `parameters` are XCLP's."""

    spec: ModelSpec
    parameters: xclp.Parameters
    device: str = "auto"
    uses_features: ClassVar[bool] = True
    across: ClassVar[bool] = True

    @property
    def waits(self) -> int:
        return self.parameters.waits

    @property
    def fewest(self) -> int:
        return self.parameters.min_clients

    def work(self, points: int, labelled: bool = False) -> Work:
        return jobs.embed_work(self.spec, points)

    def plan(self, me: Client, members: Mapping[str, int]) -> None:
        me.plan(self.parameters.variant.plan(me, Group(tuple(members), dict(members), {})))

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        points = me.shard.points
        features = await me.compute(self.work(len(points)), jobs.embed_all, self.spec, model, points, self.device)
        found = await xclp.client(me, features.astype(np.float64), self.parameters)
        labels = np.full(len(points), -1)
        weights = np.zeros(len(points), np.float32)
        labels[found.rows], weights[found.rows] = found.labels, found.confidence
        return PseudoLabels(labels, weights)

    async def server(self, me: Server, members: Sequence[str]) -> None:
        await xclp.server(me, members, me.round, self.parameters)
