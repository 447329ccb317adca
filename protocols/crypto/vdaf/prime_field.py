"""Arithmetic on arrays of elements of the fields of draft-irtf-cfrg-vdaf-20, sections 6.1.2 and 6.1.4.

    Field64:  p = 2^32 * 4294967295 + 1           = 2^64  - 2^32    + 1
    Field128: p = 2^66 * 4611686018427387897 + 1  = 2^128 - 7 2^66  + 1

An array of elements is an int64 array (limbs, ...): element = sum_i limb_i 2^(w i), w = 22 bits for Field64 (3 limbs)
and 26 bits for Field128 (5 limbs). The representation is redundant: limbs may be negative or wider than w bits, so that
sums and differences are numpy's + and - without carries. *Settled* arrays have limbs in [-2^20, 2^w + 2^20]; every
function below returns settled arrays. Products accept any limbs with |a_i| |b_j| <= 2^59, so one factor may be a sum
of up to 2^6 settled elements. Only `encode` reduces fully.

A product's columns sum_{i+j=k} a_i b_j fit in int64 without carries. With 2^(w L) = 4 2^(8 size) they are folded by

    2^(w L) = f 2^(w s) - 4 (mod p),    f 2^(w s) = 4 (2^(8 size) - p + 1),

where s = 1, f = 2^12 for Field64 and s = 2, f = 7 2^16 for Field128.

No arithmetic on limbs branches on their values. Beyond that, nothing is promised about timing: numpy and Python are not
made for constant time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["FIELD64", "FIELD128", "Elements", "PrimeField"]

Elements = NDArray[np.int64]
"""Elements of a field: (limbs, ...)."""

_BLOCK = 4096
"""Products computed at a time: their columns then stay in the processor's cache."""

_TERMS = 64
"""Products of settled elements whose columns are added before a carry: 5 * 64 * 2^(2 * 26.01) < 2^61."""


