"""The division of a data set among clients: the rows of each (partitions), and its share with the labels that it may
use (shards).

A share is computed from its rows and random streams when it is first used.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from heapq import heapify, heappush, heapreplace
from typing import Any, TypeVar, overload
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.dataset import Dataset, as_features
from tacit.parties.datasets.content import DataError, DataSettingError, Points
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml

__all__ = [
    "Held",
    "Rows",
    "Shard",
    "Shards",
    "alpha_of",
    "classes_with_labels",
    "counted",
    "held",
    "named",
    "parse_partition",
    "partition",
    "shards",
    "spread",
]


# --- partitions: the assignment of a data set's rows to clients
#
# | partition | rows go to the clients |
# | --- | --- |
# | ``iid`` | at random; sizes differ by at most one |
# | ``dirichlet:a`` | class by class, in proportions drawn from Dirichlet(a, ..., a); small a is uneven |
# | ``dirichlet:a/b`` | a random half of the rows is divided with a, the other half with b |
# | ``classes:c`` | each client holds c classes; a class's rows are shared evenly by the clients that hold it |
# | ``natural`` | by the clients that the data set names |
#
# ``dirichlet`` is that of Yurochkin et al. 2019 (ICML). Two numbers are those of Abourayya et al., section 5: "we
# sample half of the training data from a Dirichlet distribution over labels with alpha_1 and the other half with
# alpha_2", which is implemented literally: each client has a part of both halves. (In another reading half of the
# clients share the one half and the rest the other; the clients of the even half would then have points of all
# classes.)
#
# Rows whose label is unknown have no class: ``dirichlet`` and ``classes`` divide them as ``iid`` does.


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


def alpha_of(distribution: str) -> float | None:
    """The number A in ``dirichlet:A``; None for ``iid``. Raises ValueError for any other text."""
    name, colon, number = distribution.partition(":")
    if distribution == "iid":
        return None
    try:
        value = float(number) if name == "dirichlet" and colon else 0.0
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise ValueError(f"{toml(distribution)} is not known; allowed: iid, dirichlet:A with a number A > 0")
    return value


def partition(dataset: Dataset, clients: int, how: str, seed: int) -> list[Rows]:
    """The rows of each of `clients` clients, ascending and never empty.

    Drawn from the stream (seed, "partition"). Every row goes to exactly one client, except for ``natural`` with
    fewer clients than the data set has: then only the first ones, in the order of `dataset.client_names`, take
    part. Raises DataError if the partition is malformed or does not suit the data set.
    """
    name, numbers = parse_partition(how)
    rows = len(dataset.labels)
    if dataset.targets is not None and _PARTITIONS[name] in (_dirichlet, _by_classes):
        raise DataSettingError("partition", how, _NO_CLASSES)
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


# --- shards

A = TypeVar("A")
_NO_CLASSES = "divides rows by their classes, and the labels of this data set are no classes"


@dataclass(frozen=True, eq=False)
class Shard:
    """The share of one client.

    `points` are its images, numbers or texts, as in `tacit.parties.data.dataset.Dataset`. `labels` is int64 (n_j,) and
    holds every label the data set knows, -1 for the others; only those where `labeled`, bool (n_j,), is true may be
    used by the client, the rest serve to measure accuracy. `rows`, int64 (n_j,) ascending, are the rows' indices in the
    data set. `new`, bool (n_j,), by default false everywhere, marks points to be predicted that are not training data.
    `targets` (n_j, ...) are what is learned instead of classes, if the data set has them. `test_points` and
    `test_targets` (labels, or targets if there are any) are held out: the client tests models on them.

    All arrays are read-only: oracles and baselines get the same ones.
    """

    points: Points = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    labeled: NDArray[np.bool_] = field(repr=False)
    rows: Rows = field(repr=False)
    new: NDArray[np.bool_] = field(repr=False, default_factory=lambda: np.zeros(0, np.bool_))
    targets: NDArray[np.generic] | None = field(repr=False, default=None)
    test_points: Points | None = field(repr=False, default=None)
    test_targets: NDArray[Any] | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        if not len(self.new):
            object.__setattr__(self, "new", np.zeros(len(self.labels), np.bool_))
        for name in ("points", "labels", "labeled", "rows", "new", "targets", "test_points", "test_targets"):
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """The points as float64 (n_j, d), converted by `tacit.parties.data.dataset.as_features` at the first use."""
        return _read_only(as_features(self.points))


def _read_only(array: A) -> A:
    """A read-only view of `array`; other objects are returned unchanged."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def shards(
    dataset: Dataset,
    clients: int,
    how: str,
    labeled_fraction: float,
    seed: int,
    *,
    labeled_clients: int | None = None,
    labels_per_client: int | None = None,
    labels_of_classes: int | None = None,
    new: float = 0.0,
    without_labels: Collection[int] = (),
    unlabeled: float = 1.0,
    held_out: float = 0.0,
) -> "Shards":
    """Each client's share of the data set, with the points whose labels the client may use.

    First, some of the m points of client j whose label is known are set apart as new points, to be predicted:
    round(new * m) if `new` is below 1, else `new` points, drawn from the stream (seed, "new", j). A client among
    `without_labels` has no training data: all its m points are new (Scott et al., XCLP, section 4.1: new data, and
    leave-one-client-out). The rest of this text is about the other points.

    Only the first `labeled_clients` clients may use labels; None: all. Of its m points whose label is known, client j
    may use round(labeled_fraction * m) (a half goes to the even number), all equally likely. If `labels_per_client` is
    given, it may use that number instead, spread over its classes: with ``iid`` as evenly as possible, else in
    proportion to its points of each class (Scott et al., FedProp, section 4: m clients, m_L with labels, n_L / m_L
    labels each). They are drawn from the stream (seed, "labeled", j). If `labels_of_classes` is given, they are drawn
    from the points of that number of classes, which `tacit.parties.data.splits.classes_with_labels` deals to each
    client (the released split of CIFAR-10, non-iid: a client holds images of all ten classes, and its labels cover
    five); `labeled_fraction` is then of these points. The share `unlabeled` of the points that are then neither labeled
    nor new is kept, drawn from (seed, "unlabeled", j); the others are left out. Of its l labeled points a client then
    holds out round(held_out * l), drawn from (seed, "held out", j), but never the last one: they are in
    `Shard.test_points`, and no longer among its points.

    Raises DataError as `partition` does, if a fraction is not in [0, 1], if a client has fewer known labels than `new`
    or `labels_per_client`, or no point at all, if no client has a labeled point, and if there are both
    `labels_of_classes` and new points.
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
    if not 0.0 <= held_out < 1.0:
        raise DataSettingError("held_out", held_out, "must be at least 0 and less than 1")
    if labels_of_classes is not None and (new or without_labels):
        raise DataSettingError("labels_of_classes", labels_of_classes, "cannot go with new points")
    if labels_of_classes is not None and dataset.targets is not None:
        raise DataSettingError("labels_of_classes", labels_of_classes, _NO_CLASSES)
    usable = None if labels_of_classes is None else classes_with_labels(dataset, clients, labels_of_classes, seed)
    rule = _Rule(
        parse_partition(how)[0] == "iid",
        labeled_fraction,
        seed,
        with_labels,
        labels_per_client,
        usable,
        new,
        frozenset(without_labels),
        unlabeled,
        held_out,
    )
    dealt = Shards(dataset, partition(dataset, clients, how, seed), rule)
    if not dealt.labels.any():
        raise DataSettingError("labeled", labeled_fraction, "leaves no client a labeled point; it must be larger")
    return dealt


@dataclass(frozen=True)
class _Rule:
    """The rule for choosing a client's labeled, new and kept points; see `shards`.

    `usable`, bool (clients, classes): the classes of which a client may use labels; None: all.
    """

    even: bool
    labeled: float
    seed: int
    with_labels: int
    labels_per_client: int | None
    usable: NDArray[np.bool_] | None = field(repr=False, compare=False)
    new: float
    without_labels: frozenset[int]
    unlabeled: float
    held_out: float = 0.0

    def known(self, clients: int | NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each label, of a point of the given client, true if it is known and may be used.

        The result is an array.
        """
        return labels >= 0 if self.usable is None else (labels >= 0) & self.usable[clients, labels]

    def counts(self, client: int, points: int, known: int) -> tuple[int, int, int]:
        """The numbers of new, labeled and kept points of a client with `points`, `known` of them with known labels.

        Points that it holds out for tests are not among them. Raises DataError if there are too few.
        """
        fresh, labeled, kept = self._drawn(client, points, known)
        tests = self._tests(labeled)
        return fresh, labeled - tests, kept - tests

    def _tests(self, labeled: int) -> int:
        """How many of its labeled points a client holds out."""
        return min(round(self.held_out * labeled), max(0, labeled - 1))

    def _drawn(self, client: int, points: int, known: int) -> tuple[int, int, int]:
        """The numbers of `counts`, with the points that are held out."""
        fresh = self._new(client, known)
        left = known - fresh
        if client >= self.with_labels or client in self.without_labels:
            labeled = 0
        elif self.labels_per_client is None:
            labeled = round(self.labeled * left)
        elif self.labels_per_client > left:
            of = "" if self.usable is None else " of the classes that it may use labels of"
            what = f"is more than client {client}'s {left} {'training ' * (self.new > 0)}points with a known label{of}"
            raise DataSettingError("labels_per_client", self.labels_per_client, what)
        else:
            labeled = self.labels_per_client
        kept = labeled + fresh + round(self.unlabeled * (points - labeled - fresh)) if self.unlabeled < 1.0 else points
        if not kept:
            raise DataSettingError("unlabeled", self.unlabeled, f"leaves client {client} no point")
        return fresh, labeled, kept

    def _new(self, client: int, known: int) -> int:
        if client in self.without_labels:
            return known
        count = int(self.new) if self.new >= 1.0 else round(self.new * known)
        if count > known:
            problem = f"is more than client {client}'s {known} points with a known label"
            raise DataSettingError("new", _number(self.new), problem)
        return count

    def shard(self, dataset: Dataset, client: int, rows: Rows) -> Shard:
        """The share of a client that holds `rows`. It draws nothing if all or none of the points are to be drawn."""
        labels = dataset.labels[rows]
        known = np.flatnonzero(self.known(client, labels))
        new, count, _ = self._drawn(client, len(rows), len(known))
        fresh, labeled = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        fresh[_some(known, new, self.seed, "new", client)] = True
        known = known[~fresh[known]]
        if self.labels_per_client is None or not 0 < count < len(known):
            labeled[_some(known, count, self.seed, "labeled", client)] = True
        else:
            random = generator(self.seed, "labeled", client)
            present = random.permutation(np.unique(labels[known]))  # so that no class is always first
            of_class = [known[labels[known] == label] for label in present]
            counts = np.array([len(own) for own in of_class])
            quotas = spread(counts, count, np.ones(len(counts)) if self.even else counts)
            for own, quota in zip(of_class, quotas, strict=True):
                labeled[random.choice(own, size=quota, replace=False)] = True
        if self.unlabeled < 1.0:
            others = np.flatnonzero(~(labeled | fresh))
            chosen = _some(others, round(self.unlabeled * len(others)), self.seed, "unlabeled", client)
            kept = np.sort(np.concatenate([np.flatnonzero(labeled | fresh), chosen]))
            rows, labels, labeled, fresh = rows[kept], labels[kept], labeled[kept], fresh[kept]
        tests = np.sort(_some(np.flatnonzero(labeled), self._tests(count), self.seed, "held out", client))
        held, learned = rows[tests], dataset.labels if dataset.targets is None else dataset.targets
        if len(tests):
            stay = np.delete(np.arange(len(rows)), tests)
            rows, labels, labeled, fresh = rows[stay], labels[stay], labeled[stay], fresh[stay]
        targets = None if dataset.targets is None else dataset.targets[rows]
        tested = (dataset.points[held], learned[held]) if self.held_out else (None, None)
        return Shard(dataset.points[rows], labels, labeled, rows, fresh, targets, *tested)


