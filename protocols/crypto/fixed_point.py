"""Real numbers in the ring of integers modulo 2^64, for secure summation.

A value v is carried as round(v * 2^f) modulo 2^64, with f fractional bits, half to even. Numbers are int64
seen as uint64 (two's complement), so that numpy's wrapping addition and subtraction are the ring's.
Additions of encoded values are exact in the ring whatever their order and whatever masks were added and
taken off on the way; only the encoding rounds, by at most 2^-(f+1) a value.

A sum of `terms` values decodes to the right number as long as its magnitude stays below 2^(63-f). As no
party sees the sum before it is taken, each holds its own values below 2^(63-f) / terms.

The papers leave the number format open (XCLP, Section 3.2, "SecureRowSums": values in Z_l, "extensions to
fixed-point or floating-point arithmetic also exist", citing Catrina & Saxena 2010).
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["decode", "encode", "largest"]


def largest(fraction_bits: int, terms: int) -> float:
    """The bound 2^(63-f) / terms on magnitudes. Raises ValueError unless 0 <= f <= 62 and terms >= 1."""
    if not 0 <= fraction_bits <= 62:
        raise ValueError(f"fraction_bits(={fraction_bits}) must be between 0 and 62")
    if terms < 1:
        raise ValueError(f"terms(={terms}) must be >= 1")
    return float(2 ** (63 - fraction_bits)) / terms


def encode(values: NDArray[np.float64], fraction_bits: int, terms: int) -> NDArray[np.uint64]:
    """Encode `values` (any shape) as ring elements of which up to `terms` may be added.

    Raises ValueError if a magnitude reaches 2^(63-f) / terms, and for a value that is infinite or NaN. The message
    never contains the value.
    """
    bound = largest(fraction_bits, terms)
    values = np.asarray(values, dtype=np.float64)
    peak = float(np.max(np.abs(values), initial=0.0))
    if not np.isfinite(peak):
        raise ValueError("a value is infinite or not a number, as where training diverges")
    if not peak < bound:
        raise ValueError(_too_large(bound, fraction_bits, terms))
    integers = np.rint(values * 2.0**fraction_bits)
    # Rounding may have lifted a value onto the bound; in integers, because 2^63 / terms is not a float in
    # general.
    if int(np.max(np.abs(integers), initial=0.0)) * terms >= 2**63:
        raise ValueError(_too_large(bound, fraction_bits, terms))
    return integers.astype(np.int64).view(np.uint64)


def decode(elements: NDArray[np.uint64], fraction_bits: int) -> NDArray[np.float64]:
    """Decode ring elements (any shape) to the real numbers that they represent, in [-2^(63-f), 2^(63-f))."""
    largest(fraction_bits, 1)
    return np.asarray(elements, dtype=np.uint64).view(np.int64) / 2.0**fraction_bits


def _too_large(bound: float, fraction_bits: int, terms: int) -> str:
    return (
        f"a value is too large for the sum: with {fraction_bits} fractional bits and {terms} terms "
        f"magnitudes must be numbers below {bound:.6g}"
    )
