"""SecureRowSums by any secure sum. Recovery: the name of the sum.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| rowsums.sum | Summing | server -> each in A | names of A | the sum begins: the rows of A |
| rowsums.sum | WordsToSum | server -> helper | 0 | how many words the sum has; only where it has a helper |
| | those of the sum | | | a sum among the clients of A that have labels, with its set-up |
| rowsums.sum | OwnRows | server -> j | 8 C |R_j|, names of U3 | the sum over U3 \\ {j} on block R_j |

A are the clients that take part, U3 those whose vectors are in the sum. Values are in fixed point in Z_{2^64}. Clients
with labels contribute one vector, of the blocks R_i of all i in A. That of client j is, for i in A \\ {j},

    v_j[R_i] = Zbar_j[R_i] +- PRG(own_ij; i),      v_j[R_j] = 0,

where own_ij is the set-up key of j and i (purpose rowsum-own, A), added by the lower of both. So each block is under
masks of its owner, and the sum that the server opens is

    sum_{j in U3} v_j[R_i] = Z[R_i] - Zbar_i[R_i] + the masks of i with U3 \\ {i},

from which i alone removes the masks. The block of a client that is lost stays masked for good. (By a secure sum without
these masks the server would read the scores of each row, and from them labels; see `rowsums`.) A client without labels
adds nothing, takes no part in the sum, and gets its rows.

Lost clients: if a client's vector is not in the sum, its labels do not count and its rows are not sent. The sum handles
losses in its own way; if too few clients are left for it, the round ends without labels. There is no second attempt.

A sum that adds integers modulo a prime adds each word in four parts (`tacit.protocols.sums.whole`).

Security: semi-honest. The server learns what the sum reveals beside its result, and sums under masks that it does not
know. Client j learns its rows of Z, and U3. If clients collude with the server, each other client's vector is protected
as in any sum of this kind; the colluding clients give the server the scores of their rows, and the hash planes (`lsh`).
A client refuses an A with too few clients that have labels, and rows summed over too few of them; the sum is over at
least `min_clients` and C + 2 clients with labels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.server import Server
from tacit.protocols.crypto.masking import WORD_BYTES, Block, Ring, SignedKey, joined, masks, masks_work, parted, read
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.sizes import text
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.identities import identities_of, is_signed, signing_colluding
from tacit.protocols.outcome import Withdrawn
from tacit.protocols.parts import Among, Opening, Part, Step, SumBounds, Taken
from tacit.protocols.promises import Promise
from tacit.protocols.sums.chosen import check_sum_among, sum_among
from tacit.protocols.sums.helper import HelperCalled
from tacit.protocols.sums.sum import Sum, SumHelper, SumSettings
from tacit.protocols.sums.summing import Chosen
from tacit.protocols.sums.whole import Whole
from tacit.protocols.values import BadValues, announced, values_of
from tacit.protocols.xclp.promises import MASKS_ONCE
from tacit.protocols.xclp.rowsums import UNMASK, Candidates, Scores, Summing, own_purpose, rows_among
from tacit.sim.hollow import hollow, unknown
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["BySum", "RowsBySum", "RowsHelper"]

_KEY = "protocol.recovery"

_MASK = Step("client", "rowsums.mask", "mask its class scores on the others' rows; once each attempt", "early")
_COLLECT = Step("server", "rowsums.sum", "say whose rows are summed; in the end send each owner the sum of its rows")

_COPY_BYTES = 4
"""The bytes of a number in `Sum.copies`, which are of models."""

_MOST_WORDS = 1 << 32
"""The most words that a helper adds masks of: what it reserves follows from the server's word alone."""


class WordsToSum(Message):
    announces: ClassVar[bool] = True
    count: int


