"""Readers of data sets of images: MNIST, Fashion-MNIST, SVHN, Mini-ImageNet, Fed-ISIC2019, FEMNIST and CIFAR."""

import csv
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import ISIC_SIDE, MINI_SIDE, Content, DataError, Part, Report
from tacit.parties.datasets.files import broken, contents, find

__all__ = [
    "read_cifar_10",
    "read_cifar_100",
    "read_fashion_mnist",
    "read_femnist",
    "read_isic",
    "read_mini_imagenet",
    "read_mnist",
    "read_svhn",
]


# --- IDX files, the format of MNIST (LeCun, Cortes, Burges 1998) and of Fashion-MNIST (Xiao, Rasul, Vollgraf 2017).
#
# Two zero bytes, a byte for the type (8: unsigned bytes), a byte for the number of dimensions, each dimension as
# four bytes, most significant first, and then the values.


_BYTES = 8


def idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes, packed (.gz) or not."""
    data = contents(path)
    if len(data) < 4 or data[:2] != bytes(2) or data[2] != _BYTES or len(data) < 4 + 4 * data[3]:
        raise DataError(f"{path}: is not an IDX file of unsigned bytes")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", data[3], 4))
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape))
    if len(values) != np.prod(shape, dtype=np.int64):
        raise DataError(f"{path}: holds {len(values)} values; its header announces {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def _idx_part(folder: Path, name: str) -> Part:
    def read(kind: str) -> tuple[Path, NDArray[np.uint8]]:
        spellings = (f"{name}-{kind}-ubyte", f"{name}-{kind.replace('-', '.', 1)}-ubyte")
        path = find(folder, *(spelling + packing for spelling in spellings for packing in ("", ".gz")))
        return path, idx(path)

    (_, images), (at, labels) = read("images-idx3"), read("labels-idx1")
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{at}: its shape {labels.shape} does not fit the images' {images.shape}")
    return Part(images[..., np.newaxis], labels.astype(np.int64))


def _read_idx(folder: Path, classes: tuple[str, ...], report: Report) -> Content:
    parts = []
    for done, name in enumerate(("train", "t10k")):
        report("reading", done, 2)
        parts.append(_idx_part(folder, name))
        if parts[-1].labels.max(initial=0) >= len(classes):
            raise DataError(f"{folder}: {name} has label {parts[-1].labels.max()}; allowed: 0 to {len(classes) - 1}")
    return Content(parts[0], parts[1], classes)


def read_mnist(folder: Path, report: Report) -> Content:
    """MNIST from ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same for ``t10k``."""
    return _read_idx(folder, tuple("0123456789"), report)


def read_fashion_mnist(folder: Path, report: Report) -> Content:
    """Fashion-MNIST from files with the names of MNIST's."""
    return _read_idx(folder, _CLOTHES, report)


_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


# --- SVHN, house numbers in single digits (Netzer et al. 2011): ``train_32x32.mat`` and ``test_32x32.mat``.
#
# A MATLAB file with ``X``, uint8 (32, 32, 3, n), and ``y``, (n, 1), in which 10 stands for the digit 0.


def read_svhn(folder: Path, report: Report) -> Content:
    """SVHN's training and test parts; the extra part is not used."""
    report("reading", 0, 2)
    train = _matlab_part(find(folder, "train_32x32.mat"))
    report("reading", 1, 2)
    return Content(train, _matlab_part(find(folder, "test_32x32.mat")), tuple("0123456789"))


def _matlab_part(path: Path) -> Part:
    from scipy.io import loadmat  # here, as few sets need it

    with broken(path):
        arrays = loadmat(path)
        images, labels = np.asarray(arrays["X"]), np.asarray(arrays["y"]).ravel()
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != len(labels):
            raise ValueError(f"X is {images.dtype} {images.shape} and y has {len(labels)} values")
        if not np.isin(labels, np.arange(1, 11)).all():
            raise ValueError("y has values that are not from 1 to 10")
    return Part(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.astype(np.int64) % 10)


# --- folders of pictures with a table beside them: Mini-ImageNet and Fed-ISIC2019
#
# Pictures of any size become squares: the shorter side is scaled to the square's, the longer one is cut on both ends.

_DISEASES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
_MINI_TESTED = 6
"""The last sixth of a Mini-ImageNet class's pictures is the test part: 50,000 and 10,000 (FedProp, section 4)."""


def pixels(path: Path, side: int | None = None) -> NDArray[np.uint8]:
    """The colours of a picture, uint8 (height, width, 3); cropped to a square if `side` is given."""
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise DataError("reading pictures needs Pillow; get it by: pip install pillow") from None
    with broken(path), Image.open(path) as picture:
        coloured = picture.convert("RGB")
        if side is not None:
            coloured = ImageOps.fit(coloured, (side, side), Image.Resampling.BILINEAR)
        return np.asarray(coloured)


