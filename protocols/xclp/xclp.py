"""XCLP: clients label each other's points over a joint neighbourhood graph, without showing a point or a label.

| steps | paper | protocol |
| --- | --- | --- |
| setup.* | Algorithm 1 line 1 | `setup`: keys, pair channels, the group seed |
| lsh.hash | lines 2-4 | `lsh`: bits of random planes from the group seed |
| hamming.* | line 5 | `hamming`: the server learns H |
| influence.* | lines 6-12 | `influence`: each client gets the influence columns of its labeled points |
| rowsums.* | lines 13-14 | `rowsums`, or another sum (`recovery`): Zbar_j = S_L Y_L (`graph`), over the clients |
| xclp.label | lines 15-16 | label and confidence of each row |

(Scott, Yeo, Lampert: Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning, TMLR.)
Each round is this whole run with fresh keys, planes and masks; a client that was lost may come back for the next.

With a `recipe` that divides class scores by the number of labels of each class (see `recipe`) the rowsums have one row
more for each client, R_i and the class counts: a row of Zbar_j that says how many labels of each class j has. So the
counts are summed over exactly the clients whose labels count, under the same masks, and each client divides its rows.

Security: semi-honest parties, no collusion between server and clients, every client-server link encrypted. Revealed
to the server: H and so the angles between points, approximately; n_j, l_j and which points are labeled. To client j:
who takes part with how many points, which of them are labeled, its columns of S, its rows of Z. From these it learns
which classes the others hold, exactly where the graph is connected; most edges of its labeled points; the other's
scores, where one other client alone has labels (`min_clients` = 2 allows that); and it can guess others' labels better
than by chance (see `influence`). With class counts it learns how many labels of each class there are
altogether; the server does not learn these. Rounds add up: over the same points the server averages H and
knows the angles better with each, and the difference of two rounds with other contributors is close to the scores of
those who were missing; of class counts it is theirs. The parts' docstrings say more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.life import Observed
from tacit.parties.server import Room, RoomsServer, Server
from tacit.protocols import setup
from tacit.protocols.crypto.fixed_point import decode
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.identities import Identities
from tacit.protocols.ledger import release
from tacit.protocols.outcome import Abort, Reason
from tacit.protocols.parts import Step
from tacit.protocols.privacy.randomised import HashFlips
from tacit.protocols.rounds.rounds import NOT_AGAIN, CalledClient
from tacit.protocols.sums.dealing import Survivors
from tacit.protocols.values import values_of
from tacit.protocols.xclp import hamming, influence
from tacit.protocols.xclp.blocks import NO_POINTS, Blocks
from tacit.protocols.xclp.graph import class_counts, contribution
from tacit.protocols.xclp.hamming import Hamming
from tacit.protocols.xclp.label_propagation import label_by
from tacit.protocols.xclp.lsh import hash_bits, hash_work, planes
from tacit.protocols.xclp.recipe import PAPER, Recipe
from tacit.protocols.xclp.rowsums import Candidates, Restart, Scores, SecureRowSums, Summing
from tacit.sim.hollow import filled, hollow
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "HASH",
    "LABEL",
    "LabeledClient",
    "Labels",
    "Parameters",
    "Recording",
    "RoundRecord",
    "XclpClient",
    "XclpServer",
    "client",
]

HASH = Step("client", "lsh.hash", "hash its points to bits with planes from the group seed", "early")
LABEL = Step("client", "xclp.label", "turn its rows of Z into labels and confidences")

_OPENED = "opened xclp"  # on the server's disk: number and virtual time


@dataclass(frozen=True)
class Parameters:
    """The public settings of XCLP.

    `deadline` in virtual seconds bounds every wait of the server; a client waits twice as long. `flip`: the probability
    with which its owner flips each hash bit (`tacit.protocols.privacy.randomised`). `identities`: the keys that sign
    keys and sets, if any. `orthogonal`: the planes are orthogonal (`lsh`). `colluding`: C, how many of the clients that
    a round calls may collude with the server where masks are dealt in shares.
    """

    variant: Hamming
    clients: int
    classes: int
    recovery: SecureRowSums = field(default_factory=Restart)
    bits: int = 1024
    k: int = 10
    alpha: float = 0.99
    recipe: Recipe = PAPER
    rows: str = "unlabeled"
    fraction_bits: int = 32
    min_clients: int = 3
    deadline: float = 60.0
    rounds: int = 1
    flip: float = 0.0
    identities: Identities | None = None
    orthogonal: bool = False
    colluding: int = 0

    @property
    def sums_apart(self) -> bool:
        """True if rows are summed by a secure sum that has a set-up of its own."""
        return bool(getattr(self.recovery, "of", None))

    @property
    def waits(self) -> int:
        """The most deadlines that a round takes: join, one seed and one sum for each client, distances, request."""
        return (1 + self.recovery.waits) * self.clients + 4


@dataclass(frozen=True, eq=False)
class Labels:
    """A client's result for its rows R_j (positions among its own points):

    Z in the ring, the labels (-1: none), and the confidences.
    """

    rows: NDArray[np.int64]
    z: NDArray[np.uint64]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]


def ignore(*_: object, **__: object) -> None:
    """Do nothing: the observer callback of a run without an observer."""


class LabeledClient(CalledClient):
    """A client that runs XCLP in its last round, or in all: `labels` is the last one's result, None if it has none.

    For the observer that compares with the plaintext, `bits_of_round` stores the bits used in the round `hashed_in`,
    `bits_as_hashed` the same bits before flips, and `results` the result of each round.
    """

    labels: Labels | None = None
    bits_of_round: Observed[NDArray[np.bool_] | None] = Observed(lambda: None)
    bits_as_hashed: Observed[NDArray[np.bool_] | None] = Observed(lambda: None)
    hashed_in = Observed(int)
    results = Observed(dict[int, Labels])

    async def run_xclp(self, features: NDArray[np.float64], parameters: Parameters) -> None:
        """Take part in a round of XCLP with `features` (n_j, d) of the points of its shard."""
        number = self.round

        def hashed(bits: hamming.Bits, as_hashed: hamming.Bits) -> None:
            self.bits_of_round, self.bits_as_hashed, self.hashed_in = bits, as_hashed, number

        found = self.results[number] = await client(self, features, parameters, hashed)
        if number == self.last_round:
            self.labels = found


class XclpClient(LabeledClient):
    """A client of XCLP. After a dismissal, or a round without messages from the server, it joins the next round."""

    call = setup.RoundStart
    between = "no next round was announced"
    late = "its last round's end was not received"

    def __init__(self, world: World, name: str, shard: Shard, parameters: Parameters, **access: Any) -> None:
        patience = parameters.rounds * parameters.waits * parameters.deadline
        super().__init__(world, name, shard, patience, parameters.rounds, **access)
        self.parameters, self.by_round = parameters, parameters.sums_apart
        self.ending = "never took part"  # in this incarnation

    def is_allowed(self, call: setup.RoundStart) -> bool:
        # Else it may open the set-up of a sum, whose round has begun without this client.
        return not (self.attempt and self.parameters.sums_apart)

    async def take_part(self, call: setup.RoundStart) -> None:
        grace = self.parameters.deadline / 4  # datagrams that the next call overtook may still come
        await self.unless_over(self.run_xclp(self.shard.features, self.parameters), grace)


async def client(
    me: Client,
    features: NDArray[np.float64],
    settings: Parameters,
    hashed: Callable[[NDArray[np.bool_], NDArray[np.bool_]], None] = ignore,
) -> Labels:
    """Take part in a round that the server opens, with `features` (n_j, d) of the points of its shard.

    `hashed` is called with the bits used, and with the same bits before flips.
    """
    group, keys = await setup.client(me, settings.deadline, settings.variant, settings.identities)
    with me.step("lsh.hash"):
        flips = HashFlips(me.world.lasting(me.name, "hashes"), settings.flip, me.shard.rows) if settings.flip else None
        if flips is not None:
            release(me, "hashes", group.seed + features.astype("<f8").tobytes())
        given = len(features), features.shape[1], settings.bits
        work = hash_work(*given, flipped=flips is not None, orthogonal=settings.orthogonal)
        drawn = group.seed, settings.bits, settings.orthogonal
        as_hashed, bits = await me.compute(work, _hash, features, drawn, flips)
        hashed(bits, as_hashed)
    answering = hamming.client(me, group, settings.variant, keys, bits, settings.deadline)
    names = await me.drawing(settings.variant, answering)
    members = group.without(tuple(name for name in group.names if name not in names))
    view = await influence.client(me, members, settings.rows, settings.deadline)
    own = me.shard.labels[me.shard.labeled]
    work = {"ring.add": view.columns.size}
    zbar = await me.compute(work, contribution, view.columns, own, settings.classes)
    view = replace(view, columns=view.columns[:0].copy())  # they are the largest that a client holds, and done with
    least = Least(settings.min_clients, view.labeled, settings.colluding)
    scores = Scores(zbar, view.rows, group.secrets, settings.fraction_bits, least, group.identities)
    if settings.recipe.class_balanced:
        scores = _with_counts(scores, class_counts(own, settings.classes))
    summed = await me.drawing(settings.recovery, settings.recovery.client(me, scores, settings.deadline))
    with me.step("xclp.label"):
        z, counts = _without_counts(me, summed, len(view.rows[me.name]), settings.fraction_bits)
        values = decode(z, settings.fraction_bits)
        labels, confidence = await me.compute({"ring.add": summed.size}, label_by, settings.recipe, values, counts)
    start = sum(group.points[name] for name in names[: names.index(me.name)])
    return Labels(view.rows[me.name] - start, z, labels, confidence)


def _with_counts(scores: Scores, counts: NDArray[np.float64]) -> Scores:
    """Add the class `counts` (C,) to `scores` as one more row, which every client gets."""
    row = len(scores.zbar)
    rows = {name: np.append(own, row) for name, own in scores.rows.items()}
    return replace(scores, zbar=np.vstack([scores.zbar, counts]), rows=rows)


def _without_counts(me: Client, summed: Ring, rows: int, fraction_bits: int) -> tuple[Ring, NDArray[np.float64]]:
    """Decode Z on the client's `rows`, and the class counts (C,) in the row after them, zeros if there is none."""
    counts = decode(summed[rows:], fraction_bits).sum(axis=0)
    with values_of(me, me.server, "SummedRows"):
        if (counts < 0).any() or (counts % 1 != 0).any():
            raise ValueError("class counts that are no whole numbers, or below 0")
    return summed[:rows], counts


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """The record of one round at the server, from the virtual time `began`.

    `called`: the clients of the group, () for all. `joined` is P, `members` Q, `h` in their order, `contributors` the
    clients whose labels count, as last announced. `finished`: all sums were sent.
    """

    number: int
    began: float
    called: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    h: Blocks = NO_POINTS
    contributors: tuple[str, ...] = ()
    finished: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        """The clients whose labels are in the sums."""
        return self.contributors if self.finished else ()

    def is_among(self, name: str) -> bool:
        """Return true if the party is a client in the group of the round, or the server."""
        return not self.called or name in self.called or name == "server"


