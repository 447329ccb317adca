"""Exponentiation with a fixed base in the ring Z_{m^2}, where Paillier's arithmetic lives.

**Two parts.** A unit x of Z_{m^2} is written x = a (1 + m s) with the residue a = x mod m and the slope s
= (x // m) a^{-1} mod m. As (1 + m s)(1 + m t) = 1 + m (s + t) mod m^2, slopes of a product simply add up, and
only the residues, half as long as x, are multiplied into the running product mod m^2. A step then costs a 2n
x n limb product and a 3n by 2n division in place of 2n x 2n and 4n by 2n: a little over half the time.

**Comb.** Exponents are read in `rows` x `blocks` x `columns` bits: bit (i, j, t) has weight 2^(i blocks
columns + j columns + t). One digit of `rows` bits, taken down the rows at (j, t), picks an entry of the j-th
table, which holds the products of all subsets of the row generators. An exponentiation costs blocks * columns
products and columns - 1 squarings; the tables hold blocks 2^rows entries. With columns = 1 this is the method
of fixed windows.

Source: C. H. Lim, P. J. Lee, "More flexible exponentiation with precomputation", CRYPTO 1994, section 3.

Running times depend on the exponents: nothing here is protected against an observer of time or cache.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tacit.protocols.crypto.eightfold import (
    Indices,
    Packed,
    SumTable,
    Table,
    inverses_and_slopes,
    square_chain,
    subset_tables,
)
from tacit.sim.streams import Entropy

__all__ = [
    "Comb",
    "Digits",
    "FixedBase",
    "Split",
    "SubsetTable",
    "TableProducts",
    "choose_comb",
    "join",
    "split",
    "split_all",
]

# Times of one table entry and of one squaring, in products by a table entry; measured with gmpy2 at m of 1024
# and 2048 bits.
_ENTRY = 1.7
_SQUARING = 1.7
_WIDEST = 16  # rows; a digit fits 16 bits
_BATCH = 128  # exponents whose digits are extracted together


Digits: TypeAlias = NDArray[np.int32]
"""One exponent of a comb: blocks * columns digits of `rows` bits, the column running fastest."""


class Split(NamedTuple):
    """A unit x = residue (1 + m slope) of Z_{m^2}; inverse = residue^{-1} mod m. All three lie in [0, m)."""

    residue: mpz
    slope: mpz
    inverse: mpz


def split(value: mpz, modulus: mpz) -> Split:
    """The unit `value` of Z_{modulus^2} in two parts. Raises ValueError when it is not a unit."""
    return split_all([value], modulus)[0]


def split_all(values: Sequence[mpz], modulus: mpz) -> list[Split]:
    """Split all `values` into two parts, with one inversion for all of them (Montgomery's trick).

    The inverse of the product exists exactly when every value is a unit, so this is also the batch test of
    gcd(value, modulus) = 1. Raises ValueError naming the first value that fails.
    """
    divided = [divmod(value, modulus) for value in values]
    if all(0 <= high < modulus for high, _ in divided):
        found = inverses_and_slopes([low for _, low in divided], [high for high, _ in divided], modulus)
        if found is not None:
            return [Split(low, slope, inverse) for (_, low), (inverse, slope) in zip(divided, found, strict=True)]
    prefixes, product = [], mpz(1)
    for value in values:
        prefixes.append(product)
        product = product * (value % modulus) % modulus
    try:
        inverse = gmpy2.invert(product, modulus)
    except ZeroDivisionError:
        bad = next(i for i, value in enumerate(values) if gmpy2.gcd(value, modulus) != 1)
        raise ValueError(f"value {bad} of {len(values)} shares a factor with the modulus") from None
    parts = []
    for value, prefix in zip(reversed(values), reversed(prefixes), strict=True):
        high, residue = divmod(value, modulus)
        own = inverse * prefix % modulus
        parts.append(Split(residue, high * own % modulus, own))
        inverse = inverse * residue % modulus
    parts.reverse()
    return parts


def join(product: mpz, slope: mpz, modulus: mpz, square: mpz) -> mpz:
    """Compute product (1 + modulus slope) mod square, where square = modulus^2; the slope may be any integer."""
    return (product + modulus * (product * slope % modulus)) % square


class SubsetTable:
    """The products of all subsets of a few units of Z_{m^2}: entry S takes the elements i whose bit is in S.

    `residues[S]` and `slopes[S]` are the two parts; there are 2^len(elements) entries. Building takes four
    half-length products an entry, which is what one full-length product costs.
    """

    def __init__(self, elements: Sequence[Split], modulus: mpz) -> None:
        residues, slopes, inverses = [mpz(1)], [mpz(0)], [mpz(1)]
        for residue, slope, inverse in elements:
            for i in range(len(residues)):
                # (a, s) (a', s'): a a' = k m + r, so the slope of the product is s + s' + k / r.
                carry, low = divmod(residues[i] * residue, modulus)
                low_inverse = inverses[i] * inverse % modulus
                residues.append(low)
                inverses.append(low_inverse)
                slopes.append((slopes[i] + slope + carry * low_inverse) % modulus)
        self.residues = residues
        self.slopes = slopes


class TableProducts:
    """Products of entries of tables of subset products (`SubsetTable`), one table for each group of `elements`.

    Entries have indices in all tables one after another; `starts` are the indices of the first entry of each table.
    """

    def __init__(self, elements: Sequence[Sequence[Split]], modulus: mpz) -> None:
        size = -(-modulus.bit_length() // 8)
        residues: Sequence[mpz] | Packed
        slopes: Sequence[mpz] | Packed
        if (found := subset_tables(elements, modulus)) is not None:
            residues, slopes = found
        else:
            tables = [SubsetTable(group, modulus) for group in elements]
            residues = [entry for table in tables for entry in table.residues]
            slopes = [entry for table in tables for entry in table.slopes]
        self._residues = Table(residues, size, modulus * modulus)
        self._slopes = SumTable(slopes, size)
        self.starts = np.cumsum([0, *(1 << len(group) for group in elements)], dtype=np.int32)[:-1]

    def __call__(self, indices: Indices) -> Iterator[tuple[mpz, mpz]]:
        """Yield a product and its slope for each row of `indices`.

        At each column the product so far is squared and multiplied by the entries at its indices.
        """
        return zip(self._residues.products(indices), self._slopes.sums(indices), strict=True)


@dataclass(frozen=True)
class Comb:
    """The shape of a comb. `rows` is h, `blocks` v and `columns` b in Lim and Lee's notation."""

    rows: int
    blocks: int
    columns: int

    @property
    def bits(self) -> int:
        """The number of bits of exponents: they are below 2^bits."""
        return self.rows * self.blocks * self.columns

    @property
    def products(self) -> int:
        """The number of products by a table entry for one exponentiation."""
        return self.blocks * self.columns

    @property
    def squarings(self) -> int:
        """The number of squarings for one exponentiation."""
        return self.columns - 1

    @property
    def entries(self) -> int:
        """The number of entries of all tables."""
        return self.blocks << self.rows


@functools.lru_cache(maxsize=256)
def choose_comb(bits: int, uses: int, limit: int = 1 << 12) -> Comb:
    """The comb that takes the least time for `uses` exponents below 2^bits, including its tables.

    `limit` bounds the entries, each of about 400 bytes at a modulus m of 1024 bits and 650 at 2048. Larger tables save
    products but leave the processor's cache: measured, 13,000 entries were no faster than 4,000. Raises ValueError
    unless bits, uses >= 1 and limit >= 2.
    """
    if bits < 1 or uses < 1 or limit < 2:
        raise ValueError(f"bits(={bits}) and uses(={uses}) must be >= 1, limit(={limit}) >= 2")

    def cost(comb: Comb) -> float:
        return comb.entries * _ENTRY + uses * (comb.products + comb.squarings * _SQUARING)

    combs = (
        Comb(rows, blocks, -(-bits // (rows * blocks)))
        for rows in range(1, min(bits, _WIDEST) + 1)
        for blocks in range(1, min(-(-bits // rows), limit >> rows) + 1)
    )
    return min(combs, key=cost)


class FixedBase:
    """Powers of one `base` in Z_{m^2}, m = `modulus`, by the tables of `comb`.

    Results come as pairs (product, slope) that represent product (1 + m slope) mod m^2, the slope not reduced: a caller
    adds further terms to the slope and calls `join` once.
    """

    def __init__(self, base: mpz, modulus: mpz, comb: Comb) -> None:
        self.comb = comb
        self._modulus = modulus
        self._square = modulus * modulus
        # Row i of block j has weight 2^((i blocks + j) columns): a chain in steps of 2^columns.
        chain = square_chain(base, mpz(1), comb.columns, comb.rows * comb.blocks, modulus)
        generators = split_all(chain, modulus)
        self._products = TableProducts([generators[block :: comb.blocks] for block in range(comb.blocks)], modulus)

    def __repr__(self) -> str:
        return f"<FixedBase, {self._modulus.bit_length()}-bit modulus, {self.comb}>"

    def power(self, exponent: int) -> mpz:
        """base^exponent mod m^2, exponent in [0, 2^comb.bits)."""
        ((product, slope),) = self.powers([exponent])
        return join(product, slope, self._modulus, self._square)

    def powers(self, exponents: Sequence[int | mpz]) -> Iterator[tuple[mpz, mpz]]:
        """The powers for `exponents`, in two parts. Raises ValueError unless each is in [0, 2^comb.bits)."""
        comb, remaining = self.comb, iter(exponents)
        size = -(-comb.bits // 8)
        while batch := list(islice(remaining, _BATCH)):
            if any(exponent < 0 or exponent.bit_length() > comb.bits for exponent in batch):
                raise ValueError(f"an exponent must be in [0, 2^{comb.bits})")
            packed = np.frombuffer(b"".join(e.to_bytes(size, "little") for e in batch), np.uint8)
            bits = np.unpackbits(packed.reshape(len(batch), size), axis=1, count=comb.bits, bitorder="little")
            rows = bits.reshape(len(batch), comb.rows, comb.products)
            digits = np.zeros((len(batch), comb.products), np.int32)
            for i in range(comb.rows):
                digits += rows[:, i].astype(np.int32) << i
            yield from self._evaluate(digits)

    def random_powers(self, count: int, entropy: Entropy) -> Iterator[tuple[mpz, mpz]]:
        """Yield `count` powers with exponents uniform in [0, 2^comb.bits), in two parts."""
        yield from self.powers_of_digits(self.random_digits(count, entropy))

    def random_digits(self, count: int, entropy: Entropy) -> Iterator[Digits]:
        """Yield the digits of `count` exponents uniform in [0, 2^comb.bits), drawn in batches as they are taken.

        The bits of a uniform exponent are independent, so its digits are drawn directly.
        """
        comb = self.comb
        for first in range(0, count, _BATCH):
            size = min(_BATCH, count - first)
            words = np.frombuffer(entropy.bytes(2 * size * comb.products), "<u2")
            yield from (words >> (16 - comb.rows)).astype(np.int32).reshape(size, comb.products)

    def powers_of_digits(self, exponents: Iterable[Digits]) -> Iterator[tuple[mpz, mpz]]:
        """The powers for exponents given by their digits, see `random_digits`, in two parts."""
        remaining = iter(exponents)
        while batch := list(islice(remaining, _BATCH)):
            yield from self._evaluate(np.stack(batch))

    def _evaluate(self, digits: NDArray[np.int32]) -> Iterator[tuple[mpz, mpz]]:
        """Powers for the rows of `digits`, each blocks * columns digits with the column running fastest."""
        comb = self.comb
        indices = digits.reshape(-1, comb.blocks, comb.columns) + self._products.starts[:, None]
        # Highest column first, as in square and multiply.
        yield from self._products(np.ascontiguousarray(indices.transpose(0, 2, 1)[:, ::-1]))
