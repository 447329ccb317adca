"""The consensus of clients that label the same points.

Paper: Abourayya et al., Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised
learning, Algorithm 1, line 11, and section 5 (qualified majority, FedCT (QM)).
"""

import numpy as np
from numpy.typing import NDArray

from tacit.sim.shares import rounded_up

__all__ = ["NO_LABEL", "majority", "majority_of", "needed", "qualified", "qualified_of", "votes"]

NO_LABEL = -1
"""The label of a point without a consensus."""

Labels = NDArray[np.int64]


def votes(labels: Labels, classes: int) -> Labels:
    """The number of the m clients that gave each class: int64 (n, classes) for `labels` (m, n) in [0, classes).

    Raises ValueError for labels out of range.
    """
    points = labels.shape[1]
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"labels are in [{labels.min()}, {labels.max()}], not in [0, {classes - 1}]")
    places = np.arange(points) * classes + labels
    return np.bincount(places.reshape(-1), minlength=points * classes).reshape(points, classes).astype(np.int64)


def majority(labels: Labels, classes: int) -> Labels:
    """The class that most of the m clients gave each of the n points, int64 (n,); ties go to the lowest.

    `labels` is (m, n) with m >= 1. Most need not be more than half. Raises ValueError.
    """
    return majority_of(votes(labels, classes), len(labels))


def majority_of(counts: Labels, voters: int) -> Labels:
    """The `majority` for the `counts` (n, C) of the votes of `voters`. Raises ValueError."""
    if not voters:
        raise ValueError("there is nobody to agree")
    return counts.argmax(1)


def needed(quorum: float, clients: int) -> int:
    """The number of clients that is the share `quorum` of `clients`, rounded up."""
    return rounded_up(quorum, clients)


def qualified(labels: Labels, classes: int, quorum: float) -> Labels:
    """The `majority` of points for which at least a share `quorum`, in (0, 1], of the m clients gave that class; else
    NO_LABEL.

    It takes ceil(quorum m) clients. Raises ValueError.
    """
    return qualified_of(votes(labels, classes), len(labels), quorum)


def qualified_of(counts: Labels, voters: int, quorum: float) -> Labels:
    """The `qualified` consensus for the `counts` (n, C) of the votes of `voters`. Raises ValueError."""
    if not 0.0 < quorum <= 1.0:
        raise ValueError(f"quorum(={quorum}) must be above 0, at most 1")
    if not voters:
        raise ValueError("there is nobody to agree")
    enough = counts.max(1, initial=0) >= needed(quorum, voters)
    return np.where(enough, counts.argmax(1), NO_LABEL)
