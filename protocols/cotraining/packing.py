"""Labels on the wire: ceil(log2 C) bits each, one after another, lowest bit first, in whole bytes.

Where points may have no label (-1) there is one symbol more, C, and so ceil(log2 (C + 1)) bits: as many as without
unless C is a power of two.
"""

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_fields

__all__ = ["pack", "packed_bytes", "unpack", "width"]

Labels = NDArray[np.int64]


def width(classes: int, gaps: bool = False) -> int:
    """The bits of a label of `classes` >= 1, at least 1; with `gaps` it may be missing."""
    return max(1, (classes - 1 + gaps).bit_length())


def packed_bytes(points: int, classes: int, gaps: bool = False) -> int:
    """The bytes of the labels of `points` points."""
    return field_bytes(points, width(classes, gaps))


def pack(labels: Labels, classes: int, gaps: bool = False) -> bytes:
    """Encode `labels` int64 (n,), each in [0, classes), or -1 with `gaps`. Raises ValueError."""
    _check(labels, classes, gaps)
    return pack_fields(np.where(labels < 0, classes, labels), width(classes, gaps))


def unpack(data: bytes, points: int, classes: int, gaps: bool = False) -> Labels:
    """Decode the output of `pack`. Raises ValueError for a wrong length and for invalid labels."""
    found = unpack_fields(data, width(classes, gaps), points)
    labels = np.where(found == classes, -1, found) if gaps else found
    _check(labels, classes, gaps)
    return labels


def _check(labels: Labels, classes: int, gaps: bool) -> None:
    least = -1 if gaps else 0
    if labels.size and not least <= labels.min() <= labels.max() < classes:
        raise ValueError(f"labels are in [{labels.min()}, {labels.max()}], not in [{least}, {classes - 1}]")
