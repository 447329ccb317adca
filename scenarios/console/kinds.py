"""The kinds of values in a table's columns: their units, and how they are rounded where people read them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tacit.sim.units import format_bytes, format_duration, format_joules

__all__ = [
    "BYTES", "COUNT", "EXACT_BYTES", "FIGURE", "JOULES", "SECONDS", "TEXT", "WHOLE_BYTES", "Kind",
    "decimals", "share", "significant",
]  # fmt: skip


class Kind(NamedTuple):
    """What the values of a column are: how `show` rounds them, and the `unit` of the exact value, "" without one.

    Values that are `numbers` are right-aligned and never broken over lines.
    """

    show: Callable[[Any], str]
    unit: str = ""
    numbers: bool = True


TEXT = Kind(str, numbers=False)
FIGURE = Kind(str)
"""Figures that are text already, such as a range."""
COUNT = Kind("{:,}".format)
BYTES = Kind(format_bytes, "bytes")
WHOLE_BYTES = Kind(lambda mean: format_bytes(round(mean)), "bytes")
"""Means of bytes."""
EXACT_BYTES = Kind(lambda count: f"{round(count):,}", "bytes")
SECONDS = Kind(format_duration, "s")
JOULES = Kind(format_joules, "J")


def decimals(count: int, unit: str = "", factor: float = 1, suffix: str = "", sign: str = "") -> Kind:
    """Numbers with `count` digits after the point, as multiples of 1 / `factor`, with the text `suffix` behind them."""
    return Kind(lambda value: f"{value * factor:{sign},.{count}f}{suffix}", unit)


def share(count: int) -> Kind:
    """Shares in per cent, with `count` digits after the point."""
    return decimals(count, factor=100, suffix="%")


def significant(count: int, unit: str = "", factor: float = 1, suffix: str = "") -> Kind:
    """Numbers with `count` significant digits."""
    return Kind(lambda value: f"{value * factor:,.{count}g}{suffix}", unit)
