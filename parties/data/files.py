"""Data in a user's file: comma-separated values or a numpy archive.

- ``.csv``: UTF-8, commas, one header line. One column holds the label, one may hold the client a row
  belongs to, every other column is a feature and holds finite numbers. An empty label cell means that the
  label is unknown. Any text is a class name, so ``-1`` is a class here.
- ``.npz``: arrays ``features`` (n, d) of numbers, or uint8 (n, height, width, 1 or 3) of images, ``labels`` (n,) of
  integers with -1 for an unknown label, and, if there are natural clients, ``clients`` (n,) of integers or text.

For a task without classes, labels have another of the `tacit.parties.data.dataset.FORMS`: numbers (a regression), or a
zero or one for each of several labels. A .csv then has a column for each, all of which are named; an empty cell is an
unknown number. In an .npz ``labels`` is (n,) or (n, k) of them, NaN for an unknown number, and ``names`` (k,), if it is
there, holds their names as text.

Classes are the distinct labels of the whole file, in numeric order if all are whole numbers and otherwise in
alphabetical order; a `limit` therefore never renumbers them.
"""

import csv
import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile, is_zipfile

import numpy as np
from numpy.lib import format
from numpy.typing import NDArray

from tacit.parties.data import checking
from tacit.parties.data.dataset import Dataset
from tacit.parties.datasets.content import DataError, Points

if TYPE_CHECKING:
    import _csv
from collections.abc import Sequence

__all__ = ["check_against_outline", "is_outline", "load_file", "write_outline"]


_UNNAMED = "Unnamed: "
"""The beginning of the name that pandas gives to a column without one."""

_SINGLE_ARRAY = b"\x93NUMPY"
_HEADERS = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}
_DEFLATED = 1100  # the most bytes that one byte of a compressed archive may stand for; deflate reaches 1032


def load_file(
    path: str | Path, label_column: str = "label", client_column: str = "client", limit: int | None = None,
    form: str = "class",
) -> Dataset:  # fmt: skip
    """The data set in a .csv or .npz file, or its first `limit` rows, with labels of the `form`: "class", "numbers" or
    "several".

    The module's docstring gives the two formats. The column names apply to .csv only; there the client
    column may be absent, and for labels that are no classes, `label_column` may name several columns, with commas
    between the names. Raises DataError naming file, row and column. The row of a .csv is the line of the
    file, counted from 1; that of a .npz is the array's index, from 0.
    """
    path = Path(path)
    if path.suffix not in _READERS:
        raise DataError(f"{path}: a data file ends in {' or '.join(_READERS)}")
    try:
        if form not in _OTHERS:
            dataset = _READERS[path.suffix](path, label_column, client_column)
        elif path.suffix == ".csv":
            dataset = _read_csv(path, [name.strip() for name in label_column.split(",")], client_column, form)
        else:
            dataset = _read_npz(path, label_column, client_column, form)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return dataset.first(limit)


_OTHERS = ("numbers", "several")
"""The forms of labels that a file may have besides classes."""


def _numbered(values: Iterable[str]) -> dict[str, int]:
    """Number the distinct values: in numeric order if all are whole numbers, otherwise in alphabetical order."""
    distinct = set(values)
    try:
        # "1" and "01" are the same number but not the same name, so the name is part of the order.
        ordered = sorted(distinct, key=lambda value: (int(value), value))
    except ValueError:
        ordered = sorted(distinct)
    return {value: index for index, value in enumerate(ordered)}


def _learnable(path: Path, labels: NDArray[np.float64], form: str, rows: Sequence[int] | None, names: Sequence[str]
) -> NDArray[np.generic]:  # fmt: skip
    """Labels (n, k) in the type of their `form`. Raises DataError if one of several labels is neither 0 nor 1."""
    if form == "numbers":
        return labels
    if (bad := (labels != 0) & (labels != 1)).any():
        row, column = np.argwhere(bad)[0]
        place = f"row {row if rows is None else rows[row]}, label {names[column]!r}"
        shown = "is empty" if np.isnan(labels[row, column]) else f"{labels[row, column]:g} is neither 0 nor 1"
        raise DataError(f"{path}: {place}: {shown}; every label of a row is 0 or 1")
    return labels.astype(np.uint8)


