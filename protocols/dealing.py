"""Double masking: keys and seeds that are dealt in shares, so that a sum goes on without those who are lost.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, `deal` | DealtKey | j -> server | 32 | the public half of a second, fresh X25519 pair |
| server, `announce` | DealtKeys | server -> each in A | 32 |A|, names of A | A, and all second public keys |
| client, `deal` | DealtShares | j -> each other in A, sealed | 72 | shares of the pair's private half and of a seed |
| server, `uncover` | Survivors | server -> each in U3 | names of U3 | U3, whose masked values were accepted |
| client, `reveal` | Revealed | j in U3 -> server | 36 |A| | a share of each one's seed (U3) or key (A \\ U3) |

Paper: Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017, Figure 4, rounds
0 to 2 and 4 (round 3, signatures, is for active attackers). FedProp uses it for its rows. In each attempt every client
makes a second pair and a 32-byte personal seed, and deals both among the |A| of the attempt: t shares restore them,
by default t = floor(|A| / 2) + 1. The pair masks come from the second pair's secrets; over them lies a mask from the
personal seed. For a lost client, t clients reveal the second key, so that its pair masks can be taken out of the sum;
for another, the seed, so that its personal mask can. Both together would reveal the client's values: a client
answers one U3 an attempt, with one kind of share for each client.

What protects a client it sees to itself, and refuses what does not (`refusal`). It deals once in a round and attempt,
also if it is called again or comes back after a crash, among an A of clients that it knows from the set-up. It works
out t, more than |A| / 2 whatever is chosen. A and U3 hold the fewest clients that all know of beforehand, and U3 at
least t of A. The seals of the shares are bound to A and its second keys: a client shown another A has none of them.
Where the server is to open a sum (`secure_sum`), a client answers an U3 of `quorum.fewest_left` of whom it holds
shares, for each client may be shown an U3 of its own.

The set-up's keys are never dealt. A share that was not received, or is invalid, is empty in the answer (a client waits
for those of U3 half a deadline), and the trace names who sent it. With fewer than t shares of one secret the attempt
fails. Where shares do not fit together the server waits for all answers, finds the wrong ones as far as possible
(`share_errors`), and goes on with the others.

Security: semi-honest, no collusion between server and clients; then less than t shares leave the client, and t - 1
say nothing (`shamir`). With t > |A| / 2 not even a server that shows two halves of the clients different sets gets
both secrets of one. The server learns the seeds of U3 and the second keys of A \\ U3, which mask nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from parties.client import Client
from parties.server import Server
from protocols import quorum, uncovering
from protocols.crypto import shamir, share_errors
from protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from protocols.outcome import Abort
from protocols.refusal import Least, enter, refuse
from protocols.uncovering import Announced, Uncovered, personal_key, signed_keys
from protocols.values import BadValues, announced, understood, values_of, with_usable_keys
from sim.streams import derive
from sim.wire import Message

__all__ = [
    "Announced", "Circle", "Dealt", "OwnKeys", "Uncovered", "announce", "check_own", "collect_keys", "deal",
    "deal_among", "gather", "make_keys", "may_deal", "personal_key", "signed_keys", "uncover",
]  # fmt: skip

SHARE = shamir.share_bytes(KEY_BYTES)

K = TypeVar("K", bound=Any)


class DealtKey(Message):
    public_key: bytes


class DealtKeys(Message):
    names: list[str]
    public_keys: list[bytes]


class DealtShares(Message):
    shares: bytes


class Survivors(Message):
    names: list[str]


class Revealed(Message):
    shares: list[bytes]


# The client


@dataclass
class Dealt:
    """The state of a client in the attempt `stamp` among `names`: A, or itself and its neighbours in A.

    `holders`: those of `names` that deal with it, itself too where it holds a share of its own. Its dealt pair secrets,
    its personal key, others' shares. `clients`: |A|; `dealers`: of how many it must have shares before it masks. U3
    holds `least`, and `fewest` who dealt among the same.
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

    def is_current(self, me: Client) -> bool:
        """Whether `me` is still in this attempt."""
        return (me.round, me.attempt) == self.stamp

    def accepts(self, me: Client, survivors: Sequence[str]) -> bool:
        """Whether `me` may reveal shares to those U3 = `survivors`; if not, the trace says why."""
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
            refuse(me, f"reveal shares: {problem}")
        return not problem

    async def hear(self, me: Client, deadline: float) -> None:
        """Learn U3 when the sum is there already and shares are of no more use. Raises NoAnswer, or ValueError."""
        survivors = await me.recv(Survivors, me.server, deadline)
        if not self.accepts(me, survivors.names):
            raise ValueError("the survivors are not members of this attempt")
        self.answered = tuple(survivors.names)

    async def take_in(self, me: Client, names: Sequence[str], deadline: float) -> list[str]:
        """Wait for the shares that `names` deal; returns whose were not received, or are invalid."""
        awaited = [name for name in names if name not in self.shares]
        self.shares |= understood(me, (await me.collect(DealtShares, awaited, deadline=deadline)).answers, _usable)
        return [name for name in awaited if name not in self.shares]

    async def reveal(self, me: Client, survivors: Sequence[str], deadline: float) -> None:
        """Answer an accepted U3: one share for each who deals with it, of the seed or of the dealt key."""
        self.answered = tuple(survivors)
        # Shares of U3 were sent before the values that put it there; of the others, nothing more is to come.
        await self.take_in(me, [name for name in survivors if name in self.holders], deadline / 2)
        count = sum(name in self.shares for name in survivors)
        if count < self.fewest:
            refuse(me, f"reveal shares: {count} survivors have dealt theirs among the same clients, not {self.fewest}")
            return
        await self.take_in(me, [name for name in self.holders if name not in survivors], 0)
        kinds = {name: slice(SHARE, 2 * SHARE) if name in survivors else slice(SHARE) for name in self.holders}
        me.send(me.server, Revealed([self.shares.get(name, b"")[kind] for name, kind in kinds.items()]))


