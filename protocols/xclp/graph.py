"""The server's computation: from Hamming distances to the influence of labeled points.

XCLP, Section 3, Phase 2 and Algorithm 1, lines 6-12, with two precisions:

- The k neighbours a row keeps are those of smallest distance off the diagonal, ties going to the lower index.
- A weight is exactly 0 where 2 H >= L, decided in integers. The paper keeps cos(pi H / L) whatever it is;
  it may be negative, and in floating point cos(pi / 2) is 6e-17, which normalisation lifts to a full edge.

A weight may be a power of the cosine (see `recipe`); the paper's is the first.

Only the columns of the influence matrix S = (I - alpha W)^-1 that belong to labeled points are ever sent, so the server
solves for those instead of inverting. The spectral radius of the normalised W is at most 1, so S exists for alpha < 1.

On one machine the results are equal to the last bit, in any order of the work: weights come from a table of
math.cos(...) ** power over the integers 0..L, degrees from math.fsum, one entry is W_ij / sqrt(d_i d_j), and
`contribution` adds columns in ascending order. Up to 4,096 points the factorisation is scipy's splu with its defaults
on a matrix with sorted indices, and a client's columns are one solve; as the masked sums of SecureRowSums are exact,
such a run can be compared with the plaintext oracle without any tolerance. Beyond that see `solvers`.
"""

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.protocols.xclp.blocks import Rows, some_rows
from tacit.protocols.xclp.lsh import distance_type, unflipped
from tacit.protocols.xclp.solvers import FACTORED, ConjugateGradients, solver_of, system_of
from tacit.sim.compute import in_threads
from tacit.sim.hollow import filled, hollow

if TYPE_CHECKING:
    from scipy.sparse import csc_array

__all__ = ["Influence", "class_counts", "class_scores", "contribution", "neighbour_graph"]


def neighbour_graph(
    distances: NDArray[np.integer] | Rows, bits: int, k: int, edge_power: int = 1, flip: float = 0.0
) -> "csc_array[np.float64]":
    """The normalised neighbour graph (lines 6-9): n x n, symmetric, entries > 0, an empty diagonal.

    `distances` is the Hamming matrix (n, n) of any integer type with entries in 0..bits, of which some rows are taken
    at a time; its diagonal is not read. Each row keeps its `k` nearest points, all if there are fewer; a weight is the
    cosine to the `edge_power`. If bits were flipped with probability `flip`, neighbours are chosen by the noisy
    distances, and the cosine is that of the corrected ones (`lsh.unflipped`). Rows without any edge are zero. Raises
    ValueError if a size does not fit.
    """
    count = min(k, _checked_size(distances, bits, k) - 1)
    weights = _symmetric_weights(distances, bits, count, edge_power, flip)
    # d_i = sum_j W_ij (line 9); a column holds the entries of its row.
    rows = np.split(weights.data, weights.indptr[1:-1])
    degrees = np.array([math.fsum(row) for row in rows])
    columns = np.repeat(np.arange(len(degrees)), np.diff(weights.indptr))
    weights.data = weights.data / np.sqrt(degrees[weights.indices] * degrees[columns])
    return weights


