"""Folders of pictures with a table beside them: Mini-ImageNet and Fed-ISIC2019.

Pictures of any size become squares: the shorter side is scaled to the square's, the longer one is cut on both ends.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.error import DataError
from tacit.parties.datasets.files import broken, find

__all__ = ["ISIC_SIDE", "MINI_SIDE", "pixels", "read_isic", "read_mini_imagenet"]

MINI_SIDE = 84
ISIC_SIDE = 128
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
