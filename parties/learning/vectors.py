"""Arithmetic on vectors of a network's numbers, each in the width that it has in the network; needs no torch.

A vector is bytes: the numbers of one tensor after the other, little-endian, without padding. Its `Layout`, which all
parties know, says how many numbers there are of which type. Arithmetic is in float32, which holds float16 and bfloat16
exactly, or in float64 where a network has such numbers; sums are float64. A result goes back into its type by one rule:
float64 is rounded to float32 unless the type is float64, and float32 to float16 or bfloat16, each time to the nearest
number, of two to the even one. A number beyond the range of its type becomes infinite.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.sim.hollow import Blank, filled, together

__all__ = ["WIDTHS", "Layout", "average", "canonical", "decode", "encode"]

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""The bytes of a number of each type that a vector can hold."""

_FORMATS = {"float16": "<f2", "bfloat16": "<u2", "float32": "<f4", "float64": "<f8"}
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
}
_INFINITE = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
"""The bits of infinity, above which, without the sign, are those of what is not a number."""

_ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 0.0, "float64": 0.0}
"""Twice the largest relative error of rounding to a type narrower than float32."""

_NUMBERS = 65_521


@dataclass(frozen=True)
class Layout:
    """The types of a vector's numbers in order: (type, how many of it) for each stretch of equal ones.

    Raises ValueError for a type that is not in `WIDTHS`.
    """

    stretches: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for kind, count in self.stretches:
            if kind not in WIDTHS or count < 0:
                raise ValueError(f"{count} numbers of type {kind} must be >= 0, of type {', '.join(WIDTHS)}")

    @classmethod
    def of(cls, parts: Iterable[tuple[str, int]]) -> "Layout":
        """The layout of parts of (type, how many numbers), in which neighbours of one type are joined."""
        joined: list[tuple[str, int]] = []
        for kind, count in parts:
            if joined and joined[-1][0] == kind:
                count += joined.pop()[1]
            if count:
                joined.append((kind, count))
        return cls(tuple(joined))

    @cached_property
    def numbers(self) -> int:
        """How many numbers a vector has."""
        return sum(count for _, count in self.stretches)

    @cached_property
    def size(self) -> int:
        """The length of a vector in bytes."""
        return sum(WIDTHS[kind] * count for kind, count in self.stretches)

    @property
    def largest(self) -> float:
        """The largest magnitude that each number can have."""
        return min((_LARGEST[kind] for kind, _ in self.stretches), default=_LARGEST["float32"])

    @cached_property
    def dtype(self) -> "np.dtype[np.floating]":
        """The type of a vector's numbers in arithmetic: float32, or float64 where there is one of these."""
        return np.dtype(np.float64 if any(kind == "float64" for kind, _ in self.stretches) else np.float32)

    @property
    def rounding(self) -> NDArray[np.float64]:
        """For each number, twice the largest relative error that its type adds to one of float32, float64 (n,)."""
        return np.repeat([_ROUNDING[kind] for kind, _ in self.stretches], [count for _, count in self.stretches])

    def first(self, numbers: int) -> "Layout":
        """The layout of the first `numbers` numbers, or of all if there are fewer."""
        left, found = numbers, []
        for kind, count in self.stretches:
            found.append((kind, min(count, left)))
            left -= min(count, left)
        return Layout.of(found)

    def round(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """`numbers` as they are after they were encoded and decoded."""
        return decode(encode(numbers, self), self)

    def check(self, vector: bytes, what: str) -> None:
        """Raise ValueError, naming `what`, if `vector` does not have the length of this layout."""
        if len(vector) != self.size:
            widths = " and ".join(f"{count} numbers of {WIDTHS[kind]} bytes" for kind, count in self.stretches)
            raise ValueError(f"{what}: {len(vector)} bytes, not the {self.size} of {widths or 'no number'}")

    def _places(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield the type of each stretch, its first number, how many it has, and its first byte."""
        number, byte = 0, 0
        for kind, count in self.stretches:
            yield kind, number, count, byte
            number, byte = number + count, byte + WIDTHS[kind] * count


def decode(vector: bytes, layout: Layout | None = None) -> NDArray[np.floating]:
    """The numbers of a vector, of `layout.dtype`. Without a layout all are float32.

    Raises ValueError if the number of bytes is not the layout's.
    """
    if layout is None:
        if len(vector) % 4:
            raise ValueError(f"a vector of {len(vector)} bytes is not one of numbers of 4 bytes")
        layout = Layout.of([("float32", len(vector) // 4)])
    layout.check(vector, "a vector")
    if isinstance(vector, Blank):  # of numbers that are another vector's by chance alone
        value = int.from_bytes(vector.token[:8], "big") % _NUMBERS / _NUMBERS
        return filled(layout.numbers, layout.dtype.type, value)
    parts = [_read(vector, kind, count, byte) for kind, _, count, byte in layout._places()]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.zeros(0, layout.dtype), *parts]).astype(layout.dtype, copy=False)


def _read(vector: bytes, kind: str, count: int, byte: int) -> NDArray[np.floating]:
    numbers = np.frombuffer(vector, _FORMATS[kind], count, byte)
    if kind == "bfloat16":  # the upper half of a float32
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float64 if kind == "float64" else np.float32, copy=False)


def encode(numbers: NDArray[np.floating], layout: Layout | None = None) -> bytes:
    """Encode `numbers` as a vector, rounded by the rule above. Without a layout all become float32.

    Raises ValueError if there are more or fewer of them than in the layout.
    """
    if layout is None:
        return numbers.astype("<f4").tobytes()
    if numbers.shape != (layout.numbers,):
        raise ValueError(f"{numbers.shape} numbers are not those of a vector, ({layout.numbers},)")
    return together(_written(numbers[at : at + count], kind) for kind, at, count, _ in layout._places())


def _written(numbers: NDArray[np.floating], kind: str) -> bytes:
    if kind == "float64":
        return numbers.astype("<f8").tobytes()
    with np.errstate(over="ignore"):
        single = numbers.astype("<f4")
        if kind == "float32":
            return single.tobytes()
        if kind == "float16":
            return single.astype("<f2").tobytes()
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(single), bits >> 16 | 0x40, rounded).astype("<u2").tobytes()


def canonical(vector: bytes, layout: Layout) -> bytes:
    """The bytes of `vector` with each -0.0 as 0.0 and with one pattern for what is not a number (NaN).

    So vectors of equal numbers have equal bytes. Raises ValueError if the number of bytes is not the layout's.
    """
    layout.check(vector, "a vector")
    if isinstance(vector, Blank):
        return vector
    found = bytearray(vector)
    for kind, _, count, byte in layout._places():
        words = np.frombuffer(found, f"<u{WIDTHS[kind]}", count, byte)
        sign = words.dtype.type(1 << (8 * WIDTHS[kind] - 1))
        words[words == sign] = 0
        words[(words & ~sign) > _INFINITE[kind]] = _INFINITE[kind] + 1
    return bytes(found)


def average(vectors: Sequence[bytes], weights: Sequence[float] | None = None, layout: Layout | None = None) -> bytes:
    """The mean of `vectors`, or the mean with `weights` >= 0, which are scaled to sum to 1.

    Products with weights and sums are float64, in the order given. Without a layout all numbers are float32. Raises
    ValueError for no vector, unequal lengths and invalid weights.
    """
    if not vectors:
        raise ValueError("there is no vector to average")
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError(f"vectors of {sorted({len(vector) for vector in vectors})} bytes cannot be averaged")
    shares = [1.0] * len(vectors) if weights is None else list(weights)
    if len(shares) != len(vectors) or min(shares) < 0 or sum(shares) <= 0:
        raise ValueError(f"{len(vectors)} vectors need as many weights >= 0 with a positive sum, not {shares}")
    total = np.zeros(len(decode(vectors[0], layout)))
    for vector, share in zip(vectors, shares, strict=True):
        numbers = decode(vector, layout)
        total += numbers if share == 1.0 else numbers.astype(np.float64) * share
    total /= sum(shares)
    return encode(total, layout)
