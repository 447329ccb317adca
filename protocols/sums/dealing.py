"""Double masking: keys and seeds are dealt in shares, so that a sum continues without lost clients.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, `deal` | DealtKey | j -> server | 32 | the public half of a second, fresh X25519 pair |
| server, `announce` | DealtKeys | server -> each in A | 32 |A|, names of A | A, and all second public keys |
| client, `deal` | DealtShares | j -> each other in A, sealed | 72 | shares of the pair's private half and of a seed |
| server, `uncover` | Survivors | server -> each in U3 | names of U3 | U3, whose masked values were accepted |
| client, `Dealt` | Revealed | j in U3 -> server | 36 |A| | a share of each one's seed (U3) or key (A \\ U3) |

Paper: Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017, Figure 4, rounds
0 to 2 and 4 (round 3, signatures, is for active attackers). FedProp uses it for its rows. In each attempt every client
makes a second pair and a 32-byte personal seed, and deals both among the |A| of the attempt: t shares restore them, by
default t = floor((|A| + C) / 2) + 1, where C of the clients that were called may collude with the server (0 unless the
scenario states a share). The pair masks come from the second pair's secrets; over them lies a mask from the
personal seed. For a lost client, t clients reveal the second key, so that its pair masks can be taken out of the sum;
for another, the seed, so that its personal mask can. Both together would reveal the client's values: a client answers
one U3 an attempt, with one kind of share for each client.

A client enforces its own protection by refusals (`sum`). It deals once in a round and attempt, also if it is called
again or comes back after a crash, among an A of clients that it knows from the set-up. It computes t itself, always
more than (|A| + C) / 2. A and U3 have at least the agreed smallest number of clients, and C + 2, and U3 at least t
clients of A. The seals of the shares are bound to A and its second keys: a client shown another A can open none of
them. Where the server is to open a sum (`secure_sum`), a client answers only an U3 of at least `quorum.fewest_left`
clients whose shares it holds, as the server may show each client another U3.

The set-up's keys are never dealt. A share that was not received, or is invalid, is empty in the answer (a client waits
for those of U3 half a deadline), and the trace names who sent it. With fewer than t shares of one secret the attempt
fails. Where shares do not fit together the server waits for all answers, finds the wrong ones as far as possible
(`share_errors`), and goes on with the others.

Masked values come between dealing and opening; whose never came is lost (`sum.without_silent`). The server then
announces U3, the others (`uncover`); with `identities` it forwards the signatures on it (`consistency`). From t shares
of each secret it restores seeds and keys, and from these the keys of the masks that are left in the values of U3
(`dealt_secrets`).

Security: semi-honest, up to C clients collude with the server. The server then has fewer than t shares of one kind, and
t - 1 say nothing (`shamir`). Even a server that shows two halves of the clients different sets, and has the shares of C
clients, does not get both secrets of a client: it would need 2 t - 2 C shares from honest clients, one from each, and
with t > (|A| + C) / 2 that is more than there are. The server learns the seeds of U3 and the second keys of A \\ U3,
which mask nothing else.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from tacit.parties.client import Client
from tacit.parties.mailbox import Kinds
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum, shamir, share_errors
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret, StandIn, StandInPair
from tacit.protocols.crypto.dealt_secrets import (
    SHARE,
    Attempt,
    Held,
    Secrets,
    agreements,
    combine,
    combine_work,
    correct,
    personal_key,
    signed_keys,
)  # fmt: skip
from tacit.protocols.crypto.masking import SignedKey
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.crypto.sizes import text
from tacit.protocols.identities import SIGNATURE_BYTES, Claim, Identities, is_signed, parted
from tacit.protocols.outcome import Abort, Reason
from tacit.protocols.parts import Among, Part
from tacit.protocols.sums import consistency
from tacit.protocols.sums.consistency import Agreement, Signed
from tacit.protocols.sums.sum import FEW_NEIGHBOURS, FEW_VALUES
from tacit.protocols.values import BadValues, announced, understood, values_of, with_usable_keys
from tacit.sim.hollow import hollow, predicted
from tacit.sim.streams import Entropy, derive
from tacit.sim.wire import Message

__all__ = [
    "Announced", "Circle", "Dealing", "Dealt", "DealtKey", "DealtKeys", "DealtShares", "OwnKeys", "Revealed",
    "Survivors", "Uncovered", "announce", "check_own", "collect_keys", "deal", "deal_among", "gather", "make_keys",
    "may_deal", "uncover",
]  # fmt: skip

K = TypeVar("K", bound=Any)


_SIGNED = "dealt key"


class DealtKey(Message):
    admits: ClassVar[tuple[str, ...]] = ("DealtKeys",)
    in_attempt: ClassVar[bool] = True
    public_key: bytes


class DealtKeys(Message):
    names_members: ClassVar[bool] = True
    names: list[str]
    public_keys: list[bytes]


class DealtShares(Message):
    shares: bytes


class Survivors(Message):
    names_members: ClassVar[bool] = True
    names: list[str]


class Revealed(Message):
    shares: list[bytes]


# Dealing. The client


def may_deal(me: Client) -> bool:
    """Record that `me` deals in this attempt; return false and trace a refusal if it has dealt already."""
    if me.once("deal"):
        return True
    me.refuse("deal its keys twice in one attempt")
    return False


@dataclass(frozen=True)
class OwnKeys:
    """A client's keys for an attempt: its second pair, and the `secrets` that it deals, private half and seed."""

    pair: KeyPair
    secrets: list[bytes] = field(repr=False)


