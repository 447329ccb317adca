"""FedMD: clients learn labeled public points first, then share scores of them, digest the mean, and revisit their own.

Paper: Li and Wang, FedMD: Heterogenous federated learning via model distillation, 2019, Algorithm 1. Transfer learning:
each client learns the public points, which have labels, then its own. In every round it sends its class scores of the
public points; from the mean it learns these points again (digest), then its own again (revisit).

Departures: scores are probabilities learnt by cross-entropy (its authors' code takes a network's last layer before the
softmax and the absolute error), as all learners here have probabilities; they are of all public points in each round,
not of a sample. The mean of the last round is not sent, as nothing would be learnt from it. Digest and revisit are
`period` fits each.

Bytes and what is revealed are those of `dd`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.learner import Learner
from tacit.protocols.cotraining.local_training import LocalTraining, Public, fit_repeatedly, fit_work
from tacit.protocols.cotraining.sharing import Targets
from tacit.sim.compute import Work, total_work
from tacit.sim.hollow import hollow
from tacit.sim.streams import derive

__all__ = ["DigestAndRevisit"]


@dataclass(frozen=True)
class DigestAndRevisit(LocalTraining):
    """Learns the public points first, then the client's own: initially by their labels, later by the consensus."""

    labelled: ClassVar[bool] = True

    @hollow(lambda self, *of_client: b"hollow")
    def train(
        self,
        learner: Learner,
        state: bytes | None,
        own: tuple[NDArray[np.generic], NDArray[np.int64]],
        public: Public,
        targets: Targets | None,
        period: int,
        seed: bytes,
    ) -> bytes:
        if state is None:
            state = learner.initial(derive(seed, "initial"))
            known = np.flatnonzero(public.labels >= 0)
            points, labels = public.points[known], public.labels[known]
            state = fit_repeatedly(learner, state, points, labels, None, period, derive(seed, "transfer"))
        if targets is not None:
            soft = targets.probabilities
            state = fit_repeatedly(learner, state, public.points, targets.labels, soft, period, derive(seed, "digest"))
        return fit_repeatedly(learner, state, *own, None, period, derive(seed, "revisit"))

    def work(self, learner: Learner, first: bool, own: int, public: int, targets: int | None, period: int) -> Work:
        digested = (public if first else 0, targets or 0, own)
        return total_work(*(fit_work(learner, points, period) for points in digested))
