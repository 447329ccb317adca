"""Reads ``run.sqlite``, also while the run goes on."""

import gc
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tacit.parties.server import Loss
from tacit.scenarios.running.folder import FolderError, check_format
from tacit.scenarios.running.whole import check_whole, is_under_way, opened_record

__all__ = [
    "Delivery",
    "EndedRound",
    "News",
    "Record",
    "Row",
    "is_under_way",
    "opened",
    "reader_of",
    "without_collecting",
]


class Row(NamedTuple):
    """An event, with the columns of the table `events` that its story needs."""

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


_ROWS = f"SELECT {', '.join(Row._fields)} FROM events"


class Delivery(NamedTuple):
    """A delivery, with the columns that do not repeat those of its message."""

    n: int
    time: float
    message: int


class EndedRound(NamedTuple):
    """A row of the table `ended_rounds`."""

    n: int
    round: int
    began: float
    ended: float | None
    cohort: str
    answered: str
    problem: str


class News(NamedTuple):
    """The new rows since the last look. `about` is the table `run`, `losses` are there once the run has ended.

    `rows` are the events, or those that were to be kept; `last` is the number of the last event, `time` when it was.
    """

    rows: Sequence[Row]
    last: int
    time: float
    rounds: Sequence[EndedRound]
    about: dict[str, object]
    losses: Sequence[Loss]

    @property
    def ended(self) -> bool:
        """True if the run has ended by itself."""
        return "outcome" in self.about


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """The record of the run in `folder`, to be read as it was at one moment. Raises FolderError, also for bad rows."""
    path = folder / "run.sqlite"
    if not path.is_file():
        swept = "; this is a sweep's, whose folders are those of its runs" if (folder / "sweep.csv").is_file() else ""
        raise FolderError(f"{folder}: no run.sqlite; a run's folder is needed{swept}")
    try:
        with opened_record(path) as connection:
            check_format(path, connection)
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
    """The text of each sequence of bytes: one object, however often it occurs, as a record has few texts."""

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = sys.intern(raw.decode())  # kinds are compared with those of the code
        return text


@contextmanager
def without_collecting() -> Iterator[None]:
    """Suspend the search for garbage: what is made of a record stays, and the search takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def reader_of(folder: Path) -> Iterator[Callable[[int], Row]]:
    """A function that reads one event of the run in `folder` by its number. Raises FolderError."""
    with opened(folder) as connection:
        yield lru_cache(maxsize=4096)(lambda number: _row(connection, number))


def _row(connection: sqlite3.Connection, number: int) -> Row:
    return Row._make(connection.execute(f"{_ROWS} WHERE n = ?", (number,)).fetchone())


class Record:
    """The record of the run in `folder`. Each look opens it and closes it again, and so keeps nobody from writing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.sqlite"
        self._seen = self._rounds = 0

    @property
    def is_there(self) -> bool:
        """True if the run has begun to record."""
        return self.path.is_file()

    def news(
        self,
        see: Callable[[Row], None] | None = None,
        kept: Collection[str] | None = None,
        see_delivery: Callable[[Delivery], bool] | None = None,
    ) -> News:
        """Return the new rows since the last look; at first all there are. Raises FolderError.

        `see` is called with each event, in order. `kept`: the kinds of events that the result has; None: all.
        `see_delivery` is called with each delivery instead, in its turn; if it returns False, `see` is called as well.
        The result has none of them then.
        """
        with opened(self.path.parent) as connection, without_collecting():
            found = self._read(connection, see or (lambda row: None), kept, see_delivery)
        self._seen = found.last
        self._rounds += len(found.rounds)
        return found

    def _read(
        self,
        connection: sqlite3.Connection,
        see: Callable[[Row], None],
        kept: Collection[str] | None,
        see_delivery: Callable[[Delivery], bool] | None,
    ) -> News:
        rows: list[Row] = []
        last, time = self._seen, 0.0
        apart = "" if see_delivery is None else "kind <> 'deliver' AND"
        query = f"{_ROWS} WHERE {apart} n > ? ORDER BY n"
        deliveries = _Deliveries(connection, self._seen, see, see_delivery)
        for row in map(Row._make, connection.execute(query, (self._seen,))):
            if deliveries.next < row.n:
                deliveries.see_until(row.n)
            see(row)
            last, time = row.n, row.time
            if kept is None or row.kind in kept:
                rows.append(row)
        deliveries.see_until(sys.maxsize)
        last, time = max((last, time), deliveries.last)
        rounds = connection.execute("SELECT * FROM ended_rounds WHERE rowid > ? ORDER BY rowid", (self._rounds,))
        losses = connection.execute("SELECT party, step, action, round, time FROM final_losses ORDER BY rowid")
        return News(
            rows,
            last,
            time,
            [EndedRound._make(row) for row in rounds],
            dict(connection.execute("SELECT key, value FROM run")),
            [Loss(*row) for row in losses],
        )


class _Deliveries:
    """The new deliveries of a record after the event `seen`, for `take`; none if that is None."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        seen: int,
        see: Callable[[Row], None],
        take: Callable[[Delivery], bool] | None,
    ) -> None:
        query = f"SELECT {', '.join(Delivery._fields)} FROM events WHERE kind = 'deliver' AND n > ? ORDER BY n"
        self._rows = iter(()) if take is None else map(Delivery._make, connection.execute(query, (seen,)))
        self._connection, self._see, self._take = connection, see, take
        self._row = next(self._rows, None)
        self.next = sys.maxsize if self._row is None else self._row.n
        self.last = (0, 0.0)

    def see_until(self, n: int) -> None:
        """Have those seen that come before the event `n`."""
        row, take = self._row, self._take
        while row is not None and take is not None and row.n < n:
            if not take(row):
                self._see(_row(self._connection, row.n))
            self.last = row.n, row.time
            row = next(self._rows, None)
        self._row, self.next = row, sys.maxsize if row is None else row.n
