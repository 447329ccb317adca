"""Secure sum with coded masks: opening it takes the same whoever is lost, as long as U clients answer.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| sum.collect | CodedStart | server -> each in P | 0 | the sum begins |
| sum.deal | CodedPiece | j -> each other in P, sealed | 31 / 8 ceil(d / (U - T)) | its piece of j's mask |
| sum.mask | CodedVector | j -> server | 31 d / 8 | x_j + z_j |
| sum.collect | CodedSurvivors | server -> each in U1 | names of U1 | U1, whose vectors were received |
| sum.reveal | CodedSum | j in U1 -> server | 31 / 8 ceil(d / (U - T)) | the sum of the pieces for j of all of U1 |
| sum.collect | CodedDone | server -> each in U1 | 0 | the sum is there |

Paper: So et al., LightSecAgg: a Lightweight and Versatile Design for Secure Aggregation in Federated Learning, MLSys
2022. In GF(2^31 - 1); P, in the order of the set-up, has N clients. Client j draws a mask z_j, sends each other client
a coded piece of it (`coded_masks`), and then its vector under the mask. Whoever is lost before its vector is received
is out. Clients of U1 add the pieces that they hold of U1's masks; any U such sums give the sum of the masks. Nothing is
agreed on between pairs, and nothing is reconstructed for those that are lost: the cost of opening does not grow with
their number. More than N - U losses leave the sum masked.

Paper and code leave U, T and N apart from T < U <= N - D. Here U is also above (N + T) / 2. Two sets of U clients share
more than T clients then, so one of them is honest, and it answers for one set only.

Security: semi-honest, no more than T clients collude with the server. The server learns the sum over U1 and who is in
it; T pieces of a mask say nothing about it. Clients learn who takes part. A client deals and masks once a round, and
answers once a round, for a U1 of at least U and `min_clients` with itself in it, and remembers both over a crash. A
server that names different sets to different clients opens one of them at most, by the bound on U. From the answers to
another set, N - U at most, it still learns as many linear relations of the numbers in each place of the U - T parts of
the difference, which can be one client's vector. Signatures on one set, as in `committee`, would prevent that.
Not covered: what `secure_sum` does not cover, and answers that are wrong on purpose, which spoil the sum unseen.

Patent applications are known that concern this method (US 2024/0289638).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.coded_masks import (
    PIECE_BITS,
    decoded,
    decoded_work,
    mask_and_pieces,
    piece_length,
    pieces_work,
    summed,
)
from tacit.protocols.crypto.shamir import PRIME
from tacit.protocols.crypto.sizes import text
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.outcome import Abort, require
from tacit.protocols.parts import Among, Part, Taken
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.masking import joined, read
from tacit.protocols.sums.refusal import MASKED, enter, may_mask_once, refuse, sum_done, sum_masked
from tacit.protocols.values import first_understood, understood
from tacit.sim.hollow import HollowArray
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = ["CodedSettings", "CodedSumOfVectors", "CodedVector", "Coding", "client", "server"]

_DEAL, _MASK, _, _REVEAL, _COLLECT = secure_sum.STEPS


class CodedStart(Message):
    announces: ClassVar[bool] = True


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


_ANSWERS = (CodedDone, CodedStart, CodedSurvivors)

BEFORE_END = ("CodedStart", "CodedSurvivors")
"""The messages that could ask for more of a client that has done its part."""


@dataclass(frozen=True)
class Coding:
    """U and T among N clients, from the shares of them that may be lost and may collude with the server.

    `private`: T, `needed`: U. Raises ValueError unless T >= 1 and (N + T) / 2 < U <= N.
    """

    clients: int
    private: int
    needed: int

    def __post_init__(self) -> None:
        if not 1 <= self.private < self.needed <= self.clients:
            raise ValueError(f"T(={self.private}) and U(={self.needed}) must be 1 <= T < U <= {self.clients}")
        if 2 * self.needed <= self.clients + self.private:
            raise ValueError(f"U(={self.needed}) must be above (N + T) / 2 = {(self.clients + self.private) / 2:g}")

    @classmethod
    def among(cls, clients: int, tolerated: float, corrupt: float) -> "Coding":
        """The coding that withstands the loss of a share `tolerated` of the clients, with a share `corrupt` of T.

        T is at least 1. Where the two do not go together, U is the smallest that a lying server cannot use twice.
        """
        private = max(1, int(corrupt * clients + 1e-9))
        smallest = (clients + private) // 2 + 1
        return cls(clients, private, max(smallest, clients - int(tolerated * clients + 1e-9)))

    @property
    def tolerated(self) -> int:
        """D: how many may be lost, N - U."""
        return self.clients - self.needed


@dataclass(frozen=True)
class CodedSettings:
    """The public settings of a sum: `dimension` words of GF(2^31 - 1), whose sums are below 2^31 - 1.

    `tolerated` and `corrupt`: shares of the clients of a sum (`Coding.among`). `min_clients`: the fewest in a sum;
    `deadline`: longest wait of the server, in virtual seconds.
    """

    dimension: int
    tolerated: float
    corrupt: float
    min_clients: int = 3
    deadline: float = 60.0

    def coding(self, clients: int) -> Coding:
        """U and T among a number of clients. Raises ValueError where there are too few."""
        return Coding.among(clients, self.tolerated, self.corrupt)


async def client(me: Client, vector: NDArray[np.uint64], names: Sequence[str], settings: CodedSettings) -> None:
    """Contribute `vector` (dimension,), numbers below 2^31 - 1, to the sum of the round among `names`, P.

    The channels of `me` are those of the set-up with P.
    """
    if vector.shape != (settings.dimension,) or int(vector.max()) >= PRIME:
        raise ValueError(f"a vector of {settings.dimension} numbers below 2^31 - 1 was due.")
    number, coding = me.round, settings.coding(len(names))
    own: Mapping[str, NDArray[Any]] = {}
    while True:
        answer = await me.recv(_ANSWERS, me.server, 2 * settings.deadline)
        me.rest_at("")
        if isinstance(answer, CodedDone):
            sum_done(me)
            return
        if isinstance(answer, CodedStart):
            if may_mask_once(me, number, names, settings.min_clients):
                own = await _deal_and_mask(me, vector, names, coding)
        elif isinstance(answer, CodedSurvivors) and own:
            await _answer(me, answer.names, own, names, coding, settings)
            me.rest_at(secure_sum.END)


async def client_at_end(me: Client, settings: CodedSettings) -> None:
    """The rest of `client` where it rests before its end, when the server has the sum."""
    me.rest_at(secure_sum.END)
    if isinstance(await me.recv(_ANSWERS, me.server, 2 * settings.deadline), CodedDone):
        sum_done(me)
    me.rest_at("")


async def _deal_and_mask(
    me: Client, vector: NDArray[np.uint64], names: Sequence[str], coding: Coding
) -> dict[str, NDArray[Any]]:
    """Send the others their pieces of a fresh mask, and the server the vector under it. Returns the piece of `me`."""
    size = len(vector)
    shape = size, coding.needed, coding.private, coding.clients
    with me.step("sum.deal"):
        work = pieces_work(*shape)
        mask, pieces = await me.compute(work, mask_and_pieces, *shape, me.entropy("coded mask"))
        shown = derive(b"CodedPiece", *names, str(coding.private), str(coding.needed))
        for name, piece in zip(names, pieces, strict=True):
            if name != me.name:
                me.channels[name].bind(shown)  # who was shown other clients cannot open its piece
                me.send(name, CodedPiece(joined([piece], PIECE_BITS)))
    sum_masked(me)
    with me.step("sum.mask"):
        masked = await me.compute({"ring.add": size}, _added, [vector, mask])
        me.send(me.server, CodedVector(joined([masked], PIECE_BITS)))
    return {me.name: pieces[list(names).index(me.name)]}


def _added(rows: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return rows[0] if isinstance(rows[0], HollowArray) else summed(rows)


async def _answer(
    me: Client,
    survivors: Sequence[str],
    own: Mapping[str, NDArray[Any]],
    names: Sequence[str],
    coding: Coding,
    settings: CodedSettings,
) -> None:
    """Send the sum of the pieces of U1 = `survivors`, once a round; the trace says why where it does not."""
    left, least = frozenset(survivors), max(coding.needed, settings.min_clients)
    if me.name not in left or not left <= frozenset(names):
        refuse(me, "open the sum: those are no survivors of it")
    elif len(left) < least:
        refuse(me, f"open the sum: {len(left)} survivors are fewer than {least}")
    elif not enter(me, "sum.reveal"):
        refuse(me, "open the sum: it has answered already, and once a round is all")
    else:
        with me.step("sum.reveal"):
            others = [name for name in names if name in left and name != me.name]
            # The pieces of U1 were sent before the vectors that put it there.
            found = await me.collect(CodedPiece, others, deadline=settings.deadline / 2, until=(CodedDone,))
            length = piece_length(settings.dimension, coding.needed, coding.private)
            pieces = understood(me, found.answers, lambda name, sent: _numbers(sent.piece, length))
            missing = [name for name in others if name not in pieces]
            if missing:
                refuse(me, f"open the sum: pieces of {', '.join(missing)} were not received")
                return
            rows = [own[me.name], *pieces.values()]
            total = await me.compute({"ring.add": len(rows) * length}, _added, rows)
            me.send(me.server, CodedSum(joined([total], PIECE_BITS)))


def _numbers(data: bytes, count: int) -> NDArray[np.uint64]:
    """Numbers of GF(2^31 - 1). Raises ValueError for other bytes."""
    (values,) = read(data, [count], PIECE_BITS)
    if count and int(values.max()) >= PRIME:
        raise ValueError("a number is not below 2^31 - 1")
    return values.astype(np.uint64)


async def server(me: Server, clients: Sequence[str], settings: CodedSettings) -> secure_sum.Total:
    """Sum the vectors of `clients`, P in the order of the set-up, or of those of them who live. Raises Abort."""
    names = tuple(clients)
    try:
        coding = settings.coding(len(names))
    except ValueError as error:
        raise Abort(f"no sum among {len(names)} clients: {error}") from None
    least = max(settings.min_clients, coding.needed)
    with me.step("sum.collect"):
        require(len(names), "clients", settings.min_clients)
        me.advance(me.round, me.attempt + 1)
        me.broadcast(names, CodedStart())
        enter(me, MASKED)
        read_vector = partial(_vector, size=settings.dimension)
        vectors = understood(
            me, (await me.collect(CodedVector, names, deadline=settings.deadline)).answers, read_vector
        )
        missing = [name for name in names if name not in vectors]
        me.lose(missing, "its masked values never came: the sum goes without it")
        me.dismiss(missing, f"your masked values did not come within {settings.deadline:g} s")
        survivors = tuple(name for name in names if name in vectors)
        require(len(survivors), "clients", settings.min_clients)
        if len(survivors) < least:
            raise Abort(
                f"the sum stays masked: masked values of {len(survivors)} clients were received; {least} are needed"
            )
        total = await me.compute({"ring.add": len(vectors) * settings.dimension}, _added, list(vectors.values()))
        me.broadcast(survivors, CodedSurvivors(list(survivors)))
        answers = await _answers(me, survivors, coding, settings)
        if len(answers) < coding.needed:
            silent = [name for name in survivors if name not in answers]
            me.lose(silent, "it did not add the pieces of the masks: the round ends without a sum")
            problem = (
                f"{len(answers)} of {len(survivors)} clients answered to CodedSurvivors; {coding.needed} are needed"
            )
            raise Abort(f"the sum stays masked: {problem}")
        held = {names.index(name): piece for name, piece in answers.items()}
        shape = settings.dimension, coding.needed, coding.private
        mask = await me.compute(decoded_work(*shape), decoded, held, *shape)
        ring = await me.compute({"ring.add": settings.dimension}, _added, [total, np.uint64(PRIME) - mask])
        me.broadcast(survivors, CodedDone())
    return secure_sum.Total(survivors, ring, 0)


def _vector(name: str, sent: CodedVector, *, size: int) -> NDArray[np.uint64]:
    return _numbers(sent.values, size)


async def _answers(
    me: Server, survivors: Sequence[str], coding: Coding, settings: CodedSettings
) -> dict[str, NDArray[np.uint64]]:
    """The first U sums of pieces that can be used, or all that were received by the deadline."""
    length = piece_length(settings.dimension, coding.needed, coding.private)
    return await first_understood(
        me, CodedSum, survivors, coding.needed, settings.deadline, lambda name, answer: _numbers(answer.pieces, length)
    )


@dataclass(frozen=True)
class CodedSumOfVectors(Part):
    """A secure sum with coded masks as a part of a protocol; `coding` gives U and T from tables and the clients."""

    coding: Any
    between_clients = (CodedPiece,)

    @property
    def takes(self) -> Sequence[Taken]:
        return (_DEAL, _MASK, _REVEAL, _COLLECT)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, coding = len(among.names), self.coding(tables, len(among.names))
        piece = packed_bytes(piece_length(among.dimension, coding.needed, coding.private), PIECE_BITS)
        return {
            "CodedPiece": p * (p - 1) * piece,
            "CodedVector": p * packed_bytes(among.dimension, PIECE_BITS),
            "CodedSurvivors": p * text(among.names),
            "CodedSum": p * piece,
        }

    def waits(self, tables: Any) -> int:
        return 2
