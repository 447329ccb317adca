"""Parts of a user's own protocol that sum vectors by any secure sum.

A part names its sum, or the key whose value names it. Such a part has a set-up of its own, in its round: the protocol
has none (`agrees` is false). Words of 64 bits go through sums of smaller integers, too (`whole`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.identities import is_signed, signing_colluding
from tacit.protocols.outcome import Withdrawn
from tacit.protocols.parts import Among, Choice, Found, Opening, SumBounds, Taken
from tacit.protocols.privacy.aggregated import AggregatorNoise
from tacit.protocols.setup import Group
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.chosen import check_sum_among, sum_among
from tacit.protocols.sums.registry import SUMS, WithSums
from tacit.protocols.sums.sum import Sum, SumSettings, Total
from tacit.protocols.sums.whole import Whole
from tacit.sim.hollow import HollowArray
from tacit.sim.registry import check_name
from tacit.sim.setting_error import Problem
from tacit.sim.units import duration

__all__ = ["AnySum", "Chosen", "SecureSum"]

_DRAWS = 16
"""How often a run draws neighbours or members: once a part, and no protocol has more parts."""


@dataclass(frozen=True)
class Chosen:
    """A sum with the `settings` of one vector, of integers (`quantised`) or of words of 64 bits (None)."""

    sum: Sum
    settings: SumSettings
    quantised: Quantised | None = None

    @property
    def deadline(self) -> float:
        """The longest wait of the server, in virtual seconds."""
        return self.settings.deadline

    @property
    def whole(self) -> Whole:
        """How the sum carries words of 64 bits."""
        return Whole.of(self.sum, self.settings.called)

    @property
    def summed(self) -> SumSettings:
        """The settings of the sum as it is taken."""
        if self.quantised is not None:
            return replace(self.settings, word_bits=self.sum.word_bits(self.quantised))
        return self.whole.settings(self.settings) if self.settings.task is None else self.settings

    def among(self, among: Among) -> Among:
        """`among` with what the formula of the sum asks."""
        sizes = self.summed
        return replace(among, dimension=sizes.dimension, word_bits=sizes.word_bits, sum=self.sum, task=sizes.task)

    async def contribute(self, me: Client, vector: Any) -> None:
        """Contribute `vector` (dimension,) of numbers, or of words, or what is proved; None: nothing.

        Raises Withdrawn for numbers that do not fit.
        """
        words: Any = vector
        if self.quantised is None and self.settings.task is None:
            words = self.whole.split(self.sum.words(me, vector, self.settings).astype(np.uint64, copy=False))
        elif self.quantised is not None:
            try:
                words = self.quantised.encode(vector)
            except ValueError as error:
                me.refuse(f"take part in the sum: {error}")
                raise Withdrawn(str(error)) from None
        await self.sum.contribute(me, lambda: words, self.summed)

    async def total(self, me: Server, names: Sequence[str]) -> Total:
        """The sum over `names`, or over those that are left. Raises Abort."""
        total = await self.sum.total(me, names, self.summed)
        if self.quantised is not None or self.settings.task is not None:
            return total
        return Total(total.contributors, self.whole.joined(total.ring), self.settings.fraction_bits)


@dataclass(frozen=True)
class AnySum:
    """Any secure sum in a part: `named` is its name, or the key that names it, such as ``protocol.sum``."""

    named: str

    @property
    def takes(self) -> Sequence[Taken]:
        """The sum, or the choice between all of them."""
        if "." in self.named:
            return (Choice(self.named, WithSums({}, lambda one: one(), {})),)
        return (SUMS[self.named](),)

    def name(self, tables: Any) -> str:
        """The name of the sum in a run with these tables."""
        return str(attrgetter(self.named)(tables)) if "." in self.named else self.named

    def chosen(
        self, tables: Any, called: int, dimension: int, quantised: Quantised | None = None, fraction_bits: int = 32,
        *, of_category: bool = False, noise: AggregatorNoise | None = None,
    ) -> Chosen:  # fmt: skip
        """The sum of vectors of `dimension` among the clients that are `called`.

        `of_category`: each has a 1 at one place. `noise`: that of the server and the helper each.
        """
        keys, one = tables.protocol, sum_among(tables, self.name(tables), called, _DRAWS)
        task = one.category(dimension) if of_category else None
        if quantised is not None:
            task = one.integers(dimension, quantised.largest)
        limits = called, max(2, keys.min_clients), duration(keys.deadline)
        settings = SumSettings(dimension, *limits, fraction_bits=fraction_bits, task=task, noise=noise)
        return Chosen(one, settings, quantised)

    def check(self, tables: Any, called: int, quantised: Quantised | None = None, *, of_category: bool = False) -> None:
        """Raise Problem for a sum that is unknown, or that does not fit this number of clients and these numbers."""
        key = self.named if "." in self.named else "protocol.name"
        check_name(key, self.name(tables), SUMS)
        one = self.chosen(tables, called, 1, quantised, of_category=of_category)
        check_sum_among(one.sum, called, key)
        try:
            _ = one.summed
        except ValueError as error:
            raise Problem(key, f"{error}; allowed: a sum of words of 64 bits, such as secure") from None
        if quantised is not None and called * quantised.largest >= (modulus := one.sum.modulus(quantised)):
            problem = f"{called} numbers of {quantised.bits} bits do not fit its numbers, below {modulus}"
            raise Problem(key, f'"{one.sum.name}": {problem}; allowed: fewer bits, or another sum')
        if is_signed(tables) and not one.sum.takes_identities():
            problem = f'"signed" does not go with the sum "{one.sum.name}", whose clients do not see who is in it'
            raise Problem("protocol.identity", f'{problem}; allowed: "none"')

    def least(self, tables: Any, called: int) -> int:
        """The fewest clients of the sum."""
        one = self.chosen(tables, called, 1)
        return one.sum.least_of(one.settings)

    def sums(self, tables: Any, called: int, value_bits: int | None = None) -> Sequence[SumBounds]:
        """The bounds of the sum, for a server that lies."""
        one = self.chosen(tables, called, 1).sum
        least, colluding = self.least(tables, called), one.of_run.colluding
        return [SumBounds(one.name, least, value_bits=value_bits, colluding=colluding)]

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """The conditions under which the sum is opened."""
        signing = signing_colluding(tables, called) if is_signed(tables) else None
        one = self.chosen(tables, called, 1).sum
        return [one.opening(called, self.least(tables, called), signing)]

    def waits(self, tables: Any) -> int:
        """The most deadlines that a client waits, with the set-up."""
        clients = int(tables.data.clients)
        return sum_among(tables, self.name(tables), clients).waits_among(clients)


class SecureSum(secure_sum.SecureSum):
    """A secure sum as a part of your own protocol: it sums each client's `vector`, and `result` processes the sum.

    `sum`: the name of a secure sum, as in `training.averaging`, or the key that names it, such as ``protocol.sum``; the
    protocol then has `agrees` = false. "": SecAgg with the keys on which the clients of the protocol agree.
    `fraction_bits`: the number of fractional bits of summed numbers. With `value_bits` numbers are clipped to [-`clip`,
    `clip`] and rounded to integers of that width, and words are as wide as the sum needs (`crypto.words`).
    """

    sum: str = ""

    @property
    def _any(self) -> AnySum:
        return AnySum(self.sum)

    @property
    def takes(self) -> Sequence[Taken]:  # type: ignore[override]
        return self._any.takes if self.sum else super().takes

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {} if self.sum else super().keys_in

    def chosen(self, tables: Any, called: int) -> Chosen | None:
        """The sum among the `called` clients, with its settings; None for that of the protocol's own keys."""
        if not self.sum:
            return None
        sizes = self.dimension(tables.protocol), self._quantised(called), self.fraction_bits
        return self._any.chosen(tables, called, *sizes)

    def summed(self, tables: Any, among: Among) -> Among:
        if (one := self.chosen(tables, len(among.names))) is None:
            return super().summed(tables, among)
        return one.among(among)

    async def client(self, me: Client, keys: Any, group: Group, public: NDArray[np.float64]) -> None:
        one: Chosen | None = me.sums.get(self.name)  # type: ignore[attr-defined]
        if one is None:
            await super().client(me, keys, group, public)
        else:
            await one.contribute(me, np.asarray(self.vector(keys, me.shard, public), np.float64))

    async def server(self, me: Server, keys: Any, group: Group, found: Mapping[str, Found]) -> Found:
        one: Chosen | None = me.sums.get(self.name)  # type: ignore[attr-defined]
        if one is None:
            return await super().server(me, keys, group, found)
        total = await one.total(me, group.names)
        over = total.contributors
        if isinstance(total.ring, HollowArray):  # nothing was added: taken is that each number is 1
            values = np.full(total.ring.shape, float(len(over)))
        else:
            values = total.values if one.quantised is None else one.quantised.decode(total.ring, len(over))
        return Found(over, np.asarray(self.result(keys, values), np.float64))

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return self._any.sums(tables, clients, self.value_bits) if self.sum else super().sums(tables, clients)

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        return self._any.openings(tables, called) if self.sum else super().openings(tables, called)

    def waits(self, tables: Any) -> int:
        return self._any.waits(tables) if self.sum else super().waits(tables)

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self.sum:
            self._any.check(tables, len(shards), self._quantised(len(shards)))