async def make_keys(me: Client) -> OwnKeys:
    """Make a second pair and a personal seed."""
    drawn = me.entropy("dealt x25519"), me.entropy("personal seed")
    return await me.compute({"x25519.keygen": 1}, _own_keys, *drawn)


def _predicted_keys(for_key: Entropy, for_seed: Entropy) -> OwnKeys:
    private, seed = StandIn.drawn(for_key), StandIn.drawn(for_seed)
    return OwnKeys(StandInPair(private), [private, seed])


@predicted(_predicted_keys)
def _own_keys(for_key: Entropy, for_seed: Entropy) -> OwnKeys:
    private, seed = for_key.bytes(KEY_BYTES), for_seed.bytes(KEY_BYTES)
    return OwnKeys(KeyPair(private), [private, seed])


@dataclass(frozen=True)
class Circle:
    """The clients with which a client deals: the `public_keys`, titles and sealing `contexts` of each, in order.

    `names` and `holders` are those of `Dealt`. `titles` are the names with incarnations of both ends for each other
    client, `contexts` the data to which seals are bound.
    """

    names: tuple[str, ...]
    holders: tuple[str, ...]
    public_keys: dict[str, bytes]
    titles: dict[str, tuple[str, str]]
    contexts: dict[str, bytes]
    threshold: int
    least: Least
    clients: int
    signed: Signed | None = None


async def deal(
    me: Client,
    secrets: Mapping[str, SharedSecret],
    chosen: int | None,
    least: Least,
    deadline: float,
    signed: Signed | None = None,
) -> "Dealt | None":
    """Make a second pair and a personal seed, learn A, and deal both among A; return None if `me` refuses A.

    Call it after `may_deal`. `secrets`: those of the set-up, whose keys seal the shares, with all clients that `me`
    knows; `chosen`: t, if more than a majority; `least`: the smallest A and U3. `signed`: keys are signed, and t is at
    least the number of signatures.
    """
    own = await make_keys(me)
    await send_key(me, own.pair, signed)
    keys = await me.recv(DealtKeys, me.server, 2 * deadline)
    with values_of(me, me.server, "DealtKeys"):
        known = dict.fromkeys(name for name in keys.names if name == me.name or name in secrets)
        names = announced(me, keys.names, known)
        if len(names) != len(keys.public_keys):
            raise ValueError(f"{len(keys.public_keys)} keys are not those of {len(names)} clients")
        public_keys = await verified(me, dict(zip(names, keys.public_keys, strict=True)), signed)
        circle = _everybody(me, public_keys, own, secrets, chosen, least, signed)
        return None if circle is None else await deal_among(me, own, circle)


async def send_key(me: Client, pair: KeyPair, signed: Signed | None) -> None:
    """Send the public half of the second `pair`, signed if keys are signed."""
    signature = b"" if signed is None else await signed.identities.sign(me, _SIGNED, me.attempt, pair.public)
    me.send(me.server, DealtKey(pair.public + signature))


