"""Computations on points, noise and sums: pure functions, the mathematics of `tacit.protocols.cells.cells`.

All summands are integers, in units of 2^-24: each point's vector is clipped and rounded towards zero before it is
added, so sums are exact and move by no more than the clipping allows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.privacy.gaussian import LARGEST_DEVIATION, discrete_gaussian, mu_for
from tacit.protocols.privacy.noise import gaussian
from tacit.sim.hollow import filled, hollow
from tacit.sim.streams import Entropy

__all__ = [
    "FRACTION_BITS",
    "Known",
    "Plan",
    "cells_of",
    "first_centres",
    "majorities",
    "mean_of",
    "moved",
    "summand",
    "summand_work",
]

FRACTION_BITS = 24
UNIT = 2.0**FRACTION_BITS
Vectors = NDArray[np.float64]

_FIRST = 0.5
"""The distance of the first centres from the mean, in units of the radius: roughly that of clipped points."""


@dataclass(frozen=True)
class Plan:
    """The public settings: `count` cells, T `steps`, and the `dimension` and the number of `classes` of points.

    `clip` and `radius`: the norms to which points are clipped, unchanged and relative to the mean. `mu`: the budget of
    all releases together; the T + 1 sums of vectors have the share `sums_share` of mu^2. `parts`: the number of clients
    whose noise is sufficient. `colluding`: C, how many clients may collude with the server.
    """

    count: int
    steps: int
    dimension: int
    classes: int
    clip: float
    radius: float
    mu: float
    sums_share: float
    parts: int
    colluding: int = 0

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts(={self.parts}) must be >= 1.")

    @classmethod
    def of(cls, *, epsilon: float, delta: float, **others: float | int) -> "Plan":
        """The plan whose releases are (`epsilon`, `delta`)-DP together; without noise if `epsilon` is infinite."""
        return cls(mu=mu_for(epsilon, delta), **others)  # type: ignore[arg-type]

    @property
    def assumed(self) -> Assumed:
        """The assumption of its sums on clients that collude."""
        return Assumed(0, self.colluding, 0)

    @property
    def sums(self) -> int:
        """The number of secure sums: one of the mean, one for each step, one of the counts of classes."""
        return self.steps + 2

    def shape(self, number: int) -> tuple[int, int]:
        """The rows and columns of the summands of sum `number`, from 1."""
        if number == 1:
            return 1, self.dimension
        return (self.count, self.classes) if number == self.sums else (self.count, self.dimension + 1)

    def size(self, number: int) -> int:
        """The length of the summands of sum `number`."""
        rows, columns = self.shape(number)
        return rows * columns

    def norm(self, number: int) -> float:
        """The norm that clips vectors in sum `number`, and multiplies counts of points; 1 for the last sum."""
        return self.clip if number == 1 else 1.0 if number == self.sums else self.radius

    @property
    def multiplier(self) -> float:
        """The standard deviation of the noise in a sum of vectors, in units of the norm: 2 sqrt(T + 1) / (mu sqrt
        s)."""
        return 2 * math.sqrt((self.steps + 1) / self.sums_share) / self.mu

    def deviation(self, number: int) -> float:
        """The standard deviation of the noise that sum `number` needs; for counts sqrt(2) / (mu sqrt(1 - s))."""
        if number == self.sums:
            return math.sqrt(2 / (1 - self.sums_share)) / self.mu
        return self.multiplier * self.norm(number)

    def mu_after(self, sums: int) -> float:
        """The mu of the first `sums` releases together."""
        vectors = min(sums, self.steps + 1)
        squares = vectors * self.sums_share / (self.steps + 1) + (sums == self.sums) * (1 - self.sums_share)
        return self.mu * math.sqrt(squares) if sums else 0.0

    @property
    def mu_of_counts(self) -> float:
        """The mu of the last release."""
        return self.mu * math.sqrt(1 - self.sums_share)

    def part(self, number: int) -> float:
        """The standard deviation of each client's part of the noise of sum `number`, in units of 2^-24."""
        return self.deviation(number) * UNIT / math.sqrt(self.parts)

    def sampling_error(self, sums: int, clients: int) -> float:
        """The distance in total variation of the first `sums` releases of `clients` to those with normal noise.

        For each number: 2^-46 a client (`discrete_gaussian`), exp(-pi^2 v^2) for the sum of parts of deviation v, and 1
        / (48 m v^2) for rounding; with m and v as in `tacit.protocols.cells.cells`.
        """
        if math.isinf(self.mu):
            return 0.0
        found = 0.0
        for number in range(1, sums + 1):
            squared = self.part(number) ** 2
            each = clients * 2.0**-46 + math.exp(-(math.pi**2) * squared) + 1 / (48 * self.parts * squared)
            found += self.size(number) * each
        return found

    def problem(self, points: int, clients: int) -> str:
        """The reason why sums of this number of `points` of `clients` do not fit into 64 bits; "" if they do."""
        for number in range(1, self.sums + 1):
            part = self.part(number)
            if part > LARGEST_DEVIATION or points * self.norm(number) * UNIT + 50 * clients * part >= 2.0**62:
                return f"sums of {points} points with their noise need more than 64 bits"
        return ""


