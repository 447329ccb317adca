"""Reads ``run.sqlite``, also during the run."""

import gc
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tacit.parties.server import Loss
from tacit.scenarios.running.whole import FolderError, check_whole, is_under_way, opened_record

__all__ = [
    "AnyRow",
    "Delivery",
    "EndedRound",
    "News",
    "Record",
    "Row",
    "WaitBegun",
    "WaitEnded",
    "is_under_way",
    "opened",
    "reader_of",
    "without_collecting",
]


class Row(NamedTuple):
    """An event, with the columns of the view `events` that are needed for explanations."""

    n: int
    time: float
    kind: str
    party: str
    peer: str
    step: str
    type: str
    round: int
    attempt: int
    payload: int
    sealing: int
    envelope: int
    note: str
    value: float
    message: int
    copy: int
    hop: int
    sender: str
    receiver: str
    fact: str
    detail: str


_ROWS = f"SELECT {', '.join(Row._fields)} FROM events"


class Delivery(NamedTuple):
    """A delivery, with the columns that do not repeat those of its message."""

    n: int
    time: float
    message: int


class WaitBegun(NamedTuple):
    """The beginning of a wait: a row of the table `wait_begins`."""

    n: int
    wait: int
    time: float
    party: str
    step: str
    round: int
    attempt: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    deadline: float

    @property
    def kind(self) -> str:
        """The kind of this row, as for events."""
        return "wait"


class WaitEnded(NamedTuple):
    """The end of a wait: a row of the table `wait_ends`."""

    n: int
    wait: int
    time: float
    how: str
    missing: tuple[str, ...]
    silent: tuple[str, ...]
    last: str
    alone: float

    @property
    def kind(self) -> str:
        """The kind of this row, as for events."""
        return "waited"


AnyRow = Row | WaitBegun | WaitEnded


class EndedRound(NamedTuple):
    """A row of the table `ended_rounds`: the number of `called` clients, and the clients whose answers count
    (`answered`)."""

    n: int
    round: int
    began: float
    ended: float | None
    called: int
    answered: tuple[str, ...]
    problem: str


class News(NamedTuple):
    """The rows that are new since the last read. `about` is the table `run`; there are `losses` once the run has ended.

    `rows` are events and waits, possibly only some kinds; `last` and `time` are the number and time of the last one
    read.
    """

    rows: Sequence[AnyRow]
    last: int
    time: float
    rounds: Sequence[EndedRound]
    about: dict[str, object]
    losses: Sequence[Loss]

    @property
    def ended(self) -> bool:
        """True if the run has recorded its end."""
        return "outcome" in self.about


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the record of the run in `folder`, as it is at one moment. Raises FolderError, also for invalid rows."""
    path = folder / "run.sqlite"
    if not path.is_file():
        swept = "; this is a sweep's, whose folders are those of its runs" if (folder / "sweep.csv").is_file() else ""
        raise FolderError(f"{folder}: no run.sqlite; a run's folder is needed{swept}")
    try:
        with opened_record(path) as connection:
            check_whole(folder)
            connection.execute("BEGIN")
            connection.text_factory = _Texts().__getitem__
            yield connection
    except (sqlite3.Error, TypeError, ValueError) as error:
        if isinstance(error, FolderError):
            raise
        check_whole(folder)
        raise FolderError(
            f"{path}: the record cannot be read: {error}; is the file whole? A run again makes a new one"
        ) from None


class _Texts(dict[bytes, str]):
    """The text of each byte string: one object for all its occurrences, since a record has few different texts."""

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = sys.intern(raw.decode())  # interned: kinds are compared with literals
        return text


@contextmanager
def without_collecting() -> Iterator[None]:
    """Suspend garbage collection, which would take a third of the time: objects made from a record stay in use."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def reader_of(folder: Path) -> Iterator[Callable[[int], Row | int]]:
    """Yield a function that reads one event of the run in `folder` by its number, or the number of the wait that ended
    at it.

    Raises FolderError.
    """
    with opened(folder) as connection:
        yield lru_cache(maxsize=4096)(lambda number: _row(connection, number) or _wait(connection, number))


def _row(connection: sqlite3.Connection, number: int) -> Row | None:
    found = connection.execute(f"{_ROWS} WHERE n = ?", (number,)).fetchone()
    return None if found is None else Row._make(found)


def _wait(connection: sqlite3.Connection, number: int) -> int:
    found = connection.execute("SELECT wait FROM wait_ends WHERE n = ?", (number,)).fetchone()
    if found is None:
        raise ValueError(f"event {number} is missing")
    return int(found[0])


