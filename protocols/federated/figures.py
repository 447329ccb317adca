"""The figures of an evaluation by clients as words of the secure sum that adds their models (`evaluation`).

The first figure is 1 for a client that has tested the model. All of them are 0 for one that has not, so the sum of the
first is the number of clients whose figures the others have.

In a sum in fixed point each figure is one number, as those of a model are. In a sum of integers of v bits
(`crypto.words`) a figure is cut into pieces of v bits, and each piece is one word: a count of points is a whole number
of 24 bits; any other figure x, which may be negative, is rint(2^16 x) + 2^47, of 48 bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.fixed_point import largest
from tacit.protocols.crypto.words import Quantised

__all__ = ["NO_FIGURES", "SummedFigures"]

_WHOLE_BITS, _REAL_BITS, _FRACTION_BITS = 24, 48, 16
_OFFSET = 1 << (_REAL_BITS - 1)


@dataclass(frozen=True)
class SummedFigures:
    """The form of a client's figures: `whole` is true for each that counts, and false for other numbers.

    No figures travel if it is empty.
    """

    whole: tuple[bool, ...] = ()

    def words(self, quantised: Quantised | None) -> int:
        """The number of words that the figures take in a sum of such integers, or in fixed point."""
        return len(self.whole) if quantised is None else sum(self._pieces(quantised))

    def _pieces(self, quantised: Quantised) -> list[int]:
        return [-(-(_WHOLE_BITS if whole else _REAL_BITS) // quantised.bits) for whole in self.whole]

    def problem(self, figures: NDArray[np.float64], quantised: Quantised | None, bits: int, terms: int) -> str:
        """The reason why `figures` (n,) do not fit into a sum of `terms` clients; "" if they do.

        `bits`: the fractional bits of a sum in fixed point. The reason has no figure in it.
        """
        if not np.isfinite(figures).all():
            return "a figure is infinite or not a number, as where training diverges"
        most = np.full(len(figures), largest(bits, terms))
        if quantised is not None:
            most = np.where(self.whole, 1 << _WHOLE_BITS, _OFFSET >> _FRACTION_BITS)
        return "" if (np.abs(figures) < most - 1).all() else "a figure is too large for the sum"

    def encode(self, figures: NDArray[np.float64] | None, quantised: Quantised | None) -> NDArray[np.generic]:
        """The words of `figures` (n,): float64 in fixed point, which the sum encodes, else uint64. None: all 0."""
        if figures is None:
            return np.zeros(self.words(quantised), np.float64 if quantised is None else np.uint64)
        if quantised is None:
            return figures
        words = []
        for value, whole, pieces in zip(figures.tolist(), self.whole, self._pieces(quantised), strict=True):
            rest = round(value) if whole else round(value * (1 << _FRACTION_BITS)) + _OFFSET
            for _ in range(pieces):
                words.append(rest & quantised.largest)
                rest >>= quantised.bits
        return np.array(words, np.uint64)

    def decode(self, total: NDArray[np.generic], quantised: Quantised | None) -> NDArray[np.float64]:
        """The sums of the figures (n,) from the `total` of the words: numbers in fixed point, else uint64."""
        if quantised is None:
            return np.where(self.whole, np.rint(total.astype(np.float64)), total.astype(np.float64))
        found, clients = list[float](), 0
        words = iter(total.tolist())
        for whole, pieces in zip(self.whole, self._pieces(quantised), strict=True):
            value = sum(next(words) << (quantised.bits * i) for i in range(pieces))
            clients = clients if found else value
            found.append(value if whole else (value - clients * _OFFSET) / (1 << _FRACTION_BITS))
        return np.array(found, np.float64)


NO_FIGURES = SummedFigures()
"""The form of a sum without figures."""
