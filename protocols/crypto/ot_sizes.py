"""The bytes that must travel in SecureHamming by oblivious transfer, by formula: payloads of all pairs.

n_j points of client j, L hash bits, w = bitlength(L), e bytes an element of the group. Packed fields are rounded up to
whole bytes a message: the sums of a pair are one message each, corrections one for each of `Pair.iknp_chunks`. Points
are ordered by the clients' names; the sender of a sum names the other client of its pair.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from protocols.crypto.fields import field_bytes
from protocols.crypto.ot_pair import Pair
from protocols.crypto.sizes import peers

__all__ = ["iknp_hamming", "naor_pinkas", "naor_pinkas_hamming"]

_BASE = 128


def naor_pinkas(transfers: int, element_bytes: int, message_bits: int) -> dict[str, int]:
    """A batch of `transfers`; `message_bits` 0: random ones, which need no reply."""
    return {
        "TransferSetup": 2 * element_bytes,
        "TransferRequest": transfers * element_bytes,
        "TransferReply": 2 * transfers * -(-message_bits // 8),
    }


def _pairs(points: Mapping[str, int], bits: int) -> list[Pair]:
    return [Pair(n_j, n_k, bits, b"", len(points)) for n_j, n_k in combinations(points.values(), 2)]


def _sums(clients: Iterable[str], pairs: Sequence[Pair]) -> dict[str, int]:
    block = sum(field_bytes(pair.n_j * pair.n_k, pair.width) for pair in pairs)
    j, k = peers(clients)
    return {"Masks": block + k, "MaskedDistances": block + j}


def naor_pinkas_hamming(points: Mapping[str, int], bits: int, element_bytes: int) -> dict[str, int]:
    """One transfer of w bits for each bit of each pair of vectors; `points`: n_j."""
    pairs = _pairs(points, bits)
    transfers = sum(pair.n_j * pair.n_k * bits for pair in pairs)
    return {
        "TransferSetup": len(pairs) * 2 * element_bytes,
        "TransferRequest": transfers * element_bytes,
        "TransferReply": 2 * transfers * -(-bits.bit_length() // 8),
        **_sums(points, pairs),
    }


def iknp_hamming(points: Mapping[str, int], bits: int, element_bytes: int) -> dict[str, int]:
    """128 base transfers a pair, then n_k L extended ones of n_j fields each."""
    pairs = _pairs(points, bits)
    return {
        "BaseSetup": len(pairs) * 2 * element_bytes,
        "BaseRequest": len(pairs) * _BASE * element_bytes,
        "Extension": sum(pair.n_k * bits * _BASE // 8 for pair in pairs),
        "Corrections": sum(pair.correction_bytes(chunk) for pair in pairs for chunk in pair.iknp_chunks()),
        **_sums(points, pairs),
    }
