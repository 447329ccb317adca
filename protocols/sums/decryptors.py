"""Keys for many rounds of sums, and decryptors: a few clients who hold shares of a key that nobody knows.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.* | those of `setup` | | | where keys are fresh: a pair key for each two, and keys to sign with |
| sum.keys | KeysKept | server -> each called | 32 | which keys it has and they have, in a later round |
| sum.keys | KeyWanted | server -> each called | 0 | decryptors are drawn: first ones, or new ones |
| sum.keys | KeyDeal | dealer -> server | 33 (t + 1) + 60 m | commitments, and sealed shares |
| sum.keys | KeyDeals | server -> each decryptor | m / 8 + m (33 (t + 1) + 60) | who has dealt, and its shares |
| sum.keys | KeyHeld | decryptor -> server | m / 8 | whose shares it has, and they fit |
| sum.keys | KeyChosen | server -> each in M | 2 m / 8 | M, who sign, and the dealers of whom all of M have shares |
| sum.keys | Agreed | decryptor in M -> server | 64 | its signature on M, the dealers and the key's commitments |
| sum.keys | DecryptorsKey | server -> each called | 2 m / 8 + 33 (t + 1) + 64 q | the same, with q signatures |
| sum.keys | KeyStored | client -> server | 0 | it has stored its keys |

The n clients of the set-up make keys once. m of them are decryptors, drawn (`members`) from the digest of all clients
and keys, so only once these are fixed. The first decryptors make a key together: each deals a secret of its own
(`threshold_elgamal`), and the key is the sum of the secrets of which all of M have shares, at least t + 1 of them.
After some rounds other decryptors are drawn. Then t + 1 former decryptors deal their shares of the key to the new ones,
who check them against the commitments to the former shares. The key stays the same, and former shares, which nobody
keeps, cannot be combined with new ones.

t is the largest number below m / 3, and at least 1. m is such that in each draw fewer than a third of the decryptors
are corrupt or lost (`Decryptors.of`), where C and L' follow from the clients that were called, not from the n that
joined (`quorum`). If no m, or not the m that the scenario sets, is sufficient, no keys are made. A set of survivors,
or a key, is valid with q signatures: more than two thirds of m, and more than (m + t) / 2. Two sets of q decryptors
share at least t + 1, and so an honest one; m - q decryptors may be lost. Of q decryptors that have checked a dealer's
shares at least t + 1 are honest, and their shares fix the dealer's polynomial.

Clients keep keys on their disks. Fresh ones are made where a called client has not reported that it has stored them,
and where too many decryptors are away.

Security: semi-honest or lying server, with up to t decryptors and any other clients. It learns the public key and who
holds shares. Without `protocol.identity` the server lists the signing keys, and can replace them by its own. Stored
keys make theft worse: whoever steals a client's disk and has its messages has its vectors of all rounds of a set-up,
because pair masks and the seals of its own seeds follow from what is stored. The key is the same for all generations of
decryptors, so t + 1 decryptors of one generation, or their disks, give the server the vectors of all rounds.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any, ClassVar

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto import threshold_elgamal as elgamal
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.quorum import NOT_CARRIED, NotCarried
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.crypto.sealing import OVERHEAD, PairChannel
from tacit.protocols.crypto.threshold_elgamal import POINT_BYTES, SCALAR_BYTES
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.identities import KEY_BYTES, SIGNATURE_BYTES, Identities, title_of
from tacit.protocols.outcome import Abort, require
from tacit.protocols.parts import Among, Part, Step, messages_in
from tacit.protocols.setup import KEYS_ON_DISK, STEPS, Group, SetUp
from tacit.protocols.sums import consistency
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.members import SigningKeys, bits, drawn, exceeded_by, named
from tacit.protocols.sums.sum import WITH_SIGNING_KEYS, carries
from tacit.protocols.values import understood, values_of
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = [
    "KEYS", "SEALED", "Decryptors", "KeyRing", "KeysOfRounds", "Titles", "is_signed", "join", "opened",
    "prepare", "sealed",
]  # fmt: skip

KEYS = (
    Step("client", "sum.keys", "make and check the decryptors' key, in rounds with new decryptors"),
    Step("server", "sum.keys", "say which keys go on, or gather and hand out shares of the decryptors' key"),
)

SEALED = SCALAR_BYTES + OVERHEAD


class KeysKept(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    digest: bytes
    renewed: bool


class KeyWanted(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True


class KeyDeal(Message):
    commitments: bytes
    sealed: list[bytes]


class KeyDeals(Message):
    dealers: bytes
    commitments: list[bytes]
    sealed: list[bytes]


class KeyHeld(Message):
    dealers: bytes


class KeyChosen(Message):
    members: bytes
    dealers: bytes


class DecryptorsKey(Message):
    members: bytes
    dealers: bytes
    commitments: bytes
    places: list[int]
    incarnations: list[int]
    signatures: list[bytes]


class KeyStored(Message):
    pass


@dataclass(frozen=True)
class Decryptors:
    """m = `count` decryptors of the `clients` of a set-up. Raises ValueError unless 3 <= m <= clients, or both are 2.

    With m = 2 the decryptor that deals last could choose the key, as the other one checks one share, not t + 1.
    """

    clients: int
    count: int

    def __post_init__(self) -> None:
        least = max(2, min(3, self.clients))
        if not least <= self.count <= self.clients:
            raise ValueError(f"decryptors(={self.count}) must be {least} to {self.clients}, the clients of a round")

    @classmethod
    @cache
    def of(cls, clients: int, chosen: int | None, tolerance: Tolerance, called: int) -> "Decryptors":
        """The number `chosen`, or the smallest m of whom less than a third are lost or corrupt; or all clients.

        `clients` joined of those `called`. The bound of a third holds in all draws of a run, except with the
        probability that `tolerance` allows, if the lost and corrupt clients are chosen before the decryptors are drawn.
        Raises NotCarried if no m, or not the `chosen` one, satisfies it.
        """
        assumed = tolerance.of(max(called, clients))
        assumed.require_fewest(clients)
        marked = min(clients, assumed.colluding + assumed.left_to_lose(clients))
        least = 4 if 3 * marked < clients else clients
        for count in range(min(least, clients), clients + 1) if chosen is None else [min(chosen, clients)]:
            one = cls(clients, count)
            if exceeded_by(clients, marked, count, tolerance.allowed)[0] <= one.private:
                return one
        most = exceeded_by(clients, marked, one.count, tolerance.allowed)[0]
        problem = (
            f"of {one.count} decryptors {most} may be corrupt or lost, and at most {one.private}, fewer than a third"
        )
        raise assumed.refused(clients, f"{problem}, may be")

    @property
    def private(self) -> int:
        """t: how many may collude with the server."""
        return max(1, (self.count - 1) // 3)

    @property
    def needed(self) -> int:
        """t + 1: how many decrypt."""
        return self.private + 1

    @property
    def quorum(self) -> int:
        """q: how many must sign."""
        return max(2 * self.count // 3, (self.count + self.private) // 2) + 1

    def __str__(self) -> str:
        return (
            f"{self.count} decryptors of {self.clients} clients; {self.private} of them may collude with the server; "
            f"{self.count - self.quorum} may be lost before signing, {self.count - self.needed} before answering"
        )


@dataclass(frozen=True)
class KeyRing:
    """The keys of one set-up at one party, with the `names` of its clients and their `titles`: name and incarnation.

    `digest`: that of the set-up; `lot`: the digest from which graphs and decryptors are drawn (`setup.Group`). At a
    client, `roots`: 32 secret bytes shared with each client, and 32 of its own. `signing`: the clients' public keys for
    signatures, and `private` its own, if there are no long-term identities. `decryptors`: those of this `generation`,
    drawn in round `since`. `commitments`: to the polynomial whose constant is the decryption key; `share`: its value
    for this client. `stored`, at the server: the clients that reported that they have stored their keys.
    """

    names: tuple[str, ...]
    titles: tuple[str, ...]
    digest: bytes
    roots: dict[str, bytes] = field(default_factory=dict, repr=False)
    signing: dict[str, bytes] = field(default_factory=dict)
    private: bytes = field(default=b"", repr=False)
    generation: int = 0
    since: int = 0
    decryptors: tuple[str, ...] = ()
    commitments: bytes = b""
    share: bytes = field(default=b"", repr=False)
    stored: tuple[str, ...] = ()
    lot: bytes = b""

    @classmethod
    def of(cls, me: Client | Server) -> "KeyRing | None":
        """The ring on the disk of `me`, if there is one."""
        kept = me.disk.get(KEYS_ON_DISK)
        return None if kept is None else cls(**kept)

    def store(self, me: Client | Server) -> None:
        """Store this ring on the disk of `me`."""
        me.disk[KEYS_ON_DISK] = {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each client in the set-up, from 0."""
        return _places(self.names)

    @property
    def key(self) -> bytes:
        """The public key of the decryptors."""
        return bytes(self.commitments[:POINT_BYTES])

    @property
    def parameters(self) -> Decryptors:
        return Decryptors(len(self.names), len(self.decryptors))

    def title(self, name: str) -> str:
        """The name and incarnation of a client as it was in the set-up."""
        return self.titles[self.places[name]]

    def pair(self, one: str, other: str) -> tuple[str, str]:
        """The titles of two clients, in the order of the set-up."""
        lower, upper = sorted((self.places[one], self.places[other]))
        return self.titles[lower], self.titles[upper]

    def is_lower(self, one: str, other: str) -> bool:
        """True if `one` comes before `other` in the set-up."""
        return self.places[one] < self.places[other]

    def identities(self, me: Client | Server, long_term: Identities | None) -> Identities:
        """The identities that sign sets, bound to the set-up: the `long_term` ones, or keys of this ring."""
        if long_term is None:
            long_term = Identities(self.signing, {me.name: self.private} if self.private else {})
        return long_term.bound(self.digest)

    def drawn(self, count: int, generation: int) -> tuple[str, ...]:
        """The `count` clients that are the decryptors of a `generation`."""
        return drawn(Group(self.names, {}, {}, lot=derive(self.lot, "decryptors", generation)), count)


