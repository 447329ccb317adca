"""Points of NIST P-256 by their coordinates: sums of many pairs at a time, and powers by OpenSSL.

* **Constants**: FIPS 186-4, D.1.2.3; SEC 2, secp256r1. The curve is y^2 = x^3 - 3 x + b. Its order is a prime, so no
  point has y = 0, and (0, 0) stands for the point at infinity.
* **Sums** (`sums`): the textbook formulas, with one inversion for all pairs (P. L. Montgomery, "Speeding the Pollard
  and elliptic curve methods of factorization", Mathematics of Computation 48, 1987).
* **Powers by one secret exponent** (`SecretExponent`): OpenSSL's key agreement gives the first coordinate of a power
  P^k, in constant time. The second one follows from that of P^(k+1) (Okeya and Sakurai, Efficient elliptic curve
  cryptosystems from a scalar multiplication algorithm with recovery of the y-coordinate, CHES 2001, here for affine
  coordinates): of the line through P^k and P, the slope's square is the sum of the three first coordinates. Both
  together take a quarter of the time of a power by pycryptodome.

What OpenSSL does not compute takes a time that depends on the points.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import gmpy2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from gmpy2 import mpz

__all__ = [
    "GENERATOR",
    "INFINITY",
    "ORDER",
    "PRIME",
    "B",
    "Point",
    "SecretExponent",
    "decode",
    "encode",
    "generator_power",
    "inverse",
    "sums",
]

PRIME = mpz(2**256 - 2**224 + 2**192 + 2**96 - 1)
B = mpz("5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B", 16)
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

_CURVE = ec.SECP256R1()
_ECDH = ec.ECDH()

_REMEMBERED = 1 << 13
"""Public points that are kept after they were decoded: in a simulation, many parties decode the same ones."""

_OUTSIDE = "an exponent is at least 1 and below the order of p256"


class Point(NamedTuple):
    """The coordinates of a point, in [0, p)."""

    x: mpz
    y: mpz


GENERATOR = Point(
    mpz("6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296", 16),
    mpz("4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5", 16),
)
INFINITY = Point(mpz(0), mpz(0))


def encode(point: Point) -> bytes:
    """The compressed encoding (SEC 1, 2.3.3) of `point`, 33 bytes; all are zero for the point at infinity."""
    x, y = point
    return bytes([2 + y % 2 if y else 0]) + x.to_bytes(32, "big")


def decode(data: bytes) -> Point:
    """The point that 33 bytes encode. Raises ValueError unless they encode a point other than that at infinity."""
    if len(data) != 33:
        raise ValueError(f"an element of p256 takes 33 bytes, not {len(data)}")
    x = mpz.from_bytes(data[1:], "big")
    if data[0] not in (2, 3) or x >= PRIME:
        raise ValueError("not an element of p256")
    square = ((x * x - 3) * x + B) % PRIME
    y = gmpy2.powmod(square, (PRIME + 1) // 4, PRIME)  # p = 3 mod 4
    if y * y % PRIME != square:
        raise ValueError("not an element of p256")
    return Point(x, y if y % 2 == data[0] - 2 else PRIME - y)


def inverse(point: Point) -> Point:
    """The point whose sum with `point` is the point at infinity."""
    x, y = point
    return Point(x, PRIME - y) if y else INFINITY


def sums(lefts: Sequence[Point], rights: Sequence[Point]) -> list[Point]:
    """The sum of each of the `lefts` and the one of the `rights` at its place. Any points may be equal or inverse."""
    below: list[mpz] = []  # the denominators of slopes, and the product of those before each
    before: list[mpz] = []
    product = mpz(1)
    known: dict[int, Point] = {}  # of pairs without a slope, whose denominator is 1
    for left, right in zip(lefts, rights, strict=True):
        (x, y), (u, v) = left, right
        apart = u - x
        if not (apart and y and v):
            if not apart and y == v and y:
                apart = 2 * y
            else:
                known[len(below)] = left if not v else right if not y else INFINITY
                apart = mpz(1)
        below.append(apart)
        before.append(product)
        product = product * apart % PRIME
    rest = gmpy2.invert(product, PRIME)
    found = [INFINITY] * len(below)
    for place in reversed(range(len(below))):
        (x, y), (u, v) = lefts[place], rights[place]
        slope = rest * before[place] % PRIME * (v - y if x != u else 3 * x * x - 3) % PRIME
        rest = rest * below[place] % PRIME
        third = (slope * slope - x - u) % PRIME
        found[place] = _point(third, (slope * (x - third) - y) % PRIME)
    for place, point in known.items():
        found[place] = point
    return found


def _point(x: mpz, y: mpz) -> Point:
    return tuple.__new__(Point, (x, y))  # half the time of a named tuple's own constructor


class _Base(NamedTuple):
    """A public point as OpenSSL's key, its coordinates, the square of the second, and the inverse of twice it."""

    key: ec.EllipticCurvePublicKey
    x: mpz
    y: mpz
    square: mpz
    half: mpz


def _base(point: Point) -> _Base:
    x, y = point
    key = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, b"\4" + x.to_bytes(32, "big") + y.to_bytes(32, "big"))
    return _Base(key, x, y, y * y % PRIME, gmpy2.invert(2 * y, PRIME))


@lru_cache(_REMEMBERED)
def _decoded_base(element: bytes) -> _Base:
    return _base(decode(element))


class SecretExponent:
    """An exponent k in [1, q), for powers of many points. Raises ValueError for another number."""

    __slots__ = ("_inverts", "_key", "_next")

    def __init__(self, exponent: int) -> None:
        if not 0 < exponent < ORDER:
            raise ValueError(_OUTSIDE)
        self._inverts = exponent == ORDER - 1
        self._key = ec.derive_private_key(exponent, _CURVE)
        self._next = None if self._inverts else ec.derive_private_key(exponent + 1, _CURVE)

    def __repr__(self) -> str:
        return "<exponent of p256>"

    @property
    def public(self) -> bytes:
        """g^k, encoded."""
        return encode(_public_point(self._key))

    def power(self, element: bytes) -> bytes:
        """element^k, both encoded. Raises ValueError unless `element` is one of p256. Elements are remembered."""
        return encode(self._power(_decoded_base(element)))

    def power_of(self, point: Point) -> Point:
        """The power of a point other than that at infinity. Raises ValueError for one off the curve."""
        return self._power(_base(point))

    def _power(self, base: _Base) -> Point:
        if self._next is None:
            return Point(base.x, PRIME - base.y)
        first, third = (mpz.from_bytes(key.exchange(_ECDH, base.key), "big") for key in (self._key, self._next))
        apart = first - base.x
        square = (first * first - 3) * first + B
        y = (square + base.square - (third + first + base.x) * apart * apart) * base.half % PRIME
        return Point(first, y)


def generator_power(exponent: int) -> Point:
    """g^exponent, in constant time. Raises ValueError for an exponent outside [1, q)."""
    if not 0 < exponent < ORDER:
        raise ValueError(_OUTSIDE)
    return _public_point(ec.derive_private_key(exponent, _CURVE))


def _public_point(key: ec.EllipticCurvePrivateKey) -> Point:
    data = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return Point(mpz.from_bytes(data[1:33], "big"), mpz.from_bytes(data[33:], "big"))
