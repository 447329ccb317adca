"""Masks in coded pieces: any U of N pieces of each mask give the sum of the masks, T pieces say nothing about one.

So et al., LightSecAgg, MLSys 2022, Section 4. A mask z of d numbers in GF(p), p = 2^31 - 1, is cut into U - T parts of
ceil(d / (U - T)) numbers, padded by zeros, to which T uniform parts are added. Place by place, the U parts are the
values of a polynomial of degree U - 1 at the points 1 to U, and piece j is its value at U + j, for j = 1 to N. Pieces
are linear in the parts, so the sum of the pieces j of several masks is piece j of the sum of the masks.

Any U pieces determine the polynomial. For T points at which pieces are, the T rows of Lagrange coefficients of the
uniform parts form a Cauchy matrix times two diagonal ones without zeros: it is invertible, so T pieces of one mask are
uniform, whatever the mask is. That holds against unbounded computing, as in Shamir's scheme (T = U - 1).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.mersenne import GF31
from tacit.protocols.crypto.shamir import PRIME, Field
from tacit.sim.hollow import filled, hollow, unknown
from tacit.sim.streams import Entropy

__all__ = [
    "PIECE_BITS",
    "decoded",
    "decoded_work",
    "encoding",
    "mask_and_pieces",
    "piece_length",
    "pieces_work",
    "summed",
]

PIECE_BITS = PRIME.bit_length()
"""Bits of a number of a mask or a piece."""


def piece_length(dimension: int, needed: int, private: int) -> int:
    """The numbers of a piece, ceil(d / (U - T)). Raises ValueError unless 0 <= T < U."""
    if not 0 <= private < needed:
        raise ValueError(f"private(={private}) must be at least 0 and below needed(={needed})")
    return -(-dimension // (needed - private))


def pieces_work(dimension: int, needed: int, private: int, clients: int) -> dict[str, int]:
    """Operations of `mask_and_pieces`."""
    return GF31.times_work(clients, needed, piece_length(dimension, needed, private))


def decoded_work(dimension: int, needed: int, private: int) -> dict[str, int]:
    """Operations of `decoded`."""
    return GF31.times_work(needed - private, needed, piece_length(dimension, needed, private))


def _hollow_pieces(dimension: int, needed: int, private: int, clients: int, entropy: Entropy) -> tuple[Field, Field]:
    length = piece_length(dimension, needed, private)
    return filled(dimension, np.uint64), unknown((clients, length))


@hollow(_hollow_pieces)
def mask_and_pieces(
    dimension: int, needed: int, private: int, clients: int, entropy: Entropy
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """A uniform mask (dimension,) and its pieces (clients, length), row j for client j.

    `needed` pieces, U, give a mask back; `private` of them, T, say nothing about it.
    """
    length = piece_length(dimension, needed, private)
    mask = GF31.uniform((dimension,), entropy)
    parts = np.zeros((needed, length), np.uint64)
    parts[: needed - private].reshape(-1)[:dimension] = mask
    parts[needed - private :] = GF31.uniform((private, length), entropy)
    return mask, GF31.times(encoding(needed, clients), parts)


@lru_cache(8)  # all clients of a simulation ask for the same
def encoding(needed: int, clients: int) -> Field:
    """The coefficients (clients, needed) of the U = `needed` parts of a mask in each client's piece."""
    found = GF31.lagrange(range(1, needed + 1), range(needed + 1, needed + clients + 1))
    found.flags.writeable = False
    return found


@hollow(lambda pieces, dimension, needed, private: filled(dimension, np.uint64))
def decoded(pieces: Mapping[int, Field], dimension: int, needed: int, private: int) -> NDArray[np.uint64]:
    """The mask of which `needed` pieces are given, by the place of their client, from 0: (dimension,).

    Raises ValueError where there are fewer.
    """
    if len(pieces) < needed:
        raise ValueError(f"{len(pieces)} pieces are there; {needed} are needed")
    places = sorted(pieces)[:needed]
    parts = GF31.lagrange([needed + 1 + place for place in places], range(1, needed - private + 1))
    return GF31.times(parts, np.stack([pieces[place] for place in places])).reshape(-1)[:dimension]


def summed(rows: Sequence[Field]) -> Field:
    """The sum of rows over GF(p)."""
    return np.add.reduce(rows) % np.uint64(PRIME)
