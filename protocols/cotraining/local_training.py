"""Local training from a client's own points and the consensus: pure functions of a learner and points."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.learner import BatchLearner, Learner, SoftLearner
from tacit.protocols.cotraining.sharing import Sharing, Targets
from tacit.sim.compute import Work
from tacit.sim.hollow import hollow
from tacit.sim.streams import derive

__all__ = ["CotrainingMethod", "LocalTraining", "Public", "fit_repeatedly", "fit_work"]

Points = NDArray[np.generic]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Public:
    """The public set U: `points` (n, ...), and their `labels` int64 (n,), -1 where unknown.

    Only FedMD may use the labels.
    """

    points: Points
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class LocalTraining:
    """A way to learn in a round; picklable. The base class learns from all points at once.

    h <- A(D u P, h), Algorithm 1, line 3 of Abourayya et al. Targets of probabilities are joined to own labels as zeros
    and ones. A learner that starts again with each fit is fitted once: earlier fits would have no effect. If `halves`,
    each step of a learner by batches takes one batch of own points and one of points with a consensus, as the authors'
    released code does. Otherwise batches come from the union, as in the paper.
    """

    halves: bool = False

    labelled: ClassVar[bool] = False
    """True if the labels of the public points are used."""

    @hollow(lambda self, *of_client: b"hollow")
    def train(
        self,
        learner: Learner,
        state: bytes | None,
        own: tuple[Points, Labels],
        public: Public,
        targets: Targets | None,
        period: int,
        seed: bytes,
    ) -> bytes:
        """The learner's state after a round of `period` fits; `state` is None if it has not learned yet.

        `targets` are None before the first consensus.
        """
        begun = learner.initial(derive(seed, "initial")) if state is None else state
        points, labels = own
        if targets is None:
            return fit_repeatedly(learner, begun, points, labels, None, period, seed)
        if targets.probabilities is None:
            kept = np.flatnonzero(targets.labels >= 0)
            everything = np.concatenate([labels, targets.labels[kept]])
            parts = (len(points), len(kept)) if self._by_halves(learner, len(points), len(kept)) else ()
            points = _joined(points, public.points[kept])
            return fit_repeatedly(learner, begun, points, everything, None, period, seed, parts)
        classes = targets.probabilities.shape[1]
        known = np.eye(classes, dtype=np.float32)[labels]
        soft = np.concatenate([known, targets.probabilities])
        return fit_repeatedly(learner, begun, _joined(points, public.points), labels, soft, period, seed)

    def work(self, learner: Learner, first: bool, own: int, public: int, targets: int | None, period: int) -> Work:
        """The work of `train` with these numbers of own points, public points, and points with targets."""
        if self._by_halves(learner, own, targets or 0):
            return fit_work(learner, (own, targets or 0), period)
        return fit_work(learner, own + (targets or 0), period)

    def _by_halves(self, learner: Learner, own: int, agreed: int) -> bool:
        return self.halves and own > 0 and agreed > 0 and isinstance(learner, BatchLearner)


@dataclass(frozen=True)
class CotrainingMethod:
    """An algorithm of co-training: the way to share, and the way to train."""

    sharing: Sharing
    training: LocalTraining = LocalTraining()


def fit_repeatedly(
    learner: Learner,
    state: bytes,
    points: Points,
    labels: Labels,
    targets: NDArray[np.float32] | None,
    period: int,
    seed: bytes,
    parts: tuple[int, ...] = (),
) -> bytes:
    """The state after `period` fits to the labels, or to `targets` (n, classes); after one fit if the learner is not
    warm.

    With `parts` each step takes a batch of each part. Without points the state stays unchanged.
    """
    if not len(points):
        return state
    for number in range(period if learner.warm else 1):
        fit_seed = derive(seed, "fit", number)
        if parts:
            assert isinstance(learner, BatchLearner)  # asked for where the parts are named
            state = learner.fit_parts(state, points, labels, fit_seed, parts)
        elif targets is None:
            state = learner.fit(state, points, labels, fit_seed)
        else:
            assert isinstance(learner, SoftLearner)  # checked where the settings are built
            state = learner.fit_soft(state, points, targets, fit_seed)
    return state


def fit_work(learner: Learner, points: int | tuple[int, ...], period: int) -> Work:
    """The work of `fit_repeatedly` on a number of points, or on parts with these numbers of points."""
    if not points:
        return {}
    fits = period if learner.warm else 1
    if isinstance(points, tuple):
        assert isinstance(learner, BatchLearner)  # asked for where the parts are named
        once = learner.parts_work(points)
    else:
        once = learner.fit_work(points)
    return {name: fits * count for name, count in once.items()}


def _joined(first: Points, second: Points) -> Points:
    return np.concatenate([first, second]) if len(second) else first