async def verified(me: Client, keys: Mapping[str, bytes], signed: Signed | None) -> dict[str, bytes]:
    """The second `keys` of clients, without signatures. Raises ValueError for a wrong signature."""
    if signed is None:
        return dict(keys)
    found = {name: parted(key) for name, key in keys.items()}
    claims = {name: Claim(signed.titles[name], (key,), signature) for name, (key, signature) in found.items()}
    problems = await signed.identities.problems(me, _SIGNED, me.attempt, claims)
    if problems:
        raise ValueError("; ".join(problems.values()))
    return {name: key for name, (key, _) in found.items()}


def _everybody(
    me: Client,
    public_keys: dict[str, bytes],
    own: OwnKeys,
    secrets: Mapping[str, SharedSecret],
    chosen: int | None,
    least: Least,
    signed: Signed | None,
) -> Circle | None:
    """The circle of all clients of A; None if `me` refuses it. Raises ValueError."""
    names = tuple(public_keys)
    check_own(me, public_keys, own.pair)
    threshold = max(quorum.threshold_of(chosen, len(names), least.colluding), signed.least if signed else 0)
    problem = least.problem(names) or _beyond(len(names), threshold, least.colluding, signed)
    if problem:
        me.refuse(f"take part in a sum: {problem}")
        return None
    shown = derive(b"DealtKeys", *names, *(key.hex() for key in public_keys.values()))
    others = [name for name in names if name != me.name]
    titles = {name: secrets[name].names for name in others}
    contexts = dict.fromkeys(others, shown)
    return Circle(names, names, public_keys, titles, contexts, threshold, least, len(names), signed)


def _beyond(members: int, threshold: int, colluding: int, signed: Signed | None) -> str:
    """The reason to refuse an A of `members` clients, fewer than t = `threshold`; "" if they are enough."""
    if threshold <= members:
        return ""
    signing = signed.identities.colluding if signed is not None else None
    return f"{members} are fewer than {threshold}{quorum.too_few_for(threshold, max(colluding, signing or 0))}"


def check_own(me: Client, public_keys: Mapping[str, bytes], pair: KeyPair) -> None:
    """Raise ValueError unless the key of `me` among `public_keys` is that of its `pair`."""
    if public_keys[me.name] != pair.public:
        raise ValueError(f"the key that is ascribed to {me.name} is not the one that it sent")


async def deal_among(me: Client, own: OwnKeys, circle: Circle) -> "Dealt":
    """Deal the secrets of `own` among the `circle`."""
    others, count = list(circle.titles), len(circle.holders)
    work = {"x25519.agree": len(others)} | shamir.split_work(KEY_BYTES, 2, circle.threshold, count)
    theirs = [circle.public_keys[name] for name in others]
    raw, shares = await me.compute(
        work, _agree_and_split, own.pair, theirs, own.secrets, circle.threshold, count, me.entropy("shares")
    )
    run_id, number, titles = me.world.run_id, me.round, circle.titles
    if others and raw[0] is _NO_SECRET:
        pairs = dict.fromkeys(others, SharedSecret(_NO_SECRET, run_id, number, ("", "")))
    else:
        pairs = {
            name: SharedSecret(secret, run_id, number, titles[name]) for name, secret in zip(others, raw, strict=True)
        }
    dealt_to = dict(zip(circle.holders, shares, strict=True))
    kept = {me.name: dealt_to.pop(me.name)} if me.name in dealt_to else {}
    for name in dealt_to:
        me.channels[name].bind(circle.contexts[name])  # who was shown something else cannot open the shares
    if shares.count(shares[0]) == len(shares):  # hollow ones
        me.send_each(dealt_to, DealtShares(shares[0]))
    else:
        for name, share in dealt_to.items():
            me.send(name, DealtShares(share))
    title = f"{me.name}#{me.incarnation}"
    personal = personal_key(own.secrets[1], me.world.run_id, me.round, me.attempt, title)
    stamp = (me.round, me.attempt)
    names, holders = circle.names, circle.holders
    dealt = Dealt(stamp, names, circle.threshold, circle.least, pairs, personal, kept, holders, circle.clients)
    dealt.signed = circle.signed
    return dealt


