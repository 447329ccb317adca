"""Partitions: the assignment of a data set's rows to clients.

| partition | rows go to the clients |
| --- | --- |
| ``iid`` | at random; sizes differ by at most one |
| ``dirichlet:a`` | class by class, in proportions drawn from Dirichlet(a, ..., a); small a is uneven |
| ``dirichlet:a/b`` | a random half of the rows is divided with a, the other half with b |
| ``classes:c`` | each client holds c classes; a class's rows are shared evenly by the clients that hold it |
| ``natural`` | by the clients that the data set names |

``dirichlet`` is that of Yurochkin et al. 2019 (ICML). Two numbers are those of Abourayya et al., section 5: "we sample
half of the training data from a Dirichlet distribution over labels with alpha_1 and the other half with alpha_2", which
is implemented literally: each client has a part of both halves. (In another reading half of the clients share the one
half and the rest the other; the clients of the even half would then have points of all classes.)

Rows whose label is unknown have no class: ``dirichlet`` and ``classes`` divide them as ``iid`` does.
"""

import math
from collections.abc import Callable
from heapq import heapify, heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.dataset import Dataset
from tacit.parties.datasets.error import DataError, DataSettingError
from tacit.sim.streams import generator

__all__ = ["Rows", "classes_with_labels", "parse_partition", "partition"]

_ALLOWED = "iid, dirichlet:a or dirichlet:a/b with numbers a, b > 0, classes:c with a whole number c >= 1, or natural"

Rows = NDArray[np.int64]
Numbers = tuple[float, ...]


def parse_partition(how: str) -> tuple[str, tuple[float, ...]]:
    """Parse a partition into its name and its numbers. Raises DataError that lists what is allowed."""
    name, colon, numbers = how.partition(":")
    try:
        values = tuple(float(number) for number in numbers.split("/")) if colon else ()
    except ValueError:
        values = (math.nan,)
    allowed = len(values) in _COUNTS_ALLOWED.get(name, ()) and all(_NUMBER_ALLOWED[name](value) for value in values)
    if not allowed:
        raise DataSettingError("partition", how, f"must be {_ALLOWED}")
    return name, values


def partition(dataset: Dataset, clients: int, how: str, seed: int) -> list[Rows]:
    """The rows of each of `clients` clients, ascending and never empty.

    Drawn from the stream (seed, "partition"). Every row goes to exactly one client, except for ``natural`` with
    fewer clients than the data set has: then only the first ones, in the order of `dataset.client_names`, take
    part. Raises DataError if the partition is malformed or does not suit the data set.
    """
    name, numbers = parse_partition(how)
    rows = len(dataset.labels)
    if not 1 <= clients <= rows:
        raise DataSettingError("clients", clients, f"must be between 1 and the data set's number of rows, {rows}")
    dealt = _PARTITIONS[name](dataset, clients, numbers, generator(seed, "partition"))
    return [np.sort(own) for own in dealt]


def _iid(dataset: Dataset, clients: int, numbers: Numbers, random: np.random.Generator) -> list[Rows]:
    return _deal(np.arange(len(dataset.labels)), clients, random)


def _dirichlet(dataset: Dataset, clients: int, numbers: Numbers, random: np.random.Generator) -> list[Rows]:
    dealt = _deal(np.flatnonzero(dataset.labels < 0), clients, random)
    known = np.flatnonzero(dataset.labels >= 0)
    parts = _deal(known, len(numbers), random) if len(numbers) > 1 else [known]
    for part, number in zip(parts, numbers, strict=True):
        for label in _classes_present(dataset):
            rows = random.permutation(part[dataset.labels[part] == label])
            proportions = random.dirichlet(np.full(clients, number))
            borders = np.rint(np.cumsum(proportions)[:-1] * len(rows)).astype(np.int64)
            dealt = [np.concatenate(pair) for pair in zip(dealt, np.split(rows, borders), strict=True)]
    return _filled(dealt)


