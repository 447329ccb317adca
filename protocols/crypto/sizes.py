"""The bytes that must travel, by formula: payloads of what several protocols share, among p clients, none lost.

A message that names clients has their names. Each client-to-client message counts once here, and twice on the wire of a
star; sealing adds 28 bytes to it, and every message has its envelope.
"""

from collections.abc import Collection

__all__ = ["dealing", "secure_sum"]

X25519_BYTES = 32
SEED_BYTES = 32
CHECK_BYTES = 16
FLOAT_BYTES = 8
RING_BYTES = 8
SHARE_BYTES = 4 * -(-256 // 30)  # of a secret of 32 bytes: 4 for each 30 bits


def dealing(clients: Collection[str]) -> dict[str, int]:
    """The bytes that double masking adds to a sum among `clients` = A, none lost: keys, shares, revealed shares."""
    p, names = len(clients), sum(len(name.encode()) for name in clients)
    return {
        "DealtKey": p * X25519_BYTES,
        "DealtKeys": p * (p * X25519_BYTES + names),
        "DealtShares": p * (p - 1) * 2 * SHARE_BYTES,
        "Survivors": p * names,
        "Revealed": p * p * SHARE_BYTES,
    }


def secure_sum(clients: Collection[str], dimension: int) -> dict[str, int]:
    """A secure sum of vectors among `clients` of whom none is lost."""
    return {**dealing(clients), "MaskedChunk": len(clients) * RING_BYTES * dimension}
