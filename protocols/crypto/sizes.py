"""Lengths for the formulas of payloads: a message that names clients contains their names."""

from collections.abc import Iterable
from itertools import combinations

__all__ = ["FLOAT_BYTES", "peers", "text"]

FLOAT_BYTES = 8


def text(names: Iterable[str]) -> int:
    """The bytes of all `names`."""
    return sum(len(name.encode()) for name in names)


def peers(clients: Iterable[str]) -> tuple[int, int]:
    """The bytes of the names of j, and of those of k, in all pairs j < k."""
    pairs = list(combinations(clients, 2))
    return text(j for j, _ in pairs), text(k for _, k in pairs)
