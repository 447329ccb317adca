"""Secure sum by a committee: clients send shares of their vectors to a few members, who add them and send the sums.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| sum.collect | CommitteeStart | server -> each in P | 0 | the sum begins |
| sum.mask | VectorShare | j -> each other member, sealed | 16, or w ceil(d / r) / 8 | a seed, or a share |
| sum.mask | SharesSent | j -> server | 0 | j has sent all of its shares |
| sum.collect | SharesWanted | server -> each member in P | n / 8 | whose shares there should be |
| sum.hold | SharesHeld | member -> server | n / 8 | whose shares it holds |
| sum.collect | CommitteeSurvivors | server -> each in M | (n + m) / 8 | M, and U1, whose shares all of M hold |
| sum.sign | Agreed | member -> server | 64 | its signature on M and U1, as it was shown them |
| sum.collect | Agreement | server -> each in M | 64 q | q members' signatures |
| sum.reveal | CommitteeSum | member -> server | w ceil(d / r) / 8 | the sum of U1's shares for it |
| sum.collect | SignedSurvivors | server -> each in U1 | (n + m) / 8 + 64 q | with removable noise: M and U1, signed |
| noise.reveal | NoiseSeeds | j in U1 -> server | 16 a seed | with removable noise (`removal`): seeds of noise |
| sum.collect | CommitteeDone | server -> each in U1 | 0 | the sum is there |

P, in the order of the set-up, has n clients, of which m are members, drawn from what the set-up fixed (`members`). Sets
travel as bits, a bit for each of P or of the members. Vectors are shared in blocks of r (`packed_shamir`) modulo p =
2^31 - 1 (words of w = 31 bits), or 2^61 - 1 (w = 64) where sums may be larger. A client sends a seed to each of t
members and a share to each of the m - t others, and nothing else: one upload, without masks, for which it needs only
its pair keys with members. A client whose shares do not reach all of M is out. Each member adds the shares of U1 that
it holds; any t + r of these sums give the sum of the vectors.

The server puts into M the members that reported whose shares they hold. It leaves a member out if that lets more
clients into U1, as long as enough members for the sum remain. The vectors of a round are summed over one U1 only.
Without signatures, a server that shows two sets to different members could open both sums if m >= t + 2r. With fewer
members, answers to two sets still open one sum and show linear relations of the other, and so of the difference of the
two. Members therefore sign the sets that they are shown, one U1 a round, and send their sum once q = floor((m + t) / 2)
+ 1 of them have signed the same sets. Two sets of q members share more than t, and so an honest one. Therefore m - q
members may be lost before they have signed, and m - (t + r) before they have answered.

Papers: Franklin and Yung, STOC 1992 (packed sharing). Relatives are DisAgg (Mehmood et al., MLSys 2026) and OPA
(Karthikeyan and Polychroniadou, CRYPTO 2025), in which a committee also helps a server to a sum after one upload.
In DisAgg, clients share their vectors among aggregators, too, and the server is honest but curious. In OPA, a vector is
uploaded under a mask from a homomorphic generator, and only its seed is shared, so that the committee's work does not
grow with the vector. What differs here: members sign one set before they answer, t of the shares are seeds, and every
party draws the members itself from the keys of the round.

Security: semi-honest clients, no more than t members collude with the server. The server learns the sum over U1, who is
in it, and whose shares each member holds. A member learns whose shares it holds and who is in U1; t members together
with the server learn nothing but the sum. If j members collude with it, t < j < t + r, they learn j - t linear
relations of the numbers in each block of each vector; t + r members learn all vectors. Other clients learn who takes
part. A client sends shares once a round. A member signs one U1 a round: of at least `min_clients` and C + 2 clients,
all of whose shares it holds, and with itself among them. It answers once, for that U1, and remembers both over a crash.
A server that names different sets to members gets sums for one of them at most. m and t follow from the assumed shares
of corrupt and lost clients among those that were called (`quorum`), by the tail of the hypergeometric distribution and
a union bound over the rounds of a run (`Committee.among`). A server that tries several draws succeeds more often
(`members`). Not covered: what `secure_sum` does not cover, and answers that are wrong on purpose, which spoil the sum
unseen.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.masking import joined, joined_rows, read
from tacit.protocols.crypto.mersenne import GF31, GF61, Elements, Mersenne
from tacit.protocols.crypto.packed_shamir import SEED_BYTES, Packing, combine, field_for, share
from tacit.protocols.crypto.quorum import NOT_CARRIED, Assumed, NotCarried
from tacit.protocols.crypto.words import WHOLE, Quantised, packed_bytes
from tacit.protocols.identities import SIGNATURE_BYTES
from tacit.protocols.outcome import Abort, require
from tacit.protocols.parts import Among, Step, Taken, messages_in
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.setup import Group
from tacit.protocols.sums import consistency, removal
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.keys import CollusionKeys, DrawnKeys
from tacit.protocols.sums.members import bits, drawn, exceeded_by, named
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import (
    STEPS,
    WITH_SIGNING_KEYS,
    Requests,
    Sum,
    SumSettings,
    Total,
    carries,
    may_mask_once,
    sum_masked,
)
from tacit.protocols.values import first_understood, understood, values_of
from tacit.sim.hollow import Blank, blank, hollow, unknown
from tacit.sim.setting_error import Problem
from tacit.sim.streams import derive
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = ["REQUESTS", "ByCommittee", "Committee", "bits", "named"]

_, _MASK, _, _REVEAL, _COLLECT = STEPS
_HOLD = Step("client", "sum.hold", "report whose shares it holds, as a member of the committee")
_SIGN = Step("client", "sum.sign", "sign who is in the sum, as a member of the committee")


class CommitteeStart(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True


class VectorShare(Message):
    share: bytes


class SharesSent(Message):
    pass


class SharesWanted(Message):
    clients: bytes


class SharesHeld(Message):
    clients: bytes


class CommitteeSurvivors(Message):
    members: bytes
    clients: bytes


class CommitteeSum(Message):
    share: bytes


class CommitteeDone(Message):
    pass


REQUESTS = Requests(  # with one phase to spare
    CommitteeDone, (CommitteeStart, SharesWanted, CommitteeSurvivors, Agreement), phases=5
)


@dataclass(frozen=True)
class Committee:
    """The numbers of a committee: m = `members`, drawn from `clients`, with t = `private` and blocks of r = `block`.

    `failure`: log2 of a bound on the probability that in a round of the run more than t members are corrupt or more
    than `tolerated` are lost. It is -inf if neither is possible, and 0 if no committee withstands the losses assumed.
    """

    clients: int
    members: int
    private: int
    block: int
    failure: float = -math.inf

    @classmethod
    @cache
    def among(cls, clients: int, assumed: Assumed, exponent: int = 40, draws: int = 1) -> "Committee":
        """The smallest committee of `clients` that joined, of whom C may be corrupt and L' others may be lost.

        In a run with this number of `draws`, more members than it withstands are corrupt or lost with a probability of
        at most 2^-exponent, if these clients are chosen before the members are drawn. At least one client counts as
        corrupt. If no committee withstands both, all clients are members, and as many may be lost as the other
        conditions allow. Raises NotCarried for fewer clients than C + 2.
        """
        assumed.require_fewest(clients)
        marked, lost = max(1, assumed.colluding), assumed.left_to_lose(clients)
        allowed, members = Fraction(1, 2 ** (exponent + 1) * draws), 1
        while members <= clients:
            private, seen = exceeded_by(clients, marked, members, allowed)
            spare, short = exceeded_by(clients, lost, members, allowed)
            private = max(1, private)
            due = private + 2 * spare + 1  # so that q members are left
            if due <= members:
                failure = math.log2((seen + short) * draws) if seen + short else -math.inf
                return cls(clients, members, private, members - private - spare, failure)
            members = due  # both grow with the members: none between is enough
        spare = (clients - marked - 1) // 2
        return cls(clients, clients, marked, clients - marked - spare, 0.0)

    @property
    def quorum(self) -> int:
        """How many members must sign a set: q."""
        return (self.members + self.private) // 2 + 1

    @property
    def needed(self) -> int:
        """How many members must answer: t + r."""
        return self.private + self.block

    @property
    def tolerated(self) -> int:
        """How many members may be lost in all, so that q can sign and t + r can answer."""
        return self.members - max(self.quorum, self.needed)

    def packing(self, field: Mersenne) -> Packing:
        """How vectors of numbers of the `field` are shared among the members."""
        return Packing(field, self.members, self.private, self.block)

    def left_to_open(self, left: int) -> float:
        """The probability that enough members for a sum are among the `left` clients that are not lost."""
        least, all_ways = max(self.quorum, self.needed), math.comb(self.clients, self.members)
        lost = self.clients - left
        ways = sum(math.comb(left, k) * math.comb(lost, self.members - k) for k in range(least, self.members + 1))
        return ways / all_ways

    def __str__(self) -> str:
        rare = (
            "" if math.isinf(self.failure) or not self.failure else f"; failure in a run at most 2^{self.failure:.1f}"
        )
        return (
            f"{self.members} members of {self.clients} clients; {self.private} of them may collude with the server; "
            f"{self.tolerated} may be lost ({self.members - self.quorum} before signing, "
            f"{self.members - self.needed} before answering); blocks of {self.block}{rare}"
        )


@hollow(lambda shares, packing, dimension, seeded: unknown(packing.length(dimension)))
def _summed(shares: Sequence[bytes], packing: Packing, dimension: int, seeded: bool) -> Elements:
    """The sum of encoded `shares` for one member; `seeded`: it is one of the first t, whose shares are seeds."""
    length, gf = packing.length(dimension), packing.field
    total = np.zeros(length, np.uint64)
    for data in shares:
        row = gf.expanded(data, length) if seeded else _words(data, packing, dimension)
        total = gf.reduced(total + row)
    return total


@hollow(lambda vector, packing, seeds: [blank(packing.share_bytes(len(vector)))] * (packing.members - packing.private))
def _late_shares(vector: Elements, packing: Packing, seeds: tuple[bytes, ...]) -> list[bytes]:
    """The shares of `vector`, as they are sent, for the members after the first t, whose shares are `seeds`."""
    return joined_rows(share(vector, packing, seeds), packing.word_bits)


def _words(data: bytes, packing: Packing, dimension: int) -> Elements:
    """The numbers of a share. Raises ValueError for bytes that are no such numbers."""
    (values,) = read(data, [packing.length(dimension)], packing.word_bits)
    return values if isinstance(data, Blank) else packing.field.reduced(values.astype(np.uint64))


def _checked(data: bytes, packing: Packing, dimension: int, seeded: bool) -> bytes:
    """`data`, if it can be a seed or a share. Raises ValueError."""
    due = SEED_BYTES if seeded else packing.share_bytes(dimension)
    if len(data) != due:
        raise ValueError(f"a share of {due} bytes was due, not of {len(data)}")
    if not seeded and (spare := 8 * due - packing.length(dimension) * packing.word_bits) and data[-1] >> (8 - spare):
        raise ValueError("bits after the last number of a share are set")
    return data


@dataclass
class _Taking(consistency.Signer):
    """The state of a client in the sum of a round; `shares`: as a member, those that it holds, by client."""

    settings: SumSettings
    committee: Committee
    packing: Packing
    fewest: int
    shares: dict[str, bytes] = field(default_factory=dict, repr=False)
    noise: Distributed | None = None
    revealing: removal.Revealing | None = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        """True if it has done its part, and revealed the seeds of its noise where some are to be revealed."""
        return self.done and (self.noise is None or not self.noise.removes or self.revealing is None)

    @property
    def seeded(self) -> bool:
        """True if the shares for this client, a member, are seeds."""
        return self.me.name in self.members[: self.packing.private]

    @property
    def quorum(self) -> int:
        return self.committee.quorum

    @cached_property
    def members(self) -> tuple[str, ...]:
        return drawn(self.group, self.packing.members)

    async def upload(self, vector: Elements) -> None:
        """Send the members their shares of `vector`."""
        me, packing = self.me, self.packing
        shown = derive(self.group.digest, "VectorShare", *self.members, packing.private, packing.block)
        for channel in me.channels.values():
            channel.bind(shown)  # who was shown other clients, or draws other members, cannot open a share
        with me.step("sum.mask"):
            vector, self.revealing = await removal.noisy(me, vector, len(self.group.names), self.noise)
            drawn_seeds = me.entropy("share seeds").bytes(SEED_BYTES * packing.private)
            seeds = tuple(drawn_seeds[i : i + SEED_BYTES] for i in range(0, len(drawn_seeds), SEED_BYTES))
            rest = await me.compute(packing.share_work(len(vector)), _late_shares, vector, packing, seeds)
            sum_masked(me)
            for name, sent in zip(self.members, (*seeds, *rest), strict=True):
                if name == me.name:
                    self.shares[name] = sent
                else:
                    me.send(name, VectorShare(sent))
            me.send(me.server, SharesSent())
        self.stamp = me.round, me.attempt
        self.done = me.name not in self.members

    async def report(self, wanted: SharesWanted) -> None:
        """Tell the server whose shares this member holds, of those that should have come."""
        me, names = self.me, self.group.names
        with values_of(me, me.server, "SharesWanted"):
            dealers = named(wanted.clients, names)
        if not me.once("sum.hold"):
            me.refuse("report its shares: it has in this attempt")
            return
        with me.step("sum.hold"):
            awaited = [name for name in dealers if name not in self.shares]
            deadline = self.settings.deadline / 2
            found = await me.collect(VectorShare, awaited, deadline=deadline, until=(CommitteeDone,))
            self.shares |= understood(
                me,
                found.answers,
                lambda name, sent: _checked(sent.share, self.packing, self.settings.dimension, self.seeded),
            )
            me.send(me.server, SharesHeld(bits(tuple(self.shares), names)))

    async def sign(self, shown: CommitteeSurvivors) -> None:
        """Sign U1 and M, once a round; the trace says why if it refuses."""
        me, committee = self.me, self.committee
        with values_of(me, me.server, "CommitteeSurvivors"):
            left = named(shown.members, self.members), named(shown.clients, self.group.names)
        least = max(committee.quorum, committee.needed)
        missing = [name for name in left[1] if name not in self.shares]
        if me.name not in left[0] or me.name not in left[1]:
            me.refuse("sign: it is in the sum, and not named")
        elif len(left[0]) < least:
            me.refuse(f"sign: {len(left[0])} members are fewer than {least}")
        elif len(left[1]) < self.fewest:
            me.refuse(f"sign: {len(left[1])} survivors are fewer than {self.fewest}")
        elif missing:
            me.refuse(f"sign: shares of {', '.join(missing)} were not received")
        elif me.once_a_round("sum.sign", "sign: it has signed"):
            with me.step("sum.sign"):
                await consistency.sign(me, self.identities, *left)
            self.signed = left

    async def reveal(self, shown: removal.SignedSurvivors) -> None:
        """Reveal seeds of noise, once a round, for a U1 that enough members have signed; the trace says why if not."""
        me = self.me
        with values_of(me, me.server, "SignedSurvivors"):
            sets = named(shown.members, self.members), named(shown.clients, self.group.names)
        if self.revealing is None:
            me.refuse("reveal seeds of noise: it has none to reveal")
        elif me.name not in sets[1] or len(sets[1]) < self.fewest:
            me.refuse(f"reveal seeds of noise: {len(sets[1])} survivors are not it and {self.fewest - 1} others")
        else:
            signed = consistency.signed_by(me, self.identities, self.group.secrets)
            assert signed is not None
            agreement, titles = Agreement(shown.places, shown.signatures), signed.titles
            with me.step(removal.REVEAL.name):
                if await consistency.is_agreed(me, self.identities, agreement, *sets, titles, self.quorum, sets[0]):
                    self.revealing(sets[1])
                    self.revealing = None

    def _signers(self) -> Sequence[str] | None:
        return self.signed and self.signed[0]

    async def _open(self, survivors: Sequence[str]) -> None:
        shares, dimension = [self.shares[name] for name in survivors], self.settings.dimension
        work = {"ring.add": len(shares) * self.packing.length(dimension)}
        if self.seeded:
            work["aes.byte"] = work["ring.add"] * (4 if self.packing.field is GF31 else 8)
        total = await self.me.compute(work, _summed, shares, self.packing, dimension, self.seeded)
        self.me.send(self.me.server, CommitteeSum(joined([total], self.packing.word_bits)))


def _leave_out(me: Server, names: Sequence[str], settings: SumSettings) -> None:
    me.lose(names, "its shares never joined to all members: the sum goes without it")
    me.dismiss(names, f"your shares did not come to all members within {settings.deadline:g} s")


def _chosen(
    held: Mapping[str, frozenset[str]], dealers: Sequence[str], least: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """M and U1: at least `least` members, in U1 themselves, that hold shares of all of U1; U1 as large as possible.

    `held`: for each member that has reported, the clients whose shares it holds. Members with the fewest shares are
    left out first. Both are empty if too few members remain.
    """
    order = sorted(held, key=lambda name: -len(held[name]))  # a stable order: ties as they were drawn
    in_common = list(accumulate((held[name] for name in order), frozenset.intersection, initial=frozenset(dealers)))
    best: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    for count in range(len(order), least - 1, -1):
        common, left = in_common[count], frozenset(order[:count])
        members = tuple(name for name in held if name in left and name in common)
        if len(members) >= least and len(common) > len(best[1]):
            best = members, tuple(name for name in dealers if name in common)
        if len(common) == len(dealers):
            break
    return best


@dataclass(frozen=True)
class ByCommittee(Sum):
    """The secure sum by a committee of members, with one upload a client, of integers.

    Each round draws its own members; `tolerance` also bounds the probability that a draw in the run fails.
    """

    name: ClassVar[str] = "committee"
    description: ClassVar[str] = "a sum with one upload per client, whose shares a committee of members adds"
    requests: ClassVar[Requests] = REQUESTS
    masked: ClassVar[Sequence[type[Message]]] = SharesSent, VectorShare
    copies: ClassVar[int] = 16  # as trained, and in numbers of 8 bytes: quantised, seeds, shares, those held of others
    spare_waits: ClassVar[int] = 10
    signs_sets: ClassVar[bool] = True
    of_integers: ClassVar[bool] = True
    primes: ClassVar[tuple[int, ...]] = GF31.prime, GF61.prime
    few_sign: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = True
    takes: ClassVar[Sequence[Taken]] = (WITH_SIGNING_KEYS, _MASK, _HOLD, _SIGN, _REVEAL, _COLLECT)
    messages: ClassVar[Sequence[type[Message]]] = (*messages_in(sys.modules[__name__]), Agreed, Agreement)
    keys: ClassVar[type[CollusionKeys]] = DrawnKeys
    between_clients = (VectorShare,)

    def word_bits(self, quantised: Quantised | None) -> int:
        if quantised is None:
            return WHOLE
        field = field_for(quantised.terms * quantised.weight * quantised.largest)
        return field.bits if field is GF31 else WHOLE

    def modulus(self, quantised: Quantised | None) -> int:
        return _field(self.word_bits(quantised)).prime

    def limits(self, called: int, joined: int) -> Committee:
        return Committee.among(joined, self.tolerance.of(called), self.tolerance.exponent, self.tolerance.draws)

    def opens(self, called: int, least: int, joined: int, left: int) -> float:
        """As `Sum.opens`; the number of lost members is hypergeometric, as members are drawn from those that joined."""
        return self.limits(called, joined).left_to_open(left) if left >= least else 0.0

    def signing(self, clients: int) -> tuple[int, int]:
        one = self.limits(clients, clients)
        return one.members, one.quorum

    def check(self, called: int) -> None:
        try:
            committee = self.limits(called, called)
        except ValueError as error:
            raise Problem("share", str(error)) from None
        if committee.failure == 0:
            problem = f"of {called} clients, {committee.private} of them corrupt, a committee withstands the loss of "
            problem += f"{committee.tolerated}, not of {self.tolerance.of(called).lost}"
            allowed = f"less than {(committee.tolerated + 1) / called:g}"
            raise Problem("tolerated_dropouts", f"{problem}; allowed: {allowed}")

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        n, one = len(among.names), among.sum.limits(len(among.names), len(among.names))
        packing = one.packing(_field(among.word_bits))
        m, words = one.members, packing.share_bytes(among.dimension)
        sets, members = packed_bytes(n, 1), packed_bytes(m, 1)
        return {
            "VectorShare": (n - 1) * (one.private * SEED_BYTES + (m - one.private) * words),
            "SharesWanted": m * sets,
            "SharesHeld": m * sets,
            "CommitteeSurvivors": m * (sets + members),
            "Agreed": m * SIGNATURE_BYTES,
            "Agreement": m * one.quorum * SIGNATURE_BYTES,
            "CommitteeSum": m * words,
        }

    async def client(self, me: Client, vector: NDArray[Any], group: Group, settings: SumSettings) -> None:
        """Contribute `vector` (dimension,), numbers of the field, to the sum of the round among `group`, P.

        `group` has identities (`members.with_keys`), and the channels of `me` are those of its set-up.
        """
        field = _field(settings.word_bits)
        if vector.shape != (settings.dimension,) or int(vector.max()) >= field.prime:
            raise ValueError(f"a vector of {settings.dimension} numbers below 2^{field.bits} - 1 was due.")
        if group.identities is None:
            raise ValueError("members sign: the group needs identities.")
        removal.check_sum(self, settings)
        number, part, among = me.round, None, partial(self.limits, settings.called)
        fewest = removal.least_left(self.noise, len(group.names), self.least_of(settings))
        requests = removal.asked(REQUESTS, self.noise)
        while answer := await requests.next(
            me, settings.deadline, begun=part is not None, finished=part is not None and part.finished
        ):
            if isinstance(answer, CommitteeStart):
                fit = carries(me, among, group.names) and removal.carried(me, len(group.names), self.noise)
                if fit and may_mask_once(me, number, group.names, fewest):
                    one = among(len(group.names))
                    part = _Taking(me, group, group.identities, settings, one, one.packing(field), fewest)
                    part.noise = self.noise
                    await part.upload(vector)
            elif part is None or not part.is_current:
                continue  # what follows a start that was refused
            elif isinstance(answer, removal.SignedSurvivors):
                await part.reveal(answer)
            elif me.name not in part.members:
                continue  # what is for members
            elif isinstance(answer, SharesWanted):
                await part.report(answer)
            elif isinstance(answer, CommitteeSurvivors):
                await part.sign(answer)
            elif isinstance(answer, Agreement):
                await part.answer(answer)

    async def server(self, me: Server, group: Group, settings: SumSettings) -> Total:
        """Sum the vectors of the clients of `group`, P, whose shares all of M hold. Raises Abort."""
        names, identities = group.names, group.identities
        if identities is None:
            raise ValueError("members sign: the group needs identities.")
        try:
            committee = self.limits(settings.called, len(names))
        except NotCarried as error:
            raise Abort(NOT_CARRIED, problem=str(error)) from None
        removal.check_sum(self, settings)
        removal.require_carried(len(names), self.noise)
        packing = committee.packing(_field(settings.word_bits))
        fewest = removal.least_left(self.noise, len(names), self.least_of(settings))
        require(len(names), "clients", fewest)
        members, least = drawn(group, committee.members), max(committee.quorum, committee.needed)
        with me.step("sum.collect"):
            me.advance(me.round, me.attempt + 1)
            note = f"committee: {', '.join(members)}"
            me.world.note("metric", me.name, step=me.step_name, note=note, fact=Fact.CHOSEN)
            me.broadcast(names, CommitteeStart())
            me.once(MASKED)
            sent = (await me.collect(SharesSent, names, deadline=settings.deadline)).answers
            _leave_out(me, [name for name in names if name not in sent], settings)
            dealers = tuple(name for name in names if name in sent)
            require(len(dealers), "clients", fewest)
            asked = [name for name in members if name in sent]
            me.broadcast(asked, SharesWanted(bits(dealers, names)))
            answers = (await me.collect(SharesHeld, asked, deadline=settings.deadline)).answers if asked else {}
            held = understood(me, answers, lambda name, report: frozenset(named(report.clients, names)))
            chosen, survivors = _chosen(held, dealers, least)
            if len(chosen) < least:
                silent = [name for name in members if name not in held]
                me.lose([name for name in silent if name in sent], "it did not report its shares: the round has no sum")
                raise Abort(
                    "no sum: {count} of {members} members reported their shares; {needed} are needed",
                    count=len(held), members=len(members), needed=least,
                )  # fmt: skip
            _leave_out(me, [name for name in dealers if name not in survivors], settings)
            require(len(survivors), "clients", fewest)
            me.broadcast(chosen, CommitteeSurvivors(bits(chosen, members), bits(survivors, names)))
            titles = {name: f"{name}#{me.incarnations[name]}" for name in chosen}
            agreed: list[Agreement] = []
            unsigned = await consistency.witness(
                me, identities, chosen, survivors, titles, committee.quorum, settings.deadline, chosen, agreed.append
            )
            if unsigned:
                me.lose(unsigned, "it did not sign who is in the sum: the round ends without one")
                signed = len(chosen) - len(unsigned)
                raise Abort(
                    "no sum: {count} of {members} members signed its set; {needed} are needed",
                    count=signed, members=len(members), needed=committee.quorum,
                )  # fmt: skip
            if removal.removed_bytes(self.noise, len(names), len(survivors)):
                sets, (shown,) = (bits(chosen, members), bits(survivors, names)), agreed
                me.broadcast(survivors, removal.SignedSurvivors(*sets, shown.places, [], shown.signatures))
            shares = await first_understood(
                me, CommitteeSum, chosen, committee.needed, settings.deadline,
                lambda name, answer: _words(answer.share, packing, settings.dimension),
            )  # fmt: skip
            if len(shares) < committee.needed:
                silent = [name for name in chosen if name not in shares]
                me.lose(silent, "it did not add the shares of the vectors: the round ends without a sum")
                raise Abort(
                    "no sum: {count} of {members} members answered; {needed} are needed",
                    count=len(shares), members=len(members), needed=committee.needed,
                )  # fmt: skip
            by_place = {members.index(name): row for name, row in shares.items()}
            work = packing.combine_work(settings.dimension)
            ring = await me.compute(work, combine, by_place, packing, settings.dimension)
            ring, noise = await removal.without_noise(me, len(names), survivors, ring, self.noise, settings.deadline)
            me.broadcast(survivors, CommitteeDone())
        return Total(survivors, ring, 0, noise)


def _field(word_bits: int) -> Mersenne:
    return GF31 if word_bits == GF31.bits else GF61