def _some(of: Rows, count: int, seed: int, purpose: str, client: int) -> Rows:
    """Draw `count` elements of `of` from the stream (seed, purpose, client).

    It draws nothing if that is all of them.
    """
    if count in (0, len(of)):
        return of[:count]
    return generator(seed, purpose, client).choice(of, size=count, replace=False)


_FEW_CLIENTS, _FEW_BYTES = 200, 1 << 20
"""The most clients, and bytes of points, of a data set whose shares are kept: a short run asks for each ten times."""


class Shards(Sequence[Shard]):
    """The shares of all clients of `dataset`: client j holds `rows[j]`, and its share is made on the first access.

    It is then kept: with many clients or points only while somebody uses it.

    `points` and `labels`, int64 (clients,), are the numbers of points and of usable labels of each client.
    """

    def __init__(self, dataset: Dataset, rows: Sequence[Rows], rule: _Rule) -> None:
        self._dataset, self._rule = dataset, rule
        self._rows = np.concatenate(rows)  # of all clients, one after the other: an array of each takes 100 bytes more
        few = len(rows) <= _FEW_CLIENTS and dataset.points.nbytes <= _FEW_BYTES
        self._made: MutableMapping[int, Shard] = {} if few else WeakValueDictionary()
        sizes = np.array([len(own) for own in rows])
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        usable = rule.known(np.repeat(np.arange(len(rows)), sizes), dataset.labels[self._rows])
        known = np.add.reduceat(usable.astype(np.int64), self._starts[:-1])
        counts = [rule.counts(*one) for one in zip(range(len(rows)), sizes.tolist(), known.tolist(), strict=True)]
        _, self.labels, self.points = np.array(counts, np.int64).T.copy()

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, client: int) -> Shard: ...
    @overload
    def __getitem__(self, client: slice) -> list[Shard]: ...
    def __getitem__(self, client: int | slice) -> Shard | list[Shard]:
        if isinstance(client, slice):
            return [self[one] for one in range(*client.indices(len(self)))]
        return self._share(range(len(self))[client])

    def _share(self, client: int) -> Shard:
        shard = self._made.get(client)
        if shard is None:
            rows = self._rows[self._starts[client] : self._starts[client + 1]]
            shard = self._made[client] = self._rule.shard(self._dataset, client, rows)
        return shard

    def digest(self) -> bytes:
        """The SHA-256 of the data set's arrays and of the clients' rows.

        Choices that follow from the seed are not included.
        """
        state = hashlib.sha256(repr(self._rule).encode())
        arrays = [self._dataset.points, self._dataset.labels, self._rows, self.points]
        arrays += [] if self._dataset.targets is None else [self._dataset.targets]
        for array in arrays if self._rule.usable is None else [*arrays, self._rule.usable]:
            own = np.ascontiguousarray(array)
            content = str(own.tolist()).encode() if own.dtype.hasobject else own.data
            state.update(f"{own.dtype.str} {own.shape}".encode() + hashlib.sha256(content).digest())
        return state.digest()


