"""Parsing and formatting of durations, rates and byte counts.

Inside the simulator a duration is a float of seconds and a rate a float of bytes per second.
"""

import math
import re

__all__ = [
    "DURATIONS", "DURATION_PATTERN", "RATE_PATTERN", "Duration", "duration", "format_bytes", "format_duration",
    "format_joules", "rate", "seconds_or_duration",
]  # fmt: skip

Duration = str | float
"""Text such as ``40ms`` or a number of seconds; `duration` parses it."""

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
DURATIONS = tuple(_SECONDS)
"""The units of durations."""
_BYTES_PER_SECOND = {
    "bit/s": 1 / 8, "kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8,
    "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([^\s0-9].*?)?\s*")

_NUMBER = r"([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+)"
_NOTHING = r"(0+(\.0*)?([eE][+-]?[0-9]+)?|\.0+)"
_ZERO = re.compile(_NOTHING)
DURATION_PATTERN = rf"\s*({_NOTHING}|{_NUMBER}\s*({'|'.join(_SECONDS)}))\s*"
"""A regular expression, without anchors, of the texts that `duration` accepts, regardless of their size."""
RATE_PATTERN = rf"\s*(unlimited|{_NUMBER}\s*({'|'.join(_BYTES_PER_SECOND)}))\s*"
"""A regular expression, without anchors, of the texts that `rate` accepts, regardless of their size."""

_LONGEST = 1e30  # seconds; sums of far more of them than there can be stay finite

_DURATION_ALLOWED = 'a number of seconds, or text such as "40ms" (ns, us, ms, s, min, h)'
_RATE_ALLOWED = 'text such as "20Mbit/s" (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s), or "unlimited"'


def _quoted(text: str) -> str:
    """Quote `text` in one line for a message."""
    return '"' + " ".join(text.split()) + '"'


def duration(value: str | float) -> float:
    """Parse a duration such as ``"40ms"``, or a number of seconds. Returns seconds >= 0.

    Raises ValueError, with the allowed forms, for anything else: also for a text without a unit, such as ``"40"``,
    which could be milliseconds. ``"0"`` needs no unit.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a duration; allowed: {_DURATION_ALLOWED}")
    if not isinstance(value, str):
        if 0 <= value <= _LONGEST:
            return float(value)
        raise ValueError(f"{value} is not a duration; allowed: {_DURATION_ALLOWED}, from 0 to {_LONGEST:g} s")
    match = _QUANTITY.fullmatch(value)
    unit = None if match is None else match[2] or "s"
    if match is None or unit not in _SECONDS or not math.isfinite(float(match[1])):
        raise ValueError(f"{_quoted(value)} is not a duration; allowed: {_DURATION_ALLOWED}")
    # Dividing by 1000 rounds once where multiplying by 1e-3 rounds twice: "40ms" is the float 0.04.
    factor = _SECONDS[unit]
    seconds = float(match[1]) * factor if factor >= 1 else float(match[1]) / round(1 / factor)
    if seconds > _LONGEST:
        raise ValueError(f"{_quoted(value)} is too long; allowed: up to {_LONGEST:g} s")
    if match[2] is None and _ZERO.fullmatch(match[1]) is None:
        raise ValueError(f"{_quoted(value)} has no unit; allowed: such as {value.strip()}ms ({', '.join(_SECONDS)})")
    return seconds


def seconds_or_duration(text: str) -> float:
    """Parse a cell of a column in seconds: a bare number of seconds, or a `duration`. Returns seconds >= 0.

    Raises ValueError for anything else.
    """
    match = _QUANTITY.fullmatch(text)
    return duration(f"{match[1]}s" if match is not None and match[2] is None else text)


def rate(value: str) -> float:
    """Parse a rate such as ``"20Mbit/s"`` or ``"unlimited"``. Returns bytes per second > 0, or infinity.

    Raises ValueError for anything else.
    """
    if isinstance(value, str) and value.strip() == "unlimited":
        return math.inf
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _BYTES_PER_SECOND or not math.isfinite(float(match[1])):
        shown = _quoted(value) if isinstance(value, str) else repr(value)
        raise ValueError(f"{shown} is not a rate; allowed: {_RATE_ALLOWED}")
    if float(match[1]) == 0:
        raise ValueError(f"{_quoted(value)} carries nothing; a rate must be > 0; allowed: {_RATE_ALLOWED}")
    return float(match[1]) * _BYTES_PER_SECOND[match[2]]


def format_duration(seconds: float) -> str:
    """Format a duration: ``0.04`` as ``40 ms``, ``1.234`` as ``1.23 s``, ``75`` as ``1 min 15 s``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if not math.isfinite(seconds):
        return "for ever"
    if seconds == 0:
        return "0 s"
    if seconds < 59.95:
        return _scaled(seconds * 1e9, ("ns", "us", "ms", "s"))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _three(value: float) -> str:
    """Format a value in [1, 1000) with three significant digits."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    """Format `value` in the largest fitting one of `units`, each 1000 times the one before."""
    index = 0
    while value >= 999.5 and index < len(units) - 1:
        value, index = value / 1000, index + 1
    if value == int(value) or value >= 99.95:
        return f"{value:.0f} {units[index]}"
    return f"{_three(value)} {units[index]}"


def format_joules(joules: float) -> str:
    """Format an energy with three significant digits: ``0.0123`` as ``12.3 mJ``, ``4567`` as ``4.57 kJ``."""
    return "0 J" if joules == 0 else _scaled(joules * 1e6, ("uJ", "mJ", "J", "kJ", "MJ"))


def format_bytes(count: float) -> str:
    """Format a byte count with decimal units and three significant digits: ``1234567`` as ``1.23 MB``."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))
