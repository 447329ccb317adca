"""Slices of a chunk of SecureHamming by OT extension: the pads, and the encoding of the corrections.

Corrections: B = 8, 16 or 32 is the lane that holds w bits. For each vector of k the first floor(L / B) B bits are
packed by `fields.pack_lanes`, (x, group of B bits, word, i); then the remaining fields follow, (x, l, i).
"""

from collections.abc import Iterator

import numpy as np

from tacit.protocols.crypto import iknp
from tacit.protocols.crypto.columns import Words
from tacit.protocols.crypto.fields import Lanes, field_bytes, pack_fields, pack_lanes, unpack_fields, unpack_lanes
from tacit.protocols.crypto.ot_pair import Pair

__all__ = ["Corrections", "Pads", "slices"]

_SLICE = 1 << 20  # bytes of pads of one branch handled at a time: few calls, and they stay in the cache


def slices(pair: Pair, count: int) -> Iterator[tuple[slice, slice]]:
    """Yield (vectors, bits) slices of `count` vectors that fit the cache: whole vectors, or whole groups of bits of
    one."""
    lanes, length = 8 * pair.lane.itemsize, pair.length
    most = max(lanes, _SLICE // (iknp.BLOCK_BYTES * pair.blocks))
    vectors, parts = max(1, most // length), -(-length // (most // lanes * lanes))
    rows = -(-length // (parts * lanes)) * lanes
    for vector in range(0, count, vectors):
        for bit in range(0, length, rows):
            yield slice(vector, min(vector + vectors, count)), slice(bit, min(bit + rows, length))


class Pads:
    """The pads of a chunk, computed slice by slice in the same memory."""

    def __init__(self, pair: Pair, pad_hash: iknp.PadHash, chunk: range) -> None:
        self._pair, self._hash, self._first = pair, pad_hash, chunk.start * pair.length
        self._memory = np.empty(0, "<u8")

    def lanes(self, rows: Words, vectors: slice, bits: slice) -> Lanes:
        """The pads (vectors, bits, n_j) of the `rows` (vectors, bits, 2), valid until the next call."""
        pair, size = self._pair, rows.size * self._pair.blocks
        if self._memory.size < size:
            self._memory = np.empty(size, "<u8")
        out = self._memory[:size].reshape(-1, 2 * pair.blocks)
        first = self._first + vectors.start * pair.length + bits.start
        self._hash.fill(iknp.CORRELATED, rows.reshape(-1, 2), first, out)
        return out.view(pair.lane).reshape(*rows.shape[:2], -1)[:, :, : pair.n_j]


class Corrections:
    """The corrections of `count` vectors of k, packed: `words` of whole groups of B bits, and the fields left over."""

    def __init__(self, pair: Pair, count: int) -> None:
        self._width, self._lanes = pair.width, 8 * pair.lane.itemsize
        self._groups, left = divmod(pair.length, self._lanes)
        self._words = np.empty((count, self._groups, pair.width, pair.n_j), pair.lane)
        self._left = np.empty((count, left, pair.n_j), pair.lane)

    @classmethod
    def from_bytes(cls, pair: Pair, count: int, data: bytes) -> "Corrections":
        """Decode corrections. Raises ValueError for a wrong length."""
        self = cls(pair, count)
        needed = field_bytes(count * pair.length * pair.n_j, pair.width)
        if len(data) != needed:
            raise ValueError(f"the corrections of {count} vectors take {needed} bytes, not {len(data)}")
        words, left = self._words, self._left
        self._words = np.frombuffer(data, pair.lane, words.size).reshape(words.shape)
        self._left = unpack_fields(data[words.nbytes :], pair.width, left.size).astype(pair.lane).reshape(left.shape)
        return self

    def to_bytes(self) -> bytes:
        packed = self._words.tobytes()
        return packed + pack_fields(self._left, self._width) if self._left.size else packed

    def _parts(self, bits: slice) -> tuple[slice, int]:
        """The groups of `bits`, and the number of bits in them."""
        groups = slice(bits.start // self._lanes, min(bits.stop // self._lanes, self._groups))
        return groups, (groups.stop - groups.start) * self._lanes

    def put(self, vectors: slice, bits: slice, values: Lanes) -> None:
        """Store values (vectors, bits, n_j), of which the low w bits count; `bits` begins with a group."""
        groups, whole = self._parts(bits)
        grouped = values[:, :whole].reshape(len(values), -1, self._lanes, values.shape[2])
        pack_lanes(grouped, self._width, self._words[vectors, groups])
        if whole < values.shape[1]:
            self._left[vectors] = values[:, whole:] & values.dtype.type((1 << self._width) - 1)

    def get(self, vectors: slice, bits: slice) -> Lanes:
        """The values (vectors, bits, n_j)."""
        groups, whole = self._parts(bits)
        words = self._words[vectors, groups]
        values = np.empty((len(words), bits.stop - bits.start, words.shape[3]), words.dtype)
        grouped = values[:, :whole].reshape(len(words), -1, self._lanes, words.shape[3])
        unpack_lanes(words, self._width, grouped)
        if whole < values.shape[1]:
            values[:, whole:] = self._left[vectors]
        return values
