"""Tables of a scenario's parties: a line for each kind of party, of links and of hosts."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from tacit.parties.fleet.fleet import HELPER, SERVER, Fleet
from tacit.parties.fleet.keys import PRESETS
from tacit.parties.fleet.kinds import Kind
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console.kinds import COUNT
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.latency import parse_latency
from tacit.sim.units import format_duration

__all__ = ["device_table", "party_tables"]

_KINDS = 50
"""The most kinds of clients that a table lists."""

_SPANS = 4
"""The most runs of consecutive client numbers that a line names."""


def party_tables(scenario: Scenario) -> list[Table]:
    """Tables of the parties by kind, and, if the scenario defines them, of links between pairs, hosts, and handling
    costs."""
    fleet, network = Fleet(scenario), scenario.network
    device, rate = scenario.device, network.server_bandwidth
    servers = [(SERVER, "1", "", "", rate, rate, "", str(device.server_cores), f"{device.server_speed:g}", "")]
    if PROTOCOLS[scenario.protocol.name].helpers(scenario):
        access, rate = fleet.of(HELPER), network.helper_bandwidth or rate
        servers.append((HELPER, "1", "", "", rate, rate, "", str(access.cores), f"{access.speed:g}", ""))
    columns = ("who", "parties", "preset", "latency", "up", "down", "loss", "cores", "speed", "is up")
    groups = list(fleet.groups())
    rows = [*servers, *(_row(*group, scenario) for group in groups[:_KINDS])]
    if len(groups) > _KINDS:
        left = sum(len(numbers) for numbers, _ in groups[_KINDS:])
        more = f"and {len(groups) - _KINDS:,} more kinds", f"{left:,}", *[""] * (len(columns) - 2)
        rows.append(more)
    found = [Table(columns, rows, "who has what")]
    if drawn := device_table(scenario, fleet):
        found.append(drawn)
    if scenario.link:
        rows = [
            (link.party, "to" if link.one_way else "and", link.peer, link.latency or "as above",
             "as above" if link.loss is None else _share(link.loss))
            for link in scenario.link
        ]  # fmt: skip
        found.append(Table(("from", "", "peer", "latency", "loss"), rows, "links of some pairs"))
    if scenario.host:
        hosts = [(", ".join(host.parties), str(host.cores)) for host in scenario.host]
        found.append(Table(("parties", "cores"), hosts, "hosts whose cores are shared"))
    if fleet.handling:
        own = [(str(scenario.device.handling), scenario.device.handling_rate)]
        found.append(Table(("handling", "handling_rate"), own, "what a message takes on a core of speed 1"))
    return found


def device_table(scenario: Scenario, fleet: Fleet | None = None) -> Table | None:
    """The clients by class of devices, from fast to slow, with the ranges of the values drawn for each class.

    None if no client has a class, and none draws a rate or a speed of its own.
    """
    fleet = fleet or Fleet(scenario)
    groups = list(fleet.groups())
    if not any(kind.device_class or kind.is_drawn for _, kind in groups):
        return None
    classes: dict[str, _Drawn] = {}
    for numbers, kind in groups:
        name = kind.device_class or _preset_of(kind) or "no class"
        classes.setdefault(name, _Drawn()).add(fleet, numbers, kind, scenario.network.latency)
    clients, cores, away = Column("clients", COUNT), Column("cores", priority=0), Column("not always up", COUNT)
    columns = ("class", clients, "up", "down", "latency", cores, "speed", away)
    ordered = sorted(classes.items(), key=lambda item: item[1].median_speed, reverse=True)
    return Table(columns, ((name, *one.cells()) for name, one in ordered), "drawn devices")


class _Drawn:
    """Collects the ranges of the values drawn for the clients of a class."""

    def __init__(self) -> None:
        self._clients = self._away = 0
        self._rates: dict[str, list[float]] = {"up": [], "down": []}
        self._speeds: list[float] = []
        self._cores: list[int] = []
        self._latencies: dict[str, float | None] = {}

    def add(self, fleet: Fleet, numbers: Any, kind: Kind, usual: str) -> None:
        """Count the clients with these `numbers`, all of one kind; `usual` is the latency of [network]."""
        self._clients += len(numbers)
        self._away += len(numbers) if kind.availability else 0
        for number in numbers if kind.is_drawn else numbers[:1]:
            access = fleet.of(f"client/{number}")
            self._rates["up"].append(access.up or math.inf)
            self._rates["down"].append(access.down or math.inf)
            self._speeds.append(access.speed)
            self._cores.append(access.cores)
        latency = parse_latency(usual) if kind.latency is None else kind.latency
        self._latencies[latency.text] = latency.seconds

    @property
    def median_speed(self) -> float:
        """The median speed of a core."""
        return median(self._speeds)

    def cells(self) -> tuple[int | str, ...]:
        """The row of the table, without its name."""
        rates = (_span(self._rates[way], _bits) for way in ("up", "down"))
        fixed = [seconds for seconds in self._latencies.values() if seconds is not None]
        if len(self._latencies) == 1:
            latency = next(iter(self._latencies))
        elif len(fixed) == len(self._latencies):
            latency = _span(fixed, format_duration)
        else:
            latency = f"{len(self._latencies)} distributions"
        cores, speed = _span(self._cores, str), _span(self._speeds, lambda value: f"{value:.3g}")
        return self._clients, *rates, latency, cores, speed, self._away


def _span(values: Sequence[float], shown: Callable[[Any], str]) -> str:
    """The smallest and the largest of `values` as text, or the one value if all are equal."""
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def _bits(rate: float) -> str:
    """A rate in bytes per second, as text in bits per second."""
    if math.isinf(rate):
        return "unlimited"
    units = (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")
    size, unit = next((one for one in units if 8 * rate >= one[0]), units[-1])
    return f"{8 * rate / size:.3g} {unit}"


def _row(numbers: Any, kind: Kind, scenario: Scenario) -> tuple[str, ...]:
    network = scenario.network
    return (
        _names([int(number) for number in numbers]), f"{len(numbers):,}", _preset_of(kind),
        network.latency if kind.latency is None else kind.latency.text, kind.up.text, kind.down.text,
        _share(network.loss if kind.loss is None else kind.loss), str(kind.cores), kind.speed.text,
        kind.availability.rpartition("/")[2],
    )  # fmt: skip


def _preset_of(kind: Kind) -> str:
    """The preset that equals the kind's network access; "" if none does."""
    own = {"latency": "" if kind.latency is None else kind.latency.text, "up": kind.up.text, "down": kind.down.text}
    return next((name for name, one in PRESETS.items() if one.values.items() <= own.items()), "")


def _share(loss: float) -> str:
    return f"{100 * loss:g}%"


def _names(numbers: Sequence[int]) -> str:
    """The clients with these ascending `numbers`, as in ``client/0-4, 7``."""
    starts = [0, *(place for place, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1)]
    ends = [*starts[1:], len(numbers)]
    spans = [
        f"{numbers[start]}" + (f"-{numbers[end - 1]}" if end > start + 1 else "")
        for start, end in zip(starts, ends, strict=True)
    ]
    more = len(numbers) - ends[min(_SPANS, len(ends)) - 1]
    return "client/" + ", ".join(spans[:_SPANS]) + (f" and {more:,} more" if more else "")
