"""Columns of pseudorandom bits, one for each seed, and their rows: the bulk of an OT extension.

Column c of a context is the stream of AES-128 in counter mode under SHA-256(label, context, c, seed). Bit o of every
column together makes row o. Numbers are absolute: any part of the columns can be had without what precedes it.
Words are little-endian, so that bit 0 of byte 0 is the first bit everywhere.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from Crypto.Cipher import AES
from numpy.typing import NDArray

__all__ = ["COLUMNS", "MOST", "SPAN", "Columns", "Rows", "Words", "encrypt", "key", "pieces", "transpose"]

COLUMNS = 128
MOST = 1 << 22  # rows a call: 64 MiB

Words = NDArray[np.uint64]

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
        keys = [key(b"column", context, c.to_bytes(2, "big"), seed) for c, seed in enumerate(seeds)]
        self._ciphers = [AES.new(each, AES.MODE_ECB) for each in keys]

    def __repr__(self) -> str:
        return f"<{COLUMNS} columns of bits>"

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


class Rows:
    """A buffer of `count` rows from `first` on, made of `pieces` (first, count), which are `put` as columns."""

    def __init__(self, first: int, count: int) -> None:
        """Raises ValueError unless first >= 0 and count is 0 to `MOST`."""
        if first < 0 or not 0 <= count <= MOST:
            raise ValueError(f"{count} rows from {first} on; 0 to {MOST} in one call are allowed, from 0 on")
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
