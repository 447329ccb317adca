"""Histograms as parts of protocols of one's own, whose counts may carry an epsilon."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.parts import Among, Found, Opening, Phase, SumBounds, Taken
from tacit.protocols.privacy.aggregated import AggregatorNoise, votes_shift
from tacit.protocols.privacy.spending import finite, seeded_caveats
from tacit.protocols.privacy.spent import SEEDED, Spent
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.summing import AnySum, Chosen
from tacit.sim.hollow import HollowArray
from tacit.sim.setting_error import Problem
from tacit.sim.taps import Taps

__all__ = ["Histogram", "NoisyHistograms"]


class Histogram(Phase):
    """A histogram as a part of a protocol of one's own: how many clients hold each category.

    Each client's `category` is a report of Prio3Histogram, proved to be one category, which the server and the party
    `helper` count; neither sees it. The server makes `result` of the counts. `sum`: "prio3"; or a secure sum, without
    proofs, by its name or by the key that names it, as in `SecureSum`.

    With an `epsilon` each of the two adds noise to its share of the counts, enough by itself (`privacy.aggregated`).
    The counts are then (epsilon, `delta`)-differentially private for the replaced data of one client, also against one
    of the two. That a client has a category at all is not covered. Counts may be below 0.
    """

    delta: ClassVar[float] = 1e-5
    messages = ()
    sum: str = "prio3"

    @property
    def _any(self) -> AnySum:
        return AnySum(self.sum)

    @property
    def takes(self) -> Sequence[Taken]:
        return self._any.takes

    def categories(self, keys: Any) -> int:
        """The number of categories."""
        raise NotImplementedError(f"{type(self).__name__} does not say how many categories there are")

    def category(self, keys: Any, shard: Shard, public: NDArray[np.float64]) -> int | None:
        """The category of a client with this `shard`, from 0; None if it has none to report."""
        raise NotImplementedError(f"{type(self).__name__} does not say which category a client holds")

    def epsilon(self, keys: Any) -> float | None:
        """The epsilon of the counts, above 0; None: they have no noise."""
        return None

    def noise(self, keys: Any) -> AggregatorNoise | None:
        """The noise of each aggregator, if the counts have an epsilon. Raises ValueError where none gives it."""
        epsilon = self.epsilon(keys)
        if epsilon is None:
            return None
        if (one := SUMS.get(self.sum)) is None or not one.noises_counts():
            raise ValueError(f'sum(={self.sum!r}) has no aggregators that add noise; use sum = "prio3".')
        if not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon(={epsilon}) of the part {self.name} must be > 0 and finite.")
        return AggregatorNoise(epsilon, self.delta, 1, self.categories(keys), votes_shift(1))

    def check_tables(self, tables: Any) -> None:
        """Raise Problem where no noise gives the epsilon of the counts."""
        try:
            self.noise(tables.protocol)
        except ValueError as error:
            raise Problem("protocol.name", f"the counts of {self.name}: {error}; allowed: another epsilon") from None

    def cautions(self, tables: Any, dealt: Any) -> list[str]:
        seeded = self.noise(tables.protocol) is not None and tables.entropy == "seeded"
        return [f"{SEEDED}. No epsilon of this run is a guarantee"] if seeded else []

    def result(self, keys: Any, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return the server's result, made of the number of clients in each category."""
        return counts

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        return self._any.sums(tables, clients)

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        return self._any.openings(tables, called)

    def waits(self, tables: Any) -> int:
        return self._any.waits(tables)

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        self._any.check(tables, len(shards), of_category=True)

    def dimension(self, keys: Any) -> int:
        return self.categories(keys)

    def chosen(self, tables: Any, called: int) -> Chosen:
        """The sum of the counts among the `called` clients, with its settings."""
        keys = tables.protocol
        return self._any.chosen(tables, called, self.categories(keys), of_category=True, noise=self.noise(keys))

    def summed(self, tables: Any, among: Among) -> Among:
        return self.chosen(tables, len(among.names)).among(among)

    async def client(self, me: Client, keys: Any, group: Any, public: NDArray[np.float64]) -> None:
        category = self.category(keys, me.shard, public)
        one = me.sums[self.name]  # type: ignore[attr-defined]
        if one.sum.proves:
            await one.contribute(me, None if category is None else int(category))
            return
        counts = np.zeros(self.categories(keys), np.uint64)
        if category is not None:
            counts[int(category)] = 1
        await one.contribute(me, counts)

    async def server(self, me: Server, keys: Any, group: Any, found: Mapping[str, Found]) -> Found:
        total = await me.sums[self.name].total(me, group.names)  # type: ignore[attr-defined]
        counted = total.ring.astype(np.int64)
        counts = np.zeros(counted.shape, np.int64) if isinstance(counted, HollowArray) else counted
        return Found(total.contributors, np.asarray(self.result(keys, counts), np.float64))


