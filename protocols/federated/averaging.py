"""How a round's models come together: sent as they are, or summed so that the server sees the average alone.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.update | LocalModel | client -> server | 4 P, the additions' and 16 | `Plain`: model, weight and loss |
| setup.*, sum.* | those of `setup` and `secure_sum` | | | `Secure`: fresh keys, then a secure sum |
| sum.* | those of `secure_sum`, keys by `neighbours` | | | `SecAggPlus`: a secure sum in a graph |
| setup.*, sum.* | those of `decryptors` and `flamingo` | | | `Flamingo`: keys for many rounds, one message a client |
| setup.*, sum.* | those of `setup` and `lightsecagg` | | | `LightSecAgg`: fresh keys, then a sum with coded masks |
| setup.*, sum.* | those of `setup` and `committee` | | | `ByCommittee`: fresh keys, then a sum by a committee |

P numbers of a model, float32. A model weighs 1, or the points that it was trained on; of an addition's vectors some are
averaged with these weights, some all alike. `Secure` sums in fixed point w x for each vector, then w, 1 and the loss of
each client, so an average is exact to 2^-32. With `training.value_bits` = v it sums integers of v bits in words that
are just wide enough (`crypto.words`): w q for each vector, where q is x clipped to [-c, c]; then w, 1, and the loss in
several words of v bits each.

Papers: McMahan et al., AISTATS 2017, Algorithm 1, line 8; Bonawitz et al., CCS 2017; Bell et al., CCS 2020 (SecAgg+);
So et al., MLSys 2022 (LightSecAgg); Franklin and Yung, STOC 1992 (packed sharing, for `ByCommittee`).

Security: with `Plain` the server sees each client's model; with the others their average, mean loss, number and sum of
weights, and who took part (`secure_sum` and `neighbours` say under which assumptions). Rounds that begin with the same
model give nearly the same models again (to 10^-6 where a batch holds all points), so two averages over different
clients would differ by one client's model. A run therefore ends with a lost round in which a client may have sent
masked values, and a client masks for no model a second time, whatever happens in between (`rounds`,
`refusal.may_answer`). A server that lies may call with a model that differs by a little; only noise hides what two such
averages show (`dp_fedavg`).
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.learning.vectors import average, decode, encode
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.coded_masks import PIECE_BITS
from tacit.protocols.crypto.mersenne import GF31, GF61
from tacit.protocols.crypto.packed_shamir import field_for
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.identities import KEY_BYTES, Identities, is_signed
from tacit.protocols.outcome import Withdrawn, require
from tacit.protocols.parts import Part, SumBounds, Taken
from tacit.protocols.sums import committee, decryptors, flamingo, lightsecagg, members, neighbours, quorum, secure_sum
from tacit.protocols.sums.refusal import refuse
from tacit.protocols.values import understood
from tacit.sim.hollow import HollowArray, blank, hollow
from tacit.sim.wire import Message

__all__ = [
    "ENOUGH",
    "FIGURES_BYTES",
    "Averages",
    "Averaging",
    "AveragingInGraph",
    "ByCommittee",
    "CodedAveraging",
    "CommitteeAveraging",
    "Expected",
    "Flamingo",
    "FlamingoAveraging",
    "LightSecAgg",
    "Plain",
    "PlainAveraging",
    "SecAggPlus",
    "Secure",
    "SecureAveraging",
    "Update",
    "average_work",
    "decryptors_of",
    "fewest_hidden",
    "figures_of",
    "tolerance_of",
    "update_in",
    "ways",
]


_FIGURES = struct.Struct("<2d")

FIGURES_BYTES = _FIGURES.size
"""Length of the weight and loss in a LocalModel."""

_LOSS_BITS, _LOSS_RANGE = 20, 1 << 15
"""A loss that is summed with quantised values: its bits after the point, and the magnitude to which it is clipped."""

_LOSS_LENGTH = (2 * _LOSS_RANGE << _LOSS_BITS).bit_length()

ENOUGH = "the round is over: enough models were received before yours"
"""The reason for which a client is dismissed from a round that called more than it needs."""


class LocalModel(Message):
    """`figures`: weight and loss, float64. A secure sum has them among its numbers, so they are payload here, too."""

    model: bytes
    additions: list[bytes]
    figures: bytes


@dataclass(frozen=True)
class Update:
    """A client's result of a round. `weight` 0: it had nothing to train on."""

    vectors: tuple[bytes, ...] = field(repr=False)
    weight: float
    loss: float


