"""FedCT: clients share hard labels, and learn from the consensus.

Paper: Abourayya et al., Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised
learning, Algorithm 1. Every client labels the public points, the server takes a consensus over the labels received, and
each client adds the public points with it to its own until the next.

- `majority`: the label that most clients gave, ties go to the lowest. Every point has one.
- `qualified`: the same where at least ceil(quorum m) of the m clients whose labels were received gave it; points
  without are left out until the next consensus (section 5, appendix D.6).

A message up is ceil(log2 C) bits a point. So is one down by majority; the qualified consensus has a symbol for "none"
and takes ceil(log2 (C + 1)).

Revealed: the server sees which label each client gives each public point; clients see the consensus.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.cotraining import packing
from tacit.protocols.cotraining.consensus import majority, majority_of, qualified, qualified_of
from tacit.protocols.cotraining.sharing import Needs, Sharing, Targets
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError

__all__ = ["HardLabels"]


@dataclass(frozen=True)
class HardLabels(Sharing):
    """Shares labels; the server sends the consensus. Raises ValueError."""

    consensus: Literal["majority", "qualified"] = "majority"
    quorum: float = 0.9
    needs: ClassVar[Needs] = "labels"
    countable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.consensus not in ("majority", "qualified"):
            raise SettingError("consensus", self.consensus, "must be majority or qualified")
        if not 0.0 < self.quorum <= 1.0:
            raise SettingError("quorum", self.quorum, "must be above 0, at most 1")

    @property
    def gaps(self) -> bool:
        """True if points may have no consensus."""
        return self.consensus == "qualified"

    def size(self, points: int, classes: int) -> int:
        return packing.packed_bytes(points, classes)

    def merged_size(self, points: int, classes: int) -> int:
        return packing.packed_bytes(points, classes, self.gaps)

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        return packing.pack(labels, classes)

    def check(self, sent: bytes, points: int, classes: int) -> None:
        packing.unpack(sent, points, classes)

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        labels = np.stack([packing.unpack(one, points, classes) for one in sent])
        agreed = qualified(labels, classes, self.quorum) if self.gaps else majority(labels, classes)
        return packing.pack(agreed, classes, self.gaps)

    def agree(self, counts: NDArray[np.int64], voters: int, classes: int, seed: bytes) -> bytes:
        agreed = qualified_of(counts, voters, self.quorum) if self.gaps else majority_of(counts, voters)
        return packing.pack(agreed, classes, self.gaps)

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        return Targets(packing.unpack(merged, points, classes, self.gaps))

    def send_work(self, points: int, classes: int) -> Work:
        return {"fields.pack": points}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        """The work of `merge`; labels are unpacked twice, for checking and for counting."""
        return {
            "fields.unpack": 2 * clients * points,
            "vector.add": (clients + classes) * points,
            "fields.pack": points,
        }
