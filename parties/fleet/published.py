"""Published device and availability traces: read from files that the user provides, and converted to CSV files.

FedScale (Lai et al., "FedScale: Benchmarking Model and System Performance of Federated Learning at Scale", ICML 2022;
`benchmark/dataset/data/device_info/README.md` of its repository): two pickled dictionaries by client, of capacities
(`computation`: ms of inference a sample, `communication`: kbit/s) and of availability (`active`, `inactive`,
`finish_time`: seconds; read in `fedscale/cloud/internal/client_metadata.py`). FLASH (Yang et al., "Characterizing
Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone Data", WWW 2021; `models/timer.py`,
`models/device.py`): `state_traces.json` with the state changes of phones, and `speed_distri.json` with the rates of
their networks in kB/s. Ookla (Speedtest open data, Global Fixed and Mobile Network Performance Map Tiles; `README.md`
of `teamookla/ookla-open-data`): a table of tiles, as CSV or Parquet.

A pickle may contain code. This reader refuses every class and function except numpy numbers and bytes, which functions
of this module construct.
"""

import csv
import json
import math
import pickle
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tacit.sim.streams import generator
from tacit.sim.units import duration

__all__ = [
    "FLASH_ZERO",
    "Row",
    "Trace",
    "availability_lines",
    "device_lines",
    "fedscale_file",
    "flash_file",
    "ookla_file",
    "plain_pickle",
    "with_classes",
    "write_lines",
]


CLASSES = {1: ("all",), 2: ("fast", "slow"), 3: ("fast", "middle", "slow")}
"""The names of device classes by the number of classes; more than three are numbered, 1 being the fastest."""


@dataclass(frozen=True, slots=True)
class Row:
    """A device: bytes a second `up` and `down`, one-way `latency` in seconds, `delay` of a unit of computing.

    `delay` is in any unit, the same for all devices of a file: only ratios count. None means that the source has no
    such value. `weight`: the number of devices that the row stands for.
    """

    up: float | None = None
    down: float | None = None
    latency: float | None = None
    delay: float | None = None
    weight: float = 1.0
    device_class: str = ""


@dataclass(frozen=True)
class Trace:
    """The uptimes of a device: intervals in seconds, in order, within a `period` after which they repeat.

    `begin`: the time of the source, in seconds, at which a period begins. Repetition also goes back before it.
    """

    intervals: tuple[tuple[float, float], ...]
    period: float
    begin: float = 0.0

    def window(self, start: float, length: float) -> list[tuple[float, float]]:
        """The intervals during `length` seconds from the source's time `start` on, in seconds from `start`.

        Adjacent intervals are joined.
        """
        found: list[tuple[float, float]] = []
        start -= self.begin
        shift = math.floor(start / self.period) * self.period - start
        while shift < length:
            for up, down in self.intervals:
                low, high = max(up + shift, 0.0), min(down + shift, length)
                if low >= high:
                    continue
                if found and low <= found[-1][1]:
                    found[-1] = (found[-1][0], max(high, found[-1][1]))
                else:
                    found.append((low, high))
            shift += self.period
        return found


# FedScale


def fedscale_file(path: Path) -> list[Row] | list[Trace]:
    """The devices or the availability traces in the pickle at `path`, depending on its content.

    Raises ValueError with the file, the client, the field and the value.
    """
    table = plain_pickle(path)
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{path}: it holds no table of clients; FedScale's files are dictionaries by client")
    client, first = next(iter(table.items()))
    if isinstance(first, dict) and "computation" in first:
        return [_capacity(f"{path}: client {client}", one) for client, one in table.items()]
    if isinstance(first, dict) and "active" in first:
        traces = [_availability(f"{path}: client {client}", one) for client, one in table.items()]
        if found := [trace for trace in traces if trace is not None]:
            return found
        raise ValueError(f"{path}: no client is ever active")
    raise ValueError(
        f"{path}: client {client}: it has neither computation and communication (client_device_capacity) nor active, "
        "inactive and finish_time (client_behave_trace)"
    )


