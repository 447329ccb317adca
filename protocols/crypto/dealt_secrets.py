"""Secrets that clients deal in shares for double masking: restored from t shares, with the keys of masks that follow.

Each client of A deals the private half of its second pair and the seed of its personal mask (`sums.dealing` has the
messages, and the paper). Of a client that was lost, the second key gives its pair masks; of another, the seed gives its
personal mask. Shares that do not fit together are found as far as possible (`share_errors`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from tacit.protocols.crypto import shamir, share_errors
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret, StandIn, derive_key
from tacit.protocols.crypto.masking import SignedKey
from tacit.protocols.crypto.regular_graph import Graph
from tacit.sim.hollow import hollow, predicted

__all__ = [
    "SHARE", "Attempt", "Corrected", "Held", "Secrets", "agreements", "combine", "combine_work", "correct",
    "personal_key", "signed_keys",
]  # fmt: skip

SHARE = shamir.share_bytes(KEY_BYTES)
"""The bytes of a share."""

Held = dict[str, dict[int, bytes]]
"""The shares of each client's secret, in the order of A, by their x."""

Secrets = dict[tuple[str, str], bytes]
"""The seed of each survivor at (name, name); the raw secret of each pair at (lost, survivor)."""


@dataclass(frozen=True)
class Attempt:
    """Attempt `number` of a sum: A with its second public keys and its titles (incarnations), and t = `threshold`.

    U3 must have `fewest` clients, if that is more than `threshold`. `graph`: the neighbours that deal with each other;
    None: all with all.
    """

    number: int
    public_keys: dict[str, bytes]
    titles: dict[str, str]
    threshold: int
    fewest: int = 0
    graph: Graph | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The clients of A."""
        return tuple(self.public_keys)

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each client of A, from 0."""
        return {name: place for place, name in enumerate(self.names)}

    def holders(self, name: str) -> tuple[str, ...]:
        """The clients that exchange shares with `name`: its neighbours, or all of A."""
        return self.names if self.graph is None else self.graph.neighbours(name)

    def place(self, dealer: str, holder: str) -> int:
        """The x of the share of `dealer` that `holder` has."""
        return 1 + (self.places[holder] if self.graph is None else self.graph.neighbours(dealer).index(holder))


@dataclass(frozen=True)
class Corrected:
    """The result of error correction: `wrong` shares by holder and dealer, `hopeless` secrets, or `secrets`.

    A hopeless one has its kind, its client and the problem."""

    secrets: Secrets = field(repr=False)
    wrong: list[tuple[str, str]]
    hopeless: list[tuple[str, str, str]]


def agreements(attempt: Attempt, survivors: Collection[str]) -> int:
    """The number of pairs of a lost and a surviving client whose masks are left."""
    if attempt.graph is None:
        return (len(attempt.names) - len(survivors)) * len(survivors)
    left = frozenset(survivors)
    return sum(len(left.intersection(attempt.holders(name))) for name in attempt.names if name not in left)


def combine_work(attempt: Attempt, held: Held) -> dict[str, int]:
    """The multiply-adds of `combine`: in a graph, coefficients for each set of places."""
    t, names = attempt.threshold, attempt.names
    work = shamir.combine_work(KEY_BYTES, len(names), t)
    if attempt.graph is not None:
        for name, count in shamir.combine_work(KEY_BYTES, 0, t).items():
            work[name] += (len(_by_places(held, t)) - 1) * count
    return work


def _by_places(held: Held, threshold: int) -> dict[tuple[int, ...], list[str]]:
    """The clients by the places of the first shares of their secrets."""
    found: dict[tuple[int, ...], list[str]] = {}
    for name, shares in held.items():
        found.setdefault(tuple(sorted(shares)[:threshold]), []).append(name)
    return found


