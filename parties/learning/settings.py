"""The arguments and the result of a client's local update; needs no torch."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.additions import Addition
from tacit.parties.learning.plain_update import PlainUpdate

__all__ = ["LocalData", "LocalUpdate", "Trained"]


@dataclass(frozen=True, eq=False)
class LocalData:
    """A client's n points.

    `images` are uint8 (n, height, width, channels), which stand for value / 255, or numbers unchanged: (n, *shape) with
    the network's shape, or flat, (n, d), in the order height, width, channels. `labels` is int64 (n,): the label, or
    pseudo-label, or -1 for neither; `weights`, float32 (n,) >= 0, the confidence in it (1 for a label); `labeled`, bool
    (n,), is true for labels and false for pseudo-labels. Points with label -1 are used only by additions. Raises
    ValueError if lengths differ.
    """

    images: NDArray[np.generic] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    labeled: NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        lengths = [len(column) for column in (self.images, self.labels, self.weights, self.labeled)]
        if len(set(lengths)) > 1:
            raise ValueError(f"images, labels, weights and labeled have lengths {lengths}; all must be the same")
        if (self.labels[self.labeled] < 0).any():
            raise ValueError("a labeled point has label -1")

    @classmethod
    def supervised(cls, images: NDArray[np.generic], labels: NDArray[np.int64]) -> "LocalData":
        """Make data in which all points have labels."""
        return cls(images, labels, np.ones(len(labels), np.float32), np.ones(len(labels), np.bool_))


@dataclass(frozen=True)
class LocalUpdate(PlainUpdate):
    """The settings of local training, with the `additions` of a method (FedProx, SCAFFOLD, a mean teacher, ...).

    The additions are called in the given order. Raises ValueError.
    """

    additions: tuple[Addition, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for addition in self.additions:
            addition.check(self)

    def usable(self, data: LocalData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of `data` that this update trains on: the labeled ones, and the others."""
        others = ~data.labeled
        if not any(addition.unlabeled for addition in self.additions):
            others &= data.labels >= 0
        return np.flatnonzero(data.labeled), np.flatnonzero(others)


@dataclass(frozen=True)
class Trained:
    """A local update's result.

    `parameters` is the network's vector. For each addition, `sent` are bytes to send to the server with the vector, and
    `kept` bytes that the client keeps on its disk for its next update (both may be empty). `steps` is the number of
    batches; `loss` is their mean loss including the terms of additions, nan without a step.
    """

    parameters: bytes = field(repr=False)
    sent: tuple[bytes, ...] = field(default=(), repr=False)
    kept: tuple[bytes, ...] = field(default=(), repr=False)
    steps: int = 0
    loss: float = math.nan