def _members(clients: list[str] | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...] | None]:
    """The number of the client of each row, and the names of clients; None without clients."""
    if clients is None:
        return None, None
    numbers = _numbered(clients)
    return np.array([numbers[client] for client in clients], dtype=np.int64), tuple(numbers)


def _assemble(
    path: Path,
    features: Points,
    labels: list[str | None],
    clients: list[str] | None,
    place: str,
    columns: tuple[str, ...] | None = None,
    rows: Sequence[int] | None = None,
) -> Dataset:
    """Make the Dataset from labels (None: unknown) and clients given as texts.

    `place` names the labels, as in "column 'label'"; `rows` are the numbers of the rows, by default from 0.
    """
    classes = _numbered(label for label in labels if label is not None)
    if not classes:
        raise DataError(f"{path}: no row has a label")
    first = {}
    for number, label in enumerate(labels):
        if label is not None and label not in first:
            client = "" if clients is None else f", client {clients[number]}"
            first[label] = f"row {number if rows is None else rows[number]}{client}"
    checking.check_alike(first, place, str(path))
    codes = np.array([-1 if label is None else classes[label] for label in labels], dtype=np.int64)
    made = Dataset(path.stem, features, codes, tuple(classes), *_members(clients), columns)
    return checking.checked(made, str(path))


# --- .csv


def _read_csv(path: Path, label_column: str | Sequence[str], client_column: str, form: str = "class") -> Dataset:
    """The data set in the file, with the class in a column, or other labels in one column or several."""
    labels = [label_column] if isinstance(label_column, str) else label_column
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return _parse_csv(path, csv.reader(lines), labels, client_column, form)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise DataError(f"{path}: is not comma-separated values ({error})") from error


def _parse_csv(
    path: Path, reader: "_csv.Reader", label_columns: Sequence[str], client_column: str, form: str
) -> Dataset:
    header = [name.strip() for name in next(reader, [])]
    if missing := [name for name in label_columns if name not in header]:
        shown = ", ".join(repr(name) for name in header[:10]) + (", ..." if len(header) > 10 else "")
        raise DataError(
            f"{path}: the first line must name the columns, among them {missing[0]!r}; it is {shown or 'empty'}"
        )
    if repeated := sorted({name for name in label_columns if label_columns.count(name) > 1}):
        raise DataError(f"{path}: the column of labels {repeated[0]!r} is named more than once")
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise DataError(f"{path}: the first line names {repeated[0]!r} more than once")
    labels_at = [header.index(name) for name in label_columns]
    client_at = header.index(client_column) if client_column in header else None
    features_at = [place for place in range(len(header)) if place not in (*labels_at, client_at)]
    if not features_at:
        beside = ", ".join(map(repr, label_columns))
        raise DataError(f"{path}: no column is left for features beside {beside} and {client_column!r}")

    for place in features_at:
        if not header[place] or header[place].startswith(_UNNAMED):
            raise DataError(
                f"{path}: column {place + 1} has no name in the first line, but {header[place]!r}. If it numbers the "
                "rows, leave it out (pandas: to_csv(..., index=False)); if it is a feature, name it"
            )

    numbers, labels, clients, lines = array("d"), list[str | None](), list[str](), array("q")
    targets, classes = array("d"), form not in _OTHERS
    for cells in reader:
        if not cells:
            continue  # a blank line
        row = reader.line_num
        if len(cells) != len(header):
            raise DataError(f"{path}: row {row} has {len(cells)} cells; the first line names {len(header)} columns")
        for place in features_at:
            numbers.append(_number(path, row, header[place], cells[place]))
        lines.append(row)
        if classes:
            labels.append(cells[labels_at[0]].strip() or None)
        for place in () if classes else labels_at:
            targets.append(_number(path, row, header[place], cells[place]) if cells[place].strip() else math.nan)
        if client_at is not None:
            clients.append(cells[client_at].strip())
            if not clients[-1]:
                raise DataError(f"{path}: row {row}, column {client_column!r}: is empty; every row needs a client")
    if not lines:
        raise DataError(f"{path}: holds no rows below the first line")
    features = np.array(numbers, dtype=np.float64).reshape(len(lines), len(features_at))
    columns = tuple(header[place] for place in features_at)
    known = clients if client_at is not None else None
    if classes:
        return _assemble(path, features, labels, known, f"column {label_columns[0]!r}", columns, lines)
    found = np.array(targets, dtype=np.float64).reshape(len(lines), len(labels_at))
    wanted = _learnable(path, found, form, lines, label_columns)
    made = Dataset(path.stem, features, wanted, tuple(label_columns), *_members(known), columns)
    return checking.checked(made, str(path))


