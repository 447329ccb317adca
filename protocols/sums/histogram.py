"""A histogram as a part of a user's own protocol: how many clients hold each category."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.parts import Among, Found, Opening, Phase, SumBounds, Taken
from tacit.protocols.sums import reports, secure_sum
from tacit.protocols.sums.batch import Task
from tacit.protocols.sums.summing import AnySum, Chosen
from tacit.sim.hollow import HollowArray
from tacit.sim.units import duration

__all__ = ["Histogram", "fewest"]


class Histogram(Phase):
    """A histogram as a part of a protocol of one's own: how many clients hold each category.

    Each client's `category` is a report of Prio3Histogram, proved to be one category, which the server and the party
    `helper` count; neither sees it. The server makes `result` of the counts. `sum`: "prio3"; or a secure sum, without
    proofs, by its name or by the key that names it, as in `SecureSum`.
    """

    messages = ()
    sum: str = "prio3"

    @property
    def _any(self) -> AnySum | None:
        return None if self.sum == "prio3" else AnySum(self.sum)

    @property
    def takes(self) -> Sequence[Taken]:
        one = self._any
        task = reports.Reports(lambda tables, among: Task("category", (among.dimension,)))
        return (task,) if one is None else one.takes

    @property
    def uses(self) -> Collection[str]:
        return ("protocol.corrupt_clients",) if self._any is None else self._any.uses

    def categories(self, keys: Any) -> int:
        """The number of categories."""
        raise NotImplementedError(f"{type(self).__name__} does not say how many categories there are")

    def category(self, keys: Any, shard: Shard, public: NDArray[np.float64]) -> int | None:
        """The category of a client with this `shard`, from 0; None if it has none to report."""
        raise NotImplementedError(f"{type(self).__name__} does not say which category a client holds")

    def result(self, keys: Any, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return the server's result, made of the number of clients in each category."""
        return counts

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return () if self._any is None else self._any.sums(tables, clients)

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        if self._any is not None:
            return self._any.openings(tables, called)
        least = fewest(tables.protocol, called)
        return [Opening(least, opens=lambda joined, left: float(left >= least), masks=False)]

    def waits(self, tables: Any) -> int:
        return 0 if self._any is None else self._any.waits(tables)

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self._any is not None:
            self._any.check(tables, len(shards))

    def dimension(self, keys: Any) -> int:
        return self.categories(keys)

    def chosen(self, tables: Any, called: int) -> Chosen | None:
        """The sum of the counts among the `called` clients, with its settings; None for reports."""
        return None if self._any is None else self._any.chosen(tables, called, self.categories(tables.protocol))

    def summed(self, tables: Any, among: Among) -> Among:
        if (one := self.chosen(tables, len(among.names))) is None:
            return super().summed(tables, among)
        return replace(among, dimension=one.summed.dimension, word_bits=one.summed.word_bits, sum=one.sum)

    def task(self, keys: Any) -> Task:
        """The task of the reports."""
        return Task("category", (self.categories(keys),))

    async def client(self, me: Client, keys: Any, group: Any, public: NDArray[np.float64]) -> None:
        category = self.category(keys, me.shard, public)
        if self._any is None:
            held = None if category is None else int(category)
            await reports.client(me, self.task(keys), held, duration(keys.deadline))
            return
        one = self.chosen(getattr(me, "tables", None), getattr(me, "called", 0))
        assert one is not None
        counts = np.zeros(self.categories(keys), np.uint64)
        if category is not None:
            counts[int(category)] = 1
        await one.contribute(me, counts)

    async def server(self, me: Server, keys: Any, group: Any, found: Mapping[str, Found]) -> Found:
        if (one := self.chosen(getattr(me, "tables", None), len(me.clients)) if self._any else None) is not None:
            total = await one.total(me, group.names)
            over, counted = total.contributors, total.ring.astype(np.int64)
        else:
            least, deadline = fewest(keys, len(me.clients)), duration(keys.deadline)
            tally = await reports.server(me, group.names, self.task(keys), least, deadline)
            over, counted = tally.contributors, tally.counts
        counts = np.zeros(counted.shape, np.int64) if isinstance(counted, HollowArray) else counted
        return Found(over, np.asarray(self.result(keys, counts), np.float64))


def fewest(keys: Any, called: int) -> int:
    """The fewest reports of which a protocol with these `keys` has a result, by the number of `called` clients."""
    return max(secure_sum.colluding_of(keys, called) + 2, int(keys.min_clients))
