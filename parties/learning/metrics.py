"""Metrics of predictions, all computed by scikit-learn: of a model's outputs, or of counts that several parties add.

| metric | of classes |
| --- | --- |
| `test_loss` | the mean loss of the task |
| `accuracy` | the share of points whose class is predicted |
| `balanced_accuracy` | the mean over the classes of the share of their points that are predicted |
| `macro_f1` | the mean over the classes of F1 |
| `auroc` | the area under the ROC curve: of the second of two classes, or the mean over one against the rest |

Counts: the number of points of each class (row) that are predicted to be of each class (column), and the sum of the
losses. They add up exactly over parties, so that all metrics but the last follow from them as from the points
themselves. The area under the ROC curve follows from no such counts. For metrics of a user's own (`Task.metrics`), and
for those of tasks without classes, parties add metric times points: the result is their mean, weighted by points.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Classification, Task, task_of

__all__ = [
    "OF_CLASSES",
    "OF_COUNTS",
    "ClassCounts",
    "Counts",
    "Metric",
    "by_class",
    "counting",
    "counts_of",
    "has_classes",
    "metric_name",
    "of_classes",
    "of_outputs",
    "score_name",
    "sums_of",
    "width",
]


@dataclass(frozen=True)
class Metric:
    """A metric with its description."""

    description: str


OF_CLASSES = {
    "test_loss": Metric("mean loss"),
    "balanced_accuracy": Metric("mean of the accuracies of the classes"),
    "macro_f1": Metric("mean of the F1 scores of the classes"),
    "auroc": Metric("area under the ROC curve, one class against the rest"),
}
"""The metrics of classes that `training.metrics` may name, besides those of the task."""

OF_COUNTS = ("accuracy", "balanced_accuracy", "macro_f1")
"""The metrics of classes that follow from counts of points (`of_classes`)."""


def metric_name(name: str) -> str:
    """The name under which a metric of a task is recorded: `test_loss` and `test_accuracy`, as there are others.

    So are names that begin like those of figures of clients.
    """
    return f"test_{name}" if name in _OTHERS or name.startswith(("clients_", "fit_")) else name


_OTHERS = (
    "loss", "accuracy", "validation", "pseudo_accuracy", "clipped", "largest", "staleness",
    "round", "began", "ended", "seconds", "called", "answers", "messages", "bytes", "problem", "cohort", "answered",
)  # fmt: skip
"""The columns that rounds have besides the metrics of a task."""


def score_name(task: Task) -> str:
    """The name under which the score of a task is recorded: "accuracy", or that of its other metric."""
    return task.score if task.score == "accuracy" else metric_name(task.score)


def has_classes(spec: ModelSpec) -> bool:
    """True if the network's task gives each point one class, from outputs with a number for each class."""
    return isinstance(task_of(spec.task), Classification) or task_of(spec.task).form == "class"


def of_outputs(outputs: NDArray[np.floating], labels: NDArray[Any]) -> dict[str, float]:
    """Balanced accuracy, macro F1 and, if every class has a point, the area under the ROC curve.

    `outputs` (n, C) are logits, and `labels` int64 (n,) the classes.
    """
    from scipy.special import softmax
    from sklearn.metrics import roc_auc_score

    classes = outputs.shape[1]
    found = of_classes(counts_of(outputs.argmax(1), labels, classes))
    if len(np.unique(labels)) == classes:
        scores = softmax(outputs.astype(np.float64), axis=1)
        several = {"multi_class": "ovr", "labels": range(classes)} if classes > 2 else {}
        found["auroc"] = float(roc_auc_score(labels, scores if classes > 2 else scores[:, 1], **several))
    return found


