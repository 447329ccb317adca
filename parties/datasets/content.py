"""The content of a data set in memory, whatever the format of its files."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.sim.setting_error import SettingError

__all__ = [
    "Content", "DataError", "DataSettingError", "MissingDataError", "Part", "Points", "Report", "looking_random",
    "quiet",
]  # fmt: skip

MINI_SIDE = 84
ISIC_SIDE = 128

Points = NDArray[Any]
"""Images uint8 (n, height, width, channels), numbers (n, columns) of any type, or texts, str objects (n,)."""

Report = Callable[[str, int, int], None]
"""Reports progress: the activity, the amount done and the total amount (0: unknown)."""


def quiet(what: str, done: int, total: int) -> None:
    """Ignore progress: a `Report` for callers that need none."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a data set: `labels` is int64 (n,), indices of classes; `clients` is int64 (n,) or None."""

    points: Points = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    clients: NDArray[np.int64] | None = field(default=None, repr=False)

    def take(self, rows: NDArray[np.int64] | slice) -> "Part":
        """Return the given rows, in that order."""
        clients = None if self.clients is None else self.clients[rows]
        return Part(self.points[rows], self.labels[rows], clients)


@dataclass(frozen=True, eq=False)
class Content:
    """A whole data set. `test` is None where upstream has no split of its own.

    For a table, `columns` names the columns; the first `numbers` of them are quantities, the others are 0 or 1.
    """

    train: Part
    test: Part | None
    classes: tuple[str, ...]
    client_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    numbers: int = 0

    @property
    def parts(self) -> dict[str, Part]:
        """The parts of the data set by name: train, and test if there is one."""
        return {"train": self.train} if self.test is None else {"train": self.train, "test": self.test}

    def shuffled(self, name: str) -> "Content":
        """The same content with the training part's rows in a fixed order that looks random.

        Rows are sorted by the SHA-256 of ``name/i``, so that the order depends on no generator's version.
        """
        return replace(self, train=self.train.take(looking_random(name, len(self.train.labels))))

    def digest(self) -> str:
        """The SHA-256, in hexadecimal, of every array's name, type, shape and values, and of all names."""
        result = hashlib.sha256()
        for name in (self.classes, self.client_names, self.columns, self.numbers):
            result.update(repr(name).encode() + b"\n")
        for part_name, part in self.parts.items():
            for array_name, array in (("points", part.points), ("labels", part.labels), ("clients", part.clients)):
                if array is not None:
                    result.update(f"{part_name}.{array_name} {array.dtype.str} {array.shape}\n".encode())
                    _update(result, array)
        return result.hexdigest()


def looking_random(name: str, rows: int) -> NDArray[np.int64]:
    """The numbers of the `rows` of data set `name` in a fixed order that looks random, int64 (rows,).

    They are sorted by the SHA-256 of ``name/i``, so that the order depends on no generator's version.
    """
    keys = [hashlib.sha256(f"{name}/{row}".encode()).digest() for row in range(rows)]
    return np.array(sorted(range(rows), key=keys.__getitem__), dtype=np.int64)


def _update(result: "hashlib._Hash", array: NDArray[Any]) -> None:
    if array.dtype == object:
        for text in array:
            encoded = str(text).encode()
            result.update(len(encoded).to_bytes(8, "little") + encoded)
    else:
        result.update(np.ascontiguousarray(array).data)


class DataError(ValueError):
    """The data, or a request for them, is invalid; the message names the place and what is allowed, in one line."""


class DataSettingError(SettingError, DataError):
    """A setting of the data has an invalid value, or one that does not suit these data."""


class MissingDataError(DataError):
    """A known data set is not on this machine; the message names the command that fetches it."""
