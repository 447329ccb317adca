"""The public points: taken from the clients' data set, which then excludes them, or from another one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.dataset import Dataset
from tacit.parties.data.splits import alpha_of, spread
from tacit.parties.datasets.content import DataError
from tacit.scenarios.schema.scenario import Public
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml

__all__ = ["set_apart"]


def set_apart(
    held: Dataset, keys: Public, clients: int, seed: int, source: Callable[[str], Dataset]
) -> tuple[Dataset, Dataset | None]:
    """Separate the public points from the clients'; the second result is None without public points.

    They are drawn from the stream (seed, "public"). `source` loads the points of another data set by its name; their
    labels belong to other classes and become -1. Raises Problem.
    """
    if not keys.size:
        return held, None
    if keys.size >= 1.0 and not float(keys.size).is_integer():
        problem = f"{keys.size:g} is not a whole number of points; allowed: 0 or more of them, or a share below 1"
        raise Problem("public.size", problem)
    if clients > len(held.labels):  # checked first: it would also make public.size invalid
        problem = f"{clients} is too large for {len(held.labels)} points; allowed: 1 to {len(held.labels)}"
        raise Problem("data.clients", problem)
    if not keys.source:
        rows = _draw(held, keys, len(held.labels) - clients, seed)
        return held.take(np.setdiff1d(np.arange(len(held.labels)), rows)), held.take(rows)
    if keys.source == held.name:
        problem = f"{toml(keys.source)} is what the clients' points are of; allowed: another, or none for the same"
        raise Problem("public.source", problem)
    try:
        other = source(keys.source)
    except DataError as error:
        raise Problem("public.source", str(error)) from None
    if (other.points.shape[1:], other.points.dtype) != (held.points.shape[1:], held.points.dtype):
        problem = f"{toml(keys.source)} has points of {_kind(other)}, and {held.name} of {_kind(held)}"
        raise Problem("public.source", f"{problem}; allowed: a data set whose points are alike")
    drawn = other.take(_draw(other, keys, len(other.labels), seed))
    return held, replace(drawn, labels=np.full(len(drawn.labels), -1, np.int64))


def _draw(dataset: Dataset, keys: Public, most: int, seed: int) -> NDArray[np.int64]:
    """Draw the rows of the public points, in ascending order; `most` of them at most. Raises Problem."""
    alpha, dice = alpha_of(keys.distribution), generator(seed, "public")
    labels = dataset.labels
    size = round(keys.size * len(labels)) if keys.size < 1.0 else int(keys.size)
    if alpha is not None:
        most = min(most, int((labels >= 0).sum()))
    if not 1 <= size <= most:
        side = "small" if size < 1 else "large"
        problem = f"{keys.size:g} is too {side}; allowed: 0, or 1 to {most} points, so that each client is left one"
        raise Problem("public.size", problem)
    order = dice.permutation(len(labels))
    if alpha is None:
        return np.sort(order[:size])
    classes = np.unique(labels[labels >= 0])
    of_class = [order[labels[order] == label] for label in classes]
    counts = np.array([len(rows) for rows in of_class])
    quotas = spread(counts, size, dice.dirichlet(np.full(len(classes), alpha)))
    return np.sort(np.concatenate([rows[:quota] for rows, quota in zip(of_class, quotas, strict=True)]))


def _kind(dataset: Dataset) -> str:
    """The kind of a point, in words."""
    if dataset.texts is not None:
        return "text"
    shape = dataset.points.shape[1:]
    return f"{shape[0]} numbers" if len(shape) == 1 else " x ".join(map(str, shape)) + " pixels"
