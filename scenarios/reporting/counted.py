"""The messages and bytes of a run, counted by step and type, with the payload by formula."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.scenarios.files.plugins import withheld
from tacit.scenarios.files.result import data_frame
from tacit.scenarios.reporting.recorded import scenario_of
from tacit.scenarios.running.folder import (
    ByteRow,
    FolderError,
    FormulaError,
    byte_rows,
    formula_errors,
    read_result,
)
from tacit.scenarios.running.prediction import predicted

__all__ = ["SHOWN", "Counted", "counted", "why_without_formula"]

_COUNTS = ("messages", "payload", "sealing", "envelope", "total", "headers")
SHOWN = ("messages", "payload", "formula", "sealing", "envelope", "total", "headers")


class Counted(Struct, frozen=True):
    """The messages and bytes of one run.

    `values`: in a sweep, those of the swept keys. `formula`: the payload of each type by formula, without types whose
    number depends on the run; empty if no formula applies, as in a run that lost a party.
    """

    folder: Path
    values: tuple[tuple[str, str], ...]
    scenario: str
    protocol: str
    seed: int | None
    outcome: str
    fidelity: str
    rows: list[ByteRow]
    formula: dict[str, int]

    def sums(self) -> dict[str, int | None]:
        """The numbers of all messages and bytes, and the whole payload by formula."""
        counts = {name: sum(getattr(row, name) for row in self.rows) for name in _COUNTS}
        whole = {row.type for row in self.rows if row.messages} <= {*self.formula}
        return {**counts, "formula": sum(self.formula.values()) if self.formula and whole else None}

    @property
    def errors(self) -> list[FormulaError]:
        """The message types for which the formula is wrong."""
        return formula_errors(self.rows, self.formula)

    def lines(self) -> list[dict[str, Any]]:
        """Messages and bytes by step and type. A type's payload by formula is at its first step, and None elsewhere."""
        left = dict(self.formula)
        return [
            {
                "step": row.step,
                "type": row.type,
                **{name: left.pop(row.type, None) if name == "formula" else getattr(row, name) for name in SHOWN},
            }
            for row in self.rows
        ]

    def about(self) -> dict[str, Any]:
        """The fields that identify the run."""
        names = ("scenario", "protocol", "seed", "outcome", "fidelity")
        return {**{name: getattr(self, name) for name in names}, "folder": str(self.folder)}

    def frame(self) -> Any:
        """`lines` as a pandas DataFrame. Raises ImportError without pandas."""
        return data_frame(self.lines())


def why_without_formula(folder: Path) -> str:
    """The reason why the run in `folder` has no payloads by formula, in one line."""
    if problem := withheld(folder):
        return problem
    try:
        result = read_result(folder)
    except (OSError, FolderError):
        return "the run has no result"
    if result.outcome != "completed":
        return f"formulas are of runs that complete, and this one is {result.outcome}"
    if result.lost:
        lost = list(dict.fromkeys(loss.party for loss in result.lost))
        named = lost[0] if len(lost) == 1 else f"{len(lost)} parties"
        return f"formulas are of runs that lose nobody, and this one lost {named}"
    return "the protocol declares none"


def counted(folder: Path, values: tuple[tuple[str, str], ...] = ()) -> Counted:
    """The messages and bytes that the run in `folder` sent. Raises FolderError."""
    rows, scenario = byte_rows(folder), scenario_of(folder)
    fields: Mapping[str, Any] = {}
    with suppress(OSError, FolderError):  # no result, or that of another version: the bytes are known nevertheless
        result = read_result(folder)
        fields = {name: getattr(result, name) for name in ("scenario", "seed", "outcome", "fidelity")}
    return Counted(
        folder=folder,
        values=values,
        scenario=fields.get("scenario", ""),
        protocol="" if scenario is None else scenario.protocol.name,
        seed=fields.get("seed"),
        outcome=fields.get("outcome", ""),
        fidelity=fields.get("fidelity", ""),
        rows=rows,
        formula=predicted(folder, dict.fromkeys(row.type for row in rows)),
    )
