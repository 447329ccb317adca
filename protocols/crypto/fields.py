"""Packed fields: unsigned integers of `width` bits each, one after another, lowest bit first, in whole bytes.

Large matrices whose values are in lanes of B = 8, 16 or 32 bits are packed column by column instead, which numpy does
a hundred times faster: B rows become `width` rows of B-bit words, and the words of a column, little-endian and lowest
word first, read as its B fields. (D. Lemire, L. Boytsov, "Decoding billions of integers per second through
vectorization", 2015: vertical layout.)
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.protocols.crypto import lanes
from tacit.sim.hollow import Blank, filled

__all__ = [
    "Lanes", "field_bytes", "lane_type", "pack_fields", "pack_lanes", "unpack_blocks", "unpack_fields",
    "unpack_lanes",
]  # fmt: skip

Lanes: TypeAlias = NDArray[np.unsignedinteger[Any]]

_FEW = 1024  # values; fewer are packed bit by bit, which takes fewer calls of numpy
_VERY_FEW = 32  # values; as many are packed as one integer of Python, which takes less time than numpy's calls
_CHUNK = 1 << 18  # values at a time, a multiple of 32 so that every chunk ends on a whole word of any lane


def field_bytes(count: int, width: int) -> int:
    """The number of bytes of `count` fields."""
    return -(-count * width // 8)


def pack_fields(values: NDArray[np.integer], width: int) -> bytes:
    """Pack the flattened `values`, each in [0, 2^width), 1 <= width <= 32.

    Raises ValueError for a value out of range.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.size < _FEW and (few := lanes.pack_few(flat, width)) is not None:
        return few
    if flat.size and ((flat.dtype.kind == "i" and int(flat.min()) < 0) or int(flat.max()) >> width):
        raise ValueError(f"fields of {width} bits hold 0 to {2**width - 1}; a value is out of range")
    lane = lane_type(width)
    if flat.size <= _VERY_FEW:
        packed = 0
        for value in reversed(flat.tolist()):
            packed = packed << width | value
        return packed.to_bytes(field_bytes(flat.size, width), "little")
    rows = 8 * lane.itemsize
    whole = flat.size - flat.size % rows if flat.size >= _FEW else 0
    parts = []
    for i in range(0, whole, _CHUNK):
        # The fields of a column are its words, so the fields of one after another are the words of a transposed matrix.
        columns = flat[i : min(i + _CHUNK, whole)].astype(lane).reshape(-1, rows).T
        parts.append(pack_lanes(np.ascontiguousarray(columns), width).T.tobytes())
    octets = flat[whole:].astype(lane).view(np.uint8).reshape(-1, lane.itemsize)
    bits = np.unpackbits(octets, axis=1, count=width, bitorder="little")
    return b"".join((*parts, np.packbits(bits, bitorder="little").tobytes()))


