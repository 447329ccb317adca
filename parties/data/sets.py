"""Data sets: bundled ones, fetched ones (`tacit.parties.datasets`), and the user's files.

A data set is one table; `tacit.parties.data.splits` divides its rows among the clients.
"""

import functools
import gzip
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.checking import checked
from tacit.parties.data.dataset import Dataset
from tacit.parties.data.files import load_file
from tacit.parties.datasets import store
from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE, About
from tacit.parties.datasets.content import Content, DataError, DataSettingError, MissingDataError, Part, looking_random
from tacit.parties.learning.extras import MissingExtra
from tacit.sim.compute import interrupts_held_back
from tacit.sim.plugged import PluginError, place_in
from tacit.sim.registry import Registry, similar
from tacit.sim.seeding import seeded
from tacit.sim.streams import derive, generator

__all__ = [
    "DATASETS",
    "READERS",
    "DataError",
    "Dataset",
    "MissingDataError",
    "Own",
    "drawn",
    "known",
    "load",
    "load_drawn",
    "load_file",
    "load_split",
]

DATASETS: Registry[About] = Registry("data set", BUNDLED | {name: entry.about for name, entry in CATALOGUE.items()})
"""All data sets that have a name."""

_TESTED = 5
"""The last one of `_TESTED` parts of the rows is the test part if upstream has no split."""


@functools.cache
def _file_of_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the digits from scikit-learn's file, cached, with the result of its `load_digits`.

    Importing scikit-learn takes as long as the rest of a short run; it is imported only if the file is not found.
    """
    found = importlib.util.find_spec("sklearn")
    folders = (found and found.submodule_search_locations) or ()
    for file in (Path(folder) / "datasets" / "data" / "digits.csv.gz" for folder in folders):
        if file.is_file():
            with gzip.open(file, "rt", encoding="utf-8") as text:
                table = np.loadtxt(text, delimiter=",")
            return table[:, :-1], table[:, -1].astype(np.int64)
    with interrupts_held_back():
        from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels


def _digits() -> Dataset:
    pixels, labels = _file_of_digits()
    classes = tuple(str(digit) for digit in range(10))
    return Dataset("digits", pixels / 16.0, labels.astype(np.int64), classes, grid=(8, 8, 1))


def _breast_cancer() -> Dataset:
    with interrupts_held_back():
        from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    features = (raw.data - raw.data.mean(axis=0)) / raw.data.std(axis=0)
    classes = tuple(str(name) for name in raw.target_names)
    columns = tuple(str(name) for name in raw.feature_names)
    return Dataset("breast_cancer", features, raw.target.astype(np.int64), classes, columns=columns)


@functools.cache
def _synthetic() -> Dataset:
    """Random points of seven classes around separate centres, with the sizes of Covertype; cached and read-only."""
    random = generator(0, "synthetic")
    centres = random.standard_normal((_SYNTHETIC.classes, *_SYNTHETIC.shape))
    labels = random.integers(_SYNTHETIC.classes, size=_SYNTHETIC.train)
    points = random.standard_normal((_SYNTHETIC.train, *_SYNTHETIC.shape))
    shifts = _APART * centres
    for at in range(0, len(labels), _ROWS):  # a copy of all points of a class would take as much memory again
        points[at : at + _ROWS] += shifts[labels[at : at + _ROWS]]
    points.flags.writeable = labels.flags.writeable = False
    return Dataset("synthetic", points, labels, tuple(str(label) for label in range(_SYNTHETIC.classes)))


_SYNTHETIC = BUNDLED["synthetic"]
_ROWS = 10_000
_APART = 0.3
"""The distance of the centres, in standard deviations of the points of a class."""

READERS: Registry[Callable[[], Dataset]] = Registry(
    "reader of a data set", {"digits": _digits, "breast_cancer": _breast_cancer, "synthetic": _synthetic}
)
"""The readers of data sets that are not fetched: bundled ones and those of plugins."""


@dataclass(frozen=True)
class Own:
    """The reader of a data set of the user's, which `read` returns: checked, and with its rows in a fixed order that
    looks random if it is to `shuffle` them.

    Calling it raises DataError for invalid data, and PluginError if `read` fails.
    """

    name: str
    read: Callable[[], Dataset]
    shuffle: bool

    def __call__(self) -> Dataset:
        number = int.from_bytes(derive(0, "data set", self.name)[:8], "big")  # it must return the same in each call
        try:
            with seeded(number):
                given = self.read()
        except (DataError, MissingExtra):
            raise
        except Exception as error:
            if (place := place_in(error)) is None:
                raise
            problem = f"the data set {self.name!r} cannot be read: {type(error).__name__}: {error}"
            raise PluginError(*place, problem) from error
        found = checked(given, f"data set {self.name!r}")
        return found.take(looking_random(self.name, len(found.labels))) if self.shuffle else found


def _read(name: str) -> Dataset:
    """Read a whole data set that is not fetched. Raises DataError if a plugin's data set is invalid."""
    return READERS[name]()