class OwnRows(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    over: list[str]
    values: bytes


@dataclass(frozen=True)
class BySum:
    """Row sums by a secure sum. `of`: for each client, the sum among the clients with labels in its group."""

    of: Mapping[str, Sum]

    @property
    def name(self) -> str:
        """The name of the sum."""
        return self._any.name

    @property
    def waits(self) -> int:
        """How many of the server's deadlines a round of row sums takes at most, divided by the number of clients."""
        return 2 + -(-(2 + self._any.spare_waits) // max(1, self._any.of_run.called))

    @property
    def has_helper(self) -> bool:
        """True if the sum has a helper."""
        return self._any.has_helper

    @property
    def _any(self) -> Sum:
        return next(iter(self.of.values()))

    def chosen(self, client: str, dimension: int, min_clients: int, deadline: float) -> Chosen:
        """The sum of the group of `client`, with the settings for vectors of `dimension` words of 64 bits."""
        one = self.of[client]
        return Chosen(one, SumSettings(dimension, one.of_run.called, min_clients, deadline))

    async def client(self, me: Client, scores: Scores, deadline: float) -> Ring:
        least = scores.least
        begun = await me.recv(Summing, me.server, 2 * deadline)
        with values_of(me, me.server, "Summing"):
            names = announced(me, begun.names, [n for n in scores.rows if n == me.name or n in scores.secrets])
        if problem := least.problem(names):
            me.refuse(f"take part in a sum: {problem}")
            raise Withdrawn(problem)
        if not me.once("rowsums.mask"):  # two sets under the same masks would give the masks away
            me.refuse(problem := "mask for a second set in one attempt")
            raise Withdrawn(problem)
        having = [name for name in names if least.counted is None or name in least.counted]
        mine, shared, blocks = names.index(me.name), scores.shared(names), scores.blocks(names)
        own, purpose = shared[scores.rows[me.name]], own_purpose(names)
        keys = {
            name: (scores.secrets[name].key(purpose, me.attempt), mine < place)
            for place, name in enumerate(names)
            if place != mine
        }
        one = self.chosen(me.name, sum(size for _, size in blocks), least.clients, deadline)
        wait = 2 * deadline
        if me.name in having:
            with me.step("rowsums.mask"):
                values = [shared[scores.rows[name]].reshape(-1) for name in names]
                work = masks_work(1, [block for block in blocks if block[0] != mine])
                vector = await me.compute(work, _masked, list(keys.values()), values, blocks, mine)
            try:
                await one.contribute(me, vector)
            finally:
                me.rest_at("")  # the sum is not the end of its part
        else:
            wait = (2 + one.sum.waits_among(len(having))) * deadline
        answer = await me.recv(OwnRows, me.server, wait)
        with me.step("rowsums.unmask"), values_of(me, me.server, "OwnRows"):
            over = [name for name in having if name in set(answer.over)]
            if over != answer.over or (me.name in having) != (me.name in over):
                raise ValueError("rows that are not the sum over clients with labels")
            if problem := least.problem(over):
                raise ValueError(problem)
            left, block = [keys[name] for name in over if name != me.name], [(mine, own.size)]
            # the owner's side of each pair: it takes out what the other has added
            (own_masks,) = await me.compute(masks_work(len(left), block), masks, left, block)
            (summed,) = read(answer.values, [own.size])
            return (summed + own_masks).reshape(own.shape) + own

    async def server(self, me: Server, candidates: Candidates, deadline: float) -> tuple[str, ...]:
        names = tuple(candidates.labeled)
        having = tuple(name for name in names if candidates.labeled[name] > 0)
        sizes = [size for _, size in candidates.blocks(names)]
        with me.step("rowsums.sum"):
            candidates.require(names)
            one = self.chosen(names[0], sum(sizes), candidates.min_clients, deadline)
            me.advance(me.round, me.attempt + 1)
            me.broadcast(names, Summing(list(names)))
            if one.sum.has_helper:
                me.send(HELPER, WordsToSum(one.settings.dimension))
        total = await one.total(me, having)
        over = total.contributors
        with me.step("rowsums.sum"):
            for name, block in zip(names, parted(total.ring, sizes), strict=True):
                if name in over or name not in having:
                    me.send(name, OwnRows(list(over), joined([block])))
        return over


@hollow(lambda keys, values, blocks, mine: unknown(sum(size for _, size in blocks)))
def _masked(keys: Sequence[SignedKey], values: Sequence[Ring], blocks: Sequence[Block], mine: int) -> Ring:
    """One client's vector v_j: its `values` under one mask of `keys` on each of the `blocks`; 0 on its own, `mine`."""
    others = iter(keys)
    found = []
    for block, value in zip(blocks, values, strict=True):
        if block[0] == mine:
            found.append(np.zeros_like(value))
            continue
        (mask,) = masks([next(others)], [block])
        found.append(value + mask)
    return np.concatenate(found)


class RowsHelper(SumHelper):
    """The helper of row sums. The server sends it the number of words of each sum, which its clients decide."""

    def __init__(self, world: World, one: Chosen, patience: float, **access: Any) -> None:
        super().__init__(world, one.sum, lambda number: self._told.summed, patience, **access)
        self.opens, self._told = WordsToSum, one

    async def serve(self, opened: Any) -> None:
        if not 0 < opened.count <= _MOST_WORDS:
            raise BadValues(f"a sum of {opened.count} words; allowed: 1 to {_MOST_WORDS}")
        self._told = replace(self._told, settings=replace(self._told.settings, dimension=opened.count))
        await super().serve(await self.recv(HelperCalled, self.server, 2 * self._told.deadline))


@dataclass(frozen=True)
class _TheSum(Part):
    """The secure sum inside of row sums, of this `kind`, as a part: it is among the clients with labels only."""

    kind: type[Sum]
    messages: ClassVar[Sequence[type[Message]]] = ()

    @property
    def takes(self) -> Sequence[Taken]:
        return () if self.kind.proves else (self.kind(),)

    def summed(self, tables: Any, among: Among) -> Among:
        points = {name: n_j for name, n_j in among.points.items() if among.labeled.get(name, 0)}
        history = [tuple(name for name in names if name in points) for names in among.history]
        one = _sum_among(tables, len(points), len(among.points))
        whole = Whole.of(one, len(points))
        sizes = whole.settings(SumSettings(_words(tables, among), len(points)))
        return replace(
            among, points=points, dimension=sizes.dimension, word_bits=sizes.word_bits, sum=one, history=history
        )


@dataclass(frozen=True)
class RowsBySum(Part):
    """Row sums by a secure sum of a `kind`, as a part of XCLP."""

    kind: type[Sum]

    @property
    def description(self) -> str:
        """A line for users who choose it."""
        return self.kind.description

    @property
    def takes(self) -> Sequence[Taken]:
        return (_MASK, _TheSum(self.kind), UNMASK, _COLLECT)

    @property
    def messages(self) -> Sequence[type[Message]]:
        return (Summing, *((WordsToSum,) if self.kind.has_helper else ()), OwnRows)

    def strategy(self, tables: Any, called: Mapping[str, tuple[int, int]]) -> BySum:
        """The strategy of a run. `called`: how many clients with labels, and how many clients, are called with each."""
        sums = {many: _sum_among(tables, *many) for many in {*called.values()}}
        return BySum({name: sums[many] for name, many in called.items()})

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        names = text([name for name in among.names if among.labeled.get(name, 0)])
        return {
            "Summing": len(among.names) * text(among.names),
            "OwnRows": WORD_BYTES * _words(tables, among) + len(among.names) * names,
        }

    def check_among(self, tables: Any, labeled: int, called: int) -> None:
        """Raise Problem if the sum cannot be taken in a group of `called` clients, of whom `labeled` have labels."""
        one, keys = _sum_among(tables, labeled, called), tables.protocol
        check_sum_among(one, labeled, _KEY)
        try:
            Whole.of(one, labeled)
        except ValueError as error:
            raise Problem(_KEY, f"{error}; allowed: a sum of words of 64 bits, such as secure") from None
        if is_signed(tables) and not one.takes_identities():
            problem = f'"signed" does not go with {_KEY} = {toml(one.name)}, whose clients do not see who is in a sum'
            raise Problem("protocol.identity", f'{problem}; allowed: "none"')
        if keys.groups > 1 and (one.has_helper or one.keeps_keys):
            why = "a helper serves one sum at a time" if one.has_helper else "the server keeps the keys of one sum"
            problem = f"{keys.groups} groups sum at the same time, and with {_KEY} = {toml(one.name)} {why}"
            raise Problem("protocol.groups", f"{problem}; allowed: 1")

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line with the limits of the sum, if all clients are in one."""
        if tables.protocol.groups > 1:
            return []
        labels = counted(shards())[1].values()
        labeled = sum(map(bool, labels))
        limit = _sum_among(tables, labeled, len(labels)).limits(labeled, labeled)
        return [] if limit is None else [f"{self.kind.name}: {limit}"]

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """The bytes that the copies of all clients' vectors take, as if all groups had the same size."""
        (points, labels), groups = counted(shards), tables.protocol.groups
        labeled, called = (-(-many // groups) for many in (sum(map(bool, labels.values())), len(labels)))
        words = _words(tables, Among(points, labels, len(parts.held.classes)))
        one = Whole.of(_sum_among(tables, labeled, called), labeled)
        return self.kind.copies * labeled * _COPY_BYTES * one.parts * words

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        one = _sum_among(tables, clients, clients)
        return [SumBounds(one.name, _least(tables, one), colluding=one.of_run.colluding)]

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        one, signing = (
            _sum_among(tables, called, called),
            signing_colluding(tables, called) if is_signed(tables) else None,
        )
        return [one.opening(called, _least(tables, one), signing)]

    def waits(self, tables: Any) -> int:
        clients = int(tables.data.clients)
        return 2 + _sum_among(tables, clients, clients).waits_among(clients)

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return MASKS_ONCE


def _sum_among(tables: Any, labeled: int, called: int) -> Sum:
    """The sum that `protocol.recovery` names among the clients with labels, `labeled` of those `called` to a group.

    All C colluding clients may be among those with labels. Raises Problem if fewer than two others have labels.
    """
    keys = tables.protocol
    one = sum_among(tables, keys.recovery, labeled, keys.rounds * keys.groups)
    colluding = one.tolerance.of(called).colluding
    if colluding and labeled < colluding + 2:
        problem = f"C = {colluding} of {called} clients may collude with the server, so a sum needs {colluding + 2} "
        problem += f"clients with labels, and {labeled} have some; allowed: a smaller share of colluding clients"
        raise Problem(_KEY, f"{toml(one.name)}: {problem}")
    if labeled == called:
        return one
    corrupt = colluding / labeled
    if one.tolerates_share and corrupt + one.tolerance.dropouts >= 1:
        problem = f"{one.tolerance.dropouts:g} leaves nobody beside the C = {colluding} corrupt clients of {labeled}"
        raise Problem("sum.tolerated_dropouts", f"{problem}; allowed: less than {1 - corrupt:g}")
    tolerance, of_run = replace(one.tolerance, corrupt=corrupt), Assumed(labeled, colluding, 0)
    identities = None if one.identities is None else identities_of(tables, called)
    return replace(one, tolerance=tolerance, of_run=of_run, identities=identities)


def _least(tables: Any, one: Sum) -> int:
    return max(int(tables.protocol.min_clients), one.of_run.fewest)


def _words(tables: Any, among: Among) -> int:
    """The number of words of all blocks: one for each class and row."""
    return among.classes * rows_among(tables, among)