def _hollow_split(pair: KeyPair, keys: list[bytes], secrets: list[bytes], t: int, shares: int, _: Any) -> Any:
    return [pair.hollow(key) for key in keys], [bytes(len(secrets) * SHARE)] * shares


_NO_SECRET = StandIn()
"""In a prediction, in place of the secrets of pairs: only masks are derived from these."""


def _predicted_split(pair: KeyPair, keys: list[bytes], secrets: list[bytes], t: int, shares: int, _: Any) -> Any:
    return [_NO_SECRET] * len(keys), [bytes(len(secrets) * SHARE)] * shares


@predicted(_predicted_split)
@hollow(_hollow_split)
def _agree_and_split(
    pair: KeyPair, public_keys: list[bytes], secrets: list[bytes], threshold: int, shares: int, entropy: shamir.Entropy
) -> tuple[list[bytes], list[bytes]]:
    """Agree on the raw secret with each public key; split `secrets` into shares, and join those for each client."""
    dealt = shamir.split(secrets, threshold, shares, entropy)
    return [pair.agree(key) for key in public_keys], [row.tobytes() for row in dealt]


# The server


async def gather(
    me: Server,
    candidates: Sequence[str],
    chosen: int | None,
    deadline: float,
    least: int = 0,
    identities: Identities | None = None,
    colluding: int = 0,
) -> "Announced":
    """Collect the second public keys of an attempt that was just begun; clients whose keys are missing are lost.

    `least`: the smallest number of clients over which clients let a sum be opened, if they enforce it. With
    `identities` keys are signed. `colluding`: C, as clients take it.
    """
    size = None if identities is None else KEY_BYTES
    answers = await collect_keys(me, DealtKey, candidates, deadline, lambda answer: (answer.public_key[:size],))
    keys = {name: answer.public_key[:size] for name, answer in answers.items()}
    titles = {name: f"{name}#{me.incarnations[name]}" for name in keys}
    signatures = {}
    if identities is not None:
        signatures = {name: answer.public_key[size:] for name, answer in answers.items()}
        claims = {name: Claim(titles[name], (key,), signatures[name]) for name, key in keys.items()}
        for name, problem in (await identities.problems(me, _SIGNED, me.attempt, claims)).items():
            del keys[name], titles[name]
            me.lose([name], f"its key to be dealt is refused: {problem}")
            me.dismiss([name], f"your key to be dealt is refused: {problem}")
    t = quorum.threshold_of(chosen, len(keys), colluding)
    fewest = quorum.fewest_left(len(keys), t, least, colluding) if least else t
    return Announced(me.attempt, keys, titles, t, fewest, None, identities, signatures, signers=t)


async def collect_keys(
    me: Server,
    kind: type[K],
    candidates: Sequence[str],
    deadline: float,
    keys_of: Callable[[K], Sequence[bytes]] = lambda answer: (answer.public_key,),
) -> dict[str, K]:
    """Collect the messages of `kind` from `candidates` whose keys, by `keys_of`, are usable; other clients are lost."""
    answers = (await me.collect(kind, candidates, deadline=deadline)).answers
    usable = await with_usable_keys(me, answers, keys_of)
    missing = [name for name in candidates if name not in usable]
    me.lose(missing, "its key to be dealt never came: it takes no part in the sum")
    me.dismiss(missing, f"your key to be dealt did not come within {deadline:g} s")
    return usable


def announce(me: Server, attempt: "Announced") -> None:
    """Broadcast A and the second public keys."""
    me.broadcast(attempt.names, DealtKeys(list(attempt.names), [attempt.shown(name) for name in attempt.names]))


# Opening. A client: its answer to who is left


