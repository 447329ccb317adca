"""The average of clipped changes with noise of the clients, by a secure sum of whole numbers (`privacy.noise =
"skellam"`).

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.*, sum.* | those of `setup` and `secure_sum` | | | a secure sum in words of b bits, without weight and loss |
| sum.reveal | NoiseSeeds | client -> server | 16 a seed | `removal`: seeds of noise for losses that did not happen |

Agarwal, Kairouz, Liu, The Skellam mechanism for differentially private federated learning, NeurIPS 2021; Jiang, Wang,
Chen, Dordis, EuroSys 2024 (noise that is removed again). A client that trains from y to y_i sends

    round(s R clip(y_i - y)) + noise,    clipped to the length c,

and the server adds the mean change to its own model: no number of the server's meets noise or rounding, and a server
that lies about y learns nothing from the rounding of what is added to y. A change that is not finite counts as zeros,
with all noise: a client that withdrew would show that its training diverged. Each change weighs 1; losses and counts
are not among the words.

Departures: two overlapping transforms instead of padding to a power of two (`privacy.rotated`); the signs of a round
follow from the run's id and the round's number, which no client chooses, instead of the set-up's digest.

Who learns what: the server, and any C clients with it, sees sums with noise of the variance V of the other clients, and
who takes part, which no noise covers. The guarantee is for replaced data of one client of a sum, and as good as AES and
HKDF. Every round to which clients were called is charged in full, whether a sum was opened or not, and whoever drew its
clients: noise that was not removed counts for accuracy alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.federated.averaging import (
    Averages,
    Expected,
    Secure,
    SecureAveraging,
    Update,
    colluding_of,
    fewest_hidden,
    written,
)
from tacit.protocols.parts import Choice, Opening, Taken
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.sums import removal
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Total
from tacit.sim.hollow import HollowArray
from tacit.sim.shares import rounded_down, rounded_up

__all__ = ["NoisyChanges", "NoisyChangesAveraging", "tolerated_of"]


@dataclass(frozen=True)
class NoisyChanges(Secure):
    """A secure sum of changes with `noise` of the clients; its mean is that of the changes. `sum` has the noise."""

    @property
    def noise(self) -> Distributed:
        """The noise of the clients. Raises ValueError for a sum without any."""
        if not isinstance(self.sum, SecAgg) or self.sum.noise is None:
            raise ValueError("a sum with noise of the clients was due.")
        return self.sum.noise

    @property
    def word_bits(self) -> int:
        return self.noise.word_bits

    def dimension(self, expected: Expected) -> int:
        return expected.numbers

    def _contribution(self, me: Client, update: Update, expected: Expected) -> NDArray[Any]:
        if update.words is None:
            raise ValueError("a change in whole numbers was due.")
        return update.words

    async def _averages(self, me: Server, total: Total, expected: Expected, least: int) -> Averages:
        names = total.contributors
        change: list[NDArray[np.float64]] = []
        if not isinstance(total.ring, HollowArray):
            work, number = self.noise.rounded_work(), me.round
            change = [await me.compute(work, self.noise.mean, total.ring, me.world.run_id, number, len(names))]
        return Averages(names, written(me, change, expected), 0.0)


def tolerated_of(tables: Any, called: int) -> int:
    """T: how many of the `called` clients may be lost in a sum so that enough noise is left."""
    return rounded_down(tables.privacy.tolerated, called)


@dataclass(frozen=True)
class NoisyChangesAveraging(SecureAveraging):
    """A secure average as a part of private training, in which clients may add removable noise."""

    @property
    def takes(self) -> Sequence[Taken]:
        return (*super().takes, Choice("privacy.noise", {"skellam": removal.Removal()}))

    def least(self, tables: Any, clients: int) -> int:
        """The fewest changes of an average: removable noise is not made for a smallest number, so no more is due."""
        if tables.privacy.noise != "skellam":
            return super().least(tables, clients)
        colluding = colluding_of(tables, clients)
        return int(max(colluding + 2, tables.training.fewest(fewest_hidden(clients, False, colluding))))

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line that states for how many losses the clients' noise is made."""
        if tables.privacy.noise != "skellam":
            return super().notes(tables, shards)
        called = rounded_up(tables.training.share, tables.data.clients)
        lost, colluding = tolerated_of(tables, called), max(1, colluding_of(tables, called))
        what = f"{lost} may be lost after they agreed to a sum, and the noise of {colluding} is not counted"
        return [f'privacy.noise = "skellam": of {called} clients {what}']

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """With removable noise, a sum is opened with at most T losses."""
        found = super().openings(tables, called)
        if tables.privacy.noise != "skellam":
            return found
        lost = tolerated_of(tables, called)

        def opens(joined: int, left: int) -> float | None:
            return found[0].opens(joined, left) if left >= joined - lost else 0.0

        return [replace(found[0], opens=opens)]
