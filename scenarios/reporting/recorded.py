"""A run as recorded in its folder, no matter if it has ended, is under way or was broken off."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.parties.server import Loss
from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.files.plugins import withheld
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.folder import ByteRow, Result, byte_rows, read_result
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.whole import check_folder
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.scenarios.seeing.reading import is_under_way, losses_in, opened

__all__ = ["RecordedRun", "read_run", "scenario_of"]

UNDER_WAY, BROKEN_OFF = "under way", "broken off"


_FIGURES = """
SELECT name, round, avg(value) FROM metrics
WHERE party = 'server' AND round > 0 AND abs(value) < 9e999
GROUP BY name, round ORDER BY name, round"""


class RecordedRun(Struct, frozen=True):
    """The known facts of a run.

    `outcome` is that of ``result.json``, else "under way" or "broken off". `result` and `scenario` are None if the file
    is missing or this version cannot read it. `about` is the table `run` of the record, `rounds` its view of that name.
    `figures`: the server's measurements in rounds except the `score`, by name and round, and `scores` those of the
    score. `formula`: the payload by
    message type if nobody was lost; `formula_problem`: the reason why a plugin's formula failed.
    """

    folder: Path
    outcome: str
    reason: str
    result: Result | None
    scenario: Scenario | None
    about: dict[str, Any]
    seconds: float
    losses: list[Loss]
    rounds: list[dict[str, Any]]
    score: str
    scores: dict[int, float]
    figures: dict[str, dict[int, float]]
    rows: list[ByteRow]
    formula: dict[str, int]
    formula_problem: str
    scenario_text: str

    @property
    def title(self) -> str:
        """The subject of the run in one line."""
        return str(self.about.get("title") or self.about.get("scenario") or self.folder.resolve().name)

    @property
    def has_ended(self) -> bool:
        """True if the run has ended, also if it was interrupted."""
        return self.result is not None

    @property
    def equals_plaintext(self) -> bool | None:
        """True if the result equals the oracle's; None if it was not compared, or there is no result."""
        return None if self.result is None else self.result.equals_plaintext

    @property
    def messages(self) -> int:
        """The number of messages on all hops."""
        return sum(row.messages for row in self.rows)

    def sums(self) -> dict[str, int]:
        """Bytes on all hops: payload, sealing, envelope and their total."""
        names = ("payload", "sealing", "envelope", "total")
        return {name: sum(getattr(row, name) for row in self.rows) for name in names}

    @property
    def scored(self) -> float | None:
        """The value of the `score` in the result; for a run without a result, its last value in a round."""
        if self.result is not None:
            return self.result.scored
        return self.scores[max(self.scores)] if self.scores else None


def read_run(folder: Path) -> RecordedRun:
    """Read the run in `folder`. Raises FolderError if it is not a run's folder, or if its record is damaged."""
    check_folder(folder)
    goes_on = is_under_way(folder)  # checked before reading, so that the last read sees all events
    result = None
    with suppress(FileNotFoundError):
        result = read_result(folder)
    with opened(folder) as connection:
        about = dict(connection.execute("SELECT key, value FROM run"))
        losses = losses_in(connection)
        found = connection.execute("SELECT * FROM rounds ORDER BY round")
        names = [name for name, *_ in found.description]
        rounds = [dict(zip(names, row, strict=True)) for row in found]
        figures: dict[str, dict[int, float]] = {}
        for name, number, value in connection.execute(_FIGURES):
            figures.setdefault(name, {})[number] = value
        seconds = _last_moment(connection) if result is None else result.virtual_seconds
    score = str(about.get("score", ACCURACY)) if result is None else result.score
    rows = byte_rows(folder)
    formula, problem = _formula(folder, rows)
    return RecordedRun(
        folder=folder,
        outcome=result.outcome if result is not None else UNDER_WAY if goes_on else BROKEN_OFF,
        reason="" if result is None else result.reason,
        result=result,
        scenario=scenario_of(folder),
        about=about,
        seconds=seconds,
        losses=losses if result is None else result.lost,
        rounds=rounds,
        score=score,
        scores=figures.pop(score, {}),
        figures=figures,
        rows=rows,
        formula=formula,
        formula_problem=problem,
        scenario_text=_text(folder / "scenario.toml"),
    )


def _last_moment(connection: sqlite3.Connection) -> float:
    (last,) = connection.execute("SELECT max(time) FROM events").fetchone()
    return last or 0.0


def _formula(folder: Path, rows: Sequence[ByteRow]) -> tuple[dict[str, int], str]:
    try:
        if found := predicted(folder, dict.fromkeys(row.type for row in rows)):
            return found, ""
        return {}, withheld(folder)
    except ScenarioError as error:
        return {}, str(error)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def scenario_of(folder: Path) -> Scenario | None:
    """The scenario of the run in `folder`; None if this version cannot read it."""
    with suppress(OSError, ScenarioError):
        return read(folder, without_data=True).scenario
    return None