@dataclass(frozen=True)
class Expected:
    """The bytes of each vector, the model first, and whether it is averaged with the models' weights."""

    sizes: tuple[int, ...]
    weighted: tuple[bool, ...]


def update_in(sent: LocalModel, expected: Expected) -> Update:
    """Return the update that a client sent. Raises ValueError where it is invalid."""
    vectors = (sent.model, *sent.additions)
    if tuple(map(len, vectors)) != expected.sizes:
        raise ValueError(f"vectors of {[len(v) for v in vectors]} bytes, not {list(expected.sizes)}")
    if len(sent.figures) != FIGURES_BYTES:
        raise ValueError(f"weight and loss of {len(sent.figures)} bytes, not {FIGURES_BYTES}")
    weight, loss = _FIGURES.unpack(sent.figures)
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"weight(={weight}) must be >= 0")
    if not all(np.isfinite(decode(vector)).all() for vector in vectors):
        raise ValueError("a model with numbers that are infinite or not a number, as where training diverges")
    return Update(vectors, weight, loss)


def figures_of(update: Update) -> bytes:
    """Weight and loss, as a LocalModel has them."""
    return _FIGURES.pack(update.weight, update.loss)


@dataclass(frozen=True)
class Averages:
    """The mean of each vector over the `clients` that had trained, and of their losses.

    `sent` holds each one's vectors where the server sees them.
    """

    clients: tuple[str, ...]
    means: tuple[bytes, ...] = field(repr=False)
    loss: float = math.nan
    sent: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)


class Averaging(Protocol):
    """One way to average. `individual`: the server sees each client's vectors.

    `copies` of them are held of each client in a round.
    """

    name: ClassVar[str]
    individual: ClassVar[bool]
    copies: ClassVar[int]

    def waits(self, clients: int) -> int:
        """For how many deadlines of the server it takes at most, with this number of clients."""

    def fewest(self, min_clients: int) -> int:
        """The fewest clients of which an average is made, where a round needs `min_clients`."""

    async def client(self, me: Client, update: Update, expected: Expected, least: int, deadline: float) -> None:
        """Contribute `update`, to an average of at least `fewest(least)` where the server does not see it."""

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        """The rest of `client` where it rests before its end, when the server has the average."""

    async def server(
        self, me: Server, members: Sequence[str], expected: Expected, least: int, deadline: float, enough: int
    ) -> Averages:
        """Average over `members`, or those of them that live. Raises Abort where fewer than `least` had trained.

        With `enough` of them, where that is fewer than `members`, the others are not waited for; only where each sends
        its model by itself (`individual`).
        """


@dataclass(frozen=True)
class Plain:
    """The server averages the models that come."""

    name: ClassVar[str] = "plain"
    individual: ClassVar[bool] = True
    copies: ClassVar[int] = 3  # as trained, as a message, and as read

    def waits(self, clients: int) -> int:
        return 1

    def fewest(self, min_clients: int) -> int:
        return min_clients

    async def client(self, me: Client, update: Update, expected: Expected, least: int, deadline: float) -> None:
        model, *additions = update.vectors
        me.send(me.server, LocalModel(model, additions, figures_of(update)))

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        pass

    async def server(
        self, me: Server, members: Sequence[str], expected: Expected, least: int, deadline: float, enough: int
    ) -> Averages:
        updates = await self._first(me, members, expected, enough, deadline)
        missing = [name for name in members if name not in updates]
        if len(updates) < enough:
            me.lose(missing, "its model never came: left out of this round's average")
            me.dismiss(missing, f"your model did not come within {deadline:g} s")
        else:
            me.dismiss(missing, ENOUGH)
        trained = {name: update for name, update in updates.items() if update.weight > 0}
        require(len(trained), "clients with trained models", least)
        weights = [update.weight for update in trained.values()]
        work = average_work(len(trained), expected)
        columns = list(zip(*(update.vectors for update in trained.values()), strict=True))
        means = await me.compute(work, _means, columns, weights, expected.weighted)
        loss = float(np.mean([update.loss for update in trained.values()]))
        return Averages(tuple(trained), means, loss, {name: update.vectors for name, update in trained.items()})

    @staticmethod
    async def _first(
        me: Server, members: Sequence[str], expected: Expected, enough: int, deadline: float
    ) -> dict[str, Update]:
        """The first `enough` updates that are valid, in the order of `members`."""
        found: dict[str, Update] = {}
        left, end = tuple(members), me.world.loop.time() + deadline
        while len(found) < enough and left and (seconds := end - me.world.loop.time()) > 0:
            sent = await me.collect(LocalModel, left, deadline=seconds, quorum=enough - len(found))
            found |= understood(me, sent.answers, lambda name, answer: update_in(answer, expected))
            left = sent.missing
            if me.are_gone(dict.fromkeys(left)):
                break
        return {name: found[name] for name in members if name in found}