@dataclass
class Dealt:
    """The state of a client in the attempt `stamp`; `names`: A, or in a graph itself and its neighbours.

    `holders`: the clients of `names` with which it exchanges shares, and itself if it holds a share of its own secret.
    `pairs`: its secrets with the others, by second keys; `personal`: its personal key; `shares`: those of others.
    `clients`: |A|. `dealers`: from how many clients it needs shares before it masks. It accepts an U3 that `least`
    accepts, with `fewest` clients or more, whose shares it has received. `answered`: the U3 that it has accepted.
    `signed`: the identities that sign, if any; `shown`: the signatures on U3. `revealed`: it has answered U3. `done`:
    the messages by which the server reports the sum. `then` is called with U3 once its shares are sent.
    """

    stamp: tuple[int, int]
    names: tuple[str, ...]
    threshold: int
    least: Least
    pairs: dict[str, SharedSecret] = field(repr=False)
    personal: bytes = field(repr=False)
    shares: dict[str, bytes] = field(repr=False)
    holders: tuple[str, ...] = ()
    clients: int = 0
    dealers: int = 0
    answered: tuple[str, ...] = ()
    fewest: int = 0
    signed: Signed | None = None
    shown: Agreement | None = None
    revealed: bool = False
    done: Kinds = ()
    then: Callable[[Sequence[str]], None] | None = field(default=None, repr=False)

    def is_current(self, me: Client) -> bool:
        """Return true if `me` is still in this attempt."""
        return (me.round, me.attempt) == self.stamp

    def accepts(self, me: Client, survivors: Sequence[str]) -> bool:
        """Return true if `me` may reveal shares to U3 = `survivors`; if not, trace the reason."""
        if not self.is_current(me):
            problem = "they are asked for in another attempt"
        elif self.answered:
            problem = f"shares were revealed for {len(self.answered)} survivors already, once an attempt is all"
        elif me.name not in survivors or not set(survivors) <= set(self.names):
            problem = "those are no survivors of this attempt"
        elif (left := len({*survivors}.intersection(self.holders))) < self.threshold:
            problem = f"{left} survivors are fewer than the threshold, {self.threshold}"
        else:
            problem = self.least.problem(survivors)
        if not problem and len(set(survivors)) < self.fewest:
            problem = f"{len(set(survivors))} survivors of {len(self.names)} are fewer than {self.fewest}"
        if problem:
            me.refuse(f"reveal shares: {problem}")
        return not problem

    async def respond(self, me: Client, answer: Survivors | Agreement, part: str, deadline: float) -> None:
        """Sign U3, or reveal shares for it, as `answer` asks, in the steps `part`.agree and `part`.reveal."""
        if isinstance(answer, Agreement):
            self.shown = answer
        elif not self.accepts(me, answer.names):
            return
        else:
            self.answered, self.revealed = tuple(answer.names), False
            if self.signed is not None:
                with me.step(f"{part}.agree"):
                    await consistency.sign(me, self.signed.identities, self.names, self.answered)
        if self.answered and not self.revealed and self.is_current(me) and (self.signed is None or self.shown):
            self.revealed = True
            with me.step(f"{part}.reveal"):
                if await self._is_agreed(me):
                    await self.reveal(me, self.answered, deadline)

    async def _is_agreed(self, me: Client) -> bool:
        """Return true if enough clients have signed A and U3 as shown to `me`, or no signatures are required."""
        if self.signed is None or self.shown is None:
            return self.signed is None
        own = self.signed
        return await consistency.is_agreed(
            me, own.identities, self.shown, self.names, self.answered, own.titles, own.least
        )

    async def hear(self, me: Client, deadline: float) -> None:
        """Receive U3 when the sum exists already and shares are no longer needed. Raises NoAnswer, or ValueError."""
        survivors = await me.recv(Survivors, me.server, deadline)
        if not self.accepts(me, survivors.names):
            raise ValueError("the survivors are not members of this attempt")
        self.answered = tuple(survivors.names)

    async def take_in(self, me: Client, names: Sequence[str], deadline: float) -> list[str]:
        """Wait for the shares that `names` deal; return those whose shares are missing or invalid.

        Once the sum exists, missing shares are not needed: their dealers may be gone.
        """
        awaited = [name for name in names if name not in self.shares]
        found = await me.collect(DealtShares, awaited, deadline=deadline, until=self.done)
        self.shares |= understood(me, found.answers, _usable)
        return [name for name in awaited if name not in self.shares]

    async def reveal(self, me: Client, survivors: Sequence[str], deadline: float) -> None:
        """Answer an accepted U3: one share for each dealer, of its seed or of its dealt key."""
        # Shares of U3 were sent before the values that put it there; of the others, nothing more is to come.
        left, holders, of_key, of_seed = {*survivors}, {*self.holders}, slice(SHARE), slice(SHARE, 2 * SHARE)
        await self.take_in(me, [name for name in survivors if name in holders], deadline / 2)
        count = sum(name in self.shares for name in survivors)
        if count < self.fewest:
            me.refuse(f"reveal shares: {count} survivors have dealt theirs among the same clients, not {self.fewest}")
            return
        await self.take_in(me, [name for name in self.holders if name not in left], 0)
        held = ((name in left, self.shares.get(name, b"")) for name in self.holders)
        me.send(me.server, Revealed([shares[of_seed if stays else of_key] for stays, shares in held]))
        if self.then is not None:
            self.then(survivors)


