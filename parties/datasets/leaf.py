"""FEMNIST as LEAF writes it (Caldas et al. 2018): JSON, by writer.

Files ``*.json`` under ``train`` and ``test``, or else under ``all_data``, each with ``users``, a list of writers,
and ``user_data``, for each writer ``x``, lists of 784 numbers from 0 to 1, and ``y``, the classes' numbers. The
writers are the natural clients.
"""

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.error import DataError
from tacit.parties.datasets.files import broken

__all__ = ["read_femnist"]

_CLASSES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_SIDE = 28
_TESTED = 5
"""If LEAF made no split, the last fifth of each writer's images (one in `_TESTED`) is the test part."""


class _Writer(msgspec.Struct):
    x: list[list[float]]
    y: list[int]


class _File(msgspec.Struct):
    users: list[str]
    user_data: dict[str, _Writer]


_Images = list[tuple[str, NDArray[np.uint8], NDArray[np.int64]]]


def read_femnist(folder: Path, report: Report) -> Content:
    """FEMNIST, its rows by writer, in the order of the files."""
    if files := _files(folder, "train"):
        train, test = _read(files, report), _read(_files(folder, "test"), report)
    elif files := _files(folder, "all_data"):
        train, test = [], []
        for writer, images, labels in _read(files, report):
            kept = len(labels) - len(labels) // _TESTED
            train.append((writer, images[:kept], labels[:kept]))
            test.append((writer, images[kept:], labels[kept:]))
    else:
        raise DataError(f"{folder}: holds no train/*.json and no all_data/*.json")
    numbers = {writer: number for number, writer in enumerate(dict.fromkeys(writer for writer, _, _ in train + test))}
    return Content(_part(train, numbers), _part(test, numbers), _CLASSES, tuple(numbers))


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in folder.rglob("*.json") if path.parent.name == name)


def _read(files: list[Path], report: Report) -> _Images:
    found: _Images = []
    for done, path in enumerate(files):
        report("reading", done, len(files))
        with broken(path):
            file = msgspec.json.decode(path.read_bytes(), type=_File)
            found += [(writer, *_images(file.user_data[writer])) for writer in file.users]
    return found


def _images(writer: _Writer) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    values = np.array(writer.x, dtype=np.float64).reshape(len(writer.y), _SIDE, _SIDE, 1)
    labels = np.array(writer.y, dtype=np.int64)
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        raise ValueError(f"pixels go from {values.min()} to {values.max()}, not from 0 to 1")
    if labels.size and not (labels.min() >= 0 and labels.max() < len(_CLASSES)):
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}; allowed: 0 to {len(_CLASSES) - 1}")
    return np.rint(values * 255).astype(np.uint8), labels


def _part(images: _Images, numbers: dict[str, int]) -> Part:
    if not images:
        raise DataError("femnist: one of its parts has no images")
    clients = np.repeat([numbers[writer] for writer, _, _ in images], [len(labels) for _, _, labels in images])
    points = np.concatenate([own for _, own, _ in images])
    return Part(points, np.concatenate([labels for _, _, labels in images]), clients.astype(np.int64))
