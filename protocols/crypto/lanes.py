"""Sums and packed fields of integers in lanes of 8, 16 or 32 bits, by `lanes.c` where it is compiled, else by numpy.

Both ways give the same numbers; sums wrap.
"""

import ctypes
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto import compiled

__all__ = ["add", "correct", "pack", "pack_few", "unpack", "unpack_blocks", "unpack_few"]

Matrix = NDArray[Any]

_INT, _STEP, _SIZE, _POINTER = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_void_p
_FUNCTIONS = {
    "tacit_pack": (_INT, _POINTER, _STEP, _STEP, _SIZE, _SIZE, _INT, _POINTER, _STEP, _STEP),
    "tacit_unpack": (_INT, _POINTER, _STEP, _STEP, _SIZE, _SIZE, _INT, _POINTER, _STEP, _STEP),
    "tacit_correct": (_INT, _POINTER, _POINTER, _STEP, _STEP, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER),
    "tacit_add": (_INT, _POINTER, _STEP, _STEP, _POINTER, _POINTER, _STEP, _SIZE, _SIZE, _SIZE, _POINTER),
    "tacit_pack_few": (_INT, _POINTER, _SIZE, _INT, _POINTER),
    "tacit_unpack_few": (_INT, _POINTER, _SIZE, _INT, _POINTER),
    "tacit_unpack_blocks": (_INT, _POINTER, _POINTER, _SIZE, _INT, _POINTER),
}


@functools.cache
def _loaded() -> ctypes.CDLL | None:
    return compiled.found("_lanes", _FUNCTIONS)


def _library(*matrices: Matrix) -> ctypes.CDLL | None:
    """The compiled `lanes.c`, if it takes these matrices, of one type: (..., n), up to four axes, rows without gaps."""
    first = matrices[0].dtype
    fit = first.kind == "u" and first.isnative and first.itemsize in (1, 2, 4)
    for one in matrices:
        whole = one.shape[-1] < 2 or one.strides[-1] == one.itemsize
        fit = fit and one.dtype == first and one.ndim <= 4 and one.flags.aligned and whole
    return _loaded() if fit and not compiled.switched_off() else None


def _stacks(matrix: Matrix) -> Iterator[Matrix]:
    """The matrices (groups, rows, n) of one of two to four axes."""
    yield from matrix if matrix.ndim == 4 else [matrix if matrix.ndim == 3 else matrix[np.newaxis]]


def pack(values: Matrix, width: int, words: Matrix) -> bool:
    """Pack values (..., B, n) into words (..., width, n) as `fields.pack_lanes` does. Returns False if it cannot.

    Raises ValueError for shapes that do not fit each other, or for words that may not be written.
    """
    _check_fields(values, width, words, words)
    library = _library(values, words)
    if library is None:
        return False
    for one, out in zip(_stacks(values), _stacks(words), strict=True):
        place = one.ctypes.data, *one.strides[:2], len(one), one.shape[2]
        library.tacit_pack(values.itemsize, *place, width, out.ctypes.data, *out.strides[:2])
    return True


def unpack(words: Matrix, width: int, values: Matrix) -> bool:
    """Unpack words (..., width, n) into values (..., B, n), the inverse of `pack`. Returns False if it cannot.

    Raises ValueError for shapes that do not fit each other, or for values that may not be written.
    """
    _check_fields(values, width, words, values)
    library = _library(words, values)
    if library is None:
        return False
    for one, out in zip(_stacks(words), _stacks(values), strict=True):
        place = one.ctypes.data, *one.strides[:2], len(one), one.shape[2]
        library.tacit_unpack(words.itemsize, *place, width, out.ctypes.data, *out.strides[:2])
    return True