def may_deal(me: Client) -> bool:
    """Enter that `me` deals in this attempt; False, and the trace says so, where it has."""
    if enter(me, "deal"):
        return True
    refuse(me, "deal its keys twice in one attempt")
    return False


@dataclass(frozen=True)
class OwnKeys:
    """What a client makes for an attempt: its second pair, and the `secrets` that it deals: private half and seed."""

    pair: KeyPair
    secrets: list[bytes] = field(repr=False)


async def make_keys(me: Client) -> OwnKeys:
    """A second pair and a personal seed."""
    private, seed = (me.entropy(purpose).bytes(KEY_BYTES) for purpose in ("dealt x25519", "personal seed"))
    return OwnKeys(await me.compute({"x25519.keygen": 1}, KeyPair, private), [private, seed])


@dataclass(frozen=True)
class Circle:
    """Those with whom a client deals: the `public_keys`, titles and sealed-in `contexts` of each other, in order.

    `names` and `holders` as in `Dealt`; for each other client what both are called, and what the seals are bound to.
    """

    names: tuple[str, ...]
    holders: tuple[str, ...]
    public_keys: dict[str, bytes]
    titles: dict[str, tuple[str, str]]
    contexts: dict[str, bytes]
    threshold: int
    least: Least
    clients: int


async def deal(
    me: Client, secrets: Mapping[str, SharedSecret], chosen: int | None, least: Least, deadline: float
) -> Dealt | None:
    """Make a second pair and a personal seed, learn A, and deal both among it; None where `me` refuses A.

    Once `may_deal`. `secrets`: of the set-up, whose keys seal the shares, with all whom `me` knows; `chosen`: t, where
    more than a majority; `least`: of A and of U3.
    """
    own = await make_keys(me)
    me.send(me.server, DealtKey(own.pair.public))
    keys = await me.recv(DealtKeys, me.server, 2 * deadline)
    with values_of(me, me.server, "DealtKeys"):
        circle = _everybody(me, keys, own, secrets, chosen, least)
        return None if circle is None else await deal_among(me, own, circle)


