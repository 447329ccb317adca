"""How a client learns from its own points and from the consensus: pure functions of a learner and points."""

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
    """The public set U: `points` (n, ...), and their `labels` int64 (n,), -1 where unknown, for those who may use them.

    Of the algorithms here only FedMD may.
    """

    points: Points
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class LocalTraining:
    """One way to learn in a round; picklable. This one learns from all at once.

    h <- A(D u P, h), Algorithm 1, line 3 of Abourayya et al. Targets of probabilities are joined to own labels as 0 and
    1. A learner that starts again with each fit is fitted once: earlier fits would have no effect. If `halves`, each
    step of a learner by batches takes a batch of its own points and one of those with a consensus, as the authors'
    released code does; else its batches are of the union, as the algorithm is written.
    """

    halves: bool = False

    labelled: ClassVar[bool] = False
    """True if it uses the labels of the public points."""

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
        """The learner's state after a round of `period` fits; `state` None: it has learnt nothing yet.

        `targets` are None before there is anything to agree on.
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
        """The work of `train` with those numbers of its own points, public ones, and ones to learn from."""
        if self._by_halves(learner, own, targets or 0):
            return fit_work(learner, (own, targets or 0), period)
        return fit_work(learner, own + (targets or 0), period)

    def _by_halves(self, learner: Learner, own: int, agreed: int) -> bool:
        return self.halves and own > 0 and agreed > 0 and isinstance(learner, BatchLearner)


@dataclass(frozen=True)
class CotrainingMethod:
    """An algorithm of co-training."""

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
    """The state after `period` fits to the labels, or to `targets` (n, classes); one, of a learner that is not warm.

    With `parts` each step takes a batch of each. Without a point the state stays as it is.
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
    """The work of `fit_repeatedly` on a number of points, or on parts of such numbers."""
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