def _usable(name: str, dealt: DealtShares) -> bytes:
    """The shares that `name` has dealt. Raises ValueError for invalid ones."""
    if len(dealt.shares) != 2 * SHARE:
        raise ValueError(f"two shares take {2 * SHARE} bytes, not {len(dealt.shares)}")
    shamir.check(dealt.shares)
    return dealt.shares


# The server: the masks that are left in the values of U3


@dataclass(frozen=True)
class Announced(Attempt):
    """An attempt as the server announced it: A with its second public keys.

    `local`: each client knows only its neighbours, not all of A. `identities`: the keys that sign keys and sets, if
    any; `signatures`: those on second keys; `signers`: the number of clients of U3 that must sign it.
    """

    identities: Identities | None = None
    signatures: Mapping[str, bytes] = field(default_factory=dict)
    signers: int = 0

    def shown(self, name: str) -> bytes:
        """The second key of `name` as shown to clients: with its signature, if any."""
        return self.public_keys[name] + self.signatures.get(name, b"")

    @property
    def local(self) -> bool:
        return False

    def too_few(self, survivors: Collection[str]) -> Reason:
        """The reason why clients open nothing for U3 = `survivors`; "" if there is none."""
        if len(survivors) < (needed := max(self.threshold, self.fewest)):
            return Reason(FEW_VALUES, count=len(survivors), needed=needed)
        if self.graph is not None:
            left = frozenset(survivors)
            for name in self.names:
                if (count := len(left.intersection(self.holders(name)))) < self.threshold:
                    return Reason(FEW_NEIGHBOURS, count=count, client=(name,), needed=self.threshold)
        return Reason()


@dataclass(frozen=True)
class Uncovered:
    """The result of an attempt's unmasking.

    `signed`: for each of U3 the keys of the masks to be taken out of its values; empty if too few shares were received.
    Then `problem` has the numbers received and needed, and `lost` the clients to blame, with the reason.
    """

    signed: dict[str, list[SignedKey]] = field(repr=False)
    lost: dict[str, str] = field(default_factory=dict)
    problem: Reason = field(default_factory=Reason)


