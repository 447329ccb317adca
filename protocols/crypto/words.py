"""Real numbers as integers of few bits, and packed words of any width, for sums with small messages.

With v bits, a number x within [-c, c] is q = rint((x + c) (2^v - 1) / (2 c)), between 0 and 2^v - 1; a number outside
is clipped to the nearer bound. A sum of n such integers, each times a weight of at most W, is at most n W (2^v - 1), so

    b = ceil(log2(n W (2^v - 1) + 1))

bits hold it, and the sum S of weights w_j decodes to 2 c S / (2^v - 1) - c sum(w_j). The error of a number that is not
clipped is at most c / (2^v - 1).

d words of b bits take ceil(d b / 8) bytes, the first word in the lowest bits.

Paper: Bonawitz et al., CCS 2017, Section 4 and Table 2, where v = 16.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "WHOLE", "Quantised", "mask_of", "packed", "packed_bytes", "packed_rows", "unpacked", "unpacked_rows", "word_type",
]  # fmt: skip

WHOLE = 64
"""The bits of a word that is not packed."""

_WIDEST = 57
"""The most bits of a word that fits into eight bytes wherever it begins in a byte."""

_CLIPS = 1e-290, 1e290
"""The least and the largest bound of a number: float64 holds neither 2 c nor (2^v - 1) / (2 c) far beyond them."""


@dataclass(frozen=True)
class Quantised:
    """Numbers in [-`clip`, `clip`] as integers of `bits`; up to `terms` of them are summed, each times up to `weight`.

    Raises ValueError unless 2 <= bits <= 32, 1e-290 <= clip <= 1e290, and a sum fits into 57 bits.
    """

    bits: int
    clip: float
    terms: int
    weight: int = 1

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 32:
            raise ValueError(f"bits(={self.bits}) must be between 2 and 32")
        if not _CLIPS[0] <= self.clip <= _CLIPS[1]:
            raise ValueError(f"clip(={self.clip}) must be a number above 0, from {_CLIPS[0]} to {_CLIPS[1]}")
        if self.terms < 1 or self.weight < 1:
            raise ValueError(f"terms(={self.terms}) and weight(={self.weight}) must be >= 1")
        if self.word_bits > _WIDEST:
            problem = f"a sum of {self.terms} values of {self.bits} bits with weights up to {self.weight} takes "
            raise ValueError(f"{problem}{self.word_bits} bits; at most {_WIDEST} are possible")

    @property
    def largest(self) -> int:
        """The largest integer of one number: 2^v - 1."""
        return (1 << self.bits) - 1

    @property
    def word_bits(self) -> int:
        """The bits b of a word that holds any sum."""
        return (self.terms * self.weight * self.largest).bit_length()

    def encode(self, values: NDArray[np.floating]) -> NDArray[np.uint64]:
        """Encode `values` (any shape) as integers. Raises ValueError for a number that is infinite or NaN.

        The message never contains the value.
        """
        values = values.astype(np.float64)  # which stays hollow, if it is
        if not np.isfinite(values).all():
            raise ValueError("a value is infinite or not a number")
        within = np.clip(values, -self.clip, self.clip)
        return np.rint((within + self.clip) * (self.largest / (2 * self.clip))).astype(np.uint64)

    def unclipped(self, values: NDArray[np.floating], largest: int) -> NDArray[np.int64]:
        """Encode `values` as integers, also those outside of the range, which no honest client sends.

        Their magnitudes are at most `largest`, below 2^63.
        """
        scaled = (np.asarray(values, np.float64) + self.clip) * (self.largest / (2 * self.clip))
        bound = float(largest)
        whole = np.where(np.abs(scaled) < bound, np.rint(scaled), 0.0).astype(np.int64)
        return np.where(scaled >= bound, largest, np.where(scaled <= -bound, -largest, whole))

    def decode(self, total: NDArray[np.uint64], weight: float) -> NDArray[np.float64]:
        """Decode the sum of the numbers times their weights, from the `total` of integers and the sum of weights."""
        return total.astype(np.float64) * (2 * self.clip / self.largest) - self.clip * weight


def mask_of(bits: int) -> int:
    """The word whose lowest `bits` are set."""
    return (1 << bits) - 1


def word_type(bits: int) -> np.dtype[np.unsignedinteger]:
    """The type for adding and masking words of `bits`: 32 bits, or 64 where these are too narrow."""
    return np.dtype(np.uint32 if bits <= 32 else np.uint64)


def packed_bytes(words: int, bits: int) -> int:
    """The bytes of `words` words of `bits` each."""
    return -(-words * bits // 8)


def packed(words: NDArray[np.unsignedinteger], bits: int) -> bytes:
    """Pack `words` (d,), each below 2^bits, into ceil(d bits / 8) bytes. Raises ValueError unless 1 <= bits <= 57."""
    return packed_rows(words[np.newaxis], bits)[0]


def packed_rows(words: NDArray[np.unsignedinteger], bits: int) -> list[bytes]:
    """Pack each row of `words` (n, d) as `packed` does: many short rows take little longer than one."""
    _check(bits)
    if bits in (8, 16, 32):
        return [row.tobytes() for row in words.astype(f"<u{bits // 8}")]
    # Eight words are `bits` bytes: word i begins in byte i bits // 8.
    rows, size = words.shape
    groups = -(-size // 8)
    lanes = np.zeros((rows, 8 * groups), np.uint64)
    lanes[:, :size] = words
    lanes = lanes.reshape(rows * groups, 8)
    out = np.zeros((rows * groups, bits), np.uint8)
    for i in range(8):
        start, shift = divmod(i * bits, 8)
        moved = lanes[:, i] << np.uint64(shift)
        for place in range(-(-(bits + shift) // 8)):
            out[:, start + place] |= (moved >> np.uint64(8 * place)).astype(np.uint8)
    return [row.tobytes() for row in out.reshape(rows, groups * bits)[:, : packed_bytes(size, bits)]]


def unpacked(data: bytes, count: int, bits: int) -> NDArray[np.unsignedinteger]:
    """Unpack `count` words of `bits` from `data`.

    Raises ValueError if the length does not fit or spare bits are set.
    """
    words, clean = unpacked_rows([data], count, bits)
    if not clean[0]:
        raise ValueError(f"bits after the last of {count} words are set")
    return words.reshape(-1)


def unpacked_rows(
    rows: Sequence[bytes], count: int, bits: int
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.bool_]]:
    """Unpack `count` words of `bits` from each of the `rows`: (n, count), and where no spare bits are set, (n,).

    Raises ValueError if a length does not fit.
    """
    _check(bits)
    for data in rows:
        if len(data) != packed_bytes(count, bits):
            raise ValueError(f"{count} words of {bits} bits take {packed_bytes(count, bits)} bytes, not {len(data)}")
    octets = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), packed_bytes(count, bits))
    if bits in (8, 16, 32):
        return octets.view(f"<u{bits // 8}").astype(word_type(bits)), np.ones(len(rows), np.bool_)
    groups = -(-count // 8)
    lanes = np.zeros((len(rows), groups * bits), np.uint8)
    lanes[:, : octets.shape[1]] = octets
    lanes = lanes.reshape(len(rows) * groups, bits)
    words = np.zeros((len(rows) * groups, 8), np.uint64)
    for i in range(8):
        start, shift = divmod(i * bits, 8)
        for place in range(-(-(bits + shift) // 8)):
            words[:, i] |= lanes[:, start + place].astype(np.uint64) << np.uint64(8 * place)
        words[:, i] >>= np.uint64(shift)
    words &= np.uint64(mask_of(bits))
    whole = words.reshape(len(rows), 8 * groups)
    return whole[:, :count].astype(word_type(bits)), ~np.asarray(whole[:, count:].any(axis=1))


def _check(bits: int) -> None:
    if not 1 <= bits <= _WIDEST:
        raise ValueError(f"bits(={bits}) must be between 1 and {_WIDEST}")
