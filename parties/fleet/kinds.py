"""Kinds of clients, read from the values of their keys and from CSV files of devices and uptimes."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tacit.parties.fleet.energy import Processor, Radio, parse_processor, parse_radio
from tacit.parties.fleet.keys import ClientKeys
from tacit.sim.latency import Latency, parse_latency
from tacit.sim.units import rate, seconds_or_duration

__all__ = ["Amount", "Kind", "devices_file", "kind_of", "uptimes_file"]


@dataclass(frozen=True)
class Amount:
    """A number above 0 that all clients of a kind share (`value`), or that each draws (`draw`). `text`: as written."""

    text: str
    value: float = 0.0
    draw: Callable[[np.random.Generator], float] | None = None


@dataclass(frozen=True)
class Kind:
    """The properties of a kind of clients: rates in bytes a second, infinity if unlimited, and its `latency` and
    `loss`.

    `availability`: the file of the clients' uptimes, "" if they are always up. `device_class`: the name of their class.
    `radio` and `processor`: None if their energy is not counted.
    """

    up: Amount
    down: Amount
    cores: int
    speed: Amount
    latency: Latency | None = None
    loss: float | None = None
    availability: str = ""
    device_class: str = ""
    radio: Radio | None = None
    processor: Processor | None = None

    @property
    def is_drawn(self) -> bool:
        """True if a property is drawn, so that clients of the kind differ."""
        return any(one.draw is not None for one in (self.up, self.down, self.speed))


def kind_of(values: Mapping[str, Any]) -> Kind:
    """The kind with these values of keys, which must include up, down, cores and speed. Raises ValueError."""
    latency = values.get("latency")
    return Kind(
        parse_amount(values["up"], rate),
        parse_amount(values["down"], rate),
        values["cores"],
        parse_amount(values["speed"], _factor),
        None if latency is None else parse_latency(latency),
        values.get("loss"),
        values.get("availability", ""),
        values.get("device_class", ""),
        parse_radio(values.get("radio") or ""),
        parse_processor(values.get("processor") or ""),
    )


def parse_amount(value: str | float, read: Callable[[Any], float]) -> Amount:
    """Parse the amount in `value`, using `read` for its numbers. Raises ValueError in one line."""
    text = str(value)
    kind, colon, rest = text.partition(":")
    if not colon:
        return Amount(text, read(value))
    parts = [part.strip() for part in rest.split(",")]
    if kind not in ("lognormal", "uniform") or len(parts) != 2:
        raise ValueError(f'"{text}" is no distribution; allowed: lognormal:MEDIAN,SIGMA, uniform:LOW,HIGH')
    if kind == "lognormal":
        median, sigma = read(parts[0]), _sigma(parts[1])
        if math.isinf(median):
            raise ValueError(f'"{text}": the median must be finite')
        return Amount(text, draw=lambda stream: stream.lognormal(math.log(median), sigma))
    low, high = map(read, parts)
    if not low <= high < math.inf:
        raise ValueError(f'"{text}": the low end must not lie above the high end, which is finite')
    return Amount(text, draw=lambda stream: stream.uniform(low, high))


def _factor(value: str | float) -> float:
    """Parse a number above 0. Raises ValueError."""
    try:
        factor = float(value)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise ValueError(f'"{value}" is not a number above 0; allowed: 0.5, lognormal:1,0.5, uniform:0.5,2')
    return factor


def _sigma(text: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not 0 <= sigma <= 10:
        raise ValueError(f"sigma is {text!r}; allowed: a number from 0 to 10")
    return sigma


# --- the CSV files that a [[client]] table names: devices and uptimes

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
            up = seconds_or_duration(up_text)
            down = math.inf if down_text in ("", "inf") else seconds_or_duration(down_text)
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
