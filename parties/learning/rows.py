"""Helpers of learners of tables: points as rows of numbers, checks of labels, and states as safe bytes.

A state is the SHA-256 of the training points and labels, followed by a numpy archive (or other bytes of the learner). A
learner that is not warm keeps its state if it has already learned from the same points and labels: another fit would
only give another model of the same data.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.sim.streams import derive

__all__ = ["as_rows", "check_sizes", "cold_fit", "content", "number", "pack", "sealed", "unpack"]

Points = NDArray[np.generic]
Labels = NDArray[np.int64]
Rows = NDArray[np.float32]

_DIGEST = hashlib.sha256().digest_size


def check_sizes(columns: int, classes: int) -> None:
    """Raise ValueError for numbers of columns and classes from which nothing can be learned."""
    if columns < 1 or classes < 2:
        raise ValueError(f"columns(={columns}) and classes(={classes}) must be >= 1 and >= 2")


def as_rows(points: Points, columns: int) -> Rows:
    """Convert points to float32 (n, columns); images row by row as pixel / 255.

    Raises ValueError if they do not fit.
    """
    if points.dtype == object:
        raise ValueError("texts are not numbers; give them features (data.features), or take a learner that reads them")
    rows = points.reshape(len(points), -1) if len(points) else points.reshape(0, columns)
    if rows.shape[1] != columns:
        raise ValueError(f"the learner takes points of {columns} numbers, not {rows.shape[1]}")
    numbers = rows.astype(np.float32)
    return numbers / np.float32(255) if points.dtype == np.uint8 else numbers


def number(seed: int | bytes, *names: str | int) -> int:
    """An integer below 2^31 from the stream (seed, names), for libraries that need such a seed."""
    return int.from_bytes(derive(seed, "learner", *names)[:4]) >> 1


def sealed(state: bytes, digest: bytes = bytes(_DIGEST)) -> bytes:
    """Prepend the digest of the training data to `state`; zeros for an untrained learner."""
    return digest + state


def content(state: bytes) -> bytes:
    """The learner's part of a sealed state."""
    return state[_DIGEST:]


def cold_fit(
    state: bytes, points: Points, labels: Labels, columns: int, classes: int, grow: Callable[[Rows, Labels], bytes]
) -> bytes:
    """The state from `grow(rows, labels)`, or `state` itself if it was learned from the same points and labels.

    Without points it is `state`, too. Raises ValueError for labels out of range and points that do not fit.
    """
    if len(labels) != len(points) or (len(labels) and not 0 <= labels.min() <= labels.max() < classes):
        found = f"{len(labels)} labels" + (f" in [{labels.min()}, {labels.max()}]" if len(labels) else "")
        raise ValueError(f"{found}; {len(points)} points need as many labels in [0, {classes - 1}]")
    if not len(labels):
        return state
    rows = as_rows(points, columns)
    digest = hashlib.sha256(rows.data)
    digest.update(labels.astype("<i8").data)
    if state[:_DIGEST] == digest.digest():
        return state
    return sealed(grow(rows, labels), digest.digest())


def pack(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """A numpy archive of `arrays`, the same bytes for the same arrays."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpack(archive: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of `pack`. Raises ValueError for other bytes; nothing in them is executed."""
    try:
        with np.load(io.BytesIO(archive), allow_pickle=False) as arrays:
            return dict(arrays)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"a state of {len(archive)} bytes is not a numpy archive of numbers") from error
