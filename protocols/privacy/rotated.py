"""Vectors as whole numbers for sums with discrete noise: clipped, rotated, scaled and rounded at random.

Kairouz, Liu, Steinke, The distributed discrete Gaussian mechanism for federated learning with secure aggregation, ICML
2021, algorithms 1 and 2, with the parameters of Agarwal, Kairouz, Liu (Skellam), NeurIPS 2021. A vector x of d numbers
and L2 norm of at most c becomes

    x' = s R x,    each number of x' rounded up or down at random, with its fraction as the probability of up,

drawn again until the squared norm of the result is at most

    D2^2 = min( s^2 c^2 + d / 4 + sqrt(2 ln(1 / b)) (s c + sqrt(d) / 2), (s c + sqrt(d))^2 ),    b = exp(-1/2),

which at least a share 1 - b of draws is. Its L1 norm is then at most D1 = min(sqrt(d) D2, D2^2). Both are checked in
whole numbers, so neither clipping nor rotation need be exact: privacy rests on the check alone, and the condition costs
no delta. After 100 draws numbers are rounded towards zero. With s = 2 sqrt(d) / c, D2 is 1.03 s c.

R makes all numbers alike in size, so that a sum fits few bits: signs drawn for each number, then a Walsh-Hadamard
transform. Vectors are not padded to a power of two, which would nearly double some: with B the largest power of two up
to d, one transform rotates the first B numbers, then a second one, with other signs, the last B. They overlap, so
whatever x is, each number of R x has at most ||x||^2 / B of the squared norm on average, and 2 B > d. (The paper pads.)
Signs follow from a public seed: a server that chooses among seeds spoils accuracy, not privacy.

In a sum over n vectors with noise of variance v in all, modulo 2^b, a number of deviation
sqrt(n^2 s^2 c^2 / B + n / 4 + v) is expected within k = 4 deviations. A number beyond 2^(b - 1) wraps around, which
costs accuracy and never privacy.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.privacy.skellam_accounting import Shift
from tacit.sim.streams import Entropy

__all__ = ["DEVIATIONS", "Rotation", "Rounding", "centred", "centred_in", "deviation", "word_bits", "wraps"]

DEVIATIONS = 4
"""The deviations k within which numbers of a sum are expected."""

_DRAWS = 100


@dataclass(frozen=True)
class Rotation:
    """An orthogonal matrix R of `numbers` d >= 1 rows, drawn by a public `seed` of 32 bytes."""

    numbers: int
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.numbers < 1:
            raise ValueError(f"numbers(={self.numbers}) must be >= 1.")

    @property
    def block(self) -> int:
        """The largest power of two up to d: how many numbers a transform mixes."""
        return 1 << (self.numbers.bit_length() - 1)

    @property
    def mixes(self) -> int:
        """The additions of numbers that a rotation takes: log2 of the block for each number of each transform."""
        return (1 + (self.block < self.numbers)) * self.block * (self.block.bit_length() - 1)

    @cached_property
    def _signs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The signs of both transforms, 1 or -1, (block,) each."""
        octets = Entropy(self.seed).bytes(2 * (-(-self.block // 8)))
        bits = np.unpackbits(np.frombuffer(octets, np.uint8).reshape(2, -1), axis=1)[:, : self.block]
        first, second = 1.0 - 2.0 * bits
        return first, second

    def forward(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rotate `vector` (d,): R x."""
        found = np.array(vector, np.float64)
        first, second = self._signs
        found[: self.block] = _transformed(first * found[: self.block])
        if self.block < self.numbers:
            found[-self.block :] = _transformed(second * found[-self.block :])
        return found

    def backward(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Undo the rotation of `vector` (d,): R^T x."""
        found = np.array(vector, np.float64)
        first, second = self._signs
        if self.block < self.numbers:
            found[-self.block :] = second * _transformed(found[-self.block :])
        found[: self.block] = first * _transformed(found[: self.block])
        return found


def _transformed(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Walsh-Hadamard transform of `vector`, whose length is a power of two, times length^-1/2: its own inverse."""
    found, half = vector, 1
    while half < len(vector):
        pairs = found.reshape(-1, 2, half)
        mixed = np.empty_like(pairs)
        np.add(pairs[:, 0], pairs[:, 1], out=mixed[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=mixed[:, 1])
        found, half = mixed.reshape(-1), 2 * half
    return found * (1 / math.sqrt(len(vector)))


@dataclass(frozen=True)
class Rounding:
    """Clipping to the L2 norm `clip` c > 0 and rounding of `numbers` d >= 1 numbers.

    `scale`: s, whole units for each unit of length; None: 2 sqrt(d) / c. Raises ValueError.
    """

    numbers: int
    clip: float
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.numbers < 1:
            raise ValueError(f"numbers(={self.numbers}) must be >= 1.")
        if not 0 < self.clip < math.inf:
            raise ValueError(f"clip(={self.clip}) must be > 0 and finite.")
        if not 0 < self.units < math.inf:
            raise ValueError(f"scale(={self.scale}) must be > 0 and finite.")
        if self.numbers * self.squared >= 2**62:
            problem = f"norms of {math.isqrt(self.squared)} units for {self.numbers} numbers do not fit 64 bits"
            raise ValueError(f"scale(={self.units:g}) is too large: {problem}.")

    @property
    def units(self) -> float:
        """The scale s."""
        return 2 * math.sqrt(self.numbers) / self.clip if self.scale is None else self.scale

    @cached_property
    def squared(self) -> int:
        """The largest squared L2 norm of a rounded vector: D2^2, rounded down."""
        length, root = self.units * self.clip, math.sqrt(self.numbers)
        return math.floor(min(length**2 + self.numbers / 4 + length + root / 2, (length + root) ** 2))

    @property
    def l1(self) -> float:
        """The largest L1 norm of a rounded vector, D1: whole numbers are at most their squares."""
        return min(math.sqrt(self.numbers * self.squared), float(self.squared))

    @property
    def shift(self) -> Shift:
        """The most by which a sum moves if the data of one client are replaced."""
        return Shift.replaced(self.squared, self.l1)

    def clipped(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale `vector` (d,) to the norm c if it is longer; zeros if the norm is infinite or not a number."""
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm):
            return np.zeros_like(vector)
        return vector * (self.clip / norm) if norm > self.clip else vector

    def rounded(self, vector: NDArray[np.float64], rotation: Rotation, entropy: Entropy) -> NDArray[np.int64]:
        """Clip, rotate, scale and round `vector` (d,): whole numbers (d,) with the norms of `squared` and `l1`."""
        scaled = rotation.forward(self.clipped(vector)) * self.units
        if not (np.abs(scaled) <= math.isqrt(self.squared) + 1).all():  # where the norm underflows or overflows
            return np.zeros(self.numbers, np.int64)
        low = np.floor(scaled)
        fractions = (np.minimum(scaled - low, 1 - 2.0**-53) * 2.0**64).astype(np.uint64)
        below = low.astype(np.int64)
        for _ in range(_DRAWS):
            found = below + (entropy.array(self.numbers) < fractions)
            if self._fits(found):
                return found
        found = np.trunc(scaled).astype(np.int64)
        return found if self._fits(found) else np.zeros_like(found)

    def _fits(self, found: NDArray[np.int64]) -> bool:
        """Return true if the squared norm of `found` is at most D2^2; no number of it overflows."""
        most = math.isqrt(self.squared)
        if int(found.max(initial=0)) > most or int(found.min(initial=0)) < -most:
            return False
        return int(np.dot(found, found)) <= self.squared

    def unrounded(self, total: NDArray[np.int64], rotation: Rotation, count: int) -> NDArray[np.float64]:
        """The mean of `count` vectors, from the sum `total` (d,) of their whole numbers."""
        return rotation.backward(total.astype(np.float64)) / (self.units * count)


def deviation(rounding: Rounding, terms: int, variance: float) -> float:
    """The largest expected deviation of a number in the sum of `terms` vectors with noise of `variance` in all.

    It is reached if all vectors are equal and of the norm c.
    """
    block = Rotation(rounding.numbers, b"").block
    aligned = (terms * rounding.units * rounding.clip) ** 2 / block
    return math.sqrt(aligned + terms / 4 + variance)


def word_bits(rounding: Rounding, terms: int, variance: float) -> int:
    """The bits b of a word in which numbers of such a sum rarely wrap around: ceil(log2(2 k deviation))."""
    return math.ceil(math.log2(2 * DEVIATIONS * deviation(rounding, terms, variance)))


def wraps(rounding: Rounding, terms: int, variance: float, bits: int) -> float:
    """The estimated share of numbers of such a sum that wrap around in words of these `bits`, in [0, 1].

    Numbers are taken for normal with the deviation of equal vectors, so fewer wrap around if vectors differ.
    """
    return math.erfc(2.0 ** (bits - 1) / deviation(rounding, terms, variance) / math.sqrt(2))


def centred(words: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.int64]:
    """The whole numbers in [-2^(bits - 1), 2^(bits - 1)) that are equal to `words` modulo 2^bits, 1 <= bits <= 64."""
    shift = np.int64(64 - bits)
    return (words.astype(np.uint64) << np.uint64(shift)).view(np.int64) >> shift


def centred_in(words: NDArray[np.unsignedinteger], modulus: int) -> NDArray[np.int64]:
    """The whole numbers nearest to 0 that are equal to `words` in [0, `modulus`), which is odd and below 2^63."""
    numbers = words.astype(np.int64)
    return np.where(numbers > modulus // 2, numbers - modulus, numbers)
