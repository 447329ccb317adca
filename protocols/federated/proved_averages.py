"""Averages of models by reports of Prio3, whose numbers are proved to be in range.

`averaging` says what travels, what the server learns, and under which assumptions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.learning.vectors import decode
from tacit.protocols.crypto.vdaf import FIELD64
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.federated.averaging import Averages, Expected, Update
from tacit.protocols.federated.drawn import cohorts_of
from tacit.protocols.federated.secure_averages import Secure, SecureAveraging, colluding_of, written
from tacit.protocols.parts import Opening, SumBounds
from tacit.protocols.sums import reports
from tacit.protocols.sums.batch import Task
from tacit.protocols.sums.sum import Requests, Total
from tacit.sim.hollow import HollowArray, blank

__all__ = ["Proved", "ProvedAveraging", "out_of_range"]


@dataclass(frozen=True)
class Proved(Secure):
    """A sum of reports whose numbers are proved to be in range, with a second aggregator; it needs `quantised`.

    All models weigh 1. A client that has not trained sends a report without content.
    """

    name: ClassVar[str] = "prio3"
    checks_ranges: ClassVar[bool] = True
    requests: ClassVar[Requests | None] = None
    copies: ClassVar[int] = 80  # as trained, and in shares of 8 bytes a bit, sent and received, with values of 16 bits

    def waits(self, clients: int) -> int:
        return reports.WAITS

    def dimension(self, expected: Expected) -> int:
        """The numbers of a report: those of the vectors, then the loss and figures."""
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
            me, self.task(expected), measurement, deadline, basis=me.basis, added=added, identities=self.sum.identities
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
        called: int,
    ) -> Averages:
        task, fewest = self.task(expected), self.fewest(least)
        signed = self.sum.identities is not None
        tally = await reports.server(me, members, task, fewest, deadline, basis=me.basis, signed=signed)
        if isinstance(tally.counts, HollowArray):
            return Averages(tally.contributors, tuple(map(blank, expected.sizes)), 0.0)
        count, end = len(tally.contributors), expected.numbers
        ring = tally.counts.astype(np.uint64)
        counts = np.full(_COUNTS, count, np.uint64)
        whole = Total(tally.contributors, np.concatenate([ring[:end], counts, ring[end:]]), 0)
        means, _, loss, figures = self._opened(whole, expected)
        return Averages(tally.contributors, written(me, means, expected), loss, figures=figures)


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


def _task_of(tables: Any, among: Any) -> Task:
    task: Task = among.settings.averaging.task(among.settings.expected_in(among.number))
    return task


@dataclass(frozen=True)
class ProvedAveraging(SecureAveraging):
    """`Proved` as a part of a round of training, whose formula asks for its settings (`round.Called`)."""

    takes = (reports.Reports(_task_of, based=True, signs=True),)
    uses = ("protocol.identity",)
    weighs = False
    proves = True
    description = (
        "a sum by two aggregators, the server and a further party `helper`, to which clients prove that each number is "
        "within `sum.clip`; needs `sum.value_bits` and `training.weighting` = `equal`"
    )
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
