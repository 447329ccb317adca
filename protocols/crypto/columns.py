"""Columns of pseudorandom bits, one for each seed, and their rows: the bulk of an OT extension.

Column c of a context is the stream of AES-128 in counter mode under SHA-256(label, context, c, seed). Bit o of every
column together makes row o. Numbers are absolute: any part of the columns can be had without what precedes it.
Words are little-endian, so that bit 0 of byte 0 is the first bit everywhere.

`Columns.rows` and `added` are computed by `transfers` where the processor can, else by numpy from `Columns.words`.
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.transfers import Words, transfers

__all__ = [
    "COLUMNS", "MOST", "SPAN", "Columns", "Rows", "Words", "added", "check_rows", "encrypt", "key", "pieces",
    "transpose",
]  # fmt: skip

COLUMNS = 128
MOST = 1 << 22  # rows a call: 64 MiB

_LAST = 1 << 63
_TILE = 64  # rows in one word of a column
SPAN = 4096 * _TILE  # rows expanded at a time: 32 KiB a column, for AES needs long calls
_TRANSPOSED = 1024  # tiles transposed at a time: 512 KiB, which stay in the cache


def key(purpose: bytes, context: bytes, *parts: bytes) -> bytes:
    """A key of 16 bytes that is bound to all arguments."""
    state = hashlib.sha256(b"tacit/iknp/v1")
    for part in (purpose, context, *parts):
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()[:16]


def encrypt(cipher: Any, source: Words, target: Words) -> None:
    """Encrypt each block of the C-contiguous `source` by AES into `target`; `cipher` is in ECB mode."""
    cipher.encrypt(source.reshape(-1).view(np.uint8).data, output=target.reshape(-1).view(np.uint8).data)


class Columns:
    """The columns of 128 seeds under one context."""

    def __init__(self, context: bytes, seeds: Sequence[bytes]) -> None:
        """Raises ValueError unless there are 128 seeds."""
        if len(seeds) != COLUMNS:
            raise ValueError(f"{COLUMNS} seeds are needed, not {len(seeds)}")
        self._keys = [key(b"column", context, c.to_bytes(2, "big"), seed) for c, seed in enumerate(seeds)]

    def __repr__(self) -> str:
        return f"<{COLUMNS} columns of bits>"

    @functools.cached_property
    def keys(self) -> bytes:
        """The AES keys of all columns, one after another."""
        return b"".join(self._keys)

    @functools.cached_property
    def _ciphers(self) -> list[Any]:
        from Crypto.Cipher import AES  # takes a tenth of a second, which commands without transfers need not

        return [AES.new(each, AES.MODE_ECB) for each in self._keys]

    def rows(self, first: int, count: int, sent: bytes | None = None, select: bytes = b"") -> Words:
        """The rows from `first` on, (count, 2).

        `sent`: a message of as many rows, whose bits that are set in `select` (16 bytes) are added. Raises ValueError
        unless first >= 0 and count is 0 to `MOST`.
        """
        check_rows(first, count)
        library = transfers()
        if library is not None:
            return library.rows(self.keys, first, count, sent, select)
        rows = Rows(first, count)
        for piece, size in rows.pieces:
            rows.put(piece, self.words(piece, size))
        found = rows.array
        if sent is not None:
            found ^= np.frombuffer(sent, "<u8").reshape(count, 2) & np.frombuffer(select, "<u8")
        return found

    def words(self, first: int, count: int) -> Words:
        """Bits first .. first + count - 1 of each column: (128, count / 64). Both must be multiples of 128."""
        counters = np.zeros((count // 128, 2), "<u8")
        counters[:, 0] = np.arange(first // 128, (first + count) // 128, dtype=np.uint64)
        out = np.empty((COLUMNS, count // _TILE), "<u8")
        for cipher, column in zip(self._ciphers, out, strict=True):
            encrypt(cipher, counters, column)
        return out


_SWAPS = tuple((j, np.uint64(sum(((1 << j) - 1) << i for i in range(0, 64, 2 * j)))) for j in (32, 16, 8, 4, 2, 1))


def transpose(columns: Words, out: Words) -> None:
    """Transpose columns of bits, (128, count / 64), into rows `out` (count, 2): bit c of row o is bit o of column c.

    64 x 64 bits at a time by swapping ever smaller quarters (H. S. Warren, "Hacker's Delight", 7-3), which takes six
    passes over words, all tiles of a pass side by side.
    """
    rows = out.reshape(-1, _TILE, 2)
    for start in range(0, columns.shape[1], _TRANSPOSED):
        part = slice(start, start + _TRANSPOSED)
        for half in range(2):
            words = columns[_TILE * half : _TILE * (half + 1), part].copy()
            for j, mask in _SWAPS:
                pairs = words.reshape(_TILE // 2 // j, 2, -1)
                low, high = pairs[:, 0], pairs[:, 1]
                swap = low >> np.uint64(j)
                swap ^= high
                swap &= mask
                high ^= swap
                swap <<= np.uint64(j)
                low ^= swap
            rows[part, :, half] = words.T


def pieces(first: int, count: int) -> list[tuple[int, int]]:
    """The (first, count) of pieces of columns that cover these rows: multiples of 128, at most `SPAN`."""
    start, stop = first // 128 * 128, -(-(first + count) // 128) * 128
    return [(piece, min(SPAN, stop - piece)) for piece in range(start, stop, SPAN)]


def check_rows(first: int, count: int) -> None:
    """Raises ValueError unless first >= 0, count is 0 to `MOST`, and all rows are below 2^63."""
    if first < 0 or not 0 <= count <= MOST or first + count > _LAST:
        raise ValueError(f"{count} rows from {first} on; 0 to {MOST} in one call are allowed, from 0 to 2^63")


def added(zero: Columns, one: Columns, first: int, choices: NDArray[np.bool_]) -> tuple[Words, bytes]:
    """The rows of `zero` from `first` on, (m, 2) for m choices, and 16 bytes for each row: the sum of both columns'
    rows, and of the choice of the row on all its bits.

    Raises ValueError as `Columns.rows` does, and unless `choices` is an array (m,).
    """
    check_rows(first, len(choices))
    library = transfers()
    if library is not None:
        return library.extend(zero.keys, one.keys, first, choices)
    rows, sums = (Rows(first, len(choices)) for _ in range(2))
    x = sums.spread(choices)
    for piece, count in rows.pieces:
        columns = zero.words(piece, count)
        rows.put(piece, columns)
        columns ^= one.words(piece, count)
        columns ^= x[: columns.shape[1]]
        x = x[columns.shape[1] :]
        sums.put(piece, columns)
    return rows.array, sums.array.tobytes()


class Rows:
    """A buffer of `count` rows from `first` on, made of `pieces` (first, count), which are `put` as columns."""

    def __init__(self, first: int, count: int) -> None:
        check_rows(first, count)
        self.pieces = pieces(first, count)
        self._start = first // 128 * 128
        self._used = slice(first - self._start, first - self._start + count)
        self._memory = np.empty((sum(size for _, size in self.pieces), 2), "<u8")

    def put(self, first: int, columns: Words) -> None:
        """Fill in the rows from `first` on."""
        place = first - self._start
        transpose(columns, self._memory[place : place + _TILE * columns.shape[1]])

    def spread(self, bits: NDArray[np.bool_]) -> Words:
        """Arrange a bit for each row as words of a column over all pieces, zero where there is no row."""
        column = np.zeros(len(self._memory), np.bool_)
        column[self._used] = bits
        return np.packbits(column, bitorder="little").view("<u8")

    @property
    def array(self) -> Words:
        """The rows, (count, 2)."""
        return self._memory[self._used]
