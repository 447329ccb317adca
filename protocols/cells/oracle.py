"""A plaintext implementation, with the noise that clients have drawn: the expected sums, centres and labels.

It shares no code with the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Points", "Release", "plain_cells"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Points:
    """A client's vectors (n_j, d), the labels (n_j,) that it uses, -1 elsewhere, and its noise by the number of the
    sum."""

    vectors: NDArray[np.float64]
    labels: Integers
    noise: Mapping[int, Integers]


@dataclass(frozen=True, eq=False)
class Release:
    """A sum (size,) in units of 2^-24, and the centres after it."""

    total: Integers
    centres: NDArray[np.float64]


def plain_cells(
    of: Mapping[str, Points],
    counted: Sequence[Sequence[str]],
    centres: NDArray[np.float64],
    classes: int,
    clip: float,
    radius: float,
    least: float,
) -> tuple[list[Release], Integers, dict[str, Integers]]:
    """All releases, the label of each cell, and the labels of each client's points.

    `counted`: the clients in each sum; the first sum is that of the mean and the last that of the labels. `centres` (c,
    d): the first ones. A cell with fewer points than `least` keeps its centre.
    """
    unit, last = 2**24, len(counted)
    count, dimension = centres.shape
    everybody = list(of)
    seen = {name: of[name].vectors for name in everybody}
    releases = []
    total = np.zeros(dimension, np.int64)
    for name in counted[0]:
        total += _whole(_shortened(seen[name], clip)).sum(axis=0) + of[name].noise[1]
    points = sum(len(seen[name]) for name in counted[0])
    mean = _shortened(total[None, :] / unit / max(points, 1), clip)[0]
    releases.append(Release(total, centres))
    seen = {name: _shortened(seen[name] - mean, radius) for name in everybody}
    for number in range(2, last):
        table = np.zeros((count, dimension + 1), np.int64)
        for name in counted[number - 1]:
            cells = _nearest(seen[name], centres)
            for cell in range(count):
                inside = _whole(seen[name][cells == cell])
                table[cell, :-1] += inside.sum(axis=0)
                table[cell, -1] += len(inside) * int(np.floor(radius * unit))
            table += of[name].noise[number].reshape(table.shape)
        sizes, after = table[:, -1] / unit / radius, centres.copy()
        for cell in np.flatnonzero(sizes > max(least, 1.0)).tolist():
            after[cell] = table[cell, :-1] / unit / sizes[cell]
        centres = _shortened(after, radius)
        releases.append(Release(table.ravel(), centres))
    votes = np.zeros((count, classes), np.int64)
    for name in counted[-1]:
        for cell, label in zip(_nearest(seen[name], centres), of[name].labels, strict=True):
            if label >= 0:
                votes[cell, label] += unit
        votes += of[name].noise[last].reshape(votes.shape)
    releases.append(Release(votes.ravel(), centres))
    majority = np.array([int(np.argmax(row)) for row in votes])
    return releases, majority, {name: majority[_nearest(seen[name], centres)] for name in everybody}


def _shortened(vectors: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """Shorten each row to slightly less than `norm`; a row without a length becomes 0."""
    found = np.zeros_like(vectors)
    for row, vector in enumerate(vectors):
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.sqrt((vector**2).sum())
        if np.isfinite(length):
            found[row] = vector * min(1.0, norm * (1 - 1e-12) / length) if length > 0 else vector
    return found


def _whole(vectors: NDArray[np.float64]) -> Integers:
    return np.asarray(np.trunc(vectors * 2**24), np.int64)


def _nearest(vectors: NDArray[np.float64], centres: NDArray[np.float64]) -> Integers:
    scores = vectors @ centres.T - (centres**2).sum(axis=1) / 2
    return np.asarray(np.argmax(scores, axis=1))
