"""How clients of co-training share their predictions: the base class of every algorithm's way.

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

    `labels` is int64 (n,), -1 for points that are left out this round; `probabilities`, float32 (n, classes), is of
    the algorithms that share more than labels, and is learnt in place of the labels.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32] | None = None


class Sharing:
    """One way to share; picklable, and the same arguments give the same bytes. This one shares nothing, either way.

    `needs`: what a client shares of its learner's predictions. `countable`: labels, of which a secure sum may count how
    many clients gave each. `collaborative`: clients learn from what is merged;
    otherwise they learn alone, share once, and only the server's student learns from it.
    """

    needs: ClassVar[Needs] = "nothing"
    countable: ClassVar[bool] = False
    collaborative: ClassVar[bool] = True

    def size(self, points: int, classes: int) -> int:
        """Bytes of one client's message."""
        return 0

    def merged_size(self, points: int, classes: int) -> int:
        """Bytes of what the server makes of them."""
        return 0

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        """A client's message: its learner's `labels` int64 (n,) and, if it `needs` them, probabilities (n, classes).

        Randomness comes from `seed`, the client's own of this round.
        """
        return b""

    def check(self, sent: bytes, points: int, classes: int) -> None:
        """Raise ValueError for what no client can have sent."""
        if sent:
            raise ValueError(f"{len(sent)} bytes where nothing is shared")

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        """Merge the messages received, at least one, in the clients' order."""
        return b""

    def agree(self, counts: NDArray[np.int64], voters: int, classes: int, seed: bytes) -> bytes:
        """Merge the `counts` (n, classes) of the labels of `voters`, where these can be counted in a secure sum."""
        raise NotImplementedError(f"{type(self).__name__} shares no votes")

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        """Return the targets of a client. Raises ValueError if no server can have sent `merged`."""
        self.check(merged, points, classes)
        return Targets(np.full(points, -1, np.int64))

    def send_work(self, points: int, classes: int) -> Work:
        """The work of `send`."""
        return {}

    def agree_work(self, points: int, classes: int) -> Work:
        """The work of `agree`."""
        return {"vector.add": classes * points, "fields.pack": points}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        """The work of `merge` with the messages of that number of clients."""
        return {}