def read_mini_imagenet(folder: Path, report: Report) -> Content:
    """Mini-ImageNet (Vinyals et al. 2016) from ``images/`` and ``train.csv``, ``val.csv``, ``test.csv``.

    The tables (``filename,label``) split the classes for few-shot learning; here they are put together, and each
    class's last sixth is the test part.
    """
    tables = (_table(find(folder, f"{name}.csv"), "filename", "label") for name in ("train", "val", "test"))
    rows = [row for table in tables for row in table]
    classes = tuple(sorted({label for _, label in rows}))
    labels = np.array([classes.index(label) for _, label in rows], dtype=np.int64)
    at = _places(folder)
    images = _squares([_at(at, folder, name) for name, _ in rows], MINI_SIDE, report)
    tested = np.zeros(len(labels), dtype=np.bool_)
    for label in range(len(classes)):
        own = np.flatnonzero(labels == label)
        tested[own[len(own) - len(own) // _MINI_TESTED :]] = True
    everything = Part(images, labels)
    return Content(everything.take(np.flatnonzero(~tested)), everything.take(np.flatnonzero(tested)), classes)


def read_isic(folder: Path, report: Report) -> Content:
    """Fed-ISIC2019 (Ogier du Terrail et al. 2022) from its preprocessed pictures and ``train_test_split``.

    The table has the columns ``image``, ``center``, ``target`` and ``fold`` (train or test); the six centres are the
    natural clients.
    """
    path = find(folder, "train_test_split", "train_test_split.csv", "train_test_folds.csv")
    rows = _table(path, "image", "center", "target", "fold")
    with broken(path):
        labels = np.array([int(float(row[2])) for row in rows], dtype=np.int64)
        centres = np.array([int(float(row[1])) for row in rows], dtype=np.int64)
        if labels.min() < 0 or labels.max() >= len(_DISEASES):
            raise ValueError(f"targets go from {labels.min()} to {labels.max()}; allowed: 0 to {len(_DISEASES) - 1}")
    present, clients = np.unique(centres, return_inverse=True)
    at = _places(folder)
    images = _squares([_at(at, folder, f"{row[0]}.jpg") for row in rows], ISIC_SIDE, report)
    everything, folds = Part(images, labels, clients.astype(np.int64)), np.array([row[3] for row in rows])
    train, test = (everything.take(np.flatnonzero(folds == fold)) for fold in ("train", "test"))
    return Content(train, test, _DISEASES, tuple(f"center {centre}" for centre in present))


def _table(path: Path, *columns: str) -> list[tuple[str, ...]]:
    with broken(path), path.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines)
        if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
            raise ValueError(f"its first line names no column {missing[0]!r}")
        rows = [tuple((row[column] or "").strip() for column in columns) for row in reader]
        if not rows:
            raise ValueError("it holds no rows")
        return rows


def _places(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.rglob("*.jp*g"), reverse=True)}


def _at(places: dict[str, Path], folder: Path, name: str) -> Path:
    if name not in places:
        raise DataError(f"{folder}: holds no {name}, which its table names")
    return places[name]


def _squares(paths: Sequence[Path], side: int, report: Report) -> NDArray[np.uint8]:
    images = np.empty((len(paths), side, side, 3), dtype=np.uint8)
    for done, path in enumerate(paths):
        report("decoding", done, len(paths))
        images[done] = pixels(path, side)
    return images


# --- FEMNIST as LEAF writes it (Caldas et al. 2018): JSON, by writer.
#
# Files ``*.json`` under ``train`` and ``test``, or else under ``all_data``, each with ``users``, a list of writers,
# and ``user_data``, for each writer ``x``, lists of 784 numbers from 0 to 1, and ``y``, the classes' numbers. The
# writers are the natural clients.


_CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_FEMNIST_SIDE = 28
_FEMNIST_TESTED = 5
"""If LEAF made no split, the last fifth of each writer's images (one in `_FEMNIST_TESTED`) is the test part."""


class _Writer(msgspec.Struct):
    x: list[list[float]]
    y: list[int]


class _File(msgspec.Struct):
    users: list[str]
    user_data: dict[str, _Writer]


_Images = list[tuple[str, NDArray[np.uint8], NDArray[np.int64]]]


def read_femnist(folder: Path, report: Report) -> Content:
    """FEMNIST, its rows by writer, in the order of the files."""
    if files := _writers_files(folder, "train"):
        train, test = _read_writers(files, report), _read_writers(_writers_files(folder, "test"), report)
    elif files := _writers_files(folder, "all_data"):
        train, test = [], []
        for writer, images, labels in _read_writers(files, report):
            kept = len(labels) - len(labels) // _FEMNIST_TESTED
            train.append((writer, images[:kept], labels[:kept]))
            test.append((writer, images[kept:], labels[kept:]))
    else:
        raise DataError(f"{folder}: holds no train/*.json and no all_data/*.json")
    numbers = {writer: number for number, writer in enumerate(dict.fromkeys(writer for writer, _, _ in train + test))}
    return Content(_femnist_part(train, numbers), _femnist_part(test, numbers), _CHARACTERS, tuple(numbers))


def _writers_files(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in folder.rglob("*.json") if path.parent.name == name)


