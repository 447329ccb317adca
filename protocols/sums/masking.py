"""Masked values in Z_{2^64}: what all secure sums here have in common.

For each pair (j, k) both hold a key; the mask of block i is PRG(key; i), added by the lower of the two, subtracted by
the higher, so that it cancels in a sum over both.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.prg import Streams
from tacit.sim.hollow import array_in, filled, hollow, together

__all__ = ["WORD_BYTES", "Block", "Ring", "SignedKey", "joined", "masks", "masks_work", "parted", "read"]

Ring = NDArray[np.uint64]

WORD_BYTES = 8

Block = tuple[int, int]
"""A block of a sum: its number, and how many words it has."""

SignedKey = tuple[bytes, bool]
"""A key of 32 bytes, and whether its masks are added (as by the lower of a pair) or subtracted."""


def masks_work(keys: int, blocks: Sequence[Block]) -> dict[str, int]:
    """Operations of `masks`."""
    words = keys * sum(size for _, size in blocks)
    return {"aes.byte": WORD_BYTES * words, "ring.add": words}


@hollow(lambda keys, blocks: [filled(size, np.uint64) for _, size in blocks])
def masks(keys: Sequence[SignedKey], blocks: Sequence[Block]) -> list[Ring]:
    """The sum of the masks of all `keys` on each of the `blocks`."""
    streams = Streams(blocks)
    total = np.zeros(streams.size, np.uint64)
    for key, added in keys:
        (np.add if added else np.subtract)(total, streams.words(key), out=total)
    return parted(total, [size for _, size in blocks])


def joined(values: Iterable[Ring]) -> bytes:
    """Blocks of words as bytes, little-endian, one after another."""
    return together([value.astype("<u8", copy=False).tobytes() for value in values])


def read(values: bytes, sizes: Sequence[int]) -> list[Ring]:
    """The blocks of `sizes` words in `values`. Raises ValueError where the length does not fit."""
    if len(values) != WORD_BYTES * sum(sizes):
        raise ValueError(f"{sum(sizes)} words take {WORD_BYTES * sum(sizes)} bytes, not {len(values)}")
    return parted(array_in(values, "<u8"), sizes)


def parted(values: Ring, sizes: Sequence[int]) -> list[Ring]:
    """`values` cut into blocks of `sizes` words. Raises ValueError where the length does not fit."""
    if len(values) != sum(sizes):
        raise ValueError(f"{sum(sizes)} words were due, not {len(values)}")
    return np.split(values, np.cumsum(sizes)[:-1])
