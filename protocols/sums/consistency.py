"""Consistent views of clients: each client signs A and U3, and reveals shares only when enough clients have signed
them.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, `sign` | Agreed | j in U3 -> server | 64 | its signature on A and U3, as it was shown them |
| server, `witness` | Agreement | server -> each in U3 | 64 s | the signatures of s of U3, by their places in it |

Paper: Bonawitz et al., CCS 2017, Figure 4, round 3. With `identities` it comes between Survivors and Revealed of
`dealing`. s = floor((|P| + C) / 2) + 1, P the clients of the set-up: of two different pairs (A, U3) at most one has s
signatures, even if C clients sign whatever the server likes, for two sets of s share more than C. C is a third of the
clients that the round CALLED, unless `sum.corrupt_clients` states another share of them; a third of P would shrink with
each honest client that is lost before. Other sums sign in the same way, with a number of signatures of their own
(`lightsecagg`, `committee`). The server forwards valid signatures; if there are too few, clients that have not signed
by the deadline are lost.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.identities import SIGNATURE_BYTES, Claim, Identities, signing_colluding, title_of
from tacit.protocols.parts import Among, Choice, Part, Step
from tacit.protocols.setup import Group
from tacit.protocols.values import BadValues, values_of
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = [
    "Agreed", "Agreement", "Signed", "Signer", "gathered", "if_signed", "is_agreed", "needed", "sign", "signature_of",
    "signed_by", "witness",
]  # fmt: skip

_SIGNED = "sets of a sum"


class Agreed(Message):
    signature: bytes


class Agreement(Message):
    follows: ClassVar[tuple[str, ...]] = ("Survivors", "CodedSurvivors", "CommitteeSurvivors")
    places: list[int]
    signatures: list[bytes]


@dataclass(frozen=True)
class Signed:
    """The long-term `identities` of a round, which sign keys and sets.

    `titles`: each client of the set-up with its incarnation; `least`: the number of signatures that U3 needs.
    """

    identities: Identities
    titles: Mapping[str, str]

    @property
    def least(self) -> int:
        return needed(len(self.titles), self.identities.colluding)


def signed_by(me: Client, identities: Identities | None, secrets: Mapping[str, SharedSecret]) -> Signed | None:
    """What `me` needs to check signatures of P, whose titles are in the set-up's `secrets`; None: nothing is signed."""
    if identities is None:
        return None
    titles = {name: title_of(name, secret.names) for name, secret in secrets.items()}
    return Signed(identities, titles | {me.name: f"{me.name}#{me.incarnation}"})