class Record:
    """The record of the run in `folder`. It is open only while it is read, so that it never blocks the writer."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.sqlite"
        self._seen = self._rounds = 0
        self._names = _Names()

    @property
    def is_there(self) -> bool:
        """True if the record exists."""
        return self.path.is_file()

    def news(
        self,
        see: Callable[[AnyRow], None] | None = None,
        kept: Collection[str] | None = None,
        see_delivery: Callable[[Delivery], bool] | None = None,
    ) -> News:
        """Return the rows that are new since the last call; all rows at first. Raises FolderError.

        `see` is called with each event and wait, in order. `kept`: the kinds to return; None: all. With `see_delivery`,
        that function is called with each delivery instead, in order, and `see` only if it returns False; the result
        then has no deliveries.
        """
        with opened(self.path.parent) as connection, without_collecting():
            found = self._read(connection, see or (lambda row: None), kept, see_delivery)
        self._seen = found.last
        self._rounds += len(found.rounds)
        return found

    def _read(
        self,
        connection: sqlite3.Connection,
        see: Callable[[AnyRow], None],
        kept: Collection[str] | None,
        see_delivery: Callable[[Delivery], bool] | None,
    ) -> News:
        rows: list[AnyRow] = []
        last, time = self._seen, 0.0
        apart = "" if see_delivery is None else "kind <> 'deliver' AND"
        query = f"{_ROWS} WHERE {apart} n > ? ORDER BY n"
        deliveries = _Deliveries(connection, self._seen, see, see_delivery)
        waits = _Waits(connection, self._seen, see, kept, rows, self._names)

        def catch_up(n: int) -> int:
            """Process all deliveries and waits before the event `n`; return the number of the first later one."""
            while True:
                delivery, wait = deliveries.next, waits.next
                if min(delivery, wait) >= n:
                    return min(delivery, wait)
                if delivery < wait:
                    deliveries.see_until(min(wait, n))
                else:
                    waits.see_until(min(delivery, n))

        beside = min(deliveries.next, waits.next)
        for row in map(Row._make, connection.execute(query, (self._seen,))):
            if beside < row.n:
                beside = catch_up(row.n)
            see(row)
            last, time = row.n, row.time
            if kept is None or row.kind in kept:
                rows.append(row)
        catch_up(sys.maxsize)
        last, time = max((last, time), deliveries.last, waits.last)
        rounds = connection.execute(
            "SELECT n, round, began, ended, called, answered, problem FROM ended_rounds WHERE rowid > ? ORDER BY rowid",
            (self._rounds,),
        )
        losses = connection.execute("SELECT party, step, action, round, time FROM final_losses ORDER BY rowid")
        return News(
            rows,
            last,
            time,
            [
                EndedRound(n, number, began, ended, called, tuple(answered.split()), problem)
                for n, number, began, ended, called, answered, problem in rounds
            ],
            dict(connection.execute("SELECT key, value FROM run")),
            [Loss(*row) for row in losses],
        )


class _Names(dict[str, tuple[str, ...]]):
    """The names in each space-separated list; one tuple for all occurrences of a list."""

    def __missing__(self, text: str) -> tuple[str, ...]:
        names = self[text] = tuple(text.split())
        return names


class _Deliveries:
    """The deliveries of a record after the event `seen`, to be passed to `take`; no deliveries if `take` is None.

    `next` is the number of the first one that was not passed yet, `last` the number and the time of the last one
    passed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        seen: int,
        see: Callable[[AnyRow], None],
        take: Callable[[Delivery], bool] | None,
    ) -> None:
        query = f"SELECT {', '.join(Delivery._fields)} FROM events WHERE kind = 'deliver' AND n > ? ORDER BY n"
        self._rows = iter(()) if take is None else map(Delivery._make, connection.execute(query, (seen,)))
        self._connection, self._see, self._take = connection, see, take
        self._row = next(self._rows, None)
        self.next = sys.maxsize if self._row is None else self._row.n
        self.last = (0, 0.0)

    def see_until(self, n: int) -> None:
        """Process all deliveries before the event `n`."""
        row, take = self._row, self._take
        while row is not None and take is not None and row.n < n:
            if not take(row) and (whole := _row(self._connection, row.n)) is not None:
                self._see(whole)
            self.last = row.n, row.time
            row = next(self._rows, None)
        self._row, self.next = row, sys.maxsize if row is None else row.n


_WAITS = """
SELECT n, wait, time, party, step, round, attempt, types, sources, deadline, '' FROM wait_begins WHERE n > ?
UNION ALL SELECT n, wait, time, NULL, how, 0, 0, missing, silent, alone, last FROM wait_ends WHERE n > ? ORDER BY n"""


class _Waits:
    """The beginnings and ends of waits after the event `seen`, to be passed to `see`. Kinds in `kept` are added to
    `rows`.

    `next` and `last` are as for `_Deliveries`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        seen: int,
        see: Callable[[AnyRow], None],
        kept: Collection[str] | None,
        rows: list[AnyRow],
        names: _Names,
    ) -> None:
        self._see, self._rows, self._names = see, rows, names
        self._keeps_begins, self._keeps_ends = (kept is None or kind in kept for kind in ("wait", "waited"))
        self._found = connection.execute(_WAITS, (seen, seen))
        self._row = self._found.fetchone()
        self.next = sys.maxsize if self._row is None else self._row[0]
        self.last = (0, 0.0)

    def see_until(self, n: int) -> None:
        """Process all beginnings and ends of waits before the event `n`."""
        found, names = self._row, self._names
        while found is not None and found[0] < n:
            place, wait, time, party, step, number, attempt, types, sources, seconds, last = found
            row: AnyRow
            if party is None:
                row = WaitEnded(place, wait, time, step, names[types], names[sources], last, seconds)
                keeps = self._keeps_ends
            else:
                row = WaitBegun(place, wait, time, party, step, number, attempt, names[types], names[sources], seconds)
                keeps = self._keeps_begins
            self._see(row)
            if keeps:
                self._rows.append(row)
            self.last = place, time
            found = self._found.fetchone()
        self._row, self.next = found, sys.maxsize if found is None else found[0]
