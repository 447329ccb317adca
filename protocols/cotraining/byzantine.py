"""Byzantine clients of co-training: they learn like honest clients, and send false predictions.

Abourayya et al., Little is enough, appendix D.8, leaves open how they attack a consensus over hard labels. The attacks
implemented are

- `random`: each label is drawn at random from all classes;
- `flipped`: each label is replaced by the next class, so good predictions are always wrong, and those of several such
  clients mostly alike (label flipping);
- `colluding`: all send the same wrong label of a point in every round. They know the public points' true labels, of
  which each draws the same other one from a secret that they share; where none is known they all send the class drawn.
- `stuffed`: labels as of `flipped`, each counted `weight` times, with as many voters, so that the counts still add up;
- `scaled`: the client's own labels, counted in the same way;
- `noise`: numbers drawn at random in place of the counters of a vote.

The last three are possible only where nobody sees single votes, in a secure sum; where each client sends labels, they
are `flipped`, the client's own ones, and `random`. In a report of Prio3 they are what no honest client can share, and
its proof fails.

Where probabilities are shared, a lie has probability 1. A server cannot distinguish such a message from an honest one:
it has the same form. Of m clients whose labels were received, a majority holds where the Byzantine clients who agree
are fewer than the honest who do, and a qualified majority of quorum q has no consensus at all where more than (1 - q) m
lie.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.masking import Ring
from tacit.sim.streams import Entropy

__all__ = ["LIES", "Lie"]

LieKind = Literal["random", "flipped", "colluding", "stuffed", "scaled", "noise"]

LIES: tuple[LieKind, ...] = get_args(LieKind)
"""The kinds of attack."""


@dataclass(frozen=True, eq=False)
class Lie:
    """The attack of a Byzantine client. `truth`, int64 (n,), is known to colluding clients, -1 where it is unknown.

    `secret` is shared by them and the same in all rounds. `weight`: the votes of one client with "stuffed" and
    "scaled". Raises ValueError for another kind.
    """

    kind: LieKind
    truth: NDArray[np.int64]
    secret: bytes
    weight: int = 1000

    def __post_init__(self) -> None:
        if self.kind not in LIES:
            raise ValueError(f"kind(={self.kind!r}) must be one of {', '.join(LIES)}")

    @property
    def is_noise(self) -> bool:
        """True if the counters of a vote are drawn at random."""
        return self.kind == "noise"

    def labels(self, own: NDArray[np.int64], classes: int, seed: bytes) -> NDArray[np.int64]:
        """The labels to send instead of its `own` (n,); random ones are drawn from `seed`, which is new in each
        round."""
        if self.kind == "scaled":
            return own
        if self.kind in ("flipped", "stuffed"):
            return (own + 1) % classes
        if self.kind in ("random", "noise"):
            return _draw(Entropy.seeded(seed, "lie"), len(own), classes)
        other = 1 + _draw(Entropy.seeded(self.secret, "collusion"), len(own), max(1, classes - 1))
        return np.where(self.truth < 0, other % classes, (self.truth + other) % classes)

    def words(self, vote: Ring, seed: bytes) -> Ring:
        """The words to add to a secure sum instead of those of its `vote`."""
        if self.kind in ("stuffed", "scaled"):
            return vote * np.uint64(self.weight)  # counters do not carry while all together are below 2^16
        if self.kind == "noise":
            return Entropy.seeded(seed, "noise").array(len(vote))
        return vote

    def added(self, labels: NDArray[np.int64], classes: int, seed: bytes) -> NDArray[np.uint64] | None:
        """The numbers (n C,) to add to the shares of one-hot `labels`; None if the labels are sent unchanged."""
        if self.kind in ("stuffed", "scaled"):
            one_hot = labels[:, None] == np.arange(classes)
            return (one_hot * np.uint64(self.weight - 1)).astype(np.uint64).reshape(-1)
        if self.kind == "noise":
            return Entropy.seeded(seed, "noise").array(len(labels) * classes) >> np.uint64(1)
        return None


def _draw(entropy: Entropy, count: int, below: int) -> NDArray[np.int64]:
    """Random integers in [0, below), int64 (count,). The bias is below 2^-50 for any realistic number of classes."""
    return (entropy.array(count) % np.uint64(below)).astype(np.int64)
