"""Set-up of a round: the participants, a key for each pair, and a seed that all clients know and the server does not.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.keys | RoundStart | server -> each client | 0 | a round begins |
| setup.keys | Join | client -> server | 32 + c | public key, the contribution of c bytes, how many points |
| setup.seed | Roster | server -> each in P | p (32 + c), names of P and leader | P and what each published; who leads |
| setup.seed | Seed | leader -> each other in P, sealed | 32 | the group seed |
| setup.seed | SeedCheck | client -> server | 16 | HKDF(seed, "check", epoch); empty where the seed is invalid |
| setup.seed | NewLeader | server -> each in P | names of P and leader | the leader was lost, or values differ |
| setup.seed | SeedAgreed | server -> each in P | names of P | P as it stands; the seed holds |

Paper: XCLP, Algorithm 1 line 1. Every round has fresh keys. Pair secrets by X25519, one key a purpose by HKDF; each of
a pair's two directions has its own AES-GCM key. The seed comes from one leader; a value that differs or is missing
makes the server name another leader, so P shrinks by the lost and the round goes on. Invalid keys count as no answer.
What follows may have each client publish something more, its `Contribution` (a proved Paillier modulus, for example):
bytes that mean nothing here. Whoever gets one, the server and each peer, examines it. A client whose contribution does
not pass is left out by the server, and a list with such a one is refused by a client.

Security: semi-honest parties, and the server relays public keys unchanged (one that swaps them could read the
channels), unless these are signed: with `identities` each contribution has a signature of 64 bytes at its end, and what
the group signs from then on is bound to the whole Roster and to P as it stands. Revealed: to the server, public keys,
the numbers of points and a hash of the seed; to clients, who takes part with how many points. The seed is known to
clients alone: a client that colludes with the server gives it away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from tacit.parties.client import Client
from tacit.parties.party import Channel, Party
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret, agreed, derive_key
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.crypto.sizes import text
from tacit.protocols.identities import SIGNATURE_BYTES, Claim, Identities, is_signed, parted
from tacit.protocols.outcome import require
from tacit.protocols.parts import Among, Part, Step
from tacit.protocols.promises import Trial
from tacit.protocols.values import BadValues, announced, understood, values_of, with_usable_keys
from tacit.sim.streams import derive
from tacit.sim.units import duration
from tacit.sim.wire import Message, encode_body
from tacit.sim.world import World

__all__ = [
    "KEYS_ON_DISK",
    "STEPS",
    "Contribution",
    "Group",
    "Keys",
    "NoContribution",
    "RoundStart",
    "SetUp",
    "agree",
    "check_incarnation",
    "client",
    "digest_of",
    "lot_of",
    "server",
]

STEPS = (
    Step("client", "setup.keys", "make this round's keys and send the public ones", "early"),
    Step("client", "setup.seed", "agree on pair keys with all clients, and on the group seed"),
    Step("server", "setup.keys", "open the round and gather the public keys"),
    Step("server", "setup.seed", "hand the keys out; name leaders until all hold the same seed"),
)


KEYS_ON_DISK = "keys of sums"
"""The entry of a party's disk that holds keys for many rounds: secrets that nobody else may have."""

_SIGNED = "set-up key"
SEED_BYTES = 32
CHECK_BYTES = 16
MOST_POINTS = 1 << 20  # of a client: what others reserve for its points follows from its word alone


class RoundStart(Message):
    announces: ClassVar[bool] = True
    names_members: ClassVar[bool] = True


class Join(Message):
    admits: ClassVar[tuple[str, ...]] = ("Roster",)
    public_key: bytes
    contribution: bytes
    points: int


class Roster(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]
    incarnations: list[int]
    points: list[int]
    public_keys: list[bytes]
    contributions: list[bytes]
    leader: str


class Seed(Message):
    seed: bytes


class SeedCheck(Message):
    admits: ClassVar[tuple[str, ...]] = ("SeedAgreed",)
    check: bytes


class NewLeader(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]
    leader: str


class SeedAgreed(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]


@dataclass(frozen=True)
class Keys:
    """A client's keys for one round: the `public` contribution, and the `private` part."""

    public: bytes = b""
    private: Any = field(default=None, repr=False)


