"""The files that a scenario names: their keys, their places, and the digests that a run's record has of them."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.scenarios.files.list_fields import LISTS

__all__ = ["Input", "digests_of_inputs", "inputs_of"]

Table = dict[str, Any]

_FIELDS = {
    "data": (("path", ""),), "learner": (("path", ""),), "model": (("weights", ""),),
    "protocol": (("app", ""), ("recorded", "")), "network": (("latency", "csv:"),),
}  # fmt: skip
"""Keys of tables that are paths, each with the text before the path."""

_ITEM_FIELDS = (("file", ""), ("availability", ""), ("latency", "csv:"))
"""Fields of tables in lists that are paths."""

_REPLAYED = "replayed:"

_MOST = 10_000


class Input(Struct, frozen=True):
    """A place of a path in a scenario's tables.

    `name` is the whole key, such as ``client.0.file``; `key` is the last part of it, in `table`. `prefix` is the text
    before the path.
    """

    name: str
    table: Table
    key: str
    prefix: str

    @property
    def path(self) -> Path:
        """The path in the table."""
        return Path(self.table[self.key].removeprefix(self.prefix))

    def change(self, path: str) -> None:
        """Write another path into the table."""
        self.table[self.key] = self.prefix + path

    def files(self) -> list[Path]:
        """The files of the input: itself, the record of a run whose durations are replayed, or those of a folder.

        Folders that are symbolic links are left out.
        """
        source = self.path
        if source.is_file():
            return [source]
        if self.prefix == _REPLAYED:
            return [source / "run.sqlite", source / "result.json"]
        return sorted(path for path in source.rglob("*") if path.is_file())

    def digest(self) -> str:
        """The SHA-256 of the names and contents of all files of the input, in hexadecimal.

        Raises OSError for a file that cannot be read, and for a folder with more than 10,000 files and folders, which
        may be a whole disk.
        """
        whole = hashlib.sha256()
        if sum(1 for _ in islice(self.path.rglob("*"), _MOST + 1)) > _MOST:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), str(self.path))
        for file in self.files():
            with file.open("rb") as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
            whole.update(f"{file.relative_to(self.path).as_posix()}\0{found}\n".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()


def inputs_of(raw: Table) -> Iterator[Input]:
    """Yield each place of a path in a scenario's tables, except plugins."""
    places = [(f"{name}.{key}", raw.get(name), key, start) for name, keys in _FIELDS.items() for key, start in keys]
    places.append(("cost", raw, "cost", _REPLAYED))
    for name in LISTS:
        items = raw.get(name)
        for number, item in enumerate(items if isinstance(items, list | tuple) else ()):
            places += [(f"{name}.{number}.{key}", item, key, start) for key, start in _ITEM_FIELDS]
    for name, table, key, prefix in places:
        value = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict) and isinstance(value, str) and value.startswith(prefix) and len(value) > len(prefix):
            yield Input(name, table, key, prefix)


def digests_of_inputs(raw: Table, folder: Path) -> dict[str, str]:
    """The SHA-256 of each input outside the `folder` of a run, by its key.

    `raw` has absolute paths. An input that cannot be read has none: nothing vouches for it then.
    """
    found = {}
    for one in inputs_of(raw):
        with suppress(OSError, RuntimeError):  # a circle of symbolic links is a RuntimeError
            if not one.path.resolve().is_relative_to(folder.resolve()):
                found[one.name] = one.digest()
    return found