def _hollow_secrets(
    attempt: Attempt, survivors: Collection[str], held: Held, nothing: bytes = bytes(KEY_BYTES)
) -> Secrets:
    left = frozenset(survivors)
    found = {(name, name): nothing for name in attempt.names if name in left}
    gone = (name for name in attempt.names if name not in left)
    return found | {(name, other): nothing for name in gone for other in attempt.holders(name) if other in left}


@predicted(partial(_hollow_secrets, nothing=StandIn(KEY_BYTES)))
@hollow(_hollow_secrets)
def combine(attempt: Attempt, survivors: Collection[str], held: Held) -> Secrets | None:
    """Combine the first shares of `held`; None if they do not fit together.

    The dealt key of a lost client must be the private half of its second public key.
    """
    found: dict[str, bytes] = {}
    for places, names in _by_places(held, attempt.threshold).items():
        rows = b"".join(held[name][x] for x in places for name in names)
        table = np.frombuffer(rows, np.uint8).reshape(attempt.threshold, len(names), -1)
        try:
            found |= zip(names, shamir.combine(places, table, attempt.threshold, KEY_BYTES), strict=True)
        except ValueError:
            return None
    left, public_keys = frozenset(survivors), attempt.public_keys
    if any(not _is_half_of(key, found[name]) for name, key in public_keys.items() if name not in left):
        return None
    return _opened(attempt, left, found)


def correct(attempt: Attempt, survivors: Collection[str], held: Held) -> Corrected:
    """The secrets from those shares that fit together, and the wrong shares."""
    found: dict[str, bytes] = {}
    wrong: list[tuple[str, str]] = []
    hopeless: list[tuple[str, str, str]] = []
    left = frozenset(survivors)
    for name, shares in held.items():
        is_key = name not in left
        right = partial(_is_half_of, attempt.public_keys[name]) if is_key else None
        try:
            found[name], places = share_errors.corrected(shares, attempt.threshold, KEY_BYTES, right)
        except ValueError as error:
            what = "the dealt key" if is_key else "the seed"
            hopeless.append((what, name, str(error)))
        else:
            wrong += ((attempt.holders(name)[x - 1], name) for x in places)
    return Corrected({} if hopeless else _opened(attempt, left, found), wrong, hopeless)


def _is_half_of(public_key: bytes, private: bytes) -> bool:
    return KeyPair(private).public == public_key


def _opened(attempt: Attempt, left: Collection[str], secrets: Mapping[str, bytes]) -> Secrets:
    """Restore the secrets from seeds and dealt keys."""
    found = {(name, name): secrets[name] for name in attempt.names if name in left}
    for name in attempt.names:
        if name not in left:
            pair = KeyPair(secrets[name])
            others = (other for other in attempt.holders(name) if other in left)
            found |= {(name, other): pair.agree(attempt.public_keys[other]) for other in others}
    return found


def personal_key(seed: bytes, run_id: bytes, round_number: int, attempt: int, name: str) -> bytes:
    """The key of the personal mask of `name`; nothing in a prediction, which makes no masks."""
    if type(seed) is StandIn:
        return b""
    return derive_key(seed, run_id, "personal", round_number, attempt, (name,))


def signed_keys(
    attempt: Attempt, survivors: Sequence[str], secrets: Secrets, purpose: str, run_id: bytes, round_number: int
) -> dict[str, list[SignedKey]]:
    """The keys of the masks left in the values of each of U3, from the result of `combine`."""
    titles, places, left = attempt.titles, attempt.places, frozenset(survivors)
    keys: dict[str, list[SignedKey]] = {}
    for j in survivors:
        keys[j] = [(personal_key(secrets[j, j], run_id, round_number, attempt.number, titles[j]), True)]
        for k in attempt.holders(j):
            if k in left:
                continue
            lower = places[j] < places[k]
            both = (titles[j], titles[k]) if lower else (titles[k], titles[j])
            shared = SharedSecret(secrets[k, j], run_id, round_number, both)
            keys[j].append((shared.key_of_mask(purpose, attempt.number), lower))
    return keys
