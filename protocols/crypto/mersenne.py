"""Arithmetic modulo the Mersenne primes 2^31 - 1 and 2^61 - 1, on arrays of uint64 in [0, p).

A number of up to 64 bits is reduced by shifts, for 2^e = 1 modulo p = 2^e - 1. Matrices are multiplied as floating
point, in limbs that are short enough for all sums to be exact: 31 by 16 bits for e = 31, 21 by 21 for e = 61. A product
of two single numbers of 61 bits is made of four products of halves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.prg import Streams
from tacit.sim.streams import Entropy, derive

__all__ = ["GF31", "GF61", "Elements", "Mersenne"]

Elements: TypeAlias = NDArray[np.uint64]

_TILE = 1 << 13
"""Columns that are multiplied at a time."""


@dataclass(frozen=True)
class Mersenne:
    """The field of p = 2^`bits` - 1 elements; `bits` is 31 or 61."""

    bits: int

    @property
    def prime(self) -> int:
        """The number of elements, p."""
        return (1 << self.bits) - 1

    def reduced(self, values: Elements) -> Elements:
        """`values`, any uint64, modulo p."""
        p, bits = np.uint64(self.prime), np.uint64(self.bits)
        for _ in range(2):
            values = (values & p) + (values >> bits)
        return np.where(values >= p, values - p, values)

    def difference(self, left: Elements, right: Elements) -> Elements:
        """`left` - `right`, number by number."""
        return self.reduced(left + np.uint64(self.prime) - right)

    def summed(self, rows: Sequence[Elements]) -> Elements:
        """The sum of rows."""
        total = np.zeros_like(rows[0])
        for start in range(0, len(rows), 4):  # of numbers below 2^61, with the sum so far
            total = self.reduced(np.add.reduce([total, *rows[start : start + 4]]))
        return total

    def multiplied(self, left: Elements, right: Elements) -> Elements:
        """The product, number by number."""
        if self.bits == 31:
            return self.reduced(left * right)
        half, low = np.uint64(31), np.uint64((1 << 31) - 1)
        a, b, c, d = left >> half, left & low, right >> half, right & low
        cross = a * d + b * c  # below 2^62, times 2^31: its bits from 30 on come round
        folded = (cross >> np.uint64(30)) + ((cross & np.uint64((1 << 30) - 1)) << half)
        return self.reduced(self.reduced(np.uint64(2) * a * c + folded) + self.reduced(b * d))

    def inverse(self, values: Elements) -> Elements:
        """values^(p - 2)."""
        result, power, exponent = np.ones_like(values), values, self.prime - 2
        while exponent:
            if exponent & 1:
                result = self.multiplied(result, power)
            power = self.multiplied(power, power)
            exponent >>= 1
        return result

    def lagrange(self, xs: Sequence[int], at: Sequence[int]) -> Elements:
        """The coefficients of values at the points `xs` in values at the points `at`: (len(at), len(xs)).

        They are of polynomials of degree below len(xs). Raises ValueError where points repeat, are shared, or lie
        outside [1, p).
        """
        points = [*xs, *at]
        if len(set(points)) != len(points) or not all(0 < x < self.prime for x in points):
            raise ValueError(
                f"points must differ and lie between 1 and 2^{self.bits} - 2, not be {list(xs)}, {list(at)}"
            )
        x, y = np.array(xs, np.uint64), np.array(at, np.uint64)
        # L_i(y) = prod_m (y - x_m) / ((y - x_i) prod_{m != i} (x_i - x_m))
        own = self.difference(x[None, :], x[:, None])
        np.fill_diagonal(own, 1)
        ways = self.difference(y[None, :], x[:, None])  # (xs, at): y - x_m
        below = self.multiplied(np.broadcast_to(self._product(own)[:, None], ways.shape), ways)
        return self.multiplied(np.broadcast_to(self._product(ways), ways.shape), self.inverse(below)).T

    def _product(self, factors: Elements) -> Elements:
        """The product of the rows of `factors` (n, m): (m,)."""
        while len(factors) > 1:
            half = len(factors) // 2
            product = self.multiplied(factors[:half], factors[half : 2 * half])
            factors = np.concatenate([product, factors[2 * half :]])
        return factors[0]

    def times(self, left: Elements, right: Elements) -> Elements:
        """The product of two matrices, (a, b) and (b, c)."""
        total = np.zeros((left.shape[0], right.shape[1]), np.uint64)
        rows, (widths, terms) = left.shape[1], _LIMBS[self.bits]
        for start in range(0, rows, terms):
            some = _limbs(left[:, start : start + terms], widths[0])
            for place in range(0, right.shape[1], _TILE):
                tile = right[start : start + terms, place : place + _TILE]
                self._add_product(total[:, place : place + _TILE], some, _limbs(tile, widths[1]), widths)
        return total

    def times_work(self, rows: int, inner: int, columns: int) -> dict[str, int]:
        """Operations of `times` of a matrix (`rows`, `inner`) and one (`inner`, `columns`)."""
        name = f"gf{self.bits}"
        return {f"{name}.multiply": rows * inner * columns, f"{name}.entry": (rows + inner) * columns}

    def _add_product(
        self,
        total: Elements,
        left: Sequence[NDArray[np.float64]],
        right: Sequence[NDArray[np.float64]],
        widths: Sequence[Sequence[int]],
    ) -> None:
        """Add the product of two matrices in limbs to `total`."""
        powers: dict[int, NDArray[np.float64]] = {}
        for i, one in enumerate(left):
            for j, other in enumerate(right):
                power = sum(widths[0][:i]) + sum(widths[1][:j])
                product = one @ other
                powers[power] = powers[power] + product if power in powers else product
        p, bits = np.uint64(self.prime), self.bits
        for power, product in powers.items():
            value = self.reduced(product.astype(np.uint64))
            if power % bits:  # times 2^power: turned by as many bits
                up = np.uint64(power % bits)
                value = ((value << up) & p) | (value >> (np.uint64(bits) - up))
            total[...] = self.reduced(total + value)

    def uniform(self, shape: tuple[int, ...], entropy: Entropy) -> Elements:
        """Uniform elements, by rejection: the upper bits of each word, redrawn where they are p."""
        count, width = int(np.prod(shape)), 4 if self.bits == 31 else 8
        drawn = np.frombuffer(entropy.bytes(width * count), f"<u{width}").astype(np.uint64)
        drawn >>= np.uint64(8 * width - self.bits)
        for place in np.flatnonzero(drawn == self.prime):
            drawn[place] = entropy.below(self.prime)
        return drawn.reshape(shape)

    def expanded(self, seed: bytes, count: int) -> Elements:
        """`count` elements from a `seed`, alike wherever it is expanded: the lower bits of words that are not p."""
        word, more = np.dtype(np.uint32 if self.bits == 31 else np.uint64), 0
        while True:
            stream = Streams([(0, count + more)], word).words(derive(seed, "elements"))
            found = stream & word.type(self.prime)
            if (found == self.prime).any():
                found = found[found != self.prime]
            if len(found) >= count:
                return found[:count].astype(np.uint64)
            more = 2 * more + 16


_LIMBS = {31: (((31,), (16, 15)), 64), 61: (((21, 21, 19), (21, 21, 19)), 512)}
"""Bits of the limbs of the two factors, and how many products of them are added exactly in 53 bits, thrice for 61."""


def _limbs(values: Elements, widths: Sequence[int]) -> list[NDArray[np.float64]]:
    found = []
    for width in widths:
        found.append((values & np.uint64((1 << width) - 1)).astype(np.float64))
        values = values >> np.uint64(width)
    return found


GF31, GF61 = Mersenne(31), Mersenne(61)
