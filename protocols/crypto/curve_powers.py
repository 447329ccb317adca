"""Products of many powers of points of P-256, whose exponents are public.

For few points the squarings are shared and each exponent is written in signed digits (Straus, American Mathematical
Monthly 70, 1964; Solinas, Designs, Codes and Cryptography 19, 2000). For many points, those with the same digit are
multiplied first (Pippenger, FOCS 1976). Times depend on the exponents.

The points are pycryptodome's here, which add in place; `curve_points` has those of `groups`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gmpy2 import mpz

from tacit.protocols.crypto.curve_points import INFINITY, Point, decode

__all__ = ["decoded", "movable", "product_of_powers", "settled"]

_FEW = 256
"""Up to as many points the squarings are shared; beyond, points are put together by digit."""

_WINDOW = 4
"""The bits of a signed digit where squarings are shared: one in five digits is not zero."""

_REMEMBERED = 1 << 13
"""Public points that are kept after they were decoded: in a simulation, many parties decode the same ones."""


def movable(point: Point) -> Any:
    """The point as pycryptodome's, which adds in place. Raises ValueError for one off the curve."""
    from tacit.protocols.crypto.movable_points import MovablePoint

    return MovablePoint(int(point.x), int(point.y), "p256")


def settled(point: Any) -> Point:
    """The coordinates of a point of pycryptodome's."""
    x, y = point.xy  # (0, 0) is the point at infinity
    return Point(mpz(int(x)), mpz(int(y)))


@lru_cache(_REMEMBERED)
def decoded(element: bytes) -> Any:
    """The movable point that `element` encodes, which nobody may change. Raises ValueError unless it is an element."""
    return movable(decode(element))


def product_of_powers(points: Sequence[Any], exponents: Sequence[int]) -> Point:
    """The product of each of the `points`, which are `movable`, to its public exponent, at least 0.

    Raises ValueError for a negative exponent, or another number of them than of points.
    """
    if len(points) != len(exponents):
        raise ValueError(f"{len(points)} points need as many exponents, not {len(exponents)}")
    if any(exponent < 0 for exponent in exponents):
        raise ValueError("an exponent is at least 0")
    return settled((_by_points if len(points) <= _FEW else _by_digits)(points, exponents))


def _by_points(points: Sequence[Any], exponents: Sequence[int]) -> Any:
    total = movable(INFINITY)
    rows: list[list[Any]] = []  # the factors at each bit
    for point, exponent in zip(points, exponents, strict=True):
        odd = _odd_powers(point)
        place = 0
        while exponent:
            zeros = (exponent & -exponent).bit_length() - 1
            place, exponent = place + zeros, exponent >> zeros
            digit = exponent & ((1 << _WINDOW) - 1)
            if digit >> (_WINDOW - 1):
                digit -= 1 << _WINDOW
            while len(rows) <= place:
                rows.append([])
            rows[place].append(odd[digit])
            exponent -= digit
    for row in reversed(rows):
        total.double()
        for factor in row:
            total += factor
    return total


def _odd_powers(point: Any) -> dict[int, Any]:
    """The powers of a point by the odd numbers of fewer than `_WINDOW` bits, and their inverses."""
    twice, last = point.copy().double(), point
    found = {1: point, -1: -point}
    for number in range(3, 1 << (_WINDOW - 1), 2):
        last = last.copy()
        last += twice
        found |= {number: last, -number: -last}
    return found


def _by_digits(points: Sequence[Any], exponents: Sequence[int]) -> Any:
    longest = max(exponent.bit_length() for exponent in exponents)
    # Each digit takes a product for each point, and two for each value that it can have.
    width = min(range(1, 17), key=lambda bits: -(-longest // bits) * (len(points) + (2 << bits)))
    identity, mask = movable(INFINITY), (1 << width) - 1
    total = identity.copy()
    buckets = [identity.copy() for _ in range(1 << width)]
    for start in reversed(range(0, longest, width)):
        for _ in range(width):
            total.double()
        for bucket in buckets:
            bucket.set(identity)
        for point, exponent in zip(points, exponents, strict=True):
            digit = (exponent >> start) & mask
            if digit:
                buckets[digit] += point
        # The sum of d times bucket d: each of the running products counts once more for every smaller digit.
        running = identity.copy()
        for bucket in reversed(buckets[1:]):
            running += bucket
            total += running
    return total