class Recording(Server):
    """A server that keeps the `record` of the latest round of XCLP; `aborted` is the reason for an early end, ""
    without one."""

    record = RoundRecord(0, 0.0)
    aborted = ""
    called: tuple[str, ...] = ()

    @property
    def parts(self) -> Sequence["Recording"]:
        """The server's part in each group of clients; one part without groups."""
        return [self]

    def broadcast(self, parties: Iterable[str], message: Message) -> None:
        if isinstance(message, setup.RoundStart):
            self.disk[_OPENED] = self.record.number, self.record.began
        if isinstance(message, Summing | Survivors):
            self._note(contributors=tuple(message.names))
        super().broadcast(parties, message)

    def begin_record(self, number: int) -> None:
        """Begin the record of round `number`."""
        self.record = RoundRecord(number, self.world.loop.time(), self.called)
        if number > 1:  # the first has begun once anybody is called
            self.disk[_OPENED] = number, self.record.began

    async def hold_xclp(self, clients: Sequence[str], settings: Parameters) -> None:
        """Run the round in the record. Raises Abort."""
        try:
            await server(self, clients, self.record.number, settings, self._note)
        except Abort as abort:
            self.aborted = abort.reason
            raise

    def _note(self, **found: Any) -> None:
        self.record = replace(self.record, **found)


