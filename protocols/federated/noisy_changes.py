"""The average of clipped changes with noise of the clients, by a secure sum of whole numbers (`privacy.noise =
"skellam"`).

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.*, sum.* | those of the sum | | | a secure sum in words of b bits or modulo p, without weight and loss |
| sum.reveal, noise.reveal | those of `removal` | | | seeds of noise for losses that did not happen |

Agarwal, Kairouz, Liu, The Skellam mechanism for differentially private federated learning, NeurIPS 2021; Jiang, Wang,
Chen, Dordis, EuroSys 2024 (noise that is removed again). A client that trains from y to y_i sends

    round(s R clip(y_i - y)) + noise,    clipped to the length c,

and the server adds the mean change to its own model: no number of the server's meets noise or rounding, and a server
that lies about y learns nothing from the rounding of what is added to y. A change that is not finite counts as zeros,
with all noise: a client that withdrew would show that its training diverged. Each change weighs 1; losses and counts
are not among the words.

Departures: two overlapping transforms instead of padding to a power of two (`privacy.rotated`); the signs of a round
follow from the run's id and the round's number, which no client chooses, instead of the set-up's digest.

Any secure sum that takes integers will do. What lets a server remove noise that is needed, other sets for other
clients, is prevented by the clients that sign U3 (`removal`). Without long-term keys nothing is removed: T is 0, or
noise is made for the smallest set (`privacy.components = "none"`), and a client answers only sets that are large enough
for that. With `secagg+` clients see their neighbours alone, so that U3 is no smaller is the server's word there, and
the guarantee holds against a server that follows the protocol.

Who learns what: the server, and any C clients with it, sees sums with noise of the variance V of the other clients, and
who takes part, which no noise covers. The guarantee is for replaced data of one client of a sum, and as good as AES and
HKDF. Every round to which clients were called is charged in full, whether a sum was opened or not, and whoever drew its
clients: noise that was not removed counts for accuracy alone.

More losses than are tolerated (`privacy.excess_losses`): `refuse` opens no such sum, so each round counts with V. With
`charge` and `end` it is opened over the clients that can sign, with all of their parts, and counts with what their
honest ones have added: less than V. With `end` a client keeps on its disk with how much noise each of its sums counts,
refuses a sum that would make its epsilon exceed `privacy.epsilon` even without another loss, and agrees to no set of
survivors with which it would; the server, which counts all rounds, opens no further round, and says so. A sum that was
not opened counts with the least noise that would have been accepted. So does one at a client that heard of its end
before it was shown the signatures: such a client may refuse a later round which the others can still take part in.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.federated.averaging import Averages, Expected, Update
from tacit.protocols.federated.secure_averages import Secure, SecureAveraging, colluding_of, fewest_hidden, written
from tacit.protocols.identities import is_signed
from tacit.protocols.outcome import Reason
from tacit.protocols.parts import Choice, Opening, Taken
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.promises import Trial
from tacit.protocols.sums import removal
from tacit.protocols.sums.secure_sum import Dealing, SecAgg
from tacit.protocols.sums.sum import Requests, Total
from tacit.sim.hollow import HollowArray
from tacit.sim.shares import rounded_down, rounded_up
from tacit.sim.trace import Fact
from tacit.sim.units import duration

__all__ = ["NoisyChanges", "NoisyChangesAveraging", "tolerated_of"]


@dataclass(frozen=True)
class NoisyChanges(Secure):
    """A secure sum of changes with `noise` of the clients; its mean is that of the changes. `sum` has the noise."""

    @property
    def noise(self) -> Distributed:
        """The noise of the clients. Raises ValueError for a sum without any."""
        if self.sum.noise is None:
            raise ValueError("a sum with noise of the clients was due.")
        return self.sum.noise

    @property
    def requests(self) -> Requests | None:
        return removal.asked(self.sum.requests, self.noise) if self.sum.few_sign else self.sum.requests

    @property
    def word_bits(self) -> int:
        return self.noise.word_bits

    @property
    def modulus(self) -> int:
        return self.noise.modulus

    def dimension(self, expected: Expected) -> int:
        return expected.numbers

    async def client(
        self, me: Client, update: Update, expected: Expected, least: int, deadline: float, called: int
    ) -> None:
        before = removal.counted(me)
        await super(NoisyChanges, self._after(before)).client(me, update, expected, least, deadline, called)

    async def server(
        self,
        me: Server,
        members: Sequence[str],
        expected: Expected,
        least: int,
        deadline: float,
        called: int,
    ) -> Averages:
        before: Sequence[int] = getattr(me, "noise_counted", ())
        return await super(NoisyChanges, self._after(before)).server(me, members, expected, least, deadline, called)

    def _after(self, before: Sequence[int]) -> "NoisyChanges":
        """This sum after sums with noise of the variances `before`, where these matter to it."""
        noise, one = self.noise, self.sum
        if noise.excess != "end" or not before or not isinstance(one, SecAgg):
            return self
        return replace(self, sum=replace(one, noise=noise.after(before)))

    def _contribution(self, me: Client, update: Update, expected: Expected) -> NDArray[Any]:
        if update.words is None:
            raise ValueError("a change in whole numbers was due.")
        return update.words

    async def _averages(self, me: Server, total: Total, expected: Expected, least: int) -> Averages:
        if total.noise is None:
            raise ValueError(f"the sum {self.name} carries no noise of clients, and is not read.")
        names = total.contributors
        change: list[NDArray[np.float64]] = []
        if not isinstance(total.ring, HollowArray):
            work, number = self.noise.mean_work(), me.round
            change = [await me.compute(work, self.noise.mean, total.ring, me.world.run_id, number, len(names))]
        return Averages(names, written(me, change, expected), 0.0, noise=total.noise)


def tolerated_of(tables: Any, called: int) -> int:
    """T: how many of the `called` clients may be lost in a sum so that enough noise is left."""
    return rounded_down(tables.privacy.tolerated, called)


@dataclass(frozen=True)
class NoisyChangesAveraging(SecureAveraging):
    """A secure average as a part of private training, in which clients may add removable noise."""

    @property
    def takes(self) -> Sequence[Taken]:
        part = removal.Removal(self.of.few_sign)
        return (*super().takes, Choice("privacy.noise", {"skellam": part}))

    def least(self, tables: Any, clients: int) -> int:
        """The fewest changes of an average: removable noise is not made for a smallest number, so no more is due."""
        if tables.privacy.noise != "skellam":
            return super().least(tables, clients)
        colluding = colluding_of(tables, clients)
        hidden = fewest_hidden(clients, False, 0 if self.of.tolerates_share else colluding)
        return int(max(colluding + 2, tables.training.fewest(hidden)))

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line that states for how many losses the clients' noise is made."""
        if tables.privacy.noise != "skellam":
            return super().notes(tables, shards)
        called = rounded_up(tables.training.share, tables.data.clients)
        lost, colluding = tolerated_of(tables, called), max(1, colluding_of(tables, called))
        what = f"{lost} may be lost after they agreed to a sum, and the noise of {colluding} is not counted"
        if tables.privacy.excess_losses != "refuse":
            what += "; with more losses a sum has less noise, and counts accordingly"
        found = [f'privacy.noise = "skellam": of {called} clients {what}']
        if (opened := self._most_lost(tables, called)) < lost:
            cause = f"with sum.tolerated_dropouts = {tables.sum.tolerated_dropouts:g}"
            cause = cause if self.of.tolerates_share else "without signatures"
            found.append(f"{cause} a sum is opened with at most {opened} losses, not {lost}")
        return super().notes(tables, shards) + found

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """The clients that refused a sum for their epsilon, because they count an earlier sum with less noise than the
        server does."""
        yield from super().suffering(trial)
        known = Counter(trial.simulation.server.noise_counted)
        less = {one.name for one in trial.simulation.clients if Counter(removal.counted(one)) - known}
        wait = duration(trial.scenario.protocol.deadline)  # until the server goes on without it
        for event in trial.events:
            if event.party in less and event.fact == Fact.REFUSED and Reason.of(event.detail).kind == removal.NO_BUDGET:
                yield (event.party,), event.time + wait

    def _most_lost(self, tables: Any, called: int) -> int:
        """The most losses with which numbers alone let a sum be opened among all that are `called`."""
        opens = self.openings(tables, called)[0].opens
        counts = range(tolerated_of(tables, called), -1, -1)
        return next((lost for lost in counts if opens(called, called - lost) != 0.0), 0)

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """With removable noise, a sum is opened with at most T losses, or with more while these may be charged."""
        if tables.privacy.noise != "skellam":
            return super().openings(tables, called)
        lost, least = tolerated_of(tables, called), self.least(tables, called)
        (found,) = super().openings(tables, called)
        if tables.privacy.excess_losses == "charge":
            return [found]
        if tables.privacy.excess_losses == "end":

            def allowed(joined: int, left: int) -> float | None:
                chance = found.opens(joined, left)
                return None if chance and joined - left > lost else chance

            return [replace(found, opens=allowed, spends=True)]
        (of_most,) = self._openings(tables, called, max(least, called - lost))
        colluding, unsigned = colluding_of(tables, called), issubclass(self.of, Dealing) and not is_signed(tables)

        def opens(joined: int, left: int) -> float | None:
            chance, fewest = found.opens(joined, left), joined - lost
            if unsigned and chance is not None:  # each client may be shown survivors of its own
                threshold = quorum.threshold_of(None, joined, max(1, colluding))
                fewest = quorum.fewest_left(joined, threshold, fewest, max(1, colluding))
            return chance if left >= fewest else 0.0

        fewest = max(found.fewest, lost + max(1, colluding) + 2)
        return [replace(found, fewest=fewest, opens=opens, drawn=of_most.drawn)]
