"""The durations of a recorded run's jobs, for a run that replays them."""

import math
import sqlite3
from pathlib import Path

from tacit.scenarios.running.whole import check_whole, opened_record

__all__ = ["durations_of"]


def durations_of(folder: Path) -> dict[tuple[str, str, int], float]:
    """The seconds of each job by (party, step, number). Raises ValueError in one line if there is no such record."""
    path = folder / "run.sqlite"
    if not path.is_file():
        raise ValueError(f"{folder}: no run.sqlite; replayed: needs the folder of a run")
    check_whole(folder)
    try:
        with opened_record(path) as connection:
            rows = connection.execute("SELECT party, step, n, seconds FROM computing").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for *job, seconds in rows:
        if not (isinstance(seconds, float) and 0 <= seconds < math.inf):
            raise ValueError(f"{path}: the record of computations is damaged: job {job} takes {seconds!r} s")
    return {(party, step, n): seconds for party, step, n, seconds in rows}
