"""The sources of the pseudo-labels of a round.

| labeller | pseudo-labels of a client's points |
| --- | --- |
| `NetworkLabeller` | the classes that the model of this round predicts, weighed by its confidence |
| `Alone` | label propagation among the client's own points, in the features of the model |
| `Across` | XCLP among the cohort, in the features of the model |
| `Once` | those of another labeller in the first round, kept from then on |

Paper: Scott, Yeo, Lampert (XCLP), Section 4.2: FedAvg+network, FedAvg+perclientLP and FedAvg+XCLP in `NetworkLabeller`,
`Alone` and `Across`; FedSem+ in `Once`. They are in `labellers`. A confidence is 1 - entropy / log C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.sim.compute import Work

__all__ = ["Labeller", "PseudoLabels", "by_class"]


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """The pseudo-labels of a client's n points: `labels` int64 (n,), -1 for none, and `weights` float32 (n,) in [0, 1].

    Entries of points that have a label do not count.
    """

    labels: NDArray[np.int64]
    weights: NDArray[np.float32]


def by_class(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """The factor n / (C count) of each point, float64 (n,): n labels in all, `count` of its class; 0 without a label.

    The authors' code counts the points of the whole cohort. Here a client counts its own `labels` (n,), -1 for none, of
    C `classes`, so that nothing more is revealed.
    """
    known = labels >= 0
    counts = np.bincount(labels[known], minlength=classes)
    return np.where(known, known.sum() / (classes * np.maximum(counts, 1)[labels]), 0.0)


class Labeller(Protocol):
    """A labeller.

    Client and server take their parts in a round concurrently; `waits`: the most deadlines that it takes.
    `uses_features`: it needs the network's features of points. `across`: it sums over the cohort, of at least `fewest`
    clients.
    """

    @property
    def waits(self) -> int: ...
    @property
    def uses_features(self) -> bool: ...
    @property
    def across(self) -> bool: ...
    @property
    def fewest(self) -> int: ...

    def work(self, points: int, labelled: bool) -> Work | None:
        """The first job of a client, or None; `labelled`: its points have had pseudo-labels before."""

    def plan(self, me: Client, members: Mapping[str, int]) -> None:
        """Announce the work of `me` among the `members` of a cohort with these numbers of points, besides `work`."""

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        """Make pseudo-labels of all points of `me`, a member of the cohort."""

    async def server(self, me: Server, members: Sequence[str]) -> None:
        """Take the server's part. Raises Abort if too few of `members` remain."""