def _everybody(
    me: Client, keys: DealtKeys, own: OwnKeys, secrets: Mapping[str, SharedSecret], chosen: int | None, least: Least
) -> Circle | None:
    """A, all of whom deal with all; None where `me` refuses it. Raises ValueError."""
    names = announced(me, keys.names, dict.fromkeys(name for name in keys.names if name == me.name or name in secrets))
    if len(names) != len(keys.public_keys):
        raise ValueError(f"{len(keys.public_keys)} keys are not those of {len(names)} clients")
    public_keys = dict(zip(names, keys.public_keys, strict=True))
    check_own(me, public_keys, own.pair)
    threshold = quorum.threshold_of(chosen, len(names))
    problem = least.problem(names) or ("" if threshold <= len(names) else f"{len(names)} are fewer than {threshold}")
    if problem:
        refuse(me, f"take part in a sum: {problem}")
        return None
    shown = derive(b"DealtKeys", *names, *(key.hex() for key in keys.public_keys))
    others = [name for name in names if name != me.name]
    titles = {name: secrets[name].names for name in others}
    return Circle(names, names, public_keys, titles, dict.fromkeys(others, shown), threshold, least, len(names))


def check_own(me: Client, public_keys: Mapping[str, bytes], pair: KeyPair) -> None:
    """Raise ValueError unless the key of `me` among `public_keys` is that of its `pair`."""
    if public_keys[me.name] != pair.public:
        raise ValueError(f"the key that is ascribed to {me.name} is not the one that it sent")


async def deal_among(me: Client, own: OwnKeys, circle: Circle) -> Dealt:
    """Deal what is `own` in the `circle`."""
    others, count = list(circle.titles), len(circle.holders)
    work = {"x25519.agree": len(others)} | shamir.split_work(KEY_BYTES, 2, circle.threshold, count)
    theirs = [circle.public_keys[name] for name in others]
    raw, shares = await me.compute(
        work, _agree_and_split, own.pair, theirs, own.secrets, circle.threshold, count, me.entropy("shares")
    )
    pairs = {
        name: SharedSecret(secret, me.world.run_id, me.round, circle.titles[name])
        for name, secret in zip(others, raw, strict=True)
    }
    kept: dict[str, bytes] = {}
    for name, share in zip(circle.holders, shares, strict=True):
        if name == me.name:
            kept[name] = share
        else:
            me.channels[name].bind(circle.contexts[name])  # who was shown something else cannot open the shares
            me.send(name, DealtShares(share))
    title = f"{me.name}#{me.incarnation}"
    personal = personal_key(own.secrets[1], me.world.run_id, me.round, me.attempt, title)
    stamp = (me.round, me.attempt)
    names, holders = circle.names, circle.holders
    return Dealt(stamp, names, circle.threshold, circle.least, pairs, personal, kept, holders, circle.clients)


def _usable(name: str, dealt: DealtShares) -> bytes:
    """The shares that `name` has dealt. Raises ValueError for invalid ones."""
    if len(dealt.shares) != 2 * SHARE:
        raise ValueError(f"two shares take {2 * SHARE} bytes, not {len(dealt.shares)}")
    shamir.check(dealt.shares)
    return dealt.shares


def _agree_and_split(
    pair: KeyPair, public_keys: list[bytes], secrets: list[bytes], threshold: int, shares: int, entropy: shamir.Entropy
) -> tuple[list[bytes], list[bytes]]:
    """The raw secret with each public key, and the bytes of each one's shares of all `secrets`."""
    dealt = shamir.split(secrets, threshold, shares, entropy)
    return [pair.agree(key) for key in public_keys], [row.tobytes() for row in dealt]


# The server


