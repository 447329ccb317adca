"""Skellam noise: whole numbers whose sums are Skellam again, drawn from tables that are equal on all machines.

A Skellam number of variance m > 0 is the difference of two Poisson numbers of mean m / 2:

    P(k) = exp(-m) I_|k|(m),    I the modified Bessel function of the first kind.

The sum of independent Skellam numbers of variances m and m' is a Skellam number of variance m + m': noise of any set of
clients adds up to noise of the same kind (Agarwal, Kairouz, Liu, NeurIPS 2021), which discrete Gaussian noise does only
nearly.

`Table` has P(|X| <= k) in units of 2^-127 for k = 0 ... N, made in integer arithmetic alone. Weights follow from the
recurrence I_{k-1} = I_{k+1} + (2 k / m) I_k, downwards from k = N, where it is stable (Miller's algorithm; Abramowitz
and Stegun, section 9.12), and their sum is exp(m). N is beyond all but 2^-160 of the probability, by Bernstein's
inequality. A draw is a sign and 127 bits. The first 63 of them decide, unless they equal those of an entry; then a
second word of 64 bits decides. With 64 bits alone, the total variation of 100 clients with 31 components each, of 2^20
numbers over 100 rounds, would cost 5e-4 of delta at epsilon 4.

Total variation of a draw to the exact distribution: each of the N + 1 probabilities is the difference of two entries
rounded down, which is at most (N + 1) 2^-128 together. The roundings of the recurrence add (N + 1) 2^-191, as each
weight is at least 2^192 and a rounding moves later weights by at most its own share of them. Beginning with two equal
weights at N adds (2 N + 2) 2^-160, by the Wronskian I_N K_{N+1} + I_{N+1} K_N = 1 / m: the part of the second solution
K is nowhere above I_N. `Table.variation` states (N + 1) 2^-127, more than all of that.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.sim.streams import Entropy

__all__ = ["LARGEST_VARIANCE", "Table", "table_of"]

LARGEST_VARIANCE = 2**36
"""The largest variance of a table; it has 3.3 million entries, 53 MB, and takes seconds to make."""

_ENTRY_BITS, _LOW_BITS = 127, 64
_FIRST = 1 << 192
"""The weight at which the recurrence begins: its roundings are relative to it."""

_BEYOND = 111
"""The exponent of the probability beyond a table: exp(-111) < 2^-160."""

_DENOMINATOR_BITS = 64
_TILE = 1 << 14
"""The numbers that are drawn at a time: words and places stay in the processor's cache."""


class Table:
    """The distribution of a Skellam number of `variance` m, a rational number in (0, 2^36].

    `reach` is N, the largest magnitude of a number. Raises ValueError if the variance is out of range, or if its
    denominator has over 64 bits.
    """

    def __init__(self, variance: Fraction | int) -> None:
        variance = Fraction(variance)
        if not 0 < variance <= LARGEST_VARIANCE:
            raise ValueError(f"variance(={float(variance):g}) must be above 0 and at most 2^36.")
        if variance.denominator.bit_length() > _DENOMINATOR_BITS:
            raise ValueError(f"variance(={float(variance):g}) must be a fraction with a denominator below 2^64.")
        self.variance = variance
        self.reach = _reach(variance)
        self._high = np.empty(self.reach + 1, np.uint64)
        self._low = np.empty(self.reach + 1, np.uint64)
        total = sum(weight if k == 0 else 2 * weight for k, weight in _weights(variance, self.reach))
        beyond = 0  # twice the weights above k
        for k, weight in _weights(variance, self.reach):
            entry = ((total - beyond) << _ENTRY_BITS) // total
            self._high[k], self._low[k] = entry >> _LOW_BITS, entry & (1 << _LOW_BITS) - 1
            beyond += 2 * weight

    @property
    def variation(self) -> Fraction:
        """The bound on the total variation between a draw and a Skellam number."""
        return Fraction(self.reach + 1, 1 << _ENTRY_BITS)

    def entries(self) -> list[int]:
        """The whole table: floor(2^127 P(|X| <= k)) for k = 0 ... N."""
        return [(high << _LOW_BITS) + low for high, low in zip(self._high.tolist(), self._low.tolist(), strict=True)]

    def digest(self) -> bytes:
        """The SHA-256 of the entries, 16 bytes each, the least first."""
        both = np.stack([self._low, self._high], axis=1).astype("<u8")
        return hashlib.sha256(both.tobytes()).digest()

    def draw(self, count: int, entropy: Entropy) -> NDArray[np.int64]:
        """Draw `count` independent numbers, (count,).

        `entropy` gives a word of 64 bits for each number, and after the words of each 2^14 numbers one more for each
        of them that the first word does not decide. The same stream gives the same numbers on all machines.
        """
        found = np.empty(count, np.int64)
        for start in range(0, count, _TILE):
            part = found[start : start + _TILE]
            words = entropy.array(len(part))
            negative = words >> np.uint64(63) == 1
            upper = np.where(negative, ~words, words)  # 63 bits
            places = np.searchsorted(self._high, upper)
            undecided = np.flatnonzero(self._high[np.minimum(places, self.reach)] == upper)
            if len(undecided):
                second = entropy.array(len(undecided))
                lower = np.where(negative[undecided], ~second, second)
                for at, low in zip(undecided.tolist(), lower.tolist(), strict=True):
                    places[at] = self._decided(int(upper[at]), low)
            part[:] = np.where(negative, -places, places)
        return found

    def _decided(self, upper: int, lower: int) -> int:
        """The number of entries that are at most 2^64 `upper` + `lower`."""
        first, last = (int(np.searchsorted(self._high, np.uint64(upper), side)) for side in ("left", "right"))
        return first + bisect_right(self._low[first:last].tolist(), lower)


@lru_cache(1024)
def table_of(variance: Fraction) -> Table:
    """The table of this `variance`; a process makes one for each of its last 1,024 variances once."""
    return Table(variance)


def _reach(variance: Fraction) -> int:
    """The least N with N^2 / (2 (m + N / 3)) >= 111, or one more.

    By Bernstein's inequality, exp(-111) bounds the probability of a larger number: jumps of the compound Poisson
    process with a Skellam number at its end are 1 or -1.
    """
    under = _BEYOND**2 + 18 * _BEYOND * variance
    return (_BEYOND + math.isqrt(math.ceil(under)) + 1) // 3 + 1


def _weights(variance: Fraction, reach: int) -> Iterator[tuple[int, int]]:
    """Each k = N ... 0, with a whole number nearly proportional to I_k(m)."""
    two, over = 2 * variance.denominator, variance.numerator
    above, weight = _FIRST, _FIRST
    for k in range(reach, 0, -1):
        yield k, weight
        above, weight = weight, above + two * k * weight // over
    yield 0, weight
