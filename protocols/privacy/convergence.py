"""The probability that FedCT's consensus labels change again after a round (Proposition 1 of the FedCT paper, Appendix
A).

m clients reproduce each consensus label, independently of each other, with a probability a_t >= 1 - c / t. Then the
consensus changes after round t0 with probability

    delta <= |U| (4 c)^(m / 2) zeta(m / 2, t0 + 1),

zeta the Hurwitz zeta function, sum over k >= 0 of (k + q)^-x. Conditions: m >= 3, else the series diverges; t0 >= 2 c,
else a_t < 1/2. Its rounds are t0 + 1, t0 + 2, ...

The bound is valid: `probability` computes the exact value, which is below it (tests simulate it as well). Two remarks.
The proof counts a label as lost below floor(m / 2) votes; it is lost with half of the votes or fewer, and the bound
covers that, too. And it is far from tight, so for few clients it says nothing: with m = 5, |U| = 10^4, c = 1, t0 = 1000
it gives delta <= 6.74. The figures that Appendix A states for m = 5, 0.9962 and 0.7868, are 1 - delta for |U| = 1 and c
= 2 and 10, not delta for 10^4 points and c = 1 and 10.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["bound", "probabilities", "probability"]


def bound(points: int, clients: int, rate: float, after: int) -> float:
    """The delta of Proposition 1 for |U| = `points`, m = `clients`, c = `rate` and t0 = `after`; above 1 it is
    vacuous."""
    _check(points, clients, rate, after)
    half = clients / 2
    # In logarithms: (4 c)^(m / 2) overflows where zeta underflows. zeta(x, q) <= q^-x (1 + q / (x - 1)) where it does.
    tail = float(scipy.special.zeta(half, after + 1))
    log_tail = math.log(tail) if tail > 0 else -half * math.log(after + 1) + math.log1p((after + 1) / (half - 1))
    return _exp(math.log(points) + half * math.log(4 * rate) + log_tail)


def probabilities(points: int, clients: int, rate: float, after: Sequence[int], until: int) -> NDArray[np.float64]:
    """The probability that `bound` bounds for each t0 of `after`, over rounds t0 + 1 ... `until`.

    It is the probability that a label is reproduced by no more than half of the clients, if the accuracy is exactly a_t
    = 1 - c / t and clients and points are independent.
    """
    first = min(after)
    _check(points, clients, rate, first)
    lost = scipy.stats.binom.cdf(clients // 2, clients, 1 - rate / np.arange(first + 1, until + 1))
    stays = np.append(np.cumsum(points * np.log1p(-lost)[::-1])[::-1], 0.0)  # its logarithm, from each round on
    found: NDArray[np.float64] = -np.expm1(stays[np.minimum(np.asarray(after) - first, until - first)])
    return found


def probability(points: int, clients: int, rate: float, after: int, until: int) -> float:
    """The result of `probabilities` for one t0."""
    return float(probabilities(points, clients, rate, [after], until)[0])


def _exp(number: float) -> float:
    return math.exp(number) if number < 700 else math.inf


def _check(points: int, clients: int, rate: float, after: int) -> None:
    if points < 1:
        raise ValueError(f"points(={points}) must be >= 1.")
    if clients < 3:
        raise ValueError(f"clients(={clients}) must be >= 3: with fewer the series does not converge.")
    if not rate > 0:
        raise ValueError(f"rate(={rate}) must be > 0.")
    if after < 2 * rate:
        raise ValueError(f"after(={after}) must be >= 2 rate = {2 * rate}: before, the accuracy may be below 1/2.")
