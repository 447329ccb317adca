"""The secrets of the masks from shares of seeds and dealt keys: the computing of `dealing.uncover`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from protocols.crypto import shamir, share_errors
from protocols.crypto.agreement import KEY_BYTES, KeyPair

__all__ = ["Corrected", "Held", "Secrets", "combine", "correct"]

Held = dict[str, dict[int, bytes]]
"""The shares of each client's secret, in the order of A, by their x."""

Secrets = dict[tuple[str, str], bytes]
"""The seed of each survivor at (name, name); the raw secret of each lost and each survivor at (lost, survivor)."""


@dataclass(frozen=True)
class Corrected:
    """`wrong` shares by holder and dealer; why a secret is `hopeless`; the `secrets` where none is."""

    secrets: Secrets = field(repr=False)
    wrong: list[tuple[str, str]]
    hopeless: list[str]


def combine(public_keys: Mapping[str, bytes], survivors: Sequence[str], held: Held, threshold: int) -> Secrets | None:
    """Combine the first shares of `held`; None if they do not fit together.

    `public_keys`: the second ones, of A. The dealt key of one who is lost must be the private half.
    """
    same_places: dict[tuple[int, ...], list[str]] = {}
    for name, shares in held.items():
        same_places.setdefault(tuple(sorted(shares)[:threshold]), []).append(name)
    found: dict[str, bytes] = {}
    for places, names in same_places.items():
        rows = b"".join(held[name][x] for x in places for name in names)
        table = np.frombuffer(rows, np.uint8).reshape(threshold, len(names), -1)
        try:
            found |= zip(names, shamir.combine(places, table, threshold, KEY_BYTES), strict=True)
        except ValueError:
            return None
    if any(not _is_half_of(public_keys[name], found[name]) for name in public_keys if name not in survivors):
        return None
    return _opened(public_keys, survivors, found)


def correct(public_keys: Mapping[str, bytes], survivors: Sequence[str], held: Held, threshold: int) -> Corrected:
    """The secrets from those shares that fit together, and which do not."""
    names = list(public_keys)
    found: dict[str, bytes] = {}
    wrong: list[tuple[str, str]] = []
    hopeless: list[str] = []
    for name, shares in held.items():
        is_key = name not in survivors
        right = partial(_is_half_of, public_keys[name]) if is_key else None
        try:
            found[name], places = share_errors.corrected(shares, threshold, KEY_BYTES, right)
        except ValueError as error:
            hopeless.append(f"{'the dealt key' if is_key else 'the seed'} of {name}: {error}")
        else:
            wrong += ((names[x - 1], name) for x in places)
    return Corrected({} if hopeless else _opened(public_keys, survivors, found), wrong, hopeless)


def _is_half_of(public_key: bytes, private: bytes) -> bool:
    return KeyPair(private).public == public_key


def _opened(public_keys: Mapping[str, bytes], survivors: Sequence[str], secrets: Mapping[str, bytes]) -> Secrets:
    """Restore the secrets from seeds and dealt keys."""
    found = {(name, name): secrets[name] for name in survivors}
    for name in public_keys:
        if name not in survivors:
            pair = KeyPair(secrets[name])
            found |= {(name, other): pair.agree(public_keys[other]) for other in survivors}
    return found
