"""The plaintext oracle: the expected result of XCLP, computed in one place with access to all data.

It shares no code with the protocols, on purpose: equal results then mean something. It is written for clarity, with one
statement for each line of Algorithm 1 of the paper (line numbers in the comments). Scores are summed in the same
fixed-point ring as the protocol's.

Up to 4,096 points the two are compared for equality, without a tolerance. For equality in the last bit both sides make
the same choices: a weight is math.cos(math.pi * h / L) ** power, a degree math.fsum of a row, a normalised weight w /
sqrt(d_i * d_j), the solver scipy's splu with its defaults, called once for the labeled points of each client in
ascending order, and the columns of a class are added in that order.

Of more points the oracle finds each client's scores by conjugate gradients on the sum of its columns, a system for each
class in place of one for each label. An entry of a column may then be off by 1e-10 on either side: of l labels and p
clients that count, a score by 2e-10 l + 2^-f p, the `tolerance`. Distances are compared exactly even so, and so are
labels and confidences with what `judged` makes of the scores that a client has.
"""

import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csc_array

__all__ = ["Outcome", "hamming", "judged", "xclp"]

_ROWS = 512
_THREADS = 8
_EXACT = 4096
_ERROR = 1e-10


@dataclass(frozen=True, eq=False)
class Outcome:
    """XCLP's results for n points, the clients' points one after another in the order given.

    `distances`, unsigned (n, n): Hamming distances. `z`, uint64 (n, C): the contributors' scores added in the ring
    modulo 2^64. `labels`, int64 (n,): -1 for none. `confidence`, float64 (n,): in [0, 1] on the rows that clients get.
    `slices`: each client's rows. `counts`, (C,): the number of labels of each class. `tolerance`: the largest allowed
    difference of a protocol's scores, 0 up to 4,096 points.
    """

    distances: NDArray[np.unsignedinteger]
    z: NDArray[np.uint64]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    slices: tuple[slice, ...]
    counts: NDArray[np.int64]
    tolerance: float


def hamming(bits: NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
    """Count the differing bits of every two rows of `bits` (n, L): (n, n), of the narrowest type that holds L."""
    ones = bits.astype(np.float32)  # sums of products of 0 and 1 are exact in float32 up to L = 2^24, and fast
    counts = bits.sum(axis=1, dtype=np.float32)
    distances = np.empty((len(bits), len(bits)), dtype=np.min_scalar_type(bits.shape[1]))
    for start in range(0, len(bits), _ROWS):  # some rows at a time: what is n x n here is the result alone
        some, rest = slice(start, start + _ROWS), slice(start, None)
        found = (counts[some, None] + counts[rest] - 2 * (ones[some] @ ones[rest].T)).astype(distances.dtype)
        distances[some, rest] = found
        distances[rest, some] = found.T
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
    flip: float = 0.0,
) -> Outcome:
    """XCLP among clients with hash bits (n_j, L) each and labels (n_j,), -1 where unlabeled.

    All clients' points are in the graph; only the labels of the clients at the positions `contributors` count. With the
    `recipe` "authors-code" weights are cubed, columns of Z divided by the number of labels of their class, and each
    client's confidences by the largest among the rows that it gets: `rows`, "unlabeled" or "paper". `bits` and `labels`
    are those used in the run; bits were flipped with probability `flip`.
    """
    ends = np.cumsum([len(own) for own in bits])
    slices = tuple(slice(int(end) - len(own), int(end)) for own, end in zip(bits, ends, strict=True))

    authors = {"paper": False, "authors-code": True}[recipe]
    distances = hamming(np.concatenate(list(bits)))  # line 5
    graph = _graph(distances, bits[0].shape[1], k, 3 if authors else 1, flip)  # lines 6-9
    system = _system(len(distances), alpha, graph)  # line 10
    exact = len(distances) <= _EXACT
    factors = scipy.sparse.linalg.splu(system) if exact else None

    def scores_of(client: int) -> NDArray[np.float64]:
        labeled = np.flatnonzero(labels[client] >= 0)
        if factors is None:
            of_class = np.zeros((len(distances), classes))
            of_class[slices[client].start + labeled, labels[client][labeled]] = 1.0
            return _iterated(system, of_class, (1 - alpha) * _ERROR)  # lines 12, 13
        unit_columns = np.zeros((len(distances), len(labeled)))
        unit_columns[slices[client].start + labeled, np.arange(len(labeled))] = 1.0
        influence = factors.solve(unit_columns)  # line 12
        scores = np.zeros((len(distances), classes))
        for column, point in enumerate(labeled):  # line 13
            scores[:, labels[client][point]] += influence[:, column]
        return scores

    z = np.zeros((len(distances), classes), dtype=np.uint64)
    for scores in _mapped(scores_of, [one for one in sorted(contributors) if (labels[one] >= 0).any()], exact):
        z += np.rint(scores * 2**fraction_bits).astype(np.int64).view(np.uint64)  # line 14

    known = [labels[client][labels[client] >= 0] for client in contributors]
    counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *known]), minlength=classes)
    found, confidence = judged(z, counts, fraction_bits, recipe)
    if authors:
        for own, own_labels in zip(slices, labels, strict=True):
            confidence[own] = _relative(confidence[own], (own_labels < 0) | (rows == "paper"))
    return Outcome(
        distances=distances,
        z=z,
        labels=found,
        confidence=confidence,
        slices=slices,
        counts=counts,
        tolerance=0.0 if exact else 2 * _ERROR * int(counts.sum()) + len(known) / 2**fraction_bits,
    )