def _filled(dealt: list[Rows]) -> list[Rows]:
    """Move one row of the largest client to each client without a row, which a small a may leave."""
    most = [(-len(rows), client) for client, rows in enumerate(dealt)]
    heapify(most)
    for client in range(len(dealt)):
        if len(dealt[client]) == 0:
            _, largest = most[0]
            dealt[client], dealt[largest] = dealt[largest][:1], dealt[largest][1:]
            heapreplace(most, (-len(dealt[largest]), largest))
            heappush(most, (-1, client))
    return dealt


def _by_classes(dataset: Dataset, clients: int, numbers: Numbers, random: np.random.Generator) -> list[Rows]:
    count, present = int(numbers[0]), random.permutation(_classes_present(dataset))
    if count > len(present):
        raise DataError(f"partition classes:{count}: the data set has {len(present)} classes")
    if clients * count < len(present):
        raise DataError(f"partition classes:{count}: {clients} clients cannot hold all {len(present)} classes")
    holders = _holders(len(present), clients, count, random)
    dealt = _deal(np.flatnonzero(dataset.labels < 0), clients, random)
    for label, own in zip(present, holders, strict=True):
        rows = np.flatnonzero(dataset.labels == label)
        if len(rows) < len(own):
            name = dataset.classes[label]
            raise DataError(f"partition classes:{count}: class {name!r} has {len(rows)} rows for {len(own)} clients")
        for client, share in zip(own, _deal(rows, len(own), random), strict=True):
            dealt[client] = np.concatenate([dealt[client], share])
    return dealt


def _holders(classes: int, clients: int, count: int, random: np.random.Generator) -> list[list[int]]:
    """The clients that hold each of `classes` classes, if each client holds `count` classes."""
    holders: list[list[int]] = [[] for _ in range(classes)]
    for place, client in enumerate(random.permutation(clients)):
        for step in range(count):
            holders[(place * count + step) % classes].append(int(client))
    return holders


def classes_with_labels(dataset: Dataset, clients: int, count: int, seed: int) -> NDArray[np.bool_]:
    """The classes of which each client may use labels, bool (clients, classes of the data set), `count` in each row.

    They are dealt as in ``classes:count``, from the stream (seed, "classes with labels"). Raises DataError if the data
    set has fewer classes.
    """
    random = generator(seed, "classes with labels")
    present = random.permutation(_classes_present(dataset))
    if not 1 <= count <= len(present):
        raise DataSettingError("labels_of_classes", count, f"must be 1 to {len(present)}, the classes of the data set")
    allowed = np.zeros((clients, len(dataset.classes)), np.bool_)
    for label, own in zip(present, _holders(len(present), clients, count, random), strict=True):
        allowed[own, label] = True
    return allowed


def _natural(dataset: Dataset, clients: int, numbers: Numbers, random: np.random.Generator) -> list[Rows]:
    if dataset.clients is None:
        raise DataError(f"partition natural: the data set {dataset.name!r} does not say which client a row belongs to")
    present = np.unique(dataset.clients)
    if clients > len(present):
        raise DataSettingError(
            "clients", clients, f"must be <= {len(present)}, the natural clients of {dataset.name!r}"
        )
    return [np.flatnonzero(dataset.clients == client) for client in present[:clients]]


def _classes_present(dataset: Dataset) -> NDArray[np.int64]:
    labels = np.unique(dataset.labels)
    return labels[labels >= 0]


def _deal(rows: Rows, clients: int, random: np.random.Generator) -> list[Rows]:
    """Split `rows`, in random order, into `clients` parts whose sizes differ by at most one."""
    return np.array_split(random.permutation(rows), clients)


_PARTITIONS: dict[str, Callable[[Dataset, int, Numbers, np.random.Generator], list[Rows]]] = {
    "iid": _iid,
    "dirichlet": _dirichlet,
    "classes": _by_classes,
    "natural": _natural,
}
_COUNTS_ALLOWED = {"iid": (0,), "dirichlet": (1, 2), "classes": (1,), "natural": (0,)}
"""The numbers of parameters that each partition may have."""
_NUMBER_ALLOWED: dict[str, Callable[[float], bool]] = {
    "dirichlet": lambda number: 0.0 < number < math.inf,
    "classes": lambda number: number >= 1 and number.is_integer(),
}