async def uncover(
    me: Server, attempt: Announced, survivors: tuple[str, ...], purpose: str, deadline: float
) -> Uncovered:
    """Announce U3 = `survivors` and compute the masks that are left in their values.

    `purpose`: that of the pair masks. It continues as soon as t shares of each secret have arrived, or all have
    answered. If keys are signed, shares are requested once `attempt.signers` of U3 have signed it.
    """
    t, names = attempt.threshold, attempt.names
    if problem := attempt.too_few(survivors):
        return Uncovered({}, problem=problem)
    _name_survivors(me, attempt, survivors)
    if attempt.identities is not None:
        least = attempt.signers
        silent = await consistency.witness(me, attempt.identities, names, survivors, attempt.titles, least, deadline)
        if silent:
            count = len(survivors) - len(silent)
            problem = Reason(
                "{count} of {clients} clients have signed who is left; {needed} are needed",
                count=count, clients=len(survivors), needed=least,
            )  # fmt: skip
            return Uncovered({}, dict.fromkeys(silent, "it did not sign who is left"), problem)
    left = frozenset(survivors)
    gone = [name for name in names if name not in left]
    work = {"x25519.keygen": len(gone), "x25519.agree": agreements(attempt, left)}
    held: Held = {name: {} for name in names}
    short = set(names)  # whose secrets are still short of shares
    answered: set[str] = set()
    secrets: Secrets | None = None
    doubtful = False  # shares do not fit together: the more there are, the more wrong ones can be found
    with me.incoming((Revealed,), survivors, deadline=deadline) as arrivals:
        async for source, message in arrivals:
            arrivals.leave_out(source)
            with suppress(BadValues), values_of(me, source, "Revealed"):
                dealers = attempt.holders(source)  # who deal with it: all are each other's holders
                for name, share in zip(dealers, _shares(message, len(dealers)), strict=True):
                    if share:
                        held[name][attempt.place(name, source)] = share
                        if len(held[name]) == t:
                            short.discard(name)
                answered.add(source)
            everybody = len(answered) == len(survivors)
            if not doubtful and (everybody or not short):
                if short:
                    break
                work |= combine_work(attempt, held)
                secrets = await me.compute(work, combine, attempt, survivors, held)
                doubtful = secrets is None
            if everybody or secrets is not None:
                break
    if short:
        lost = {name: "it revealed no shares" for name in survivors if name not in answered}
        problem = Reason(
            "{count} of {clients} clients answered to Survivors; {needed} are needed",
            count=len(answered), clients=len(survivors), needed=t,
        )  # fmt: skip
        if attempt.graph is not None or len(answered) >= t:  # it is not the number of answers, but what they hold
            few = [name for name in names if name in short]
            # Where fewer than t of those who deal with a client have answered, they are to blame, and not the client.
            heard = [name for name in few if name in left and len(answered.intersection(attempt.holders(name))) >= t]
            lost |= dict.fromkeys(heard, "too few have its shares")
            problem = Reason("fewer than {needed} clients have shares of {clients}", needed=t, clients=few)
        return Uncovered({}, lost, problem)
    if secrets is None:
        secrets = await _without_wrong_shares(me, attempt, survivors, held, work)
    return Uncovered(signed_keys(attempt, survivors, secrets, purpose, me.world.run_id, me.round))


def _name_survivors(me: Server, attempt: Announced, survivors: tuple[str, ...]) -> None:
    """Announce U3 to its members; a client that knows only its neighbours gets those of them that are in U3."""
    if attempt.graph is None or not attempt.local:
        me.broadcast(survivors, Survivors(list(survivors)))
        return
    left = frozenset(survivors)
    for name in survivors:
        me.send(name, Survivors([one for one in attempt.graph.around(name) if one in left]))


def _shares(message: Revealed, count: int) -> list[bytes]:
    if len(message.shares) != count or any(len(share) not in (0, SHARE) for share in message.shares):
        raise ValueError(f"{count} shares of {SHARE} bytes, or none, were due")
    return message.shares


async def _without_wrong_shares(
    me: Server, attempt: Announced, survivors: tuple[str, ...], held: Held, work: dict[str, int]
) -> Secrets:
    """The secrets from those shares that fit together; the trace names the others. Raises Abort."""
    work = {name: count * len(attempt.holders(attempt.names[0])) for name, count in work.items()}  # each share is tried
    found = await me.compute(work, correct, attempt, survivors, held)
    for problem in share_errors.blamed(found.wrong):
        me.world.note("drop", me.name, step=me.step_name, note=problem)
    if found.hopeless:
        reasons = [
            Reason("{what} of {client}: {problem}", what=what, client=(name,), problem=problem)
            for what, name, problem in found.hopeless
        ]
        raise Abort("the sum cannot be unmasked: {why}", why=Reason.joined(reasons))
    return found.secrets


# The part of a protocol


@dataclass(frozen=True)
class Dealing(Part):
    """Dealing as a part of a sum, which has its steps. `identities`: `protocol.identity` may require signed keys."""

    identities: bool = False
    messages = (DealtKey, DealtKeys, DealtShares, Survivors, Revealed)
    between_clients = (DealtShares,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, names = len(among.names), text(among.names)
        key = KEY_BYTES + (self.identities and is_signed(tables)) * SIGNATURE_BYTES
        return {
            "DealtKey": p * key,
            "DealtKeys": p * (p * key + names),
            "DealtShares": p * (p - 1) * 2 * SHARE,
            "Survivors": p * names,
            "Revealed": p * p * SHARE,
        }
