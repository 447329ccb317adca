"""Reads ``run.sqlite``, also during the run."""

import gc
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import NamedTuple

from tacit.parties.server import Loss
from tacit.scenarios.running.whole import FolderError, check_whole, is_under_way, opened_record

__all__ = [
    "AnyRow", "Delivery", "EndedRound", "News", "Record", "Row", "Sending", "Transfers", "WaitBegun", "WaitEnded",
    "is_under_way", "losses_in", "opened", "reader_of", "without_collecting",
]  # fmt: skip


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


class Sending(NamedTuple):
    """The sending of the first copy of a message straight to its receiver, with the columns that its story needs."""

    n: int
    time: float
    message: int
    party: str
    peer: str
    type: str
    step: str
    round: int
    attempt: int
    payload: int
    sealing: int
    envelope: int


class Transfers(NamedTuple):
    """Functions that record sendings and deliveries, most events of a record; each returns False if it needs a row.

    They have fewer columns than a `Row`, which `see` of `Record.news` has.
    """

    send: Callable[[Sending], bool]
    deliver: Callable[[Delivery], bool]


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
            yield connection
    except (sqlite3.Error, TypeError, ValueError) as error:
        if isinstance(error, FolderError):
            raise
        check_whole(folder)
        raise FolderError(
            f"{path}: the record cannot be read: {error}; is the file whole? A run again makes a new one"
        ) from None


def losses_in(connection: sqlite3.Connection) -> list[Loss]:
    """The losses of the run, in order."""
    return [Loss(*row) for row in connection.execute("SELECT party, step, action, round, time FROM losses")]


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
        transfers: Transfers | None = None,
    ) -> News:
        """Return the rows that are new since the last call; all rows at first. Raises FolderError.

        `see` is called with each event and wait, in order. `kept`: the kinds to return; None: all. With `transfers`,
        those functions are called with each sending and delivery instead, in order, and `see` only if they return
        False; the result then has no such events.
        """
        with opened(self.path.parent) as connection, without_collecting():
            found = self._read(connection, see or (lambda row: None), kept, transfers)
        self._seen = found.last
        self._rounds += len(found.rounds)
        return found

    def _read(
        self,
        connection: sqlite3.Connection,
        see: Callable[[AnyRow], None],
        kept: Collection[str] | None,
        transfers: Transfers | None,
    ) -> News:
        rows: list[AnyRow] = []
        last, time = self._seen, 0.0
        apart = "" if transfers is None else f"kind <> 'deliver' AND ({_IS_SENDING}) IS NOT TRUE AND"
        query = f"{_ROWS} WHERE {apart} n > ? ORDER BY n"
        transferred = _Transferred(connection, self._seen, see, transfers)
        waits = _Waits(connection, self._seen, see, kept, rows, self._names)

        def catch_up(n: int) -> int:
            """Process all transfers and waits before the event `n`; return the number of the first later one."""
            while True:
                transfer, wait = transferred.next, waits.next
                if min(transfer, wait) >= n:
                    return min(transfer, wait)
                if transfer < wait:
                    transferred.see_until(min(wait, n))
                else:
                    waits.see_until(min(transfer, n))

        beside = min(transferred.next, waits.next)
        for row in map(Row._make, connection.execute(query, (self._seen,))):
            if beside < row.n:
                beside = catch_up(row.n)
            if kept is None or row.kind in kept:
                row = _shared(row)
                rows.append(row)
            see(row)
            last, time = row.n, row.time
        catch_up(sys.maxsize)
        last, time = max((last, time), transferred.last, waits.last)
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


def _shared(row: Row) -> Row:
    """The row with texts that it shares with others: one object for all occurrences, since a record has few texts."""
    return Row._make([intern(one) if isinstance(one, str) else one for one in row])


class _Names(dict[str, tuple[str, ...]]):
    """The names in each space-separated list; one tuple for all occurrences of a list."""

    def __missing__(self, text: str) -> tuple[str, ...]:
        names = self[text] = tuple(text.split())
        return names


_IS_SENDING = (
    "kind = 'send' AND message > 0 AND copy = message AND hop = 1 AND fact = '' AND value < 2 AND sender = party "
    "AND receiver = peer"
)

_TRANSFERS = f"""
SELECT {", ".join(Sending._fields)} FROM events WHERE {_IS_SENDING} AND n > ?
UNION ALL SELECT n, time, message, {", ".join(["NULL"] * len(Sending._fields[3:]))} FROM events
WHERE kind = 'deliver' AND n > ? ORDER BY n"""


class _Transferred:
    """The sendings and deliveries of a record after the event `seen`, to be passed to `transfers`; none if it is None.

    `next` is the number of the first one that was not passed yet, `last` the number and the time of the last one
    passed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        seen: int,
        see: Callable[[AnyRow], None],
        transfers: Transfers | None,
    ) -> None:
        self._rows = iter(()) if transfers is None else connection.execute(_TRANSFERS, (seen, seen))
        self._connection, self._see, self._transfers = connection, see, transfers
        self._row = next(self._rows, None)
        self.next = sys.maxsize if self._row is None else self._row[0]
        self.last = (0, 0.0)

    def see_until(self, n: int) -> None:
        """Process all sendings and deliveries before the event `n`."""
        if self._transfers is None:
            return
        row, (send, deliver) = self._row, self._transfers
        while row is not None and row[0] < n:
            taken = deliver(Delivery._make(row[:3])) if row[3] is None else send(Sending._make(row))
            if not taken and (whole := _row(self._connection, row[0])) is not None:
                self._see(whole)
            before, row = row, next(self._rows, None)
            if row is None or row[0] >= n:
                self.last = before[0], before[1]
        self._row, self.next = row, sys.maxsize if row is None else row[0]


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
                row = WaitEnded(place, wait, time, intern(step), names[types], names[sources], intern(last), seconds)
                keeps = self._keeps_ends
            else:
                row = WaitBegun(
                    place, wait, time, intern(party), intern(step), number, attempt, names[types], names[sources],
                    seconds,
                )  # fmt: skip
                keeps = self._keeps_begins
            self._see(row)
            if keeps:
                self._rows.append(row)
            self.last = place, time
            found = self._found.fetchone()
        self._row, self.next = found, sys.maxsize if found is None else found[0]
