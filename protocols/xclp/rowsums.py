"""SecureRowSums: each client gets its rows of Z = sum_j Zbar_j, and nobody sees a single Zbar_j. Recovery: restart.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| rowsums.sum | Summing | server -> each in A | names of A | an attempt begins among A |
| rowsums.mask | MaskedRows | j -> server | 8 C sum over i in A, i != j, of |R_i| | Zbar_j + masks_j, others' blocks |
| rowsums.sum | SummedRows | server -> j | 8 C |R_j| | the sum over i != j on block R_j |

Paper: XCLP, Section 3.2 and Algorithm 1 line 14. In Z_{2^64}, values in fixed point. For a pair (j, k) both derive
one key (purpose rowsum-own, A, this round and attempt); the mask of block i is PRG(key; i), added by the lower,
subtracted by the higher:

    masks_j[R_i] = sum_{k > j} PRG(key_jk; i) - sum_{k < j} PRG(key_jk; i)
    sum_{i != j} (Zbar_i + masks_i)[R_j] = Z[R_j] - Zbar_j[R_j] - masks_j[R_j]      for all masks cancel over A

and j adds back what is missing. Only blocks of clients in A are masked, sent and summed: on the block of one who
takes no part all masks would cancel, and the server would read its class scores and from them labels. (The paper
overlooks this.)

Lost clients: if a member of A has not sent its values by the deadline, a new attempt begins without it, with fresh
masks: the old ones would give the server the lost client's pair masks. Once a row has been sent there is no new
attempt. A client without labels sends masked zeros; `min_clients` counts those with labels. Clients, who know from
`Rows`, and so from the server, which points are labeled, refuse an A with fewer; and they mask once in a round and
attempt, also after a crash.

Security: semi-honest, no collusion between server and clients. The server sees on each block values masked by a key
that it lacks, and the number of attempts. Client j learns its rows of Z.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.masking import WORD_BYTES, Block, Ring, joined, masks, masks_work, read
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.crypto.sizes import text
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import require
from tacit.protocols.parts import Among, Part, Step
from tacit.protocols.sums import consistency
from tacit.protocols.sums.dealing import Survivors
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import without_silent
from tacit.protocols.values import announced, understood, values_of
from tacit.protocols.xclp.recipe import RECIPES
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = [
    "MASK",
    "STEPS",
    "UNMASK",
    "Candidates",
    "MaskedRows",
    "Restart",
    "Scores",
    "SecureRowSums",
    "SumOfRows",
    "SummedRows",
    "Summing",
    "blocks_of",
    "is_of_round",
    "own_purpose",
    "rows_among",
]

MASK = Step(
    "client", "rowsums.mask", "mask its class scores on the others' rows and send them; once each attempt", "mask"
)
UNMASK = Step("client", "rowsums.unmask", "take its own masks out of the sum and add its own scores")
"""Steps of clients in every kind of sum of rows."""

STEPS = (
    MASK,
    UNMASK,
    Step("server", "rowsums.sum", "add the masked values of all; begin again when one is lost; return the rows"),
)


class Summing(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]


class MaskedRows(Message):
    admits: ClassVar[tuple[str, ...]] = ("SummedRows", Survivors.__name__)
    in_attempt: ClassVar[bool] = True
    values: bytes


class SummedRows(Message):
    names_members: ClassVar[bool] = True
    values: bytes


@dataclass(frozen=True, eq=False)
class Scores:
    """A client's input to the sum: its scores `zbar` (n, C), R_i of each possible member, its pair secrets.

    It is summed with at least `least` clients. `identities`: the keys that sign keys and sets, if any.
    """

    zbar: NDArray[np.float64]
    rows: Mapping[str, NDArray[np.int64]]
    secrets: Mapping[str, SharedSecret] = field(repr=False)
    fraction_bits: int
    least: Least
    identities: Identities | None = None

    def shared(self, names: Sequence[str]) -> Ring:
        """Encode `zbar` in the ring, for a sum among `names`."""
        return encode(self.zbar, self.fraction_bits, len(names))

    def blocks(self, names: Sequence[str]) -> list[Block]:
        """The blocks of a sum among `names`."""
        return blocks_of(names, {name: self.rows[name].size for name in names}, self.zbar.shape[1])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The possible members of the sum: l_j and |R_j| of each. At least `min_clients` with labels must remain.

    With `identities` keys and sets are signed, the latter by enough of the clients that `joined`, |P|. `colluding`: C,
    how many clients may collude with the server where masks are dealt in shares.
    """

    labeled: Mapping[str, int]
    rows: Mapping[str, int]
    classes: int
    min_clients: int
    identities: Identities | None = None
    joined: int = 0
    colluding: int = 0

    @property
    def signers(self) -> int:
        """The number of clients that must sign the survivors; 0 without signatures."""
        return 0 if self.identities is None else consistency.needed(self.joined, self.identities.colluding)

    def require(self, names: Iterable[str]) -> None:
        """Raise Abort when too few of `names` have labels."""
        fewest = Least(self.min_clients, colluding=self.colluding).fewest
        limit = quorum.limit_of(self.min_clients, self.colluding)
        require(sum(self.labeled[name] > 0 for name in names), "clients with labels", fewest, limit)

    def read(self, names: Sequence[str], sender: str, answer: MaskedRows) -> dict[str, Ring]:
        """Decode the masked values of `sender` on the block of each other of `names`. Raises ValueError."""
        sizes = {name: size for name, (_, size) in zip(names, self.blocks(names), strict=True) if name != sender}
        return dict(zip(sizes, read(answer.values, list(sizes.values())), strict=True))

    def blocks(self, names: Sequence[str]) -> list[Block]:
        """The blocks of a sum among `names`."""
        return blocks_of(names, self.rows, self.classes)


