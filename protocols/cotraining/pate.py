"""PATE: teachers learn alone until they have converged, and label the public points once; a student learns from the
votes.

Paper: Papernot et al., Semi-supervised knowledge transfer for deep learning from private training data, ICLR 2017, as
Abourayya et al., Little is enough, Appendix D.3, compare it with FedCT: clients are the teachers, each with its local
data. In a single round each takes as many fits as a client of FedCT takes over all of its rounds, which is assumed to
converge, and sends its labels, as FedCT packs them; the server takes the class with the most votes, of several the
lowest. The student belongs to the server: it is trained there, on the public points with these labels alone, with as
many fits, and its test accuracy is the run's. Nothing is sent back.

Departure: the paper's student learns by a semi-supervised GAN from some labelled queries; here, as in Appendix D.3,
every public point is labelled and the student is the same kind of learner as the teachers.

Revealed: the server sees which label each teacher gives each public point, and holds the student.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.cotraining import packing
from tacit.protocols.cotraining.consensus import votes
from tacit.protocols.cotraining.fedct import HardLabels
from tacit.protocols.privacy.noise import gaussian, laplace
from tacit.sim.compute import Work
from tacit.sim.streams import Entropy

__all__ = ["NoisyTeachers", "Teachers", "noisy_max"]


@dataclass(frozen=True)
class Teachers(HardLabels):
    """Shares labels once; the student learns from the majority."""

    collaborative: ClassVar[bool] = False


# --- DP-PATE: PATE whose server adds Gaussian (GNMax) or Laplace noise to the votes before it takes the maximum.
#
# Paper: Papernot et al., Scalable private learning with PATE, ICLR 2018, Section 4.1, as Abourayya et al., Little is
# enough, Appendix D.3, compare it with DP-FedCT. For each public point the server adds N(0, sigma^2), from its own
# entropy, to the number of teachers that chose each class, and the largest sum is the student's label. The authors'
# released code adds Laplace noise of scale 1/2 in its place, as the first paper on PATE does ("epsilon = 2").
#
# Guarantee: of the labels, and so of the student, (epsilon, delta)-differential privacy between data that differ in one
# element of one teacher's; every public point is a query (`privacy.accounting.noisy_max_queries`, by Renyi accounting,
# independent of the data). It does NOT cover the server, which sees each teacher's labels as in PATE, or, with secure
# votes, the counts without noise.
#
# Noisy maxima: the class with the most votes after noise, Gaussian (GNMax) or of Laplace (LNMax).
#
# Papernot et al., Scalable private learning with PATE, ICLR 2018, Section 4.1. Proposition 8: with noise sigma a
# query is (order, order / sigma^2)-RDP, whatever the votes are (`accounting.noisy_max_queries`). Neighbours differ in
# one element of one teacher's data: one vote moves, so two counts change by 1, an L2 distance of sqrt(2).
#
# LNMax is of the first paper (Papernot et al., Semi-supervised knowledge transfer, ICLR 2017, Section 2.2): with scale
# b a query is 2/b-differentially private, 1/b for each of the two counts.


def noisy_max(
    counts: NDArray[np.int64], sigma: float, entropy: Entropy, noise: Literal["gaussian", "laplace"] = "gaussian"
) -> NDArray[np.int64]:
    """The argmax of counts (n, C) + noise for each row; without noise the most votes, ties to the lowest.

    `sigma`: the standard deviation of Gaussian noise, or the scale of Laplace noise.
    """
    if not sigma >= 0:
        raise ValueError(f"sigma(={sigma}) must be >= 0.")
    noisy = counts.astype(np.float64)
    if sigma > 0:
        noisy = noisy + sigma * (gaussian if noise == "gaussian" else laplace)(counts.shape, entropy)
    return noisy.argmax(axis=1).astype(np.int64)


@dataclass(frozen=True)
class NoisyTeachers(Teachers):
    """Shares labels once; the student learns from the noisy maximum.

    `sigma` >= 0 is the scale of the `noise`, in votes.
    """

    sigma: float = 0.0
    noise: Literal["gaussian", "laplace"] = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sigma >= 0.0:
            raise ValueError(f"sigma(={self.sigma}) must be >= 0")

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        labels = np.stack([packing.unpack(one, points, classes) for one in sent])
        return packing.pack(noisy_max(votes(labels, classes), self.sigma, Entropy(seed), self.noise), classes)

    def agree(self, counts: NDArray[np.int64], voters: int, classes: int, seed: bytes) -> bytes:
        return packing.pack(noisy_max(counts, self.sigma, Entropy(seed), self.noise), classes)

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        """The work of the majority vote, and of a random number for each count."""
        return {**super().merge_work(clients, points, classes), "vector.add": (clients + 2 * classes) * points}
