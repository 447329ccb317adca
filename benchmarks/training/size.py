"""The inputs and the results of the contenders of `tacit.benchmarks.training.speed`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.scenarios.schema.scenario import Scenario

__all__ = ["FULL", "LEARNING_RATE", "QUICK", "AfterRound", "Contender", "Federation", "Size", "layers"]

LEARNING_RATE = 0.05


@dataclass(frozen=True)
class Size:
    """The amount of training: `rounds` in a run, of which there are `turns` for each contender.

    `normalises`: the network normalises batches, so its statistics are averaged and reset as well.
    """

    rounds: int
    turns: int
    clients: int = 100
    images: int = 50
    cohort: int = 10
    batch: int = 10
    normalises: bool = False

    @property
    def steps(self) -> int:
        """The steps of gradient descent in a run."""
        return self.rounds * self.cohort * math.ceil(self.images / self.batch)


FULL = Size(rounds=100, turns=5)
QUICK = Size(rounds=10, turns=2)


@dataclass(frozen=True)
class Federation:
    """The input of every contender.

    `vector` is the first model's; in round r, cohorts[r] train, client c in the order orders[r][c] of its images.
    `images` are uint8 (clients, images, 28, 28), `labels` int64 (clients, images).
    """

    size: Size
    scenario: Scenario
    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    vector: bytes = field(repr=False)
    cohorts: list[list[int]] = field(repr=False)
    orders: list[dict[int, NDArray[np.int64]]] = field(repr=False)


def layers(*, normalises: bool = False) -> Any:
    """The layers of the network, newly made. `normalises`: each convolution is followed by batch normalisation."""
    from torch import nn

    norms = (lambda channels: [nn.BatchNorm2d(channels)]) if normalises else lambda channels: []
    return (
        nn.Conv2d(1, 16, 3), *norms(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), *norms(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


AfterRound = Callable[[], None]
"""A function that a contender calls after each of its rounds."""


@dataclass(frozen=True)
class Contender:
    """A contender. `run` trains and returns the last model's vector and the number of steps.

    `same`: it must end with the plain loop's model; `here`: it computes only in this process; `once`: it takes long,
    and is measured in the first turn only.
    """

    name: str
    run: Callable[[Federation, AfterRound], tuple[bytes, int]]
    same: bool = False
    here: bool = True
    once: bool = False
