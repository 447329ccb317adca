"""Packed fields: unsigned integers of `width` bits each, one after another, lowest bit first, in whole bytes.

Large matrices whose values are in lanes of B = 8, 16 or 32 bits are packed column by column instead, which numpy does
a hundred times faster: B rows become `width` rows of B-bit words, and the words of a column, little-endian and lowest
word first, read as its B fields. (D. Lemire, L. Boytsov, "Decoding billions of integers per second through
vectorization", 2015: vertical layout.)
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lanes", "field_bytes", "lane_type", "pack_fields", "pack_lanes", "unpack_fields", "unpack_lanes"]

Lanes: TypeAlias = NDArray[np.unsignedinteger[Any]]

_CHUNK = 1 << 18  # values at a time, a multiple of 8 so that every chunk ends on a whole byte


def field_bytes(count: int, width: int) -> int:
    """Bytes that `count` fields take."""
    return -(-count * width // 8)


def pack_fields(values: NDArray[np.integer], width: int) -> bytes:
    """The flattened `values`, each in [0, 2^width), 1 <= width <= 32. Raises ValueError for a value out of range."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.size and (int(flat.min()) < 0 or int(flat.max()) >> width):
        raise ValueError(f"fields of {width} bits hold 0 to {2**width - 1}; a value is out of range")
    shifts = np.arange(width, dtype=np.uint32)
    return b"".join(
        np.packbits(
            ((flat[i : i + _CHUNK].astype(np.uint32)[:, None] >> shifts) & 1).astype(np.uint8), bitorder="little"
        ).tobytes()
        for i in range(0, flat.size, _CHUNK)
    )


def unpack_fields(data: bytes, width: int, count: int) -> NDArray[np.int64]:
    """The `count` fields in `data`. Raises ValueError when the length is another."""
    if len(data) != field_bytes(count, width):
        raise ValueError(f"{count} fields of {width} bits take {field_bytes(count, width)} bytes, not {len(data)}")
    values = np.empty(count, dtype=np.int64)
    weights = 1 << np.arange(width, dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)
    for i in range(0, count, _CHUNK):
        part = min(_CHUNK, count - i)
        start = i * width // 8
        bits = np.unpackbits(raw[start : start + field_bytes(part, width)], count=part * width, bitorder="little")
        values[i : i + part] = bits.reshape(part, width) @ weights
    return values


def lane_type(width: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that holds `width` bits. Raises ValueError unless width is 1 to 32."""
    for lane in ("<u1", "<u2", "<u4"):
        if 1 <= width <= 8 * np.dtype(lane).itemsize:
            return np.dtype(lane)
    raise ValueError(f"width(={width}) must be 1 to 32 bits")


def pack_lanes(values: Lanes, width: int, out: Lanes | None = None) -> Lanes:
    """Values (..., B, n) in lanes of B bits as words (..., width, n) of the same type, `out` when given.

    Only the low `width` bits of a value count. Raises ValueError unless there are B rows and width <= B.
    """
    lane = _check_rows(values, width, 8 * values.dtype.itemsize)
    words = out if out is not None else np.empty((*values.shape[:-2], width, values.shape[-1]), lane)
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
    """The values (..., B, n) of `pack_lanes`, in `out` when given. Raises ValueError for another number of rows."""
    lane = _check_rows(words, width, width)
    bits = 8 * lane.itemsize
    values = out if out is not None else np.empty((*words.shape[:-2], bits, words.shape[-1]), lane)
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
