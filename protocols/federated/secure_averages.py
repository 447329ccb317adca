"""Averages of models by other secure sums: coded masks, reports of Prio3, a committee, and Flamingo.

`averaging` says what travels, what the server learns, and under which assumptions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.learning.vectors import decode
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.assumed import Assumed, NotCarried
from tacit.protocols.crypto.coded_masks import PIECE_BITS
from tacit.protocols.crypto.mersenne import GF31, GF61
from tacit.protocols.crypto.packed_shamir import field_for
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.crypto.shamir import PRIME
from tacit.protocols.crypto.vdaf import FIELD64
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.experiment.parts import Dealt
from tacit.protocols.federated.averaging import (
    QUANTISING,
    Averages,
    AveragingInGraph,
    Expected,
    PlainAveraging,
    Secure,
    SecureAveraging,
    Update,
    cohorts_of,
    colluding_of,
    drawn_notes,
    spare_neighbours,
    tolerance_of,
    written,
)
from tacit.protocols.identities import KEY_BYTES, is_signed
from tacit.protocols.outcome import Withdrawn
from tacit.protocols.parts import Opening, SumBounds
from tacit.protocols.sums import committee, decryptors, flamingo, lightsecagg, members, reports, secure_sum
from tacit.protocols.sums.batch import Task
from tacit.sim.hollow import HollowArray, blank

__all__ = [
    "ByCommittee", "Flamingo", "LightSecAgg", "Proved", "coding_of", "committee_of", "decryptors_of", "out_of_range",
    "ways",
]  # fmt: skip


@dataclass(frozen=True)
class _Signing(Secure):
    """A secure sum whose clients sign sets: with `identities`, or with keys that each of them makes for the round."""

    @property
    def _contribution_of_keys(self) -> setup.Contribution:
        return setup.NoContribution() if self.identities is not None else members.SigningKeys()

    async def _joined(self, me: Client, deadline: float, called: int) -> setup.Group:
        group, keys = await setup.client(me, deadline, self._contribution_of_keys, self.identities)
        return group if self.identities is not None else members.with_keys(group, {me.name: keys.private})

    async def _present(self, me: Server, names: Sequence[str], least: int, deadline: float, called: int) -> setup.Group:
        contribution = self._contribution_of_keys
        group = await setup.server(me, names, me.round, self.fewest(least), deadline, contribution, self.identities)
        return group if self.identities is not None else members.with_keys(group, {})


@dataclass(frozen=True)
class LightSecAgg(_Signing):
    """A secure sum with coded masks, whose opening takes the same time for any losses; it needs `quantised`.

    `tolerated` and `corrupt`: the shares of a cohort that may be lost, and that may collude with the server.
    """

    tolerated: float = 0.1
    corrupt: float = 0.1
    name: ClassVar[str] = "lightsecagg"
    requests: ClassVar[secure_sum.Requests | None] = lightsecagg.REQUESTS
    copies: ClassVar[int] = 12  # as trained, and in numbers of 8 bytes: quantised, mask, pieces, masked

    @property
    def word_bits(self) -> int:
        return PIECE_BITS

    @property
    def modulus(self) -> int:
        return PRIME

    def waits(self, clients: int) -> int:
        return 2 * clients + 6

    def _coded(self, settings: secure_sum.Settings) -> lightsecagg.CodedSettings:
        assumed = Assumed.of(settings.called, self.corrupt, self.tolerated)
        return lightsecagg.CodedSettings(settings.dimension, assumed, settings.min_clients, settings.deadline)

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await lightsecagg.client(me, vector, group, self._coded(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await lightsecagg.server(me, group, self._coded(settings))


@dataclass(frozen=True)
class Proved(Secure):
    """A sum of reports whose numbers are proved to be in range, with a second aggregator; it needs `quantised`.

    All models weigh 1. A client that has not trained sends a report without content.
    """

    name: ClassVar[str] = "prio3"
    checks_ranges: ClassVar[bool] = True
    requests: ClassVar[secure_sum.Requests | None] = None
    copies: ClassVar[int] = 80  # as trained, and in shares of 8 bytes a bit, sent and received, with values of 16 bits

    def waits(self, clients: int) -> int:
        return reports.WAITS

    def dimension(self, expected: Expected) -> int:
        """The numbers of a report: those of the vectors, then the loss."""
        return super().dimension(expected) - _COUNTS

    def task(self, expected: Expected) -> Task:
        """The task of the reports. Raises ValueError where the numbers are not quantised."""
        if self.quantised is None:
            raise ValueError("reports are of integers: quantised is needed.")
        return Task("integers", (self.dimension(expected), self.quantised.largest))

    async def client(
        self, me: Any, update: Update, expected: Expected, least: int, deadline: float, called: int
    ) -> None:
        measurement, added = None, None
        if update.weight > 0:
            whole = self._contribution(me, replace(update, weight=1, in_range=True), expected)
            end = expected.numbers
            measurement = np.concatenate([whole[:end], whole[end + _COUNTS :]])
            if not update.in_range:
                added = self._added(me, decode(update.vectors[0], expected.layouts[0]), measurement)
        await reports.client(
            me, self.task(expected), measurement, deadline, basis=me.basis, added=added, identities=self.identities
        )

    def _added(self, me: Any, numbers: NDArray[np.floating], measurement: NDArray[Any]) -> NDArray[np.uint64] | None:
        """The vector that a Byzantine client adds to its share (`out_of_range`). In a hollow run it is any."""
        if me.world.hollow is not None:
            return np.ones(1, np.uint64)
        assert self.quantised is not None
        return out_of_range(self.quantised, numbers, measurement)

    async def server(
        self,
        me: Any,
        members: Sequence[str],
        expected: Expected,
        least: int,
        deadline: float,
        enough: int,
        called: int,
    ) -> Averages:
        task, fewest = self.task(expected), self.fewest(least)
        signed = self.identities is not None
        tally = await reports.server(me, members, task, fewest, deadline, basis=me.basis, signed=signed)
        if isinstance(tally.counts, HollowArray):
            return Averages(tally.contributors, tuple(map(blank, expected.sizes)), 0.0)
        count, end = len(tally.contributors), expected.numbers
        ring = tally.counts.astype(np.uint64)
        counts = np.full(_COUNTS, count, np.uint64)
        whole = secure_sum.Total(tally.contributors, np.concatenate([ring[:end], counts, ring[end:]]), 0)
        means, _, loss = self._opened(whole, expected)
        return Averages(tally.contributors, written(me, means, expected), loss)


def out_of_range(
    quantised: Quantised, values: NDArray[np.floating], measurement: NDArray[np.uint64]
) -> NDArray[np.uint64] | None:
    """The elements by which a report of `values` differs from that of a `measurement`, which has them clipped, first.

    None where no number is out of range: then they are the same.
    """
    wanted, clipped = quantised.unclipped(values, 1 << 62), measurement[: len(values)].astype(np.int64)
    more = np.zeros((len(measurement), quantised.bits), np.int64)
    more[: len(values), 0] = wanted - clipped  # the element of weight 1
    elements = more.reshape(-1)
    wrapped = elements.astype(np.uint64) + np.uint64(FIELD64.modulus) * (elements < 0)  # modulo 2^64
    return wrapped if elements.any() else None


_COUNTS = 2
"""The words of a sum that hold weight and 1, which a report lacks."""


@dataclass(frozen=True)
class ByCommittee(_Signing):
    """A secure sum by a committee of members, with one upload a client; it needs `quantised`.

    `tolerated` and `corrupt`: the shares of a cohort that may be lost, and that may collude with the server. The draw
    of the members, new in each of up to `draws` rounds, fails for these with a probability of 2^-exponent at most.
    """

    tolerated: float = 0.1
    corrupt: float = 0.1
    exponent: int = 40
    draws: int = 1
    name: ClassVar[str] = "committee"
    requests: ClassVar[secure_sum.Requests | None] = committee.REQUESTS
    copies: ClassVar[int] = 16  # as trained, and in numbers of 8 bytes: quantised, seeds, shares, those held of others

    @property
    def word_bits(self) -> int:
        if self.quantised is None:
            return WHOLE
        field = field_for(self.quantised.terms * self.quantised.weight * self.quantised.largest)
        return field.bits if field is GF31 else WHOLE

    @property
    def modulus(self) -> int:
        return (GF31 if self.word_bits == GF31.bits else GF61).prime

    def waits(self, clients: int) -> int:
        return 2 * clients + 10

    def _of_members(self, settings: secure_sum.Settings) -> committee.CommitteeSettings:
        field = GF31 if settings.word_bits == GF31.bits else GF61
        assumed = Assumed.of(settings.called, self.corrupt, self.tolerated)
        draws, limits = (self.exponent, self.draws), (settings.min_clients, settings.deadline)
        return committee.CommitteeSettings(settings.dimension, field, assumed, *draws, *limits)

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await committee.client(me, vector, group, self._of_members(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await committee.server(me, group, self._of_members(settings))


@dataclass(frozen=True)
class Flamingo(Secure):
    """A secure sum with one message a client, whose keys serve many rounds, and which decryptors open.

    `chosen`: the number of these, where it does not follow from `tolerance`; after `renewal` rounds others are drawn.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    chosen: int | None = None
    renewal: int = 10
    name: ClassVar[str] = "flamingo"
    requests: ClassVar[secure_sum.Requests | None] = flamingo.REQUESTS

    def waits(self, clients: int) -> int:
        return 2 * clients + 14

    def _count(self, called: int) -> Callable[[int], int]:
        """The number of decryptors among clients that joined, of those `called`. Raises ValueError, as sums do."""

        def count(joined: int) -> int:
            degree_of(joined, self.tolerance, called)
            return decryptors.Decryptors.of(joined, self.chosen, self.tolerance, called).count

        return count

    def spare(self, clients: int, called: int) -> int | None:
        try:
            deciding = decryptors.Decryptors.of(clients, self.chosen, self.tolerance, called)
        except NotCarried:  # such a round is lost
            return 0
        few = [deciding.count - deciding.quorum] if deciding.count < clients else []
        near = spare_neighbours(clients, called, self.tolerance)
        return min([*few, *([] if near is None else [near])], default=None)

    def _of_rounds(self, settings: secure_sum.Settings) -> flamingo.FlamingoSettings:
        limits = settings.min_clients, settings.deadline
        words, called = (settings.dimension, settings.word_bits), settings.called
        return flamingo.FlamingoSettings(*words, self.tolerance, called, *limits, self.identities, self.fraction_bits)

    async def _joined(self, me: Client, deadline: float, called: int) -> setup.Group:
        ring = await decryptors.join(me, self._count(called), deadline, self.identities)
        if ring is None:
            raise Withdrawn("its keys are not those of the sum, or too few clients joined")
        return setup.Group(ring.names, {}, {})

    async def _present(self, me: Server, names: Sequence[str], least: int, deadline: float, called: int) -> setup.Group:
        limits = self._count(called), self.renewal, self.fewest(least), deadline
        ring = await decryptors.prepare(me, names, *limits, self.identities)
        return setup.Group(ring.stored, {}, {})

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await flamingo.client(me, vector, self._of_rounds(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await flamingo.server(me, group.names, self._of_rounds(settings))


_WITH_SIGNING_KEYS = setup.SetUp(contribution=lambda tables: 0 if is_signed(tables) else KEY_BYTES, identities=True)
"""The set-up of a sum whose clients sign; without long-term identities each publishes a key for the round."""


def _assumed_of(tables: Any, called: int) -> Assumed:
    return Assumed.of(called, tables.training.corrupt_clients, tables.training.tolerated_dropouts)


def coding_of(tables: Any, clients: int) -> lightsecagg.Coding:
    """U and T of a sum with coded masks among the `clients` of a round. Raises ValueError if there are too few."""
    return lightsecagg.Coding.among(clients, _assumed_of(tables, clients))


@dataclass(frozen=True)
class CodedAveraging(SecureAveraging):
    """`LightSecAgg` as a part of a round of training."""

    takes = (_WITH_SIGNING_KEYS, lightsecagg.CodedSumOfVectors(coding_of))
    uses = ("protocol.identity", *QUANTISING)
    kind = "lightsecagg"
    tolerates_share = True

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        least, assumed = self.least(tables, called), _assumed_of(tables, called)

        def coding(joined: int) -> lightsecagg.Coding:
            return lightsecagg.Coding.among(joined, assumed)

        return [Opening(least, coding, lambda joined, left: float(left >= max(least, coding(joined).needed)))]

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line with q, U and T of the rounds, and the number of losses that they tolerate."""
        held = shards()
        return [
            f"{LightSecAgg.name}: of {many} clients {one.quorum} must sign who is in the sum and {one.needed} answer, "
            f"so {one.tolerated} may be lost; {one.private} may collude with the server"
            for many in cohorts_of(tables, held)
            for one in [coding_of(tables, many)]
        ] + drawn_notes(tables, held)


def _task_of(tables: Any, among: Any) -> Task:
    task: Task = among.settings.averaging.task(among.settings.expected)
    return task


@dataclass(frozen=True)
class ProvedAveraging(SecureAveraging):
    """`Proved` as a part of a round of training, whose formula asks for its settings (`round.Called`)."""

    takes = (reports.Reports(_task_of, based=True, signs=True),)
    uses = ("protocol.identity", "protocol.corrupt_clients", *QUANTISING[:2])
    weighs = False
    learned: ClassVar[Mapping[str, str]] = {"helper": f"with prio3 averages: {reports.HELPER_LEARNS}"}

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return []  # it has no miniature in which a server lies

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        least = self.least(tables, called)
        return [Opening(least, opens=lambda joined, left: float(left >= least), masks=False)]

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line with the fewest reports of a sum where C decides it."""
        return [
            f"{Proved.name}: {many} clients, of which {colluding} may collude with the server: a sum is released over "
            f"{colluding + 2} reports or more"
            for many in cohorts_of(tables, shards())
            if (colluding := colluding_of(tables, many)) and colluding + 2 > tables.training.fewest()
        ]


def committee_of(tables: Any, clients: int) -> committee.Committee:
    """Return the committee of a sum among the `clients` of a round. Raises ValueError where there are too few."""
    keys = tables.training
    return committee.Committee.among(clients, _assumed_of(tables, clients), keys.failure_exponent, keys.rounds)


@dataclass(frozen=True)
class CommitteeAveraging(SecureAveraging):
    """`ByCommittee` as a part of a round of training."""

    takes = (_WITH_SIGNING_KEYS, committee.SumByCommittee(committee_of))
    uses = ("protocol.identity", *QUANTISING)
    kind = "committee"
    tolerates_share = True

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """The members are drawn of those that joined, so how many of them are lost is hypergeometric."""
        least, assumed, keys = self.least(tables, called), _assumed_of(tables, called), tables.training

        def among(joined: int) -> committee.Committee:
            return committee.Committee.among(joined, assumed, keys.failure_exponent, keys.rounds)

        def opens(joined: int, left: int) -> float:
            return among(joined).left_to_open(left) if left >= least else 0.0

        return [Opening(least, among, opens)]

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line on the committees of the rounds, and the number of lost members that they tolerate."""
        held = shards()
        lines = [f"{ByCommittee.name}: {committee_of(tables, many)}" for many in cohorts_of(tables, held)]
        return lines + drawn_notes(tables, held)


def decryptors_of(tables: Any, clients: int) -> decryptors.Decryptors:
    """Return the decryptors of a sum among the `clients` of a round. Raises ValueError if they cannot carry C."""
    return decryptors.Decryptors.of(clients, tables.training.decryptors, tolerance_of(tables), clients)


def schedule_of(tables: Any, among: Any) -> tuple[bool, bool]:
    """Return if keys are fresh in the round, and if new decryptors are drawn, with nobody lost."""
    fresh, since = True, 0
    cohorts = (*among.history, among.names)
    for number, names in enumerate(cohorts):
        fresh = not number or frozenset(names) != frozenset(cohorts[number - 1])
        drawn = fresh or number - since >= tables.training.decryptor_rounds
        since = number if drawn else since
    return fresh, drawn


_MANY = 100
"""The most decryptors without a caution."""


@dataclass(frozen=True)
class FlamingoAveraging(SecureAveraging):
    """`Flamingo` as a part of a round of training."""

    takes = (
        decryptors.KeysOfRounds(decryptors_of, schedule_of, _WITH_SIGNING_KEYS),
        flamingo.SumOfRounds(decryptors_of, tolerance_of),
    )
    uses = ("protocol.identity", *QUANTISING, "training.decryptors", "training.decryptor_rounds")
    kind = "flamingo"
    tolerates_share = True

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """Where clients are lost from masking on, the decryptors and neighbours among them decide."""
        tolerance, chosen = tolerance_of(tables), tables.training.decryptors

        def carries(joined: int) -> None:
            degree_of(joined, tolerance, called)
            decryptors.Decryptors.of(joined, chosen, tolerance, called)

        least = self.least(tables, called)
        drawn = partial(flamingo.drawn_sums, called, chosen, tolerance, least)
        return [Opening(least, carries, drawn=drawn)]

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """The decryptors and graphs of the rounds, and how many of them each withstands the loss of."""
        held = shards()
        return [
            f"{Flamingo.name}: {decryptors_of(tables, many)}; {degree_of(many, tolerance_of(tables), many)}"
            for many in cohorts_of(tables, held)
        ] + drawn_notes(tables, held)

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        """Lines where each round draws other clients, or there are many decryptors, and those of all sums."""
        keys, found = tables.training, super().cautions(tables, dealt)
        if keys.share != 1:
            what = "keys are fresh in a round to which clients are called that have none"
            found.append(f'training.share(={keys.share:g}) with training.averaging = "{Flamingo.name}": {what}')
        found += [
            f"training.tolerated_dropouts(={keys.tolerated_dropouts:g}) and training.corrupt_clients("
            f"={keys.corrupt_clients:g}): {count} of {many} clients are decryptors, and bytes of keys grow "
            "with the third power of their number; lower these keys or training.failure_exponent"
            for many in cohorts_of(tables, dealt().shards)
            if keys.decryptors is None and (count := decryptors_of(tables, many).count) > _MANY
        ]
        return found


def ways(private: bool = False) -> dict[str, PlainAveraging | SecureAveraging]:
    """The values of `training.averaging` as parts of a round. `private`: as in `SecureAveraging`."""
    return {
        "plain": PlainAveraging(),
        "secure": SecureAveraging(private),
        "secagg+": AveragingInGraph(private),
        "lightsecagg": CodedAveraging(private),
        "prio3": ProvedAveraging(private),
        "committee": CommitteeAveraging(private),
        "flamingo": FlamingoAveraging(private),
    }
