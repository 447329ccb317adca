"""GNMax: the class with the most votes after Gaussian noise, and how much it reveals.

Papernot et al., Scalable private learning with PATE, ICLR 2018: Section 4.1 (the aggregator), Proposition 8 (Renyi
differential privacy that holds for all data), Proposition 7 and Theorem 6 (tighter where the teachers agree).
Neighbours differ in one element of one teacher's data: one vote moves, so two counts change by 1, an L2 distance of
sqrt(2).
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from protocols.privacy.noise import gaussian
from sim.streams import Entropy

__all__ = ["data_dependent_rdp", "data_independent_rdp", "disagreement", "noisy_max"]


def noisy_max(counts: NDArray[np.int64], sigma: float, entropy: Entropy) -> NDArray[np.int64]:
    """argmax of counts (n, C) + N(0, sigma^2) for each row; without noise the most votes, ties to the lower."""
    if not sigma >= 0:
        raise ValueError(f"sigma(={sigma}) must be >= 0.")
    noisy = counts.astype(np.float64)
    if sigma > 0:
        noisy = noisy + sigma * gaussian(counts.shape, entropy)
    return noisy.argmax(axis=1).astype(np.int64)


def data_independent_rdp(order: float, sigma: float) -> float:
    """Proposition 8: a query is (order, order / sigma^2)-RDP, whatever the votes are."""
    if not (order > 1 and sigma > 0):
        raise ValueError(f"order(={order}) must be > 1 and sigma(={sigma}) > 0.")
    return order / sigma**2


def disagreement(counts: NDArray[np.int64], sigma: float) -> NDArray[np.float64]:
    """Proposition 7: for each row of `counts` (n, C) an upper bound, at most 1, of P(noisy max != most votes)."""
    most = counts.argmax(axis=1)
    gaps = counts[np.arange(len(counts)), most][:, None] - counts
    tails = erfc(gaps / (2 * sigma)) / 2
    tails[np.arange(len(counts)), most] = 0.0
    found: NDArray[np.float64] = np.minimum(tails.sum(axis=1), 1.0)
    return found


def data_dependent_rdp(order: float, sigma: float, disagree: float) -> float:
    """Theorem 6 at the orders of Proposition 10: the RDP of a query whose `disagreement` is at most `disagree` = q.

    At most the data-independent one, which it equals where the theorem's conditions fail. It depends on the votes:
    an epsilon derived from it is private itself and must not be published without noise of its own.
    """
    plain, variance = data_independent_rdp(order, sigma), sigma**2
    if not 0 <= disagree <= 1:
        raise ValueError(f"disagree(={disagree}) must lie in [0, 1].")
    if disagree == 0:
        return 0.0
    log_q = math.log(disagree)
    mu2 = sigma * math.sqrt(-log_q)  # Proposition 10
    mu1 = mu2 + 1
    if mu1 < order or mu2 <= 1:
        return plain
    eps1, eps2 = mu1 / variance, mu2 / variance
    # q <= e^((mu2 - 1) eps2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1))^mu2
    if log_q > (mu2 - 1) * eps2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1))):
        return plain
    log_share = (log_q + eps2) * (mu2 - 1) / mu2
    if log_share >= 0:
        return plain
    log_a = math.log1p(-disagree) - math.log(-math.expm1(log_share))
    log_b = eps1 - log_q / (mu1 - 1)
    first, second = math.log1p(-disagree) + (order - 1) * log_a, log_q + (order - 1) * log_b
    return min(plain, float(np.logaddexp(first, second)) / (order - 1))
