"""The CSV files that a [[client]] table names: devices and uptimes."""

import csv
import math
from pathlib import Path
from typing import Any

import msgspec

from tacit.parties.fleet.keys import ClientKeys
from tacit.sim.units import duration

__all__ = ["devices_file", "uptimes_file"]

_COLUMNS = tuple(name for name in ClientKeys.__struct_fields__ if name not in ("file", "availability"))
_NUMBERS = {"share": float, "loss": float, "cores": int, "speed": float}
_UPTIMES = ["up", "down"]


def devices_file(path: str) -> list[tuple[int, dict[str, Any]]]:
    """The lines of the CSV of devices at `path`: the number of each line in the file, and the values of its keys.

    `share` is a weight above 0. Raises ValueError with file, line and column.
    """
    lines = []
    header, *rows = _rows(path)
    names = [cell.strip() for cell in header[1]]
    for name in names:
        if name not in _COLUMNS or names.count(name) > 1:
            problem = "is there twice" if name in _COLUMNS else "is no column"
            raise ValueError(f"{path}: line {header[0]}: {name!r} {problem}; allowed: {', '.join(_COLUMNS)}")
    for number, cells in rows:
        if len(cells) != len(names):
            raise ValueError(f"{path}: line {number}: {len(cells)} cells; {len(names)} are needed: {', '.join(names)}")
        found: dict[str, Any] = {}
        for name, cell in zip(names, cells, strict=True):
            if text := cell.strip():
                found[name] = _value(name, text, f"{path}: line {number}, column {name}")
        lines.append((number, found))
    if not lines:
        raise ValueError(f"{path}: no line follows the header; a line for each kind of device")
    return lines


def _value(name: str, text: str, where: str) -> Any:
    """Convert a cell to the value of its key."""
    value: Any = text
    if name in _NUMBERS:
        try:
            value = _NUMBERS[name](text)
        except ValueError:
            if name != "speed":
                raise ValueError(f"{where}: {text!r} is not a number") from None
    if name == "share":
        if not 0 < value < math.inf:
            raise ValueError(f"{where}: {text} is not a number above 0")
        return value
    try:
        msgspec.convert({name: value}, ClientKeys)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {text!r}: {str(error).partition(' - at')[0]}") from None
    return value


def uptimes_file(path: str) -> list[list[tuple[float, float]]]:
    """The availability traces in the CSV at `path`: the intervals of each trace, in seconds, in order.

    The columns are up and down, in seconds or as durations; or trace, up and down for several named traces. An empty
    down time, or ``inf``, means never. Raises ValueError with file and line.
    """
    header, *rows = _rows(path)
    names = [cell.strip() for cell in header[1]]
    if names not in (_UPTIMES, ["trace", *_UPTIMES]):
        shown = ",".join(header[1])
        raise ValueError(f"{path}: line {header[0]}: the header must be up,down or trace,up,down, not {shown!r}")
    found: dict[str, list[tuple[float, float]]] = {}
    for number, cells in rows:
        *name, up_text, down_text = [cell.strip() for cell in cells] if len(cells) == len(names) else ["", "", ""]
        try:
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells; {','.join(names)} are needed")
            up, down = duration(up_text), math.inf if down_text in ("", "inf") else duration(down_text)
        except ValueError as error:
            raise ValueError(f"{path}: line {number}: {error}") from None
        trace = found.setdefault("".join(name), [])
        if not up < down or (trace and up < trace[-1][1]):
            raise ValueError(f"{path}: line {number}: up from {up:g} s to {down:g} s; each interval is after the last")
        trace.append((up, down))
    if not found:
        example = "0,30" if names == _UPTIMES else "a,0,30"
        raise ValueError(f"{path}: no line follows the header; a line for each time that they are up: {example}")
    return list(found.values())


def _rows(path: str) -> list[tuple[int, list[str]]]:
    """The non-empty lines of the CSV at `path`, numbered from 1; at least one."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, cells) for cells in reader if cells]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None
    if not rows:
        raise ValueError(f"{path}: it is empty; the first line names the columns")
    return rows
