"""Noisy maxima: the class with the most votes after noise, Gaussian (GNMax) or of Laplace (LNMax).

Papernot et al., Scalable private learning with PATE, ICLR 2018, Section 4.1. Proposition 8: with noise sigma a query is
(order, order / sigma^2)-RDP, whatever the votes are (`accounting.noisy_max_queries`). Neighbours differ in one element
of one teacher's data: one vote moves, so two counts change by 1, an L2 distance of sqrt(2).

LNMax is of the first paper (Papernot et al., Semi-supervised knowledge transfer, ICLR 2017, Section 2.2): with scale
b a query is 2/b-differentially private, 1/b for each of the two counts.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.privacy.noise import gaussian, laplace
from tacit.sim.streams import Entropy

__all__ = ["noisy_max"]


def noisy_max(
    counts: NDArray[np.int64], sigma: float, entropy: Entropy, noise: Literal["gaussian", "laplace"] = "gaussian"
) -> NDArray[np.int64]:
    """argmax of counts (n, C) + noise for each row; without noise the most votes, ties to the lower.

    `sigma`: the standard deviation of Gaussian noise, the scale of that of Laplace.
    """
    if not sigma >= 0:
        raise ValueError(f"sigma(={sigma}) must be >= 0.")
    noisy = counts.astype(np.float64)
    if sigma > 0:
        noisy = noisy + sigma * (gaussian if noise == "gaussian" else laplace)(counts.shape, entropy)
    return noisy.argmax(axis=1).astype(np.int64)
