"""Which client holds which rows of a data set, and which labels it may use.

| partition | rows go to the clients |
| --- | --- |
| ``iid`` | at random; sizes differ by at most one |
| ``dirichlet:a`` | class by class, in proportions drawn from Dirichlet(a, ..., a); small a is uneven |
| ``dirichlet:a/b`` | a random half of the rows is divided with a, the other half with b |
| ``classes:c`` | each client holds c classes; a class's rows are shared evenly by the clients that hold it |
| ``natural`` | by the clients that the data set names |

``dirichlet`` is that of Yurochkin et al. 2019 (ICML). Two numbers are those of Abourayya et al., section 5: "we sample
half of the training data from a Dirichlet distribution over labels with alpha_1 and the other half with alpha_2", which
is taken literally: each client has a part of both halves. (In another reading half of the clients share the one half
and the rest the other; the clients of the even half would then have points of all classes.)

Rows whose label is unknown have no class: ``dirichlet`` and ``classes`` divide them as ``iid`` does.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from parties.data.dataset import Dataset, as_features
from parties.datasets.content import Points
from parties.datasets.error import DataError, DataSettingError
from sim.streams import generator

__all__ = ["Shard", "counted", "named", "parse_partition", "partition", "shards", "spread"]

_ALLOWED = "iid, dirichlet:a or dirichlet:a/b with numbers a, b > 0, classes:c with a whole number c >= 1, or natural"

Rows = NDArray[np.int64]
Numbers = tuple[float, ...]

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class Shard:
    """One client's rows.

    `points` are its images, numbers or texts, as in `parties.data.dataset.Dataset`. `labels` is int64 (n_j,) and holds
    every label the data set knows, -1 for the others; only those where `labeled`, bool (n_j,), is true may be used
    by the client, the rest serve to measure accuracy. `rows`, int64 (n_j,) ascending, are the rows' indices in the
    data set. `new`, bool (n_j,), by default false everywhere, marks points to be predicted that are no training data.

    All arrays are read-only: oracles and baselines get the same ones.
    """

    points: Points = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    labeled: NDArray[np.bool_] = field(repr=False)
    rows: Rows = field(repr=False)
    new: NDArray[np.bool_] = field(repr=False, default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.new):
            object.__setattr__(self, "new", np.zeros(len(self.labels), np.bool_))
        for name in ("points", "labels", "labeled", "rows", "new"):
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """The points as float64 (n_j, d), made by `parties.data.dataset.as_features` at the first use."""
        return _read_only(as_features(self.points))


def _read_only(array: A) -> A:
    """A view of `array` that cannot be written to; what is no array as it is."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def parse_partition(how: str) -> tuple[str, tuple[float, ...]]:
    """The partition's name and its numbers. Raises DataError that lists what is allowed."""
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


