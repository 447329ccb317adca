"""SecureHamming by oblivious transfer for both clients of a pair and the server: sizes, chunks and sums."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.protocols.crypto.fields import Lanes, field_bytes, lane_type, pack_fields, unpack_fields
from tacit.sim.hollow import blank, filled, hollow

__all__ = ["Pair", "sums", "sums_work", "unmask", "unmask_work"]

Bits = NDArray[np.bool_]

_REQUESTS = 1 << 12  # Naor-Pinkas transfers a chunk
_TRANSFERS = 1 << 14  # extended transfers a block, at most: 256 KiB of rows, and AES is called for long stretches
_ROWS = 96 << 20  # bytes of rows that are kept, of all pairs together
_ROW_BYTES = 48  # of a transfer: u and t at k, q at j
_CHUNK = 1 << 14, 1 << 19  # bytes that travel back a chunk, least and most: a long one holds up others in a pipe
_UNDER_WAY = 96 << 20  # bytes that travel back and are under way, of all pairs together
_AHEAD = 2, 4  # chunks requested ahead: those for which a chunk's size leaves room, and the most
_BLOCK_BYTES = 16  # of AES


@dataclass(frozen=True)
class Pair:
    """The public data of a pair: n_j and n_k vectors of `length` bits, and the context that binds all pads.

    All pairs of `clients` run at the same time, so chunks are smaller with more clients.
    """

    n_j: int
    n_k: int
    length: int
    context: bytes
    clients: int = 2

    def __post_init__(self) -> None:
        if min(self.n_j, self.n_k, self.length) < 1:
            raise ValueError(f"n_j(={self.n_j}), n_k(={self.n_k}) and length(={self.length}) must be >= 1")
        if self.clients < 2:
            raise ValueError(f"clients(={self.clients}) must be >= 2 to make a pair")

    @property
    def width(self) -> int:
        """The bits w of a distance; M = 2^w."""
        return self.length.bit_length()

    @property
    def modulus(self) -> int:
        """The modulus M = 2^w."""
        return 1 << self.width

    @property
    def lane(self) -> np.dtype:
        """The integer type of sums mod M, which wrap by themselves."""
        return lane_type(self.width)

    @property
    def blocks(self) -> int:
        """The number of AES blocks that hold n_j lanes."""
        return -(-self.n_j * self.lane.itemsize // _BLOCK_BYTES)

    @property
    def message_bytes(self) -> int:
        """The bytes of a message of the naor-pinkas variant."""
        return -(-self.width // 8)

    def naor_pinkas_chunks(self) -> list[range]:
        """The chunks of k's vectors for `naor-pinkas`: about 4,096 transfers each, at least one vector."""
        return _cut(range(self.n_k), _REQUESTS // (self.n_j * self.length))

    def iknp_chunks(self) -> list[range]:
        """The chunks for `iknp`: 16 to 512 KiB of corrections each, but at least one vector."""
        return [chunk for block in self.iknp_blocks() for chunk in _cut(block, self._vectors)]

    def iknp_blocks(self) -> list[range]:
        """The blocks of whole chunks whose rows are computed together.

        A block has at most 2^14 transfers, and fits this pair's share of the memory for rows, but has at least one
        chunk.
        """
        chunks = min(_TRANSFERS, _ROWS // self._pairs // _ROW_BYTES) // (self._vectors * self.length)
        return _cut(range(self.n_k), max(1, chunks) * self._vectors)

    def chunks_of(self, block: range) -> list[range]:
        """The chunks of a block for `iknp`."""
        return _cut(block, self._vectors)

    @property
    def iknp_window(self) -> int:
        """The number of chunks that k may request without an answer: 2 to 4, depending on this pair's share of memory.

        It is 1 if two single vectors exceed that share.
        """
        return max(1, min(_AHEAD[1], self._share // self.correction_bytes(range(self._vectors))))

    @property
    def _share(self) -> int:
        """The bytes that each pair may have in flight."""
        return _UNDER_WAY // self._pairs

    @property
    def _pairs(self) -> int:
        """The number of pairs of clients."""
        return self.clients * (self.clients - 1) // 2

    @property
    def _vectors(self) -> int:
        """The number of k's vectors in a chunk for `iknp`."""
        least, most = _CHUNK
        size = max(least, min(most, self._share // _AHEAD[0]))
        return max(1, size // self.correction_bytes(range(1)))

    def correction_bytes(self, chunk: range) -> int:
        """The bytes of the corrections of `chunk`."""
        return field_bytes(len(chunk) * self.length * self.n_j, self.width)

    def bits_of(self, bits: ArrayLike, count: int) -> Bits:
        """Convert `bits` to bool (count, length). Raises ValueError for another shape or other values than 0 and 1."""
        matrix = np.asarray(bits)
        if matrix.shape != (count, self.length):
            raise ValueError(f"bits of shape {(count, self.length)} are needed, not {matrix.shape}")
        if matrix.dtype != np.bool_ and not (np.issubdtype(matrix.dtype, np.integer) and np.isin(matrix, (0, 1)).all()):
            raise ValueError(f"bits must be 0 or 1 (bool or integer), got {matrix.dtype}")
        return matrix.astype(np.bool_, copy=False)

    def check(self, chunk: range) -> None:
        """Raises ValueError unless `chunk` is a range of k's vectors."""
        if not (chunk.step == 1 and 0 <= chunk.start < chunk.stop <= self.n_k):
            raise ValueError(f"{chunk} is no range of vectors 0 to {self.n_k - 1}")


def _cut(vectors: range, size: int) -> list[range]:
    """Cut `vectors` into parts of `size`, at least 1; the last one may be shorter."""
    step = max(1, size)
    return [vectors[start : start + step] for start in range(0, len(vectors), step)]


@hollow(lambda pair, parts: blank(field_bytes(pair.n_j * pair.n_k, pair.width)))
def sums(pair: Pair, parts: Sequence[Lanes]) -> bytes:
    """Encode R or T for the server, from the parts of all chunks in order. Raises ValueError if some are missing."""
    total = np.concatenate(parts)
    if total.shape != (pair.n_k, pair.n_j):
        raise ValueError(f"sums of shape {(pair.n_k, pair.n_j)} are needed, not {total.shape}")
    return pack_fields(total, pair.width)


@hollow(lambda t, r, n_j, n_k, length: filled((n_k, n_j), np.int64))
def unmask(t: bytes, r: bytes, n_j: int, n_k: int, length: int) -> NDArray[np.int64]:
    """Server: compute distances (n_k, n_j), each in 0..length, from T of k and R of j.

    Raises ValueError for a wrong size, or if a distance exceeds `length`: then T and R do not belong together.
    """
    width = length.bit_length()
    plain = [unpack_fields(data, width, n_j * n_k) for data in (t, r)]
    distances = (plain[0] - plain[1]) & ((1 << width) - 1)
    if distances.max() > length:
        raise ValueError(f"T - R mod 2^{width} exceeds {length}: the two do not belong together")
    return distances.reshape(n_k, n_j)


def sums_work(pair: Pair) -> dict[str, int]:
    """Operations of `sums`."""
    return {"fields.pack": pair.n_j * pair.n_k}


def unmask_work(pair: Pair) -> dict[str, int]:
    """Operations of `unmask`."""
    return {"fields.unpack": 2 * pair.n_j * pair.n_k}
