"""Lengths for the formulas of payloads. Values of clients are in the order of their names.

Packed fields are rounded up to whole bytes in each message; a message that names clients contains their names.
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
    """The bytes of `count` fields of `width` bits."""
    return -(-count * width // 8)


def text(names: Iterable[str]) -> int:
    """The bytes of all `names`."""
    return sum(len(name.encode()) for name in names)


def peers(clients: Iterable[str]) -> tuple[int, int]:
    """The bytes of the names of j, and of those of k, in all pairs j < k."""
    pairs = list(combinations(clients, 2))
    return text(j for j, _ in pairs), text(k for _, k in pairs)
