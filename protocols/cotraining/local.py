"""Every client learns by itself, from its own points: nothing is shared.

The server still opens rounds and clients answer, without any content, so that rounds are as those of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from protocols.cotraining.local_training import CotrainingMethod, Together
from protocols.cotraining.options import Options
from protocols.cotraining.sharing import Needs, Targets
from sim.compute import Work

__all__ = ["Nothing", "local"]


@dataclass(frozen=True)
class Nothing:
    """No content, either way."""

    needs: ClassVar[Needs] = "nothing"
    collaborative: ClassVar[bool] = True

    def size(self, points: int, classes: int) -> int:
        return 0

    def merged_size(self, points: int, classes: int) -> int:
        return 0

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        return b""

    def check(self, sent: bytes, points: int, classes: int) -> None:
        if sent:
            raise ValueError(f"{len(sent)} bytes where nothing is shared")

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        return b""

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        """No targets: no point is to be learnt."""
        self.check(merged, points, classes)
        return Targets(np.full(points, -1, np.int64))

    def send_work(self, points: int, classes: int) -> Work:
        return {}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        return {}


def local(options: Options) -> CotrainingMethod:
    """The method."""
    return CotrainingMethod(Nothing(), Together())
