"""Tasks: the loss, the predictions and the metrics of what a network learns. This module needs no torch.

A run names its task by `training.task`, and `ModelSpec.task` carries the name to all that trains, predicts or measures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.sim.registry import Registry

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor
    from tacit.parties.learning.local_update import Batch
    from tacit.parties.learning.networks import NeuralNetwork

__all__ = ["TASKS", "Classification", "Task", "TaskKind", "task_of"]


class Task:
    """The base of all tasks. A task of one's own defines `loss` and `metrics`; it holds no state.

    `score` names the metric that stands for the whole: it selects the model of the best round, the largest value if
    `larger_is_better`.
    """

    score: ClassVar[str] = "loss"
    larger_is_better: ClassVar[bool] = False

    def loss(self, model: "NeuralNetwork", batch: "Batch") -> "Tensor":
        """The loss of each point of `batch`, (n,), or their mean, a single number.

        `batch.outputs` are `model(batch.inputs)`, computed once at first use. With the loss of each point, points that
        have weights count as much as these say.
        """
        raise NotImplementedError

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.generic]:
        """The predictions for n points, from the network's outputs for them (n, ...)."""
        return outputs

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[np.generic]) -> Mapping[str, float]:
        """Named numbers that compare the network's outputs for n points with their targets (n, ...).

        They are computed over all test points, or over those of one client or class. The mean loss is measured
        without it, under the name "loss".
        """
        return {}


class Classification(Task):
    """Each point has one class: cross-entropy of logits (n, classes); the target is the class, int64 (n,)."""

    score = "accuracy"
    larger_is_better = True

    def loss(self, model: "NeuralNetwork", batch: "Batch") -> "Tensor":
        from tacit.parties.learning.backend import nn

        return nn.functional.cross_entropy(batch.outputs, batch.targets, ignore_index=-1, reduction="none")

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest class of each point, int64 (n,); ties go to the lower class."""
        from tacit.parties.learning.backend import torch

        return torch.from_numpy(outputs).softmax(1).numpy().argmax(1)

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[np.generic]) -> Mapping[str, float]:
        """The accuracy: the share of points whose class is predicted correctly."""
        return {"accuracy": float((self.predict(outputs) == targets).mean())}


@dataclass(frozen=True)
class TaskKind:
    """A task with its description."""

    description: str
    task: Task


TASKS: Registry[TaskKind] = Registry(
    "task", {"classification": TaskKind("one class for each point, by cross-entropy", Classification())}
)
"""The tasks by name."""


def task_of(name: str) -> Task:
    """The task `name`. Raises UnknownNameError."""
    return TASKS[name].task