class Contribution(Protocol):
    """A contribution of each client to the set-up. `published` names it in sentences: "Paillier key"."""

    published: str

    async def generate_keys(self, me: Client) -> Keys:
        """Generate this round's keys of `me`."""

    async def examine(self, me: Party, published: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
        """Check contributions.

        Returns the useful content of each valid one, and the problem with every other, by client.
        """


class NoContribution:
    """No contribution: only the set-up's own keys are published."""

    published = "contribution"

    async def generate_keys(self, me: Client) -> Keys:
        return Keys()

    async def examine(self, me: Party, published: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
        problems = {name: "none was due" for name, data in published.items() if data}
        return {name: b"" for name in published if name not in problems}, problems


_NOTHING = NoContribution()


@dataclass(frozen=True)
class Group:
    """The clients of a round as announced: `names` in the order of their numbers, and their published data.

    `contributions` is the useful content of the valid ones. A client holds in `secrets` its secret with each other
    client, and the group `seed`; the server holds neither. `identities`: the keys for later signatures, bound to the
    group and all published data; None if nothing is signed. `digest`: that of the group and all published data, in the
    order of the list. `lot`: that of the clients of the group and their keys, sorted by name, by which clients of a sum
    are drawn: neither the order of the list nor the leader, which the server chooses, changes a draw. `helper`: the key
    of the round of a sum's helper (`sums.helper`), if it has one.
    """

    names: tuple[str, ...]
    points: dict[str, int]
    contributions: dict[str, bytes]
    seed: bytes = field(default=b"", repr=False)
    secrets: dict[str, SharedSecret] = field(default_factory=dict, repr=False)
    identities: Identities | None = None
    digest: bytes = b""
    lot: bytes = b""
    helper: bytes = b""

    def without(self, names: tuple[str, ...]) -> "Group":
        """The group without the clients in `names`."""
        kept = tuple(name for name in self.names if name not in names)
        return replace(self, names=kept)


async def server(
    me: Server,
    clients: Sequence[str],
    round_number: int,
    min_clients: int,
    deadline: float,
    contribution: Contribution = _NOTHING,
    identities: Identities | None = None,
    limit: str = "min_clients",
) -> Group:
    """Gather those `clients` and let them agree on a seed. Raises Abort when fewer than `min_clients` are left.

    With `identities` published data are signed. `limit`: the name of the limit that `min_clients` is.
    """
    me.advance(round_number, 0)
    begun = me.attempt
    with me.step("setup.keys"):
        me.broadcast(clients, RoundStart())
        joined = await me.collect(Join, clients, deadline=deadline)
        published = understood(
            me, await with_usable_keys(me, joined.answers, lambda join: (join.public_key,)), _checked
        )
        missing = [name for name in clients if name not in published]
        me.lose(missing, "never joined: the round begins without it")
        me.dismiss(missing, f"the round goes on without you: your keys did not come within {deadline:g} s")
        titles = {name: f"{name}#{me.incarnations[name]}" for name in published}
        offered, unsigned = await _contributions(me, published, titles, begun, identities)
        usable, refused = await contribution.examine(me, offered)
        wrong = {name: f"set-up key is refused: {problem}" for name, problem in unsigned.items()}
        wrong |= {name: f"{contribution.published} is refused: {problem}" for name, problem in refused.items()}
        for name, problem in wrong.items():
            del published[name]
            me.lose([name], f"left out of the round: its {problem}")
            me.dismiss([name], f"the round goes on without you: your {problem}")
    names, attempt = tuple(published), me.attempt + 1
    with me.step("setup.seed"):
        require(len(names), "clients", min_clients, limit)
        joins = published.values()
        me.advance(round_number, attempt)
        roster = Roster(
            list(names), [me.incarnations[name] for name in names], [join.points for join in joins],
            [join.public_key for join in joins], [join.contribution for join in joins], names[0],
        )  # fmt: skip
        me.broadcast(names, roster)
        while True:
            leader = names[0]
            checks = await me.collect(SeedCheck, names, deadline=deadline)
            values = understood(me, checks.answers, _check)
            led = leader in values and len(set(values.values())) == 1
            lost = tuple(name for name in names if name not in values) if led else (leader,)
            me.lose(lost, "missed while the seed was agreed: left out of the round")
            me.dismiss(lost, "the round goes on without you: your part in the group seed did not come in time")
            names = tuple(name for name in names if name not in lost)
            require(len(names), "clients", min_clients, limit)
            attempt += 1
            me.advance(round_number, attempt)
            if led:
                break
            me.broadcast(names, NewLeader(list(names), names[0]))
        me.broadcast(names, SeedAgreed(list(names)))
    digest = digest_of(roster, names)
    return Group(
        names,
        {name: published[name].points for name in names},
        {name: usable[name] for name in names},
        identities=None if identities is None else identities.bound(digest),
        digest=digest,
        lot=lot_of(roster, names, identities is not None),
    )


async def client(
    me: Client, deadline: float, contribution: Contribution = _NOTHING, identities: Identities | None = None
) -> tuple[Group, Keys]:
    """Join the round that was just announced. Returns the group with seed and secrets, and the contribution's keys.

    With `identities` it refuses a Roster in which any client's keys differ from the signed ones.
    """
    with me.step("setup.keys"):
        begun = me.attempt
        pair = await me.compute({"x25519.keygen": 1}, KeyPair.generate, me.entropy("x25519"))
        keys = await contribution.generate_keys(me)
        sent = Join(pair.public, keys.public, len(me.shard.rows))
        if identities is not None:
            signature = await identities.sign(me, _SIGNED, begun, *_signed_parts(sent, keys.public))
            sent = Join(pair.public, keys.public + signature, sent.points)
        me.send(me.server, sent)
        # Public keys are handed out only when all have answered or the server's deadline has passed.
        roster = await me.recv(Roster, me.server, 2 * deadline)
    with me.step("setup.seed"):
        with values_of(me, me.server, "Roster"):
            group = _group(me, roster, sent)
            contributions = await _examined(me, group, roster, begun, contribution, identities)
            secrets = await agree(me, pair, roster.names, roster.incarnations, roster.public_keys)
        leader, names = roster.leader, group.names
        while True:
            if leader == me.name:
                seed = me.entropy("group seed").bytes(SEED_BYTES)
                for name in names:
                    if name != me.name:
                        me.send(name, Seed(seed))
            else:
                received = await me.collect(Seed, [leader], deadline=deadline, until=(NewLeader, SeedAgreed))
                seeds = understood(me, received.answers, lambda name, message: _seed(message))
                seed = seeds.get(leader, b"")
                if received.answers and not seed:
                    me.send(me.server, SeedCheck(b""))  # unlike any other: not the leader that is to stay
            if seed:
                check = derive_key(seed, me.world.run_id, "check", me.round, me.attempt, (), CHECK_BYTES)
                me.send(me.server, SeedCheck(check))
            answer = await me.recv((SeedAgreed, NewLeader), me.server, 2 * deadline)
            with values_of(me, me.server, type(answer).__name__):
                names = announced(me, answer.names, names)
            if isinstance(answer, SeedAgreed):
                break
            leader = answer.leader
        if not seed:
            raise BadValues(f"SeedAgreed from {me.server}: {me.name} has no seed")
    present = frozenset(names)
    left = {name: secret for name, secret in secrets.items() if name in present}  # no sum is to be among others
    digest = digest_of(roster, names)
    bound = None if identities is None else identities.bound(digest)
    lot = lot_of(roster, names, identities is not None)
    return Group(names, group.points, contributions, seed, left, bound, digest, lot), keys


def digest_of(roster: Roster, names: tuple[str, ...]) -> bytes:
    """The digest of the `roster`, and of its remaining `names`."""
    return _derived(encode_body(roster), names)


@lru_cache(8)  # all parties of a simulation ask for the same
def _derived(roster: bytes, names: tuple[str, ...]) -> bytes:
    return derive(roster, *names)


def lot_of(roster: Roster, names: tuple[str, ...], signed: bool) -> bytes:
    """The digest of the remaining `names` of the `roster` with their incarnations and keys, sorted by name.

    If contributions are `signed`, their signatures are no part of it.
    """
    return _lot(_Listed(digest_of(roster, names), roster, names, signed))


@dataclass(frozen=True)
class _Listed:
    """The `roster` and its remaining `names`, of which `digest` is the digest; `signed` if contributions are."""

    digest: bytes
    roster: Roster = field(compare=False)
    names: tuple[str, ...] = field(compare=False)
    signed: bool


@lru_cache(8)  # all parties of a simulation ask for the same
def _lot(listed: _Listed) -> bytes:
    roster = listed.roster
    lists = zip(roster.names, roster.incarnations, roster.public_keys, roster.contributions, strict=True)
    known = {name: (life, key, parted(own)[0] if listed.signed else own) for name, life, key, own in lists}
    return derive(b"lot", *(part for name in sorted(listed.names) for part in (name, *known[name])))


def _group(me: Client, roster: Roster, sent: Join) -> Group:
    """The group P, in which the data of `me` must equal those `sent`. Raises ValueError."""
    names = announced(me, roster.names, dict.fromkeys(roster.names))
    if not len(names) == len(roster.incarnations) == len(roster.public_keys) == len(roster.points):
        raise ValueError("each client needs its incarnation, points and keys")
    if not all(1 <= points <= MOST_POINTS for points in roster.points):
        raise ValueError(f"a client has points that are not 1 to {MOST_POINTS}")
    points = dict(zip(names, roster.points, strict=True))
    contributions = dict(zip(names, roster.contributions, strict=True))
    own = names.index(me.name)
    if points[me.name] != sent.points:
        raise ValueError(f"{points[me.name]} points are ascribed to {me.name}, which has {sent.points}")
    if roster.public_keys[own] != sent.public_key or contributions[me.name] != sent.contribution:
        raise ValueError(f"the keys that are ascribed to {me.name} are not those that it sent")
    check_incarnation(me, roster.incarnations[own])
    return Group(names, points, contributions)


def check_incarnation(me: Client, shown: int) -> None:
    """Raise ValueError unless `shown`, the incarnation ascribed to `me`, is the right one."""
    if shown != me.incarnation:
        raise ValueError(f"incarnation {shown} is ascribed to {me.name}, which is in its {me.incarnation}.")


async def _contributions(
    me: Party, joins: Mapping[str, Join], titles: Mapping[str, str], begun: int, identities: Identities | None
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The contributions without signatures, and the problems with invalid ones.

    `titles`: names with incarnations; `begun`: the attempt in which the round was opened.
    """
    if identities is None:
        return {name: join.contribution for name, join in joins.items()}, {}
    found: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    claims: dict[str, Claim] = {}
    for name, join in joins.items():
        try:
            found[name], signature = parted(join.contribution)
        except ValueError as error:
            problems[name] = str(error)
        else:
            claims[name] = Claim(titles[name], _signed_parts(join, found[name]), signature)
    problems |= await identities.problems(me, _SIGNED, begun, claims)
    return {name: data for name, data in found.items() if name not in problems}, problems


def _signed_parts(join: Join, contribution: bytes) -> tuple[bytes, ...]:
    return join.public_key, contribution, join.points.to_bytes(8, "big")


async def _examined(
    me: Client, group: Group, roster: Roster, begun: int, contribution: Contribution, identities: Identities | None
) -> dict[str, bytes]:
    """The useful content of the contributions in the list. Raises ValueError that names the first invalid one."""
    lists = zip(roster.public_keys, roster.contributions, roster.points, strict=True)
    joins = dict(zip(group.names, (Join(*one) for one in lists), strict=True))
    titles = {name: f"{name}#{life}" for name, life in zip(group.names, roster.incarnations, strict=True)}
    offered, unsigned = await _contributions(me, joins, titles, begun, identities)
    if unsigned:
        raise ValueError("; ".join(unsigned.values()))
    usable, refused = await contribution.examine(me, offered)
    if refused:
        what = contribution.published
        raise ValueError("; ".join(f"the {what} of {name} is refused: {why}" for name, why in refused.items()))
    return usable


def _checked(name: str, join: Join) -> Join:
    if not 1 <= join.points <= MOST_POINTS:
        raise ValueError(f"{join.points} points; 1 to {MOST_POINTS} are allowed")
    return join


def _check(name: str, answer: SeedCheck) -> bytes:
    if len(answer.check) not in (0, CHECK_BYTES):
        raise ValueError(f"a check is {CHECK_BYTES} bytes, or none from who cannot use the seed")
    return answer.check


def _seed(message: Seed) -> bytes:
    if len(message.seed) != SEED_BYTES:
        raise ValueError(f"a group seed is {SEED_BYTES} bytes, not {len(message.seed)}")
    return message.seed


async def agree(
    me: Client, pair: KeyPair, names: Sequence[str], incarnations: Sequence[int], public_keys: Sequence[bytes]
) -> dict[str, SharedSecret]:
    """Agree on a secret between the `pair` of `me` and each other of `names`, and make a sealed channel to it.

    `names`, including `me`, are in the same order for both of a pair. Raises ValueError for an invalid key.
    """
    titles = [f"{name}#{life}" for name, life in zip(names, incarnations, strict=True)]
    mine = names.index(me.name)
    others = [i for i in range(len(titles)) if i != mine]
    keys, halves = [public_keys[i] for i in others], _halves_of(me.world)
    raw = [None if halves is None else halves.pop(key + pair.public, None) for key in keys]
    left = [key for key, secret in zip(keys, raw, strict=True) if secret is None]
    found = iter(await me.compute({"x25519.agree": len(others)}, agreed, pair, left))
    if halves is not None and len(halves) > _MOST_HALVES:
        halves.clear()
    secrets: dict[str, SharedSecret] = {}
    channels: dict[str, Channel] = {}
    me.channels = channels
    own, run_id, number = titles[mine], me.world.run_id, me.round
    for i, known in zip(others, raw, strict=True):
        secret = next(found) if known is None else known
        if halves is not None and known is None:
            halves[pair.public + public_keys[i]] = secret
        lower = mine < i
        both = (own, titles[i]) if lower else (titles[i], own)
        shared = secrets[names[i]] = SharedSecret(secret, run_id, number, both)
        channels[names[i]] = PairChannel(shared, lower)
    return secrets


_halves: WeakKeyDictionary[World, dict[bytes, bytes]] = WeakKeyDictionary()
_MOST_HALVES = 1 << 18  # of about 250 bytes each; those of clients that were lost are never asked for


def _halves_of(world: World) -> dict[bytes, bytes] | None:
    """The secrets that one of a pair has computed and the other has not, by the keys of both; None if each computes it.

    Of a simulation only: both ends are in one process there, and X25519 gives both the same secret, so that the second
    one takes it from here. That takes the same virtual time. `KeyPair` derives each public key from the private one,
    so whoever asks has the private key of the second.
    """
    if world.hollow is not None or not world.computing.shares:
        return None
    return _halves.setdefault(world, {})


@dataclass(frozen=True)
class SetUp(Part):
    """The set-up as a part of a protocol. `contribution`: the bytes that each client publishes in addition to its key.

    `identities`: true if `protocol.identity` may require signatures.
    """

    contribution: Callable[[Any], int] = lambda tables: 0
    identities: bool = False
    takes = STEPS
    between_clients = (Seed,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        signed = self.identities and is_signed(tables)
        p, names = len(among.names), text(among.names)
        published = KEY_BYTES + self.contribution(tables) + signed * SIGNATURE_BYTES
        return {
            "Join": p * published,
            "Roster": p * (p * published + names + text(among.names[:1])),
            "Seed": (p - 1) * SEED_BYTES,
            "SeedCheck": p * CHECK_BYTES,
            "SeedAgreed": p * names,
        }

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """The clients that got the seed of a group late, in the second half of the server's wait, each by itself.

        A leader that is held up may answer in time, and those that wait for its seed too late.
        """
        half, named = duration(trial.scenario.protocol.deadline) / 2, dict[tuple[str, int, int], float]()
        for event in trial.events:
            if event.kind == "send" and event.party == "server" and event.type in ("Roster", "NewLeader"):
                named[event.peer, event.round, event.attempt] = event.time
            elif event.kind == "deliver" and event.type == "Seed":
                since = named.get((event.peer, event.round, event.attempt), event.time)
                yield from [((event.peer,), event.time)] if event.time - since > half else []

    def waits(self, tables: Any) -> int:
        return int(tables.data.clients) + 2
