"""The bulk of an OT extension by the processor's AES instructions, where it has them: `transfers.c`.

The numpy code in `columns` and `iknp` gives the same bytes at a third of the speed. It is used where the compiled file
is missing, on a processor without AES-NI, and inside `compiled.in_numpy`.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto import compiled

__all__ = ["Library", "Words", "opened", "transfers"]

Words = NDArray[np.uint64]

_BYTES, _LONG, _SIZE, _POINTER = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_FUNCTIONS = {
    "tacit_transfers": (),
    "tacit_rows": (_BYTES, _LONG, _SIZE, _BYTES, _BYTES, _POINTER),
    "tacit_extend": (_BYTES, _BYTES, _LONG, _SIZE, *(_POINTER,) * 3),
    "tacit_pads": (
        *(_BYTES, _LONG, _POINTER, _BYTES, _LONG, _SIZE, _SIZE, _POINTER, _SIZE),
        *(_POINTER, _POINTER, _SIZE),
    ),
}

_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize  # whose contents are for the caller to fill in
_new_bytes.restype, _new_bytes.argtypes = ctypes.py_object, (ctypes.c_char_p, ctypes.c_ssize_t)

_CACHED = 1 << 17  # bytes of pads of one branch at a time: what the other branch writes beside them is in the cache
_KEYS = 128 * 16
_ROW = 16


class Library:
    """The functions of `transfers.c`, with their arguments checked. All raise ValueError for a wrong size."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def rows(self, keys: bytes, first: int, count: int, sent: bytes | None = None, select: bytes = b"") -> Words:
        """The rows from `first` on of the columns under 128 `keys` of 16 bytes, (count, 2).

        `sent`: a message of as many rows, whose bits that are set in `select` (16 bytes) are added.
        """
        _check(keys, _KEYS, "keys")
        if sent is not None:
            _check(sent, count * _ROW, "a message")
            _check(select, _ROW, "a selection")
        rows = np.empty((count, 2), "<u8")
        self._library.tacit_rows(keys, first, count, sent, select, rows.ctypes.data)
        return rows

    def extend(self, zero: bytes, one: bytes, first: int, choices: NDArray[np.bool_]) -> tuple[Words, bytes]:
        """The rows from `first` on under the keys `zero`, (m, 2), and the message u: 16 bytes a row.

        u is those rows and the ones under the keys `one` added up, with the choice of a row on all its bits.
        """
        _check(zero, _KEYS, "keys")
        _check(one, _KEYS, "keys")
        chosen = _choices(choices, len(choices))
        rows = np.empty((len(chosen), 2), "<u8")
        message, place = _unwritten(_ROW * len(chosen))
        self._library.tacit_extend(zero, one, first, len(chosen), chosen.ctypes.data, rows.ctypes.data, place)
        return rows, message

    def mask(self, key: bytes, use: int, rows: Words, shift: bytes, first: int, messages: NDArray[np.uint8]) -> bytes:
        """`messages` (m, 2, size), the first of each two under the pad of its row, the second under that of the row to
        which `shift` is added. See `pads`."""
        count, size = len(rows), messages.shape[-1]
        if messages.shape != (count, 2, size):
            raise ValueError(f"messages of shape {(count, 2, size)} are needed, not {messages.shape}")
        reply, place = _unwritten(messages.size)
        step = max(1, _CACHED // max(1, size))
        for start in range(0, count, step):
            part = slice(start, start + step)
            for branch in range(2):
                self._pads(
                    key, use, rows[part], first + start, (place + (2 * start + branch) * size, 2 * size), size,
                    shift if branch else None, messages[part, branch], None,
                )  # fmt: skip
        return reply

    def pads(self, key: bytes, use: int, rows: Words, first: int, out: NDArray[np.uint8], *,
             shift: bytes | None = None, masked: NDArray[np.uint8] | None = None,
             choices: NDArray[np.bool_] | None = None) -> None:  # fmt: skip
        """Write the pads for `use` of `rows` (m, 2), row 0 being transfer `first`, to `out` (m, size).

        The bytes of each row of `out` are adjacent. `shift`: 16 bytes that are added to each row. `masked`: what is
        added to the pads, (m, size); with `choices`, it is (m, 2, size), of which one of two is taken.
        """
        count, size = out.shape
        apart = out.size and size > 1 and out.strides[1] != 1
        if out.dtype != np.uint8 or not out.flags.writeable or apart:
            raise ValueError("pads are written to rows of adjacent bytes")
        if len(rows) != count:
            raise ValueError(f"{len(rows)} rows have no {count} pads")
        self._pads(key, use, rows, first, (out.ctypes.data, out.strides[0]), size, shift, masked, choices)

    def _pads(self, key: bytes, use: int, rows: Words, first: int, out: tuple[int, int], size: int,
              shift: bytes | None, masked: NDArray[np.uint8] | None,
              choices: NDArray[np.bool_] | None) -> None:  # fmt: skip
        """See `pads`; `out` is the place of the first pad, and the bytes from one to the next."""
        _check(key, _ROW, "a key")
        if shift is not None:
            _check(shift, _ROW, "a row")
        count = len(rows)
        if rows.shape != (count, 2) or rows.dtype != np.dtype("<u8"):
            raise ValueError(f"{count} rows of two words are needed, not {rows.shape} of {rows.dtype}")
        own, given, stride = np.ascontiguousarray(rows), None, 0
        if masked is not None:
            shape = (count, size) if choices is None else (count, 2, size)
            if masked.shape != shape or masked.dtype != np.uint8:
                raise ValueError(f"messages of shape {shape} are needed, not {masked.shape} of {masked.dtype}")
            if (size > 1 and masked.strides[-1] != 1) or (choices is not None and masked.strides[1] != size):
                masked = np.ascontiguousarray(masked)
            given, stride = masked.ctypes.data, masked.strides[0]
        picked = None if choices is None else _choices(choices, count)
        self._library.tacit_pads(
            key, use, own.ctypes.data, shift, first, count, size, given, stride,
            None if picked is None else picked.ctypes.data, *out,
        )  # fmt: skip


def _unwritten(size: int) -> tuple[bytes, int]:
    """New bytes and their place in memory, which are written once, before anybody else has them.

    This saves a copy of messages, which takes as long as a quarter of what makes them.
    """
    new = _new_bytes(None, size)
    return new, ctypes.cast(ctypes.c_char_p(new), _POINTER).value or 0


def _check(data: bytes, size: int, name: str) -> None:
    if len(data) != size:
        raise ValueError(f"{name} of {size} bytes were due, not {len(data)}")


def _choices(choices: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    chosen = np.ascontiguousarray(choices, np.bool_)
    if chosen.shape != (count,):
        raise ValueError(f"{count} choices are needed, not {chosen.shape}")
    return chosen


def transfers() -> Library | None:
    """The compiled `transfers.c`, or None if it is missing or the processor does not support it."""
    return None if compiled.switched_off() else _loaded()


@functools.cache
def _loaded() -> Library | None:
    library = compiled.found("_transfers", _FUNCTIONS)
    return Library(library) if library is not None and library.tacit_transfers() else None


def opened(path: Path) -> ctypes.CDLL:
    """Load the library compiled from `transfers.c`. Raises OSError or AttributeError for another file."""
    return compiled.opened(path, _FUNCTIONS)
