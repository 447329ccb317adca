"""DP-PATE: PATE whose server adds noise to the votes before it takes the most: Gaussian (GNMax), or that of Laplace.

Paper: Papernot et al., Scalable private learning with PATE, ICLR 2018, Section 4.1, as Abourayya et al., Little is
enough, Appendix D.3, compare it with DP-FedCT. For each public point the server adds N(0, sigma^2), from its own
entropy, to the number of teachers that chose each class, and the largest sum is the student's label. The authors'
released code adds Laplace noise of scale 1/2 in its place, as the first paper on PATE does ("epsilon = 2").

Guarantee: of the labels, and so of the student, (epsilon, delta)-differential privacy between data that differ in one
element of one teacher's; every public point is a query (`privacy.accounting.noisy_max_queries`, by Renyi accounting,
independent of the data). It does NOT cover the server, which sees each teacher's labels as in PATE, or, with secure
votes, the counts without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.cotraining import packing
from tacit.protocols.cotraining.consensus import votes
from tacit.protocols.cotraining.pate import Teachers
from tacit.protocols.privacy.noisy_max import noisy_max
from tacit.sim.compute import Work
from tacit.sim.streams import Entropy

__all__ = ["NoisyTeachers"]


@dataclass(frozen=True)
class NoisyTeachers(Teachers):
    """Labels up, once; the student learns from the noisy maximum. `sigma` >= 0: of the `noise`, in votes."""

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
        """The work of the majority vote, and a random number for each count."""
        return {**super().merge_work(clients, points, classes), "vector.add": (clients + 2 * classes) * points}