class XclpServer(Recording, RoomsServer):
    """Reports the record of each round that it ends; none follows an abort. The `groups` run in parallel."""

    group_parts: Observed[list["_Group"]] = Observed(list["_Group"])

    def __init__(
        self,
        world: World,
        clients: tuple[str, ...],
        parameters: Parameters,
        groups: Sequence[tuple[str, ...]] = (),
        **access: Any,
    ) -> None:
        super().__init__(world, clients, **access)
        self.parameters, self.groups = parameters, groups or [clients]

    @property
    def parts(self) -> Sequence[Recording]:
        return self.group_parts or [self]

    async def main(self) -> None:
        number, began = self.disk.get(_OPENED, (0, 0.0))
        if number:
            self.group_parts, self.record, self.aborted = [], RoundRecord(number, began), NOT_AGAIN
            self.advance(self.parameters.rounds + 1, 0)  # to whatever attempt clients are at, it is not late
            self.report(self.record)
            self.dismiss(self.clients, NOT_AGAIN, aborted=True)
            return
        if len(self.groups) == 1:
            await _hold_rounds(self, self.parameters)
            return
        rooms = self.group_parts = [_Group(self, group) for group in self.groups]
        self.open_rooms(rooms)
        await self.together(*(_hold_rounds(room, self.parameters) for room in rooms))
        if all(room.aborted for room in rooms):
            self.aborted = Reason.joined([room.aborted for room in rooms])