def is_of_round(me: Client, number: int) -> bool:
    """Return true if `me` is still in round `number`, that of its keys; if not, trace the refusal.

    Keys are derived from the set-up and the attempt's number: in a later round the same number would repeat them.
    """
    if me.round != number:
        me.refuse(f"begin a sum of round {me.round}: its keys are of round {number}")
    return me.round == number


class SecureRowSums(Protocol):
    """A way to sum and to recover from losses. `waits`: the most deadlines of the server in an attempt."""

    name: ClassVar[str]
    waits: ClassVar[int]

    async def client(self, me: Client, scores: Scores, deadline: float) -> Ring:
        """Contribute `scores`. Returns Z on the client's own rows, (|R_j|, C), in the ring."""

    async def server(self, me: Server, candidates: Candidates, deadline: float) -> tuple[str, ...]:
        """Sum among the `candidates`. Returns the clients whose labels count. Raises Abort."""


@dataclass(frozen=True)
class Restart:
    """Recovery by restart: after a loss, a new attempt begins among the other clients."""

    name: ClassVar[str] = "restart"
    waits: ClassVar[int] = 1

    async def client(self, me: Client, scores: Scores, deadline: float) -> Ring:
        own, own_masks = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        number = me.round
        while True:
            answer = await me.recv((Summing, SummedRows), me.server, 2 * deadline)
            if isinstance(answer, SummedRows):
                break
            number = number or me.round
            if not is_of_round(me, number):
                continue
            if not me.once("rowsums.mask"):  # two sets under the same masks would give the masks away
                me.refuse("mask for a second set in one attempt")
                continue
            with values_of(me, me.server, "Summing"):
                names = announced(me, answer.names, [n for n in scores.rows if n == me.name or n in scores.secrets])
            if problem := scores.least.problem(names):
                me.refuse(f"take part in a sum: {problem}")
                continue
            with me.step("rowsums.mask"):
                mine = names.index(me.name)
                shared = scores.shared(names)
                own, blocks = shared[scores.rows[me.name]], scores.blocks(names)
                purpose = own_purpose(names)
                keys = [
                    (scores.secrets[name].key(purpose, me.attempt), mine < i)
                    for i, name in enumerate(names)
                    if i != mine
                ]
                masked = await me.compute(masks_work(len(keys), blocks), masks, keys, blocks)
                own_masks = masked.pop(mine)
                others = [scores.rows[name] for name in names if name != me.name]
                values = [shared[rows].reshape(-1) + mask for rows, mask in zip(others, masked, strict=True)]
                me.send(me.server, MaskedRows(joined(values)))
        with me.step("rowsums.unmask"), values_of(me, me.server, "SummedRows"):
            # Z[R_j] = sum + Zbar_j[R_j] + masks_j[R_j]
            (summed,) = read(answer.values, [own.size])
            return summed.reshape(own.shape) + own + own_masks.reshape(own.shape)

    async def server(self, me: Server, candidates: Candidates, deadline: float) -> tuple[str, ...]:
        names = tuple(candidates.labeled)
        with me.step("rowsums.sum"):
            while True:
                candidates.require(names)
                me.advance(me.round, me.attempt + 1)
                me.broadcast(names, Summing(list(names)))
                sent = await me.collect(MaskedRows, names, deadline=deadline)
                values = understood(me, sent.answers, partial(candidates.read, names))
                if len(values) == len(names):
                    break
                without_silent(me, names, values, deadline, "its labels do not count, summing starts again")
                names = tuple(values)
            sums = {
                name: np.zeros(size, np.uint64) for name, (_, size) in zip(names, candidates.blocks(names), strict=True)
            }
            for blocks in values.values():
                for name, block in blocks.items():
                    sums[name] += block
            me.once(MASKED)  # a client that gets its rows over two sets of the others learns what sets them apart
            for name, total in sums.items():
                me.send(name, SummedRows(joined([total])))
        return names


def own_purpose(names: Sequence[str]) -> str:
    """The purpose of the set-up keys of all masks in a sum among `names`.

    It includes the names because a block is numbered by its place among them: otherwise clients that are shown
    different names would mask different blocks with the same bytes.
    """
    return f"rowsum-own {derive(b'A', *names).hex()}"


def blocks_of(names: Sequence[str], rows: Mapping[str, int], classes: int) -> list[Block]:
    """The blocks R_i of a sum among `names`, numbered in their order; `rows`: |R_i|."""
    return [(i, rows[name] * classes) for i, name in enumerate(names)]


def rows_among(tables: Any, among: Among) -> int:
    """The number of rows of all clients together, sum_j |R_j|."""
    hidden = {} if tables.protocol.rows == "paper" else among.labeled
    counts = RECIPES[tables.protocol.recipe].class_balanced  # one more row for each client
    return sum(n_j - hidden.get(name, 0) + counts for name, n_j in among.points.items())


class SumOfRows(Part):
    """The messages that all strategies of SecureRowSums send."""

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, rows = len(among.names), rows_among(tables, among)
        return {
            "Summing": p * text(among.names),
            "MaskedRows": WORD_BYTES * among.classes * (p - 1) * rows,
            "SummedRows": WORD_BYTES * among.classes * rows,
        }
