"""Reads ``run.sqlite``, also while the run goes on."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tacit.parties.server import Loss
from tacit.scenarios.running.folder import FolderError, check_format
from tacit.scenarios.running.whole import check_whole, is_under_way, opened_record

__all__ = ["EndedRound", "News", "Record", "Row", "is_under_way", "opened"]


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
    note: str
    value: float
    message: int
    copy: int
    hop: int
    sender: str
    receiver: str


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
    """The new rows since the last look. `about` is the table `run`, `losses` are there once the run has ended."""

    rows: Sequence[Row]
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
            yield connection
    except (sqlite3.Error, TypeError, ValueError) as error:
        if isinstance(error, FolderError):
            raise
        check_whole(folder)
        raise FolderError(
            f"{path}: the record cannot be read: {error}; is the file whole? A run again makes a new one"
        ) from None


class Record:
    """The record of the run in `folder`. Each look opens it and closes it again, and so keeps nobody from writing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.sqlite"
        self._seen = self._rounds = 0

    @property
    def is_there(self) -> bool:
        """True if the run has begun to record."""
        return self.path.is_file()

    def news(self) -> News:
        """Return the new rows since the last look; at first all there are. Raises FolderError."""
        with opened(self.path.parent) as connection:
            found = self._read(connection)
        self._seen = found.rows[-1].n if found.rows else self._seen
        self._rounds += len(found.rounds)
        return found

    def _read(self, connection: sqlite3.Connection) -> News:
        events = connection.execute(
            f"SELECT {', '.join(Row._fields)} FROM events WHERE n > ? ORDER BY n", (self._seen,)
        )
        rounds = connection.execute("SELECT * FROM ended_rounds WHERE rowid > ? ORDER BY rowid", (self._rounds,))
        losses = connection.execute("SELECT party, step, action, round, time FROM final_losses ORDER BY rowid")
        return News(
            [Row._make(row) for row in events],
            [EndedRound._make(row) for row in rounds],
            dict(connection.execute("SELECT key, value FROM run")),
            [Loss(*row) for row in losses],
        )
