"""Groups in which discrete logarithms are hard, behind one small interface; and powers of a base that is used often.

* `modp-2048`, `modp-3072`: the squares modulo a safe prime P of RFC 3526 (groups 14 and 15), generator 2, order
  q = (P - 1) / 2. An element is a number of |P| bits, big-endian: e = 256 or 384 bytes. Membership: 1 < x < P - 1 and
  Jacobi symbol 1, which leaves exactly the squares without 1, since P - 1 is no square.
* `p256`: the points of NIST P-256 (FIPS 186-4, D.1.2.3; SEC 2, secp256r1), of prime order, written additively in the
  literature and multiplicatively here. An element is a compressed point (SEC 1, 2.3.3): e = 33 bytes. Decoding takes a
  square root, 5% of a transfer's time, for half the bytes. Membership: the point lies on the curve; the point at
  infinity has no encoding. Powers of the generator, and of many elements by one exponent, are OpenSSL's
  (`curve_points`).

Exponents are uniform in [1, q). With `short_exponents` those of a MODP group are uniform in [1, 2^256): faster by the
ratio of the lengths, if g^k with such a k cannot be distinguished from a uniform element (discrete
logarithms with short exponents; T. Koshiba, K. Kurosawa, "Short exponent Diffie-Hellman problems", PKC 2004). The
group's name then ends in `-short`.

Powers of one base: the comb of C. H. Lim, P. J. Lee, "More flexible exponentiation with precomputation", CRYPTO 1994,
shaped by `fixed_base.choose_comb`. (The tables there are for Z_{m^2} and split its elements, which has no use here.)

Running times depend on exponents: nothing here is protected as a whole against an observer of time or cache.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tacit.protocols.crypto import curve_points
from tacit.protocols.crypto.curve_points import Point
from tacit.protocols.crypto.fixed_base import Comb, choose_comb
from tacit.sim.streams import Entropy

__all__ = ["P256", "Group", "Modp", "PowerTable", "find_group"]

E = TypeVar("E")

SHORT_BITS = 256
_GENERATOR_USES = 1 << 16  # for which the tables of the generator, built once a process, are shaped


class Group(ABC, Generic[E]):
    """A group of prime order `order` whose elements take `element_bytes` bytes.

    `exponent_bits` bounds random exponents: they are below 2^exponent_bits. Groups are compared and pickled by `name`.
    """

    name: str
    order: int
    element_bytes: int
    exponent_bits: int
    identity: E

    def __repr__(self) -> str:
        return f"<group {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[[str], "Group"], tuple[str]]:
        return find_group, (self.name,)

    def random_exponent(self, entropy: Entropy) -> int:
        """A secret exponent: uniform in [1, q), or in [1, 2^256) with short exponents."""
        return 1 + entropy.below(min(self.order, 1 << self.exponent_bits) - 1)

    def random_element(self, entropy: Entropy) -> E:
        """A uniform element other than the identity, also with short exponents."""
        return self.power(self.generator, 1 + entropy.below(self.order - 1))

    @property
    @abstractmethod
    def generator(self) -> E:
        """The generator g."""

    @abstractmethod
    def generator_power(self, exponent: int) -> E:
        """Compute g^exponent for an exponent from `random_exponent`."""

    def power(self, element: E, exponent: int) -> E:
        """Compute element^exponent, exponent >= 1."""
        return self.powers([element], exponent)[0]

    @abstractmethod
    def powers(self, elements: Sequence[E], exponent: int) -> list[E]:
        """Compute the power of each of the `elements` by one exponent, at least 1."""

    def multiply(self, left: E, right: E) -> E:
        """The product of two elements."""
        return self.products([left], [right])[0]

    @abstractmethod
    def products(self, lefts: Sequence[E], rights: Sequence[E]) -> list[E]:
        """The product of each of the `lefts` and the one of the `rights` at its place."""

    def divide(self, left: E, right: E) -> E:
        """The quotient left / right."""
        return self.quotients(left, [right])[0]

    @abstractmethod
    def quotients(self, left: E, rights: Sequence[E]) -> list[E]:
        """The quotients of `left` and each of the `rights`."""

    @abstractmethod
    def encode(self, element: E) -> bytes:
        """Encode an element in `element_bytes` bytes.

        The identity, which no honest message contains, is encoded but not decoded.
        """

    @abstractmethod
    def decode(self, data: bytes) -> E:
        """Decode the output of `encode`. Raises ValueError unless `data` encodes an element other than the identity."""

    def walks(self, entries: Sequence[E], indices: NDArray[np.int32]) -> list[E]:
        """Square and multiply, for each row of `indices` (rows, columns, blocks), of which there is at least one.

        At each column, square (except the first time) and multiply by the entries at its indices.
        """
        found = [self.identity] * len(indices)
        for column in range(indices.shape[1]):
            if column:
                found = self.products(found, found)
            for block in range(indices.shape[2]):
                found = self.products(found, [entries[index] for index in indices[:, column, block].tolist()])
        return found

    def comb(self, uses: int) -> Comb:
        """The shape of a table for `uses` powers of one base."""
        return choose_comb(self.exponent_bits, max(uses, 1))

    def table(self, base: E, uses: int) -> "PowerTable[E]":
        """A table for about `uses` powers of `base`."""
        return PowerTable(self, base, self.comb(uses))


class PowerTable(Generic[E]):
    """Powers of one base of `group` with exponents below 2^comb.bits."""

    def __init__(self, group: Group[E], base: E, comb: Comb) -> None:
        self.comb = comb
        self._group = group
        # Row i of block j has weight 2^((i blocks + j) columns): a chain in steps of 2^columns.
        chain = [base]
        while len(chain) < comb.rows * comb.blocks:
            power = chain[-1]
            for _ in range(comb.columns):
                power = group.multiply(power, power)
            chain.append(power)
        tables = [[group.identity] for _ in range(comb.blocks)]
        for row in range(comb.rows):  # all blocks at a time
            generators = [chain[row * comb.blocks + block] for block in range(comb.blocks) for _ in tables[block]]
            products = group.products([entry for table in tables for entry in table], generators)
            for block, table in enumerate(tables):
                table += products[block << row : (block + 1) << row]
        self._entries = [entry for table in tables for entry in table]

    def __repr__(self) -> str:
        return f"<powers in {self._group.name}, {self.comb}>"

    def power(self, exponent: int) -> E:
        """Compute base^exponent. Raises ValueError unless exponent is in [0, 2^comb.bits)."""
        return self.powers([exponent])[0]

    def powers(self, exponents: Sequence[int]) -> list[E]:
        """Compute base^exponent for each of `exponents`. Raises ValueError unless all are in [0, 2^comb.bits)."""
        comb = self.comb
        if any(exponent < 0 or exponent.bit_length() > comb.bits for exponent in exponents):
            raise ValueError(f"an exponent must be in [0, 2^{comb.bits})")
        size = -(-comb.bits // 8)
        packed = np.frombuffer(b"".join(one.to_bytes(size, "little") for one in exponents), np.uint8)
        bits = np.unpackbits(packed.reshape(-1, size), axis=1, count=comb.bits, bitorder="little")
        # One digit of `rows` bits for each (block, column).
        digits = np.zeros((len(exponents), comb.blocks, comb.columns), np.int32)
        for row in range(comb.rows):
            digits += bits.reshape(-1, comb.rows, comb.blocks, comb.columns)[:, row].astype(np.int32) << row
        digits += np.arange(comb.blocks, dtype=np.int32)[:, None] << comb.rows
        # Highest column first, as in square and multiply.
        return self._group.walks(self._entries, digits.transpose(0, 2, 1)[:, ::-1])


# RFC 3526: P = 2^n - 2^(n-64) - 1 + 2^64 ([2^(n-130) pi] + c).
_MODP = {
    2048: (
        "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
        "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
        "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
        "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
        "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
        "15728E5A8AACAA68FFFFFFFFFFFFFFFF"
    ),
    3072: (
        "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
        "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
        "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
        "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
        "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
        "15728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7"
        "ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200C"
        "BBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A93AD2CAFFFFFFFFFFFFFFFF"
    ),
}


class Modp(Group[mpz]):
    """The squares modulo the `bits`-bit safe prime of RFC 3526, generated by 2; elements are mpz."""

    def __init__(self, bits: int, short_exponents: bool = False) -> None:
        """Raises ValueError unless bits is 2048 or 3072."""
        if bits not in _MODP:
            raise ValueError(f"a MODP group has 2048 or 3072 bits, not {bits}")
        self.name = f"modp-{bits}" + ("-short" if short_exponents else "")
        self.modulus = mpz(_MODP[bits], 16)
        self.order = int(self.modulus >> 1)
        self.element_bytes = bits // 8
        self.exponent_bits = SHORT_BITS if short_exponents else bits - 1
        self.identity = mpz(1)

    @property
    def generator(self) -> mpz:
        return mpz(2)

    @functools.cached_property
    def _generator_table(self) -> PowerTable[mpz]:
        return self.table(self.generator, _GENERATOR_USES)

    def generator_power(self, exponent: int) -> mpz:
        return self._generator_table.power(exponent)

    def powers(self, elements: Sequence[mpz], exponent: int) -> list[mpz]:
        return [gmpy2.powmod(element, exponent, self.modulus) for element in elements]

    def products(self, lefts: Sequence[mpz], rights: Sequence[mpz]) -> list[mpz]:
        return [left * right % self.modulus for left, right in zip(lefts, rights, strict=True)]

    def quotients(self, left: mpz, rights: Sequence[mpz]) -> list[mpz]:
        return [gmpy2.divm(left, right, self.modulus) for right in rights]

    def encode(self, element: mpz) -> bytes:
        return element.to_bytes(self.element_bytes, "big")

    def decode(self, data: bytes) -> mpz:
        if len(data) != self.element_bytes:
            raise ValueError(f"an element of {self.name} takes {self.element_bytes} bytes, not {len(data)}")
        value = mpz.from_bytes(data, "big")
        if not 1 < value < self.modulus - 1 or gmpy2.jacobi(value, self.modulus) != 1:
            raise ValueError(f"not an element of {self.name}")
        return value

    def walks(self, entries: Sequence[mpz], indices: NDArray[np.int32]) -> list[mpz]:
        modulus, entry_at, found = self.modulus, entries.__getitem__, []
        for walk in indices.tolist():  # one by one: there is no inversion to share, as curves have
            product = mpz(1)
            for column in walk:
                product = product * product % modulus
                for entry in map(entry_at, column):
                    product = product * entry % modulus
            found.append(product)
        return found


class P256(Group[Point]):
    """The points of NIST P-256, by their coordinates."""

    def __init__(self) -> None:
        self.name = "p256"
        self.order = curve_points.ORDER
        self.element_bytes = 33
        self.exponent_bits = 256
        self.identity = curve_points.INFINITY

    @property
    def generator(self) -> Point:
        return curve_points.GENERATOR

    def generator_power(self, exponent: int) -> Point:
        return curve_points.generator_power(exponent)

    def random_element(self, entropy: Entropy) -> Point:
        return self.generator_power(self.random_exponent(entropy))

    def powers(self, elements: Sequence[Point], exponent: int) -> list[Point]:
        exponent %= self.order
        if not exponent:
            return [self.identity] * len(elements)
        own = curve_points.SecretExponent(exponent)
        return [element if element == self.identity else own.power_of(element) for element in elements]

    def products(self, lefts: Sequence[Point], rights: Sequence[Point]) -> list[Point]:
        return curve_points.sums(lefts, rights)

    def quotients(self, left: Point, rights: Sequence[Point]) -> list[Point]:
        return curve_points.sums([left] * len(rights), [curve_points.inverse(right) for right in rights])

    def encode(self, element: Point) -> bytes:
        return curve_points.encode(element)

    def decode(self, data: bytes) -> Point:
        return curve_points.decode(data)


_GROUPS: dict[str, Callable[[], Group]] = {
    "modp-2048": lambda: Modp(2048),
    "modp-2048-short": lambda: Modp(2048, short_exponents=True),
    "modp-3072": lambda: Modp(3072),
    "modp-3072-short": lambda: Modp(3072, short_exponents=True),
    "p256": P256,
}


@functools.cache
def find_group(name: str, short_exponents: bool = False) -> Group:
    """The group of that `name`, one object in each process, whose tables are built when first used.

    `short_exponents`: the same group with 256-bit exponents, for MODP only. Raises ValueError for an unknown name.
    """
    full_name = f"{name}-short" if short_exponents else name
    if full_name not in _GROUPS:
        raise ValueError(f"{full_name!r} is no group; there are {', '.join(_GROUPS)}")
    return find_group(full_name) if short_exponents else _GROUPS[name]()
