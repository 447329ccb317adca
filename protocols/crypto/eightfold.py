"""Powers and products modulo one number, eight at a time where the processor can.

`eightfold.c` computes with eight numbers side by side in AVX-512 registers, by their multiplications of 52 bits (IFMA):
five times as fast as OpenSSL at powers modulo the square of 1024 bits, eight times as fast as gmpy2 at products by the
entries of a table. Where each number depends on the one before, the registers hold digits of one number, which is six
times as fast as gmpy2. It is compiled when Tacit is installed, if a C compiler is there. Without it, or on another
processor, the same numbers are computed one by one by gmpy2; nothing else differs.

Running times depend on the numbers, as elsewhere, so nothing is protected as a whole against an observer of time or
cache. In the C file `tacit_square_powers` alone has no branch or address that depends on a base or an exponent, but for
the length of the longest exponent; what is computed before and after it is gmpy2's.
"""

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tacit.protocols.crypto import compiled

__all__ = [
    "WORTHWHILE",
    "Indices",
    "Packed",
    "SumTable",
    "Table",
    "eightfold",
    "inverses_and_slopes",
    "may_be_primes",
    "one_by_one",
    "opened",
    "powers",
    "square_chain",
    "square_power",
    "square_powers",
    "subset_tables",
]

WORTHWHILE = 2
"""The number of operands from which eight at a time take less time than one after another."""

_DIGIT = 52
_WIDEST = 20  # elements of a table of subset products
_INT, _BYTES, _LONG, _POINTER = ctypes.c_int, ctypes.c_char_p, ctypes.c_long, ctypes.c_void_p
_FUNCTIONS = {
    "tacit_eightfold": (),
    "tacit_powers": (_BYTES, _INT, _BYTES, _BYTES, _BYTES, _INT, _BYTES, _LONG, _BYTES, _INT),
    "tacit_powers_of_two": (_BYTES, _BYTES, _INT, _INT, _BYTES, _INT),
    "tacit_square_powers": (*(_BYTES, _INT, _BYTES, _BYTES, _BYTES, _INT, _BYTES), _LONG, _LONG, _BYTES, _INT),
    "tacit_chain": (*(_BYTES,) * 4, _INT, _BYTES, _LONG, _LONG, _INT, _BYTES, _INT),
    "tacit_totals": (_BYTES, _INT, *(_BYTES,) * 3, _INT, _BYTES),
    "tacit_splits": (_BYTES, _BYTES, _INT, *(_BYTES,) * 4, _INT, _BYTES, _BYTES),
    "tacit_subsets": (_BYTES, _POINTER, _INT, *(_BYTES,) * 3, _INT, _POINTER, _POINTER, _INT),
    "tacit_digits": (_POINTER, _INT, _INT, _POINTER, _INT),
    "tacit_products": (_POINTER, _INT, _POINTER, *(_INT,) * 3, _BYTES, _INT, _BYTES, _INT),
    "tacit_sums": (_POINTER, _INT, _POINTER, *(_INT,) * 3, _POINTER, _INT),
}


_IFMA = compiled.Switch()
one_by_one = _IFMA.off
"""A context in which everything is computed one by one, as on processors without AVX-512 IFMA."""


def eightfold() -> ctypes.CDLL | None:
    """The compiled `eightfold.c`, or None if it is missing or the processor does not support it."""
    return None if _IFMA.is_off else _loaded()


@functools.cache
def _loaded() -> ctypes.CDLL | None:
    library = compiled.found("_eightfold", _FUNCTIONS)
    return library if library is not None and library.tacit_eightfold() else None


def opened(path: Path) -> ctypes.CDLL:
    """Load the library compiled from `eightfold.c`. Raises OSError or AttributeError for another file."""
    return compiled.opened(path, _FUNCTIONS)


def powers(bases: Sequence[mpz], exponent: mpz, modulus: mpz) -> list[mpz]:
    """Compute base^exponent mod `modulus` for each of `bases`; the modulus is odd and above 1, the exponent above 0."""
    library = eightfold() if len(bases) >= WORTHWHILE else None
    if library is not None:
        size = _size(modulus)
        one = (mpz(1) << (_DIGIT * _digits(size))) % modulus
        out = ctypes.create_string_buffer(len(bases) * (size + 1))
        if library.tacit_powers(
            _joined([base % modulus for base in bases], size),
            len(bases),
            one.to_bytes(size, "little"),
            (one * one % modulus).to_bytes(size, "little"),
            modulus.to_bytes(size, "little"),
            size,
            exponent.to_bytes(_size(exponent) + 1, "little"),
            exponent.bit_length(),
            out,
            size + 1,
        ):
            return [value % modulus for value in _parted(out.raw, size + 1)]
    return [gmpy2.powmod(base, exponent, modulus) for base in bases]


