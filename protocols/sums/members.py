"""Members of a sum: a few of its clients, drawn once all keys of the round are fixed, who sign the sets they open.

Every party draws the members itself, from a digest of the set-up (`setup.Group.lot`) of the names of all clients, their
incarnations and their fresh keys, sorted by name: each client's name is hashed with the digest, and the members are the
first in the order of these hashes. The order in which the server lists the clients, and whom it names as the leader,
change nothing. A list of other clients, or another key of one of them, gives another draw. So a client that colludes
with the server and joins last may try several keys, and the server may drop clients: each try costs a hash, and 2^g
tries raise the probability of a draw that is bad for others by a factor of 2^g.

Members, and all clients of a sum with coded masks, sign the sets of a sum (`consistency`) with long-term identities, or
with keys that every client makes for the round and publishes in the set-up (`SigningKeys`). The server lists the keys
of the round, and can replace them by its own.

X, the number of marked clients among m members drawn from n clients of whom c are marked, is Hypergeometric(n, c, m).
`exceeded_by` gives the least x with P[X > x] at most a given probability, computed exactly, in whole numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.identities import KEY_BYTES, Identities, public_half
from tacit.protocols.setup import Group, Keys
from tacit.sim.streams import derive

__all__ = ["SigningKeys", "above", "bits", "drawn", "exceeded_by", "named", "with_keys"]


def drawn(group: Group, count: int) -> tuple[str, ...]:
    """The members: the first `count` clients of `group` in the order of their hashes. Raises ValueError if too few."""
    if not 1 <= count <= len(group.names):
        raise ValueError(f"{count} members cannot be drawn of {len(group.names)} clients")
    return _in_order(group.names, group.lot)[:count]


@lru_cache(8)  # all parties of a simulation ask for the same
def _in_order(names: tuple[str, ...], lot: bytes) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: derive(lot, "member", name)))


@cache
def exceeded_by(clients: int, marked: int, members: int, allowed: Fraction) -> tuple[int, Fraction]:
    """The least x with P[X > x] at most `allowed`, and that probability.

    X: how many of this number of `members`, drawn at random from `clients`, are among the `marked` ones.
    """
    of, ways, x = math.comb(clients, members), 0, min(marked, members)
    here = math.comb(marked, x) * math.comb(clients - marked, members - x) if members - x <= clients - marked else 0
    while x > 0 and Fraction(ways + here, of) <= allowed:
        ways += here
        # comb(c, x - 1) comb(n - c, m - x + 1) from comb(c, x) comb(n - c, m - x)
        x, here = x - 1, here * x * (clients - marked - members + x) // ((marked - x + 1) * (members - x + 1))
    return x, Fraction(ways, of)


@cache
def above(clients: int, marked: int, members: int, most: int) -> float:
    """P[X > most]; X as in `exceeded_by`."""
    of = math.comb(clients, members)
    few = sum(math.comb(marked, x) * math.comb(clients - marked, members - x) for x in range(min(most, members) + 1))
    return float(1 - Fraction(few, of))


class SigningKeys:
    """A fresh Ed25519 key of each client, as its contribution to the set-up of a round."""

    published = "signing key"

    async def generate_keys(self, me: Client) -> Keys:
        private = me.entropy("signing key").bytes(KEY_BYTES)
        public = await me.compute({"ed25519.sign": 1}, public_half, private)
        return Keys(public, private)

    async def examine(self, me: Party, published: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
        problems = {
            name: f"an Ed25519 key is {KEY_BYTES} bytes, not {len(key)}"
            for name, key in published.items()
            if len(key) != KEY_BYTES
        }
        return {name: key for name, key in published.items() if name not in problems}, problems


def with_keys(group: Group, private: Mapping[str, bytes]) -> Group:
    """`group` with identities of the `SigningKeys` that its clients published. `private`: those held here, by name."""
    return replace(group, identities=Identities(group.contributions, private).bound(group.digest))


def bits(chosen: Sequence[str], among: Sequence[str]) -> bytes:
    """A bit for each of `among`, set for those that are `chosen`."""
    known = frozenset(chosen)
    return np.packbits([name in known for name in among]).tobytes()


def named(data: bytes, among: Sequence[str]) -> tuple[str, ...]:
    """The elements of `among` whose bit is set. Raises ValueError for a wrong number of bits."""
    if len(data) != packed_bytes(len(among), 1):
        raise ValueError(f"{len(among)} bits take {packed_bytes(len(among), 1)} bytes, not {len(data)}")
    found = np.unpackbits(np.frombuffer(bytes(data), np.uint8))
    if found[len(among) :].any():
        raise ValueError(f"bits after the last of {len(among)} are set")
    return tuple(name for name, bit in zip(among, found, strict=False) if bit)
