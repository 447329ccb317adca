"""Integrity checks of a run's folder and its record, which can be read after any end of the run.

``result.json`` has the SHA-256 of each file that the run wrote, and of itself. For a run without a result, the record
has those of the scenario and the plugins, and the record's own journal is checked by its checksums. A file that was
changed later or damaged is reported by name, and its numbers are not shown.
"""

import hashlib
import os
import shutil
import sqlite3
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from tacit.scenarios.running.record_format import FORMAT

if sys.platform != "win32":
    import fcntl

__all__ = [
    "FolderError", "check_folder", "check_whole", "digests", "is_under_way", "opened_record", "sealed", "sha256_of",
    "written_first",
]  # fmt: skip

RECORD, RESULT = "run.sqlite", "result.json"
_JOURNALS = ("run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal")
_FILES = ("scenario.toml", "labels.csv", "rounds.csv", "model.npz", RECORD)
_FOLDERS = ("plugins", "app")

LATER = (
    f"of format {{}}, and this version of Tacit reads formats 1 and {FORMAT}: read it with the version that made it, "
    "or a later one"
)
"""The message for a file of a later format, with a place for its number."""


class FolderError(ValueError):
    """An error in one line: the folder is not a run's folder, or not complete."""


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256, in hexadecimal, of each file that the run in `folder` has written, by its path there.

    The record is left out while its journal exists, because the journal will be merged into it.
    """
    names = [name for name in _FILES if (folder / name).is_file()]
    if any((folder / name).exists() for name in _JOURNALS):
        names = [name for name in names if name != RECORD]
    return {name: sha256_of(folder / name) for name in names} | _of_folders(folder)


def written_first(folder: Path) -> dict[str, str]:
    """The `digests` of the scenario and of its code, for the record's table `files`."""
    return {"scenario.toml": sha256_of(folder / "scenario.toml")} | _of_folders(folder)


