"""Locality-sensitive hashing: vectors become bits whose Hamming distances estimate their angles.

XCLP, Section 3, Phase 1 and Algorithm 1, lines 3-4. The L planes are d-dimensional with i.i.d. N(0, 1)
entries, the same for every client, and bit l of a vector v is 1 if <v, plane_l> >= 0. A random plane separates
two vectors with probability angle / pi, so for bits b and b'

    cos(v, v') ~ cos(pi h(b, b') / L),  h the Hamming distance, a number in 0..L.

Each plane may also be made orthogonal to the others, as far as d allows: each alone is a random one still, so that
estimates have the same mean, and together they cover the directions evenly, so that these scatter less (Ji et al.,
Super-bit locality-sensitive hashing, NIPS 2012). The authors' code has such planes, by its library (faiss, IndexLSH).

The planes come from the group seed alone, which the clients share and the server never learns, through AES-256 in
counter mode (`tacit.sim.streams.Entropy`): whoever sees hashes, or knows some planes, cannot compute others. Common
choices are L = 4096 in training (the paper, Section 3.3) and 1024 for prediction.

Bits are stored eight a byte, the first bit lowest: bit l of the integer that a row's bytes form in
little-endian order is b_l. Unused bits of the last byte are 0.
"""

from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.privacy.noise import gaussian
from tacit.sim.alike import alike
from tacit.sim.hollow import array_in
from tacit.sim.streams import Entropy

__all__ = ["distance_type", "distances", "hash_bits", "hash_work", "pack_bits", "packed_rows", "planes", "unflipped"]

SEED_BYTES = 32

_AT_ONCE = 1 << 15  # distances; each takes 8 bytes of bits and 3 of counts
_WORDS = 1 << 14
"""The most pairs of words (rows of one matrix times words of the other) compared at a time."""


@alike
def planes(seed: bytes, bits: int, dimension: int, *, orthogonal: bool = False) -> NDArray[np.float64]:
    """The hash planes, float64 (bits, dimension), bound to the group seed (32 bytes) and nothing else.

    The planes for fewer bits are the first rows of those for more. `orthogonal`: planes from a QR decomposition: up to
    `dimension` planes are orthonormal; with more, the columns are. The result is read-only. Raises ValueError for a
    seed of another length and for sizes below 1.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a group seed is {SEED_BYTES} bytes, not {len(seed)}")
    if bits < 1 or dimension < 1:
        raise ValueError(f"bits(={bits}) and dimension(={dimension}) must be >= 1")
    drawn = gaussian((bits, dimension), Entropy.seeded(seed, "lsh", "planes"))
    found = _orthogonal(drawn) if orthogonal else drawn
    found.flags.writeable = False  # all clients of a simulation use the same
    return found


def _orthogonal(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """The planes (bits, dimension) of a QR decomposition of those that were `drawn`."""
    bits, dimension = drawn.shape
    tall = drawn if bits >= dimension else drawn.T
    columns, triangle = np.linalg.qr(tall)
    even = columns * np.where(np.diag(triangle) < 0, -1.0, 1.0)  # else not every direction is as likely (Mezzadri 2007)
    return even if bits >= dimension else even.T


def hash_bits(features: NDArray[np.float64], planes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The bits of each row: bool (n, L) from features (n, d) and planes (L, d)."""
    return features @ planes.T >= 0.0


def hash_work(
    points: int, dimension: int, bits: int, *, flipped: bool = False, orthogonal: bool = False
) -> dict[str, int]:
    """The operations of drawing the planes, of `hash_bits`, and, if bits are `flipped`, of the coins: 64 bits each.

    If planes are `orthogonal`, also those of the decomposition, which multiplies each number with each of a row.
    """
    coins = {"aes.byte": 8 * points * bits} if flipped else {}
    decomposed = 2 * min(dimension, bits) if orthogonal else 0
    return {"lsh.multiply": (points + 1 + decomposed) * dimension * bits} | coins


def unflipped(distance: int, bits: int, flip: float) -> float:
    """The estimate of the distance of two vectors of L = `bits` bits from that of their flipped ones, `distance`.

    Bits that were each flipped with probability p = `flip` differ with probability 2 p (1 - p) where the vectors agree,
    and 1 - 2 p (1 - p) where they do not: E h' = 2 p (1 - p) L + (1 - 2 p)^2 h. Solved for h, and clipped at 0. Right
    angles stay right angles: L / 2 is mapped to L / 2.
    """
    return max(0.0, (distance - 2 * flip * (1 - flip) * bits) / (1 - 2 * flip) ** 2)


def pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Pack bits (n, L), eight a byte: uint8 (n, ceil(L / 8))."""
    return np.packbits(bits, axis=1, bitorder="little")


def packed_rows(data: bytes, rows: int, bits: int) -> NDArray[np.uint8]:
    """Decode a message of `rows` vectors of `bits` bits (`numpy.packbits`), each in whole bytes.

    Returns uint8 (rows, ceil(bits / 8)) for `distances`; unused bits are 0. Raises ValueError for a wrong number of
    bytes.
    """
    if len(data) != -(-rows * bits // 8):
        raise ValueError(f"{rows} vectors of {bits} bits take {-(-rows * bits // 8)} bytes, not {len(data)}")
    received = array_in(data, np.uint8)
    if bits % 8:  # then a row begins within a byte
        received = np.packbits(np.unpackbits(received, count=rows * bits).reshape(rows, bits), axis=1)
    return received.reshape(rows, -(-bits // 8))


@cache
def distance_type(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest type that holds the distances of `bits` bits, 0..bits, and one number more."""
    return np.min_scalar_type(bits + 1)


def distances(
    rows: NDArray[np.bool_] | NDArray[np.uint8], others: NDArray[np.bool_] | NDArray[np.uint8]
) -> NDArray[np.unsignedinteger[Any]]:
    """Compute Hamming distances of every row of `rows` to every row of `others`, (n_rows, n_others), in
    `distance_type`.

    Both hold the same number L of bits, either as bool (n, L) or packed, uint8 (n, ceil(L / 8)). Raises ValueError if
    they do not.
    """
    left, right = _words(rows), _words(others)
    if rows.dtype != others.dtype or rows.shape[1] != others.shape[1]:
        raise ValueError(f"{rows.shape[1]} {rows.dtype} a row cannot be compared with {others.shape[1]} {others.dtype}")
    bits = rows.shape[1] * (1 if rows.dtype == np.bool_ else 8)
    if len(left) * right.size <= _WORDS:
        return np.bitwise_count(left[:, None] ^ right).sum(axis=2, dtype=distance_type(bits))
    result = np.zeros((len(left), len(right)), distance_type(bits))
    # Word by word, some rows at a time: what is added to stays in the cache.
    columns = np.ascontiguousarray(right.T)
    step = max(1, _AT_ONCE // max(1, len(right)))
    differ = np.empty((step, len(right)), np.uint64)
    counts = np.empty((step, len(right)), np.uint8)
    for start in range(0, len(left), step):
        some = left[start : start + step]
        for word, column in enumerate(columns):
            np.bitwise_xor(some[:, word, None], column, out=differ[: len(some)])
            np.bitwise_count(differ[: len(some)], out=counts[: len(some)])
            result[start : start + step] += counts[: len(some)]
    return result


def _words(rows: NDArray[np.bool_] | NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Pack each row's bits into 64-bit words, padded with zeros, which add nothing to a distance."""
    packed = pack_bits(cast("NDArray[np.bool_]", rows)) if rows.dtype == np.bool_ else rows
    if packed.shape[1] % 8 == 0:
        return np.ascontiguousarray(packed).view(np.uint64)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
