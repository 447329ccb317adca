"""DD, distributed distillation: clients share the probability of each class, and learn from their mean.

Paper: Bistritz, Mann, Bambos, Distributed distillation for on-device learning, NeurIPS 2020. There devices have no
server and come to a mean by gossip, with a penalty for being far from it. Here, as where co-training is compared with
it (Abourayya et al., section 5), a server takes the mean, which is what gossip converges to, and clients learn it as
soft labels of the public points, beside their own points, by cross-entropy.

A message is 4 C bytes a point, up and down: float32.

Revealed: the server sees every probability; clients see the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.vectors import average, decode, encode
from tacit.protocols.cotraining.sharing import Needs, Sharing, Targets
from tacit.sim.compute import Work

__all__ = ["SoftLabels"]

_ROUNDING = 1e-3


@dataclass(frozen=True)
class SoftLabels(Sharing):
    """Shares probabilities; the server sends their mean. All clients have equal weight."""

    needs: ClassVar[Needs] = "probabilities"

    def size(self, points: int, classes: int) -> int:
        return 4 * points * classes

    def merged_size(self, points: int, classes: int) -> int:
        return 4 * points * classes

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        assert probabilities is not None  # it needs them
        return encode(probabilities)

    def check(self, sent: bytes, points: int, classes: int) -> None:
        _read(sent, points, classes)

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        return average(sent)

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        mean = _read(merged, points, classes)
        return Targets(mean.argmax(1), mean)

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        return {"vector.add": clients * points * classes}


def _read(data: bytes, points: int, classes: int) -> NDArray[np.float32]:
    """Decode probabilities (points, classes). Raises ValueError if they are invalid."""
    if len(data) != 4 * points * classes:
        raise ValueError(f"{len(data)} bytes, not the {4 * points * classes} of {points} x {classes} probabilities")
    found = decode(data).reshape(points, classes)
    if not (np.isfinite(found).all() and (found >= 0).all() and (np.abs(found.sum(1) - 1) < _ROUNDING).all()):
        raise ValueError("the probabilities of a point do not sum to 1")
    return found