def _mapped(
    scores_of: Callable[[int], NDArray[np.float64]], clients: Sequence[int], threads: bool
) -> Iterator[NDArray[np.float64]]:
    """Yield the scores of each of `clients`; with `threads`, some at a time, as scipy solves without Python's lock."""
    count = os.cpu_count() or 1
    if not threads or count == 1:
        yield from map(scores_of, clients)
        return
    with ThreadPoolExecutor(min(count, _THREADS)) as pool:
        for start in range(0, len(clients), 2 * _THREADS):
            yield from pool.map(scores_of, clients[start : start + 2 * _THREADS])


def judged(
    z: NDArray[np.uint64], counts: NDArray[np.int64], fraction_bits: int, recipe: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and confidences (n,) of scores (n, C) in the ring; not yet divided by a client's largest confidence.

    `counts` (C,): the number of labels of each class.
    """
    decoded = z.view(np.int64) / 2**fraction_bits
    if recipe == "authors-code":
        for c in range(z.shape[1]):
            decoded[:, c] /= max(1, int(counts[c]))
    predictions = [_predict(row) for row in decoded.tolist()]  # lines 15-16
    labels = np.array([label for label, _ in predictions], dtype=np.int64)
    return labels, np.array([confidence for _, confidence in predictions])


def _relative(confidence: NDArray[np.float64], got: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Divide a client's confidences by the largest on the rows that it `got`."""
    return confidence / (max(confidence[got], default=0.0) or 1.0)


def _iterated(system: "csc_array[np.float64]", right: NDArray[np.float64], residual: float) -> NDArray[np.float64]:
    """Solve `system` for each column of `right` by conjugate gradients, to the norm `residual`."""
    found, rest, direction = np.zeros(right.shape), right.copy(), right.copy()
    squares = (rest * rest).sum(axis=0)
    while squares.max() > residual**2:
        product = np.asarray(system @ direction)
        curved = (direction * product).sum(axis=0)
        length = np.divide(squares, curved, out=np.zeros(len(squares)), where=curved > 0)
        found += length * direction
        rest -= length * product
        before, squares = squares, (rest * rest).sum(axis=0)
        direction = rest + np.divide(squares, before, out=np.zeros(len(squares)), where=before > 0) * direction
    return found


def _graph(
    distances: NDArray[np.unsignedinteger], bits: int, k: int, power: int, flip: float
) -> dict[tuple[int, int], float]:
    """The normalised symmetric graph, as the weight of each edge (i, j), a cosine to the `power`.

    `distances` have the mean 2 p (1 - p) L + (1 - 2 p)^2 h, with p = `flip` and h that before the bits were flipped.
    """
    weights: dict[tuple[int, int], float] = {}
    for i, row in enumerate(distances):
        by_distance = np.argsort(row, kind="stable")  # stable: the lower index first among equals
        for j in [int(j) for j in by_distance[: k + 1] if j != i][:k]:
            h = int(row[j])
            if 2 * h < bits:
                unflipped = max(0.0, (h - 2 * flip * (1 - flip) * bits) / (1 - 2 * flip) ** 2)
                similarity = math.cos(math.pi * unflipped / bits) ** power
                weights[i, j] = weights.get((i, j), 0.0) + similarity  # B
                weights[j, i] = weights.get((j, i), 0.0) + similarity  # + B^T
    rows: dict[int, list[float]] = {}
    for (i, _), weight in weights.items():
        rows.setdefault(i, []).append(weight)
    degree = {i: math.fsum(row) for i, row in rows.items()}
    return {(i, j): weight / math.sqrt(degree[i] * degree[j]) for (i, j), weight in weights.items()}


def _system(size: int, alpha: float, graph: dict[tuple[int, int], float]) -> "csc_array[np.float64]":
    """The matrix Id - alpha W, with the entries of each column in ascending order."""
    entries = {(i, i): 1.0 for i in range(size)} | {edge: -(alpha * weight) for edge, weight in graph.items()}
    rows, columns = zip(*entries, strict=True)
    system = scipy.sparse.csc_array(
        scipy.sparse.coo_array((list(entries.values()), (rows, columns)), shape=(size, size))
    )
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
