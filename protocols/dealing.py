"""Double masking: keys and seeds that are dealt in shares, so that a sum goes on without those who are lost.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, `deal` | DealtKey | j -> server | 32 | the public half of a second, fresh X25519 pair |
| server, `announce` | DealtKeys | server -> each in A | 32 |A| | A, and all second public keys |
| client, `deal` | DealtShares | j -> each other in A, sealed | 72 | shares of the pair's private half and of a seed |
| server, `uncover` | Survivors | server -> each in U3 | 0 | U3, whose masked values were accepted |
| client, `reveal` | Revealed | j in U3 -> server | 36 |A| | a share of each one's seed (U3) or key (A \\ U3) |

Paper: Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017, Figure 4, rounds
0 to 2 and 4 (round 3, signatures, is for active attackers). FedProp uses it for its rows. In each attempt every client
makes a second pair and a 32-byte personal seed, and deals both among the |A| of the attempt: t shares give them back,
by default t = floor(|A| / 2) + 1. The pair masks come from the second pair's secrets; over them lies a mask from the
personal seed. Of who is lost, t clients reveal the second key, so that its pair masks can be taken out of the sum; of
who is not, the seed, so that its personal mask can. Who reveals both would lay bare the client's values: a client
answers one U3 an attempt, with one kind of share for each client, and refuses any other request; the trace says so.

The set-up's keys are never dealt. A share that did not come is empty in the answer (a client waits for those of U3
half a deadline); fewer than t shares of one secret make the attempt fail, and the next has fresh keys and seeds.

Security: semi-honest, no collusion between server and clients; then less than t shares leave the client, and t - 1
say nothing (`shamir`). With t > |A| / 2 not even a server that shows two halves of the clients different sets gets
both secrets of one. The server learns the seeds of U3 and the second keys of A \\ U3, which mask nothing else.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from parties.client import Client
from parties.server import Server
from protocols.crypto import shamir
from protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret, derive_key
from protocols.masking import SignedKey
from protocols.outcome import Abort
from protocols.values import BadValues, announced, values_of, with_usable_keys
from sim.wire import Message

__all__ = ["Announced", "Dealt", "Uncovered", "announce", "deal", "drop", "gather", "threshold_of", "uncover"]

SHARE = shamir.share_bytes(KEY_BYTES)


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


def threshold_of(chosen: int | None, members: int) -> int:
    """t for `members` = |A|: as `chosen`, else a majority."""
    return members // 2 + 1 if chosen is None else chosen


def personal_key(seed: bytes, run_id: bytes, round_number: int, attempt: int, name: str) -> bytes:
    """The key of the personal mask of `name`."""
    return derive_key(seed, run_id, "personal", round_number, attempt, (name,))


# The client


@dataclass
class Dealt:
    """What a client holds in an attempt among `names` = A: its dealt pair secrets, its personal key, others' shares."""

    names: tuple[str, ...]
    threshold: int
    pairs: dict[str, SharedSecret] = field(repr=False)
    personal: bytes = field(repr=False)
    shares: dict[str, bytes] = field(repr=False)
    answered: tuple[str, ...] = ()

    def accepts(self, me: Client, survivors: Sequence[str]) -> bool:
        """Whether `me` may reveal shares to those U3 = `survivors`; if not, the trace says why."""
        if self.answered:
            problem = f"shares were revealed for {len(self.answered)} survivors already, once an attempt is all"
        elif me.name not in survivors or not set(survivors) <= set(self.names):
            problem = "those are no survivors of this attempt"
        elif len(set(survivors)) < self.threshold:
            problem = f"{len(set(survivors))} survivors are fewer than the threshold, {self.threshold}"
        else:
            return True
        me.world.note("metric", me.name, step=me.step_name, note=f"refused to reveal shares: {problem}")
        return False

    async def hear(self, me: Client, deadline: float) -> None:
        """Learn U3 when the sum is there already and shares are of no more use. Raises NoAnswer, or ValueError."""
        survivors = await me.recv(Survivors, me.server, deadline)
        if not self.accepts(me, survivors.names):
            raise ValueError("those who survived are none of this attempt")
        self.answered = tuple(survivors.names)

    async def reveal(self, me: Client, survivors: Sequence[str], deadline: float) -> None:
        """Answer an accepted U3: one share for each of A, of the seed or of the dealt key."""
        self.answered = tuple(survivors)
        # Shares of U3 were sent before the values that put it there; of the others, nothing more is to come.
        awaited = [name for name in survivors if name not in self.shares]
        late = await me.collect(DealtShares, awaited, deadline=deadline / 2)
        there = await me.collect(DealtShares, [n for n in self.names if n not in (*survivors, me.name)], deadline=0)
        for name, dealt in (*late.answers.items(), *there.answers.items()):
            self.shares[name] = dealt.shares
        kinds = {name: slice(SHARE, 2 * SHARE) if name in survivors else slice(SHARE) for name in self.names}
        me.send(me.server, Revealed([self.shares.get(name, b"")[kinds[name]] for name in self.names]))


