"""Writes the record of a run, ``run.sqlite``, in the format that `tacit.scenarios.running.record_format` declares.

Records of runs with many clients, limited to the clients that take part.
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import astuple, replace

from tacit.parties.fleet.fleet import SERVER
from tacit.parties.server import Loss
from tacit.protocols.experiment.experiment import AWAKE
from tacit.protocols.experiment.simulated import Round
from tacit.protocols.outcome import Reason
from tacit.protocols.rounds.rounds import ENROLL, NEVER_DRAWN
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.folder import FolderError, writing
from tacit.scenarios.running.record_format import FORMAT, SCHEMA, TABLES, Table
from tacit.sim.plain import packed
from tacit.sim.taps import Wait
from tacit.sim.trace import Event
from tacit.sim.wire import Packet

__all__ = ["Ending", "Recorder", "SparingRecorder", "keep_participants", "recorded", "recording_of"]

_BATCH = 2000
_FEW_BYTES = 2**24
"""The bytes of contents above which they are written without waiting for the batch."""

_SECONDS = 0.25
"""The real seconds after which records are written even without further events.

Thereby followers of the run see them, and a killed run leaves them.
"""

_SHARE = 20
"""How many times as long as a call of `Recorder.rounds_written` took it is not called again."""

_NUMBERED = ("event_rows", "wait_begins", "wait_ends")
"""The tables whose rows are numbered together, in the order in which they happened."""

_COUNTED = (*_NUMBERED, "ended_rounds", "contents")
"""The tables that grow during the run."""


Reader = Callable[[sqlite3.Connection], object]
"""Reads a record that is open."""


class Ending(Struct, frozen=True):
    """The end of a run: the values for the table `run`, with losses and rounds as in ``result.json``."""

    outcome: str
    reason: Reason
    virtual_seconds: float
    lost: list[Loss] = []
    rounds: list[Round] = []


class _OfAnotherFormat(FolderError):
    """A record that was written in another format."""


class Recorder:
    """Writes ``run.sqlite``: a sink of events, with `tap` for contents, `wait` for waits, and `end_round` for rounds.

    `about` are the rows of the table `run`, `files` those of the table `files`. Contents are stored only for the
    message types in `contents`, from the given round on. With a `state`, the recorder continues from there and removes
    later records. Raises FolderError if the file is missing, has fewer records than the `state`, or is of another
    format.

    The journal is written ahead (WAL), so others may read at any time. A run that is killed leaves all that was
    written, in ``run.sqlite`` and ``run.sqlite-wal``; after a power failure the last seconds may be missing. `close`
    leaves one file. `rounds_written` is called, in another thread, when further rounds have ended and are written, and
    as seldom as its own time takes up less than a twentieth of all.
    """

    rounds_written: Callable[[], object] | None = None

    def __init__(
        self,
        path: Path,
        state: dict[str, Any] | None = None,
        contents: Mapping[str, int] | None = None,
        about: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        if state is not None and not path.is_file():
            raise FolderError(f"{path}: missing; without it the run cannot be taken up")
        if state is None and not path.exists():
            _make(path, private=bool(contents))
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._rows: dict[str, list[Sequence[Any]]] = {table: [] for table in _COUNTED}
        self._event_rows = self._rows["event_rows"]
        self._bytes = 0
        self._contents = dict(contents or {})
        self._events = self._waits = 0
        self._begun: dict[Wait, int] = {}  # waits that have not ended, with their numbers
        self._resumed: dict[tuple[Any, ...], int] = {}
        self._rounds: set[int] = set()
        self._lock = threading.RLock()
        self._written = time.monotonic()
        self._closed = False
        self._stop = threading.Event()
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            if state is None:
                self._connection.execute("BEGIN")
                self._connection.executemany("INSERT INTO run VALUES (?, ?)", (about or {}).items())
                self._connection.executemany("INSERT INTO files VALUES (?, ?)", (files or {}).items())
                self._connection.execute("COMMIT")
            else:
                self._check_format(path)
                self._go_back(state)
        except (sqlite3.Error, UnicodeDecodeError, FolderError) as error:
            self._connection.close()
            if state is None or isinstance(error, _OfAnotherFormat):
                raise
            raise FolderError(f"{path}: {error}; without its record the run cannot be taken up") from None
        self._writer = threading.Thread(target=self._write_now_and_then, name="recorder", daemon=True)
        self._writer.start()

    @property
    def keeps_contents(self) -> bool:
        """True if contents of messages are stored, so that `tap` does anything."""
        return bool(self._contents)

    def state(self) -> dict[str, Any]:
        """The numbers of rows, all of which are written first, and the waits that have not ended."""
        with self._lock:
            self.flush()
            rows = self._counts()
        waiting = packed((_key(wait), number) for wait, number in self._begun.items())
        return {"rows": rows, "waits": self._waits, "waiting": waiting, "rounds": sorted(self._rounds)}

    def _check_format(self, path: Path) -> None:
        (made,) = self._connection.execute("PRAGMA user_version").fetchone()
        if made != FORMAT:
            problem = f"of format {made}, and this version of Tacit continues a record only in format {FORMAT}"
            raise _OfAnotherFormat(f"{path}: {problem}; `tacit run {path.parent}` runs it from the start")

    def _counts(self) -> dict[str, int]:
        (row,) = self._connection.execute(
            "SELECT " + ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {table})" for table in _COUNTED)
        )
        return dict(zip(_COUNTED, row, strict=True))

    def _go_back(self, state: dict[str, Any]) -> None:
        found = self._counts()
        rows = {table: int(state["rows"][table]) for table in _COUNTED}
        for table, count in rows.items():
            if found[table] < count:
                raise FolderError(f"the last row of {table} is {found[table]}, where the checkpoint has {count}")
        self._connection.execute("BEGIN")
        for table, count in rows.items():
            self._connection.execute(f"DELETE FROM {table} WHERE rowid > ?", (count,))
        self._connection.execute("DELETE FROM final_losses")
        self._connection.execute(f"DELETE FROM run WHERE key IN ({', '.join(map(repr, _OF_END))})")
        self._connection.execute("COMMIT")
        self._events = max(rows[table] for table in _NUMBERED)
        self._waits, self._rounds = int(state["waits"]), set(state["rounds"])
        self._resumed = {_hashable(key): int(number) for key, number in state["waiting"]}

    # Recording

    def __call__(self, event: Event) -> None:
        if self._closed:  # the parties of an interrupted run are still being stopped
            return
        if event.origin != _NO_ORIGIN:
            type_, number, attempt = event.origin
            if type_ and event.kind == "drop":  # dropped by the receiver's program
                why = event.detail or event.note
                event = replace(event, kind="refuse", peer=event.sender, receiver=event.party, detail=why)
            if type_ or number:
                event = replace(event, type=type_, round=number, attempt=attempt)
        row: list[Any] = [*astuple(event)]
        if event.message:
            if event.sender == event.party:
                row[_SENDER] = None
            if event.receiver == event.peer:
                row[_SENDER + 1] = None
        del row[_ORIGIN]
        self._events += 1
        row.append(self._events)
        rows = self._event_rows
        rows.append(row)
        if len(rows) >= _BATCH:
            self.flush()

    def wait(self, time: float, wait: Wait) -> None:
        """Record the beginning or the end of a wait."""
        if self._closed:
            return
        if wait.ended:
            number = self._begun.pop(wait, 0)
            missing, silent = " ".join(wait.missing), " ".join(wait.silent)
            self._add_numbered("wait_ends", number, time, wait.ended, missing, silent, wait.last, wait.alone)
        else:
            number = self._resumed.pop(_hashable(_key(wait)), 0)
            known = bool(number)
            if not known:
                number = self._waits = self._waits + 1
            self._begun[wait] = number
            if known:  # a resumed run: the record has this wait already
                return
            self._add_numbered(
                "wait_begins", number, time, wait.party, wait.step, wait.round, wait.attempt, " ".join(wait.types),
                " ".join(wait.sources), wait.deadline,
            )  # fmt: skip

    def end_round(self, time: float, server: Any, record: Any) -> None:
        """Record the end of a round, whose `record` the `server` passes to the observers."""
        finished = getattr(record, "finished", True)
        answered = getattr(record, "counted", ())
        problem = getattr(record, "lost", "") or ("" if finished else getattr(server, "aborted", ""))
        cohort = getattr(record, "cohort", server.clients)
        self._add_round(getattr(record, "number", 1), getattr(record, "began", 0.0), time, cohort, answered, problem)

    def _add_round(
        self,
        number: int,
        began: float,
        ended: float | None,
        cohort: Iterable[str],
        answered: Iterable[str],
        problem: str,
    ) -> None:
        if number not in self._rounds:
            self._rounds.add(number)
            called, counted = list(cohort), list(answered)
            names = " ".join(called), " ".join(counted)
            row = (self._events, number, began, ended, *names, problem, len(called), len(counted))
            self._add("ended_rounds", row)

    def tap(self, time: float, packet: Packet) -> None:
        """Record the content of a delivered packet, if its type is to be stored."""
        if self._closed or packet.round < self._contents.get(packet.type, packet.round + 1):
            return
        data = packet.data
        row = (time, packet.sender, packet.receiver, packet.type, packet.round, packet.attempt, data)
        self._bytes += len(data)
        self._add("contents", row)

    def close(self, ending: Ending | None = None, read: Reader = lambda record: None) -> None:
        """Write the remaining records, and the end of the run; then call `read` with the open record.

        May be called twice; `read` is then called once.
        """
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        self._writer.join()
        try:
            for one in () if ending is None else ending.rounds:
                cohort, problem = getattr(one, "cohort", ()), getattr(one, "problem", "")
                self._add_round(one.round, one.began, None, cohort, (), problem)
            self.flush()
            if ending is not None:
                self._end(ending)
            try:
                read(self._connection)
            finally:
                self._merge()
        finally:
            self._connection.close()

    def _merge(self) -> None:
        """Merge the journal into the record, unless others read it."""
        self._connection.execute("PRAGMA busy_timeout = 100")
        with contextlib.suppress(sqlite3.OperationalError):  # the journal must stay while others read
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:  # everything is on the disk; what follows changes two bytes, and both values are valid
                self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("PRAGMA journal_mode = DELETE")

    def _end(self, ending: Ending) -> None:
        losses = [(loss.time, loss.round, loss.party, loss.step, loss.action) for loss in ending.lost]
        fields = {"outcome": ending.outcome, **recorded(ending.reason), "virtual_seconds": ending.virtual_seconds}
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO final_losses VALUES (?, ?, ?, ?, ?)", losses)
        self._connection.executemany("INSERT OR REPLACE INTO run VALUES (?, ?)", fields.items())
        self._connection.execute("COMMIT")

    # Writing

    def _add_numbered(self, table: str, *values: Any) -> None:
        self._events += 1
        self._add(table, (*values, self._events))

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _BATCH or self._bytes >= _FEW_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all records so far, so that others can read them."""
        with self._lock:
            if self._connection.in_transaction:  # Ctrl-C was received while it was writing
                self._connection.execute("ROLLBACK")
            new = {table: rows[:] for table, rows in self._rows.items() if rows}  # the run may add rows meanwhile
            self._connection.execute("BEGIN")
            for table, rows in new.items():
                self._connection.executemany(_INSERTING[table], rows)
            self._connection.execute("COMMIT")
            for table, rows in new.items():
                del self._rows[table][: len(rows)]
            self._bytes = 0
            self._written = time.monotonic()

    def _write_now_and_then(self) -> None:
        written, due = 0, 0.0
        while not self._stop.wait(_SECONDS):
            with contextlib.suppress(sqlite3.Error, OSError):  # the run reports the error at its own next write
                if any(self._rows.values()) and time.monotonic() - self._written >= _SECONDS:
                    self.flush()
                if self.rounds_written is not None and len(self._rounds) > written and time.monotonic() >= due:
                    written, began = len(self._rounds), time.monotonic()
                    self.flush()
                    self.rounds_written()
                    due = time.monotonic() + _SHARE * (time.monotonic() - began)


