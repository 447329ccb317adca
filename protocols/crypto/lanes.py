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

__all__ = ["add", "correct", "pack", "unpack"]

Matrix = NDArray[Any]

_INT, _STEP, _SIZE, _POINTER = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_void_p
_FUNCTIONS = {
    "tacit_pack": (_INT, _POINTER, _STEP, _STEP, _SIZE, _SIZE, _INT, _POINTER, _STEP, _STEP),
    "tacit_unpack": (_INT, _POINTER, _STEP, _STEP, _SIZE, _SIZE, _INT, _POINTER, _STEP, _STEP),
    "tacit_correct": (_INT, _POINTER, _POINTER, _STEP, _STEP, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER),
    "tacit_add": (_INT, _POINTER, _STEP, _STEP, _POINTER, _POINTER, _STEP, _SIZE, _SIZE, _SIZE, _POINTER),
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
