"""The file of a scenario: found by its name, parsed, and with the paths in it made absolute."""

import errno
import hashlib
import itertools
import os
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import similar
from tacit.scenarios.schema.scenario import LISTS, ScenarioError

__all__ = [
    "Input",
    "Table",
    "anchored",
    "digests_of_inputs",
    "find",
    "inputs_of",
    "parse_toml",
    "read_toml",
    "table_of_run",
]

Table = dict[str, Any]


def find(file: str | Path) -> Path:
    """The path of a scenario given as a path, a run's folder, or the name of a built-in one."""
    path = Path(file)
    if path.is_dir() and (path / "scenario.toml").is_file():
        return path / "scenario.toml"
    if path.is_file():
        return path
    names = shipped()
    if str(file) in names:
        return names[str(file)]
    if path.is_dir():
        raise ScenarioError(str(file), "", "holds no scenario.toml; allowed: a scenario file, or the folder of a run")
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise ScenarioError(str(file), "", "there is no such file")
    problem = (
        f"there is no such file, and no such scenario{similar(str(file), names)}; `tacit list` shows all scenarios"
    )
    raise ScenarioError(str(file), "", problem)


_DEEPEST = 32


def parse_toml(text: str) -> Table:
    """Parse TOML into a table. Raises TOMLDecodeError, also for text that is too deep or too long for Python."""
    try:
        table = tomllib.loads(text)
        deep = _is_deep(table)
    except RecursionError:
        deep = True
    except ValueError as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            raise
        raise tomllib.TOMLDecodeError("a whole number has too many digits") from None
    if deep:
        raise tomllib.TOMLDecodeError(f"tables and lists are nested more than {_DEEPEST} deep")
    return table


def _is_deep(table: Table) -> bool:
    """Return true if tables and lists are nested more than `_DEEPEST` deep."""
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        inside = itertools.chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inside if isinstance(each, dict | list)]
    return bool(level)


def read_toml(path: Path) -> Table:
    """The tables of the file `path`. Raises ScenarioError for one that cannot be read, or is not TOML."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some Windows editors write a byte order mark
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        place, problem = (match[2], match[1]) if match else ("", str(error))
        if place == "end of document":
            place = f"line {max(1, len(text.splitlines()))}"
        raise ScenarioError(str(path), place, f"not TOML: {problem}") from None
    except UnicodeDecodeError:
        raise ScenarioError(str(path), "", "not TOML: the file is not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(str(path), "", f"cannot be read ({error.strerror or error})") from None


def table_of_run(path: Path, written: Table | None = None) -> Table:
    """The tables of `path`, the scenario in a run's folder, with absolute paths, adapted if the folder was moved.

    `written`: the tables that this process has just written there. Raises ScenarioError for a file that cannot be read.
    """
    if written is not None:
        return anchored(written, path.parent)
    raw, folder = anchored(read_toml(path), path.parent), path.parent.absolute()
    if (was := _first_place(path.parent)) not in (None, folder):
        _follow(raw, partial(_moved, folder, was))
    return raw


def anchored(raw: Table, folder: Path) -> Table:
    """A copy of `raw` with its relative paths made absolute, so that the resolved scenario runs from anywhere."""
    result = {key: dict(body) if isinstance(body, dict) else body for key, body in raw.items()}
    for name in LISTS:
        if isinstance(items := result.get(name), list | tuple):
            result[name] = [dict(item) if isinstance(item, dict) else item for item in items]
    _follow(result, lambda path: (folder / path).absolute())
    return result


def _follow(raw: Table, change: Callable[[Path], Path]) -> None:
    """Apply `change` to each path in the tables of `raw`."""
    for place in inputs_of(raw):
        place.change(str(change(place.path)))


def _first_place(folder: Path) -> Path | None:
    """The folder of a run when the run began; None if its record does not contain it."""
    record = f"{(folder / 'run.sqlite').absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(record, uri=True)) as connection:
            found = connection.execute("SELECT value FROM run WHERE key = 'folder'").fetchone()
    except sqlite3.Error:
        return None
    return Path(found[0]) if found else None


def _moved(folder: Path, was: Path | None, path: Path) -> Path:
    """The `path` in a run's scenario; if it does not exist, its place after the run's folder was moved from `was` to
    `folder`."""
    beside = Path(os.path.normpath(folder / os.path.relpath(path, was)))
    return beside if not path.exists() and beside.exists() else path


# --- the paths in a file


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
