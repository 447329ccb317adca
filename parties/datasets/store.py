"""The store of the data sets' arrays: one folder for each set, written completely or not at all.

| file | holds |
| --- | --- |
| ``train.points.npy``, ``test.points.npy`` | images or numbers, mapped into memory when they are used |
| ``train.texts.npy``, ``train.ends.npy`` | instead of them for texts: UTF-8, and where each text ends |
| ``train.labels.npy``, ``train.clients.npy`` | int64; the second only where the data has natural clients |
| ``about.json`` | classes, names of clients and columns, SHA-256 of the content, and where it is from |

The folder is ``$TACIT_DATA``, else ``$XDG_DATA_HOME/tacit``, else ``~/.local/share/tacit``.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets.content import Content, DataError, Part, Points

__all__ = ["Stored", "folder", "keep", "locked", "present", "root", "stored", "workplace"]

_FORMAT = 1
_ABOUT = "about.json"
_TEMPORARY = ".unfinished-"


class _Version(msgspec.Struct, frozen=True):
    format: int


class _About(_Version, frozen=True):
    sha256: str
    origin: str
    classes: tuple[str, ...]
    client_names: tuple[str, ...] | None
    columns: tuple[str, ...] | None
    numbers: int
    parts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Stored:
    """A data set on this machine: its content, its digest when it was stored, and its origin."""

    content: Content
    sha256: str
    origin: str


def root() -> Path:
    """The folder of all data sets, which may not exist."""
    if own := os.environ.get("TACIT_DATA"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "tacit"


def folder(name: str) -> Path:
    """The folder of data set `name`; it exists only if the set is stored."""
    return root() / name


def present(name: str) -> bool:
    """True if data set `name` is stored, in the format of this version."""
    return _about(name) is not None


def stored(name: str) -> Stored | None:
    """Data set `name` with its arrays mapped into memory, or None if it is not stored.

    Raises DataError if the files are damaged.
    """
    about, home = _about(name), folder(name)
    if about is None:
        return None
    with _damage(name):
        parts = {part: _read_part(home, part) for part in about.parts}
    content = Content(
        parts["train"], parts.get("test"), about.classes, about.client_names, about.columns, about.numbers
    )
    return Stored(content, about.sha256, about.origin)


def keep(name: str, content: Content, origin: str, work: Path) -> None:
    """Store `content` as data set `name`: write it inside `work`, then move it to its place in one step."""
    draft = work / "draft"
    draft.mkdir()
    for part_name, part in content.parts.items():
        _write_part(draft, part_name, part)
    about = _About(
        _FORMAT,
        content.digest(),
        origin,
        content.classes,
        content.client_names,
        content.columns,
        content.numbers,
        tuple(content.parts),
    )
    (draft / _ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(about)))
    home = folder(name)
    if home.exists():  # of an older format
        home.rename(work / "old")
    draft.rename(home)


@contextmanager
def locked(waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the store for this process exclusively. Calls `waiting` and waits while another process holds it.

    The lock ends with the process.
    """
    root().mkdir(parents=True, exist_ok=True)
    with (root() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder on the store's disk.

    Use it only under `locked`: folders left by other processes are removed.
    """
    for left in root().glob(f"{_TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=root()))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _about(name: str) -> _About | None:
    path = folder(name) / _ABOUT
    if not path.is_file():
        return None
    with _damage(name):
        written = path.read_bytes()
        if msgspec.json.decode(written, type=_Version).format != _FORMAT:
            return None
        return msgspec.json.decode(written, type=_About)


@contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError) as error:
        problem = " ".join(str(error).split())
        again = f"delete the folder, then: tacit data fetch {name}"
        raise DataError(f"{folder(name)}: is damaged ({problem}); {again}") from error


def _write_part(home: Path, name: str, part: Part) -> None:
    if part.points.dtype == object:
        encoded = [str(text).encode() for text in part.points]
        np.save(home / f"{name}.texts.npy", np.frombuffer(b"".join(encoded), np.uint8))
        np.save(home / f"{name}.ends.npy", np.cumsum([len(text) for text in encoded], dtype=np.int64))
    else:
        np.save(home / f"{name}.points.npy", np.ascontiguousarray(part.points))
    np.save(home / f"{name}.labels.npy", part.labels)
    if part.clients is not None:
        np.save(home / f"{name}.clients.npy", part.clients)


def _read_part(home: Path, name: str) -> Part:
    labels = np.load(home / f"{name}.labels.npy", allow_pickle=False)
    at_clients = home / f"{name}.clients.npy"
    clients = np.load(at_clients, allow_pickle=False) if at_clients.exists() else None
    at_points = home / f"{name}.points.npy"
    points = np.load(at_points, mmap_mode="r", allow_pickle=False) if at_points.exists() else _read_texts(home, name)
    if not len(points) == len(labels) == len(labels if clients is None else clients):
        raise ValueError(f"{name}: {len(points)} points and {len(labels)} labels")
    return Part(points, labels, clients)


def _read_texts(home: Path, name: str) -> Points:
    encoded: NDArray[np.uint8] = np.load(home / f"{name}.texts.npy", allow_pickle=False)
    ends = np.load(home / f"{name}.ends.npy", allow_pickle=False)
    whole = encoded.tobytes()
    texts = np.empty(len(ends), dtype=object)
    texts[:] = [whole[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return texts
