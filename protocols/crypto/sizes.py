"""Lengths of which formulas of payloads are made. What belongs to clients is ordered by their names.

Packed fields are rounded up to whole bytes a message; a message that names clients has their names.
"""

from collections.abc import Iterable
from itertools import combinations

__all__ = ["fields", "peers", "text"]

X25519_BYTES = 32
SIGNATURE_BYTES = 64
SEED_BYTES = 32
CHECK_BYTES = 16
FLOAT_BYTES = 8
RING_BYTES = 8
SHARE_BYTES = 4 * -(-256 // 30)  # of a secret of 32 bytes: 4 for each 30 bits


def fields(count: int, width: int) -> int:
    """Bytes of `count` fields of `width` bits."""
    return -(-count * width // 8)


def text(names: Iterable[str]) -> int:
    """Bytes of `names`."""
    return sum(len(name.encode()) for name in names)


def peers(clients: Iterable[str]) -> tuple[int, int]:
    """The names of j, and those of k, in all pairs j < k."""
    pairs = list(combinations(clients, 2))
    return text(j for j, _ in pairs), text(k for _, k in pairs)