def _capacity(where: str, entry: Any) -> Row:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: {entry!r} is no table with computation and communication")
    rate = _positive(where, "communication", entry.get("communication")) * 1000 / 8
    return Row(up=rate, down=rate, delay=_positive(where, "computation", entry.get("computation")))


def _availability(where: str, entry: Any) -> Trace | None:
    """The trace of a client; None if it is never active."""
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: {entry!r} is no table with active, inactive and finish_time")
    period = _positive(where, "finish_time", entry.get("finish_time"))
    begins, ends = (_times(where, name, entry.get(name)) for name in ("active", "inactive"))
    if len(begins) == len(ends) + 1:  # active until the trace ends
        ends = [*ends, period]
    if len(begins) != len(ends):
        raise ValueError(f"{where}: active has {len(begins)} times and inactive {len(ends)}; each active needs its end")
    intervals: list[tuple[float, float]] = []
    before = 0.0
    for place, (up, down) in enumerate(zip(begins, ends, strict=True)):
        if not before <= up <= down:
            problem = "each interval must end after it begins, and begin after the one before"
            raise ValueError(f"{where}: active[{place}] is {up:g} and inactive[{place}] {down:g}; {problem}")
        before = up
        if intervals and up <= intervals[-1][1]:
            up, down = intervals[-1][0], max(intervals.pop()[1], down)
        if up < min(down, period):
            intervals.append((up, min(down, period)))
    return Trace(tuple(intervals), period) if intervals else None


def _times(where: str, name: str, value: Any) -> list[float]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where}: {name} is {value!r}; a list of seconds is needed")
    return [_number(where, f"{name}[{place}]", one, least=0.0) for place, one in enumerate(value)]


def _positive(where: str, name: str, value: Any) -> float:
    found = _number(where, name, value, least=0.0)
    if found == 0:
        raise ValueError(f"{where}: {name} is {value!r}; a number above 0 is needed")
    return found


