"""Kinds of clients, read from the values of their keys."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.parties.fleet.energy import Processor, Radio, parse_processor, parse_radio
from tacit.sim.latency import Latency, parse_latency
from tacit.sim.units import rate

__all__ = ["Amount", "Kind", "kind_of", "parse_amount"]


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