def known(name: str) -> str:
    """Return `name` if it is the name of a data set. Raises DataError that lists the known names."""
    if name not in DATASETS:
        hint = similar(name.lower().replace("-", "_"), DATASETS)
        raise DataError(f"there is no data set {name!r}; known are {', '.join(DATASETS)}{hint}")
    return name


def load(name: str, limit: int | None = None) -> Dataset:
    """Load the data set `name`, or its first `limit` rows: upstream's training part, or everything if it has no split.

    The preprocessing is that of the whole set, regardless of the limit. (The column means and deviations of tables are
    pooled over all clients, which a real federation would have to compute together first.) Raises DataError for an
    unknown name, a limit below 1 and, as MissingDataError, a set that is not on this machine.
    """
    if known(name) in READERS:
        return _read(name).first(limit)
    content = _content(name)
    return _dataset(name, content, content.train, limit)


def load_split(name: str) -> tuple[Dataset, Dataset]:
    """The training and the test part of data set `name`.

    Where upstream has no split, the last fifth of the rows is the test part. Tables are standardised by the training
    part's means and deviations in both; breast_cancer by those of all rows. Images stay uint8 and mapped from their
    files. Raises DataError as `load` does.
    """
    if known(name) in READERS:
        whole = _read(name)
        kept = _kept(len(whole.labels))
        if whole.clients is None:  # a large table is not copied
            return whole.between(0, kept), whole.between(kept, len(whole.labels))
        return whole.take(slice(kept)), whole.take(slice(kept, None))
    content = _content(name)
    train, test = content.train, content.test
    if test is None:
        kept = _kept(len(train.labels))
        train, test = train.take(slice(kept)), train.take(slice(kept, None))
    return _dataset(name, content, train), _dataset(name, content, test, fitted=train)


def load_drawn(name: str, test: int, seed: int) -> tuple[Dataset, Dataset]:
    """The rows of data set `name`, upstream's parts together, split into a training part and `test` drawn test rows.

    Both parts are in the order of the stream (seed, "test"). Tables are standardised by the means and deviations of the
    training part. Raises DataError as `load_split` does, and if no row is left to train on.
    """
    if known(name) in READERS:
        whole = _read(name)
        held, tested = drawn(whole, test, seed)
        if whole.columns is not None:
            for part in (tested, held):  # `held` last, as both are standardised by its values
                _standardise(part.points, held.points)
        return held, tested
    content = _content(name)
    parts = list(content.parts.values())
    everything = Part(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.labels for part in parts]),
        None if content.train.clients is None else np.concatenate([part.clients for part in parts]),
    )
    kept, rest = (everything.take(rows) for rows in _drawn(name, len(everything.labels), test, seed))
    return _dataset(name, content, kept), _dataset(name, content, rest, fitted=kept)


def drawn(dataset: Dataset, test: int, seed: int) -> tuple[Dataset, Dataset]:
    """The rows of `dataset` split into a training part and `test` test rows, drawn as `load_drawn` does.

    Raises DataError if no row is left to train on.
    """
    kept, tested = _drawn(dataset.name, len(dataset.labels), test, seed)
    return dataset.take(kept), dataset.take(tested)


def _drawn(name: str, rows: int, test: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw `test` of the rows for the test part; return the training rows and the test rows."""
    if not 1 <= test < rows:
        raise DataSettingError("test", test, f"must be 1 to {rows - 1}, as {name} has {rows} rows")
    order = generator(seed, "test").permutation(rows)
    return order[test:], order[:test]


def _kept(rows: int) -> int:
    return rows - rows // _TESTED


def _content(name: str) -> Content:
    stored = store.stored(name)
    if stored is None:
        raise MissingDataError(f"{name} is not on this machine; get it by: tacit data fetch {name}")
    return stored.content


def _dataset(name: str, content: Content, part: Part, limit: int | None = None, fitted: Part | None = None) -> Dataset:
    """Make the Dataset of the first `limit` rows of `part`.

    Tables are standardised by `fitted`, by default the part itself.
    """
    fitted = fitted or part
    raw = Dataset(
        name, part.points, part.labels, content.classes, part.clients, content.client_names, content.columns
    ).first(limit)
    if part.points.ndim != 2:
        return raw
    points = raw.points.astype(np.float64)
    _standardise(points[:, : content.numbers], fitted.points[:, : content.numbers])
    return Dataset(name, points, raw.labels, raw.classes, raw.clients, raw.client_names, raw.columns)


def _standardise(values: NDArray[np.float64], fitted: NDArray[np.generic]) -> None:
    """Standardise `values` in place by the column means and deviations of `fitted`; a deviation of 0 counts as 1."""
    numbers = fitted.astype(np.float64)
    deviations = numbers.std(axis=0)
    values -= numbers.mean(axis=0)
    values /= np.where(deviations > 0.0, deviations, 1.0)
