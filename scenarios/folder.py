"""The folder of a run: what was asked, what came out, and every event in between.

| file | holds |
| --- | --- |
| ``scenario.toml`` | the scenario with every default filled in; run again it gives the same trace hash |
| ``result.json`` | the outcome, in the fields of `Result`; written last: without it the run was broken off |
| ``labels.csv`` | every prediction: party, its own name in the data set (if it names clients), row, label, confidence |
| ``run.sqlite`` | messages, steps, faults, metrics, outcomes, computations; with an [attack], contents of messages |
| ``checkpoint`` | of training that was broken off: all that is needed to go on (`scenarios.checkpoint`) |
| ``model.npz`` | of training: vectors of the last model (parameters) and the selected one; the network (spec), JSON |
| | of co-training: each client's state, as bytes, and what clients agreed on last, as it travels |
| ``failure.txt`` | only where something broke: the traceback |
"""

import csv
import itertools
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w
from msgspec import Struct

from parties.server import Loss
from scenarios.result import Result
from scenarios.schema import Scenario, as_table
from scenarios.simulated import Prediction
from sim.trace import Event
from sim.wire import Packet

if sys.platform != "win32":
    import fcntl

__all__ = [
    "ByteRow",
    "FolderError",
    "Loss",
    "Recorder",
    "Result",
    "RunFolder",
    "byte_rows",
    "discard_unwritten",
    "ending_of",
    "locked",
    "message_bytes",
    "new_folder",
    "read_result",
    "remarks_on",
]


S = TypeVar("S", bound=Struct)


class FolderError(ValueError):
    """A folder that is not, or not wholly, that of a run; one line."""


def new_folder(out: Path | None, stem: str, base: Path = Path("runs")) -> Path:
    """A folder that was not there before: `out`, or ``base/STEM-NUMBER`` with the first free number, from 1.

    Raises FileExistsError if `out` exists. Two runs never share a folder, even if they start at once.
    """
    if out is not None:
        out.mkdir(parents=True)
        return out
    for number in itertools.count(1):
        path = base / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


class RunFolder:
    """The files of one run in its folder `path`, beginning with the scenario, under the `name` of the run.

    It is this process's alone until it is closed: one that is another's raises FolderError. Without a `scenario` the
    folder is one that holds it already.
    """

    def __init__(self, path: Path, scenario: Scenario | None = None, name: str = "") -> None:
        self.path = path
        self._lock = _lock(path)
        if scenario is not None:
            named = msgspec.structs.replace(scenario, name=name or scenario.name)
            self._write("scenario.toml", tomli_w.dumps(as_table(named)))

    def close(self) -> None:
        """Let others have it. May be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear(self, *, record: bool) -> None:
        """Remove what a run that was broken off has left behind but is not to go on from, `record` and all."""
        names = ["result.json", "failure.txt", "labels.csv", "report.html"]
        for name in names + ["run.sqlite", "run.sqlite-journal"] * record:
            (self.path / name).unlink(missing_ok=True)

    def write_result(self, result: Result, predictions: Iterable[Prediction]) -> None:
        """Write ``labels.csv``, then ``result.json``."""
        with (self.path / "labels.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("party", "client", "row", "label", "confidence"))
            writer.writerows(predictions)
        encoded = msgspec.json.format(msgspec.json.encode(result.record()), indent=2)
        self._write("result.json", encoded.decode() + "\n")

    def write_failure(self, traceback: str) -> None:
        """Keep the traceback of what broke the run."""
        self._write("failure.txt", traceback)

    def _write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        partial = self.path / _partial(name)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.path / name)


def discard_unwritten(path: Path) -> None:
    """Remove the folder of a run that was killed before its scenario was written; it is empty otherwise."""
    (path / _partial("scenario.toml")).unlink(missing_ok=True)
    path.rmdir()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The folder `path` is this process's alone for so long. Raises FolderError if it is another's."""
    lock = _lock(path)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _partial(name: str) -> str:
    return f".{name}.partial"


def _lock(path: Path) -> int | None:
    """Take the folder for this process, which gives it back however it ends; nothing where there are no such locks."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderError(f"{path}: another process is running it; wait for it, or stop it first") from None
    return descriptor


_SCHEMA = """
BEGIN;
CREATE TABLE messages (time REAL, kind TEXT, sender TEXT, receiver TEXT, protocol TEXT, step TEXT, type TEXT,
    round INTEGER, attempt INTEGER, payload INTEGER, sealing INTEGER, envelope INTEGER, note TEXT,
    digest BLOB);