class Influence:
    """Columns of the influence matrix S = (I - alpha W)^-1 of a normalised graph W (line 10), by `solvers`.

    Shared work is done once. Raises ValueError unless 0 < alpha < 1.
    """

    def __init__(self, graph: "csc_array[np.float64]", alpha: float) -> None:
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha(={alpha}) must be between 0 and 1, both excluded")
        self._size = graph.shape[0]
        self._solver = solver_of(graph, alpha)

    def columns(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """The columns of S for the points `indices` (l,), strictly ascending: float64 (n, l) (line 12).

        Raises ValueError if the indices are not strictly ascending, IndexError if one is no point.
        """
        indices = np.asarray(indices, dtype=np.int64)
        if (np.diff(indices) <= 0).any():
            raise ValueError("the indices of the columns must be strictly ascending")
        if len(indices) == 0:
            return np.zeros((self._size, 0))
        if indices[0] < 0 or indices[-1] >= self._size:
            raise IndexError(f"the indices of the columns must be between 0 and {self._size - 1}")
        units = np.zeros((self._size, len(indices)))
        units[indices, np.arange(len(indices))] = 1.0
        return self._solver.solve(units)


def class_scores(
    graph: "csc_array[np.float64]", alpha: float, indices: NDArray[np.int64], labels: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """The scores (n, classes) of all points by the points `indices` (l,) with `labels` (l,): S_L Y_L, computed
    together.

    With many points one system is solved for each class instead of one for each label.
    """
    if graph.shape[0] <= FACTORED:
        return contribution(Influence(graph, alpha).columns(indices), labels, classes)
    of_class = np.zeros((graph.shape[0], classes))
    of_class[indices, labels] = 1.0
    return ConjugateGradients(system_of(graph, alpha), alpha).solve(of_class)


def class_counts(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Count the `labels` (l,), in 0..classes - 1, of each class: (classes,)."""
    return np.bincount(labels, minlength=classes).astype(np.float64)


@hollow(lambda columns, labels, classes: filled((columns.shape[0], classes)))
def contribution(columns: NDArray[np.float64], labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """A client's class scores for all points, Zbar = S_L Y_L (line 13): float64 (n, classes).

    `columns` (n, l) are the influence columns of its labeled points, `labels` (l,) their labels in
    0..classes - 1. Raises ValueError if they do not fit together.
    """
    labels = np.asarray(labels, dtype=np.int64)
    if columns.ndim != 2 or labels.shape != (columns.shape[1],):
        raise ValueError(f"influence columns of shape {columns.shape} do not go with labels of shape {labels.shape}")
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(f"the labels of labeled points must be between 0 and {classes - 1}")
    scores = np.zeros((columns.shape[0], classes))
    for column, label in enumerate(labels):
        scores[:, label] += columns[:, column]
    return scores


def _checked_size(distances: NDArray[np.integer] | Rows, bits: int, k: int) -> int:
    if len(distances.shape) != 2 or distances.shape[0] != distances.shape[1] or distances.shape[0] == 0:
        raise ValueError(f"the Hamming matrix has shape {distances.shape}; it must be square and not empty")
    if not np.issubdtype(distances.dtype, np.integer):
        raise ValueError(f"the Hamming matrix has type {distances.dtype}; distances are integers")
    if bits < 1 or k < 1:
        raise ValueError(f"bits(={bits}) and k(={k}) must be >= 1")
    return distances.shape[0]


def _symmetric_weights(
    distances: NDArray[np.integer] | Rows, bits: int, count: int, edge_power: int, flip: float
) -> "csc_array[np.float64]":
    """W = B + B^T (lines 6-8), B the weights of the `count` nearest points of each row."""
    size = distances.shape[0]
    found = list(in_threads(partial(_nearest, distances, bits, count), some_rows(size)))
    rows = np.repeat(np.arange(size), count)
    columns, values = (np.concatenate(parts).ravel() for parts in zip(*found, strict=True))
    values = _cosines(bits, edge_power, flip)[values]
    edges = values != 0.0
    rows, columns, values = rows[edges], columns[edges], values[edges]
    # Both entries of an edge that two rows keep are added; a sum of two does not depend on their order.
    ends = np.concatenate((rows, columns)), np.concatenate((columns, rows))
    weights = scipy.sparse.csc_array((np.concatenate((values, values)), ends), shape=(size, size))
    weights.sort_indices()
    return weights


@lru_cache(16)
def _cosines(bits: int, edge_power: int, flip: float) -> NDArray[np.float64]:
    """The cosine cos(pi H / L) to the power by H, 0 from a right angle on: float64 (bits + 1,), which nobody may
    change."""
    corrected = [unflipped(h, bits, flip) for h in range(bits + 1)]
    return np.array(
        [math.cos(math.pi * c / bits) ** edge_power if 2 * h < bits else 0.0 for h, c in enumerate(corrected)]
    )


def _nearest(
    distances: NDArray[np.integer] | Rows, bits: int, count: int, rows: slice
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """The `count` nearest points of each of some `rows`, nearest first, and their distances, both (rows, count).

    Ties go to the lower indices. Raises ValueError for distances that are not in 0..bits.
    """
    some = distances[rows]
    if some.min() < 0 or some.max() > bits:
        raise ValueError(f"Hamming distances must be between 0 and bits(={bits})")
    own = some.astype(distance_type(bits))
    lines = np.arange(len(own))
    own[lines, lines + rows.start] = bits + 1  # farther than any other
    if count == 0:
        return np.empty((len(own), 0), np.int64), own[:, :0]
    farthest = np.partition(own, count - 1, axis=1)[:, count - 1 : count]
    line, column = np.divmod(np.flatnonzero(own <= farthest), own.shape[1])
    values = own[line, column]
    order = np.lexsort((values, line))  # stable: of a line and distance the lower index first
    starts = np.searchsorted(line, lines)  # lines keep their places in the order
    chosen = order[starts[:, None] + np.arange(count)]
    return column[chosen], values[chosen]
