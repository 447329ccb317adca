"""Privacy that a run of co-training spends by [privacy]; and the change of its labels by one element of the data."""

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
"""A function from a run's settings and the clients' shards to what it reveals; shows the progress of what takes long.

The answers to a curious server's questions are labels as those of rounds are, and are all charged.
"""


def spending_by_labels(
    tables: CotrainingTables, settings: CotrainingSettings, shards: Sequence[Shard], progress: Progress
) -> Spending:
    """Return what noisy labels reveal (`dp_fedct`)."""
    tries = partial(estimate, tables.seed, settings, shards, progress=progress)
    points = _points(settings)
    return spending_on_labels(tables.privacy, tables.entropy, points, settings.rounds, settings.questions, tries)


def spending_by_votes(
    tables: CotrainingTables, settings: CotrainingSettings, shards: Sequence[Shard], progress: Progress
) -> Spending:
    """Return what noisy votes reveal (`dp_pate`)."""
    return spending_on_votes(tables.privacy, tables.entropy, _points(settings))


def _points(settings: CotrainingSettings) -> int:
    return max(len(settings.public), 0 if settings.asked is None else len(settings.asked))


def estimate(
    seed: int, settings: CotrainingSettings, shards: Sequence[Shard], neighbours: int, progress: Progress = silent
) -> Estimate:
    """How many bits of one-hot labels of the public points change when one labeled element of a client's data is gone.

    `neighbours` data sets in all, spread over the clients that have labels; of each client what it learns in its first
    round, always with the same seed, and what it then predicts. Learning draws its batches by the number of elements,
    so that the order of all changes with one that is gone: what is seen is the learner's randomness as well.
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
    """Return a client's predictions for the public points once it has learnt these alone."""
    learner, public = settings.learners[client], settings.public
    state = settings.method.training.train(learner, None, (points, labels), public, None, settings.period, seed)
    return learner.predict(state, public.points)


def _digest(seed: int, settings: CotrainingSettings, shards: Sequence[Shard], neighbours: int) -> bytes:
    """A digest of all that an estimate rests on."""
    state = hashlib.sha256(
        repr((seed, neighbours, settings.period, settings.learners, settings.method.training)).encode()
    )
    arrays = [settings.public.points]
    for shard in shards:
        arrays += [shard.points[shard.labeled], shard.labels[shard.labeled]]
    for array in arrays:
        state.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return state.digest()
