"""The number of bits of a client's one-hot public labels that change with one element of its data.

Three ways, from Section 4 and Appendix B of the FedCT paper (Abourayya et al., Little is enough). All give s in bits,
two for each label that changes, as `xor_mechanism` takes it.

| way | s | guarantee |
| --- | --- | --- |
| `worst_case` | 2 n, n public points | holds for every learner: epsilon-differential privacy |
| `proposition_2` | 2 ceil(n e + P sqrt(n e (1 - e)) + P^2 / 3) | at best with probability 1 - delta |
| `by_neighbours` | the largest seen | an estimate from below: no guarantee |

Proposition 2 starts from on-AVERAGE stability, over data sets and elements; it says nothing of the worst pair of
neighbours, which differential privacy is about, and it takes the labels' changes for independent. What it bounds is a
quantile of a binomial distribution (Short 2023).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["BITS_PER_LABEL", "Estimate", "by_neighbours", "left_out", "proposition_2", "worst_case"]

BITS_PER_LABEL = 2
"""The bits that change with one label: one bit of its one-hot row is cleared and another one is set."""


def worst_case(points: int) -> int:
    """The number of bits if every label of `points` public points may change."""
    if points < 0:
        raise ValueError(f"points(={points}) must be >= 0.")
    return BITS_PER_LABEL * points


def proposition_2(points: int, stability: float, delta: float) -> int:
    """The number of bits for `points` = n, a `stability` rate e(n) in [0, 1] of the 0-1 loss and `delta` in (0, 1).

    It never exceeds the worst case.
    """
    if not 0 <= stability <= 1:
        raise ValueError(f"stability(={stability}) must lie in [0, 1].")
    if not 0 < delta < 1:
        raise ValueError(f"delta(={delta}) must lie in (0, 1).")
    probit = float(scipy.special.ndtri(1 - delta))
    mean, deviation = points * stability, math.sqrt(points * stability * (1 - stability))
    labels = math.ceil(mean + probit * deviation + probit**2 / 3)
    return min(BITS_PER_LABEL * max(0, labels), worst_case(points))


@dataclass(frozen=True)
class Estimate:
    """An estimated sensitivity: `bits`, the largest difference over `tried` neighbouring data sets, and `mean_bits`."""

    bits: int
    mean_bits: float
    tried: int


def by_neighbours(labels: NDArray[np.int64], neighbours: Iterable[NDArray[np.int64]]) -> Estimate:
    """Estimate it from the `labels` of the public set after training on a data set and on each neighbouring one.

    The paper takes n = 100 of them. A maximum over some pairs of data sets is no bound over all; and as it is computed
    from private data, publishing it is a release that no epsilon covers.
    """
    changed = [BITS_PER_LABEL * int(np.count_nonzero(labels != other)) for other in neighbours]
    if not changed:
        raise ValueError("an estimate needs at least one neighbouring data set")
    return Estimate(max(changed), float(np.mean(changed)), len(changed))


def left_out(elements: int, neighbours: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The index of the element, of `elements`, that each of `neighbours` data sets lacks; all once before any twice."""
    if elements < 1 or neighbours < 1:
        raise ValueError(f"elements(={elements}) and neighbours(={neighbours}) must be >= 1.")
    rounds = [generator.permutation(elements) for _ in range(-(-neighbours // elements))]
    return np.concatenate(rounds)[:neighbours].astype(np.int64)