def needed(joined: int, colluding: int | None = None) -> int:
    """s, the signatures that a set needs, for |P| = `joined` and C = `colluding` (None: a third of P)."""
    return (joined + (joined // 3 if colluding is None else colluding)) // 2 + 1


def _parts(names: Sequence[str], survivors: Sequence[str]) -> tuple[bytes, bytes]:
    return derive(b"A", *names), derive(b"U3", *survivors)


async def sign(me: Client, identities: Identities, names: Sequence[str], survivors: Sequence[str]) -> None:
    """Sign A = `names` and U3 = `survivors`, once an attempt."""
    me.send(me.server, Agreed(await signature_of(me, identities, names, survivors)))


async def signature_of(me: Client, identities: Identities, names: Sequence[str], survivors: Sequence[str]) -> bytes:
    """The signature of `me` on A = `names` and U3 = `survivors`."""
    return await identities.sign(me, _SIGNED, me.attempt, *_parts(names, survivors))


async def is_agreed(
    me: Client,
    identities: Identities,
    shown: Agreement,
    names: Sequence[str],
    survivors: Sequence[str],
    titles: Mapping[str, str],
    least: int,
    signers: Sequence[str] | None = None,
) -> bool:
    """Return true if `least` of the `survivors` have signed A = `names` and U3; if not, trace the reason.

    `titles`: each client with its incarnation; `signers`: the clients that sign instead of the survivors.
    """
    claims, parts = dict[str, Claim](), _parts(names, survivors)
    who = survivors if signers is None else signers
    for place, signature in zip(shown.places, shown.signatures, strict=False):
        if 0 <= place < len(who):
            name = who[place]
            claims[name] = Claim(titles[name], parts, signature)
    problems = await identities.problems(me, _SIGNED, me.attempt, claims)
    count = len(claims) - len(problems)
    if count < least:
        what = "; ".join([f"{count} of {least} clients have signed the sets that it sees", *problems.values()])
        me.refuse(f"reveal shares: {what}")
    return count >= least


@dataclass
class Signer:
    """The state of a client in the sum of a round: after its upload it signs one set, and opens that set alone.

    `stamp`: round and attempt of its upload; `signed`: A and U3 of the set that it has signed, if any; `done`: nothing
    more is due from it.
    """

    me: Client
    group: Group
    identities: Identities
    stamp: tuple[int, int] = field(default=(0, 0), init=False)
    signed: tuple[Sequence[str], Sequence[str]] | None = field(default=None, init=False)
    done: bool = field(default=False, init=False)

    @property
    def is_current(self) -> bool:
        """True while `me` is in the round and attempt of its upload; later, requests for this sum are ignored."""
        return self.stamp == (self.me.round, self.me.attempt)

    @property
    def quorum(self) -> int:
        """The number of signatures that a set needs."""
        raise NotImplementedError

    async def answer(self, shown: Agreement) -> None:
        """Open the set that it signed, once a round, if `quorum` clients signed it; the trace says why if not."""
        me = self.me
        if self.signed is None:
            me.refuse("open the sum: it has signed no set")
            return
        signed = signed_by(me, self.identities, self.group.secrets)
        with me.step("sum.reveal"):
            if not await is_agreed(
                me, self.identities, shown, *self.signed, signed.titles if signed else {}, self.quorum, self._signers()
            ) or not me.once_a_round("sum.reveal", "open the sum: it has answered"):
                return
            await self._open(self.signed[1])
        self.done = True

    def _signers(self) -> Sequence[str] | None:
        """The clients that sign; None: those of U3."""
        return None

    async def _open(self, survivors: Sequence[str]) -> None:
        """Send the sum of what this client holds of the vectors, or masks, of `survivors`, U3."""
        raise NotImplementedError


async def gathered(
    me: Server,
    identities: Identities,
    names: Sequence[str],
    survivors: Sequence[str],
    titles: Mapping[str, str],
    least: int,
    deadline: float,
    signers: Sequence[str],
) -> dict[str, bytes]:
    """The signatures on A = `names` and U3 = `survivors` of the first `least` of the `signers`, or of fewer."""
    parts, found = _parts(names, survivors), dict[str, bytes]()
    with me.incoming((Agreed,), signers, deadline=deadline) as arrivals:
        async for source, message in arrivals:
            arrivals.leave_out(source)
            problems = await identities.problems(
                me, _SIGNED, me.attempt, {source: Claim(titles[source], parts, message.signature)}
            )
            with suppress(BadValues), values_of(me, source, "Agreed"):
                if problems:
                    raise ValueError(problems[source])
                found[source] = message.signature
            if len(found) == least:
                break
    return found


async def witness(
    me: Server,
    identities: Identities,
    names: Sequence[str],
    survivors: Sequence[str],
    titles: Mapping[str, str],
    least: int,
    deadline: float,
    signers: Sequence[str] | None = None,
    agreed: Callable[[Agreement], None] | None = None,
) -> list[str]:
    """Forward the signatures of `least` of the `survivors` to all; if too few, return the clients that have not signed.

    `signers`: the clients that sign, and are sent the signatures, instead of the survivors. `agreed` is called with
    what is sent.
    """
    who = survivors if signers is None else signers
    found = await gathered(me, identities, names, survivors, titles, least, deadline, who)
    if len(found) < least:
        return [name for name in who if name not in found]
    places = {name: place for place, name in enumerate(who)}
    shown = Agreement([places[name] for name in found], list(found.values()))
    me.broadcast(who, shown)
    if agreed is not None:
        agreed(shown)
    return []


@dataclass(frozen=True)
class Agreeing(Part):
    """The signing of sets as a part of a sum, which takes the `steps`."""

    steps: tuple[Step, ...]

    @property
    def takes(self) -> Sequence[Step]:
        return self.steps

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p = len(among.names)
        signatures = needed(p, signing_colluding(tables, p))
        return {"Agreed": p * SIGNATURE_BYTES, "Agreement": p * signatures * SIGNATURE_BYTES}


def if_signed(*takes: Step) -> Choice:
    """The signing of sets in the steps `takes`, if `protocol.identity` requires it."""
    return Choice("protocol.identity", {"none": Part(), "signed": Agreeing(takes)})
