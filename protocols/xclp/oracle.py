"""The plaintext oracle: what XCLP must come to, computed in one place by someone who may see everything.

It shares no code with the protocols, on purpose: equal results then mean something. It is written for
clarity, with one statement for each line of Algorithm 1 of the paper (line numbers in the comments), and
handles some thousand points. Scores are summed in the same fixed-point ring as the protocol's, so the two
are compared for equality, without a tolerance.

For equality in the last bit both sides hold to the same few choices: a weight is math.cos(math.pi * h / L) ** power,
a degree math.fsum of a row, a normalised weight w / sqrt(d_i * d_j), the solver scipy's splu with its
defaults, called once for the labeled points of each client in ascending order, and the columns of a class
are added in that order.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu

__all__ = ["Outcome", "hamming", "xclp"]

_ROWS = 512


@dataclass(frozen=True, eq=False)
class Outcome:
    """What XCLP computes for n points, the clients' points one after another in the order given.

    `distances`, int32 (n, n): Hamming distances. `z`, uint64 (n, C): the contributors' scores added in the
    ring modulo 2^64. `labels`, int64 (n,): -1 for none. `confidence`, float64 (n,): in [0, 1] on the rows that
    clients get. `slices`: each client's rows.
    """

    distances: NDArray[np.int32]
    z: NDArray[np.uint64]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    slices: tuple[slice, ...]


def hamming(bits: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The number of differing bits of every two rows of `bits` (n, L): int32 (n, n)."""
    ones = bits.astype(np.float32)  # products of 0 and 1 are exact in float32 up to L = 2^24, and fast
    zeros = 1 - ones
    distances = np.empty((len(bits), len(bits)), dtype=np.int32)
    for start in range(0, len(bits), _ROWS):  # some rows at a time: what is n x n here is the result alone
        some = slice(start, start + _ROWS)
        distances[some] = ones[some] @ zeros.T + zeros[some] @ ones.T
    return distances


def xclp(
    bits: Sequence[NDArray[np.bool_]],
    labels: Sequence[NDArray[np.int64]],
    contributors: Collection[int],
    classes: int,
    k: int,
    alpha: float,
    fraction_bits: int = 32,
    recipe: str = "paper",
    rows: str = "unlabeled",
) -> Outcome:
    """XCLP among clients with hash bits (n_j, L) each and labels (n_j,), -1 where unlabeled.

    All clients' points are in the graph; only the labels of the clients at the positions `contributors`
    count. With the `recipe` "authors-code" weights are cubed, columns of Z divided by the number of labels of their
    class, and each client's confidences by the largest among the rows that it gets: `rows`, "unlabeled" or "paper".
    """
    ends = np.cumsum([len(own) for own in bits])
    slices = tuple(slice(int(end) - len(own), int(end)) for own, end in zip(bits, ends, strict=True))

    authors = {"paper": False, "authors-code": True}[recipe]
    distances = hamming(np.concatenate(list(bits)))  # line 5
    graph = _graph(distances, bits[0].shape[1], k, 3 if authors else 1)  # lines 6-9
    factors = splu(_system(len(distances), alpha, graph))  # line 10

    z = np.zeros((len(distances), classes), dtype=np.uint64)
    for client in sorted(contributors):
        labeled = np.flatnonzero(labels[client] >= 0)
        if len(labeled) == 0:
            continue
        unit_columns = np.zeros((len(distances), len(labeled)))
        unit_columns[slices[client].start + labeled, np.arange(len(labeled))] = 1.0
        influence = factors.solve(unit_columns)  # line 12
        scores = np.zeros(z.shape)
        for column, point in enumerate(labeled):  # line 13
            scores[:, labels[client][point]] += influence[:, column]
        z += np.rint(scores * 2**fraction_bits).astype(np.int64).view(np.uint64)  # line 14

    decoded = z.view(np.int64) / 2**fraction_bits
    if authors:
        known = [int(label) for client in contributors for label in labels[client] if label >= 0]
        for c in range(classes):
            decoded[:, c] /= max(1, known.count(c))
    predictions = [_predict(row) for row in decoded.tolist()]  # lines 15-16
    confidence = np.array([confidence for _, confidence in predictions])
    if authors:
        for own, own_labels in zip(slices, labels, strict=True):
            got = confidence[own][(own_labels < 0) | (rows == "paper")]
            confidence[own] /= max(got, default=0.0) or 1.0
    return Outcome(
        distances=distances,
        z=z,
        labels=np.array([label for label, _ in predictions], dtype=np.int64),
        confidence=confidence,
        slices=slices,
    )


def _graph(distances: NDArray[np.int32], bits: int, k: int, power: int) -> dict[tuple[int, int], float]:
    """The normalised symmetric graph, as the weight of each edge (i, j), a cosine to the `power`."""
    weights: dict[tuple[int, int], float] = {}
    for i, row in enumerate(distances):
        by_distance = np.argsort(row, kind="stable")  # stable: the lower index first among equals
        for j in [int(j) for j in by_distance[: k + 1] if j != i][:k]:
            h = int(row[j])
            if 2 * h < bits:
                similarity = math.cos(math.pi * h / bits) ** power
                weights[i, j] = weights.get((i, j), 0.0) + similarity  # B
                weights[j, i] = weights.get((j, i), 0.0) + similarity  # + B^T
    rows: dict[int, list[float]] = {}
    for (i, _), weight in weights.items():
        rows.setdefault(i, []).append(weight)
    degree = {i: math.fsum(row) for i, row in rows.items()}
    return {(i, j): weight / math.sqrt(degree[i] * degree[j]) for (i, j), weight in weights.items()}


def _system(size: int, alpha: float, graph: dict[tuple[int, int], float]) -> "csc_array[np.float64]":
    """Id - alpha W, with the entries of each column in ascending order."""
    entries = {(i, i): 1.0 for i in range(size)} | {edge: -(alpha * weight) for edge, weight in graph.items()}
    rows, columns = zip(*entries, strict=True)
    system = csc_array(coo_array((list(entries.values()), (rows, columns)), shape=(size, size)))
    system.sort_indices()
    return system


def _predict(scores: list[float]) -> tuple[int, float]:
    """The label (-1 if all scores are 0) and its confidence, 1 - entropy / log C."""
    scores = [max(score, 0.0) for score in scores]
    total = math.fsum(scores)
    if total == 0.0:
        return -1, 0.0
    label = scores.index(max(scores))
    if len(scores) == 1:
        return label, 1.0
    entropy = -math.fsum(score / total * math.log(score / total) for score in scores if score > 0.0)
    return label, min(1.0, max(0.0, 1.0 - entropy / math.log(len(scores))))