def _read_writers(files: list[Path], report: Report) -> _Images:
    found: _Images = []
    for done, path in enumerate(files):
        report("reading", done, len(files))
        with broken(path):
            file = msgspec.json.decode(path.read_bytes(), type=_File)
            found += [(writer, *_writers_images(file.user_data[writer])) for writer in file.users]
    return found


def _writers_images(writer: _Writer) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    values = np.array(writer.x, dtype=np.float64).reshape(len(writer.y), _FEMNIST_SIDE, _FEMNIST_SIDE, 1)
    labels = np.array(writer.y, dtype=np.int64)
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        raise ValueError(f"pixels go from {values.min()} to {values.max()}, not from 0 to 1")
    if labels.size and not (labels.min() >= 0 and labels.max() < len(_CHARACTERS)):
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}; allowed: 0 to {len(_CHARACTERS) - 1}")
    return np.rint(values * 255).astype(np.uint8), labels


def _femnist_part(images: _Images, numbers: dict[str, int]) -> Part:
    if not images:
        raise DataError("femnist: one of its parts has no images")
    clients = np.repeat([numbers[writer] for writer, _, _ in images], [len(labels) for _, _, labels in images])
    points = np.concatenate([own for _, own, _ in images])
    return Part(points, np.concatenate([labels for _, _, labels in images]), clients.astype(np.int64))


# --- CIFAR-10 and CIFAR-100 (Krizhevsky 2009): pickled batches as upstream has them, or CIFAR-10 in pictures.
#
# A pickled batch is a dictionary with ``data``, uint8 (n, 3072): the red, then the green, then the blue values of
# 32 x 32 pixels, row by row. Only numpy arrays and plain values are unpickled; anything else is refused.
#
# In pictures, a batch is one PNG of n rows and 1024 columns, an image a row, and the labels are lists in JSON.


_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_NAMES_OF_ARRAYS = ("_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer", "encode")
_HOMES_OF_ARRAYS = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "_codecs")


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in _HOMES_OF_ARRAYS and name in _NAMES_OF_ARRAYS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it contains a {module}.{name}")


def _unpickled(path: Path) -> dict[bytes, Any]:
    with broken(path), path.open("rb") as file:
        found = _Arrays(file, encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}, not a dictionary")
        return found


def _cifar_batch(path: Path, labels_key: bytes) -> Part:
    batch = _unpickled(path)
    with broken(path):
        data = np.asarray(batch[b"data"], dtype=np.uint8)
        images = data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.array(batch[labels_key], dtype=np.int64)
        if labels.shape != images.shape[:1]:
            raise ValueError(f"{len(images)} images and {len(labels)} labels")
    return Part(images, labels)


def read_cifar_10(folder: Path, report: Report) -> Content:
    """CIFAR-10 from ``data_batch_1`` to ``5`` and ``test_batch``, pickled or in pictures."""
    if not any(folder.rglob(f"{_CIFAR_BATCHES[0]}.png")):
        training = []
        for done, name in enumerate(_CIFAR_BATCHES):
            report("reading", done, len(_CIFAR_BATCHES) + 1)
            training.append(_cifar_batch(find(folder, name), b"labels"))
        return Content(_joined_batches(training), _cifar_batch(find(folder, "test_batch"), b"labels"), _CIFAR_CLASSES)
    train = _batches_in_pictures(folder, _CIFAR_BATCHES, "train", report)
    return Content(train, _batches_in_pictures(folder, ("test_batch",), "test", report), _CIFAR_CLASSES)


def read_cifar_100(folder: Path, report: Report) -> Content:
    """CIFAR-100 from ``train``, ``test`` and ``meta``; the classes are the hundred fine ones."""
    meta = find(folder, "meta")
    with broken(meta):
        classes = tuple(name.decode() for name in _unpickled(meta)[b"fine_label_names"])
    report("reading", 0, 2)
    train = _cifar_batch(meta.with_name("train"), b"fine_labels")
    report("reading", 1, 2)
    return Content(train, _cifar_batch(meta.with_name("test"), b"fine_labels"), classes)


def _joined_batches(parts: list[Part]) -> Part:
    images = np.concatenate([part.points for part in parts])
    return Part(images, np.concatenate([part.labels for part in parts]))


def _batches_in_pictures(folder: Path, names: tuple[str, ...], labels_of: str, report: Report) -> Part:
    batches: list[NDArray[np.uint8]] = []
    for done, name in enumerate(names):
        report("decoding", done, len(names))
        path = find(folder, f"{name}.png")
        values = pixels(path)
        if values.shape[1:] != (32 * 32, 3):
            raise DataError(f"{path}: has {values.shape[1]} columns; a batch has one image of 1024 pixels a row")
        batches.append(values.reshape(-1, 32, 32, 3))
    images = np.concatenate(batches)
    path = find(folder, f"{labels_of}_lables.json", f"{labels_of}_labels.json")  # the package's own spelling
    with broken(path):
        labels = np.array(msgspec.json.decode(path.read_bytes(), type=list[int]), dtype=np.int64)
        if labels.shape != images.shape[:1]:
            raise ValueError(f"{len(images)} images and {len(labels)} labels")
    return Part(images, labels)
