"""Powers of points of P-256 by one secret exponent, and products of many powers.

* **One exponent, many points** (`SecretExponent`): OpenSSL's key agreement gives the first coordinate of a power P^k,
  in constant time. The second one follows from that of P^(k+1) (Okeya and Sakurai, Efficient elliptic curve
  cryptosystems from a scalar multiplication algorithm with recovery of the y-coordinate, CHES 2001, here for affine
  coordinates): of the line through P^k and P, the slope's square is the sum of the three first coordinates. Both
  together take a quarter of the time of one power in `groups`.
* **Many exponents, one product** (`product_of_powers`): for few points the squarings are shared and each exponent is
  written in signed digits (Straus, American Mathematical Monthly 70, 1964; Solinas, Designs, Codes and Cryptography 19,
  2000). For many points, those with the same digit are multiplied first (Pippenger, FOCS 1976). Times depend on the
  exponents, which must be public.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import gmpy2
from cryptography.hazmat.primitives.asymmetric import ec
from gmpy2 import mpz

from tacit.protocols.crypto.groups import find_group

__all__ = ["SecretExponent", "decoded", "generator_power", "product_of_powers"]

_GROUP = find_group("p256")
_CURVE = ec.SECP256R1()
_PRIME = mpz(2**256 - 2**224 + 2**192 + 2**96 - 1)
_B = mpz("5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B", 16)

_FEW = 256
"""Up to as many points the squarings are shared; beyond, points are put together by digit."""

_WINDOW = 4
"""The bits of a signed digit where squarings are shared: one in five digits is not zero."""

_REMEMBERED = 1 << 13
"""Public points that are kept after they were decoded: in a simulation, many parties decode the same ones."""


class _Base(NamedTuple):
    """A public point as OpenSSL's key, its first coordinate, the square of its second, and the inverse of twice it."""

    key: ec.EllipticCurvePublicKey
    x: mpz
    square: mpz
    half: mpz


@lru_cache(_REMEMBERED)
def _base(element: bytes) -> _Base:
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, element)
    except ValueError:
        raise ValueError("not an element of p256") from None
    numbers = key.public_numbers()
    x, y = mpz(numbers.x), mpz(numbers.y)
    return _Base(key, x, y * y % _PRIME, gmpy2.invert(2 * y, _PRIME))


@lru_cache(_REMEMBERED)
def decoded(element: bytes) -> Any:
    """The point that `element` encodes, which nobody may change. Raises ValueError unless it is an element."""
    return _GROUP.decode(element)


class SecretExponent:
    """An exponent k in [1, q), for powers of many points. Raises ValueError for another number."""

    __slots__ = ("_inverts", "_key", "_next")

    def __init__(self, exponent: int) -> None:
        if not 0 < exponent < _GROUP.order:
            raise ValueError("an exponent is at least 1 and below the order of p256")
        self._inverts = exponent == _GROUP.order - 1
        self._key = ec.derive_private_key(exponent, _CURVE)
        self._next = None if self._inverts else ec.derive_private_key(exponent + 1, _CURVE)

    def __repr__(self) -> str:
        return "<exponent of p256>"

    @property
    def public(self) -> bytes:
        """g^k, encoded as in `groups`."""
        return _encoded_public(self._key)

    def power(self, element: bytes) -> bytes:
        """element^k, both encoded as in `groups`. Raises ValueError unless `element` is one of p256."""
        if len(element) != _GROUP.element_bytes:
            raise ValueError(f"an element of p256 takes {_GROUP.element_bytes} bytes, not {len(element)}")
        base = _base(element)
        if self._next is None:
            return bytes([element[0] ^ 1]) + element[1:]
        first, third = (key.exchange(ec.ECDH(), base.key) for key in (self._key, self._next))
        x = mpz.from_bytes(first, "big")
        apart = x - base.x
        square = (x * x - 3) * x + _B
        y = (square + base.square - (mpz.from_bytes(third, "big") + x + base.x) * apart * apart) * base.half % _PRIME
        return bytes([2 + y % 2]) + first


def generator_power(exponent: int) -> bytes:
    """g^exponent, encoded as in `groups`, in constant time. Raises ValueError for an exponent outside [1, q)."""
    if not 0 < exponent < _GROUP.order:
        raise ValueError("an exponent is at least 1 and below the order of p256")
    return _encoded_public(ec.derive_private_key(exponent, _CURVE))


def _encoded_public(key: ec.EllipticCurvePrivateKey) -> bytes:
    numbers = key.public_key().public_numbers()
    return bytes([2 + numbers.y % 2]) + numbers.x.to_bytes(32, "big")


def product_of_powers(points: Sequence[Any], exponents: Sequence[int]) -> Any:
    """The product of each of the `points` (of `groups`) to its public exponent, at least 0. Raises ValueError."""
    if len(points) != len(exponents):
        raise ValueError(f"{len(points)} points need as many exponents, not {len(exponents)}")
    if any(exponent < 0 for exponent in exponents):
        raise ValueError("an exponent is at least 0")
    return (_by_points if len(points) <= _FEW else _by_digits)(points, exponents)


def _by_points(points: Sequence[Any], exponents: Sequence[int]) -> Any:
    total = _GROUP.identity.copy()
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
    identity, mask = _GROUP.identity, (1 << width) - 1
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
