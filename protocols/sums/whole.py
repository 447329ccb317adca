"""Sums of whole words, of Z_{2^64}, by any secure sum: as they are, or each in several smaller integers.

Some sums add only integers, modulo a prime that is smaller than 2^64. A word w is then sent as the integers w_i of 16
bits each with w = sum_i w_i 2^{16 i}. Each is added by itself and does not wrap, since fewer clients than the modulus
divided by 2^16 take part. The sum of the words is sum_i S_i 2^{16 i} modulo 2^64, where S_i are the sums of the
integers.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.sums.sum import Sum, SumSettings
from tacit.sim.hollow import HollowArray, unknown

__all__ = ["Whole"]

_BITS = 16


@dataclass(frozen=True)
class Whole:
    """How a sum carries words of 64 bits: each word takes `parts` of its own words, which have `word_bits`."""

    parts: int
    word_bits: int

    @classmethod
    def of(cls, one: Sum, called: int) -> "Whole":
        """The way of the sum `one` among up to `called` clients. Raises ValueError for more than its numbers carry."""
        if one.proves:
            raise ValueError(f"{one.name} adds numbers that are proved to be in a range, and these have none")
        if not one.of_integers:
            return cls(1, WHOLE)
        quantised = Quantised(_BITS, 1.0, called)
        if called * quantised.largest >= (modulus := one.modulus(quantised)):
            raise ValueError(f"{one.name} adds numbers below {modulus}, too small for {called} clients")
        return cls(WHOLE // _BITS, one.word_bits(quantised))

    def settings(self, settings: SumSettings) -> SumSettings:
        """The settings of the sum by which whole words are added; `settings` are those for whole words."""
        return replace(settings, dimension=self.parts * settings.dimension, word_bits=self.word_bits)

    def split(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The vector (parts d,) that is summed for `words` (d,)."""
        if self.parts == 1:
            return words
        if isinstance(words, HollowArray):
            return unknown(self.parts * len(words))
        return words.astype("<u8").view(f"<u{_BITS // 8}").astype(np.uint64)

    def joined(self, ring: Ring) -> Ring:
        """The sum of the words (d,), from the `ring` (parts d,) that was summed."""
        if self.parts == 1:
            return ring
        if isinstance(ring, HollowArray):
            return unknown(len(ring) // self.parts)
        shifts = np.arange(self.parts, dtype=np.uint64) * np.uint64(_BITS)
        return (ring.astype(np.uint64).reshape(-1, self.parts) << shifts).sum(axis=1, dtype=np.uint64)
