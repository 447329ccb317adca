"""Averages of models by a secure sum, so that the server sees the average alone.

`averaging` says what travels, what the server learns, and under which assumptions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.parties.server import Server
from tacit.protocols.crypto import fixed_point, quorum
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.experiment.experiment import Dealt
from tacit.protocols.federated.averaging import Averages, Expected, Update
from tacit.protocols.federated.drawn import cohorts_of, drawn_notes
from tacit.protocols.identities import is_signed, signing_colluding
from tacit.protocols.outcome import Withdrawn, require
from tacit.protocols.parts import Opening, Part, SumBounds, Taken
from tacit.protocols.sums.keys import ClippedKeys, EncoderKeys
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Requests, Sum, SumSettings, Total
from tacit.sim.hollow import HollowArray, blank
from tacit.sim.shares import rounded_down

__all__ = ["Secure", "SecureAveraging", "colluding_of", "fewest_hidden", "written"]

_LOSS_BITS, _LOSS_RANGE = 20, 1 << 15
"""The fractional bits of a loss that is summed with quantised values, and the magnitude to which it is clipped."""


_LOSS_LENGTH = (2 * _LOSS_RANGE << _LOSS_BITS).bit_length()


def written(me: Server, means: Sequence[NDArray[np.float64]], expected: Expected) -> tuple[bytes, ...]:
    """The bytes of the `means`, which are blank in a hollow run: small ones would be the same in every round.

    Clients refuse a second sum that begins with one model.
    """
    return tuple(map(encode, means, expected.layouts) if me.world.hollow is None else map(blank, expected.sizes))


@dataclass(frozen=True)
class Secure:
    """The server sees the average alone, which a secure `sum` opens.

    `quantised`: the integers as which the numbers of models are summed; None: in fixed point, in words of 64 bits.
    Server and clients require the same smallest number of clients: a client hides among them, and so does its noise.
    """

    sum: Sum = field(default_factory=SecAgg)
    quantised: Quantised | None = None
    fraction_bits: int = 32
    individual: ClassVar[bool] = False

    @property
    def checks_ranges(self) -> bool:
        return self.sum.proves

    @property
    def name(self) -> str:
        return self.sum.name

    @property
    def copies(self) -> int:
        return self.sum.copies

    @property
    def requests(self) -> Requests | None:
        return self.sum.requests

    def spare(self, clients: int, called: int) -> int | None:
        return self.sum.spare(clients, called)

    def holds(self, model: bytes, layout: Layout | None) -> bool:
        if self.quantised is None:
            return True
        values = decode(model, layout)
        integers = self.quantised.unclipped(values, 1 << 62)
        return bool((integers == self.quantised.encode(values).astype(np.int64)).all())

    def waits(self, clients: int) -> int:
        return self.sum.waits_among(clients)

    def fewest(self, min_clients: int) -> int:
        return self.sum.fewest(min_clients)

    def honest(self, min_clients: int) -> int:
        return self.fewest(min_clients) - max(1, self.sum.of_run.colluding)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum."""
        return self.sum.word_bits(self.quantised)

    @property
    def modulus(self) -> int:
        """The number of values of a word, modulo which words are summed."""
        return self.sum.modulus(self.quantised)

    def dimension(self, expected: Expected) -> int:
        """The words of the sum: those of the vectors, then weight, 1 and loss, then those of figures."""
        return expected.numbers + self._counts + self._loss_words + expected.figures.words(self.quantised)

    @property
    def _counts(self) -> int:
        """The words of weight and 1, which a sum with proofs lacks: all models weigh 1, and valid ones are counted."""
        return 0 if self.sum.proves else 2

    @property
    def _loss_words(self) -> int:
        return 1 if self.quantised is None else -(-_LOSS_LENGTH // self.quantised.bits)

    def task(self, expected: Expected) -> Any:
        """What clients prove of a vector; None: nothing."""
        if self.quantised is None:
            return None
        return self.sum.integers(self.dimension(expected), self.quantised.largest, based=True)

    def settings(
        self, expected: Expected, least: int, deadline: float, called: int, me: Client | Server | None = None
    ) -> SumSettings:
        """The settings of a sum of at least `fewest(least)` of the `called` clients, for `me`."""
        sizes = self.dimension(expected), called, self.fewest(least), deadline
        basis = me.basis if self.sum.proves and me is not None else b""  # type: ignore[union-attr]
        return SumSettings(*sizes, self.word_bits, self.fraction_bits, task=self.task(expected), basis=basis)

    async def client(
        self, me: Client, update: Update, expected: Expected, least: int, deadline: float, called: int
    ) -> None:
        settings = self.settings(expected, least, deadline, called, me)
        await self.sum.contribute(me, lambda: self._contribution(me, update, expected), settings)

    def _contribution(self, me: Client, update: Update, expected: Expected) -> Any:
        """The vector of `update` in the sum; None for one of a client that has not trained, in a sum with proofs.

        Raises Withdrawn if it cannot be quantised.
        """
        if update.words is not None:
            last = fixed_point.encode(np.array([update.weight, 1.0, update.loss]), self.fraction_bits, 1)
            return np.concatenate([update.words, last])
        trained, decoded = update.weight > 0, map(decode, update.vectors, expected.layouts)
        if self.sum.proves and not trained:
            return None
        vectors = list(zip(decoded, expected.weighted, strict=True))
        loss = update.loss if trained else 0.0
        tested = expected.figures.encode(update.figures, self.quantised)
        if (quantised := self.quantised) is None:
            parts: list[NDArray[Any]] = [
                (update.weight if by_weight else float(trained)) * vector.astype(np.float64)
                for vector, by_weight in vectors
            ]
            return np.concatenate([*parts, np.array([update.weight, float(trained), loss]), tested])
        weight = min(int(update.weight), quantised.weight)
        try:
            parts = [
                quantised.encode(vector) * np.uint64(weight if by_weight else trained) for vector, by_weight in vectors
            ]
            whole = _LOSS_RANGE + min(max(loss, -_LOSS_RANGE), _LOSS_RANGE)
            rest = round(whole * (1 << _LOSS_BITS)) if trained else 0  # a NaN is no integer
        except ValueError as error:
            me.refuse(f"take part in the sum: {error}")
            raise Withdrawn(str(error)) from None
        figures = [weight, int(trained)][: self._counts]
        for _ in range(self._loss_words):
            figures.append(rest & quantised.largest)
            rest >>= quantised.bits
        words = np.concatenate([*parts, np.array(figures, np.uint64), tested])
        if update.in_range:
            return words
        if me.world.hollow is not None:
            return self.sum.false(words, None, quantised)
        weight = weight if expected.weighted[0] else int(trained)
        wanted = quantised.unclipped(vectors[0][0], (1 << 62) // max(1, weight)) * weight
        return self.sum.false(words, wanted, quantised)

    def _opened(
        self, total: Total, expected: Expected
    ) -> tuple[list[NDArray[np.float64]], int, float, NDArray[np.float64]]:
        """Decode the mean of each vector, the number of clients that had trained, the mean of their losses, and the
        sums of figures."""
        ends = np.cumsum([layout.numbers for layout in expected.layouts])
        last = ends[-1] + self._counts + self._loss_words  # before the figures
        if (quantised := self.quantised) is None:
            values = total.values
            figures = expected.figures.decode(values[last:], None)
            weight, count, loss = values[ends[-1] : last].tolist()
            columns = np.split(values[: ends[-1]], ends[:-1])
        else:
            figures = expected.figures.decode(total.ring[last:], quantised)
            counted = () if self._counts else (len(total.contributors),) * 2
            weight, count, *limbs = map(int, (*counted, *total.ring[ends[-1] : last]))
            loss = sum(limb << (quantised.bits * i) for i, limb in enumerate(limbs)) / (1 << _LOSS_BITS)
            loss -= count * _LOSS_RANGE
            columns = [
                quantised.decode(part, weight if by_weight else count)
                for part, by_weight in zip(np.split(total.ring[: ends[-1]], ends[:-1]), expected.weighted, strict=True)
            ]
        if not round(count):
            return [], 0, 0.0, figures
        divided = [
            column / (weight if by_weight else count)
            for column, by_weight in zip(columns, expected.weighted, strict=True)
        ]
        return divided, round(count), loss / count, figures

    async def server(
        self,
        me: Server,
        members: Sequence[str],
        expected: Expected,
        least: int,
        deadline: float,
        called: int,
    ) -> Averages:
        total = await self.sum.total(me, members, self.settings(expected, least, deadline, called, me))
        return await self._averages(me, total, expected, least)

    async def _averages(self, me: Server, total: Total, expected: Expected, least: int) -> Averages:
        """Return what the sum says of the models, of which `least` must have been trained. Raises Abort."""
        if isinstance(total.ring, HollowArray):  # nothing was added: taken is that all have trained
            return Averages(total.contributors, tuple(map(blank, expected.sizes)), 0.0)
        means, count, loss, figures = self._opened(total, expected)
        require(count, "clients with trained models", least)
        return Averages(total.contributors, written(me, means, expected), loss, figures=figures)


def fewest_hidden(drawn: int, made_for_many: bool, colluding: int = 0) -> int:
    """The default number of models that a secure average of `drawn` clients needs, C of them `colluding`.

    `made_for_many`: clients add noise, and more of it if it is made for fewer clients.
    """
    threshold = quorum.threshold_of(None, drawn, colluding)
    return threshold if made_for_many else quorum.always_left(drawn, threshold, colluding)


def colluding_of(tables: Any, called: int) -> int:
    """C of an average of models, where a round calls this number of clients."""
    return SUMS.get(tables.training.averaging, SecAgg).of(tables).tolerance.of(called).colluding


@dataclass(frozen=True)
class SecureAveraging(Part):
    """`Secure` by a sum of the class `of` as a part of a round of training.

    `private`: models are clipped, and clients may add noise.
    """

    of: type[Sum] = SecAgg
    private: bool = False
    messages = ()
    learned: ClassVar[Mapping[str, str]] = {
        "client": "with sum.value_bits and weights by points: the largest number of labeled points of a client, "
        "unless sum.largest_weight is set"
    }

    @property
    def weighs(self) -> bool:
        """True if models may have other weights than 1."""
        return not self.of.proves

    @property
    def proves(self) -> bool:
        """True if numbers of models are proved to be in range."""
        return self.of.proves

    @property
    def description(self) -> str:
        needs = "; needs `sum.value_bits`" * self.of.of_integers
        return self.of.description + needs + " and `training.weighting` = `equal`" * self.of.proves

    @property
    def takes(self) -> Sequence[Taken]:
        return (self.of(),)

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {"sum": (EncoderKeys if self.weighs else ClippedKeys,)}

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        """A line for each cohort of which the tolerated share is less than one client, as shares are rounded down.

        And if clients' noise is made for more clients than each of them sees in a sum.
        """
        found = []
        if self._made_by_clients(tables) and not self.of.sees_all:
            what = "the guarantee holds only if the server follows the protocol, and not if it names too few survivors"
            found.append(f'privacy.noise_at = "clients" with training.averaging = "{self.of.name}": {what}')
        if not self.of.tolerates_share:
            return found
        share, one = tables.sum.tolerated_dropouts, self.of.of(tables)
        try:
            cohorts = cohorts_of(tables, dealt().shards)
        except (OSError, ValueError):  # the data are on another machine
            return found
        found += [
            f"sum.tolerated_dropouts(={share:g}) of {many} clients is less than one client: no client may be lost "
            f"in a sum of {one.name}; allowed: {math.ceil(10_000 / many) / 10_000:g} or more for one"
            for many in cohorts
            if share and not rounded_down(share, many)
        ]
        return found + one.warnings(cohorts, tables.training.share)

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line with the limits of the sums of each cohort, and the number of losses that they tolerate."""
        if not self.of.tolerates_share:
            return []
        held, one = shards(), self.of.of(tables)
        limits = [one.limits(many, many) for many in cohorts_of(tables, held)]
        found = [f"{one.name}: {limit}" for limit in limits if limit is not None]
        return found + drawn_notes(tables, held, one.tolerance.corrupt)

    def _made_by_clients(self, tables: Any) -> bool:
        return self.private and tables.privacy.noise_at == "clients"

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        bits = None if tables.sum.value_bits == "exact" else tables.sum.value_bits
        least, colluding = self.least(tables, clients), colluding_of(tables, clients)
        return [SumBounds(self.of.name, least, value_bits=bits, colluding=colluding)]

    def least(self, tables: Any, clients: int) -> int:
        """The fewest models of an average, where a round calls this number of clients."""
        colluding = colluding_of(tables, clients)
        hidden = fewest_hidden(clients, self._made_by_clients(tables), 0 if self.of.tolerates_share else colluding)
        return max(colluding + 2, tables.training.fewest(hidden))

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        return self._openings(tables, called, self.least(tables, called))

    def _openings(self, tables: Any, called: int, least: int) -> Sequence[Opening]:
        """The conditions of a sum over at least `least` clients."""
        signing = signing_colluding(tables, called) if is_signed(tables) else None
        return [self.of.of(tables).opening(called, least, signing)]