CREATE TABLE steps (party TEXT, step TEXT, entered REAL, "left" REAL);
CREATE TABLE faults (time REAL, party TEXT, peer TEXT, step TEXT, note TEXT);
CREATE TABLE metrics (time REAL, party TEXT, name TEXT, value REAL);
CREATE TABLE outcomes (time REAL, party TEXT, step TEXT, note TEXT);
CREATE TABLE computations (time REAL, party TEXT, step TEXT, n INTEGER, seconds REAL);
CREATE TABLE contents (time REAL, sender TEXT, receiver TEXT, type TEXT, round INTEGER, attempt INTEGER, frame BLOB);
COMMIT;
"""
_BATCH = 2000
_FEW_BYTES = 2**24
"""More contents than that do not wait for their batch."""


class Recorder:
    """A sink that writes every event into ``run.sqlite``, in batches.

    In `messages`, kind is send or relay (a hop begins; its bytes travel), deliver, lose or drop. In `steps`, left is
    NULL for a step that was never left. In `faults`, peer is the other side of a link, of a message its receiver. In
    `computations`, n counts a party's jobs in a step from 1, and seconds are virtual. In `contents`, frame is what came
    (`sim.wire`): only of the message types that `contents` names, from the round on that it gives for each. With a
    `state` it goes on from there, and takes out what came later; that raises FolderError where the file has less.
    """

    def __init__(
        self, path: Path, state: dict[str, Any] | None = None, contents: Mapping[str, int] | None = None
    ) -> None:
        if state is not None and not path.is_file():
            raise FolderError(f"{path}: missing; without it the run cannot be taken up")
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _PLACES}
        self._waiting = self._bytes = 0
        self._contents = dict(contents or {})
        self._entered: dict[tuple[str, str], float] = {}
        self._closed = False
        if state is None:
            self._connection.executescript(_SCHEMA)
            return
        try:
            self._go_back(state)
        except (sqlite3.Error, FolderError) as error:
            self._connection.close()
            raise FolderError(f"{path}: {error}; without its record the run cannot be taken up") from None

    def state(self) -> dict[str, Any]:
        """How many rows there are, all of them written now, and which steps have no end yet."""
        self._flush()
        return {"rows": self._counts(), "entered": [(*key, time) for key, time in self._entered.items()]}

    def _counts(self) -> dict[str, int]:
        (row,) = self._connection.execute(
            "SELECT " + ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {table})" for table in _PLACES)
        )
        return dict(zip(_PLACES, row, strict=True))

    def _go_back(self, state: dict[str, Any]) -> None:
        found = self._counts()
        rows = {table: int(state["rows"][table]) for table in _PLACES}
        for table, count in rows.items():
            if found[table] < count:
                raise FolderError(f"{found[table]} rows of {table}, where the checkpoint has {count}")
        self._connection.execute("BEGIN")
        for table, count in rows.items():
            self._connection.execute(f"DELETE FROM {table} WHERE rowid > ?", (count,))
        self._connection.execute("COMMIT")
        self._entered = {(party, step): time for party, step, time in state["entered"]}

    def __call__(self, event: Event) -> None:
        if self._closed:  # a run that was broken off is still being taken apart
            return
        self._KINDS[event.kind](self, event)
        if self._waiting >= _BATCH:
            self._flush()

    def tap(self, time: float, packet: Packet) -> None:
        """Write what a receiver gets, if it is to be kept."""
        its = packet
        if self._closed or its.round < self._contents.get(its.type, its.round + 1):
            return
        self._add("contents", (time, its.sender, its.receiver, its.type, its.round, its.attempt, its.data))
        self._bytes += len(its.data)
        if self._bytes >= _FEW_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the steps that were never left. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for (party, step), entered in self._entered.items():
            self._add("steps", (party, step, entered, None))
        try:
            self._flush()
        finally:
            self._connection.close()

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows[table].append(row)
        self._waiting += 1

    def _flush(self) -> None:
        if self._connection.in_transaction:  # Ctrl-C came while it was writing
            self._connection.execute("ROLLBACK")
        self._connection.execute("BEGIN")
        for table, rows in self._rows.items():
            if rows:
                self._connection.executemany(f"INSERT INTO {table} VALUES ({_PLACES[table]})", rows)
        self._connection.execute("COMMIT")
        for rows in self._rows.values():
            rows.clear()
        self._waiting = self._bytes = 0

    def _message(self, event: Event) -> None:
        # A message dropped on arrival is told by its receiver alone.
        sender, receiver = (event.party, event.peer) if event.peer else ("", event.party)
        self._add(
            "messages",
            (event.time, event.kind, sender, receiver, event.protocol, event.step, event.type, event.round,
             event.attempt, event.payload, event.sealing, event.envelope, event.note, event.digest),
        )  # fmt: skip

    def _enter(self, event: Event) -> None:
        key = event.party, event.step
        if key in self._entered:  # a party that crashed in the step and came back enters it again
            self._add("steps", (*key, self._entered[key], None))
        self._entered[key] = event.time

    def _leave(self, event: Event) -> None:
        key = event.party, event.step
        self._add("steps", (*key, self._entered.pop(key, None), event.time))

    def _compute(self, event: Event) -> None:
        self._add("computations", (event.time, event.party, event.step, int(event.note), event.value))

    def _fault(self, event: Event) -> None:
        self._add("faults", (event.time, event.party, event.peer, event.step, event.note))

    def _metric(self, event: Event) -> None:
        self._add("metrics", (event.time, event.party, event.note, event.value))

    def _outcome(self, event: Event) -> None:
        self._add("outcomes", (event.time, event.party, event.step, event.note))

    _KINDS: dict[str, Callable[["Recorder", Event], None]] = {  # noqa: RUF012 (never changed)
        **dict.fromkeys(("send", "relay", "deliver", "lose", "drop"), _message),
        "enter": _enter, "leave": _leave, "compute": _compute, "fault": _fault, "metric": _metric,
        "outcome": _outcome,
    }  # fmt: skip


_PLACES = {
    name: ", ".join("?" * count)
    for name, count in (
        ("messages", 14), ("steps", 4), ("faults", 5), ("metrics", 4), ("outcomes", 4), ("computations", 5),
        ("contents", 7),
    )
}  # fmt: skip


class ByteRow(Struct, frozen=True):
    """Messages and bytes of one type in one step; both hops of a relayed message count."""

    step: str
    type: str
    messages: int
    payload: int
    sealing: int
    envelope: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.payload + self.sealing + self.envelope


def remarks_on(folder: Path) -> list[str]:
    """What to know about the run in `folder` before reading its numbers: that it was sized, that it did not complete.

    Nothing about one that is as it should be.
    """
    found = ["sized"] if _told(folder, "fidelity") == "sized" else []
    outcome = _told(folder, "outcome")
    if outcome != "completed":
        found.append(f"{outcome or 'no result'}: so far" if outcome != "aborted" else "aborted")
    return found


class Ending(Struct, frozen=True):
    """How a run ended, and by which version of Tacit it was made."""

    outcome: str
    version: str


def ending_of(folder: Path) -> Ending | None:
    """How the run in `folder` ended; None where it was broken off: killed, interrupted, or stopped by an error.

    Raises FolderError.
    """
    try:
        ending = _decoded(folder, Ending)
    except FileNotFoundError:
        return None
    return None if ending.outcome == "interrupted" or (folder / "failure.txt").is_file() else ending


def read_result(folder: Path) -> Result:
    """What came of the run in `folder`; of its rounds only what those of all protocols have. Raises FolderError."""
    result = _decoded(folder, Result)
    result.folder = folder
    return result


def _decoded(folder: Path, kind: type[S]) -> S:
    path = folder / "result.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FolderError(f"{path}: not the result of a run: {error}") from None


def message_bytes(folder: Path) -> dict[str, int]:
    """`Result.message_bytes` of the run in `folder`; empty where it does not say."""
    try:
        return msgspec.convert(_told(folder, "message_bytes"), dict[str, int])
    except msgspec.ValidationError:
        return {}


def _told(folder: Path, name: str) -> object:
    """A field of ``result.json``, None where there is none."""
    try:
        return msgspec.json.decode((folder / "result.json").read_bytes())[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def byte_rows(folder: Path) -> list[ByteRow]:
    """What a run sent, by step and message type, in the order of their first message.

    Raises FolderError where the folder holds no such record.
    """
    path = folder / "run.sqlite"
    if not path.is_file():
        raise FolderError(f"{folder}: no run.sqlite; a run's folder is needed")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute(
            "SELECT step, type, count(*), sum(payload), sum(sealing), sum(envelope) FROM messages "
            "WHERE kind IN ('send', 'relay') GROUP BY step, type ORDER BY min(rowid)"
        ).fetchall()
    except sqlite3.Error as error:
        raise FolderError(f"{path}: {error}") from None
    finally:
        connection.close()
    for step, kind, *counts in rows:
        if not (isinstance(step, str) and isinstance(kind, str) and all(isinstance(count, int) for count in counts)):
            raise FolderError(f"{path}: the record of messages is damaged: {kind!r} in {step!r} is no such row")
    return [ByteRow(*row) for row in rows]