def may_be_primes(numbers: Sequence[mpz]) -> list[bool]:
    """Return for each of `numbers` n, odd and above 1, if 2^(n-1) = 1 mod n: true for all primes (Fermat), and for few
    others.
    """
    library = eightfold() if len(numbers) >= WORTHWHILE else None
    if library is not None:
        size = max(map(_size, numbers))
        ones = [(mpz(1) << (_DIGIT * _digits(size, 4))) % number for number in numbers]
        out = ctypes.create_string_buffer(len(numbers) * (size + 1))
        if library.tacit_powers_of_two(_joined(numbers, size), _joined(ones, size), len(numbers), size, out, size + 1):
            found = _parted(out.raw, size + 1)
            return [(power - one) % number == 0 for power, one, number in zip(found, ones, numbers, strict=True)]
    return [gmpy2.powmod(2, number - 1, number) == 1 for number in numbers]


def square_powers(bases: Sequence[mpz], exponents: mpz | Sequence[mpz], root: mpz) -> list[mpz]:
    """Compute base^exponent mod `root`^2 for each of `bases`, with one exponent for all or one for each.

    `root` is odd and above 1; exponents are not negative. It takes less than half the time of `powers` mod `root`^2,
    because numbers are split at `root`.
    """
    own = None if isinstance(exponents, mpz) else exponents
    if own is not None and len(own) != len(bases):
        raise ValueError(f"{len(bases)} bases have {len(own)} exponents")
    square = root * root
    found = _square_powers(bases, exponents, root, square) if len(bases) >= WORTHWHILE else None
    if found is not None:
        return found
    if own is None:
        return [gmpy2.powmod(base, exponents, square) for base in bases]
    return [gmpy2.powmod(base, exponent, square) for base, exponent in zip(bases, own, strict=True)]


