"""The record of a run: every event, in the tables of ``run.sqlite``."""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scenarios.running.folder import FolderError
from sim.trace import Event
from sim.wire import Packet

__all__ = ["Recorder"]

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
