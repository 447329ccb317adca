"""Secure sum with coded masks: opening a sum costs the same for any dropouts, as long as U clients answer.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| sum.collect | CodedStart | server -> each in P | 0 | the sum begins |
| sum.deal | CodedPiece | j -> each other in P, sealed | 31 / 8 ceil(d / (U - T)) | its piece of j's mask |
| sum.mask | CodedVector | j -> server | 31 d / 8 | x_j + z_j |
| sum.collect | CodedSurvivors | server -> each in U1 | names of U1 | U1, whose vectors were received |
| sum.agree | Agreed | j in U1 -> server | 64 | its signature on P and U1, as it was shown them |
| sum.collect | Agreement | server -> each in U1 | 64 q | q clients' signatures |
| sum.reveal | CodedSum | j in U1 -> server | 31 / 8 ceil(d / (U - T)) | the sum of the pieces for j of all of U1 |
| sum.reveal | NoiseSeeds | j in U1 -> server | 16 a seed | with removable noise (`removal`): seeds of noise |
| sum.collect | CodedDone | server -> each in U1 | 0 | the sum is there |

Paper: So et al., LightSecAgg: a Lightweight and Versatile Design for Secure Aggregation in Federated Learning, MLSys
2022. In GF(2^31 - 1); P, in the order of the set-up, has N clients. T = C and U = max(q, N - L') follow from how many
were called, not from N (`quorum`). Client j draws a mask z_j, sends each other client a coded piece of it
(`coded_masks`), and then its vector under the mask. Whoever is lost before its vector is received is out. Clients of U1
add the pieces that they hold of U1's masks; any U such sums give the sum of the masks. Nothing is agreed on between
pairs, and nothing is reconstructed for those that are lost: the cost of opening does not grow with their number. More
than N - U losses leave the sum masked, and among fewer than C + 2 clients there is none.

The paper's server is honest but curious. A lying server could name different sets to different clients. From k answers
to another set it would learn k linear relations of the numbers in each place of the U - T parts of the difference of
the two sums, which can be one client's vector. Clients here therefore sign the U1 that they are shown, each one U1 a
round, and answer for it once q = floor((N + T) / 2) + 1 of P have signed the same (`consistency`). Proof that no other
set is answered: let A and B be the clients that have signed U1 and another set, q or more each. As |A| + |B| - |A and
B| <= N, A and B share at least 2 q - N clients. As 2 q >= N + T + 1, these are more than T, so one of them is honest
and has signed both sets, which an honest client does not do. Honest clients therefore answer for one set at most. For
any other set the server has only the pieces of the T colluding clients, and T pieces of each mask are uniform.

q clients must sign, and U must answer. The paper and its implementation require no more than T < U <= N - D; here U >=
q, too, so that signing tolerates at least as many losses as answering.

Security: clients follow the protocol, no more than T of P collude with the server, and the server may lie. It learns
the sum over U1 and who is in it; T pieces of a mask say nothing about it. Clients learn who takes part. A client deals
and masks once a round. It signs one U1 a round: of at least U, C + 2 and `min_clients` clients, whose pieces it holds,
and with itself among them. It answers once, for that U1, and remembers all of this over a crash. Signatures are by
long-term identities, with `protocol.identity = "signed"`, or by keys that each client makes for the round
(`members.SigningKeys`). The server lists the keys of the round, as all keys of a set-up without identities, and a
server that replaces them by its own is not covered. The server also says who is in P: if it leaves honest clients out,
more than T of P may be on its side (`identities`). Not covered: what `secure_sum` does not cover, and answers that are
wrong on purpose, which spoil the sum unseen.

Patent applications are known that concern this method (US 2024/0289638).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.coded_masks import (
    PIECE_BITS,
    decoded,
    decoded_work,
    mask_and_pieces,
    piece_length,
    pieces_work,
    summed,
)
from tacit.protocols.crypto.masking import joined, joined_rows, read
from tacit.protocols.crypto.quorum import Assumed, NotCarried
from tacit.protocols.crypto.shamir import PRIME
from tacit.protocols.crypto.sizes import text
from tacit.protocols.crypto.words import Quantised, packed_bytes, unpacked_rows
from tacit.protocols.identities import SIGNATURE_BYTES
from tacit.protocols.outcome import Abort, Reason, require
from tacit.protocols.parts import Among, Taken, messages_in
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.setup import Group
from tacit.protocols.sums import consistency, removal
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import (
    FEW_VALUES,
    STAYS_MASKED,
    STEPS,
    WITH_SIGNING_KEYS,
    Requests,
    Sum,
    SumSettings,
    Total,
    carries,
    may_mask_once,
    sum_masked,
    without_silent,
)
from tacit.protocols.values import first_understood, understood
from tacit.sim.hollow import Blank, HollowArray, hollow, unknown
from tacit.sim.setting_error import Problem
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = ["REQUESTS", "CodedSum", "CodedVector", "Coding", "LightSecAgg"]

_DEAL, _MASK, _AGREE, _REVEAL, _COLLECT = STEPS


class CodedStart(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True


class CodedPiece(Message):
    piece: bytes


class CodedVector(Message):
    admits: ClassVar[tuple[str, ...]] = ("CodedSurvivors",)
    in_attempt: ClassVar[bool] = True
    values: bytes


class CodedSurvivors(Message):
    names_members: ClassVar[bool] = True
    names: list[str]


class CodedSum(Message):
    pieces: bytes


class CodedDone(Message):
    pass


REQUESTS = Requests(CodedDone, (CodedStart, CodedSurvivors, Agreement), phases=3)


@dataclass(frozen=True)
class Coding:
    """U and T among N clients, from the numbers that may be lost and may collude with the server.

    `private`: T, `needed`: U, `quorum`: q, the clients that must sign U1. Raises ValueError unless 1 <= T and
    q <= U <= N.
    """

    clients: int
    private: int
    needed: int

    def __post_init__(self) -> None:
        if not 1 <= self.private < self.needed <= self.clients:
            raise ValueError(f"T(={self.private}) and U(={self.needed}) must be 1 <= T < U <= {self.clients}")
        if self.needed < self.quorum:
            problem = f"(N + T) / 2 + 1 = {self.quorum}, as many as must sign who is in the sum"
            raise ValueError(f"U(={self.needed}) must be at least {problem}")

    @classmethod
    def among(cls, clients: int, assumed: Assumed) -> "Coding":
        """The coding among `clients` that joined: T = max(1, C) and U = max(q, N - L').

        C and L' follow from how many clients were called. Raises NotCarried for fewer clients than C + 2.
        """
        assumed.require_fewest(clients)
        private = max(1, assumed.colluding)
        needed = max(_quorum(clients, private), clients - assumed.left_to_lose(clients))
        return cls(clients, private, needed)

    @property
    def quorum(self) -> int:
        """How many clients must sign U1: q. Two sets of q clients share more than T."""
        return _quorum(self.clients, self.private)

    @property
    def tolerated(self) -> int:
        """D: how many may be lost, N - U."""
        return self.clients - self.needed

    def __str__(self) -> str:
        return (
            f"of {self.clients} clients {self.quorum} must sign who is in the sum and {self.needed} answer, so "
            f"{self.tolerated} may be lost; {self.private} may collude with the server"
        )


def _quorum(clients: int, private: int) -> int:
    return (clients + private) // 2 + 1


@dataclass
class _Taking(consistency.Signer):
    """The state of a client in the sum of a round; `pieces`: the coded pieces of masks that it holds, by client."""

    settings: SumSettings
    coding: Coding
    fewest: int
    pieces: dict[str, NDArray[np.uint64]] = field(default_factory=dict, repr=False)
    noise: Distributed | None = None
    revealing: removal.Revealing | None = field(default=None, repr=False)

    @property
    def quorum(self) -> int:
        return self.coding.quorum

    @property
    def _length(self) -> int:
        return piece_length(self.settings.dimension, self.coding.needed, self.coding.private)

    async def deal_and_mask(self, vector: NDArray[np.uint64]) -> None:
        """Send the others their pieces of a fresh mask, and the server the vector under it."""
        me, names, coding = self.me, self.group.names, self.coding
        shape = len(vector), coding.needed, coding.private, coding.clients
        with me.step("sum.deal"):
            work = pieces_work(*shape)
            mask, pieces = await me.compute(work, mask_and_pieces, *shape, me.entropy("coded mask"))
            shown = derive(self.group.digest, "CodedPiece", str(coding.private), str(coding.needed))
            self.pieces[me.name] = pieces[names.index(me.name)].copy()
            for name, piece in zip(names, joined_rows(pieces, PIECE_BITS), strict=True):
                if name != me.name:
                    me.channels[name].bind(shown)  # who was shown other clients or keys cannot open its piece
                    me.send(name, CodedPiece(piece))
        sum_masked(me)
        with me.step("sum.mask"):
            vector, self.revealing = await removal.noisy(me, vector, len(names), self.noise)
            masked = await me.compute({"ring.add": len(vector)}, _added, [vector, mask])
            me.send(me.server, CodedVector(joined([masked], PIECE_BITS)))
        self.stamp = me.round, me.attempt

    async def sign(self, shown: CodedSurvivors) -> None:
        """Sign U1, once a round; the trace says why if it refuses."""
        me, names = self.me, self.group.names
        left, least = frozenset(shown.names), max(self.coding.needed, self.fewest)
        survivors = tuple(name for name in names if name in left)
        if me.name not in left or list(survivors) != shown.names:
            me.refuse("sign: those are no survivors of the sum")
            return
        if len(survivors) < least:
            me.refuse(f"sign: {len(survivors)} survivors are fewer than {least}")
            return
        with me.step("sum.agree"):
            await self._hold(survivors)
            missing = [name for name in survivors if name not in self.pieces]
            if missing:
                me.refuse(f"sign: pieces of {', '.join(missing)} were not received")
            elif me.once_a_round("sum.agree", "sign: it has signed"):
                await consistency.sign(me, self.identities, names, survivors)
                self.signed = names, survivors

    async def _hold(self, survivors: Sequence[str]) -> None:
        """Receive the missing pieces of the masks of `survivors`, who sent them before their masked vectors."""
        awaited = [name for name in survivors if name not in self.pieces]
        deadline = self.settings.deadline / 2
        found = await self.me.collect(CodedPiece, awaited, deadline=deadline, until=(CodedDone,))
        read_already = _usable({name: sent.piece for name, sent in found.answers.items()}, self._length)
        self.pieces |= understood(
            self.me,
            found.answers,
            lambda name, sent: read_already[name] if name in read_already else _numbers(sent.piece, self._length),
        )

    async def _open(self, survivors: Sequence[str]) -> None:
        rows = [self.pieces[name] for name in survivors]
        total = await self.me.compute({"ring.add": len(rows) * self._length}, _added_pieces, rows)
        self.me.send(self.me.server, CodedSum(joined([total], PIECE_BITS)))
        if self.revealing is not None:
            self.revealing(survivors)


def _added(rows: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return rows[0] if isinstance(rows[0], HollowArray) else summed(rows)


@hollow(lambda pieces: unknown(len(pieces[0])))
def _added_pieces(pieces: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return summed(pieces)


def _usable(pieces: Mapping[str, bytes], count: int) -> dict[str, NDArray[np.uint64]]:
    """The numbers of each piece that `_numbers` accepts, all unpacked in one call, which is faster than one by one."""
    due = packed_bytes(count, PIECE_BITS)
    sent = {name: piece for name, piece in pieces.items() if len(piece) == due and not isinstance(piece, Blank)}
    words, clean = unpacked_rows(list(sent.values()), count, PIECE_BITS)
    clean &= (words < PRIME).all(axis=1)
    return {name: row for name, row, usable in zip(sent, words.astype(np.uint64), clean, strict=True) if usable}


def _numbers(data: bytes, count: int) -> NDArray[np.uint64]:
    """The numbers of GF(2^31 - 1) in a piece. Raises ValueError for other bytes."""
    if isinstance(data, Blank) and len(data) == packed_bytes(count, PIECE_BITS):
        return unknown(count)  # one for all: in a large sum, there are a million pieces
    (values,) = read(data, [count], PIECE_BITS)
    if count and int(values.max()) >= PRIME:
        raise ValueError("a number is not below 2^31 - 1")
    return values.astype(np.uint64)


@dataclass(frozen=True)
class LightSecAgg(Sum):
    """The secure sum of integers with coded masks, whose opening takes the same time for any losses."""

    name: ClassVar[str] = "lightsecagg"
    description: ClassVar[str] = "a sum whose opening costs the same whoever is lost"
    requests: ClassVar[Requests] = REQUESTS
    masked: ClassVar[Sequence[type[Message]]] = (CodedVector,)
    copies: ClassVar[int] = 12  # as trained, and in numbers of 8 bytes: quantised, mask, pieces, masked
    signs_sets: ClassVar[bool] = True
    of_integers: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = True
    primes: ClassVar[tuple[int, ...]] = (PRIME,)
    takes: ClassVar[Sequence[Taken]] = (WITH_SIGNING_KEYS, _DEAL, _MASK, _AGREE, _REVEAL, _COLLECT)
    messages: ClassVar[Sequence[type[Message]]] = (*messages_in(sys.modules[__name__]), Agreed, Agreement)
    between_clients = (CodedPiece,)

    def word_bits(self, quantised: Quantised | None) -> int:
        return PIECE_BITS

    def modulus(self, quantised: Quantised | None) -> int:
        return PRIME

    def limits(self, called: int, joined: int) -> Coding:
        return Coding.among(joined, self.tolerance.of(called))

    def opens(self, called: int, least: int, joined: int, left: int) -> float:
        return float(left >= max(least, self.limits(called, joined).needed))

    def check(self, called: int) -> None:
        assumed = self.tolerance.of(called)
        try:
            coding = self.limits(called, called)
        except ValueError as error:
            raise Problem("share", str(error)) from None
        if coding.tolerated < assumed.lost:
            problem = f"{self.tolerance.dropouts:g} of {called} clients is more than a lying server lets a sum with "
            problem += f"coded masks tolerate, with {coding.private} that may collude with it; at most "
            allowed = f"{coding.tolerated} may be lost; allowed: less than {(coding.tolerated + 1) / called:g}"
            raise Problem("tolerated_dropouts", problem + allowed)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, coding = len(among.names), among.sum.limits(len(among.names), len(among.names))
        piece = packed_bytes(piece_length(among.dimension, coding.needed, coding.private), PIECE_BITS)
        return {
            "CodedPiece": p * (p - 1) * piece,
            "CodedVector": p * packed_bytes(among.dimension, PIECE_BITS),
            "CodedSurvivors": p * text(among.names),
            "Agreed": p * SIGNATURE_BYTES,
            "Agreement": p * coding.quorum * SIGNATURE_BYTES,
            "CodedSum": p * piece,
        }

    async def client(self, me: Client, vector: NDArray[Any], group: Group, settings: SumSettings) -> None:
        """Contribute `vector` (dimension,), numbers below 2^31 - 1, to the sum of the round among `group`, P.

        `group` has identities (`members.with_keys`), and the channels of `me` are those of its set-up.
        """
        if vector.shape != (settings.dimension,) or int(vector.max()) >= PRIME:
            raise ValueError(f"a vector of {settings.dimension} numbers below 2^31 - 1 was due.")
        if group.identities is None:
            raise ValueError("clients sign: the group needs identities.")
        removal.check_sum(self, settings)
        number, part, coding = me.round, None, partial(self.limits, settings.called)
        fewest = removal.least_left(self.noise, len(group.names), self.least_of(settings))
        while answer := await REQUESTS.next(
            me, settings.deadline, begun=part is not None, finished=part is not None and part.done
        ):
            if isinstance(answer, CodedStart):
                fit = carries(me, coding, group.names) and removal.carried(me, len(group.names), self.noise)
                if fit and may_mask_once(me, number, group.names, fewest):
                    part = _Taking(me, group, group.identities, settings, coding(len(group.names)), fewest)
                    part.noise = self.noise
                    await part.deal_and_mask(vector)
            elif part is None or not part.is_current:
                continue  # what follows a start that was refused
            elif isinstance(answer, CodedSurvivors):
                await part.sign(answer)
            elif isinstance(answer, Agreement):
                await part.answer(answer)

    async def server(self, me: Server, group: Group, settings: SumSettings) -> Total:
        """Sum the vectors of U1, the clients of `group`, P, whose vectors are received. Raises Abort."""
        names, identities = group.names, group.identities
        if identities is None:
            raise ValueError("clients sign: the group needs identities.")
        try:
            coding = self.limits(settings.called, len(names))
        except NotCarried as error:
            raise Abort(quorum.NOT_CARRIED, problem=str(error)) from None
        removal.check_sum(self, settings)
        removal.require_carried(len(names), self.noise)
        least = removal.least_left(self.noise, len(names), max(self.least_of(settings), coding.needed))
        with me.step("sum.collect"):
            require(len(names), "clients", settings.min_clients)
            me.advance(me.round, me.attempt + 1)
            me.broadcast(names, CodedStart())
            me.once(MASKED)
            sent = (await me.collect(CodedVector, names, deadline=settings.deadline)).answers
            vectors = understood(me, sent, lambda name, vector: _numbers(vector.values, settings.dimension))
            survivors = without_silent(me, names, vectors, settings.deadline)
            require(len(survivors), "clients", settings.min_clients)
            if len(survivors) < least:
                raise Abort(STAYS_MASKED, why=Reason(FEW_VALUES, count=len(survivors), needed=least))
            total = await me.compute({"ring.add": len(vectors) * settings.dimension}, _added, list(vectors.values()))
            me.broadcast(survivors, CodedSurvivors(list(survivors)))
            titles = {name: f"{name}#{me.incarnations[name]}" for name in survivors}
            unsigned = await consistency.witness(
                me, identities, names, survivors, titles, coding.quorum, settings.deadline
            )
            if unsigned:
                me.lose(unsigned, "it did not sign who is in the sum: the round ends without one")
                signed = len(survivors) - len(unsigned)
                problem = Reason(
                    "{count} of {clients} clients signed who is in the sum; {needed} are needed",
                    count=signed, clients=len(survivors), needed=coding.quorum,
                )  # fmt: skip
                raise Abort(STAYS_MASKED, why=problem)
            length = piece_length(settings.dimension, coding.needed, coding.private)
            answers = await first_understood(
                me, CodedSum, survivors, coding.needed, settings.deadline,
                lambda name, answer: _numbers(answer.pieces, length),
            )  # fmt: skip
            if len(answers) < coding.needed:
                silent = [name for name in survivors if name not in answers]
                me.lose(silent, "it did not add the pieces of the masks: the round ends without a sum")
                problem = Reason(
                    "{count} of {clients} clients added the pieces of the masks; {needed} are needed",
                    count=len(answers), clients=len(survivors), needed=coding.needed,
                )  # fmt: skip
                raise Abort(STAYS_MASKED, why=problem)
            held = {names.index(name): piece for name, piece in answers.items()}
            shape = settings.dimension, coding.needed, coding.private
            mask = await me.compute(decoded_work(*shape), decoded, held, *shape)
            ring = await me.compute({"ring.add": settings.dimension}, _added, [total, np.uint64(PRIME) - mask])
            ring, noise = await removal.without_noise(me, len(names), survivors, ring, self.noise, settings.deadline)
            me.broadcast(survivors, CodedDone())
        return Total(survivors, ring, 0, noise)
