"""The interface of learners, which learn labels from points and predict them; and networks as learners.

A learner is a small record of settings that can be sent to a worker. Everything it has learned is in its state, a byte
string. Co-training needs only this interface: fit, predict, and a state to keep.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.spec import ModelSpec
from tacit.sim.compute import Work

__all__ = ["BatchLearner", "Learner", "NetworkLearner", "SoftLearner"]

Points = NDArray[np.generic]
Labels = NDArray[np.int64]


class Learner(Protocol):
    """The settings of a learner; picklable, and the same arguments give the same bytes.

    If `warm`, `fit` continues from the state that it is given; otherwise it ignores that state and starts from a new
    one.
    """

    @property
    def warm(self) -> bool:
        return False

    def initial(self, seed: int | bytes) -> bytes:
        """The state of an untrained learner."""

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state after learning from points (n, ...) with known labels int64 (n,)."""

    def predict(self, state: bytes, points: Points) -> Labels:
        """The label of every point, int64 (n,): the likeliest class; ties go to the lower one."""
        return self.probabilities(state, points).argmax(1)

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        """The probability of each class for every point, float32 (n, classes)."""

    def fit_work(self, points: int) -> Work:
        """The work of `fit` on `points` points."""

    def predict_work(self, points: int) -> Work:
        """The work of `predict` or `probabilities` for `points` points."""


@runtime_checkable
class SoftLearner(Learner, Protocol):
    """A learner that can also learn from the probability of each class."""

    def fit_soft(self, state: bytes, points: Points, targets: NDArray[np.float32], seed: int | bytes) -> bytes:
        """The state after learning from `targets` (n, classes), rows of probabilities; the work is that of `fit`."""


@runtime_checkable
class BatchLearner(Learner, Protocol):
    """A learner trained in batches, which can take a batch from each of several sets of points in every step."""

    def fit_parts(
        self, state: bytes, points: Points, labels: Labels, seed: int | bytes, parts: tuple[int, ...]
    ) -> bytes:
        """The state after training like `fit`, with a batch of each part in every step; `parts` are sizes of
        consecutive parts."""

    def parts_work(self, parts: tuple[int, ...]) -> Work:
        """The work of `fit_parts` on parts of these sizes."""


@dataclass(frozen=True)
class NetworkLearner(SoftLearner, BatchLearner):
    """A network trained by Adam (Kingma and Ba 2015), as in federated co-training's experiments.

    `fit` takes `steps` batches of `batch` points from shuffled passes over the data. The state is the number of steps
    taken so far, the network's vector, and Adam's two moments, so that training continues as if it had not been
    interrupted. A learner that is not `warm` draws a new network for each `fit`. Raises ValueError.
    """

    spec: ModelSpec
    learning_rate: float = 0.001
    batch: int = 64
    steps: int = 10
    warm: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        if not self.learning_rate > 0 or self.batch < 1 or self.steps < 0:
            given = f"learning_rate(={self.learning_rate}), batch(={self.batch}) and steps(={self.steps})"
            raise ValueError(f"{given} must be > 0, >= 1 and >= 0")

    def initial(self, seed: int | bytes) -> bytes:
        """The state of a new network, drawn from the stream (seed, "initial")."""
        from tacit.parties.learning import adam

        return adam.initial(self.spec, seed)

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state after training. Raises ValueError for a state of another length and for labels out of range."""
        from tacit.parties.learning import adam

        begin = state if self.warm else adam.initial(self.spec, seed)
        return adam.fit(self.spec, begin, points, labels, seed, self.learning_rate, self.batch, self.steps, self.device)

    def fit_parts(
        self, state: bytes, points: Points, labels: Labels, seed: int | bytes, parts: tuple[int, ...]
    ) -> bytes:
        """The state after training. Raises ValueError as `fit`, and if `parts` are not all points."""
        from tacit.parties.learning import adam

        begin = state if self.warm else adam.initial(self.spec, seed)
        return adam.fit(
            self.spec, begin, points, labels, seed, self.learning_rate, self.batch, self.steps, self.device, parts
        )

    def fit_soft(self, state: bytes, points: Points, targets: NDArray[np.float32], seed: int | bytes) -> bytes:
        """The state after training on cross-entropy. Raises ValueError for a state or targets of another shape."""
        from tacit.parties.learning import adam

        begin = state if self.warm else adam.initial(self.spec, seed)
        return adam.fit(
            self.spec, begin, points, targets, seed, self.learning_rate, self.batch, self.steps, self.device
        )

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        from tacit.parties.learning import adam, inference

        return inference.probabilities(self.spec, adam.parameters(self.spec, state), points, self.device)

    def fit_work(self, points: int) -> Work:
        from tacit.parties.learning import work

        return work.steps_work(self.spec, self.steps, min(self.batch, points))

    def parts_work(self, parts: tuple[int, ...]) -> Work:
        from tacit.parties.learning import work

        return work.steps_work(self.spec, self.steps, sum(min(self.batch, part) for part in parts))

    def predict_work(self, points: int) -> Work:
        from tacit.parties.learning import work

        return work.embed_work(self.spec, points)
