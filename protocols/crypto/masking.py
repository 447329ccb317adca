"""Masked values in Z_{2^b}, for all secure sums. b is 64, or fewer for quantised values.

For each pair (j, k) both hold a key; the mask of block i is PRG(key; i), added by the lower of the two, subtracted by
the higher, so that it cancels in a sum over both. With fewer than 64 bits a word is b bits of each 32-bit word of the
stream, or of each 64-bit word where b is above 32, and words are packed (`crypto.words`).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.prg import Streams
from tacit.protocols.crypto.words import WHOLE, mask_of, packed, packed_bytes, packed_rows, unpacked, word_type
from tacit.sim.hollow import Blank, HollowArray, array_in, blank, filled, hollow, together

__all__ = [
    "WORD_BYTES", "Block", "Ring", "SignedKey", "joined", "masks", "masks_work", "parted", "read", "reduced",
]  # fmt: skip

Ring = NDArray[np.unsignedinteger]
"""The words of a sum: uint64, or uint32 if they have at most 32 bits."""

WORD_BYTES = 8
"""The bytes of a word of 64 bits."""

Block = tuple[int, int]
"""A block of a sum: its number, and its number of words."""

SignedKey = tuple[bytes, bool]
"""A key of 32 bytes, and true if its masks are added (by the lower of a pair), false if subtracted."""


def masks_work(keys: int, blocks: Sequence[Block], bits: int = WHOLE) -> dict[str, int]:
    """The operations of `masks`."""
    words = keys * sum(size for _, size in blocks)
    return {"aes.byte": word_type(bits).itemsize * words, "ring.add": words}


@hollow(lambda keys, blocks, bits=WHOLE: [filled(size, word_type(bits)) for _, size in blocks])
def masks(keys: Sequence[SignedKey], blocks: Sequence[Block], bits: int = WHOLE) -> list[Ring]:
    """Sum the masks of all `keys` on each of the `blocks`, in words of `bits`."""
    total = Streams(blocks, word_type(bits)).total(keys)
    return parted(reduced(total, bits), [size for _, size in blocks])


def reduced(values: Ring, bits: int) -> Ring:
    """Reduce `values` modulo 2^bits, in place where possible."""
    if bits < 8 * values.dtype.itemsize and values.flags.writeable:
        values &= values.dtype.type(mask_of(bits))
    return values


def joined(values: Iterable[Ring], bits: int = WHOLE) -> bytes:
    """Encode blocks of words of `bits`, little-endian, one after another."""
    if bits == WHOLE:
        return together([value.astype("<u8", copy=False).tobytes() for value in values])
    return together([
        blank(packed_bytes(value.size, bits)) if isinstance(value, HollowArray) else packed(value, bits)
        for value in values
    ])  # fmt: skip


def joined_rows(rows: Ring, bits: int = WHOLE) -> list[bytes]:
    """Encode each row of `rows` (n, d), words of `bits`, by itself."""
    if isinstance(rows, HollowArray):
        return [blank(packed_bytes(rows.shape[1], bits)) for _ in rows]
    if bits == WHOLE:
        return [row.tobytes() for row in rows.astype("<u8", copy=False)]
    return packed_rows(rows, bits)


def read(values: bytes, sizes: Sequence[int], bits: int = WHOLE) -> list[Ring]:
    """Decode blocks of `sizes` words from `values`. Raises ValueError for a wrong length.

    Words of fewer than 64 bits form a single block.
    """
    if bits < WHOLE:
        (size,) = sizes
        if isinstance(values, Blank) and len(values) == packed_bytes(size, bits):
            return [filled(size, word_type(bits))]
        return [unpacked(bytes(values), size, bits)]
    if len(values) != WORD_BYTES * sum(sizes):
        raise ValueError(f"{sum(sizes)} words take {WORD_BYTES * sum(sizes)} bytes, not {len(values)}")
    return parted(array_in(values, "<u8"), sizes)


def parted(values: Ring, sizes: Sequence[int]) -> list[Ring]:
    """Cut `values` into blocks of `sizes` words. Raises ValueError for a wrong length."""
    if len(values) != sum(sizes):
        raise ValueError(f"{sum(sizes)} words were due, not {len(values)}")
    return np.split(values, np.cumsum(sizes)[:-1])