class NoisyHistograms:
    """Knows the noise of the histograms among `parts` with these `keys`, for an observer of a run in one process."""

    def __init__(self, taps: Taps, parts: Sequence[Phase], keys: Any) -> None:
        self._keys, self._counts, self._drawn = keys, dict[bytes, Any](), dict[bytes, list[NDArray[np.int64]]]()
        self._parts: dict[int, tuple[Histogram, AggregatorNoise]] = {}
        for number, part in enumerate(parts, 1):
            if isinstance(part, Histogram) and (noise := part.noise(keys)) is not None:
                self._parts[number] = part, noise
        if self._parts:
            taps.computed.append(self._computed)

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep the noise that an aggregator draws, and the counts with that of both."""
        if len(arguments) == 5 and isinstance(arguments[4], AggregatorNoise):
            self._counts[arguments[0].context] = result
        elif len(arguments) == 4 and isinstance(arguments[2], AggregatorNoise):
            drawn = arguments[2].drawn(arguments[3], int(np.prod(arguments[0].task.shape)))
            self._drawn.setdefault(arguments[0].context, []).append(drawn)

    def without_noise(self, found: Mapping[str, Found]) -> Mapping[str, Found] | None:
        """The results that the parts have `found`, without noise; None where the noise of both is not known here.

        Raises ValueError where a result is not made of the counts with noise.
        """
        plain = dict(found)
        seen = dict(zip(self._parts, self._counts.items(), strict=False))  # batches in the order of their parts
        for number, (part, _) in self._parts.items():
            if part.name not in plain:
                continue
            context, counts = seen.get(number, (b"", None))
            drawn = self._drawn.get(context, [])
            if len(drawn) != 2 or counts is None or isinstance(counts, HollowArray):
                return None
            one = plain[part.name]
            if not np.array_equal(one.value, np.asarray(part.result(self._keys, counts), np.float64)):
                raise ValueError(f"the result of {part.name} is not that of its counts.")
            value = np.asarray(part.result(self._keys, counts - drawn[0] - drawn[1]), np.float64)
            plain[part.name] = replace(one, value=value)
        return plain

    def spent(self, begun: int, entropy: str) -> Spent | None:
        """The privacy that the counts of the first `begun` parts have spent together; None without any noise.

        Epsilons and deltas of parts add up.
        """
        if not self._parts:
            return None
        charged = [noise for number, (_, noise) in self._parts.items() if number <= begun]
        every = [noise for _, noise in self._parts.values()]
        return Spent(
            guaranteed=not seeded_caveats(entropy),
            caveats=seeded_caveats(entropy),
            mechanism="counts of categories with Skellam noise of each aggregator",
            neighbours="all data of one client, replaced",
            covers="whoever sees the counts, and the server or the helper, not both together",
            rounds=len(charged),
            planned=len(every),
            delta=sum(noise.delta for noise in every),
            delta_round=max(noise.delta for noise in every),
            epsilon=finite(sum(noise.spent(1) for noise in charged)),
            epsilon_round=finite(max(noise.spent(1) for noise in every)),
            noise=max(noise.deviation for noise in every),
        )