class _Group(Room, Recording):
    """The server's part in a group."""

    def __init__(self, main: XclpServer, clients: tuple[str, ...]) -> None:
        super().__init__(main, clients)
        self.called = clients


async def _hold_rounds(me: Recording, parameters: Parameters) -> None:
    """Run all rounds among the clients of `me`, unless one is aborted."""
    for number in range(1, parameters.rounds + 1):
        if me.presence is not None:
            await me.presence.wait_for(parameters.min_clients, parameters.deadline)
        me.begin_record(number)
        here = {*me.present}
        try:
            await me.hold_xclp(tuple(name for name in me.clients if name in here), parameters)
        except Abort:
            me.report(me.record)
            me.dismiss(me.clients, me.aborted, aborted=True)
            return
        me.report(me.record)


async def server(
    me: Server, clients: Sequence[str], number: int, settings: Parameters, note: Callable[..., None] = ignore
) -> None:
    """Run round `number` among `clients`. Raises Abort. `note` is called with the results as keyword arguments."""
    group = await setup.server(
        me, clients, number, settings.min_clients, settings.deadline, settings.variant, settings.identities
    )
    note(joined=group.names)
    gathering = hamming.server(me, group, settings.variant, settings.bits, settings.min_clients, settings.deadline)
    members, h = await me.drawing(settings.variant, gathering)
    note(members=members.names, h=h)
    labeled = await influence.server(
        me,
        members,
        h,
        settings.bits,
        settings.k,
        settings.alpha,
        settings.min_clients,
        settings.deadline,
        settings.recipe.edge_power,
        settings.flip,
    )
    hidden = labeled if settings.rows == "unlabeled" else dict.fromkeys(labeled, 0)
    rows = {name: members.points[name] - hidden[name] + settings.recipe.class_balanced for name in labeled}
    joined = len(group.names)
    limits = settings.min_clients, group.identities, joined, settings.colluding
    candidates = Candidates(labeled, rows, settings.classes, *limits)
    contributors = await me.drawing(settings.recovery, settings.recovery.server(me, candidates, settings.deadline))
    note(contributors=contributors, finished=True)


def _hollow_hash(features: NDArray[np.float64], drawn: tuple[bytes, int, bool], flips: HashFlips | None) -> Any:
    bits = filled((len(features), drawn[1]), np.bool_)
    return bits, bits


@hollow(_hollow_hash)
def _hash(
    features: NDArray[np.float64], drawn: tuple[bytes, int, bool], flips: HashFlips | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Hash by the planes `drawn` from (seed, number, orthogonal).

    Returns the hash bits, and those with flips for use.
    """
    seed, bits, orthogonal = drawn
    found = hash_bits(features, planes(seed, bits, features.shape[1], orthogonal=orthogonal))
    return found, found if flips is None else flips.flipped(found, seed, features)
