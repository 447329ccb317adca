"""Packed secret sharing: blocks of r numbers in one share of each of m members, of which t know nothing together.

Franklin and Yung, Communication Complexity of Secure Computation, STOC 1992. A vector of d numbers of GF(p) is cut into
r rows of ceil(d / r), padded by zeros; a column is a block. The numbers of a block are the values of a polynomial of
degree t + r - 1 at the points m + 1 to m + r, and its value at k is the share of member k. Shares are linear in the
numbers, so the sum of members' shares of several vectors are shares of the sum.

The r numbers and the values at t further points fix the polynomial. Those points are of the first t members, and the
values are expanded from a seed for each of them, which is all that they are sent; the others' shares follow.

Security: whatever the numbers are, any t shares of a block are uniform, for polynomials that vanish at its r points are
a fixed one times any of degree t - 1. Here t of the values come from a generator, so shares look uniform as long as AES
is a pseudorandom permutation. From t + 1 to t + r - 1 shares show one to r - 1 linear relations of the numbers of
each block; t + r give all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.protocols.crypto.mersenne import GF31, GF61, Elements, Mersenne
from tacit.protocols.crypto.words import packed_bytes
from tacit.sim.hollow import filled, hollow, unknown

__all__ = ["SEED_BYTES", "Packing", "combine", "expand", "field_for", "share"]

SEED_BYTES = 16


@dataclass(frozen=True)
class Packing:
    """Shares for m `members` with `private` t and `block` r, in `field`.

    Raises ValueError unless t >= 1, r >= 1 and t + r <= m.
    """

    field: Mersenne
    members: int
    private: int
    block: int

    def __post_init__(self) -> None:
        if self.private < 1 or self.block < 1 or self.needed > self.members:
            problem = f"private(={self.private}) and block(={self.block}) must be >= 1, and together"
            raise ValueError(f"{problem} at most members(={self.members})")

    @property
    def needed(self) -> int:
        """How many shares give the numbers: t + r."""
        return self.private + self.block

    @property
    def word_bits(self) -> int:
        """The bits of an element in a message: 31, packed, or 64."""
        return 31 if self.field is GF31 else 64

    def length(self, dimension: int) -> int:
        """The elements of a share of a vector of `dimension` numbers: ceil(d / r)."""
        return -(-dimension // self.block)

    def share_bytes(self, dimension: int) -> int:
        """The bytes of a share of a vector of `dimension` numbers."""
        return packed_bytes(self.length(dimension), self.word_bits)

    def share_work(self, dimension: int) -> dict[str, int]:
        """Operations of `share`."""
        length = self.length(dimension)
        seeds = {"aes.byte": self.private * length * (4 if self.field is GF31 else 8)}
        return seeds | self.field.times_work(self.members - self.private, self.needed, length)

    def combine_work(self, dimension: int) -> dict[str, int]:
        """Operations of `combine`."""
        return self.field.times_work(self.block, self.needed, self.length(dimension))


def field_for(largest: int) -> Mersenne:
    """The field in which sums up to `largest` are themselves. Raises ValueError from 2^61 - 1 on."""
    for field in (GF31, GF61):
        if largest < field.prime:
            return field
    raise ValueError(f"sums up to {largest} do not stay below 2^61 - 1")


@lru_cache(64)
def _matrix(packing: Packing) -> Elements:
    """The values at the points of the last m - t members, from those of a block and of the first t members."""
    m, t = packing.members, packing.private
    points = [*range(m + 1, m + packing.block + 1), *range(1, t + 1)]
    return packing.field.lagrange(points, range(t + 1, m + 1)) if t < m else np.zeros((0, len(points)), np.uint64)


@hollow(lambda vector, packing, seeds: filled((packing.members - packing.private, packing.length(len(vector))), "u8"))
def share(vector: Elements, packing: Packing, seeds: tuple[bytes, ...]) -> Elements:
    """The shares of `vector` (d,) for the members after the first t: (m - t, ceil(d / r)).

    `seeds`, t of `SEED_BYTES`, are the shares of the first t: each is for one vector alone. Raises ValueError for
    another number of them.
    """
    if len(seeds) != packing.private or any(len(seed) != SEED_BYTES for seed in seeds):
        raise ValueError(f"{packing.private} seeds of {SEED_BYTES} bytes were due")
    length = packing.length(len(vector))
    rows = np.zeros((packing.needed, length), np.uint64)
    rows[: packing.block].reshape(-1)[: len(vector)] = vector
    for place, seed in enumerate(seeds, packing.block):
        rows[place] = packing.field.expanded(seed, length)
    return packing.field.times(_matrix(packing), rows)


@hollow(lambda field, seed, length: filled(length, np.uint64))
def expand(field: Mersenne, seed: bytes, length: int) -> Elements:
    """The share of `length` elements that a `seed` stands for."""
    return field.expanded(seed, length)


@hollow(lambda shares, packing, dimension: unknown(dimension))
def combine(shares: Mapping[int, Elements], packing: Packing, dimension: int) -> Elements:
    """The vector (dimension,) of which t + r `shares` are given, by the place of their member, from 0.

    Raises ValueError where there are fewer.
    """
    if len(shares) < packing.needed:
        raise ValueError(f"{len(shares)} shares are there; {packing.needed} are needed")
    places, m = sorted(shares)[: packing.needed], packing.members
    table = packing.field.lagrange([place + 1 for place in places], range(m + 1, m + packing.block + 1))
    return packing.field.times(table, np.stack([shares[place] for place in places])).reshape(-1)[:dimension]