@dataclass(frozen=True, slots=True)
class Held:
    """How many `points` and usable `labels` a client holds; `make` makes its shard, which may never be needed."""

    points: int
    labels: int
    make: Callable[[], Shard]


class NamedShards(Mapping[str, Shard]):
    """The `shards` by the names of their clients, in the order of the clients."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._numbers = {f"client/{i}": i for i in range(len(shards))}

    def __getitem__(self, name: str) -> Shard:
        return self.shards[self._numbers[name]]

    def held(self, name: str) -> Held:
        """How much the client holds, without making its shard."""
        number = self._numbers[name]
        points, labels = self.shards.points.item(number), self.shards.labels.item(number)
        return Held(points, labels, partial(self.shards.__getitem__, number))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _number(value: float) -> float:
    """Convert `value` for messages: a whole number is printed without a decimal point."""
    return int(value) if float(value).is_integer() else value


def spread(counts: NDArray[np.int64], total: int, weights: NDArray[np.float64] | NDArray[np.int64]) -> list[int]:
    """Divide `total` into whole parts close to the proportions of `weights`, none above its count.

    Units go one by one to the part furthest behind its weight (Webster's method); on a tie to the first part.
    """
    parts = np.zeros(len(counts), dtype=np.int64)
    for _ in range(total):
        behind = np.where(parts < counts, weights / (2.0 * parts + 1.0), -1.0)
        parts[np.argmax(behind)] += 1
    return [int(part) for part in parts]


def named(shards: Sequence[Shard]) -> Mapping[str, Shard]:
    """Each client's share by its name, in the order of the clients."""
    return NamedShards(shards) if isinstance(shards, Shards) else {f"client/{i}": s for i, s in enumerate(shards)}


def held(shards: Mapping[str, Shard], name: str) -> Held | Shard:
    """The shard of the client `name`; where `shards` has its counts, these, and the shard is made when it is used."""
    found: Held | Shard = shards.held(name) if hasattr(shards, "held") else shards[name]
    return found


def counted(shards: Mapping[str, Shard]) -> tuple[dict[str, int], dict[str, int]]:
    """The number of points of each client, and the number of its labeled points."""
    if isinstance(shards, NamedShards):
        points, labels = shards.shards.points.tolist(), shards.shards.labels.tolist()
        return dict(zip(shards, points, strict=True)), dict(zip(shards, labels, strict=True))
    points = {name: len(shard.rows) for name, shard in shards.items()}
    return points, {name: int(shard.labeled.sum()) for name, shard in shards.items()}