def shards(
    dataset: Dataset,
    clients: int,
    how: str,
    labeled_fraction: float,
    seed: int,
    *,
    labeled_clients: int | None = None,
    labels_per_client: int | None = None,
    new: float = 0.0,
    without_labels: Collection[int] = (),
    unlabeled: float = 1.0,
) -> list[Shard]:
    """Each client's share of the data set, with the points whose labels the client may use.

    First, some of the m points of client j whose label is known are set apart as new points, to be predicted:
    round(new * m) if `new` is below 1, else `new` points, drawn from the stream (seed, "new", j). A client among
    `without_labels` has no training data: all its m points are new (Scott et al., XCLP, section 4.1: new data, and
    leave-one-client-out). The rest of this text is about the other points.

    Only the first `labeled_clients` clients may use labels; None: all. Of its m points whose label is known, client j
    may use round(labeled_fraction * m) (a half goes to the even number), all equally likely. If `labels_per_client` is
    given, it may use that number instead, spread over its classes: with ``iid`` as evenly as possible, else in
    proportion to its points of each class (Scott et al., FedProp, section 4: m clients, m_L with labels, n_L / m_L
    labels each). They are drawn from the stream (seed, "labeled", j). The share `unlabeled` of the points that are then
    neither labeled nor new is kept, drawn from (seed, "unlabeled", j); the others are left out. Raises DataError as
    `partition` does, if a fraction is not in [0, 1], if a client has fewer known labels than `new` or
    `labels_per_client`, or no point at all, and if no client has a labeled point.
    """
    if not 0.0 <= labeled_fraction <= 1.0:
        raise DataSettingError("labeled", labeled_fraction, "must be between 0 and 1")
    with_labels = clients if labeled_clients is None else labeled_clients
    if not 1 <= with_labels <= clients:
        raise DataSettingError(
            "labeled_clients", with_labels, f"must be between 1 and the number of clients, {clients}"
        )
    if labels_per_client is not None and labels_per_client < 1:
        raise DataSettingError("labels_per_client", labels_per_client, "must be >= 1")
    if not 0.0 <= new < math.inf or (new > 1.0 and not float(new).is_integer()):
        raise DataSettingError("new", _number(new), "must be a share below 1, or a whole number of points")
    if not 0.0 <= unlabeled <= 1.0:
        raise DataSettingError("unlabeled", unlabeled, "must be between 0 and 1")
    even = parse_partition(how)[0] == "iid"
    result = []
    for client, rows in enumerate(partition(dataset, clients, how, seed)):
        labels, random = dataset.labels[rows], generator(seed, "labeled", client)
        labeled = np.zeros(len(rows), dtype=np.bool_)
        fresh = _draw_new(labels, math.inf if client in without_labels else new, client, seed)
        known = np.flatnonzero((labels >= 0) & ~fresh)
        if client >= with_labels or client in without_labels:
            pass
        elif labels_per_client is None:
            labeled[random.choice(known, size=round(labeled_fraction * len(known)), replace=False)] = True
        elif labels_per_client > len(known):
            problem = f"is more than client {client}'s {len(known)} {'training ' * (new > 0)}points with a known label"
            raise DataSettingError("labels_per_client", labels_per_client, problem)
        else:
            present = random.permutation(np.unique(labels[known]))  # so that no class is always first
            of_class = [known[labels[known] == label] for label in present]
            counts = np.array([len(own) for own in of_class])
            quotas = spread(counts, labels_per_client, np.ones(len(counts)) if even else counts)
            for own, quota in zip(of_class, quotas, strict=True):
                labeled[random.choice(own, size=quota, replace=False)] = True
        kept = _keep(labeled | fresh, unlabeled, client, seed)
        result.append(Shard(dataset.points[rows[kept]], labels[kept], labeled[kept], rows[kept], fresh[kept]))
    if not any(shard.labeled.any() for shard in result):
        raise DataSettingError("labeled", labeled_fraction, "leaves no client a labeled point; it must be larger")
    return result


def _number(value: float) -> float:
    """`value` as it is printed in messages: a whole number without its point."""
    return int(value) if float(value).is_integer() else value


def _draw_new(labels: NDArray[np.int64], new: float, client: int, seed: int) -> NDArray[np.bool_]:
    """Which of a client's points are new: `new` points, or that share if below 1, with a known label; infinity: all."""
    drawn, known = np.zeros(len(labels), np.bool_), np.flatnonzero(labels >= 0)
    if new == math.inf:
        drawn[known] = True
        return drawn
    count = int(new) if new >= 1.0 else round(new * len(known))
    if count > len(known):
        raise DataSettingError(
            "new", _number(new), f"is more than client {client}'s {len(known)} points with a known label"
        )
    drawn[generator(seed, "new", client).choice(known, size=count, replace=False)] = True
    return drawn


