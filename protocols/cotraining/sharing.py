"""The ways in which clients of co-training share predictions: the base class of all algorithms.

A client turns its predictions for the n public points into a message, the server merges the messages received, and
every client reads its targets from the result. All are pure computations, so that they may run anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.sim.compute import Work

__all__ = ["Needs", "Sharing", "Targets"]

Needs = Literal["nothing", "labels", "probabilities"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The targets for the n public points.

    `labels` is int64 (n,), -1 for points that are left out in this round. `probabilities`, float32 (n, classes), exist
    in algorithms that share more than labels, and replace the labels in training.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32] | None = None


class Sharing:
    """A way to share; picklable, and the same arguments give the same bytes. The base class shares nothing.

    `needs`: the part of its learner's predictions that a client shares. `countable`: labels whose counts a secure sum
    can compute. `collaborative`: clients learn from the merged result; otherwise they learn alone, share once, and only
    the server's student learns from it.
    """

    needs: ClassVar[Needs] = "nothing"
    countable: ClassVar[bool] = False
    collaborative: ClassVar[bool] = True

    def size(self, points: int, classes: int) -> int:
        """The bytes of one client's message."""
        return 0

    def merged_size(self, points: int, classes: int) -> int:
        """The bytes of the merged result."""
        return 0

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        """Encode a client's message: its learner's `labels` int64 (n,) and, if it `needs` them, probabilities (n,
        classes).

        Randomness comes from `seed`, which is different for each client and round.
        """
        return b""

    def check(self, sent: bytes, points: int, classes: int) -> None:
        """Raise ValueError if no client can have sent these bytes."""
        if sent:
            raise ValueError(f"{len(sent)} bytes where nothing is shared")

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        """Merge the messages received, at least one, in the clients' order."""
        return b""

    def agree(self, counts: NDArray[np.int64], voters: int, classes: int, seed: bytes) -> bytes:
        """Merge the `counts` (n, classes) of the labels of `voters`, which a secure sum has counted."""
        raise NotImplementedError(f"{type(self).__name__} shares no votes")

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        """Decode the targets of a client. Raises ValueError if no server can have sent `merged`."""
        self.check(merged, points, classes)
        return Targets(np.full(points, -1, np.int64))

    def canonical(self, merged: bytes, points: int, classes: int) -> bytes:
        """The one encoding of what `merged` says, by which clients compare it. Raises ValueError as `receive` does."""
        return merged

    def send_work(self, points: int, classes: int) -> Work:
        """The work of `send`."""
        return {}

    def agree_work(self, points: int, classes: int) -> Work:
        """The work of `agree`."""
        return {"vector.add": classes * points, "fields.pack": points}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        """The work of `merge` with the messages of `clients` clients."""
        return {}
