"""Checks of a table of points, the same for files, data sets of plugins, and the sites of one study.

Nonsense that would give a wrong result is an error (`DataError`). What may be meant is a caution, which is shown
before the run. Both name the file or data set, the column or array, and the values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.dataset import FORMS, Dataset
from tacit.parties.datasets.content import DataError

__all__ = ["LARGEST", "check_alike", "check_form", "check_part", "check_sites", "checked", "order_problem"]

LARGEST = 1e150
"""The largest number allowed; squares of larger ones, or sums of squares, may exceed float64."""

_MISSING = ("nan", "null", "<na>", "n/a", "#n/a")
"""Names, in lower case, with which tools write that a value is missing. No class is called so."""

_MAYBE_MISSING = ("na", "none", "?", "-", "missing", "unknown")
"""Names, in lower case, of a missing value, or of a class."""

_COUNTING = 10
"""The fewest rows of a column of row numbers that are taken for such."""


def checked(found: object, where: str) -> Dataset:
    """The data set `found` with its `cautions`. Raises DataError for what is no valid Dataset.

    `where`, the origin of the data, begins each line.
    """
    data = _check(found, where)
    return replace(data, cautions=tuple(_doubts(data, where)))


def _with_targets(found: Dataset, where: str) -> Dataset:
    """The data set with `targets` in place of labels that are no classes. Raises DataError."""
    labels = found.labels
    kind, ways = labels.dtype.kind, labels.ndim
    if found.targets is not None or len(labels) != len(found.points):
        return found
    if kind == "f" and ways in (1, 2):
        numbers = labels.reshape(len(labels), -1)
        _check_named(numbers, found, "numbers", where)
        if (bad := np.abs(numbers) > np.finfo(np.float32).max).any():
            row, column = np.argwhere(bad)[0]
            problem = f"{numbers[row, column]} is too large for float32; a number that is unknown is NaN"
            raise DataError(f"{where}: labels, row {row}: {problem}")
        targets, known = numbers.astype(np.float32), ~np.isnan(numbers).any(1)
        targets[~known] = 0.0
    elif (kind == "b" or labels.dtype == np.uint8) and ways == 2:
        _check_named(labels, found, "zeros and ones", where)
        if (bad := labels > 1).any():
            row, column = np.argwhere(bad)[0]
            raise DataError(f"{where}: labels, row {row}, column {column}: {labels[row, column]} is neither 0 nor 1")
        targets, known = labels.astype(np.uint8), np.ones(len(labels), np.bool_)
    elif labels.dtype == np.int64 and ways == 2:
        count = _texts(found.classes, "classes", where)
        _check_codes(labels.ravel(), "labels", labels.size, -1, count, where)
        targets, known = labels, (labels >= 0).any(1)
    else:
        return found
    return replace(found, labels=np.where(known, 0, -1), targets=targets)


def _check_named(labels: NDArray[Any], found: Dataset, what: str, where: str) -> None:
    """Raise DataError unless `classes` name each column of `labels`."""
    count = _texts(found.classes, "classes", where)
    if count != labels.shape[1]:
        have = f"labels are {what} of the shape {found.labels.shape}, and classes are {count} names"
        codes = labels.shape[1] == 1 and np.isin(labels, np.arange(count)).all()
        hint = "; labels of classes are int64: labels.astype(numpy.int64)" if codes else ""
        raise DataError(f"{where}: {have}; there must be {labels.shape[1]}, one for each column{hint}")


def check_form(data: Dataset, form: str, task: str, fitting: Iterable[str], where: str) -> None:
    """Raise DataError unless the labels of `data` have the `form` that `task` learns.

    `fitting` are the names of the tasks that learn the form that the labels have.
    """
    if data.form == form:
        return
    allowed = " or ".join(f'training.task = "{name}"' for name in fitting)
    use = f"choose {allowed} (federated training), or " if allowed else ""
    raise DataError(f"{where}: labels are {FORMS[data.form]}; {use}give what {task} learns: {FORMS[form]}")


def _check(found: object, where: str) -> Dataset:
    if not isinstance(found, Dataset):
        raise DataError(f"{where}: its function must return a Dataset, not a {type(found).__name__}")
    for name in ("points", "labels", "clients"):
        value: object = getattr(found, name)
        if not isinstance(value, np.ndarray) and not (name == "clients" and value is None):
            raise DataError(f"{where}: {name} must be a numpy array, not a {type(value).__name__}")
    _check_points(found.points, where)
    rows = len(found.points)
    found = _with_targets(found, where)
    if found.targets is None:
        _check_codes(found.labels, "labels", rows, -1, _texts(found.classes, "classes", where), where)
        check_alike({name: "" for name in found.classes}, "classes", where)
    if not (found.labels >= 0).any():
        raise DataError(f"{where}: no row has a label")
    if (found.clients is None) != (found.client_names is None):
        raise DataError(f"{where}: clients and client_names go together; only one of them is given")
    if found.clients is not None and found.client_names is not None:
        count = _texts(found.client_names, "client_names", where)
        _check_codes(found.clients, "clients", rows, 0, count, where)
        empty = np.flatnonzero(np.bincount(found.clients, minlength=count) == 0)
        if len(empty):
            name = found.client_names[empty[0]]
            raise DataError(f"{where}: client {name!r} has no row; leave it out of client_names")
    if found.columns is not None:
        count = _texts(found.columns, "columns", where)
        if found.points.ndim != 2 or count != found.points.shape[1]:
            raise DataError(f"{where}: {count} columns are named, but points have the shape {found.points.shape}")
    if found.grid is not None:
        grid = tuple(found.grid) if isinstance(found.grid, tuple | list) else ()
        if found.points.ndim != 2 or len(grid) != 3 or np.prod(grid) != found.points.shape[1]:
            needs = "must be (height, width, channels) of points (n, height * width * channels)"
            raise DataError(f"{where}: grid(={found.grid!r}) {needs}; points have the shape {found.points.shape}")
    return found


def _check_points(points: NDArray[Any], where: str) -> None:
    shape = points.shape
    if 0 in shape or not shape:
        raise DataError(f"{where}: points have the shape {shape}; there must be at least one row and one column")
    if points.ndim == 4:
        if (problem := order_problem(points)) is not None:
            raise DataError(f"{where}: points have the type {points.dtype} and the shape {shape}; {problem}")
    elif points.ndim == 2:
        if points.dtype != np.float64:
            raise DataError(
                f"{where}: points are {points.dtype}; numbers must be float64: points.astype(numpy.float64)"
            )
        for bad, what in ((~np.isfinite(points), "not finite"), (np.abs(points) > LARGEST, f"above {LARGEST:g}")):
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise DataError(
                    f"{where}: points, row {row}, column {column}: {points[row, column]} is {what}; "
                    f"numbers must be finite and at most {LARGEST:g}"
                )
    elif points.ndim == 1 and points.dtype == object:
        strange = next((row for row, text in enumerate(points) if not isinstance(text, str)), None)
        if strange is not None:
            raise DataError(f"{where}: points, row {strange}: {points[strange]!r} is no text")
    else:
        raise DataError(
            f"{where}: points have the type {points.dtype} and the shape {shape}; they must be numbers, float64 "
            "(rows, columns), images, uint8 (rows, height, width, channels), or texts, (rows,) objects of type str"
        )


def order_problem(images: NDArray[Any]) -> str | None:
    """The mistake in `images` (n, height, width, channels), in their type or channels; None if there is none."""
    if images.dtype == np.uint8 and images.shape[3] in (1, 3) and 0 not in images.shape:
        return None
    turned = "; numpy.moveaxis(features, 1, 3) puts the channels last" if images.shape[1] in (1, 3) else ""
    return f"images must be uint8 (rows, height, width, channels) with 1 or 3 channels{turned}"


def _texts(names: object, what: str, where: str) -> int:
    """The number of `names`, which must be a tuple of different texts."""
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise DataError(f"{where}: {what}(={_shown(names)}) must be a tuple of texts")
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: {what} has {double!r} twice")
    return len(names)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def _check_codes(codes: NDArray[Any], what: str, rows: int, least: int, count: int, where: str) -> None:
    named = "classes" if what == "labels" else "client_names"
    if codes.shape != (rows,) or codes.dtype != np.int64:
        have = f"{what} have the type {codes.dtype} and the shape {codes.shape}"
        raise DataError(f"{where}: {have}; with these points they must be int64 ({rows},)")
    outside = np.flatnonzero((codes < least) | (codes >= count))
    if len(outside):
        unknown = ", or -1 where the label is unknown" if least < 0 else ""
        row = outside[0]
        allowed = f"an index into {named}, 0 to {count - 1}{unknown}"
        raise DataError(f"{where}: {what}, row {row}: {codes[row]} is not {allowed}")


def check_alike(names: Mapping[str, str], place: str, where: str) -> None:
    """Raise DataError if two class `names` are one number, or one of them says that a value is missing.

    The values of `names` are the places of the names ("row 3"), or empty; `place` is the column or array.
    """

    def at(name: str) -> str:
        return f"{name!r}" + (f" ({names[name]})" if names[name] else "")

    for name in names:
        if name.strip().lower() in _MISSING:
            problem = f"{at(name)} would be a class of its own; leave the label of these rows empty if it is unknown"
            raise DataError(f"{where}: {place}: {problem}")
    numbers: dict[float, str] = {}
    for name in names:
        if (number := _as_number(name)) is not None:
            if number in numbers:
                two = f"{at(numbers[number])} and {at(name)}"
                raise DataError(f"{where}: {place}: {two} are the same number and would be two classes; write one way")
            numbers[number] = name


def _as_number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


def check_part(part: Dataset, what: str, where: str) -> None:
    """Raise DataError if all points of `part` (such as "the test part") with a known label are of one class."""
    known = part.labels[part.labels >= 0]
    if part.targets is not None or not len(known) or (known != known[0]).any():
        return
    name, unknown = part.classes[known[0]], len(part.labels) - len(known)
    problem = f"all {len(known)} labels of {what} are {name!r}; a model needs points of two classes"
    one = name == "1" if where.endswith(".npz") else len(part.classes) == 2 and known[0] == 1
    if unknown and one:
        problem += f". {unknown} labels are -1, which stands for an unknown label: number the classes from 0"
    elif len(part.classes) > 1:
        problem += f". The data have {len(part.classes)} classes: their rows may be in the order of the classes"
    raise DataError(f"{where}: {problem}")


def check_sites(sources: Sequence[tuple[str, Dataset]]) -> None:
    """Raise DataError unless the data of all sites (the origin of each, its data) have the same columns, in the same
    order, and the same way to write classes."""
    first, data = next(((where, data) for where, data in sources if data.columns is not None), sources[0])
    classes: dict[str, str] = {}
    for where, other in sources:
        _check_columns(other, where, data, first)
        for name in other.classes:
            for known, there in classes.items():
                if known != name and _same(known, name):
                    raise DataError(
                        f"{where}: column of labels: the class {name!r} is written {known!r} in {there}; "
                        "write each class in one way at all sites"
                    )
            classes.setdefault(name, where)


def _check_columns(data: Dataset, where: str, first: Dataset, origin: str) -> None:
    if data.points.shape[1:] != first.points.shape[1:]:
        one, other = (points.points.shape[1] for points in (data, first))
        lacking, further = _beyond(first, data), _beyond(data, first)
        said = [f"it lacks {name!r}" for name in lacking[:1]] + [f"it has {name!r} besides" for name in further[:1]]
        raise DataError(f"{where}: {one} columns; {origin} has {other}" + (f": {' and '.join(said)}" if said else ""))
    if data.columns is None or first.columns is None or data.columns == first.columns:
        return
    lacking = _beyond(first, data)
    if lacking:
        further = _beyond(data, first)
        raise DataError(f"{where}: it has no column {lacking[0]!r} as {origin} has, but {further[0]!r}")
    at = next(at for at, pair in enumerate(zip(data.columns, first.columns, strict=True)) if pair[0] != pair[1])
    raise DataError(
        f"{where}: its columns are in another order: number {at + 1} is {data.columns[at]!r}, in {origin} "
        f"{first.columns[at]!r}; the order must be {', '.join(first.columns)}"
    )


def _beyond(data: Dataset, other: Dataset) -> list[str]:
    """The columns of `data` that `other` lacks; none if names are unknown."""
    if data.columns is None or other.columns is None:
        return []
    return [name for name in data.columns if name not in other.columns]


def _same(one: str, other: str) -> bool:
    """Return true if two different names are probably one class: by number, or but for case and blanks."""
    number = _as_number(one)
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold() or (
        number is not None and number == _as_number(other)
    )


def _doubts(data: Dataset, where: str) -> Iterator[str]:
    """A line for each property of the data that may be a mistake."""
    classes = data.classes if data.targets is None else ()
    for name in classes:
        if name.strip().lower() in _MAYBE_MISSING:
            rows = int((data.labels == classes.index(name)).sum())
            yield f"{where}: {name!r} is a class, of {rows} rows; leave these labels empty if they are unknown"
    for one, other in _pairs(classes):
        if _same(one, other):
            yield f"{where}: {one!r} and {other!r} are two classes"
    unknown = int((data.labels < 0).sum())
    if unknown and where.endswith(".npz") and data.classes == ("0", "1"):
        yield f"{where}: array 'labels': -1 stands for an unknown label; {unknown} rows have it, and -1 is no class"
    lacking = [name for code, name in enumerate(classes) if not (data.labels == code).any()]
    if unknown and lacking:
        yield (
            f"{where}: labels: -1 stands for an unknown label; {unknown} rows have it, and no row is of the class "
            f"{lacking[0]!r}"
        )
    if data.columns is not None and data.points.ndim == 2 and len(data.points) >= _COUNTING:
        for column, name in enumerate(data.columns):
            values = data.points[:, column]
            if values[1] - values[0] == 1 and (np.diff(values) == 1).all():
                first, last = int(values[0]), int(values[-1])
                yield f"{where}: column {name!r} counts the rows ({first} to {last}) and is a feature all the same"


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Neighbours among `names` sorted without regard to case."""
    return pairwise(sorted(names, key=str.casefold))