def average_work(models: int, expected: Expected) -> dict[str, int]:
    """Operations of the means of the vectors of a number of clients."""
    return {"vector.add": models * sum(expected.sizes) // 4}


@hollow(lambda columns, weights, weighted: tuple(blank(len(column[0])) for column in columns))
def _means(columns: list[tuple[bytes, ...]], weights: list[float], weighted: tuple[bool, ...]) -> tuple[bytes, ...]:
    return tuple(
        average(column, weights if by_weight else None) for column, by_weight in zip(columns, weighted, strict=True)
    )


@dataclass(frozen=True)
class Secure:
    """A secure sum with double masks; `threshold` t, where it is more than a majority; `identities`: what signs keys.

    `quantised`: the integers as which the numbers of models are summed; None: in fixed point, in words of 64 bits.
    Server and clients hold it to the same fewest clients: a client hides among them, and so does its noise.
    """

    threshold: int | None = None
    fraction_bits: int = 32
    identities: Identities | None = None
    quantised: Quantised | None = None
    name: ClassVar[str] = "secure"
    before_end: ClassVar[tuple[str, ...]] = secure_sum.BEFORE_END
    individual: ClassVar[bool] = False
    copies: ClassVar[int] = 8  # as trained, and in numbers of 8 bytes: weighted, joined, masked

    def waits(self, clients: int) -> int:
        return 2 * clients + 6

    def fewest(self, min_clients: int) -> int:
        return max(2, min_clients, self.threshold or 0)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum."""
        return WHOLE if self.quantised is None else self.quantised.word_bits

    def dimension(self, expected: Expected) -> int:
        """The words of the sum: those of the vectors, then weight, 1 and loss."""
        return sum(expected.sizes) // 4 + 2 + (1 if self.quantised is None else -(-_LOSS_LENGTH // self.quantised.bits))

    def _settings(self, expected: Expected, least: int, deadline: float) -> secure_sum.Settings:
        fewest = self.fewest(least)
        found = secure_sum.Settings(self.dimension(expected), self.threshold, self.fraction_bits, fewest, deadline)
        return replace(found, word_bits=self.word_bits)

    async def _joined(self, me: Client, deadline: float) -> setup.Group:
        """The clients with whom the round is set up, and what `me` shares with each."""
        return (await setup.client(me, deadline, identities=self.identities))[0]

    async def _present(self, me: Server, members: Sequence[str], least: int, deadline: float) -> setup.Group:
        """Those of `members` with whom the round is set up."""
        least = self.fewest(least)
        return await setup.server(me, members, me.round, least, deadline, identities=self.identities)

    async def client(self, me: Client, update: Update, expected: Expected, least: int, deadline: float) -> None:
        group = await self._joined(me, deadline)
        vector = self._contribution(me, update, expected)
        await self._sum_of_client(me, vector, group, self._settings(expected, least, deadline))

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await secure_sum.client(me, vector, group.secrets, replace(settings, identities=group.identities))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await secure_sum.server(me, group.names, replace(settings, identities=group.identities))

    def _contribution(self, me: Client, update: Update, expected: Expected) -> NDArray[Any]:
        """The vector of `update` in the sum. Raises Withdrawn where it cannot be quantised."""
        trained, vectors = update.weight > 0, list(zip(update.vectors, expected.weighted, strict=True))
        loss = update.loss if trained else 0.0
        if (quantised := self.quantised) is None:
            parts: list[NDArray[Any]] = [
                (update.weight if by_weight else float(trained)) * decode(vector).astype(np.float64)
                for vector, by_weight in vectors
            ]
            return np.concatenate([*parts, np.array([update.weight, float(trained), loss])])
        weight = min(int(update.weight), quantised.weight)
        try:
            parts = [
                quantised.encode(decode(vector)) * np.uint64(weight if by_weight else trained)
                for vector, by_weight in vectors
            ]
            whole = _LOSS_RANGE + min(max(loss, -_LOSS_RANGE), _LOSS_RANGE)
            rest = round(whole * (1 << _LOSS_BITS)) if trained else 0  # a NaN is no integer
        except ValueError as error:
            refuse(me, f"take part in the sum: {error}")
            raise Withdrawn(str(error)) from None
        figures = [weight, int(trained)]
        for _ in range(-(-_LOSS_LENGTH // quantised.bits)):
            figures.append(rest & quantised.largest)
            rest >>= quantised.bits
        return np.concatenate([*parts, np.array(figures, np.uint64)])

    def _opened(self, total: secure_sum.Total, expected: Expected) -> tuple[list[NDArray[np.float64]], int, float]:
        """The mean of each vector, the number of clients that had trained, and the mean of their losses."""
        ends = np.cumsum(expected.sizes) // 4
        if (quantised := self.quantised) is None:
            values = total.values
            weight, count, loss = values[-3:].tolist()
            columns = np.split(values[:-3], ends[:-1])
        else:
            weight, count, *limbs = map(int, total.ring[ends[-1] :])
            loss = sum(limb << (quantised.bits * i) for i, limb in enumerate(limbs)) / (1 << _LOSS_BITS)
            loss -= count * _LOSS_RANGE
            columns = [
                quantised.decode(part, weight if by_weight else count)
                for part, by_weight in zip(np.split(total.ring[: ends[-1]], ends[:-1]), expected.weighted, strict=True)
            ]
        if not round(count):
            return [], 0, 0.0
        divided = [
            column / (weight if by_weight else count)
            for column, by_weight in zip(columns, expected.weighted, strict=True)
        ]
        return divided, round(count), loss / count

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        await secure_sum.client_at_end(me, self._settings(expected, 0, deadline))

    async def server(
        self, me: Server, members: Sequence[str], expected: Expected, least: int, deadline: float, enough: int
    ) -> Averages:
        present = await self._present(me, members, least, deadline)
        total = await self._sum_of_server(me, present, self._settings(expected, least, deadline))
        if isinstance(total.ring, HollowArray):  # nothing was added: taken is that all have trained
            return Averages(total.contributors, tuple(map(blank, expected.sizes)), 0.0)
        means, count, loss = self._opened(total, expected)
        require(count, "clients with trained models", least)
        return Averages(total.contributors, tuple(map(encode, means)), loss)


@dataclass(frozen=True)
class SecAggPlus(Secure):
    """A secure sum in which each client deals and masks with its neighbours in a graph; no set-up goes before it.

    The server alone sees to the fewest clients: each of these sees itself and t neighbours.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    name: ClassVar[str] = "secagg+"

    def _settings(self, expected: Expected, least: int, deadline: float) -> secure_sum.Settings:
        return replace(super()._settings(expected, least, deadline), tolerance=self.tolerance)

    async def _joined(self, me: Client, deadline: float) -> setup.Group:
        return setup.Group((), {}, {})

    async def _present(self, me: Server, members: Sequence[str], least: int, deadline: float) -> setup.Group:
        return setup.Group(tuple(members), {}, {})


@dataclass(frozen=True)
class LightSecAgg(Secure):
    """A secure sum with coded masks, whose opening takes the same whoever is lost; it needs `quantised`.

    `tolerated` and `corrupt`: the shares of a cohort that may be lost, and that may collude with the server.
    """

    tolerated: float = 0.1
    corrupt: float = 0.1
    name: ClassVar[str] = "lightsecagg"
    before_end: ClassVar[tuple[str, ...]] = lightsecagg.BEFORE_END
    copies: ClassVar[int] = 12  # as trained, and in numbers of 8 bytes: quantised, mask, pieces, masked

    @property
    def word_bits(self) -> int:
        return PIECE_BITS

    def waits(self, clients: int) -> int:
        return 2 * clients + 4

    def _coded(self, settings: secure_sum.Settings) -> lightsecagg.CodedSettings:
        least, deadline = settings.min_clients, settings.deadline
        return lightsecagg.CodedSettings(settings.dimension, self.tolerated, self.corrupt, least, deadline)

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await lightsecagg.client(me, vector, group.names, self._coded(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await lightsecagg.server(me, group.names, self._coded(settings))

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        await lightsecagg.client_at_end(me, self._coded(self._settings(expected, 0, deadline)))


@dataclass(frozen=True)
class ByCommittee(Secure):
    """A secure sum by a committee of members, with one upload a client; it needs `quantised`.

    `tolerated` and `corrupt`: the shares of a cohort that may be lost, and that may collude with the server. The draw
    of the members fails for these with a probability of 2^-exponent at most.
    """

    tolerated: float = 0.1
    corrupt: float = 0.1
    exponent: int = 40
    name: ClassVar[str] = "committee"
    before_end: ClassVar[tuple[str, ...]] = committee.BEFORE_END
    copies: ClassVar[int] = 16  # as trained, and in numbers of 8 bytes: quantised, seeds, shares, those held of others

    @property
    def word_bits(self) -> int:
        if self.quantised is None:
            return WHOLE
        field = field_for(self.quantised.terms * self.quantised.weight * self.quantised.largest)
        return field.bits if field is GF31 else WHOLE

    def waits(self, clients: int) -> int:
        return 2 * clients + 10

    def _of_members(self, settings: secure_sum.Settings) -> committee.CommitteeSettings:
        field = GF31 if settings.word_bits == GF31.bits else GF61
        shares = self.tolerated, self.corrupt, self.exponent
        return committee.CommitteeSettings(settings.dimension, field, *shares, settings.min_clients, settings.deadline)

    @property
    def _contribution_of_keys(self) -> setup.Contribution:
        return setup.NoContribution() if self.identities is not None else members.SigningKeys()

    async def _joined(self, me: Client, deadline: float) -> setup.Group:
        group, keys = await setup.client(me, deadline, self._contribution_of_keys, self.identities)
        return group if self.identities is not None else members.with_keys(group, {me.name: keys.private})

    async def _present(self, me: Server, names: Sequence[str], least: int, deadline: float) -> setup.Group:
        contribution = self._contribution_of_keys
        group = await setup.server(me, names, me.round, self.fewest(least), deadline, contribution, self.identities)
        return group if self.identities is not None else members.with_keys(group, {})

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await committee.client(me, vector, group, self._of_members(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await committee.server(me, group, self._of_members(settings))

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        await committee.client_at_end(me, self._of_members(self._settings(expected, 0, deadline)))


@dataclass(frozen=True)
class Flamingo(Secure):
    """A secure sum with one message a client, whose keys serve many rounds, and which decryptors open.

    `chosen`: the number of these, where it does not follow from `tolerance`; after `renewal` rounds others are drawn.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    chosen: int | None = None
    renewal: int = 10
    name: ClassVar[str] = "flamingo"
    before_end: ClassVar[tuple[str, ...]] = flamingo.BEFORE_END

    def waits(self, clients: int) -> int:
        return 2 * clients + 14

    def _count(self, clients: int) -> int:
        return decryptors.Decryptors.of(clients, self.chosen, self.tolerance).count

    def _of_rounds(self, settings: secure_sum.Settings) -> flamingo.FlamingoSettings:
        limits = settings.min_clients, settings.deadline
        words = settings.dimension, settings.word_bits
        return flamingo.FlamingoSettings(*words, self.tolerance, *limits, self.identities, self.fraction_bits)

    async def _joined(self, me: Client, deadline: float) -> setup.Group:
        ring = await decryptors.join(me, self._count, deadline, self.identities)
        if ring is None:
            raise Withdrawn("its keys are not those of the sum")
        return setup.Group(ring.names, {}, {})

    async def _present(self, me: Server, names: Sequence[str], least: int, deadline: float) -> setup.Group:
        limits = self._count, self.renewal, self.fewest(least), deadline
        ring = await decryptors.prepare(me, names, *limits, self.identities)
        return setup.Group(ring.stored, {}, {})

    async def _sum_of_client(
        self, me: Client, vector: NDArray[Any], group: setup.Group, settings: secure_sum.Settings
    ) -> None:
        await flamingo.client(me, vector, self._of_rounds(settings))

    async def _sum_of_server(self, me: Server, group: setup.Group, settings: secure_sum.Settings) -> secure_sum.Total:
        return await flamingo.server(me, group.names, self._of_rounds(settings))

    async def client_at_end(self, me: Client, expected: Expected, deadline: float) -> None:
        await flamingo.client_at_end(me, self._of_rounds(self._settings(expected, 0, deadline)))


def fewest_hidden(drawn: int, made_for_many: bool) -> int:
    """How many models a secure average of `drawn` clients needs, if no number is given.

    `made_for_many`: clients add noise; the fewer it is made for, the more it is.
    """
    threshold = quorum.threshold_of(None, drawn)
    return threshold if made_for_many else quorum.always_left(drawn, threshold)


def tolerance_of(tables: Any) -> Tolerance:
    """Return the losses that a sum in a graph withstands."""
    keys = tables.training
    return Tolerance(keys.corrupt_clients, keys.tolerated_dropouts, keys.failure_exponent)


class PlainAveraging(Part):
    """`Plain` as a part of a round of training, whose formula asks for its settings (`round.Called`)."""

    def payloads(self, tables: Any, among: Any) -> dict[str, int | None]:
        up = len(among.names) * (sum(among.settings.expected.sizes) + FIGURES_BYTES)
        return {"LocalModel": None if among.settings.extra else up}

    def waits(self, tables: Any) -> int:
        return 1


_QUANTISING = ("training.value_bits", "training.clip", "training.largest_weight")


@dataclass(frozen=True)
class SecureAveraging(Part):
    """`Secure` as a part of a round of training. `private`: models are clipped, and clients may add noise."""

    private: bool = False
    messages = ()
    takes: ClassVar[Sequence[Taken]] = (setup.SetUp(identities=True), secure_sum.SumOfVectors(identities=True))
    uses: ClassVar[Sequence[str]] = ("protocol.identity", *_QUANTISING)
    kind: ClassVar[str] = "secure_sum"

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        noisy = self.private and tables.privacy.noise_at == "clients"
        return [SumBounds(self.kind, max(2, tables.training.fewest(fewest_hidden(clients, noisy))))]


@dataclass(frozen=True)
class AveragingInGraph(SecureAveraging):
    """`SecAggPlus` as a part of a round of training."""

    takes = (secure_sum.SumOfVectors(in_graph=neighbours.DealingInGraph(tolerance_of)),)
    uses = _QUANTISING
    kind = "secagg+"

    def cautions(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line where clients' noise is made for more clients than each of them sees in a sum."""
        if not self.private or tables.privacy.noise_at != "clients":
            return []
        what = "the guarantee holds only if the server follows the protocol, and not if it names too few survivors"
        return [f'privacy.noise_at = "clients" with training.averaging = "{SecAggPlus.name}": {what}']

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """The graphs of the rounds: how many neighbours each client has, and how many of them must be left."""
        return [f"{SecAggPlus.name}: {degree_of(many, tolerance_of(tables))}" for many in _cohorts(tables, shards())]


def _cohorts(tables: Any, shards: Mapping[str, Shard]) -> list[int]:
    """The sizes of the cohorts of a run: drawn of the clients with labels, or of all."""
    able = sum(1 for shard in shards.values() if shard.labeled.any())
    return sorted({math.ceil(tables.training.share * many - 1e-9) for many in (able, len(shards)) if many})


def coding_of(tables: Any, clients: int) -> lightsecagg.Coding:
    """Return U and T of a sum with coded masks among a number of clients. Raises ValueError where there are too few."""
    return lightsecagg.Coding.among(clients, tables.training.tolerated_dropouts, tables.training.corrupt_clients)


@dataclass(frozen=True)
class CodedAveraging(SecureAveraging):
    """`LightSecAgg` as a part of a round of training."""

    takes = (setup.SetUp(identities=True), lightsecagg.CodedSumOfVectors(coding_of))
    uses = ("protocol.identity", *_QUANTISING)

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return []  # it has no miniature in which a server lies

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """U and T of the rounds, and how many clients each withstands the loss of."""
        return [
            f"{LightSecAgg.name}: of {many} clients {one.needed} must answer, so {one.tolerated} may be lost; "
            f"{one.private} may collude with the server"
            for many in _cohorts(tables, shards())
            for one in [coding_of(tables, many)]
        ]


def committee_of(tables: Any, clients: int) -> committee.Committee:
    """Return the committee of a sum among a number of clients. Raises ValueError where there are too few."""
    keys = tables.training
    return committee.Committee.among(clients, keys.tolerated_dropouts, keys.corrupt_clients, keys.failure_exponent)


@dataclass(frozen=True)
class CommitteeAveraging(SecureAveraging):
    """`ByCommittee` as a part of a round of training."""

    takes = (
        setup.SetUp(contribution=lambda tables: 0 if is_signed(tables) else KEY_BYTES, identities=True),
        committee.SumByCommittee(committee_of),
    )
    uses = ("protocol.identity", *_QUANTISING)
    kind = "committee"

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """The committees of the rounds, and how many members each withstands the loss of."""
        return [f"{ByCommittee.name}: {committee_of(tables, many)}" for many in _cohorts(tables, shards())]


def decryptors_of(tables: Any, clients: int) -> decryptors.Decryptors:
    """Return the decryptors of a sum among a number of clients. Raises ValueError where there are too few."""
    return decryptors.Decryptors.of(clients, tables.training.decryptors, tolerance_of(tables))


def schedule_of(tables: Any, among: Any) -> tuple[bool, bool]:
    """Whether keys are fresh in the round, and whether new decryptors are drawn, if nobody is lost."""
    fresh, since = True, 0
    cohorts = (*among.history, among.names)
    for number, names in enumerate(cohorts):
        fresh = not number or frozenset(names) != frozenset(cohorts[number - 1])
        drawn = fresh or number - since >= tables.training.decryptor_rounds
        since = number if drawn else since
    return fresh, drawn


@dataclass(frozen=True)
class FlamingoAveraging(SecureAveraging):
    """`Flamingo` as a part of a round of training."""

    takes = (
        decryptors.KeysOfRounds(
            decryptors_of,
            schedule_of,
            setup.SetUp(contribution=lambda tables: 0 if is_signed(tables) else KEY_BYTES, identities=True),
        ),
        flamingo.SumOfRounds(decryptors_of, tolerance_of),
    )
    uses = ("protocol.identity", *_QUANTISING, "training.decryptors", "training.decryptor_rounds")
    kind = "flamingo"

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return []

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """The decryptors and graphs of the rounds, and how many of them each withstands the loss of."""
        return [
            f"{Flamingo.name}: {decryptors_of(tables, many)}; {degree_of(many, tolerance_of(tables))}"
            for many in _cohorts(tables, shards())
        ]

    def cautions(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line where each round draws other clients, so that keys are made anew in each."""
        if tables.training.share == 1:
            return []
        what = "keys are made anew in a round to which clients are called that have none"
        return [f'training.share(={tables.training.share:g}) with training.averaging = "{Flamingo.name}": {what}']


def ways(private: bool = False) -> dict[str, Part]:
    """The ways of `training.averaging` as parts of a round. `private`: as in `SecureAveraging`."""
    return {
        "plain": PlainAveraging(),
        "secure": SecureAveraging(private),
        "secagg+": AveragingInGraph(private),
        "lightsecagg": CodedAveraging(private),
        "committee": CommitteeAveraging(private),
        "flamingo": FlamingoAveraging(private),
    }
