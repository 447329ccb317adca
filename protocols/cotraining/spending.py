"""The privacy that a run of co-training spends by [privacy], and the sensitivity of its labels to one element."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tacit.parties.data.splits import Shard
from tacit.protocols.cotraining.keys import CotrainingTables
from tacit.protocols.cotraining.round import CotrainingSettings
from tacit.protocols.experiment.experiment import Progress, silent
from tacit.protocols.privacy.sensitivity import Estimate, by_neighbours, left_out
from tacit.protocols.privacy.spending import spending_on_labels, spending_on_votes
from tacit.protocols.privacy.spent import Spending
from tacit.sim.streams import derive, generator

__all__ = ["SpendsBy", "estimate", "spending_by_labels", "spending_by_votes"]

_KEPT: OrderedDict[bytes, Estimate] = OrderedDict()  # runs of a table ask for the same again and again
_MOST = 16


SpendsBy = Callable[[CotrainingTables, CotrainingSettings, Sequence[Shard], Progress], Spending]
"""A function from a run's settings and the clients' shards to the privacy that it spends; it reports progress.

The answers to a curious server's questions count like labels of rounds, and are all charged.
"""


def spending_by_labels(
    tables: CotrainingTables, settings: CotrainingSettings, shards: Sequence[Shard], progress: Progress
) -> Spending:
    """The privacy that noisy labels spend (`fedct`)."""
    tries = partial(estimate, tables.seed, settings, shards, progress=progress)
    points = _points(settings)
    return spending_on_labels(tables.privacy, tables.entropy, points, settings.rounds, settings.questions, tries)


def spending_by_votes(
    tables: CotrainingTables, settings: CotrainingSettings, shards: Sequence[Shard], progress: Progress
) -> Spending:
    """The privacy that noisy votes spend (`pate`)."""
    return spending_on_votes(tables.privacy, tables.entropy, _points(settings))


def _points(settings: CotrainingSettings) -> int:
    return max(len(settings.public), 0 if settings.asked is None else len(settings.asked))


def estimate(
    seed: int, settings: CotrainingSettings, shards: Sequence[Shard], neighbours: int, progress: Progress = silent
) -> Estimate:
    """Estimate the number of bits of one-hot labels that change if one labeled element of a client's data is removed.

    It trains `neighbours` data sets, spread over the clients with labels: each client's first round, always with the
    same seed, and the resulting predictions. Learning draws its batches by the number of elements, so removing one
    changes the order of all: the estimate includes the learner's randomness.
    """
    able = [i for i, shard in enumerate(shards) if shard.labeled.any()]
    key = _digest(seed, settings, [shards[i] for i in able], neighbours)
    if key not in _KEPT:
        with progress("sensitivity") as tell, threadpool_limits(1):  # as in a run
            found, done = [], 0
            for place, i in enumerate(able):
                share = neighbours // len(able) + (place < neighbours % len(able))
                if not share:
                    continue
                own = shards[i].points[shards[i].labeled], shards[i].labels[shards[i].labeled]
                labels = partial(_labels, settings, i, derive(seed, "sensitivity", i))
                gone = left_out(len(own[1]), share, generator(seed, "sensitivity", i))
                others = []
                for element in gone:
                    tell(f"{neighbours} neighbouring data sets", done, neighbours)
                    keep = [j for j in range(len(own[1])) if j != element]
                    others.append(labels(own[0][keep], own[1][keep]))
                    done += 1
                found.append(by_neighbours(labels(*own), others))
        tried = sum(one.tried for one in found)
        mean = sum(one.mean_bits * one.tried for one in found) / tried
        _KEPT[key] = Estimate(max(one.bits for one in found), mean, tried)
        while len(_KEPT) > _MOST:
            _KEPT.popitem(last=False)
    return _KEPT[key]


def _labels(
    settings: CotrainingSettings, client: int, seed: bytes, points: NDArray[np.generic], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A client's predictions for the public points after training on these points only."""
    learner, public = settings.learners[client], settings.public
    state = settings.method.training.train(learner, None, (points, labels), public, None, settings.period, seed)
    return learner.predict(state, public.points)


def _digest(seed: int, settings: CotrainingSettings, shards: Sequence[Shard], neighbours: int) -> bytes:
    """A digest of everything that an estimate depends on."""
    state = hashlib.sha256(
        repr((seed, neighbours, settings.period, settings.learners, settings.method.training)).encode()
    )
    arrays = [settings.public.points]
    for shard in shards:
        arrays += [shard.points[shard.labeled], shard.labels[shard.labeled]]
    for array in arrays:
        state.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return state.digest()