async def deal(me: Client, secrets: Mapping[str, SharedSecret], chosen: int | None, deadline: float) -> Dealt:
    """Make a second pair and a personal seed, learn A, and deal both among it.

    `secrets`: of the set-up, whose keys seal the shares; `chosen`: t, or None for a majority.
    """
    private, seed = (me.entropy(purpose).bytes(KEY_BYTES) for purpose in ("dealt x25519", "personal seed"))
    pair = await me.compute({"x25519.keygen": 1}, KeyPair, private)
    me.send(me.server, DealtKey(pair.public))
    keys = await me.recv(DealtKeys, me.server, 2 * deadline)
    with values_of(me, me.server, "DealtKeys"):
        return await _deal_among(me, keys, pair, [private, seed], secrets, chosen)


async def _deal_among(
    me: Client,
    keys: DealtKeys,
    pair: KeyPair,
    own_secrets: list[bytes],
    secrets: Mapping[str, SharedSecret],
    chosen: int | None,
) -> Dealt:
    """Deal `own_secrets`, the private half of `pair` and the seed, among those who announced `keys`."""
    known = dict.fromkeys(name for name in keys.names if name == me.name or name in secrets)
    names = announced(me, keys.names, known)
    own = names.index(me.name)
    threshold = threshold_of(chosen, len(names))
    work = {"x25519.agree": len(names) - 1} | shamir.split_work(KEY_BYTES, 2, threshold, len(names))
    theirs = [key for i, key in enumerate(keys.public_keys) if i != own]
    raw, shares = await me.compute(
        work, _agree_and_split, pair, theirs, own_secrets, threshold, len(names), me.entropy("shares")
    )
    others = [name for name in names if name != me.name]
    pairs = {
        name: SharedSecret(secret, me.world.run_id, me.round, secrets[name].names)
        for name, secret in zip(others, raw, strict=True)
    }
    for name, share in zip(names, shares, strict=True):
        if name != me.name:
            me.send(name, DealtShares(share))
    title = f"{me.name}#{me.incarnation}"
    personal = personal_key(own_secrets[1], me.world.run_id, me.round, me.attempt, title)
    return Dealt(names, threshold, pairs, personal, {me.name: shares[own]})


def _agree_and_split(
    pair: KeyPair, public_keys: list[bytes], secrets: list[bytes], threshold: int, shares: int, entropy: shamir.Entropy
) -> tuple[list[bytes], list[bytes]]:
    """The raw secret with each public key, and the bytes of each one's shares of all `secrets`."""
    dealt = shamir.split(secrets, threshold, shares, entropy)
    return [pair.agree(key) for key in public_keys], [row.tobytes() for row in dealt]


# The server


@dataclass(frozen=True)
class Announced:
    """An attempt as the server announced it: A with its second public keys and its titles (names with incarnations)."""

    public_keys: dict[str, bytes]
    titles: dict[str, str]
    threshold: int

    @property
    def names(self) -> tuple[str, ...]:
        """A."""
        return tuple(self.public_keys)


@dataclass(frozen=True)
class Uncovered:
    """What an attempt's unmasking came to.

    `signed`: for each of U3 the keys of the masks to be taken out of its values; empty where too few shares came. Then
    `lost` are those who must be left out of the next attempt, with the reason.
    """

    signed: dict[str, list[SignedKey]] = field(repr=False)
    lost: dict[str, str]