def _number(where: str, name: str, value: Any, least: float = -math.inf) -> float:
    if value is None:
        raise ValueError(f"{where}: {name} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        allowed = "number" if least == -math.inf else f"number from {least:g} on"
        raise ValueError(f"{where}: {name} is {value!r}; a {allowed} is needed")
    return float(value)


# Pickles


class _NumberType:
    """A stand-in for a numpy dtype: the type of one number, whose bytes `read` converts to a float or an int."""

    def __init__(self, code: str, *_: object) -> None:
        if code not in _FORMATS:
            raise _Refused(f"it contains values of numpy's type {code!r}; only numbers are read")
        self._format, self._order = _FORMATS[code], "<"

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._order = ">" if state[1] == ">" else "<"

    def read(self, content: bytes) -> float:
        return float(struct.unpack(self._order + self._format, content)[0])


_FORMATS = {
    "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip


def _scalar(kind: _NumberType, content: bytes | str) -> float:
    """Construct the numpy number of this `kind`; in pickles of Python 2 the `content` is text."""
    if isinstance(content, str):
        content = _encoded(content)
    if not isinstance(kind, _NumberType) or not isinstance(content, bytes):
        raise _Refused("it contains a damaged number of numpy")
    return kind.read(content)


def _encoded(text: str = "", *_: object) -> bytes:
    """The bytes that the first pickle protocols write as `text`."""
    return text.encode("latin-1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _NumberType,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("collections", "OrderedDict"): dict,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _encoded,
}


def _check_size(path: Path) -> None:
    """Raise ValueError if there is no file at `path`, or an empty one."""
    try:
        if not path.stat().st_size:
            raise ValueError(f"{path}: it is empty")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


class _Refused(Exception):
    """A pickle asks for a class or function that is not allowed; the message names it."""


class _Unpickler(pickle.Unpickler):
    """Reads dictionaries, lists, tuples, sets, texts, bytes, numbers and None; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for `name` of `module`. Raises _Refused for everything but numpy numbers and bytes."""
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise _Refused(
                f"it asks for {module}.{name}, which may run code; allowed: dictionaries, lists, texts and numbers"
            ) from None


def plain_pickle(path: Path) -> Any:
    """The content of the pickle at `path`, made of plain containers, texts and numbers; no code in it is run.

    Raises ValueError for everything else, and for files that are empty, damaged or no pickles.
    """
    _check_size(path)
    try:
        with path.open("rb") as file:
            return _Unpickler(file, encoding="latin-1").load()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except _Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except Exception as error:  # damaged pickles raise almost anything
        raise ValueError(f"{path}: it is no pickle, or a damaged one ({type(error).__name__})") from None


# FLASH


FLASH_ZERO = datetime(2020, 1, 2)
"""Time 0 of FLASH (`refer_time` in `models/timer.py`)."""

_NETWORKS = ("2g", "3g", "4g", "5g", "unknown")
_DATE = "%Y-%m-%d %H:%M:%S"


@dataclass
class _Phone:
    """The state of a phone by FLASH's messages: it may train while it is locked, charging and on Wi-Fi."""

    locked: bool = False
    wifi: bool = False
    charges: bool = False
    since: float | None = None
    intervals: list[tuple[float, float]] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        return self.locked and self.wifi and self.charges

    def take(self, state: str, time: float) -> bool:
        """Enter `state`, which begins at `time`; return false for an unknown state."""
        if state in ("battery_charged_on", "battery_charged_off"):
            self.charges = state.endswith("on")
        elif state == "wifi" or state in _NETWORKS:
            self.wifi = state == "wifi"
        elif state in ("screen_lock", "screen_unlock"):
            self.locked = state == "screen_lock"
        elif state not in ("screen_on", "screen_off") and not state.endswith("%"):
            return False
        if self.is_ready and self.since is None:
            self.since = time
        elif not self.is_ready and self.since is not None:
            if self.since < time:
                self.intervals.append((self.since, time))
            self.since = None
        return True


def flash_file(path: Path, leave_out: Callable[[str], None] = lambda problem: None) -> list[Row] | list[Trace]:
    """The traces in a ``state_traces.json``, or the devices in a ``speed_distri.json``, whichever is at `path`.

    A phone is up while its screen is locked, it charges and it is on Wi-Fi, as in FLASH. Phones that are never ready
    are left out. So are phones with a line that FLASH could not read either; `leave_out` is called with the problem of
    each. Traces begin with the first message, in seconds from `FLASH_ZERO`. Raises ValueError with the file, the
    device, the line of its messages and the value.
    """
    table = _json(path)
    if not isinstance(table, dict) or not table or not all(isinstance(one, dict) for one in table.values()):
        raise ValueError(f"{path}: it holds no table of devices; FLASH's files are objects by device")
    name, first = next(iter(table.items()))
    if "messages" in first:
        found, problems = [], list[str]()
        for name, one in table.items():
            messages = one.get("messages")
            if not isinstance(messages, str):
                raise ValueError(f"{path}: device {name}: messages is {messages!r}; lines of text are needed")
            try:
                trace = _phone_trace(f"{path}: device {name}", messages)
            except ValueError as error:
                problems.append(str(error))
            else:
                found += [] if trace is None else [trace]
        if not found:
            nobody = f"{path}: no device is ever locked, charging and on Wi-Fi at the same time"
            raise ValueError(problems[0] if problems else nobody)
        for problem in problems:
            leave_out(problem)
        return found
    if "down_u" in first:
        return [
            Row(
                up=1000 * _positive(f"{path}: device {name}", "up_u", one.get("up_u")),
                down=1000 * _positive(f"{path}: device {name}", "down_u", one.get("down_u")),
            )
            for name, one in table.items()
        ]
    raise ValueError(
        f"{path}: device {name}: it has neither messages (state_traces.json) nor down_u (speed_distri.json)"
    )


def _phone_trace(where: str, messages: str) -> Trace | None:
    """The trace in a phone's messages, lines of a time, a tab and a state; None if the phone is never ready.

    An interval counts from the message that begins it to the message that ends it. FLASH drops one that has no end.
    """
    phone, first, time = _Phone(), None, 0.0
    for number, line in enumerate(messages.split("\n"), 1):
        if not (text := line.strip()):
            continue
        at, tab, state = text.partition("\t")
        try:
            moment = (datetime.strptime(at.strip(), _DATE) - FLASH_ZERO).total_seconds()
        except ValueError:
            tab = ""
        if not tab:
            form = "a time such as 2020-01-02 00:00:00, a tab and a state"
            raise ValueError(f"{where}: line {number} of its messages is {text!r}; {form} are needed")
        first = moment if first is None else first
        if moment - first < time:
            raise ValueError(f"{where}: line {number} of its messages: {at} is before the line above")
        time = moment - first
        if not phone.take(state.strip().lower(), time):
            known = "battery_charged_on, battery_charged_off, screen_lock, screen_unlock, screen_on, screen_off, wifi"
            raise ValueError(
                f"{where}: line {number} of its messages: {state.strip()!r} is no state; allowed: {known}, "
                f"{', '.join(_NETWORKS)}, or a battery level such as 80.0%"
            )
    return Trace(tuple(phone.intervals), time, first or 0.0) if phone.intervals else None


def _json(path: Path) -> Any:
    _check_size(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno}, column {error.colno}: it is no JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: it is no JSON ({type(error).__name__})") from None


# Ookla


_TILE = ("avg_d_kbps", "avg_u_kbps", "avg_lat_ms", "devices")


def ookla_file(path: Path, quadkey: str = "") -> list[Row]:
    """The tiles at `path`, a CSV or Parquet file, as devices; the weight is the number of devices measured in the tile.

    Only tiles whose quadkey begins with `quadkey`. The one-way latency is half of the latency in the file, a round
    trip. Tiles with a rate of 0 are left out. Raises ValueError with the file, line (of Parquet the row, from 1),
    column and value.
    """
    _check_size(path)
    rows = []
    for where, tile in _parquet(path) if path.suffix == ".parquet" else _tiles(path):
        if quadkey and "quadkey" not in tile:
            raise ValueError(f"{path}: the column quadkey is missing, which --quadkey needs")
        if quadkey and not str(tile["quadkey"]).startswith(quadkey):
            continue
        down, up, latency, devices = (_number(where, name, _cell(tile[name]), least=0.0) for name in _TILE)
        if down > 0 and up > 0 and devices > 0:
            rows.append(Row(up * 125, down * 125, latency / 2000, weight=devices))
    if not rows:
        tiles = f"tiles whose quadkey begins with {quadkey}" if quadkey else "tiles with devices"
        raise ValueError(f"{path}: there are no {tiles}")
    return rows


def _cell(value: Any) -> Any:
    """The number in a cell; its text if it is no number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _tiles(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _check_columns(f"{path}: line 1", reader.fieldnames or ())
            for tile in reader:
                where = f"{path}: line {reader.line_num}"
                if missing := [name for name in (*_TILE, "quadkey") if tile.get(name, "") is None]:
                    raise ValueError(f"{where}: it has no cell for {missing[0]}")
                yield where, tile
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: it is no CSV file in UTF-8: {error}; allowed: CSV, or .parquet") from None


def _parquet(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    number = 0
    try:
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_columns(str(path), names)
            for batch in file.iter_batches(columns=[name for name in (*_TILE, "quadkey") if name in names]):
                for tile in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", tile
    except ImportError:
        need = "Parquet needs pyarrow: pip install 'tacit-fl[parquet]'; or export the columns to CSV"
        raise ValueError(f"{path}: {need}: {', '.join((*_TILE, 'quadkey'))}") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except Exception as error:
        if not type(error).__module__.startswith("pyarrow"):
            raise
        raise ValueError(f"{path}: it is no Parquet file: {' '.join(str(error).split())}") from None


def _check_columns(where: str, names: Sequence[str]) -> None:
    if missing := [name for name in _TILE if name not in names]:
        raise ValueError(f"{where}: the column {missing[0]} is missing; needed: {', '.join(_TILE)}, and quadkey")


# Classes


def with_classes(rows: Sequence[Row], count: int) -> list[Row]:
    """Return `rows` from fast to slow, divided into `count` classes of equal weight and labeled with their class.

    Devices compare by their `delay` or, without one, by their downlink.
    """
    if count < 1:
        raise ValueError(f"count(={count}) must be >= 1.")
    ordered = sorted(rows, key=lambda row: -row.down if row.delay is None and row.down else row.delay or 0.0)
    names = CLASSES.get(count) or tuple(f"class {number} of {count}" for number in range(1, count + 1))
    whole = sum(row.weight for row in ordered)
    edges = [whole * (place + 1) / count for place in range(count - 1)]
    found, before = [], 0.0
    for row in ordered:
        name = names[bisect_right(edges, before + row.weight / 2)]
        found.append(Row(row.up, row.down, row.latency, row.delay, row.weight, name))
        before += row.weight
    return found


# --- the CSV files that a [[client]] table names, made from a trace

Lines = list[list[str]]


def device_lines(rows: Sequence[Row], most: int, classes: int, median_speed: float, seed: int) -> Lines:
    """The header and lines of a CSV of devices, at most `most` lines, drawn by `seed` in proportion to the weights.

    The median device gets `median_speed` (above 0) as its speed, the others in proportion to their delays. The classes
    are those of all `rows`.
    """
    ordered = with_classes(rows, classes)
    timed = [row for row in ordered if row.delay is not None]
    middle = _median(timed) if timed else 1.0
    weights = [row.weight for row in ordered]
    if len(ordered) > most:
        stream = generator(seed, "devices")
        if min(weights) == max(weights):
            drawn = stream.choice(len(ordered), most, replace=False)
        else:
            drawn = stream.choice(len(ordered), most, p=np.array(weights) / sum(weights))
        counts = Counter(drawn.tolist())
        ordered, weights = [ordered[place] for place in sorted(counts)], [counts[place] for place in sorted(counts)]
    columns = {
        "share": [f"{weight:g}" for weight in weights],
        "device_class": [row.device_class for row in ordered],
        "latency": ["" if row.latency is None else f"{1000 * row.latency:.6g}ms" for row in ordered],
        "up": [_rate(row.up) for row in ordered],
        "down": [_rate(row.down) for row in ordered],
        "speed": ["" if row.delay is None else f"{median_speed * middle / row.delay:.6g}" for row in ordered],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    return [list(used), *map(list, zip(*used.values(), strict=True))]


def _median(ordered: Sequence[Row]) -> float:
    """The weighted median of the delays."""
    left = sum(row.weight for row in ordered) / 2
    for row in ordered:
        left -= row.weight
        if left <= 0:
            return row.delay or 1.0
    return ordered[-1].delay or 1.0


def _rate(bytes_per_second: float | None) -> str:
    return "" if bytes_per_second is None else f"{bytes_per_second / 125:.6g}kbit/s"


def availability_lines(traces: Sequence[Trace], most: int, start: str, length: str, seed: int) -> Lines:
    """The header and lines of a CSV of uptimes, of at most `most` traces, drawn by `seed`.

    Time 0 of the file is `start` in the traces. Each trace is written for `length` seconds, by default the length of
    the longest one; shorter ones repeat. For a device that is not up in that time, the file has its next uptime. Raises
    ValueError.
    """
    if len(traces) > most:
        chosen = np.sort(generator(seed, "availability").choice(len(traces), most, replace=False))
        traces = [traces[place] for place in chosen]
    begin = _duration("--start", start)
    seconds = _duration("--length", length) if length else max(trace.period for trace in traces)
    if not seconds > 0:
        raise ValueError(f"--length: {length} is no time; a duration above 0 is needed, such as 48h")
    lines = [
        [str(number), f"{up:.15g}", f"{down:.15g}"]
        for number, trace in enumerate(traces)
        for up, down in trace.window(begin, seconds) or trace.window(begin, seconds + 2 * trace.period)[:1]
    ]
    return [["trace", "up", "down"], *lines]


def _duration(option: str, text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def write_lines(path: Path, lines: Lines) -> Path:
    """Write `lines` to a new CSV file at `path`, with its folder; return `path`. Raises ValueError if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    except FileExistsError:
        raise ValueError(f"{path}: exists already; name another folder by --out") from None
    return path
