"""Blocks of H as clients send them: the distances among one's own points, packed, and what distances may be."""

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_fields
from tacit.protocols.xclp.lsh import distance_type, distances
from tacit.sim.hollow import Blank, blank, filled, hollow

__all__ = ["own_block", "own_distances", "own_work", "possible"]


def possible(found: NDArray[np.integer], bits: int) -> NDArray[np.integer]:
    """`found`, if all of it can be distances of `bits` bits; else ValueError."""
    if found.size and not ((found.dtype.kind == "u" or found.min() >= 0) and found.max() <= bits):
        raise ValueError(f"distances of {found.min()} to {found.max()}, and {bits} bits allow 0 to {bits}")
    return found


@hollow(lambda bits: blank(field_bytes(len(bits) * (len(bits) - 1) // 2, bits.shape[1].bit_length())))
def own_block(bits: NDArray[np.bool_]) -> bytes:
    """The distances of the rows of `bits` (n, L) from each other, i < k, row by row, in fields of bitlength(L)."""
    h = distances(bits, bits)
    upper = np.concatenate([row[i + 1 :] for i, row in enumerate(h)])
    return pack_fields(upper, bits.shape[1].bit_length())


def own_work(points: int, bits: int) -> dict[str, float]:
    """Operations of `own_block`."""
    return {"hamming.word": points * points * -(-bits // 64)}


def own_distances(block: bytes, points: int, bits: int) -> NDArray[np.integer]:
    """The distances (n, n) that `own_block` has packed, for that number of points."""
    if isinstance(block, Blank):
        return filled((points, points), distance_type(bits))
    upper = unpack_fields(block, bits.bit_length(), points * (points - 1) // 2, distance_type(bits))
    possible(upper, bits)
    found = np.zeros((points, points), upper.dtype)
    start = 0
    for i in range(points - 1):
        stop = start + points - 1 - i
        found[i, i + 1 :] = found[i + 1 :, i] = upper[start:stop]
        start = stop
    return found