def _number(path: Path, row: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}: row {row}, column {column!r}: {cell!r} is not a finite number")
    if abs(value) > checking.LARGEST:
        allowed = f"allowed: up to {checking.LARGEST:g}"
        raise DataError(f"{path}: row {row}, column {column!r}: {cell!r} is too large; {allowed}")
    return value


# --- .npz


def _read_npz(path: Path, label_column: str, client_column: str, form: str = "class") -> Dataset:
    with path.open("rb") as file:
        start = file.read(len(_SINGLE_ARRAY))
    if start == _SINGLE_ARRAY:
        raise DataError(f"{path}: is a single array, not an archive of arrays as numpy.savez writes it")
    if not is_zipfile(path):
        raise DataError(f"{path}: is not a numpy archive, or its end is missing")
    try:
        arrays = _npz_arrays(path)
    except OSError:
        raise
    except Exception as error:  # what a damaged archive raises depends on where the damage is
        problem = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: is damaged, or holds other things than plain arrays ({problem})") from error
    for name in ("features", "labels"):
        if name not in arrays:
            raise DataError(f"{path}: array {name!r} is missing; 'features' and 'labels' are required")
    features = _npz_features(path, arrays["features"])
    clients = _npz_clients(path, arrays["clients"], len(features)) if "clients" in arrays else None
    if form in _OTHERS:
        wanted, names = _npz_targets(path, arrays, len(features), form)
        return checking.checked(Dataset(path.stem, features, wanted, names, *_members(clients)), str(path))
    labels = _npz_labels(path, arrays["labels"], len(features))
    return _assemble(path, features, labels, clients, "array 'labels'")


def _npz_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    most = _DEFLATED * path.stat().st_size
    with ZipFile(path) as archive:
        members = {name: f"{name}.npy" for name in ("features", "labels", "clients", "names")}
        there = set(archive.namelist())
        return {name: _array(archive, member, most) for name, member in members.items() if member in there}


def _array(archive: ZipFile, member: str, most: int) -> NDArray[np.generic]:
    """Read the array in `member`.

    Its header must agree with its size, because numpy allocates what the header announces.
    """
    size = archive.getinfo(member).file_size
    with archive.open(member) as file:
        version = format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"{member} has format version {version}")
        shape, _, kind = _HEADERS[version](file)
        due, there = math.prod(shape) * kind.itemsize, size - file.tell()
    if not kind.hasobject and (due != there or size > most):
        raise ValueError(f"{member} holds an array of {due} bytes by its header, and {min(there, most)} bytes at most")
    with archive.open(member) as file:
        found: NDArray[np.generic] = format.read_array(file, allow_pickle=False)
    return found