async def gather(me: Server, candidates: Sequence[str], chosen: int | None, deadline: float) -> Announced:
    """Collect the second public keys of an attempt that was just begun; those that do not come are lost."""
    keys = await me.collect(DealtKey, candidates, deadline=deadline)
    public_keys = {name: answer.public_key for name, answer in (await with_usable_keys(me, keys.answers)).items()}
    missing = [name for name in candidates if name not in public_keys]
    me.lose(missing, "its key to be dealt never came: it takes no part in the sum")
    me.dismiss(missing, f"your key to be dealt did not come within {deadline:g} s")
    titles = {name: f"{name}#{me.incarnations[name]}" for name in public_keys}
    return Announced(public_keys, titles, threshold_of(chosen, len(public_keys)))


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
    if len(survivors) < t:
        return Uncovered({}, {})
    me.broadcast(survivors, Survivors(list(survivors)))
    held: dict[str, dict[int, bytes]] = {name: {} for name in names}  # of each secret, the shares by their x
    answered = set()
    with me.incoming((Revealed,), survivors, deadline=deadline) as arrivals:
        async for source, message in arrivals:
            arrivals.leave_out(source)
            with suppress(BadValues), values_of(me, source, "Revealed"):
                for name, share in zip(names, _shares(message, len(names)), strict=True):
                    if share:
                        held[name][names.index(source) + 1] = share
                answered.add(source)
            if len(answered) == len(survivors) or all(len(shares) >= t for shares in held.values()):
                break
    silent = {name: "it revealed no shares: summing starts again" for name in survivors if name not in answered}
    short = [name for name, shares in held.items() if len(shares) < t]
    if short:
        if len(answered) >= t:  # then it is not the number of answers, but what they hold of these
            why = "too few have its shares: summing starts again"
            silent |= {name: why for name in short if name in survivors}
        return Uncovered({}, silent)
    gone = [name for name in names if name not in survivors]
    work = {"x25519.keygen": len(gone), "x25519.agree": len(gone) * len(survivors)}
    work |= shamir.combine_work(KEY_BYTES, len(names), t)
    try:
        with values_of(me, "those who answered", "Revealed"):
            secrets = await me.compute(work, _combine, attempt, survivors, held)
    except BadValues as problem:  # shares that fit one by one and not together: nobody can say whose are wrong
        raise Abort(f"the sum cannot be unmasked: {problem}") from None
    keys: dict[str, list[SignedKey]] = {}
    for j in survivors:
        personal = personal_key(secrets[j, j], me.world.run_id, me.round, me.attempt, attempt.titles[j])
        keys[j] = [(personal, True)]
        for k in gone:
            lower = names.index(j) < names.index(k)
            both = (attempt.titles[j], attempt.titles[k]) if lower else (attempt.titles[k], attempt.titles[j])
            shared = SharedSecret(secrets[k, j], me.world.run_id, me.round, both)
            keys[j].append((shared.key(purpose, me.attempt), lower))
    return Uncovered(keys, {})


def _shares(message: Revealed, count: int) -> list[bytes]:
    if len(message.shares) != count or any(len(share) not in (0, SHARE) for share in message.shares):
        raise ValueError(f"{count} shares of {SHARE} bytes, or none, were due")
    return message.shares


def drop(me: Server, survivors: tuple[str, ...], failed: Uncovered) -> tuple[str, ...]:
    """Leave those out who made unmasking fail; returns the candidates for the next attempt."""
    for name, why in failed.lost.items():
        me.lose([name], why)
        me.dismiss([name], f"the sum begins again without you: {why.partition(':')[0]}")
    return tuple(name for name in survivors if name not in failed.lost)


def _combine(
    attempt: Announced, survivors: tuple[str, ...], held: dict[str, dict[int, bytes]]
) -> dict[tuple[str, str], bytes]:
    """The seed of each survivor at (name, name); the raw secret of each lost and each survivor at (lost, survivor)."""
    t = attempt.threshold
    same_places: dict[tuple[int, ...], list[str]] = {}
    for name, shares in held.items():
        same_places.setdefault(tuple(sorted(shares)[:t]), []).append(name)
    secrets: dict[str, bytes] = {}
    for places, names in same_places.items():
        rows = b"".join(held[name][x] for x in places for name in names)
        table = np.frombuffer(rows, np.uint8).reshape(t, len(names), SHARE)
        secrets |= zip(names, shamir.combine(places, table, t, KEY_BYTES), strict=True)
    found = {(name, name): secrets[name] for name in survivors}
    for name in attempt.names:
        if name in survivors:
            continue
        pair = KeyPair(secrets[name])
        if pair.public != attempt.public_keys[name]:
            raise ValueError(f"the shares of {name}'s dealt key give another key than the one it announced")
        found |= {(name, other): pair.agree(attempt.public_keys[other]) for other in survivors}
    return found
