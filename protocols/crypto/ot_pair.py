"""What both clients of a pair, and the server, know of SecureHamming by oblivious transfer: sizes, chunks, sums."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.crypto.fields import Lanes, field_bytes, lane_type, pack_fields, unpack_fields

__all__ = ["Pair", "sums", "sums_work", "unmask", "unmask_work"]

Bits = NDArray[np.bool_]

_REQUESTS = 1 << 12  # Naor-Pinkas transfers a chunk
_TRANSFERS = 1 << 18  # extended transfers a chunk
_CORRECTIONS = 1 << 22  # bytes of corrections a chunk; every pair of a simulation may have one under way
_BLOCK_BYTES = 16  # of AES


@dataclass(frozen=True)
class Pair:
    """What both clients know: n_j and n_k vectors of `length` bits, and the context that binds all pads."""

    n_j: int
    n_k: int
    length: int
    context: bytes

    def __post_init__(self) -> None:
        if min(self.n_j, self.n_k, self.length) < 1:
            raise ValueError(f"n_j(={self.n_j}), n_k(={self.n_k}) and length(={self.length}) must be >= 1")

    @property
    def width(self) -> int:
        """w, bits of a distance; M = 2^w."""
        return self.length.bit_length()

    @property
    def modulus(self) -> int:
        """M = 2^w."""
        return 1 << self.width

    @property
    def lane(self) -> np.dtype:
        """The type in which sums mod M are taken, wrapping by themselves."""
        return lane_type(self.width)

    @property
    def blocks(self) -> int:
        """AES blocks that hold n_j lanes."""
        return -(-self.n_j * self.lane.itemsize // _BLOCK_BYTES)

    @property
    def message_bytes(self) -> int:
        """Bytes of a message of the naor-pinkas variant."""
        return -(-self.width // 8)

    def naor_pinkas_chunks(self) -> list[range]:
        """The chunks of k's vectors for `naor-pinkas`: about 4,096 transfers each, at least one vector."""
        return self._cut(_REQUESTS // (self.n_j * self.length))

    def iknp_chunks(self) -> list[range]:
        """The chunks for `iknp`: at most 2^18 transfers and 4 MiB of corrections each, but at least one vector."""
        per_vector = field_bytes(self.n_j * self.length, self.width)
        return self._cut(min(_TRANSFERS // self.length, _CORRECTIONS // per_vector))

    def correction_bytes(self, chunk: range) -> int:
        """Bytes of the corrections of `chunk`."""
        return field_bytes(len(chunk) * self.length * self.n_j, self.width)

    def _cut(self, size: int) -> list[range]:
        step = max(1, size)
        return [range(start, min(start + step, self.n_k)) for start in range(0, self.n_k, step)]

    def bits_of(self, bits: ArrayLike, count: int) -> Bits:
        """`bits` as bool (count, length). Raises ValueError for another shape or other values than 0 and 1."""
        matrix = np.asarray(bits)
        if matrix.shape != (count, self.length):
            raise ValueError(f"bits of shape {(count, self.length)} are needed, not {matrix.shape}")
        if matrix.dtype != np.bool_ and not (np.issubdtype(matrix.dtype, np.integer) and np.isin(matrix, (0, 1)).all()):
            raise ValueError(f"bits must be 0 or 1 (bool or integer), got {matrix.dtype}")
        return matrix.astype(np.bool_)

    def check(self, chunk: range) -> None:
        """Raises ValueError unless `chunk` is a range of k's vectors."""
        if not (chunk.step == 1 and 0 <= chunk.start < chunk.stop <= self.n_k):
            raise ValueError(f"{chunk} is no range of vectors 0 to {self.n_k - 1}")


def sums(pair: Pair, parts: Sequence[Lanes]) -> bytes:
    """R or T for the server, from the parts of all chunks in order. Raises ValueError when some are missing."""
    total = np.concatenate(parts)
    if total.shape != (pair.n_k, pair.n_j):
        raise ValueError(f"sums of shape {(pair.n_k, pair.n_j)} are needed, not {total.shape}")
    return pack_fields(total, pair.width)


def unmask(t: bytes, r: bytes, n_j: int, n_k: int, length: int) -> NDArray[np.int64]:
    """The server: distances (n_k, n_j), each in 0..length, from T of k and R of j.

    Raises ValueError when a size is wrong, or when a distance exceeds `length`: then T and R do not belong together.
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
