"""The times in which parties are up, and the files of availability traces that list them."""

import csv
import math
from pathlib import Path

from tacit.sim.units import seconds_or_duration

__all__ = ["Uptimes", "availability_file"]

_COLUMNS = ["party", "up", "down"]


class Uptimes:
    """The intervals [up, down) in seconds in which each party is up, in order and disjoint."""

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[float, float]]] = {}

    def add(self, party: str, up: float, down: float) -> None:
        """Add an interval. Raises ValueError if it is empty or overlaps."""
        own = self.of.setdefault(party, [])
        if not 0 <= up < down:
            raise ValueError(f"{party} cannot be up from {up:g} s to {down:g} s; 0 <= up < down is needed")
        if own and up < own[-1][1]:
            raise ValueError(f"{party} comes up at {up:g} s, but it is up until {own[-1][1]:g} s already")
        own.append((up, down))


def availability_file(path: str | Path) -> list[tuple[str, float, float]]:
    """The rows of the CSV at `path` with the header ``party,up,down``, for `availability`.

    Times are seconds, or text such as ``2min``; an empty down time means never. Raises ValueError with file, line and
    column.
    """
    rows = []
    uptimes = Uptimes()
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            if (header := next(lines, [])) != _COLUMNS:
                raise ValueError(f"line 1: the header must be party,up,down, not {','.join(header)!r}")
            for cells in lines:
                if cells:
                    row = _row(cells, f"line {lines.line_num}")
                    rows.append(row)
                    try:
                        uptimes.add(*row)
                    except ValueError as error:
                        raise ValueError(f"line {lines.line_num}: {error}") from None
            if not rows:
                raise ValueError("no line follows the header; a line for each time a party is up: client/1,0,30")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None
    return rows


def _row(cells: list[str], line: str) -> tuple[str, float, float]:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"{line}: {len(cells)} cells; party,up,down are needed")
    times = []
    for column, cell in zip(_COLUMNS[1:], cells[1:], strict=True):
        try:
            times.append(math.inf if column == "down" and cell.strip() in ("", "inf") else seconds_or_duration(cell))
        except ValueError as error:
            raise ValueError(f"{line}, column {column}: {error}") from None
    if not (party := cells[0].strip()):
        raise ValueError(f"{line}, column party: a name is needed")
    return party, times[0], times[1]
