"""Long-term identities: signatures that bind published data to the client, the run and the round.

Each client has an Ed25519 key pair (RFC 8032, by pyca/cryptography); all know all public keys beforehand. Signed is

    "tacit/v1/signed", what, run id, round, attempt, signer#incarnation, P, parts               each length-prefixed

so a signature is of no use for anything else, in another run, round or attempt, or for another incarnation. P is a
digest of the set-up as the signer has seen it: who takes part, with which keys; nothing in the set-up itself. With
`protocol.identity = "signed"` these are signed, 64 bytes each, and verified by the server and by every client (a helper
key by the clients, a report by the helper):

| what | parts | where it travels |
| --- | --- | --- |
| set-up keys | X25519 key, contribution (such as a proved Paillier modulus), number of points | Join, Roster |
| dealt key | second X25519 key | DealtKey, DealtKeys, Adjacent |
| survivors | A, U3 | Agreed, Agreement (see `dealing`, `lightsecagg`, `committee`) |
| helper key | the X25519 key of a batch, the batch's context | HelperKey, ReportsWanted (see `reports`) |
| report | batch and client, nonce, public share, sealed share | Report, AggregationJob (see `reports`) |

A signature follows the bytes that it is of, in the same field. A set-up has the attempt in which its round was opened;
a helper key and a report have attempt 0, and hold for the round.

Security: a server that swaps, alters or replays a key or a modulus is refused by each client that it shows it to, and
the trace says whose signature does not verify. The seals between clients follow from these keys, so nobody comes
between two of them. A server that shows clients different lists P, or keys of an earlier set-up among new ones, is
refused as soon as second keys are dealt, for each of these is signed under the P of who sends it. Where the server
opens a sum from shares, a client reveals its own only once t members of U3 have signed the P, A and U3 that it sees
itself: t > (|P| + C) / 2, so that even a server that colludes with C clients has no two sets signed (each needs t
signatures, and honest clients sign one an attempt: 2 t <= |P| + C fails). C is of the clients that the round calls, as
the scenario states their number, not of P, of which the server says who is in it: a third of them, unless
`sum.corrupt_clients` states another share. So honest clients that are lost, or that the server leaves out, do not
lower C (`tacit.benchmarks.attacks.identities`), and where too few are left there is no sum.

Not covered. In training the server draws the cohorts, so it may call more than C clients that collude with it. With
recovery = "restart" there are no second keys, and no U3: a split P goes unseen there, and sums are over
fewer clients. With recovery = "secagg+" the graph is the server's to draw. Clients may sign what they should not. A
server may withhold anything: no sum then. A run id must not be used twice with the same long-term keys (it is random
unless a run is seeded, and `tacit join` refuses one that the client's key has been used with).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha512
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.parties.party import Party
from tacit.sim.hollow import hollow
from tacit.sim.shares import rounded_up
from tacit.sim.streams import Entropy

__all__ = [
    "KEY_BYTES",
    "SIGNATURE_BYTES",
    "Claim",
    "Identities",
    "given",
    "identities_of",
    "is_signed",
    "parted",
    "public_half",
    "signing_colluding",
    "title_of",
]

KEY_BYTES = 32
SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class Claim:
    """A claim that `title` (a client and its incarnation) has signed the `parts`."""

    title: str
    parts: tuple[bytes, ...]
    signature: bytes


@dataclass(frozen=True, eq=False)
class Identities:
    """The `public` keys of all clients, and the `private` keys of the clients that run here; 32 bytes each.

    `among` is the digest of the set-up under which messages are signed; empty before there is one. `colluding`: C, how
    many of the clients that a round calls may sign whatever the server likes; None: a third of those that come.

    Raises ValueError for a key of another length, and for a private key that does not fit the client's public one.
    """

    public: Mapping[str, bytes]
    private: Mapping[str, bytes] = field(repr=False)
    among: bytes = b""
    colluding: int | None = None

    def __post_init__(self) -> None:
        for name, key in (*self.public.items(), *self.private.items()):
            if len(key) != KEY_BYTES:
                raise ValueError(f"an Ed25519 key is {KEY_BYTES} bytes; that of {name} has {len(key)}")
        for name, key in self.private.items():
            if public_half(key) != self.public.get(name):
                raise ValueError(f"the private key of {name} is not that of its public one")

    @classmethod
    def simulated(cls, seed: int, *, seeded: bool = True) -> "Identities":
        """The identities of a simulation, in which all clients run here: from its `seed` if it is `seeded`.

        Otherwise the operating system's generator draws them.
        """
        private = _Made(_Drawn(seed, seeded))
        return cls(_Made(_Halves(private)), private)

    def bound(self, among: bytes) -> "Identities":
        """The same keys for signing under the set-up with the digest `among`."""
        made = copy(self)  # keys are not checked once more
        object.__setattr__(made, "among", among)
        return made

    def withstanding(self, colluding: int) -> "Identities":
        """The same keys, where `colluding` of the clients that a round calls may collude with the server."""
        made = copy(self)  # keys are not checked once more
        object.__setattr__(made, "colluding", colluding)
        return made

    async def sign(self, me: Party, what: str, attempt: int, *parts: bytes) -> bytes:
        """Sign `parts` as `me`, in its round. Raises ValueError if its private key is not here."""
        if me.name not in self.private:
            raise ValueError(f"there is no private key of {me.name} here")
        text = _statement(me, what, attempt, f"{me.name}#{me.incarnation}", (self.among, *parts))
        return await me.compute({"ed25519.sign": 1}, _sign, self.private[me.name], text)

    async def problems(self, me: Party, what: str, attempt: int, claims: Mapping[str, Claim]) -> dict[str, str]:
        """The problems with the claims of each client, signed in the round that `me` is in."""
        known = {name: claim for name, claim in claims.items() if name in self.public}
        texts = [_statement(me, what, attempt, one.title, (self.among, *one.parts)) for one in known.values()]
        keys, signatures = [self.public[name] for name in known], [claim.signature for claim in known.values()]
        verified = await me.compute({"ed25519.verify": len(known)}, _verified, keys, texts, signatures)
        found = {name: f"no long-term key of {name} is known" for name in claims if name not in self.public}
        wrong = (name for name, right in zip(known, verified, strict=True) if not right)
        return found | {name: f"the signature of {name} on its {what} does not verify" for name in wrong}


@dataclass(frozen=True)
class _Drawn:
    """Draws the private key of a client: from the `seed`, or from the operating system."""

    seed: int
    seeded: bool

    def __call__(self, name: str) -> bytes:
        return (Entropy.seeded(self.seed, "identity", name) if self.seeded else Entropy.system()).bytes(KEY_BYTES)


@dataclass(frozen=True)
class _Halves:
    """Computes the public key of a client from its `private` one."""

    private: Mapping[str, bytes] = field(repr=False)

    def __call__(self, name: str) -> bytes:
        return public_half(self.private[name])


class _Made(Mapping[str, bytes]):
    """Keys that are made on access; iteration lists those that were made."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        self._make, self._made = make, dict[str, bytes]()

    def __getitem__(self, name: str) -> bytes:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