def _keep(needed: NDArray[np.bool_], share: float, client: int, seed: int) -> Rows:
    """The points that are `needed`, and the share `share` of the others."""
    others = np.flatnonzero(~needed)
    chosen = generator(seed, "unlabeled", client).choice(others, size=round(share * len(others)), replace=False)
    kept = np.sort(np.concatenate([np.flatnonzero(needed), chosen])) if share < 1.0 else np.arange(len(needed))
    if not len(kept):
        raise DataSettingError("unlabeled", share, f"leaves client {client} no point")
    return kept


def spread(counts: NDArray[np.int64], total: int, weights: NDArray[np.float64] | NDArray[np.int64]) -> list[int]:
    """`total` divided into whole parts, as near as possible to the proportions of `weights`, none above its count.

    Units go one by one to the part furthest behind its weight (Webster's method), the first one if several are.
    """
    parts = np.zeros(len(counts), dtype=np.int64)
    for _ in range(total):
        behind = np.where(parts < counts, weights / (2.0 * parts + 1.0), -1.0)
        parts[np.argmax(behind)] += 1
    return [int(part) for part in parts]


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
    # A small a may leave a client without a row; it then gets one from the client that has most.
    for client in range(clients):
        if len(dealt[client]) == 0:
            largest = max(range(clients), key=lambda other: len(dealt[other]))
            dealt[client], dealt[largest] = dealt[largest][:1], dealt[largest][1:]
    return dealt


def _by_classes(dataset: Dataset, clients: int, numbers: Numbers, random: np.random.Generator) -> list[Rows]:
    count, present = int(numbers[0]), random.permutation(_classes_present(dataset))
    if count > len(present):
        raise DataError(f"partition classes:{count}: the data set has {len(present)} classes")
    if clients * count < len(present):
        raise DataError(f"partition classes:{count}: {clients} clients cannot hold all {len(present)} classes")
    # Each client takes the next `count` classes of a shuffled circle, so the numbers of holders of any two classes
    # differ by at most one; the order of the clients is shuffled as well.
    holders: list[list[int]] = [[] for _ in present]
    for place, client in enumerate(random.permutation(clients)):
        for step in range(count):
            holders[(place * count + step) % len(present)].append(int(client))
    dealt = _deal(np.flatnonzero(dataset.labels < 0), clients, random)
    for label, own in zip(present, holders, strict=True):
        rows = np.flatnonzero(dataset.labels == label)
        if len(rows) < len(own):
            name = dataset.classes[label]
            raise DataError(f"partition classes:{count}: class {name!r} has {len(rows)} rows for {len(own)} clients")
        for client, share in zip(own, _deal(rows, len(own), random), strict=True):
            dealt[client] = np.concatenate([dealt[client], share])
    return dealt


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
    """`rows` in random order, cut into `clients` parts whose sizes differ by at most one."""
    return np.array_split(random.permutation(rows), clients)


_PARTITIONS: dict[str, Callable[[Dataset, int, Numbers, np.random.Generator], list[Rows]]] = {
    "iid": _iid,
    "dirichlet": _dirichlet,
    "classes": _by_classes,
    "natural": _natural,
}
_COUNTS_ALLOWED = {"iid": (0,), "dirichlet": (1, 2), "classes": (1,), "natural": (0,)}
"""How many numbers each partition takes."""
_NUMBER_ALLOWED: dict[str, Callable[[float], bool]] = {
    "dirichlet": lambda number: 0.0 < number < math.inf,
    "classes": lambda number: number >= 1 and number.is_integer(),
}


def named(shards: Sequence[Shard]) -> dict[str, Shard]:
    """Each client's share by its name, in the order of the clients."""
    return {f"client/{i}": shard for i, shard in enumerate(shards)}


def counted(shards: Mapping[str, Shard]) -> tuple[dict[str, int], dict[str, int]]:
    """How many points each client has, and how many of them with labels."""
    points = {name: len(shard.rows) for name, shard in shards.items()}
    return points, {name: int(shard.labeled.sum()) for name, shard in shards.items()}
