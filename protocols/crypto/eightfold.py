"""Powers and products modulo one number, eight at a time where the processor can.

`eightfold.c` computes with eight numbers side by side in AVX-512 registers, by their multiplications of 52 bits (IFMA):
three times as fast as OpenSSL at powers modulo 2048 bits, eight times as fast as gmpy2 at products by the entries of a
table. It is compiled when Tacit is installed, if a C compiler is there. Without it, or on another processor, the same
numbers are computed one by one by gmpy2; nothing else differs.

Running times depend on the numbers, as elsewhere: nothing here is protected against an observer of time or cache.
"""

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

__all__ = ["WORTHWHILE", "Table", "eightfold", "one_by_one", "powers"]

WORTHWHILE = 3
"""From this number on, eight at a time take less time than one after another."""

_DIGIT = 52
_INT, _BYTES, _LONG = ctypes.c_int, ctypes.c_char_p, ctypes.c_long
_FUNCTIONS = {
    "tacit_eightfold": (),
    "tacit_powers": (_BYTES, _INT, _BYTES, _BYTES, _BYTES, _INT, _BYTES, _LONG, _BYTES, _INT),
    "tacit_products": (_BYTES, _INT, _INT, ctypes.c_void_p, *(_INT,) * 3, _BYTES, _INT, _BYTES, _INT),
}


_switched_off = False


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within it all is computed one by one, as where the processor lacks AVX-512 IFMA."""
    global _switched_off
    before, _switched_off = _switched_off, True
    try:
        yield
    finally:
        _switched_off = before


def eightfold() -> ctypes.CDLL | None:
    """The compiled `eightfold.c`, or None where there is none or the processor lacks what it needs."""
    return None if _switched_off else _loaded()


@functools.cache
def _loaded() -> ctypes.CDLL | None:
    for suffix in EXTENSION_SUFFIXES:
        try:
            library = ctypes.CDLL(str(Path(__file__).with_name(f"_eightfold{suffix}")))
            for name, arguments in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = _INT, arguments
        except (OSError, AttributeError):
            continue
        return library if library.tacit_eightfold() else None
    return None


def powers(bases: Sequence[mpz], exponent: mpz, modulus: mpz) -> list[mpz]:
    """base^exponent mod `modulus` of each of `bases`; the modulus is odd and above 1, the exponent above 0."""
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


class Table:
    """Numbers in [0, 2^(8 `size`)) of which products modulo `modulus`, odd and above 1, are taken."""

    def __init__(self, entries: Sequence[mpz], size: int, modulus: mpz) -> None:
        self._entries, self._size, self._modulus = entries, size, modulus
        self._library = eightfold()
        self._packed = b"" if self._library is None else _joined(entries, size)

    def products(self, indices: NDArray[np.int32]) -> list[mpz]:
        """One result for each row of `indices` (rows, columns, blocks).

        At each column what was computed so far is squared and multiplied by the entries at its indices.
        """
        found = self._eightfold(indices) if len(indices) >= WORTHWHILE else None
        return self._one_by_one(indices) if found is None else found

    def _one_by_one(self, indices: NDArray[np.int32]) -> list[mpz]:
        modulus, entry_at = self._modulus, self._entries.__getitem__
        found = []
        for columns in indices.tolist():
            product = mpz(1)
            for column in columns:
                product = product * product % modulus
                for entry in map(entry_at, column):
                    product = product * entry % modulus
            found.append(product)
        return found

    def _eightfold(self, indices: NDArray[np.int32]) -> list[mpz] | None:
        """The same, or None where the library cannot. Raises ValueError for an index that no entry has."""
        if self._library is None:
            return None
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self._entries):
            raise ValueError(f"an index must be in 0..{len(self._entries) - 1}")
        modulus, size, (rows, columns, blocks) = self._modulus, _size(self._modulus), indices.shape
        at = np.ascontiguousarray(indices, np.int32)
        out = ctypes.create_string_buffer(rows * (size + 1))
        done = self._library.tacit_products(
            self._packed, len(self._entries), self._size, at.ctypes.data, rows, columns, blocks,
            modulus.to_bytes(size, "little"), size, out, size + 1,
        )  # fmt: skip
        if not done:
            return None
        # A multiplication divides by 2^(52 d), d digits of an entry, and a squaring by 2^(52 l): made up for at once.
        divided = 0
        for column in range(columns):
            divided = (2 * divided + _digits(size)) if column else 0
            divided += blocks * _digits(self._size)
        factor = gmpy2.powmod(2, _DIGIT * divided, modulus)
        return [value * factor % modulus for value in _parted(out.raw, size + 1)]


def _size(value: mpz) -> int:
    """The bytes of `value`."""
    return -(-value.bit_length() // 8)


def _digits(size: int) -> int:
    """The digits in which `eightfold.c` holds numbers of `size` bytes, and up to four times as large."""
    return -(-(8 * size + 2) // _DIGIT)


def _joined(values: Sequence[mpz], size: int) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)


def _parted(data: bytes, size: int) -> list[mpz]:
    return [mpz.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