def _npz_features(path: Path, features: NDArray[np.generic]) -> Points:
    if features.ndim == 4:
        return _images(path, features)
    if features.dtype.kind not in "biuf":
        raise DataError(f"{path}: array 'features' has type {features.dtype}; it must hold real numbers")
    if features.ndim != 2 or 0 in features.shape:
        raise DataError(
            f"{path}: array 'features' has shape {features.shape}; it must be (rows, columns), "
            "or (rows, height, width, channels) of images, none of them 0"
        )
    values = features.astype(np.float64)
    for bad, problem in (
        (~np.isfinite(values), "is not a finite number"),
        (np.abs(values) > checking.LARGEST, f"is too large; allowed: up to {checking.LARGEST:g}"),
    ):
        if bad.any():
            row, column = np.argwhere(bad)[0]
            place = f"array 'features', row {row}, column {column}"
            raise DataError(f"{path}: {place}: {values[row, column]} {problem}")
    return values


def _images(path: Path, features: NDArray[np.generic]) -> NDArray[np.uint8]:
    if (problem := checking.order_problem(features)) is None:
        return features.view(np.uint8)
    shape = f"{features.dtype} and the shape {features.shape}"
    raise DataError(f"{path}: array 'features' has type {shape}; {problem}")


def _npz_labels(path: Path, labels: NDArray[np.generic], rows: int) -> list[str | None]:
    _check_length(path, "labels", labels, rows)
    if labels.dtype.kind not in "iuf":
        raise DataError(f"{path}: array 'labels' has type {labels.dtype}; it must hold integers, -1 if unknown")
    for row, label in enumerate(labels.tolist()):
        if not float(label).is_integer() or label < -1:
            raise DataError(f"{path}: array 'labels', row {row}: {label} is not an integer >= -1 (-1: unknown)")
    return [None if label == -1 else str(int(label)) for label in labels.tolist()]


def _npz_targets(
    path: Path, arrays: dict[str, NDArray[np.generic]], rows: int, form: str
) -> tuple[NDArray[np.generic], tuple[str, ...]]:
    """The labels (n, k) that are no classes, and their names. Raises DataError."""
    labels, names = arrays["labels"], arrays.get("names")
    if labels.dtype.kind not in "biuf" or labels.ndim not in (1, 2) or len(labels) != rows or 0 in labels.shape:
        shape = f"type {labels.dtype} and shape {labels.shape}"
        raise DataError(f"{path}: array 'labels' has {shape}; it must hold real numbers, ({rows},) or ({rows}, k)")
    found = labels.astype(np.float64).reshape(rows, -1)
    if names is None:
        known = tuple(f"label {place}" for place in range(found.shape[1])) if found.shape[1] > 1 else ("label",)
    elif names.dtype.kind == "U" and names.shape == (found.shape[1],):
        known = tuple(map(str, names.tolist()))
    else:
        problem = f"has type {names.dtype} and shape {names.shape}; it must hold text, ({found.shape[1]},)"
        raise DataError(f"{path}: array 'names' {problem}")
    return _learnable(path, found, form, None, known), known


def _npz_clients(path: Path, clients: NDArray[np.generic], rows: int) -> list[str]:
    _check_length(path, "clients", clients, rows)
    if clients.dtype.kind not in "iuU":
        raise DataError(f"{path}: array 'clients' has type {clients.dtype}; it must hold integers or text")
    return [str(client) for client in clients.tolist()]


def _check_length(path: Path, name: str, values: NDArray[np.generic], rows: int) -> None:
    if values.shape != (rows,):
        raise DataError(f"{path}: array {name!r} has shape {values.shape}; with these features it must be ({rows},)")


_READERS: dict[str, Callable[[Path, str, str], Dataset]] = {".csv": _read_csv, ".npz": _read_npz}


# --- outlines of data files: the facts about a client's points that other parties need, without the points
#
# An outline is a .csv file as `load_file` reads it, with the columns ``client``, ``label`` and those of the sources
# (``x0``, ``x1`` and so on if these have no names). It has one row of zeros for each point of a client. It reveals the
# numbers of rows and labeled rows, and the names of the columns and of the classes. Labels are assigned to the rows in
# turn, so it does not reveal the size of a class.


