"""Tasks: the loss, the predictions and the metrics of what a network learns. This module needs no torch.

| task | labels of a point | outputs | loss | metrics |
| --- | --- | --- | --- | --- |
| `classification` | its class | a logit for each class | cross-entropy | accuracy |
| `regression` | k numbers | k numbers | mean squared error | rmse, mae |
| `next-token` | the token after each of its tokens | a logit for each token of the vocabulary, at each place |
  cross-entropy over the places | accuracy, perplexity |
| `multi-label` | a zero or one for each of k labels | k logits | binary cross-entropy, mean over the labels |
  f1 (macro), accuracy |

A run names its task by `training.task`, and `ModelSpec.task` carries the name to all that trains, predicts or measures.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.sim.registry import Registry

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, nn
    from tacit.parties.learning.spec import ModelSpec

__all__ = [
    "TASKS",
    "Batch",
    "Classification",
    "MultiLabel",
    "NextToken",
    "Regression",
    "Task",
    "TaskKind",
    "task_of",
]  # fmt: skip


@cache
def _functional() -> Any:
    """The module torch.nn.functional, which losses look up for each batch."""
    from tacit.parties.learning.backend import nn

    return nn.functional


@dataclass
class Batch:
    """One batch of n points: their `inputs`, augmented, `(n, *shape)`, and `targets` `(n, ...)`.

    The first `labeled` of them have labels. `view(augmentation)` gives the same inputs augmented again, by the update's
    augmentation or by the one named. For images and their classes, `images`, `labels` and `logits` are further names of
    inputs, targets and outputs.
    """

    inputs: "Tensor"
    targets: "Tensor"
    labeled: int
    network: "nn.Module"
    view: "Callable[..., Tensor]"
    _outputs: "Tensor | None" = None

    @property
    def outputs(self) -> "Tensor":
        """The network's outputs for the inputs, with gradient, computed at first use."""
        found = self._outputs  # a cached_property takes a lock, which costs as much as a small operation
        if found is None:
            found = self._outputs = self.network(self.inputs)
        return found

    @property
    def images(self) -> "Tensor":
        return self.inputs

    @property
    def labels(self) -> "Tensor":
        return self.targets

    @property
    def logits(self) -> "Tensor":
        return self.outputs


class Task:
    """The base of all tasks. A task of one's own defines `loss` and `metrics`; it holds no state.

    `form` is the form of the labels that it learns, one of `tacit.parties.data.dataset.FORMS`. `score` names the metric
    that stands for the whole: it selects the model of the best round, the largest value if `larger_is_better`.
    """

    form: ClassVar[str] = "class"
    score: ClassVar[str] = "loss"
    larger_is_better: ClassVar[bool] = False

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        """The loss of each point of `batch`, (n,), or their mean, a single number.

        `batch.outputs` are `model(batch.inputs)`, computed once at first use. With the loss of each point, points that
        have weights count as much as these say.
        """
        raise NotImplementedError

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.generic]:
        """The predictions for n points, from the network's outputs for them (n, ...)."""
        return outputs

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[Any]) -> Mapping[str, float]:
        """Named numbers that compare the network's outputs for n points with their targets (n, ...).

        They are computed over all test points, or over those of one client or class. The mean loss is measured
        without it, under the name "loss".
        """
        return {}

    def outputs(self, spec: "ModelSpec") -> tuple[int, ...] | None:
        """The shape of the outputs for one point, which is checked before a run; None allows any."""
        return (*spec.target, spec.classes) if self.form == "tokens" else (spec.classes,)

    def blank(self, spec: "ModelSpec", points: int) -> "Tensor":
        """Targets of zeros for that many points, in the type in which `loss` gets them."""
        from tacit.parties.learning.backend import torch

        whole = self.form in ("class", "tokens")
        return torch.zeros((points, *spec.target), dtype=torch.int64 if whole else torch.float32)