def _square_powers(bases: Sequence[mpz], exponents: mpz | Sequence[mpz], root: mpz, square: mpz) -> list[mpz] | None:
    """The result of `square_powers` by the library, or None if the library cannot compute it."""
    library = eightfold()
    if library is None:
        return None
    own = [exponents] if isinstance(exponents, mpz) else exponents
    bits = max(1, *(exponent.bit_length() for exponent in own))
    size, stride = _size(root), -(-bits // 8)
    one = (mpz(1) << (_DIGIT * _digits(size, 4))) % square
    out = ctypes.create_string_buffer(2 * len(bases) * (size + 1))
    done = library.tacit_square_powers(
        _pairs([base % square for base in bases], root, size),
        len(bases),
        _pairs([one], root, size),
        _pairs([one * one % square], root, size),
        root.to_bytes(size, "little"),
        size,
        _joined(own, stride),
        0 if isinstance(exponents, mpz) else stride,
        bits,
        out,
        size + 1,
    )
    if not done:
        return None
    halves = iter(_parted(out.raw, size + 1))
    return [(a - root * b) % square for a, b in zip(halves, halves, strict=True)]


def square_power(base: mpz, exponent: mpz, root: mpz) -> mpz:
    """Compute `base`^`exponent` mod `root`^2; `root` is odd and above 1, the exponent above 0."""
    return square_chain(base, exponent, 0, 1, root)[0]


def square_chain(base: mpz, exponent: mpz, step: int, count: int, root: mpz) -> list[mpz]:
    """Compute `count` >= 1 numbers mod `root`^2, one after another.

    The first is `base`^`exponent`, each other is the one before to the power of 2^`step`. `root` is odd and above 1,
    the exponent above 0. Each number depends on the one before, so its digits are computed eight at a time.
    """
    square, library = root * root, eightfold()
    if library is not None:
        size = _size(root)
        one = (mpz(1) << (_DIGIT * _digits(size, 4))) % square
        out = ctypes.create_string_buffer(2 * count * (size + 1))
        if library.tacit_chain(
            *(_pairs([value % square], root, size) for value in (base, one, one * one)),
            root.to_bytes(size, "little"),
            size,
            exponent.to_bytes(_size(exponent) + 1, "little"),
            exponent.bit_length(),
            step,
            count,
            out,
            size + 1,
        ):
            halves = iter(_parted(out.raw, size + 1))
            return [(a - root * b) % square for a, b in zip(halves, halves, strict=True)]
    chain, factor = [gmpy2.powmod(base, exponent, square)], mpz(1) << step
    while len(chain) < count:
        chain.append(gmpy2.powmod(chain[-1], factor, square))
    return chain


def inverses_and_slopes(values: Sequence[mpz], highs: Sequence[mpz], modulus: mpz) -> list[tuple[mpz, mpz]] | None:
    """The inverse of each of `values`, and its product by the corresponding one of `highs`, mod `modulus`.

    All numbers are in [0, modulus). None if the library cannot compute them, or if a value has no inverse.
    """
    library = eightfold()
    if library is None or len(values) < WORTHWHILE:
        return None
    size, count = _size(modulus), len(values)
    one = (mpz(1) << (_DIGIT * _digits(size, 4))) % modulus
    numbers = _joined(values, size)
    shape = (one.to_bytes(size, "little"), (one * one % modulus).to_bytes(size, "little"))
    modulo = modulus.to_bytes(size, "little")
    totals = ctypes.create_string_buffer(8 * (size + 1))
    if not library.tacit_totals(numbers, count, *shape, modulo, size, totals):
        return None
    try:
        inverses = [gmpy2.invert(total, modulus) for total in _parted(totals.raw, size + 1)]
    except ZeroDivisionError:
        return None
    found, slopes = ctypes.create_string_buffer(count * size), ctypes.create_string_buffer(count * size)
    done = library.tacit_splits(
        numbers, _joined(highs, size), count, *shape, _joined(inverses, size), modulo, size, found, slopes
    )
    return list(zip(_parted(found.raw, size), _parted(slopes.raw, size), strict=True)) if done else None


Packed: TypeAlias = NDArray[np.uint8]
"""Numbers of one length in bytes, (number, bytes), lowest byte first."""

Element: TypeAlias = tuple[mpz, mpz, mpz]

Indices: TypeAlias = NDArray[np.int32]
"""Indices of entries of a table, (rows, columns, blocks)."""


class _Numbers:
    """Numbers of `size` bytes, given as a list or as an array (number, size) of bytes; each is converted on access."""

    def __init__(self, given: Sequence[mpz] | Packed, size: int) -> None:
        self._given, self._size = given, size

    def __len__(self) -> int:
        return len(self._given)

    @functools.cached_property
    def listed(self) -> Sequence[mpz]:
        return _parted(self._given.tobytes(), self._size) if isinstance(self._given, np.ndarray) else self._given

    @functools.cached_property
    def packed(self) -> Packed:
        if isinstance(self._given, np.ndarray):
            return self._given
        return np.frombuffer(_joined(self._given, self._size), np.uint8).reshape(-1, self._size)


class Table:
    """A table of numbers in [0, 2^(8 `size`)) for products modulo `modulus`, which is odd and above 1."""

    def __init__(self, entries: Sequence[mpz] | Packed, size: int, modulus: mpz) -> None:
        self._entries, self._modulus = _Numbers(entries, size), modulus
        self._library = eightfold()
        if self._library is not None:
            self._count, number = _digits(size), len(entries)
            self._digits = np.zeros(number * self._count + 7, np.uint64)
            at = self._entries.packed.ctypes.data
            self._library.tacit_digits(at, number, size, self._digits.ctypes.data, self._count)

    def products(self, indices: Indices) -> list[mpz]:
        """The product for each row of `indices`.

        At each column the product so far is squared and multiplied by the entries at its indices. Raises ValueError for
        an index without an entry.
        """
        _check(indices, len(self._entries))
        found = self._eightfold(indices) if len(indices) >= WORTHWHILE else None
        return self._one_by_one(indices) if found is None else found

    def _one_by_one(self, indices: Indices) -> list[mpz]:
        modulus, entry_at = self._modulus, self._entries.listed.__getitem__
        found = []
        for columns in indices.tolist():
            product = mpz(1)
            for column in columns:
                product = product * product % modulus
                for entry in map(entry_at, column):
                    product = product * entry % modulus
            found.append(product)
        return found

    def _eightfold(self, indices: Indices) -> list[mpz] | None:
        """The result of `products` by the library, or None if the library cannot compute it."""
        if self._library is None:
            return None
        modulus, size, (rows, columns, blocks) = self._modulus, _size(self._modulus), indices.shape
        at = np.ascontiguousarray(indices, np.int32)
        out = ctypes.create_string_buffer(rows * (size + 1))
        done = self._library.tacit_products(
            self._digits.ctypes.data, self._count, at.ctypes.data, rows, columns, blocks,
            modulus.to_bytes(size, "little"), size, out, size + 1,
        )  # fmt: skip
        if not done:
            return None
        # A multiplication divides by 2^(52 d), d digits of an entry, and a squaring by 2^(52 l): made up for at once.
        divided = 0
        for column in range(columns if blocks else 0):
            divided = (2 * divided + _digits(size)) if column else 0
            divided += blocks * self._count
        factor = gmpy2.powmod(2, _DIGIT * divided, modulus)
        return [value * factor % modulus for value in _parted(out.raw, size + 1)]


class SumTable:
    """A table of numbers in [0, 2^(8 `size`)) for sums; as an array they have `word_bytes(size)` bytes each."""

    def __init__(self, entries: Sequence[mpz] | Packed, size: int) -> None:
        self._words = word_bytes(size) // 4
        self._entries = _Numbers(entries, word_bytes(size))
        self._library = eightfold()

    def sums(self, indices: Indices) -> list[mpz]:
        """The sum for each row of `indices`.

        At each column the sum so far is doubled, and the entries at its indices are added. Raises ValueError for an
        index without an entry.
        """
        _check(indices, len(self._entries))
        found = self._eightfold(indices) if len(indices) >= WORTHWHILE else None
        return self._one_by_one(indices) if found is None else found

    def _one_by_one(self, indices: Indices) -> list[mpz]:
        entry_at, found = self._entries.listed.__getitem__, []
        for columns in indices.tolist():
            total = mpz(0)
            for column in columns:
                total = sum(map(entry_at, column), total + total)
            found.append(total)
        return found

    def _eightfold(self, indices: Indices) -> list[mpz] | None:
        """The result of `sums` by the library, or None if the library cannot compute it."""
        if self._library is None:
            return None
        rows, columns, blocks = indices.shape
        at = np.ascontiguousarray(indices, np.int32)
        words = self._words + -(-(columns + blocks.bit_length()) // 32)
        out = np.empty((rows, words), "<u4")
        done = self._library.tacit_sums(
            self._entries.packed.ctypes.data, self._words, at.ctypes.data, rows, columns, blocks, out.ctypes.data, words
        )
        return _parted(out.tobytes(), 4 * words) if done else None


def subset_tables(elements: Sequence[Sequence[Element]], modulus: mpz) -> tuple[Packed, Packed] | None:
    """The products of all subsets of each group of `elements`, or None if the library cannot compute them.

    An element r (1 + m s) mod m^2 is r, s and the inverse of r mod m = `modulus`, all in [0, m). In group k, entry S of
    2^len(group) includes element i if bit i of S is set. Returns residues, in the bytes of the modulus, and slopes, in
    `word_bytes` of as many, of all groups one after another.
    """
    library = eightfold()
    widths = np.array([len(group) for group in elements], np.int32)
    if library is None or not widths.size or widths.max() > _WIDEST:
        return None
    size, entries = _size(modulus), int((1 << widths.astype(np.int64)).sum())
    one = (mpz(1) << (_DIGIT * _digits(size, 4))) % (modulus * modulus)
    residues = np.empty((entries, size), np.uint8)
    slopes = np.empty((entries, word_bytes(size)), np.uint8)
    done = library.tacit_subsets(
        _joined([part for group in elements for element in group for part in element], size),
        widths.ctypes.data,
        len(elements),
        (one % modulus).to_bytes(size, "little"),
        _pairs([one * one % (modulus * modulus)], modulus, size),
        modulus.to_bytes(size, "little"),
        size,
        residues.ctypes.data,
        slopes.ctypes.data,
        slopes.shape[1],
    )
    return (residues, slopes) if done else None


def word_bytes(size: int) -> int:
    """The bytes of the 32-bit words that hold `size` bytes."""
    return -(-size // 4) * 4


def _check(indices: Indices, entries: int) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < entries:
        raise ValueError(f"an index must be in 0..{entries - 1}")


def _size(value: mpz) -> int:
    """The number of bytes of `value`."""
    return -(-value.bit_length() // 8)


def _digits(size: int, headroom: int = 2) -> int:
    """The number of digits in which `eightfold.c` holds numbers of `size` bytes that grow by up to 2^headroom."""
    return -(-(8 * size + headroom) // _DIGIT)


def _pairs(values: Sequence[mpz], root: mpz, size: int) -> bytes:
    """Encode each value a - root b mod root^2 as a, then b, both with `size` bytes."""
    halves = []
    for value in values:
        b, a = divmod(value, root)
        halves += [a, root - b]
    return _joined(halves, size)


def _joined(values: Sequence[mpz], size: int) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)


def _parted(data: bytes, size: int) -> list[mpz]:
    return [mpz.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
