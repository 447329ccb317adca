"""IDX files, the format of MNIST (LeCun, Cortes, Burges 1998) and of Fashion-MNIST (Xiao, Rasul, Vollgraf 2017).

Two zero bytes, a byte for the type (8: unsigned bytes), a byte for the number of dimensions, each dimension as
four bytes, most significant first, and then the values.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.error import DataError
from tacit.parties.datasets.files import contents, find

__all__ = ["idx", "read_digits", "read_fashion"]

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


def _part(folder: Path, name: str) -> Part:
    def read(kind: str) -> tuple[Path, NDArray[np.uint8]]:
        spellings = (f"{name}-{kind}-ubyte", f"{name}-{kind.replace('-', '.', 1)}-ubyte")
        path = find(folder, *(spelling + packing for spelling in spellings for packing in ("", ".gz")))
        return path, idx(path)

    (_, images), (at, labels) = read("images-idx3"), read("labels-idx1")
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{at}: its shape {labels.shape} does not fit the images' {images.shape}")
    return Part(images[..., np.newaxis], labels.astype(np.int64))


def _read(folder: Path, classes: tuple[str, ...], report: Report) -> Content:
    parts = []
    for done, name in enumerate(("train", "t10k")):
        report("reading", done, 2)
        parts.append(_part(folder, name))
        if parts[-1].labels.max(initial=0) >= len(classes):
            raise DataError(f"{folder}: {name} has label {parts[-1].labels.max()}; allowed: 0 to {len(classes) - 1}")
    return Content(parts[0], parts[1], classes)


def read_digits(folder: Path, report: Report) -> Content:
    """MNIST from ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same for ``t10k``."""
    return _read(folder, tuple("0123456789"), report)


def read_fashion(folder: Path, report: Report) -> Content:
    """Fashion-MNIST from files with the names of MNIST's."""
    return _read(folder, _CLOTHES, report)


_CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