@dataclass(frozen=True, eq=False)
class PrimeField:
    """A prime field: `modulus` = 2^(8 size) - `middle` 2^(width step) / 4 + 1, in `limbs` limbs of `width` bits."""

    name: str
    modulus: int
    size: int
    """Bytes of an encoded element."""
    two_adicity: int
    """The largest k such that 2^k divides p - 1: the longest transform has 2^k points."""
    limbs: int
    width: int
    step: int
    """The place s of the limb to which limb L is folded."""
    middle: int
    """The factor f by which limb L is folded to limb s."""

    def __repr__(self) -> str:
        return self.name

    # Conversions

    def zeros(self, *shape: int) -> Elements:
        """An array of the element 0: (limbs, *shape)."""
        return np.zeros((self.limbs, *shape), np.int64)

    def from_small(self, values: NDArray[np.integer]) -> Elements:
        """The elements of integers in [-2^w, 2^w], here limb 0: (limbs, *values.shape)."""
        elements = self.zeros(*values.shape)
        elements[0] = values
        return elements

    def from_ints(self, values: Sequence[int]) -> Elements:
        """The elements of any integers, reduced modulo p: (limbs, len(values))."""
        return self.decode(b"".join((value % self.modulus).to_bytes(self.size, "little") for value in values))

    def to_ints(self, elements: Elements) -> list[int]:
        """The integers in [0, p) of `elements`, flattened."""
        data = self.encode(elements)
        return [int.from_bytes(data[i : i + self.size], "little") for i in range(0, len(data), self.size)]

    def encode(self, elements: Elements) -> bytes:
        """The encoding of the flattened `elements`: `size` bytes each, little-endian, in [0, p) (section 6.1)."""
        c = self._canonical(self.settle(elements).reshape(self.limbs, -1)).view(np.uint64)
        words = np.zeros((c.shape[1], self.size // 8), "<u8")
        for i in range(self.limbs):
            word, shift = divmod(i * self.width, 64)
            words[:, word] |= c[i] << np.uint64(shift)
            if shift + self.width > 64 and word + 1 < words.shape[1]:
                words[:, word + 1] |= c[i] >> np.uint64(64 - shift)
        return words.tobytes()

    def decode(self, data: bytes) -> Elements:
        """The elements encoded in `data`: (limbs, len(data) / size).

        Raises ValueError unless the length is a multiple of `size` and every element is in [0, p).
        """
        if len(data) % self.size:
            raise ValueError(f"elements of {self.name} take {self.size} bytes each; {len(data)} bytes are no multiple")
        elements = self._unpack(data)
        if self._at_least_modulus(elements).any():
            raise ValueError(f"an encoded element of {self.name} is not below its modulus")
        return elements

    def below_modulus(self, data: bytes) -> bytes:
        """The encodings in `data` that are below p, in their order: the draft's rejection sampling."""
        refused = self._at_least_modulus(self._unpack(data))
        if not refused.any():
            return data
        return np.frombuffer(data, np.uint8).reshape(-1, self.size)[~refused].tobytes()

    def _unpack(self, data: bytes) -> Elements:
        words = np.frombuffer(data, "<u8").reshape(-1, self.size // 8)
        elements = self.zeros(len(words))
        mask = np.uint64((1 << self.width) - 1)
        for i in range(self.limbs):
            word, shift = divmod(i * self.width, 64)
            limb = words[:, word] >> np.uint64(shift)
            if shift + self.width > 64 and word + 1 < words.shape[1]:
                limb = limb | words[:, word + 1] << np.uint64(64 - shift)
            elements[i] = limb & mask
        return elements

    # Carries and reduction

    @property
    def _top_width(self) -> int:
        """Bits of the highest limb below 2^(8 size)."""
        return 8 * self.size - self.width * (self.limbs - 1)

    def _carry(self, c: Elements) -> None:
        """Move what exceeds w bits of every limb but the last one place up, all limbs at once."""
        carries = c[:-1] >> self.width
        c[:-1] &= (1 << self.width) - 1
        c[1:] += carries

    def _ripple(self, c: Elements) -> NDArray[np.int64]:
        """Carry from the lowest limb to the highest, and return what exceeds 2^(8 size)."""
        for i in range(self.limbs - 1):
            c[i + 1] += c[i] >> self.width
            c[i] &= (1 << self.width) - 1
        top: NDArray[np.int64] = c[-1] >> self._top_width
        c[-1] &= (1 << self._top_width) - 1
        return top

    def _fold(self, low: Elements, high: Elements) -> None:
        """Add the limbs `high`, at places L, L + 1, ..., to `low`."""
        count = len(high)
        low[:count] -= high << 2
        low[self.step : self.step + count] += high * self.middle

    def settle(self, elements: Elements) -> Elements:
        """The same elements in a new settled array, from limbs up to 2^50 in magnitude."""
        d = np.zeros((self.limbs + 1, *elements.shape[1:]), np.int64)
        d[:-1] = elements
        return self._settle(self._settle(d, last=False))

    def _settle(self, d: Elements, last: bool = True) -> Elements:
        """Settle L + 1 limbs, of which the highest is 0, in place; `last` returns the L lowest."""
        self._carry(d)
        high = d[self.limbs :].copy()
        d[self.limbs :] = 0
        self._fold(d[: self.limbs], high)
        if not last:
            return d
        self._carry(d[: self.limbs])
        return d[: self.limbs]

    def _reduce(self, c: Elements) -> Elements:
        """The settled elements of the columns of products, 2 L of which the highest is 0. Destroys `c`."""
        limbs = self.limbs
        self._carry(c)  # columns up to 2^62 are now up to 2^37
        d = np.zeros((limbs + self.step + 1, *c.shape[1:]), np.int64)
        d[:limbs] = c[:limbs]
        self._fold(d, c[limbs:])  # up to 2^57
        self._carry(d)  # up to 2^32
        high = d[limbs:].copy()
        d[limbs:] = 0
        self._fold(d[:limbs], high)  # up to 2^52
        return self._settle(d[: limbs + 1])

    def _canonical(self, settled: Elements) -> Elements:
        """Elements in [0, p), limbs in [0, 2^w)."""
        c = settled.copy()
        for _ in range(3):
            self._add_excess(c, self._ripple(c))
        self._ripple(c)  # nothing exceeds 2^(8 size) any more
        reduced = c.copy()
        self._add_excess(reduced, 1)
        at_least = self._ripple(reduced)  # 1 where c >= p: then c - p = c + (2^(8 size) - p) mod 2^(8 size)
        return np.where(at_least != 0, reduced, c)

    def _add_excess(self, c: Elements, factor: NDArray[np.int64] | int) -> None:
        """Add `factor` (2^(8 size) - p) to c."""
        c[self.step] += (self.middle >> 2) * factor
        c[0] -= factor

    def _at_least_modulus(self, unpacked: Elements) -> NDArray[np.bool_]:
        c = unpacked.copy()
        self._add_excess(c, 1)
        return self._ripple(c) != 0

    # Products

    def multiply(self, a: Elements, b: Elements) -> Elements:
        """The products of `a` and `b`, broadcast against each other beyond the limbs. Limbs: |a_i| |b_j| <= 2^59."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        size = int(np.prod(shape[1:]))
        if size <= _BLOCK:
            return self._reduce(self._columns(a, b))
        a, b = (np.broadcast_to(x, shape).reshape(self.limbs, size) for x in (a, b))
        out = np.empty((self.limbs, size), np.int64)
        for i in range(0, size, _BLOCK):
            part = slice(i, i + _BLOCK)
            out[:, part] = self._reduce(self._columns(a[:, part], b[:, part]))
        return out.reshape(shape)

    def _columns(self, a: Elements, b: Elements) -> Elements:
        limbs = self.limbs
        c = np.zeros((2 * limbs, *np.broadcast_shapes(a.shape[1:], b.shape[1:])), np.int64)
        for i in range(limbs):
            c[i : i + limbs] += a[i] * b
        return c

    def sum(self, elements: Elements) -> Elements:
        """The sums over the last axis: (limbs, ..., n) to (limbs, ...). Elements are settled; n <= 2^20."""
        return self.settle(elements.sum(axis=-1))

    def dot(self, a: Elements, b: Elements) -> Elements:
        """The sums over the last axis of products: (limbs, ..., n) and (limbs, ..., n) to (limbs, ...), all settled."""
        return self._sum_of_products(a, b, "...k,...k->...")

    def combine(self, weights: Elements, vectors: Elements) -> Elements:
        """The combination sum_k weights_k vectors_k: (limbs, n) and (limbs, n, m) to (limbs, m), all settled."""
        return self._sum_of_products(weights, vectors.swapaxes(1, 2), "k,mk->m")

    def _sum_of_products(self, a: Elements, b: Elements, subscripts: str) -> Elements:
        limbs, total = self.limbs, None
        for start in range(0, a.shape[-1], _TERMS):
            x, y = a[..., start : start + _TERMS], b[..., start : start + _TERMS]
            parts = [[np.einsum(subscripts, x[i], y[j]) for j in range(limbs)] for i in range(limbs)]
            c = np.zeros((2 * limbs, *np.shape(parts[0][0])), np.int64)
            for i in range(limbs):
                for j in range(limbs):
                    c[i + j] += parts[i][j]
            part = self._reduce(c)
            total = part if total is None else total + part
        assert total is not None
        return self.settle(total)

    def powers(self, base: Elements, count: int) -> Elements:
        """The powers base^1, ..., base^count: (limbs, ...) to (limbs, ..., count)."""
        powers = self.zeros(*base.shape[1:], count)
        powers[..., 0] = base
        known = 1
        while known < count:
            part = min(known, count - known)
            powers[..., known : known + part] = self.multiply(powers[..., :part], powers[..., known - 1 : known])
            known += part
        return powers

    # Numbers

    def inverse(self, value: int) -> int:
        """1 / value modulo p. Raises ValueError for 0."""
        return pow(value, -1, self.modulus)

    def root(self, points: int) -> int:
        """The principal root of unity of order `points`, a power of two, made from the draft's generator 7^((p-1)/2^k).

        Raises ValueError if the field has no root of this order.
        """
        if points < 1 or points & (points - 1) or points > 1 << self.two_adicity:
            raise ValueError(f"{self.name} has no principal root of unity of order {points}")
        return pow(7, (self.modulus - 1) // points, self.modulus)


FIELD64 = PrimeField("Field64", 2**64 - 2**32 + 1, 8, 32, limbs=3, width=22, step=1, middle=1 << 12)
FIELD128 = PrimeField("Field128", 2**128 - 7 * 2**66 + 1, 16, 66, limbs=5, width=26, step=2, middle=7 << 16)


@cache
def nodes(field: PrimeField, points: int) -> tuple[int, ...]:
    """The powers w^0, ..., w^(points-1) of the root of unity of order `points`."""
    root, powers = field.root(points), [1]
    for _ in range(points - 1):
        powers.append(powers[-1] * root % field.modulus)
    return tuple(powers)


def invert_all(field: PrimeField, values: Sequence[int]) -> list[int]:
    """The inverses of `values`, none of which is 0 modulo p, by one inversion (Montgomery's trick)."""
    p, products = field.modulus, [1]
    for value in values:
        products.append(products[-1] * value % p)
    inverse, inverses = field.inverse(products[-1]), [0] * len(values)
    for i in range(len(values) - 1, -1, -1):
        inverses[i] = inverse * products[i] % p
        inverse = inverse * values[i] % p
    return inverses