class Classification(Task):
    """Each point has one class: cross-entropy of logits (n, classes); the target is the class, int64 (n,)."""

    score = "accuracy"
    larger_is_better = True

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        return _functional().cross_entropy(batch.outputs, batch.targets, ignore_index=-1, reduction="none")

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest class of each point, int64 (n,); ties go to the lower class."""
        from tacit.parties.learning.backend import torch

        return torch.from_numpy(outputs).softmax(1).numpy().argmax(1)

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[Any]) -> Mapping[str, float]:
        """The accuracy: the share of points whose class is predicted correctly."""
        return {"accuracy": float((self.predict(outputs) == targets).mean())}


class Regression(Task):
    """Each point has k numbers, float32 (n, k): the mean of their squared errors. A point with an unknown one is left
    out of training and of metrics."""

    form = "numbers"
    score = "rmse"

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        return (batch.outputs - batch.targets).square().mean(1)

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[Any]) -> Mapping[str, float]:
        """The root of the mean squared error, and the mean absolute error."""
        errors = outputs.astype(np.float64) - targets
        return {"rmse": math.sqrt(np.square(errors).mean()), "mae": float(np.abs(errors).mean())}


class NextToken(Task):
    """Each point is a sequence of tokens; the target is the token after each of them, int64 (n, length), -1 for none.

    The network gets tokens, int64 (n, length), and gives logits (n, length, vocabulary). The loss of a point is the
    mean over its places that have a target.
    """

    form = "tokens"
    score = "accuracy"
    larger_is_better = True

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        from tacit.parties.learning.backend import nn

        places = batch.outputs.transpose(1, 2)
        losses = nn.functional.cross_entropy(places, batch.targets, ignore_index=-1, reduction="none")
        return losses.sum(1) / (batch.targets >= 0).sum(1).clamp(min=1)

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest token at each place, int64 (n, length)."""
        return outputs.argmax(2)

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[Any]) -> Mapping[str, float]:
        """The share of tokens predicted correctly, and the exponential of their mean cross-entropy."""
        from tacit.parties.learning.backend import nn, torch

        known = targets >= 0
        hits = self.predict(outputs)[known] == targets[known]
        scores, wanted = torch.from_numpy(outputs[known]), torch.from_numpy(targets[known])
        entropy = float(nn.functional.cross_entropy(scores.double(), wanted))
        return {"accuracy": float(hits.mean()), "perplexity": math.exp(min(entropy, 700.0))}


class MultiLabel(Task):
    """Each point has any of k labels, float32 (n, k) of zeros and ones: the mean binary cross-entropy of k logits."""

    form = "several"
    score = "f1"
    larger_is_better = True

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        from tacit.parties.learning.backend import nn

        losses = nn.functional.binary_cross_entropy_with_logits(batch.outputs, batch.targets, reduction="none")
        return losses.mean(1)

    def predict(self, outputs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """A one for each label with a probability of at least a half, uint8 (n, k)."""
        return (outputs >= 0).astype(np.uint8)

    def metrics(self, outputs: NDArray[np.float32], targets: NDArray[Any]) -> Mapping[str, float]:
        """The F1 score, macro-averaged over the labels (0 for one that is never there nor predicted), and the share of
        zeros and ones predicted correctly."""
        from sklearn.metrics import f1_score

        found = self.predict(outputs)
        return {
            "f1": float(f1_score(targets, found, average="macro", zero_division=0)),
            "accuracy": float((found == targets).mean()),
        }


@dataclass(frozen=True)
class TaskKind:
    """A task with its description."""

    description: str
    task: Task


TASKS: Registry[TaskKind] = Registry(
    "task",
    {
        "classification": TaskKind("one class for each point, by cross-entropy", Classification()),
        "regression": TaskKind("numbers for each point, by squared errors", Regression()),
        "next-token": TaskKind("the next token at each place of a sequence, by cross-entropy", NextToken()),
        "multi-label": TaskKind("any of several labels for each point, by binary cross-entropy", MultiLabel()),
    },
)
"""The tasks by name."""


def task_of(name: str) -> Task:
    """The task `name`. Raises UnknownNameError."""
    return TASKS[name].task