@dataclass(frozen=True, eq=False)
class Known:
    """The public knowledge before a sum: the noisy `mean` (d,), 0 before the first, and the `centres` (count, d)."""

    mean: Vectors
    centres: Vectors

    @classmethod
    def nothing(cls, plan: Plan) -> "Known":
        """The knowledge before the first sum."""
        return cls(np.zeros(plan.dimension), np.zeros((0, plan.dimension)))


def _clipped(vectors: Vectors, norm: float) -> Vectors:
    """Shorten each of `vectors` (n, d) to `norm`; a vector without a finite length becomes 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    usable = np.isfinite(lengths)
    # a hair less than the norm, for rounding must not make a vector longer
    factors = np.minimum(1.0, norm * (1 - 1e-12) / np.where(usable & (lengths > 0), lengths, 1.0))
    return np.where(usable, vectors, 0.0) * factors


def _on_grid(values: Vectors) -> NDArray[np.int64]:
    """Convert `values` to units of 2^-24, rounded towards zero."""
    return np.trunc(values * UNIT).astype(np.int64)


def _nearest(vectors: Vectors, centres: Vectors) -> NDArray[np.int64]:
    """The index of the centre nearest to each of `vectors`; ties go to the lowest."""
    scores = vectors @ centres.T - (centres**2).sum(axis=1) / 2
    return scores.argmax(axis=1)


@hollow(lambda features, known, plan: np.zeros(len(features), np.int64))
def cells_of(features: Vectors, known: Known, plan: Plan) -> NDArray[np.int64]:
    """The cell of each point (n, d)."""
    return _nearest(_clipped(features - known.mean, plan.radius), known.centres)


def _hollow_summand(
    features: Vectors, labels: NDArray[np.int64], known: Known, plan: Plan, number: int, entropy: Entropy
) -> tuple[Ring, NDArray[np.int64]]:
    return filled(plan.size(number), np.uint64), filled(plan.size(number), np.int64)


@hollow(_hollow_summand)
def summand(
    features: Vectors, labels: NDArray[np.int64], known: Known, plan: Plan, number: int, entropy: Entropy
) -> tuple[Ring, NDArray[np.int64]]:
    """A client's summand of sum `number`, (size,), and the noise in it.

    `features` (n_j, d); `labels` (n_j,), -1 where a label may not be used.
    """
    found = np.zeros(plan.shape(number), np.int64)
    if number == 1:
        found[0] = _on_grid(_clipped(features, plan.clip)).sum(axis=0)
    elif number == plan.sums:
        used = labels >= 0
        np.add.at(found, (cells_of(features, known, plan)[used], labels[used]), int(UNIT))
    else:
        vectors = _clipped(features - known.mean, plan.radius)
        weight = math.floor(plan.radius * UNIT)
        rows = np.column_stack([_on_grid(vectors), np.full(len(vectors), weight, np.int64)])
        np.add.at(found, _nearest(vectors, known.centres), rows)
    noise = discrete_gaussian(plan.part(number), (found.size,), entropy)
    return (found.ravel() + noise).view(np.uint64), noise


def summand_work(points: int, plan: Plan, number: int) -> Mapping[str, int]:
    """The operations of `summand`."""
    words = 10 * plan.size(number) * bool(plan.part(number))  # coins of a number that is drawn by rejection
    return {
        "lsh.multiply": points * plan.dimension * (plan.count if number > 1 else 1),
        "ring.add": points * plan.dimension,
        "aes.byte": 8 * words,
    }


def _values(ring: Ring, plan: Plan, number: int) -> Vectors:
    return (ring.view(np.int64) / UNIT).reshape(plan.shape(number))


def mean_of(ring: Ring, points: int, plan: Plan) -> Vectors:
    """The noisy mean of `points` points from the first sum, clipped like a point."""
    return _clipped(_values(ring, plan, 1) / max(1, points), plan.clip)[0]


def first_centres(plan: Plan, entropy: Entropy) -> Vectors:
    """Centres in random directions from the mean, independent of the points."""
    directions = gaussian((plan.count, plan.dimension), entropy)
    return directions * (_FIRST * plan.radius / np.sqrt((directions**2).sum(axis=1, keepdims=True)))


def moved(ring: Ring, centres: Vectors, plan: Plan, number: int) -> Vectors:
    """The centres after sum `number`: noisy means of cells. A cell with a small noisy count keeps its centre."""
    values = _values(ring, plan, number)
    sums, counts = values[:, :-1], values[:, -1] / plan.radius
    enough = counts > max(1.0, plan.multiplier / 2)
    means = sums / np.where(enough, counts, 1.0)[:, None]
    return _clipped(np.where(enough[:, None], means, centres), plan.radius)


def majorities(ring: Ring, plan: Plan) -> NDArray[np.int64]:
    """The label of each cell: the class of its largest noisy count; ties go to the lowest."""
    return _values(ring, plan, plan.sums).argmax(axis=1)