def unpack_fields(data: bytes, width: int, count: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Unpack `count` fields from `data` as `dtype`, which must hold them. Raises ValueError for a wrong length."""
    if len(data) != field_bytes(count, width):
        raise ValueError(f"{count} fields of {width} bits take {field_bytes(count, width)} bytes, not {len(data)}")
    if isinstance(data, Blank):
        return filled(count, dtype)
    if count < _FEW:
        few = np.empty(count, dtype)
        if lanes.unpack_few(data, width, few):
            return few
    lane = lane_type(width)
    if count <= _VERY_FEW:
        packed, mask = int.from_bytes(data, "little"), (1 << width) - 1
        return np.array([packed >> start & mask for start in range(0, count * width, width)], dtype)
    rows = 8 * lane.itemsize
    whole = count - count % rows if count >= _FEW else 0
    values = np.empty(count, dtype)
    raw = np.frombuffer(data, dtype=np.uint8)
    for i in range(0, whole, _CHUNK):
        stop = min(i + _CHUNK, whole)
        words = raw[i * width // 8 : stop * width // 8].view(lane).reshape(-1, width).T
        values[i:stop] = unpack_lanes(np.ascontiguousarray(words), width).T.reshape(-1)
    bits = np.unpackbits(raw[whole * width // 8 :], count=(count - whole) * width, bitorder="little")
    octets = np.zeros((count - whole, lane.itemsize), np.uint8)
    octets[:, : -(-width // 8)] = np.packbits(bits.reshape(-1, width), axis=1, bitorder="little")
    values[whole:] = octets.view(lane)[:, 0]
    return values


def unpack_blocks(blocks: Sequence[bytes], width: int, counts: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Unpack blocks of `counts` fields, of few fields each, as one array, the numbers of one after another.

    `dtype` must hold the fields. Raises ValueError for a block of a wrong length.
    """
    for block, count in zip(blocks, counts, strict=True):
        if len(block) != field_bytes(count, width):
            unpack_fields(block, width, count, dtype)  # which says so
    values = np.empty(sum(counts), dtype)
    if lanes.unpack_blocks(b"".join(blocks), width, np.array(counts, np.int64), values):
        return values
    parts = [unpack_fields(block, width, count, dtype) for block, count in zip(blocks, counts, strict=True)]
    return np.concatenate([values[:0], *parts])


@cache
def lane_type(width: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that holds `width` bits. Raises ValueError unless width is 1 to 32."""
    for lane in ("<u1", "<u2", "<u4"):
        if 1 <= width <= 8 * np.dtype(lane).itemsize:
            return np.dtype(lane)
    raise ValueError(f"width(={width}) must be 1 to 32 bits")


def pack_lanes(values: Lanes, width: int, out: Lanes | None = None) -> Lanes:
    """Pack values (..., B, n) in lanes of B bits into words (..., width, n) of the same type, `out` when given.

    Only the low `width` bits of a value count. Raises ValueError unless there are B rows and width <= B.
    """
    lane = _check_rows(values, width, 8 * values.dtype.itemsize)
    words = out if out is not None else np.empty((*values.shape[:-2], width, values.shape[-1]), lane)
    if lanes.pack(values, width, words):
        return words
    words[...] = 0
    values = values & lane.type((1 << width) - 1)
    part = np.empty((*values.shape[:-2], values.shape[-1]), lane)
    for row in range(8 * lane.itemsize):
        word, shift = divmod(row * width, 8 * lane.itemsize)
        field = values[..., row, :]
        words[..., word, :] |= np.left_shift(field, shift, out=part)
        if shift + width > 8 * lane.itemsize:
            words[..., word + 1, :] |= np.right_shift(field, 8 * lane.itemsize - shift, out=part)
    return words


def unpack_lanes(words: Lanes, width: int, out: Lanes | None = None) -> Lanes:
    """Unpack the values (..., B, n) of `pack_lanes`, into `out` when given.

    Raises ValueError for a wrong number of rows.
    """
    lane = _check_rows(words, width, width)
    bits = 8 * lane.itemsize
    values = out if out is not None else np.empty((*words.shape[:-2], bits, words.shape[-1]), lane)
    if lanes.unpack(words, width, values):
        return values
    part = np.empty((*words.shape[:-2], words.shape[-1]), lane)
    for row in range(bits):
        word, shift = divmod(row * width, bits)
        field = values[..., row, :]
        np.right_shift(words[..., word, :], shift, out=field)
        if shift + width > bits:
            field |= np.left_shift(words[..., word + 1, :], bits - shift, out=part)
    values &= lane.type((1 << width) - 1)
    return values


def _check_rows(matrix: Lanes, width: int, rows: int) -> np.dtype[np.unsignedinteger[Any]]:
    if matrix.shape[-2] != rows or not 1 <= width <= 8 * matrix.dtype.itemsize:
        raise ValueError(f"{matrix.shape[-2]} rows of {matrix.dtype} do not pack {rows} rows at {width} bits")
    return matrix.dtype
