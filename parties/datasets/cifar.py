"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): pickled batches as upstream has them, or CIFAR-10 in pictures.

A pickled batch is a dictionary with ``data``, uint8 (n, 3072): the red, then the green, then the blue values of
32 x 32 pixels, row by row. Only numpy arrays and plain values are unpickled; anything else is refused.

In pictures, a batch is one PNG of n rows and 1024 columns, an image a row, and the labels are lists in JSON.
"""

import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.error import DataError
from tacit.parties.datasets.files import broken, find
from tacit.parties.datasets.pictures import pixels

__all__ = ["read_hundred", "read_ten"]

_TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
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


def _batch(path: Path, labels_key: bytes) -> Part:
    batch = _unpickled(path)
    with broken(path):
        data = np.asarray(batch[b"data"], dtype=np.uint8)
        images = data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.array(batch[labels_key], dtype=np.int64)
        if labels.shape != images.shape[:1]:
            raise ValueError(f"{len(images)} images and {len(labels)} labels")
    return Part(images, labels)


def read_ten(folder: Path, report: Report) -> Content:
    """CIFAR-10 from ``data_batch_1`` to ``5`` and ``test_batch``, pickled or in pictures."""
    if not any(folder.rglob(f"{_TRAINING[0]}.png")):
        training = []
        for done, name in enumerate(_TRAINING):
            report("reading", done, len(_TRAINING) + 1)
            training.append(_batch(find(folder, name), b"labels"))
        return Content(_joined(training), _batch(find(folder, "test_batch"), b"labels"), _TEN)
    train = _in_pictures(folder, _TRAINING, "train", report)
    return Content(train, _in_pictures(folder, ("test_batch",), "test", report), _TEN)


def read_hundred(folder: Path, report: Report) -> Content:
    """CIFAR-100 from ``train``, ``test`` and ``meta``; the classes are the hundred fine ones."""
    meta = find(folder, "meta")
    with broken(meta):
        classes = tuple(name.decode() for name in _unpickled(meta)[b"fine_label_names"])
    report("reading", 0, 2)
    train = _batch(meta.with_name("train"), b"fine_labels")
    report("reading", 1, 2)
    return Content(train, _batch(meta.with_name("test"), b"fine_labels"), classes)


def _joined(parts: list[Part]) -> Part:
    images = np.concatenate([part.points for part in parts])
    return Part(images, np.concatenate([part.labels for part in parts]))


def _in_pictures(folder: Path, names: tuple[str, ...], labels_of: str, report: Report) -> Part:
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