def _of_folders(folder: Path) -> dict[str, str]:
    files = (file for name in _FOLDERS for file in sorted((folder / name).rglob("*.*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files if "__pycache__" not in file.parts}


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """Add the SHA-256 of `record`, the content of ``result.json``, as `digest`."""
    return record | {"digest": _of_record(record)}


def _of_record(record: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode({**record, "digest": ""})).hexdigest()


def check_folder(folder: Path) -> None:
    """Raise FolderError unless there is a folder of that name."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder; that of a run is needed")


def check_whole(folder: Path, *, journal: bool = True) -> None:
    """Raise FolderError, naming the file, if a file of the run in `folder` was changed.

    Without `journal` the record may end early, as after a failure of the machine, for a run that continues from an
    earlier state. Missing files are ignored: their readers report them.
    """
    stamps = []
    for file in (folder / RESULT, *(folder / name for name in (*_FILES, *_JOURNALS)), *_code(folder)):
        with suppress(OSError):
            found = file.stat()
            stamps.append((str(file), found.st_size, found.st_mtime_ns, found.st_ino))
    if problem := _problem(folder, tuple(stamps), journal and not is_under_way(folder)):
        raise FolderError(problem)


def _code(folder: Path) -> Iterator[Path]:
    for name in _FOLDERS:
        yield from sorted((folder / name).rglob("*.*"))


@lru_cache(64)
def _problem(folder: Path, stamps: tuple[object, ...], journal: bool) -> str:
    """The first file whose digest is wrong, in words; "" if all are right. Cached until a file changes."""
    expected: dict[str, str] = {}
    if (folder / RESULT).is_file():
        try:
            record = msgspec.json.decode((folder / RESULT).read_bytes())
            expected, own = record.get("files", {}), record.get("digest")
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError) as error:
            return f"{folder / RESULT}: not the result of a run: {error}"
        if own is not None and own != _of_record(record):
            return f"{folder / RESULT}: changed since the run ended: its digest is not that of what it says. {_AGAIN}"
    elif journal and (ahead := folder / _JOURNALS[0]).is_file() and not _is_sound(ahead):
        return f"{ahead}: damaged: a checksum in it is wrong, and what follows is lost. {_AGAIN}"
    if not expected and (folder / RECORD).is_file():
        expected = _recorded_first(folder)
    for name, digest in expected.items():
        file = folder / name
        if file.is_file() and sha256_of(file) != digest:
            since = "ended" if (folder / RESULT).is_file() else "began"
            return f"{file}: changed since the run {since}: its SHA-256 is not the one that the run has noted. {_AGAIN}"
    return ""


_AGAIN = "Put back the file as it was, or run the scenario again"


def _recorded_first(folder: Path) -> dict[str, str]:
    with suppress(sqlite3.Error, FolderError, OSError), opened_record(folder / RECORD) as record:
        return dict(record.execute("SELECT path, sha256 FROM files"))
    return {}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_under_way(folder: Path) -> bool:
    """Return true if a process runs the run in `folder` now, or if that is unknown."""
    if sys.platform == "win32":
        return True
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def opened_record(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the record at `path` read-only, as one of the present format.

    A run that was killed while closing its record leaves a journal, from which SQLite must restore the record first: in
    the file itself if it is writable, else in a copy. Raises sqlite3.Error for an unreadable record, and FolderError
    for one of a later format.
    """
    with closing(_connected(path, "ro")) as connection:
        if not _needs_restoring(connection):
            _show_as_present(path, connection)
            yield connection
            return
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        with closing(_connected(path, "rw")) as connection:
            _show_as_present(path, connection)
            connection.execute("PRAGMA query_only = ON")
            yield connection
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in (RECORD, *_JOURNALS):
            if (path.parent / name).is_file():
                shutil.copy(path.parent / name, folder)
        with closing(_connected(Path(folder) / path.name, "rw")) as connection:
            _show_as_present(path, connection)
            yield connection


def _show_as_present(path: Path, connection: sqlite3.Connection) -> None:
    """Make a record of format 1 readable as one of the present format. Raises FolderError for a later format."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == FORMAT - 1:
        from tacit.scenarios.running.record_format_1 import PRESENT

        connection.execute("PRAGMA temp_store = MEMORY")
        connection.executescript(PRESENT)
    elif found != FORMAT:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise FolderError(f"{path}: is empty; a run that is under way or has ended has a record there")
        if found > FORMAT:
            raise FolderError(f"{path}: {LATER.format(found)}")
        again = "run its scenario again"
        raise FolderError(f"{path}: of an earlier version of Tacit; this one reads formats 1 and {FORMAT}: {again}")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)


def _needs_restoring(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return True
        raise
    return False


# The write-ahead log (https://www.sqlite.org/fileformat2.html#walformat)

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_MAGIC = 0x377F0682  # with the lowest bit set, checksums are of big-endian words


def _is_sound(path: Path) -> bool:
    """Return true if every frame of this journal that belongs to its header has the right checksum.

    The end may be missing after a failure of the machine, and frames of an earlier use, which have another salt, may
    follow. A frame with the journal's salt and a wrong checksum before the last frame is damage.
    """
    data = path.read_bytes()
    if len(data) < _HEADER.size:
        return not data
    magic, _, page, _, salt, other, first, second = _HEADER.unpack_from(data)
    if magic & ~1 != _MAGIC or not 512 <= page <= 65536:
        return False
    order = ">" if magic & 1 else "<"
    sums = _checksum(data[:24], order, (0, 0))
    if sums != (first, second):
        return False
    at, size = _HEADER.size, _FRAME.size + page
    while at + size <= len(data):
        _, _, *found = _FRAME.unpack_from(data, at)
        if tuple(found[:2]) != (salt, other):
            # A frame of an earlier use; but if a later frame has the journal's salt, this frame's salt was damaged.
            later = range(at + size, len(data) - size + 1, size)
            return not any(_FRAME.unpack_from(data, place)[2:4] == (salt, other) for place in later)
        sums = _checksum(data[at : at + 8] + data[at + _FRAME.size : at + size], order, sums)
        if sums != tuple(found[2:]):
            return False
        at += size
    return True


def _checksum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    one, other = sums
    for x, y in struct.iter_unpack(f"{order}II", data):
        one = (one + x + other) & 0xFFFFFFFF
        other = (other + y + one) & 0xFFFFFFFF
    return one, other