def write_outline(path: Path, sources: Sequence[tuple[Path, Dataset]]) -> list[tuple[int, int]]:
    """Write the outline of `sources` to `path`. Returns the numbers of rows and of labeled rows of each client.

    Clients are numbered in the order of the sources; a source that names several clients, such as an outline, yields
    all of them. Raises DataError unless all sources have the same columns in the same order, as far as they name them,
    and write classes in the same way; and for labels that are numbers, whose values would be secrets of the client:
    fractions, and whole numbers that look like amounts, not like numbers of classes (`_are_amounts`).
    """
    for source, data in sources:
        if data.points.ndim != 2:
            raise DataError(
                f"{source}: an outline is of rows of numbers, not of points of shape {data.points.shape[1:]}"
            )
        if number := next(filter(_is_fraction, data.classes), None):
            problem = f"its label {number!r} is a number and not a class, and an outline would show each such value"
            raise DataError(f"{source}: {problem}; allowed: names of classes, or whole numbers that stand for them")
        if _are_amounts(wholes := whole_numbers(data), int((data.labels >= 0).sum())):
            problem = f"its labels are {len(wholes)} whole numbers from {min(wholes)} to {max(wholes)}, which look "
            problem += "like amounts and not like classes, and an outline would show each such value"
            raise DataError(f"{source}: {problem}; allowed: names of classes, such as c{min(wholes)}, or few numbers")
    checking.check_sites([(str(source), _without_made_up(data)) for source, data in sources])
    width = sources[0][1].points.shape[1]
    named = (_without_made_up(data).columns for _, data in sources)
    columns = next(filter(None, named), None) or _made_up(width)
    found: list[tuple[int, int]] = []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "label", *columns])
        for _, data in sources:
            for labels in _by_client(data):
                known = int((labels >= 0).sum())
                names = [data.classes[row % len(data.classes)] for row in range(known)] + [""] * (len(labels) - known)
                writer.writerows([len(found), name, *["0"] * width] for name in names)
                found.append((len(labels), known))
    return found


def _is_fraction(name: str) -> bool:
    """Return true if the `name` of a class is a number that is not whole."""
    try:
        number = float(name)
    except ValueError:
        return False
    return math.isfinite(number) and not number.is_integer()


def whole_numbers(data: Dataset) -> list[int]:
    """The names of all classes as whole numbers; [] if some are not."""
    try:
        numbers = [float(name) for name in data.classes]
    except ValueError:
        return []
    whole = all(map(math.isfinite, numbers)) and all(map(float.is_integer, numbers))
    return [*map(int, numbers)] if whole else []


_MANY = 20
"""The most whole numbers that may be those of classes, whatever they are."""


def _are_amounts(numbers: Sequence[int], labels: int) -> bool:
    """Return true if the names of classes are `numbers` that are rather the values of a regression with `labels`.

    They are more than twenty, and either more than half of the labels are different or more than half of the numbers
    between the smallest and the largest are missing.
    """
    if len(numbers) <= _MANY:
        return False
    return 2 * len(numbers) > labels or max(numbers) - min(numbers) + 1 > 2 * len(numbers)


def is_outline(data: Dataset) -> bool:
    """Return true if the data of a file are an outline: they name clients, and all their numbers are 0."""
    return data.clients is not None and data.points.ndim == 2 and not data.points.any()


def _made_up(width: int) -> tuple[str, ...]:
    """The names of columns in an outline of data without names."""
    return tuple(f"x{column}" for column in range(width))


def _without_made_up(data: Dataset) -> Dataset:
    """The same data without names of columns if these are made up."""
    return replace(data, columns=None) if data.columns == _made_up(data.points.shape[1]) else data


def check_against_outline(file: Path, own: Dataset, outline: Dataset, origin: str) -> None:
    """Raise DataError unless the client's `own` data in `file` have the columns of the `outline`, which is in the file
    `origin`, in the same order."""
    checking.check_sites([(origin, _without_made_up(outline)), (str(file), _without_made_up(own))])


def _by_client(data: Dataset) -> Iterable["np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]:
    if data.clients is None:
        return [data.labels]
    return [data.labels[data.clients == client] for client in range(len(data.client_names or ()))]
