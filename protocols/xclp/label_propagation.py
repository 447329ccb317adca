"""From class scores to labels, and label propagation in the clear.

The end of Algorithm 1 of XCLP (lines 15-16), and the baseline that needs no protocol: `propagate` on one graph of all
clients' points, which XCLP computes without revealing them, or of one client's own. It computes Z = S Y with S = (I -
alpha W)^-1 (Zhou et al. 2004; XCLP, Section 3, Phase 2). `influence` describes what scores reveal about the other
clients.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.xclp.blocks import Rows
from tacit.protocols.xclp.graph import class_counts, class_scores, neighbour_graph
from tacit.protocols.xclp.recipe import PAPER, Recipe
from tacit.sim.hollow import hollow

__all__ = ["Propagation", "label_by", "label_rows", "propagate"]


class Propagation(NamedTuple):
    """Scores `z`, float64 (n, C); `labels`, int64 (n,), -1 if none; `confidence`, float64 (n,), in [0, 1]."""

    z: NDArray[np.float64]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]


def label_rows(z: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels, int64 (n,), and confidences, float64 (n,) in [0, 1], of class scores (n, C) (lines 15-16).

    The label is the class of the largest score, the lower class on a tie; the confidence is
    1 - entropy(Z_i / sum_c Z_ic) / log C. Scores below 0, which only rounding makes, count as 0. A row of
    zeros has label -1 and confidence 0. With a single class (log C = 0) a row that has a label is certain.
    Raises ValueError if a score is not finite.
    """
    if z.ndim != 2 or z.shape[1] < 1:
        raise ValueError(f"class scores have shape {z.shape}; it must be (points, classes) with at least one class")
    if not np.isfinite(z).all():
        raise ValueError("class scores must be finite")
    scores = np.maximum(z, 0.0)
    labels = np.where(scores.any(axis=1), scores.argmax(axis=1), -1)
    confidence = np.zeros(len(scores))
    # Row by row with fsum and math.log, so that the result does not depend on how numpy orders a sum.
    for row in np.flatnonzero(labels >= 0):
        confidence[row] = _confidence(scores[row].tolist())
    return labels.astype(np.int64), confidence


@hollow(lambda recipe, z, counts: (np.zeros(len(z), np.int64), np.ones(len(z))))
def label_by(
    recipe: Recipe, z: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and confidences of Z (n, C) by `recipe`; `counts` (C,): the number of labels of each class in Z."""
    labels, confidence = label_rows(recipe.scores(z, counts))
    return labels, recipe.weights(confidence)


def propagate(
    distances: NDArray[np.integer] | Rows,
    bits: int,
    labels: NDArray[np.int64],
    classes: int,
    k: int,
    alpha: float,
    recipe: Recipe = PAPER,
) -> Propagation:
    """Label propagation on one graph.

    `distances` (n, n) are Hamming distances of `bits` bits, `labels` (n,) are -1 where unlabeled. Scores are plain
    floats, Z whatever the `recipe`. XCLP rounds them to fixed point, so a point with scores below 2^-33 has a label
    here and none in XCLP.
    """
    labeled = np.flatnonzero(labels >= 0)
    graph = neighbour_graph(distances, bits, k, recipe.edge_power)
    z = class_scores(graph, alpha, labeled, labels[labeled], classes)
    return Propagation(z, *label_by(recipe, z, class_counts(labels[labeled], classes)))


def _confidence(scores: list[float]) -> float:
    """Compute 1 - entropy / log C of non-negative scores that are not all 0."""
    if len(scores) == 1:
        return 1.0
    total = math.fsum(scores)
    shares = [score / total for score in scores]
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
    return min(max(1.0 - entropy / math.log(len(scores)), 0.0), 1.0)
