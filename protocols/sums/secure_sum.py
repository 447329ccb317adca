"""Secure sum of vectors: the server learns the sum of the clients' values that it received, and no client's vector.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| sum.collect | SumStart | server -> each candidate | 0 | an attempt begins |
| sum.deal | DealtKey | j -> server | 32 | a second, fresh public key |
| sum.collect | DealtKeys | server -> each in A | 32 |A|, names of A | A and its second keys |
| sum.deal | DealtShares | j -> each other in A, sealed | 72 | shares of its second key and of its seed |
| sum.deal | SharesMissing | j -> server | their names | whose shares it has not received |
| sum.collect | ChunkWanted | server -> each left of A | 0 | which chunk of the vectors is next |
| sum.mask | MaskedChunk | j -> server | 8 for each number, or b / 8 | x_j + masks_j, one chunk |
| sum.collect | Survivors | server -> each in U3 | names of U3 | U3, whose chunks were all received |
| sum.reveal | Revealed | j in U3 -> server | 36 |A| | a share of each one's seed (U3) or second key (A \\ U3) |
| sum.reveal | NoiseSeeds | j in U3 -> server | 16 a seed | with removable noise (`removal`): seeds of noise |
| sum.collect | SumDone | server -> each in U3 | 0 | the sum is there |

Paper: Bonawitz et al., CCS 2017 (see `dealing`). In Z_{2^64}, values in fixed point; or in Z_{2^b}, values quantised
(`crypto.words`). Client j sends

    y_j[c] = x_j[c] + PRG(b_j; c) + sum_{k in A, k != j} +-PRG(key_jk; c),    + for the lower of j and k,

where c numbers the chunks, b_j is its personal key and key_jk the dealt key of the pair (purpose sum-dealt). The server
adds the y_j of U3 and takes out their personal masks and their pair masks with A \\ U3. For an average weighted by w_j,
clients contribute w_j x_j with w_j as one more number.

Nobody masks before it is known that t clients hold the shares of each: a client whose shares too few have, or that does
not report which it has, is left out of another attempt, with fresh keys, seeds and masks. Later losses are compensated.

A vector goes in chunks, the next when all have sent the one before, and the server adds each as it is complete: what is
in memory or on its way is one chunk a client and one sum, however long the vectors are. When one is lost amid its
chunks, the sum so far contains its values; then the others send their chunks once more, with the same masks, so the
same bytes. U3 are the clients left at the last chunk. With fewer than t answers there is no sum, and no other attempt
over the same vectors: a late answer lets the server open the first sum, too, and the difference of the two reveals the
values of the client that was late.

Security: semi-honest, and up to C of the clients that are called collude with the server (`Settings.assumed`; C = 0
unless the scenario states a share). The server learns the sum over U3 and who is in it. The clients learn who takes
part. A party that knows all vectors but one learns the last: `min_clients`, and C + 2, bound A and U3 from below.
Clients enforce that and the other rules of `dealing`; U3 exceeds these and t, so that a server that names a different
U3 to each client opens no sum over fewer (`quorum.fewest_left`). From its first MaskedChunk on a
client refuses every other attempt of that round, or of an earlier one, and remembers it over a crash; before, it
follows the server into a later attempt. One vector goes into the sum of one round.

Not covered: a server that puts keys of its own, or of clients that do not exist, into the list of the set-up; and what
sums of several rounds reveal together where a client's vectors in them are alike.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.masking import Block, Ring, joined, masks, masks_work, read, reduced
from tacit.protocols.crypto.quorum import Assumed, Least
from tacit.protocols.crypto.regular_graph import Degree, Tolerance, degree_of
from tacit.protocols.crypto.words import WHOLE, Quantised, packed_bytes, word_type
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import Abort, Withdrawn, require
from tacit.protocols.parts import Among, Found, Opening, Part, Phase, SumBounds, Taken
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.sums import consistency, dealing, neighbours, removal
from tacit.protocols.sums.keys import CollusionKeys, DrawnKeys
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import STAYS_MASKED, STEPS, Requests, Sum, SumSettings, Total, sum_masked, without_silent
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.hollow import filled
from tacit.sim.setting_error import Problem
from tacit.sim.units import duration
from tacit.sim.wire import Message

__all__ = [
    "REQUESTS",
    "STEPS",
    "SUM",
    "Dealing",
    "Requests",
    "SecureSum",
    "Settings",
    "SumOfVectors",
    "Total",
    "client",
    "colluding_of",
    "server",
]

_DEAL, _MASK, _AGREE, _REVEAL, _COLLECT = STEPS

PURPOSE = "sum-dealt"


class SumStart(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True


class SharesMissing(Message):
    names: list[str]


class ChunkWanted(Message):
    number: int


class MaskedChunk(Message):
    admits: ClassVar[tuple[str, ...]] = (dealing.Survivors.__name__,)
    in_attempt: ClassVar[bool] = True
    number: int
    values: bytes


class SumDone(Message):
    pass


REQUESTS = Requests(SumDone, (SumStart, ChunkWanted, dealing.Survivors, consistency.Agreement))


@dataclass(frozen=True)
class Settings:
    """The public settings of a sum over vectors of `dimension` numbers, sent `chunk` at a time.

    `threshold`: t, if more than floor((|A| + C) / 2) + 1; `min_clients`: the smallest number of clients in a sum, which
    is never below C + 2; `assumed`: C of the clients that the round calls, where keys are dealt among all; `deadline`:
    the longest wait of the server, in virtual seconds. `tolerance`: clients deal with their neighbours in a graph
    (`neighbours`) that tolerates these losses, without a set-up; None: with all clients, after the set-up of the round.
    `called`: how many clients the round calls; shares of colluding and of lost clients are of these (`quorum`).
    `identities`: the keys that sign keys and sets, if any; not with `tolerance`. `word_bits`: the width b of the words
    that are summed; below 64, vectors consist of such words, not of numbers. `noise`: the noise that clients add to
    their vectors in words (`removal`), with as many numbers as the sum; it is removed only with `identities`.
    """

    dimension: int
    threshold: int | None = None
    fraction_bits: int = 32
    min_clients: int = 3
    deadline: float = 60.0
    chunk: int = 1 << 16
    tolerance: Tolerance | None = None
    identities: Identities | None = None
    word_bits: int = WHOLE
    called: int = 0
    assumed: Assumed = quorum.NOBODY
    noise: Distributed | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            if self.noise.numbers != self.dimension:
                raise ValueError(f"noise is for {self.noise.numbers} numbers, not for {self.dimension}.")
            removal.check(self.noise, self.identities, None if self.identities is None else self.identities.colluding)
        if self.tolerance is not None and self.called < 1:
            raise ValueError("a sum in a graph needs the number of clients that are called.")
        if self.tolerance is not None and self.identities is not None:
            raise ValueError("sets of a sum in a graph are not signed: no client sees all of them.")
        if self.dimension < 1 or self.chunk < 1:
            raise ValueError(f"dimension(={self.dimension}) and chunk(={self.chunk}) must be >= 1.")

    @property
    def colluding(self) -> int:
        """C: how many clients may collude with the server."""
        return self.assumed.colluding

    @property
    def fewest(self) -> int:
        """The fewest clients in a sum."""
        return max(self.min_clients, self.colluding + 2) if self.colluding else self.min_clients

    @property
    def blocks(self) -> list[Block]:
        """The chunks, each with number and size."""
        starts = range(0, self.dimension, self.chunk)
        return [(i, min(self.chunk, self.dimension - start)) for i, start in enumerate(starts)]

    def part(self, number: int) -> slice:
        """The slice of chunk `number` in a vector."""
        return slice(number * self.chunk, (number + 1) * self.chunk)


async def client(
    me: Client, vector: NDArray[Any], secrets: Mapping[str, SharedSecret], settings: Settings, number: int = 0
) -> None:
    """Contribute `vector` (dimension,) of numbers, or of words of Z_{2^b} (uint64), which are summed directly.

    `secrets`: those of the set-up, whose channels seal the shares. `number`: the only round in whose sum the vector may
    be; 0: that of the first sum that the server begins.

    Raises Withdrawn if a number of `vector` is too large, infinite or NaN (see `fixed_point.encode`), before anything
    of the vector is sent: the sum proceeds without it.
    """
    if vector.shape != (settings.dimension,):
        raise ValueError(f"a vector of shape {(settings.dimension,)} was due, not {vector.shape}.")
    if settings.word_bits < WHOLE and (vector.dtype != np.uint64 or int(vector.max()) >> settings.word_bits):
        raise ValueError(f"a vector of words of {settings.word_bits} bits was due.")
    dealt = None
    while answer := await REQUESTS.next(me, settings.deadline, finished=dealt is not None and dealt.revealed):
        if isinstance(answer, SumStart):
            number = number or me.round
            if _may_begin(me, number) and dealing.may_deal(me):
                with me.step("sum.deal"):
                    dealt = await _deal(me, secrets, settings)
                    if dealt is not None:
                        dealt.done = (SumDone,)
                        missing = await dealt.take_in(me, dealt.holders, settings.deadline / 2)
                        me.send(me.server, SharesMissing(missing))
                        if len(dealt.shares) < dealt.dealers:
                            me.refuse(f"mask: {len(dealt.shares)} neighbours have dealt to it, not {dealt.dealers}")
                            dealt = None
        elif dealt is None or not dealt.is_current(me):
            continue  # what follows a SumStart that was refused
        elif isinstance(answer, ChunkWanted):
            _check(me, vector, dealt, settings)
            first = me.once("sum.mask")
            if first:
                sum_masked(me)
            with me.step("sum.mask"):
                if first and settings.noise is not None:
                    vector, dealt.then = await removal.noisy(me, vector, dealt.clients, settings.noise)
                await _send_chunks(me, vector, dealt, answer.number, settings)
        elif isinstance(answer, dealing.Survivors | consistency.Agreement):
            await dealt.respond(me, answer, "sum", settings.deadline)


async def _deal(me: Client, secrets: Mapping[str, SharedSecret], settings: Settings) -> dealing.Dealt | None:
    """Deal in the attempt that has begun; None if `me` refuses the clients to deal with."""
    if settings.tolerance is not None:
        sizes = settings.tolerance, settings.called, settings.min_clients, settings.deadline
        return _with_noise(me, await neighbours.deal(me, *sizes), settings)
    signed = None
    if settings.identities is not None:
        signed = consistency.signed_by(me, settings.identities, secrets)
    least = Least(settings.min_clients, colluding=settings.colluding)
    dealt = await dealing.deal(me, secrets, settings.threshold, least, settings.deadline, signed)
    if dealt is not None:
        dealt.fewest = quorum.fewest_left(len(dealt.names), dealt.threshold, least.fewest, least.colluding)
    return _with_noise(me, dealt, settings)


def _with_noise(me: Client, dealt: dealing.Dealt | None, settings: Settings) -> dealing.Dealt | None:
    """Return `dealt` with the fewest survivors among whom `noise` is enough; None if it is not made for those of A.

    Who sees neighbours alone cannot count survivors.
    """
    noise = settings.noise
    if dealt is None or noise is None:
        return dealt
    if not removal.carried(me, dealt.clients, noise):
        return None
    if len(dealt.names) == dealt.clients:
        signed = settings.identities is not None
        dealt.fewest = max(dealt.fewest, removal.fewest_left(noise, dealt.clients, dealt.threshold, signed))
    return dealt


def _may_begin(me: Client, number: int) -> bool:
    """Return true if the vector of round `number` may be summed in the attempt that has begun; if not, trace the
    reason."""
    masked_in, attempt = me.latest("sum.mask")
    if me.round != number:
        me.refuse(f"begin a sum of round {me.round}: its vector is of round {number}")
    elif masked_in >= number:
        me.refuse(f"begin a sum: it has sent masked values in attempt {attempt} of round {masked_in}")
    else:
        return True
    return False


def _check(me: Client, vector: NDArray[Any], dealt: dealing.Dealt, settings: Settings) -> None:
    """Raise Withdrawn if a number of `vector` cannot be summed; the trace reports this without the number."""
    if vector.dtype == np.uint64:
        return
    peak = np.array([np.abs(vector).max(initial=0.0)], np.float64)
    try:
        encode(peak, settings.fraction_bits, dealt.clients)
    except ValueError as error:
        me.refuse(f"take part in the sum: {error}")
        raise Withdrawn(str(error)) from None


async def _send_chunks(me: Client, vector: NDArray[Any], dealt: dealing.Dealt, number: int, settings: Settings) -> None:
    """Send chunk `number` and the chunks that the server wants next, until the last is sent."""
    places = {name: place for place, name in enumerate(dealt.names)}
    mine = places[me.name]
    keys = [(pair.key_of_mask(PURPOSE, me.attempt), mine < places[name]) for name, pair in dealt.pairs.items()]
    keys.append((dealt.personal, True))
    blocks = settings.blocks
    while True:
        with values_of(me, me.server, "ChunkWanted"):
            if not 0 <= number < len(blocks):
                raise ValueError(f"there is no chunk {number}; there are {len(blocks)}")
        block = blocks[number]
        shared = vector[settings.part(number)]
        if vector.dtype != np.uint64:
            shared = encode(shared.astype(np.float64, copy=False), settings.fraction_bits, dealt.clients)
        bits = settings.word_bits
        (mask,) = await me.compute(masks_work(len(keys), [block], bits), masks, keys, [block], bits)
        masked = reduced(shared.astype(mask.dtype, copy=False) + mask, bits)
        me.send(me.server, MaskedChunk(number, joined([masked], bits)))
        if number == len(blocks) - 1:
            return
        number = (await me.recv(ChunkWanted, me.server, 2 * settings.deadline)).number


async def server(me: Server, clients: Sequence[str], settings: Settings) -> Total:
    """Sum the vectors of `clients`, or of the living ones. Raises Abort."""

    if settings.identities is not None:
        signatures = consistency.needed(len(clients), settings.identities.colluding)
        settings = replace(settings, threshold=max(settings.threshold or 0, signatures))
    fewest, colluding = settings.fewest, settings.colluding

    def require_enough(members: tuple[str, ...]) -> None:
        require(len(members), "clients", fewest, quorum.limit_of(settings.min_clients, colluding))
        if settings.noise is not None:
            removal.require_carried(len(members), settings.noise)
        t = quorum.threshold_of(settings.threshold, len(members), colluding)
        require(len(members), "clients", t, "protocol.threshold")

    candidates = tuple(clients)
    with me.step("sum.collect"):
        while True:
            require_enough(candidates)
            me.advance(me.round, me.attempt + 1)
            me.broadcast(candidates, SumStart())
            attempt = await _gather_keys(me, candidates, settings)
            require_enough(attempt.names)
            if settings.noise is not None:
                attempt = replace(attempt, fewest=max(attempt.fewest, _fewest_with_noise(attempt, settings)))
            _announce(me, attempt)
            candidates = await _with_shares(me, attempt, settings)
            if candidates == attempt.names:
                break
        me.once(MASKED)
        survivors, ring = await _gather_chunks(me, attempt.names, settings)
        found = await dealing.uncover(me, attempt, survivors, PURPOSE, settings.deadline)
        if not found.signed:
            for name, why in found.lost.items():
                me.lose([name], f"{why}: the round ends without a sum")
            raise Abort(STAYS_MASKED, why=found.problem)
        for block in settings.blocks:
            part = ring[settings.part(block[0])]
            left = await me.together(*[
                me.compute(masks_work(len(keys), [block], settings.word_bits), masks, keys, [block], settings.word_bits)
                for keys in found.signed.values()
            ])  # fmt: skip
            for (mask,) in left if part.flags.writeable else ():
                part -= mask
        ring = reduced(ring, settings.word_bits)
        noise = None
        if settings.noise is not None:
            limits = settings.noise, settings.deadline
            ring, noise = await removal.without_noise(me, len(attempt.names), survivors, ring, *limits)
        me.broadcast(survivors, SumDone())
    return Total(survivors, ring, settings.fraction_bits, noise)


def _fewest_with_noise(attempt: dealing.Announced, settings: Settings) -> int:
    """The fewest survivors of an attempt with noise: as many as clients require, or in a graph n - T."""
    noise, clients = settings.noise, len(attempt.names)
    assert noise is not None
    if attempt.graph is not None:
        return noise.least_left(clients)
    return removal.fewest_left(noise, clients, attempt.threshold, settings.identities is not None)


async def _gather_keys(me: Server, candidates: Sequence[str], settings: Settings) -> dealing.Announced:
    """The attempt that was just begun, with the second keys received."""
    if settings.tolerance is not None:
        return await neighbours.gather(
            me, candidates, settings.tolerance, settings.called, settings.deadline, settings.min_clients
        )
    return await dealing.gather(
        me, candidates, settings.threshold, settings.deadline, settings.fewest, settings.identities, settings.colluding
    )


def _announce(me: Server, attempt: dealing.Announced) -> None:
    if isinstance(attempt, neighbours.Acquainted):
        neighbours.announce(me, attempt)
    else:
        dealing.announce(me, attempt)


async def _with_shares(me: Server, attempt: dealing.Announced, settings: Settings) -> tuple[str, ...]:
    """The members of A that report the shares they hold, and whose shares enough of them hold; others are lost."""
    names = attempt.names

    everybody = frozenset(names)

    def known(name: str, answer: SharesMissing) -> frozenset[str]:
        if not everybody.issuperset(answer.names):
            raise ValueError("names that are not in the sum")
        return frozenset(answer.names)

    answers = (await me.collect(SharesMissing, names, deadline=settings.deadline)).answers
    missing = understood(me, answers, known)

    def is_held(name: str) -> bool:
        # What the silent hold nobody knows: without them, who is to blame for missing shares is seen among the others.
        said = [missing[holder] for holder in attempt.holders(name) if holder in missing]
        all_said = len(said) == len(attempt.holders(name))
        some = min(len(said), quorum.threshold_of(settings.threshold, len(said), settings.colluding))
        needed = attempt.threshold if all_said else some
        return sum(name not in other for other in said) >= needed

    kept = tuple(name for name in missing if is_held(name))
    for name in names:
        if name not in kept:
            what = "its shares were" if name in missing else "what it has of the others' shares was"
            me.lose([name], f"{what} not received: summing starts again")
            reason = f"{what.replace('its', 'your').replace('it has', 'you have')} not received"
            me.dismiss([name], f"the sum begins again without you: {reason} within {settings.deadline:g} s")
    return kept


async def _gather_chunks(me: Server, names: tuple[str, ...], settings: Settings) -> tuple[tuple[str, ...], Ring]:
    """Collect the chunks; returns U3 and the sum of its masked vectors."""
    word = word_type(settings.word_bits)
    ring = np.zeros(settings.dimension, word) if me.world.hollow is None else filled(settings.dimension, word)
    blocks, number = settings.blocks, 0
    while number < len(blocks):
        me.broadcast(names, ChunkWanted(number))
        sent: dict[str, Ring] = {}
        size = blocks[number][1]
        with me.incoming((MaskedChunk,), names, deadline=settings.deadline) as arrivals:
            async for source, message in arrivals:
                if message.number != number:  # received twice
                    continue
                arrivals.leave_out(source)
                with suppress(BadValues), values_of(me, source, "MaskedChunk"):
                    (sent[source],) = read(message.values, [size], settings.word_bits)
                if len(sent) == len(names):
                    break
        asked = len(names)
        names = without_silent(me, names, sent, settings.deadline)
        require(len(names), "clients", settings.fewest, quorum.limit_of(settings.min_clients, settings.colluding))
        if len(names) < asked and number > 0:  # what the lost sent before is in the sum
            number = 0
            if ring.flags.writeable:
                ring[:] = 0
            continue
        part = ring[settings.part(number)]
        for values in sent.values() if part.flags.writeable else ():  # not where it is hollow
            part += values
        number += 1
    return names, ring


@dataclass(frozen=True)
class SumOfVectors(Part):
    """A secure sum as a part of a protocol, over vectors of `Among.dimension` numbers.

    `identities`: true if `protocol.identity` may require signatures. `in_graph`: the part by which keys and seeds are
    dealt among neighbours, if they are.
    """

    identities: bool = False
    in_graph: Part | None = None

    @property
    def takes(self) -> Sequence[Taken]:
        signing = (consistency.if_signed(_AGREE),) if self.identities else ()
        return (_DEAL, self.in_graph or dealing.Dealing(self.identities), _MASK, *signing, _REVEAL, _COLLECT)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return {"MaskedChunk": len(among.names) * packed_bytes(among.dimension, among.word_bits)}

    def waits(self, tables: Any) -> int:
        return int(tables.data.clients) + 4


SUM = SumOfVectors()
"""A secure sum without signatures, in which all clients deal with all."""


class Dealing(Sum):
    """A secure sum whose clients deal the keys of their masks in shares."""

    messages: ClassVar[Sequence[type[Message]]] = ()
    requests: ClassVar[Requests] = REQUESTS
    masked: ClassVar[Sequence[type[Message]]] = (MaskedChunk,)
    adds_noise: ClassVar[bool] = True
    copies: ClassVar[int] = 8  # as trained, and in numbers of 8 bytes: weighted, joined, masked

    def waits(self, tables: Any) -> int:
        return 0  # those of its part `SumOfVectors`

    def _settings(self, group: setup.Group, settings: SumSettings) -> Settings:
        sizes = settings.dimension, None, settings.fraction_bits, settings.min_clients, settings.deadline
        return Settings(*sizes, settings.chunk, word_bits=settings.word_bits, called=settings.called)

    async def client(self, me: Client, vector: NDArray[Any], group: setup.Group, settings: SumSettings) -> None:
        await client(me, vector, group.secrets, self._settings(group, settings))

    async def server(self, me: Server, group: setup.Group, settings: SumSettings) -> Total:
        return await server(me, group.names, self._settings(group, settings))


@dataclass(frozen=True)
class SecAgg(Dealing):
    """The secure sum in which all clients deal with all. `threshold`: t, if more than a majority."""

    tolerance: Tolerance = field(default_factory=lambda: Tolerance(0.0, 0.0))
    threshold: int | None = None
    name: ClassVar[str] = "secure"
    description: ClassVar[str] = "a sum with masks that all clients share with each other"
    tolerates_share: ClassVar[bool] = False
    takes: ClassVar[Sequence[Taken]] = (setup.SetUp(identities=True), SumOfVectors(identities=True))

    def fewest(self, min_clients: int) -> int:
        return max(super().fewest(min_clients), self.threshold or 0)

    def opening(self, called: int, least: int, signing: int | None = None) -> Opening:
        bounds = SumBounds(self.name, least, colluding=self.tolerance.of(called).colluding)
        return opening_of(bounds, self.threshold, signing)

    def _settings(self, group: setup.Group, settings: SumSettings) -> Settings:
        own, signing = super()._settings(group, settings), group.identities
        assumed = self.of_run
        if self.noise is not None:  # a client whose noise is not counted may also give the server its shares
            assumed = replace(assumed, colluding=max(assumed.colluding, self.noise.colluding))
        return replace(own, threshold=self.threshold, identities=signing, assumed=assumed, noise=self.noise)


@dataclass(frozen=True)
class SecAggPlus(Dealing):
    """The secure sum in which clients deal with their neighbours in a graph, without a set-up (`neighbours`).

    The server alone enforces the smallest number of clients, because each client sees only itself and its neighbours.
    """

    name: ClassVar[str] = "secagg+"
    description: ClassVar[str] = (
        "a sum for many clients, in which each client shares secrets with k neighbours in a random graph"
    )
    sees_all: ClassVar[bool] = False
    agrees: ClassVar[bool] = False
    takes: ClassVar[Sequence[Taken]] = (SumOfVectors(in_graph=neighbours.DealingInGraph()),)
    keys: ClassVar[type[CollusionKeys]] = DrawnKeys
    uses: ClassVar[Sequence[str]] = ()

    def limits(self, called: int, joined: int) -> Degree:
        return degree_of(joined, self.tolerance, called)

    def opens(self, called: int, least: int, joined: int, left: int) -> float | None:
        """In a complete graph as without one; in others, neighbours decide whether losses from masking on matter."""
        degree = self.limits(called, joined)
        if not degree.complete:
            return super().opens(called, least, joined, left)
        return float(left >= quorum.fewest_left(joined, degree.threshold, least, degree.colluding))

    def opening(self, called: int, least: int, signing: int | None = None) -> Opening:
        drawn = partial(neighbours.drawn_sums, called, self.tolerance, least)
        return replace(super().opening(called, least), drawn=drawn, once_dealt=True)

    def check(self, called: int) -> None:
        try:
            self.limits(called, called)
        except ValueError as error:
            raise Problem("corrupt_clients", str(error)) from None

    def spare(self, clients: int, called: int) -> int | None:
        return neighbours.spare(clients, called, self.tolerance)

    def _settings(self, group: setup.Group, settings: SumSettings) -> Settings:
        return replace(super()._settings(group, settings), tolerance=self.tolerance, noise=self.noise)


class SecureSum(Phase):
    """A secure sum as a part of your own protocol: it sums each client's `vector`, and `result` processes the sum.

    `fraction_bits`: the number of fractional bits of summed numbers. With `value_bits` numbers are clipped to [-`clip`,
    `clip`] and rounded to integers of that width, and words are as wide as the sum needs (`crypto.words`).
    """

    takes = (SUM,)
    messages = ()
    fraction_bits = 32
    value_bits: int | None = None
    clip = 1.0

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {"sum": (CollusionKeys,)}

    def vector(self, keys: Any, shard: Shard, public: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers that a client with this `shard` contributes, `dimension` of them."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a client contributes")

    def result(self, keys: Any, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the server's result from the sum of all vectors."""
        return total

    def word_bits(self, keys: Any, clients: int) -> int:
        quantised = self._quantised(clients)
        return WHOLE if quantised is None else quantised.word_bits

    def _quantised(self, clients: int) -> Quantised | None:
        return None if self.value_bits is None else Quantised(self.value_bits, self.clip, clients)

    def _settings(self, me: Party, keys: Any, clients: int, called: int) -> Settings:
        colluding = colluding_of(getattr(me, "tables", None), called)
        least, deadline = max(2, keys.min_clients), duration(keys.deadline)
        found = Settings(self.dimension(keys), None, self.fraction_bits, least, deadline)
        return replace(found, word_bits=self.word_bits(keys, clients), assumed=Assumed(called, colluding, 0))

    async def client(self, me: Client, keys: Any, group: setup.Group, public: NDArray[np.float64]) -> None:
        vector: NDArray[Any] = np.asarray(self.vector(keys, me.shard, public), np.float64)
        if (quantised := self._quantised(len(group.names))) is not None:
            try:
                vector = quantised.encode(vector)
            except ValueError as error:
                me.refuse(f"take part in the sum: {error}")
                raise Withdrawn(str(error)) from None
        clients = len(group.names)
        settings = self._settings(me, keys, clients, getattr(me, "called", 0) or clients)
        await client(me, vector, group.secrets, settings, me.round)

    async def server(self, me: Server, keys: Any, group: setup.Group, found: Mapping[str, Found]) -> Found:
        total = await server(me, group.names, self._settings(me, keys, len(group.names), len(me.clients)))
        quantised, over = self._quantised(len(group.names)), total.contributors
        values = total.values if quantised is None else quantised.decode(total.ring, len(over))
        return Found(over, np.asarray(self.result(keys, values), np.float64))

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        colluding = colluding_of(tables, clients)
        least = max(colluding + 2, tables.protocol.min_clients)
        return [SumBounds(SecAgg.name, least, value_bits=self.value_bits, colluding=colluding)]

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        return [opening_of(bounds) for bounds in self.sums(tables, called)]


def opening_of(bounds: SumBounds, chosen: int | None = None, signing: int | None = None) -> Opening:
    """The conditions under which a sum with these `bounds` is opened, in which all clients deal with all.

    `chosen`: the least threshold of shares that the scenario sets; None: as many as secrecy needs. `signing`: how many
    clients may sign whatever the server likes, where survivors are signed; None: they are not.
    """
    least, colluding = bounds.fewest, bounds.colluding

    def opens(joined: int, left: int) -> float:
        signatures = 0 if signing is None else consistency.needed(joined, signing)
        threshold = quorum.threshold_of(max(chosen or 0, signatures), joined, colluding)
        return float(left >= quorum.fewest_left(joined, threshold, least, colluding))

    return Opening(max(least, chosen or 0), opens=opens)


def colluding_of(tables: Any, called: int) -> int:
    """C of the `called` clients by the table [sum] in `tables`; 0 where a party has been given no tables."""
    return 0 if tables is None else int(tables.sum.colluding_of(called))
