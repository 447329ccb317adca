"""From masked values to their sum, where masks were dealt in shares (`dealing`): both ends, in the order of events.

The server loses the clients whose masked values never came (`sum.without_silent`) and announces U3, the others
(`uncover`); with `identities` it forwards the signatures on it (`consistency`). Each client of U3 answers one U3 an
attempt (`Dealt`): it reveals a share of the seed of each of U3, and of the second key of each client of A that was
lost. From t shares of each the server restores seeds and keys (`combine`), and from these the keys of the masks that
are left in the values of U3 (`signed_keys`): personal masks, and pair masks with those that were lost. `dealing` lists
the messages with their bytes, and says why nobody learns more.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from tacit.parties.client import Client
from tacit.parties.mailbox import Kinds
from tacit.parties.server import Server
from tacit.protocols.crypto import shamir, share_errors
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.dealt_secrets import (
    SHARE,
    Attempt,
    Held,
    Secrets,
    agreements,
    combine,
    combine_work,
    correct,
    signed_keys,
)  # fmt: skip
from tacit.protocols.crypto.masking import SignedKey
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import Abort, Reason
from tacit.protocols.sums import consistency
from tacit.protocols.sums.consistency import Agreement, Signed
from tacit.protocols.sums.sum import FEW_NEIGHBOURS, FEW_VALUES
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.wire import Message

__all__ = ["Announced", "Dealt", "DealtShares", "Revealed", "Survivors", "Uncovered", "uncover"]


class DealtShares(Message):
    protocol: ClassVar[str] = "dealing"  # whose table lists it, also those below
    shares: bytes


class Survivors(Message):
    protocol: ClassVar[str] = "dealing"
    names_members: ClassVar[bool] = True
    names: list[str]


class Revealed(Message):
    protocol: ClassVar[str] = "dealing"
    shares: list[bytes]


# --- a client: its answer to who is left


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
        await self.take_in(me, [name for name in survivors if name in self.holders], deadline / 2)
        count = sum(name in self.shares for name in survivors)
        if count < self.fewest:
            me.refuse(f"reveal shares: {count} survivors have dealt theirs among the same clients, not {self.fewest}")
            return
        await self.take_in(me, [name for name in self.holders if name not in survivors], 0)
        kinds = {name: slice(SHARE, 2 * SHARE) if name in survivors else slice(SHARE) for name in self.holders}
        me.send(me.server, Revealed([self.shares.get(name, b"")[kind] for name, kind in kinds.items()]))
        if self.then is not None:
            self.then(survivors)


def _usable(name: str, dealt: DealtShares) -> bytes:
    """The shares that `name` has dealt. Raises ValueError for invalid ones."""
    if len(dealt.shares) != 2 * SHARE:
        raise ValueError(f"two shares take {2 * SHARE} bytes, not {len(dealt.shares)}")
    shamir.check(dealt.shares)
    return dealt.shares


# --- the server: the masks that are left in the values of U3


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