async def gather(
    me: Server, candidates: Sequence[str], chosen: int | None, deadline: float, least: int = 0
) -> Announced:
    """Collect the second public keys of an attempt that was just begun; those that do not come are lost.

    `least`: the fewest clients over whom clients let a sum be opened, where they see to that themselves.
    """
    keys = await collect_keys(me, DealtKey, candidates, deadline)
    public_keys = {name: answer.public_key for name, answer in keys.items()}
    titles = {name: f"{name}#{me.incarnations[name]}" for name in public_keys}
    t = quorum.threshold_of(chosen, len(public_keys))
    return Announced(me.attempt, public_keys, titles, t, quorum.fewest_left(len(public_keys), t, least) if least else t)


async def collect_keys(
    me: Server,
    kind: type[K],
    candidates: Sequence[str],
    deadline: float,
    keys_of: Callable[[K], Sequence[bytes]] = lambda answer: (answer.public_key,),
) -> dict[str, K]:
    """The messages of `kind` from those `candidates` whose keys, by `keys_of`, are usable; the others are lost."""
    answers = (await me.collect(kind, candidates, deadline=deadline)).answers
    usable = await with_usable_keys(me, answers, keys_of)
    missing = [name for name in candidates if name not in usable]
    me.lose(missing, "its key to be dealt never came: it takes no part in the sum")
    me.dismiss(missing, f"your key to be dealt did not come within {deadline:g} s")
    return usable


def announce(me: Server, attempt: Announced) -> None:
    """Name A, and hand the second public keys out."""
    me.broadcast(attempt.names, DealtKeys(list(attempt.names), list(attempt.public_keys.values())))


async def uncover(
    me: Server, attempt: Announced, survivors: tuple[str, ...], purpose: str, deadline: float
) -> Uncovered:
    """Announce U3 = `survivors` and work out which masks are left in their values.

    `purpose`: of the pair masks. Goes on as soon as t shares of each secret are there, or all have answered.
    """
    t, names = attempt.threshold, attempt.names
    if problem := attempt.too_few(survivors):
        return Uncovered({}, problem=problem)
    _name_survivors(me, attempt, survivors)
    left = frozenset(survivors)
    gone = [name for name in names if name not in left]
    work = {"x25519.keygen": len(gone), "x25519.agree": uncovering.agreements(attempt, left)}
    held: uncovering.Held = {name: {} for name in names}
    short = set(names)  # whose secrets are still short of shares
    answered: set[str] = set()
    secrets: uncovering.Secrets | None = None
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
                work |= uncovering.combine_work(attempt, held)
                secrets = await me.compute(work, uncovering.combine, attempt, survivors, held)
                doubtful = secrets is None
            if everybody or secrets is not None:
                break
    if short:
        lost = {name: "it revealed no shares" for name in survivors if name not in answered}
        problem = f"{len(answered)} of {len(survivors)} clients answered to Survivors; {t} are needed"
        if attempt.graph is not None or len(answered) >= t:  # it is not the number of answers, but what they hold
            few = [name for name in names if name in short]
            lost |= {name: "too few have its shares" for name in few if name in left}
            problem = f"fewer than {t} clients have shares of {', '.join(few)}"
        return Uncovered({}, lost, problem)
    if secrets is None:
        secrets = await _without_wrong_shares(me, attempt, survivors, held, work)
    return Uncovered(signed_keys(attempt, survivors, secrets, purpose, me.world.run_id, me.round))


def _name_survivors(me: Server, attempt: Announced, survivors: tuple[str, ...]) -> None:
    """Announce U3 to each of it; in a graph, who of it and its neighbours are."""
    if attempt.graph is None:
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
    me: Server, attempt: Announced, survivors: tuple[str, ...], held: uncovering.Held, work: dict[str, int]
) -> uncovering.Secrets:
    """The secrets from those shares that fit together; the trace says whose do not. Raises Abort."""
    work = {name: count * len(attempt.holders(attempt.names[0])) for name, count in work.items()}  # each share is tried
    found = await me.compute(work, uncovering.correct, attempt, survivors, held)
    for problem in share_errors.blamed(found.wrong):
        me.world.note("drop", me.name, step=me.step_name, note=problem)
    if found.hopeless:
        raise Abort(f"the sum cannot be unmasked: {'; '.join(found.hopeless)}")
    return found.secrets
