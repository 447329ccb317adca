"""Skellam noise that each of two aggregators adds to its share of a sum, of which one can be in the know.

Each aggregator draws noise of the whole variance V for each number, once a batch, and adds it to its share modulo the
prime p of the field; the sum is the number nearest to 0. An aggregator knows its own noise, and whoever sees the result
as well, so against each of them only the other's counts: V is charged, and 2 V is in the sum. Both together have no
secret from each other, and the guarantee does not hold against them.

Privacy of `rounds` sums follows from `skellam_accounting` with the most by which a sum moves if a client's data are
replaced (`Shift`). One class for each of P points moves two counts of each point by 1: sqrt(2 P) in L2, 2 P in L1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.privacy import skellam_accounting
from tacit.protocols.privacy.distributed import variation_of
from tacit.protocols.privacy.skellam import LARGEST_VARIANCE, table_of
from tacit.protocols.privacy.skellam_accounting import Shift
from tacit.sim.streams import Entropy

__all__ = ["SEED_BYTES", "AggregatorNoise", "votes_shift"]

SEED_BYTES = 32


def votes_shift(points: int) -> Shift:
    """The shift of counts if one client gives other classes to all of this number of `points`."""
    return Shift(2 * points, 2.0 * points)


@dataclass(frozen=True)
class AggregatorNoise:
    """The noise of each aggregator in each of `rounds` sums of at most `numbers` numbers that move by `shift`.

    `epsilon` > 0 and `delta` in (0, 1) are of all rounds together. Raises ValueError where no noise gives them.
    """

    epsilon: float
    delta: float
    rounds: int
    numbers: int
    shift: Shift

    def __post_init__(self) -> None:
        if self.variance > LARGEST_VARIANCE:
            problem = f"epsilon(={self.epsilon:g}) needs noise of the variance {self.variance:.3g}"
            raise ValueError(f"{problem}; at most 2^36 is possible")

    @cached_property
    def variance(self) -> int:
        """V: the variance of an aggregator's noise on each number."""
        return _variance(self.epsilon, self.shift, self.rounds, self.delta, self._variation(self.rounds))

    def _variation(self, rounds: int) -> float:
        return variation_of(self.numbers, 1, 1, rounds)

    def spent(self, rounds: int) -> float:
        """The epsilon of this number of `rounds`, with `delta`."""
        return skellam_accounting.epsilon_of(self.variance, self.shift, rounds, self.delta, self._variation(rounds))

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of both aggregators on each number of a sum."""
        return math.sqrt(2 * self.variance)

    @property
    def reach(self) -> int:
        """The largest magnitude of the noise of both aggregators."""
        return 2 * table_of(Fraction(self.variance)).reach

    def drawn(self, seed: bytes, numbers: int) -> NDArray[np.int64]:
        """The noise of an aggregator with this `seed` of 32 bytes, (numbers,)."""
        return table_of(Fraction(self.variance)).draw(numbers, Entropy(seed))


@lru_cache(64)
def _variance(epsilon: float, shift: Shift, rounds: int, delta: float, variation: float) -> int:
    return skellam_accounting.variance_for(epsilon, shift, rounds, delta, variation)