@lru_cache(8)  # all parties of a simulation ask for the same
def _places(names: tuple[str, ...]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _channels(me: Client, ring: KeyRing, names: Sequence[str], purpose: str) -> list[tuple[SharedSecret, bool, bool]]:
    """For each of `names` the secret of a channel of this round and purpose, and whether `me` is the lower end."""
    found = []
    for name in names:
        root = derive(ring.roots[name], purpose, me.attempt)
        secret = SharedSecret(root, me.world.run_id, me.round, ring.pair(me.name, name))
        found.append((secret, not ring.is_lower(name, me.name), name == me.name))
    return found


async def sealed(me: Client, ring: KeyRing, texts: Mapping[str, bytes], purpose: str) -> list[bytes]:
    """Each of `texts`, sealed for its receiver. Each key seals one message: call it once an attempt and `purpose`."""
    ends = _channels(me, ring, list(texts), purpose)
    context = derive(ring.digest, purpose, ring.generation)
    return await me.compute(
        {"aes.byte": 64 * len(texts)}, _seal, [end[:2] for end in ends], list(texts.values()), context
    )


async def opened(
    me: Client, ring: KeyRing, texts: Mapping[str, bytes], purpose: str, size: int, generation: int
) -> dict[str, bytes]:
    """The texts of `size` bytes that others have `sealed` for `me`; those that cannot be opened are left out."""
    # What a client seals for itself it opens as the other end.
    ends = [(secret, lower and not own) for secret, lower, own in _channels(me, ring, list(texts), purpose)]
    context = derive(ring.digest, purpose, generation)
    found = await me.compute({"aes.byte": 64 * len(texts)}, _open, ends, list(texts.values()), context, size)
    return {name: text for name, text in zip(texts, found, strict=True) if text}


@hollow(lambda ends, texts, context: [blank(len(text) + OVERHEAD) for text in texts])
def _seal(ends: Sequence[tuple[SharedSecret, bool]], texts: Sequence[bytes], context: bytes) -> list[bytes]:
    return [PairChannel(secret, lower).seal(text, context) for (secret, lower), text in zip(ends, texts, strict=True)]


@hollow(lambda ends, texts, context, size: [bytes(size)] * len(texts))
def _open(ends: Sequence[tuple[SharedSecret, bool]], texts: Sequence[bytes], context: bytes, size: int) -> list[bytes]:
    found = []
    for (secret, lower), text in zip(ends, texts, strict=True):
        try:
            plain = PairChannel(secret, lower).open(text, context)
        except ValueError:
            plain = b""
        found.append(plain if len(plain) == size else b"")
    return found


def _statement(ring: KeyRing, members: Sequence[str], dealers: Sequence[str], commitments: bytes) -> Any:
    """The two lists that decryptors sign for a new key: generation and M; dealers and commitments."""
    return (["decryptors' key", str(ring.generation), *members], [*dealers, bytes(commitments).hex()])


def _roles(ring: KeyRing, count: int) -> tuple[KeyRing, tuple[str, ...], int]:
    """The ring with newly drawn decryptors, the clients that deal to them, and how many dealers are needed."""
    generation = ring.generation + 1
    receivers = ring.drawn(count, generation)
    renewed = replace(ring, generation=generation, decryptors=receivers)
    return renewed, ring.decryptors or receivers, Decryptors(len(ring.names), count).needed


def _joined(ring: KeyRing, former: KeyRing, dealers: Sequence[str]) -> list[int]:
    """The weights of the `dealers`' secrets in the key: 1 each; Lagrange coefficients if former decryptors deal."""
    return (
        elgamal.lagrange([1 + former.decryptors.index(name) for name in dealers])
        if former.decryptors
        else [1] * len(dealers)
    )


# The client


async def join(
    me: Client, count: Callable[[int], int], deadline: float, long_term: Identities | None
) -> KeyRing | None:
    """The keys of `me` for the round just announced, kept or fresh, stored on its disk; None if it refuses them.

    `count` returns m for a number of clients that joined, and raises NotCarried if these are too few for C. `me`
    refuses then, and keys that it has not stored, that have other than m decryptors, or that too few decryptors have
    signed.
    """
    contribution = setup.NoContribution() if long_term is not None else SigningKeys()
    opening = await me.recv((setup.RoundStart, KeysKept), me.server, 2 * deadline)
    if isinstance(opening, setup.RoundStart):
        group, keys = await setup.client(me, deadline, contribution, long_term)
        ring = _of_group(me, group, keys.private or b"")
        if not carries(me, count, ring.names):
            return None
        await me.recv(KeyWanted, me.server, 2 * deadline)
    else:
        kept = KeyRing.of(me)
        if kept is None or kept.digest != opening.digest:
            me.refuse("take part in a sum: the keys that go on are not those that it has stored")
            return None
        ring = kept
        if not carries(me, count, ring.names):
            return None
        if not opening.renewed and count(len(ring.names)) != len(ring.decryptors):
            me.refuse(f"take part in a sum: {len(ring.decryptors)} decryptors are too few for its clients")
            return None
        if not opening.renewed:
            return ring
        await me.recv(KeyWanted, me.server, 2 * deadline)
    with me.step("sum.keys"):
        return await _with_key(me, ring, count(len(ring.names)), deadline, long_term)


def _of_group(me: Client, group: Group, private: bytes) -> KeyRing:
    roots = {name: secret.key("root") for name, secret in group.secrets.items()}
    roots[me.name] = me.entropy("own root").bytes(KEY_BYTES)
    pairs = {name: secret.names for name, secret in group.secrets.items()}
    titles = [f"{me.name}#{me.incarnation}" if n == me.name else title_of(n, pairs[n]) for n in group.names]
    signing = group.contributions if private else {}
    return KeyRing(group.names, tuple(titles), group.digest, roots, dict(signing), private, lot=group.lot)


async def _with_key(
    me: Client, former: KeyRing, count: int, deadline: float, long_term: Identities | None
) -> KeyRing | None:
    ring, dealers, least = _roles(former, count)
    receivers, identities = ring.decryptors, ring.identities(me, long_term)
    own_shares: list[bytes] = []
    if me.name in dealers and (not former.decryptors or former.share) and me.once("key"):
        work = {"p256.generator-power": least}
        commitments, own_shares = await me.compute(
            work, elgamal.deal, former.share, least, len(receivers), me.entropy("decryptors' key")
        )
        texts = dict(zip(receivers, own_shares, strict=True))
        me.send(me.server, KeyDeal(commitments, await sealed(me, ring, texts, "key share")))
    shares: dict[str, bytes] = {}
    rows: dict[str, bytes] = {}
    signed: tuple[Any, Any, bytes] | None = None
    while True:
        answer = await me.recv((KeyDeals, KeyChosen, DecryptorsKey), me.server, 5 * deadline)
        if isinstance(answer, DecryptorsKey):
            stored = await _checked(me, ring, former, answer, identities, signed, least)
            if stored is not None:
                stored.store(me)
                me.send(me.server, KeyStored())
            return stored
        if me.name not in receivers:
            me.refuse("check shares of a key: it is no decryptor")
        elif isinstance(answer, KeyDeals) and not rows:
            rows, shares = await _held(me, ring, former, answer, dealers, least)
            me.send(me.server, KeyHeld(bits(tuple(shares), dealers)))
        elif isinstance(answer, KeyChosen) and rows and signed is None:
            with values_of(me, me.server, "KeyChosen"):
                members, chosen = named(answer.members, receivers), named(answer.dealers, dealers)
                if me.name not in members or len(members) < ring.parameters.quorum:
                    raise ValueError(f"{len(members)} decryptors are not it and others who make a key")
                if not set(chosen) <= set(shares) or len(chosen) < least:
                    raise ValueError(f"{len(chosen)} dealers are not those of whom it has shares")
                if former.decryptors and len(chosen) != least:
                    raise ValueError(f"{len(chosen)} dealers are not the {least} that give the key")
            weights = _joined(ring, former, chosen)
            total = await me.compute(
                {"p256.power": len(chosen) * least}, elgamal.combined, [rows[name] for name in chosen], weights
            )
            signed = members, chosen, elgamal.summed([shares[name] for name in chosen], weights)
            await consistency.sign(me, identities, *_statement(ring, members, chosen, total))


async def _held(
    me: Client, ring: KeyRing, former: KeyRing, shown: KeyDeals, dealers: Sequence[str], least: int
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The commitments that were shown, and the shares for `me` that fit them, by dealer."""
    with values_of(me, me.server, "KeyDeals"):
        names = named(shown.dealers, dealers)
        if not len(names) == len(shown.commitments) == len(shown.sealed):
            raise ValueError("each dealer needs its commitments and a share")
        rows = dict(zip(names, shown.commitments, strict=True))
    sent = dict(zip(names, shown.sealed, strict=True))
    texts = await opened(me, ring, sent, "key share", SCALAR_BYTES, ring.generation)
    x, good = 1 + ring.decryptors.index(me.name), {}
    for name, share in texts.items():
        work = elgamal.at_work(least, x) | {"p256.generator-power": 1}
        fits = await me.compute(work, elgamal.fits, rows[name], x, share, least)
        if fits and former.decryptors:  # it deals the share that it has
            place = 1 + former.decryptors.index(name)
            due = await me.compute(elgamal.at_work(least, place), elgamal.public_share, former.commitments, place)
            fits = me.world.hollow is not None or due == bytes(rows[name][:POINT_BYTES])
        if fits:
            good[name] = share
    for name in names:
        if name not in good:
            me.refuse(f"take the share of the key that {name} has dealt: it does not fit")
    return rows, good


async def _checked(
    me: Client,
    ring: KeyRing,
    former: KeyRing,
    shown: DecryptorsKey,
    identities: Identities,
    signed: tuple[Any, Any, bytes] | None,
    least: int,
) -> KeyRing | None:
    """The ring with the key that was shown; None if fewer than q decryptors have signed it."""
    with values_of(me, me.server, "DecryptorsKey"):
        dealers = former.decryptors or ring.decryptors
        members, chosen = named(shown.members, ring.decryptors), named(shown.dealers, dealers)
        if len(shown.commitments) != least * POINT_BYTES:
            raise ValueError(f"a key has commitments of {least * POINT_BYTES} bytes, not {len(shown.commitments)}")
        if former.decryptors and me.world.hollow is None and bytes(shown.commitments[:POINT_BYTES]) != former.key:
            raise ValueError("new decryptors have another key than the former ones")
    names, survivors = _statement(ring, members, chosen, shown.commitments)
    if not await is_signed(me, identities, shown, names, survivors, members, ring.parameters.quorum):
        return None
    own = signed is not None and signed[:2] == (members, chosen)
    share = signed[2] if signed is not None and own else b""
    return replace(ring, since=me.round, commitments=bytes(shown.commitments), share=share)


async def is_signed(
    me: Client,
    identities: Identities,
    shown: Any,
    names: Sequence[str],
    survivors: Sequence[str],
    signers: Sequence[str],
    least: int,
) -> bool:
    """True if `least` of the `signers` signed the lists `names` and `survivors`; if not, the trace says why.

    `shown` has their places, incarnations and signatures. A signer signs one set a round, in all its incarnations.
    """
    titles = {
        signers[place]: f"{signers[place]}#{life}"
        for place, life in zip(shown.places, shown.incarnations, strict=False)
        if 0 <= place < len(signers)
    }
    places = [place for place in shown.places if 0 <= place < len(signers) and signers[place] in titles]
    agreement = Agreement(places, shown.signatures) if places == shown.places else Agreement([], [])
    return await consistency.is_agreed(me, identities, agreement, names, survivors, titles, least, signers)


# The server


class Titles(dict[str, str]):
    """The name with the latest incarnation that the server knows, for each party."""

    def __init__(self, me: Server) -> None:
        super().__init__()
        self._lives = me.incarnations

    def __missing__(self, name: str) -> str:
        return f"{name}#{self._lives[name]}"


async def prepare(
    me: Server,
    members: Sequence[str],
    count: Callable[[int], int],
    renewal: int,
    least: int,
    deadline: float,
    long_term: Identities | None,
) -> KeyRing:
    """The keys for the round just announced to `members`; the clients in their `stored` take part. Raises Abort.

    New decryptors are drawn every `renewal` rounds. `count` as in `join`.
    """
    ring = KeyRing.of(me)
    if ring is None or not _goes_on(ring, members, count):
        me.disk.pop(KEYS_ON_DISK, None)
        contribution = setup.NoContribution() if long_term is not None else SigningKeys()
        group = await setup.server(me, members, me.round, max(2, least), deadline, contribution, long_term)
        titles = tuple(f"{name}#{me.incarnations[name]}" for name in group.names)
        signing = {} if long_term is not None else dict(group.contributions)
        ring = KeyRing(group.names, titles, group.digest, signing=signing, lot=group.lot)
        present = group.names
        try:
            count(len(ring.names))
        except NotCarried as error:
            raise Abort(NOT_CARRIED, problem=str(error)) from None
        with me.step("sum.keys"):
            return await _made(me, ring, present, count, deadline, long_term)
    renewed = me.round - ring.since >= renewal
    with me.step("sum.keys"):
        me.advance(me.round, me.attempt + 1)
        me.broadcast(members, KeysKept(ring.digest, renewed))
        ring = replace(ring, stored=tuple(members))
        if not renewed:
            return ring
        me.disk.pop(KEYS_ON_DISK, None)
        return await _made(me, ring, tuple(members), count, deadline, long_term)


def _goes_on(ring: KeyRing, members: Sequence[str], count: Callable[[int], int]) -> bool:
    """True if all `members` stored the ring, it has the m decryptors of this round, and few of these are away."""
    try:
        if count(len(ring.names)) != len(ring.decryptors):
            return False
    except NotCarried:
        return False
    away = sum(name not in members for name in ring.decryptors)
    spare = len(ring.decryptors) - ring.parameters.quorum
    many = len(ring.names) > 4 * len(ring.decryptors)  # of few clients most are decryptors
    return set(members) <= set(ring.stored) and away <= (spare // 2 if many else 0)


async def _made(
    me: Server,
    former: KeyRing,
    present: Sequence[str],
    count: Callable[[int], int],
    deadline: float,
    long_term: Identities | None,
) -> KeyRing:
    ring, dealers, least = _roles(former, count(len(former.names)))
    receivers, quorum, identities = ring.decryptors, ring.parameters.quorum, ring.identities(me, long_term)
    me.advance(me.round, me.attempt + 1)
    me.broadcast(present, KeyWanted())
    asked = [name for name in dealers if name in present]
    there = [name for name in receivers if name in present]
    checked = partial(_deal_in, receivers=len(receivers), needed=least)
    deals = understood(me, (await me.collect(KeyDeal, asked, deadline=deadline)).answers, checked)
    require(len(deals), "dealers of the decryptors' key", least)
    names = tuple(name for name in dealers if name in deals)
    for name in there:
        own = receivers.index(name)
        rows, shares = [deals[one].commitments for one in names], [deals[one].sealed[own] for one in names]
        me.send(name, KeyDeals(bits(names, dealers), rows, shares))
    answers = (await me.collect(KeyHeld, there, deadline=deadline)).answers
    held = understood(me, answers, lambda name, sent: frozenset(named(sent.dealers, dealers)))
    members, chosen = _chosen(held, names, receivers, quorum)
    if len(members) < quorum or len(chosen) < least:
        me.lose([name for name in there if name not in held], "it took in no shares of the decryptors' key")
        raise Abort(
            "no key: {count} of {decryptors} decryptors hold shares; {needed} are needed",
            count=len(held), decryptors=len(receivers), needed=quorum,
        )  # fmt: skip
    chosen = chosen[:least] if former.decryptors else chosen
    me.broadcast(members, KeyChosen(bits(members, receivers), bits(chosen, dealers)))
    weights = _joined(ring, former, chosen)
    total = await me.compute(
        {"p256.power": len(chosen) * least}, elgamal.combined, [deals[name].commitments for name in chosen], weights
    )
    lists = _statement(ring, members, chosen, total)
    signatures = await consistency.gathered(me, identities, lists[0], lists[1], Titles(me), quorum, deadline, members)
    if len(signatures) < quorum:
        me.lose([name for name in members if name not in signatures], "it did not sign the decryptors' key")
        raise Abort(
            "no key: {count} of {decryptors} decryptors signed it; {needed} are needed",
            count=len(signatures), decryptors=len(receivers), needed=quorum,
        )  # fmt: skip
    places = [members.index(name) for name in signatures]
    lives = [me.incarnations[name] for name in signatures]
    sets = bits(members, receivers), bits(chosen, dealers)
    me.broadcast(present, DecryptorsKey(*sets, total, places, lives, list(signatures.values())))
    stored = (await me.collect(KeyStored, present, deadline=deadline)).answers
    missing = [name for name in present if name not in stored]
    me.lose(missing, "it did not report that it has the decryptors' key: the sum goes without it")
    me.dismiss(missing, f"you did not report that you have the decryptors' key within {deadline:g} s")
    left = tuple(name for name in present if name in stored)
    made = replace(ring, since=me.round, commitments=bytes(total), stored=left)
    made.store(me)
    return made


def _deal_in(name: str, sent: KeyDeal, *, receivers: int, needed: int) -> KeyDeal:
    if len(sent.commitments) != needed * POINT_BYTES or len(sent.sealed) != receivers:
        raise ValueError(f"{needed} commitments and {receivers} shares were due")
    if any(len(one) != SEALED for one in sent.sealed):
        raise ValueError(f"a sealed share is {SEALED} bytes")
    return sent


def _chosen(
    held: Mapping[str, frozenset[str]], dealers: Sequence[str], receivers: Sequence[str], least: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """M, at least `least` decryptors, and the dealers of whom all of M hold shares, as many as possible."""
    order = sorted(held, key=lambda name: -len(held[name]))
    best: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    for number in range(len(order), least - 1, -1):
        common = frozenset.intersection(*(held[name] for name in order[:number]))
        if len(common) > len(best[1]):
            members = frozenset(order[:number])
            best = (
                tuple(name for name in receivers if name in members),
                tuple(name for name in dealers if name in common),
            )
    return best


class KeysOfRounds(Part):
    """The keys of a round as a part of it: kept ones if the cohort is that of the round before, else fresh ones."""

    messages = (*messages_in(sys.modules[__name__]), *SetUp().messages, Agreed)
    between_clients = SetUp().between_clients

    takes = (*STEPS, *KEYS)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        n = len(among.names)
        one, (fresh, renewed) = among.sum.limits(n, n).decryptors, _schedule(among)
        found = dict(WITH_SIGNING_KEYS.payloads(tables, among)) if fresh else {"KeysKept": 32 * n}
        if not (fresh or renewed):
            return found
        m, rows, q = one.count, POINT_BYTES * one.needed, one.quorum
        sets = packed_bytes(m, 1)
        return found | {
            "KeyDeal": m * (rows + m * SEALED),
            "KeyDeals": m * (sets + m * (rows + SEALED)),
            "KeyHeld": m * sets,
            "KeyChosen": m * 2 * sets,
            "Agreed": m * SIGNATURE_BYTES,
            "DecryptorsKey": n * (2 * sets + rows + q * SIGNATURE_BYTES),
        }

    def waits(self, tables: Any) -> int:
        return int(tables.data.clients) + 8


def _schedule(among: Among) -> tuple[bool, bool]:
    """Return whether the round makes fresh keys, and whether it draws decryptors, if nobody is lost."""
    since, before = 0, frozenset[str]()
    for number, names in enumerate(map(frozenset, (*among.history, among.names))):
        fresh, before = names != before, names
        if drawn := fresh or number - since >= among.sum.table.decryptor_rounds:
            since = number
    return fresh, drawn