def pack_few(values: Matrix, width: int) -> bytes | None:
    """Pack a few whole numbers (n,) into fields of `width` bits as `fields.pack_fields` does; None if it cannot.

    Raises ValueError for a number that does not fit.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    library = None if compiled.switched_off() else _loaded()
    # A negative number is a large one without a sign, unless the field has room for that.
    fits = (kind == "u" or (kind == "i" and width < 8 * size)) and values.dtype.isnative and values.flags.carray
    if library is None or not fits or not 1 <= width <= 32:
        return None
    out = np.empty(-(-len(values) * width // 8), np.uint8)
    found = library.tacit_pack_few(size, values.ctypes.data, len(values), width, out.ctypes.data)
    if found == 0:
        raise ValueError(f"fields of {width} bits hold 0 to {2**width - 1}; a value is out of range")
    return out.tobytes() if found > 0 else None


def unpack_few(data: bytes, width: int, values: Matrix) -> bool:
    """Unpack fields of `width` bits into `values` (n,), the inverse of `pack_few`. Returns False if it cannot.

    Raises ValueError if `data` has too few bytes.
    """
    library = _for_few(values, width)
    if library is None or type(data) is not bytes:
        return False
    if len(data) < -(-len(values) * width // 8):
        raise ValueError(f"{len(values)} fields of {width} bits are not in {len(data)} bytes")
    return bool(library.tacit_unpack_few(values.itemsize, data, len(values), width, values.ctypes.data))


def unpack_blocks(data: bytes, width: int, counts: NDArray[np.int64], values: Matrix) -> bool:
    """Unpack blocks of `counts` fields into `values` (sum of counts,). Returns False if it cannot.

    Each block begins with a new byte. Raises ValueError if `data` has another number of bytes, or values of numbers.
    """
    library = _for_few(values, width)
    if library is None:
        return False
    if len(data) != int((-(-counts * width // 8)).sum()) or len(values) != int(counts.sum()) or (counts < 0).any():
        raise ValueError(f"{len(counts)} blocks of fields of {width} bits are no {len(data)} bytes")
    own = np.ascontiguousarray(counts, np.int64)
    at = own.ctypes.data, len(own), width, values.ctypes.data
    return bool(library.tacit_unpack_blocks(values.itemsize, data, *at))


def _for_few(values: Matrix, width: int) -> ctypes.CDLL | None:
    """The compiled file, if it unpacks fields into `values`."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    fits = kind in "ui" and 1 <= width <= min(32, 8 * size - (kind == "i"))
    fits = fits and values.dtype.isnative and values.flags.carray
    return _loaded() if fits and not compiled.switched_off() else None


def correct(zero: Matrix, one: Matrix, bits: NDArray[np.bool_], sums: Matrix) -> None:
    """Make corrections of the pads K0 in `zero` and K1 in `one`, (vectors, rows, n), and of b in `bits`, (rows, n).

    K1 is replaced by K0 - K1 + 1 - 2 b, and K0 - b of all rows is added to `sums` (vectors, n).
    """
    _check(zero, bits.shape, sums, one.shape)
    library = _library(zero, one, sums)
    writeable = one.flags.writeable and sums.flags.writeable
    if library is not None and writeable and zero.strides == one.strides and sums.flags.c_contiguous:
        own = np.ascontiguousarray(bits, np.bool_)
        at = zero.ctypes.data, one.ctypes.data, *zero.strides[:2], own.ctypes.data
        library.tacit_correct(zero.itemsize, *at, *zero.shape, sums.ctypes.data)
        return
    b = bits.astype(zero.dtype)
    sums += zero.sum(axis=1, dtype=zero.dtype) - b.sum(axis=0, dtype=zero.dtype)
    np.subtract(zero, one, out=one)
    one += 1 - 2 * b


def add(pads: Matrix, more: Matrix, choices: NDArray[np.bool_], sums: Matrix) -> None:
    """Add to `sums` (vectors, n) all rows of `pads`, (vectors, rows, n), and of `more` those of the `choices`.

    `choices` is (vectors, rows); `more` is overwritten.
    """
    _check(pads, pads.shape[1:], sums, more.shape)
    if choices.shape != pads.shape[:2]:
        raise ValueError(f"choices of shape {choices.shape} do not fit pads of shape {pads.shape}")
    library = _library(pads, more, sums)
    if library is not None and more.flags.c_contiguous and sums.flags.c_contiguous and sums.flags.writeable:
        own = np.ascontiguousarray(choices, np.bool_)
        at = pads.ctypes.data, *pads.strides[:2], more.ctypes.data, own.ctypes.data, own.strides[0]
        library.tacit_add(pads.itemsize, *at, *pads.shape, sums.ctypes.data)
        return
    sums += pads.sum(axis=1, dtype=pads.dtype)
    more &= (-choices.astype(pads.dtype))[:, :, np.newaxis]  # all ones where a row is chosen
    sums += more.sum(axis=1, dtype=pads.dtype)


def _check_fields(values: Matrix, width: int, words: Matrix, written: Matrix) -> None:
    rows = 8 * values.itemsize
    if not 1 <= width <= rows or values.shape[-2:-1] != (rows,) or not written.flags.writeable:
        raise ValueError(f"values of shape {values.shape} and type {values.dtype} are not packed at {width} bits")
    if words.shape != (*values.shape[:-2], width, values.shape[-1]) or words.dtype != values.dtype:
        raise ValueError(f"values of shape {values.shape} do not fit words of shape {words.shape} at {width} bits")


def _check(pads: Matrix, rows: tuple[int, ...], sums: Matrix, other: tuple[int, ...]) -> None:
    if pads.ndim != 3 or pads.shape[1:] != rows or sums.shape != (len(pads), pads.shape[2]) or other != pads.shape:
        raise ValueError(f"pads of shape {pads.shape} do not fit {other}, {rows} and sums of shape {sums.shape}")
