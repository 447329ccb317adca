"""The table of points that models learn from."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.features import features_of
from tacit.parties.datasets.content import DataError, DataSettingError, Points, Report

__all__ = ["FORMS", "Dataset", "as_features"]

_WHITE = 255.0

FORMS = {
    "class": "classes, int64 (n,), each an index into `classes`",
    "numbers": "numbers, float64 (n,) or (n, k), for k names in `classes`",
    "tokens": "tokens, int64 (n, length), each an index into `classes`",
    "several": "zeros and ones, bool or uint8 (n, k), for k names in `classes`",
}
"""The forms of labels, one of which each task learns. Unknown labels are -1, and NaN among numbers."""

_FORMS_BY_KIND = {"f": "numbers", "i": "tokens", "u": "several"}


@dataclass(frozen=True, eq=False)
class Dataset:
    """`n` points, as images, as rows of numbers or as texts.

    `points` are images, uint8 (n, height, width, channels), which may be mapped from a file; numbers, float64 (n, d),
    all finite; or texts, (n,) objects of type str. `labels` is int64 (n,): an index into `classes`, or -1 where the
    label is unknown. For tasks that do not learn classes, they are given in another of the `FORMS`, and `classes` name
    the numbers, tokens or labels. Tacit makes `targets` of these as it reads the data; `labels` are then 0, or -1 where
    the target is unknown. `clients`, if the data names them, is int64 (n,): an index into `client_names`, the natural
    client of each row. `columns`, if known, are the names of the d columns. `grid` is (height, width, channels) of
    numbers that are images written out row by row. `cautions` are lines, which Tacit adds as it reads the data, on what
    may be a mistake in them.
    """

    name: str
    points: Points = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    classes: tuple[str, ...]
    clients: NDArray[np.int64] | None = field(default=None, repr=False)
    client_names: tuple[str, ...] | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    grid: tuple[int, int, int] | None = None
    cautions: tuple[str, ...] = field(default=(), repr=False)
    targets: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def form(self) -> str:
        """The form of the labels, one of `FORMS`."""
        return "class" if self.targets is None else _FORMS_BY_KIND[self.targets.dtype.kind]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a point for networks: (channels, height, width) of an image, otherwise (d,)."""
        grid = self.points.shape[1:] if self.images is not None else self.grid
        return (grid[2], grid[0], grid[1]) if grid is not None else self.points.shape[1:]

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """The points as float64 (n, d), converted by `as_features` at the first use."""
        return as_features(self.points)

    @property
    def images(self) -> NDArray[np.uint8] | None:
        """The points if they are images, uint8 (n, height, width, channels); otherwise None."""
        return self.points if self.points.ndim == 4 and self.points.dtype == np.uint8 else None

    @property
    def texts(self) -> NDArray[np.object_] | None:
        """The points if they are texts, (n,) objects of type str; otherwise None."""
        return self.points if self.points.dtype == object else None

    def with_features(
        self, kind: str, progress: Callable[[str], AbstractContextManager[Report]], *, texts: bool = False
    ) -> "Dataset":
        """The data set with features of a `kind` (`data.features`) as points; `progress` shows how far they are.

        Raises DataError if the points would be texts and must not be.
        """
        found = self
        if kind != "identity":
            with progress(self.name) as report:
                found = replace(self, points=features_of(self.points, kind, report), columns=None, grid=None)
        if not texts:
            as_features(found.points[:1])
        return found

    def first(self, limit: int | None) -> "Dataset":
        """The first `limit` rows, and the clients that have rows among them. Raises DataError for a limit below 1."""
        if limit is None:
            return self
        if limit < 1:
            raise DataSettingError("limit", limit, "must be >= 1")
        return self.take(slice(limit))

    def between(self, begin: int, end: int) -> "Dataset":
        """The rows from `begin` to `end` (exclusive) of a data set without clients, not copied."""
        targets = None if self.targets is None else self.targets[begin:end]
        return replace(self, points=self.points[begin:end], labels=self.labels[begin:end], targets=targets)

    def take(self, rows: slice | NDArray[np.int64]) -> "Dataset":
        """A copy of the given rows, with the clients that have rows among them, and all classes."""
        clients, client_names = self.clients, self.client_names
        if clients is not None and client_names is not None:
            present, clients = np.unique(clients[rows], return_inverse=True)
            client_names = tuple(client_names[client] for client in present)
        points, labels = (
            np.array(self.points[rows]),
            self.labels[rows].copy(),
        )  # not copy(): its result would be a memmap
        targets = None if self.targets is None else self.targets[rows].copy()
        named = self.columns, self.grid, self.cautions, targets
        return Dataset(self.name, points, labels, self.classes, clients, client_names, *named)


def as_features(points: Points) -> NDArray[np.float64]:
    """Convert points to rows of numbers: numbers unchanged, images row by row as pixel / 255, not centred.

    Raises DataError for texts.
    """
    if points.dtype == np.float64 and points.ndim == 2:
        return points
    if points.dtype == np.uint8 and points.ndim == 4:
        return points.reshape(len(points), -1) / _WHITE
    raise DataError("texts are not numbers; only a model that reads texts can use them")