def counts_of(found: NDArray[Any], labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """How many points of each class are predicted to be of each class, int64 (C, C)."""
    from sklearn.metrics import confusion_matrix

    if not len(labels):
        return np.zeros((classes, classes), np.int64)
    counted: NDArray[np.int64] = confusion_matrix(labels, found, labels=range(classes)).astype(np.int64)
    return counted


def of_classes(counts: NDArray[np.int64]) -> dict[str, float]:
    """Accuracy, balanced accuracy and macro F1 from counts (C, C); {} without points."""
    compute = _of_classes if len(counts) <= _FEW else _of_classes.__wrapped__
    return dict(compute(counts.astype(np.int64).tobytes(), len(counts)))


_FEW = 32
"""The most classes whose tables of counts are kept beside their metrics."""


@lru_cache(maxsize=256)  # scikit-learn takes milliseconds, and a result asks for the same counts several times
def _of_classes(counts: bytes, classes: int) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

    true, found, weights = _cells(np.frombuffer(counts, np.int64).reshape(classes, classes))
    if not len(true):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that is predicted and never there
        return {
            "accuracy": float(accuracy_score(true, found, sample_weight=weights)),
            "balanced_accuracy": float(balanced_accuracy_score(true, found, sample_weight=weights)),
            "macro_f1": float(f1_score(true, found, average="macro", sample_weight=weights, zero_division=0)),
        }


def by_class(counts: NDArray[np.int64], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and points of each class, by its name, from counts (C, C)."""
    from sklearn.metrics import precision_recall_fscore_support

    true, found, weights = _cells(counts)
    if not len(true):
        return {}
    columns = precision_recall_fscore_support(
        true, found, labels=range(len(names)), sample_weight=weights, zero_division=0
    )
    fields = ("precision", "recall", "f1", "points")
    rows = zip(*columns, strict=True)
    return {name: dict(zip(fields, map(float, row), strict=True)) for name, row in zip(names, rows, strict=True)}


def _cells(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Class, prediction and number of points of each cell that is not empty."""
    true, found = np.nonzero(counts)
    return true, found, counts[true, found]


# Counts that parties send


def width(spec: ModelSpec, names: Sequence[str]) -> int:
    """How many numbers of `sums_of` a party sends. `names`: the metrics that do not follow from counts."""
    return 1 + (spec.classes**2 if has_classes(spec) else 1) + len(names)


def counting(spec: ModelSpec, names: Sequence[str]) -> tuple[bool, ...]:
    """True for each number of `sums_of` that counts points, and false for sums of losses and of metrics."""
    return (False, *([True] * (width(spec, names) - 1 - len(names))), *(False for _ in names))


def sums_of(
    spec: ModelSpec, outputs: NDArray[np.floating], targets: NDArray[Any], numbers: Mapping[str, float],
    names: Sequence[str],
) -> NDArray[np.float64]:  # fmt: skip
    """The sum of the losses, the counts of a party, and each metric of `names` times the number of points, float64.

    `numbers` has the mean loss and the task's metrics. Without classes the counts are the number of points.
    """
    points = len(targets)
    counts: Any = [points]
    if has_classes(spec):
        counts = counts_of(task_of(spec.task).predict(outputs.astype(np.float32)), targets, spec.classes).ravel()
    further = [numbers[name] * points for name in names]
    return np.concatenate([[numbers["loss"] * points], counts, further]).astype(np.float64)


@dataclass(frozen=True)
class Counts:
    """The sums of one or several parties, as numbers; `names` are the metrics that do not follow from counts."""

    spec: ModelSpec
    names: tuple[str, ...]
    sums: NDArray[np.float64]

    @property
    def of_classes(self) -> NDArray[np.int64]:
        """The counts (C, C)."""
        side = self.spec.classes
        return self.sums[1 : 1 + side**2].astype(np.int64).reshape(side, side)

    @property
    def confusion(self) -> NDArray[np.int64] | None:
        """The counts (C, C) of a task with classes; else None."""
        return self.of_classes if has_classes(self.spec) else None

    @property
    def points(self) -> int:
        """How many points were tested."""
        return int(self.of_classes.sum()) if has_classes(self.spec) else int(self.sums[1])

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics over all points; {} without points."""
        if not self.points:
            return {}
        further = self.sums[len(self.sums) - len(self.names) :]
        means = {name: float(one) / self.points for name, one in zip(self.names, further, strict=True)}
        of_counts = of_classes(self.of_classes) if has_classes(self.spec) else {}
        return {"loss": float(self.sums[0]) / self.points} | of_counts | means


@dataclass(frozen=True)
class ClassCounts:
    """How many points of each class are predicted to be of each class, as numbers, for predictions without a loss."""

    sums: NDArray[np.float64]

    @property
    def confusion(self) -> NDArray[np.int64]:
        """The counts (C, C)."""
        side = math.isqrt(len(self.sums))
        return self.sums.astype(np.int64).reshape(side, side)

    @property
    def points(self) -> int:
        """How many points were tested."""
        return int(self.sums.sum())

    @property
    def metrics(self) -> dict[str, float]:
        """The accuracy, balanced accuracy and macro F1 over all points; {} without points."""
        return of_classes(self.confusion)
