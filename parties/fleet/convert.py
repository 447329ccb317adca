"""Converts published device and availability traces to the CSV files that a [[client]] table names."""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.parties.fleet.published import Row, Trace, with_classes
from tacit.sim.streams import generator
from tacit.sim.units import duration

__all__ = ["availability_lines", "device_lines", "write_lines"]

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
