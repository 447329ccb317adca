"""The accuracy of labels."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["accuracy", "balanced_accuracy", "counting"]

Labels = NDArray[np.int64]


def accuracy(found: Labels, true: Labels) -> float | None:
    """The share of `found` (n,) that equal the `true` labels; -1 is wrong. None without points."""
    return float((found == true).mean()) if len(true) else None


def balanced_accuracy(found: Labels, true: Labels) -> float | None:
    """The mean of the accuracies of the classes among `true`, each class with equal weight; None without points."""
    classes = np.unique(true)
    return float(np.mean([(found == true)[true == c].mean() for c in classes])) if len(classes) else None


def counting(labels: Labels, labeled: NDArray[np.bool_], new: NDArray[np.bool_], any_new: bool) -> NDArray[np.bool_]:
    """The points of a client that count: the `new` ones if any client has some, else the unlabeled; with a known
    label."""
    return (new if any_new else ~labeled) & (labels >= 0)
