"""Arithmetic on vectors of parameters (little-endian float32); needs no torch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.sim.hollow import Blank, filled

__all__ = ["average", "decode", "encode"]

_NUMBERS = 65_521


def decode(vector: bytes) -> NDArray[np.float32]:
    """The numbers of a vector. Raises ValueError if the number of bytes is no multiple of four."""
    if len(vector) % 4:
        raise ValueError(f"a vector of {len(vector)} bytes is not one of numbers of 4 bytes")
    if isinstance(vector, Blank):  # of numbers that are another vector's by chance alone
        return filled(len(vector) // 4, np.float32, int.from_bytes(vector.token[:8], "big") % _NUMBERS / _NUMBERS)
    return np.frombuffer(vector, "<f4").astype(np.float32, copy=False)


def encode(numbers: NDArray[np.floating]) -> bytes:
    """Encode `numbers` as a vector."""
    return numbers.astype("<f4").tobytes()


def average(vectors: Sequence[bytes], weights: Sequence[float] | None = None) -> bytes:
    """The mean of `vectors`, or the mean with `weights` >= 0, which are scaled to sum to 1.

    Products with weights and sums are float64, in the order given. Raises ValueError for no vector, unequal lengths and
    invalid weights.
    """
    if not vectors:
        raise ValueError("there is no vector to average")
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError(f"vectors of {sorted({len(vector) for vector in vectors})} bytes cannot be averaged")
    shares = [1.0] * len(vectors) if weights is None else list(weights)
    if len(shares) != len(vectors) or min(shares) < 0 or sum(shares) <= 0:
        raise ValueError(f"{len(vectors)} vectors need as many weights >= 0 with a positive sum, not {shares}")
    total = np.zeros(len(decode(vectors[0])))
    for vector, share in zip(vectors, shares, strict=True):
        numbers = decode(vector)
        total += numbers if share == 1.0 else numbers.astype(np.float64) * share
    total /= sum(shares)
    return encode(total)