_OF_END = ("outcome", "reason", "ended_by", "virtual_seconds")
"""The rows of the table `run` that are written when the run ends."""


def recorded(reason: Reason) -> dict[str, str]:
    """The rows of the table `run` for the reason of a run's end: its sentence, and its facts in JSON."""
    return {"reason": str(reason), "ended_by": json.dumps(reason.record()) if reason else ""}


_SENDER, _ORIGIN = map(Event.__struct_fields__.index, ("sender", "origin"))  # the receiver is between them
_NO_ORIGIN = ("", 0, 0)


def _inserting(table: Table) -> str:
    names = [name for name, _, _ in table.columns]
    if table.name in _NUMBERED:
        own = [name for name in Event.__struct_fields__ if name != "origin"]
        names = [*(own if table.name == "event_rows" else names[1:]), "n"]
    return f"INSERT OR REPLACE INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_INSERTING = {table.name: _inserting(table) for table in TABLES}


@cache
def _empty() -> bytes:
    """The content of a record without rows, whose journal is written ahead.

    It is the same for all runs, and written as a whole: SQLite takes twice as long to make the tables. The version
    numbers in its header say how the journal is written (https://www.sqlite.org/fileformat2.html, section 1.3).
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        content = bytearray(connection.serialize())
    content[18:20] = b"\x02\x02"
    return bytes(content)


def _make(path: Path, *, private: bool) -> None:
    """Make a record without rows. Raises OSError; the file is then empty, as it has no tables.

    `private`: only its owner can read it, and SQLite gives its journals the same mode.
    """
    mode = 0o600 if private else 0o644  # as SQLite makes files
    with writing(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        try:
            file.write(_empty())
            file.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, 0)
            raise


def _key(wait: Wait) -> tuple[Any, ...]:
    """An identifier of a wait that is the same in a resumed run."""
    return wait.party, wait.types, wait.sources, wait.began


def _hashable(key: Any) -> tuple[Any, ...]:
    """Convert a stored `_key` back to tuples."""
    party, types, sources, began = key
    return party, tuple(types), tuple(sources), began


_ENROLMENT = frozenset(step.name for step in ENROLL)


class SparingRecorder:
    """A recorder of runs with many clients that records only the messages of their enrolment.

    It omits the steps of enrolment and the waits before them, and the ends of clients that were never called.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, event: Event) -> None:
        kind = event.kind
        if kind in ("enter", "leave") and event.step in _ENROLMENT and event.party != SERVER:
            return
        if kind != "outcome" or event.note != NEVER_DRAWN:
            self._recorder(event)

    def wait(self, time: float, wait: Wait) -> None:
        """Record that a wait begins, or its end."""
        if wait.step or wait.party == SERVER:
            self._recorder.wait(time, wait)


def recording_of(recorder: Recorder, clients: int) -> Recorder | SparingRecorder:
    """Return the recorder to use for a run with this number of `clients`."""
    return recorder if clients <= AWAKE else SparingRecorder(recorder)


def keep_participants(result: Result, clients: int) -> None:
    """Remove the clients that were never called from `lost`, `faults` and `endings` of a `result` of many `clients`.

    The size of the file then depends on the clients that take part, not on those that are registered. The result is
    unchanged if its rounds do not name the clients that were called. The record of the run has all clients.
    """
    cohorts = [getattr(one, "cohort", None) for one in result.round_records]
    if clients <= AWAKE or not cohorts or None in cohorts:
        return
    called = {name for cohort in cohorts for name in cohort or ()}
    absent = {f"client/{number}" for number in range(clients)} - called
    result.lost = [loss for loss in result.lost if loss.party not in absent]
    result.faults = [strike for strike in result.faults if strike.party not in absent]
    result.endings = {name: ending for name, ending in result.endings.items() if name not in absent}
    result.round_records = [_without(one, absent) for one in result.round_records]


def _without(one: Round, absent: set[str]) -> Round:
    return structs.replace(one, lost=tuple(name for name in one.lost if name not in absent))
