"""Latency distributions of messages, drawn from a random stream of each link.

Written as ``5ms``, ``normal:MEAN,DEVIATION``, ``lognormal:MEDIAN,SIGMA``, ``uniform:LOW,HIGH`` or ``csv:FILE``. Times
have a unit. A file has one column of times, or columns with names, of which one is ``latency``; ``latency_ms`` (or
another unit) is one of numbers without a unit.
"""

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from tacit.sim.units import DURATIONS, duration

__all__ = ["Latency", "added", "parse_latency", "uniforms"]

_FIRST = 8
_BATCH = 256  # draws at a time; a call of numpy's generator costs as much as a whole batch
_ALLOWED = "allowed: 40ms, normal:40ms,5ms, lognormal:40ms,0.3 (median, sigma), uniform:10ms,50ms, csv:FILE"

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Latency:
    """A distribution of one-way delays in seconds; draws are >= 0 and do not depend on the batch size.

    `seconds` is the constant delay; None if delays vary.
    """

    text: str
    draw: Draw
    seconds: float | None = None

    def stream(self, make: Callable[[], np.random.Generator]) -> Iterator[float]:
        """Yield endless delays in seconds from the generator that `make` makes, equal for each call."""
        return _Draws(make, self.draw)

    def early(self, make: Callable[[], np.random.Generator], number: int) -> float | None:
        """The delay of this `number`, from 0, of that stream, without a stream; None if it is not among the first few.

        Many links carry a packet or two and are let go.
        """
        return float(self.draw(make(), _FIRST)[number]) if number < _FIRST else None


def added(first: Latency, second: Latency) -> Latency:
    """The latency of a path of two links: the sum of both, drawn one batch after the other."""
    seconds = None if first.seconds is None or second.seconds is None else first.seconds + second.seconds
    return Latency(f"{first.text} + {second.text}", lambda rng, n: first.draw(rng, n) + second.draw(rng, n), seconds)


def uniforms(make: Callable[[], np.random.Generator]) -> Iterator[float]:
    """Yield endless uniform draws from [0, 1) from the generator that `make` makes, equal for each call."""
    return _Draws(make, lambda generator, count: generator.random(count))


class _Draws(Iterator[float]):
    """An iterator over draws of `draw` from the generator that `make` makes.

    The first few keep no generator in memory, because many links carry only a few packets.
    """

    __slots__ = ("_at", "_draw", "_few", "_make", "_others")

    def __init__(self, make: Callable[[], np.random.Generator], draw: Draw) -> None:
        self._make, self._draw = make, draw
        self._at = 0
        self._few: bytes | None = None  # half of what a list of floats takes
        self._others: Iterator[float] | None = None

    def __next__(self) -> float:
        if self._others is not None:
            return next(self._others)
        if self._few is None:
            self._few = self._draw(self._make(), _FIRST).tobytes()
        at = self._at
        if at < _FIRST:
            self._at = at + 1
            found: float = _FLOAT.unpack_from(self._few, _FLOAT.size * at)[0]
            return found
        self._few, self._others = b"", _rest(self._make, self._draw)
        return next(self._others)


_FLOAT = Struct("d")


def _rest(make: Callable[[], np.random.Generator], draw: Draw) -> Iterator[float]:
    """Yield the draws after the first few."""
    generator = make()
    draw(generator, _FIRST)
    while True:
        yield from draw(generator, _BATCH).data  # a list of floats would take four times the memory


def _constant(text: str) -> Draw:
    seconds = duration(text)
    return lambda rng, count: np.full(count, seconds)


def _normal(text: str) -> Draw:
    mean, deviation = (duration(part) for part in _parts(text, 2))
    return lambda rng, count: np.maximum(rng.normal(mean, deviation, count), 0.0)


def _lognormal(text: str) -> Draw:
    median_text, sigma_text = _parts(text, 2)
    median, sigma = duration(median_text), float(sigma_text)
    if not (median > 0 and 0 <= sigma <= 10):
        raise ValueError("the median must be > 0 and sigma a number from 0 to 10")
    mean = math.log(median)
    return lambda rng, count: rng.lognormal(mean, sigma, count)


def _uniform(text: str) -> Draw:
    low, high = (duration(part) for part in _parts(text, 2))
    if low > high:
        raise ValueError("the low end must not lie above the high end")
    return lambda rng, count: rng.uniform(low, high, count)


def _csv(text: str) -> Draw:
    path = Path(text)
    try:
        with path.open(newline="") as file:
            samples = np.array(_samples([row for row in csv.reader(file) if any(map(str.strip, row))]))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None
    if not len(samples):
        raise ValueError(f"{path}: no delays in it; write one a line, such as 40ms")
    return lambda rng, count: rng.choice(samples, count)


def _samples(rows: list[list[str]]) -> list[float]:
    """The seconds in the rows of a file: one column, or the one that the first row calls ``latency``, or
    ``latency_ms`` (or another unit) if its numbers have no unit."""
    if not rows:
        return []
    head = [cell.strip() for cell in rows[0]]
    found = [(at, _UNITS[name]) for at, name in enumerate(head) if name in _UNITS]
    if len(found) > 1:
        raise ValueError(f"two columns are latencies: {', '.join(head[at] for at, _ in found)}; keep one")
    if not found and len(head) > 1:
        raise ValueError(
            f"its columns are {', '.join(head)}; the first line must call one of them latency or latency_ms"
        )
    (at, unit), first = (found[0], 1) if found else ((0, ""), 0)
    if strange := next((row for row in rows if len(row) != len(head)), None):
        raise ValueError(f"the line {','.join(strange)!r} has {len(strange)} columns, the first one {len(head)}")
    return [duration(f"{row[at].strip()}{unit}") for row in rows[first:]]


_UNITS = {"latency": "", **{f"latency_{unit}": unit for unit in DURATIONS}}
"""The names of the column of latencies, each with the unit of its numbers if these have none."""


def _parts(text: str, count: int) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != count:
        raise ValueError(f"{count} values separated by a comma are needed")
    return parts


_KINDS: dict[str, Callable[[str], Draw]] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "uniform": _uniform,
    "csv": _csv,
}


def parse_latency(text: str) -> Latency:
    """The distribution that `text` names. Raises ValueError, in one line, for an unknown one."""
    kind, colon, rest = text.partition(":")
    try:
        make = _KINDS[kind.strip()] if colon else _constant
        draw = make(rest if colon else text)
    except KeyError:
        raise ValueError(f"{text!r} is no latency; {_ALLOWED}") from None
    except ValueError as error:
        problem = " ".join(str(error).split())
        if colon and make is _csv:
            raise ValueError(f"{text!r} names no delays: {problem}") from None
        raise ValueError(f"{text!r} is no latency: {problem}; {_ALLOWED}") from None
    return Latency(text, draw, None if colon else duration(text))