given: ContextVar[Identities | None] = ContextVar("identities that were given", default=None)
"""The identities of the parties that are built next, except in a simulation: see `identity_files`."""


def is_signed(tables: Any) -> bool:
    """Return true if parties in a run with these tables sign their messages."""
    return getattr(tables.protocol, "identity", "") == "signed"


def signing_colluding(tables: Any, called: int) -> int:
    """C of signed sets in a run with these tables: of the clients that are `called`, a third unless stated."""
    corrupt = tables.sum.corrupt_clients
    return called // 3 if corrupt is None else rounded_up(corrupt, called)


def identities_of(tables: Any, called: int | None = None) -> Identities | None:
    """The identities of a run with these tables: `given` ones, or drawn ones; None if nothing is signed.

    They follow from the seed only with ``entropy = "seeded"``. `called`: the clients that a round calls.
    """
    if not is_signed(tables):
        return None
    found = given.get() or Identities.simulated(tables.seed, seeded=tables.entropy == "seeded")
    return found if called is None else found.withstanding(signing_colluding(tables, called))


def parted(data: bytes) -> tuple[bytes, bytes]:
    """Split signed data into the text and the signature that follows it. Raises ValueError."""
    if len(data) < SIGNATURE_BYTES:
        raise ValueError(f"{len(data)} bytes are too few for a signature of {SIGNATURE_BYTES}")
    return data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]


def title_of(name: str, titles: Iterable[str]) -> str:
    """The element of `titles` that belongs to the client `name`."""
    return next(title for title in titles if title.rpartition("#")[0] == name)


def _statement(me: Party, what: str, attempt: int, title: str, parts: Iterable[bytes]) -> bytes:
    items: list[str | bytes] = ["tacit/v1/signed", what, me.world.run_id, str(me.round), str(attempt), title, *parts]
    encoded = [item.encode() if isinstance(item, str) else item for item in items]
    return b"".join(len(item).to_bytes(8, "big") + item for item in encoded)


def public_half(private: bytes) -> bytes:
    """The public key of a private key; 32 bytes each."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


@hollow(lambda private, text: sha512(private + text).digest())
def _sign(private: bytes, text: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).sign(text)


@lru_cache(1 << 12)
def _verifier(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


@hollow(lambda keys, texts, signatures: [True] * len(keys))
def _verified(keys: list[bytes], texts: list[bytes], signatures: list[bytes]) -> list[bool]:
    return [_is_signature(*one) for one in zip(keys, texts, signatures, strict=True)]


@lru_cache(1 << 10)  # all of it is public, and all parties of a simulation verify the same signatures
def _is_signature(key: bytes, text: bytes, signature: bytes) -> bool:
    try:
        _verifier(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True
