"""Who has what in a scenario: a line for each kind of party, of links and of hosts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from tacit.parties.fleet.fleet import SERVER, Fleet
from tacit.parties.fleet.kinds import Kind
from tacit.parties.fleet.presets import PRESETS
from tacit.scenarios.schema.scenario import Scenario

__all__ = ["PartyTable", "party_tables"]

_SPANS = 4
"""The most runs of neighbours that a line names."""


class PartyTable(Struct, frozen=True):
    """A table of texts: what it is about, its columns and its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def party_tables(scenario: Scenario) -> list[PartyTable]:
    """The parties by kind; and, where the scenario says anything of them, links of some pairs, hosts, and handling."""
    fleet, network = Fleet(scenario), scenario.network
    server = (
        SERVER, "1", "", "", network.server_bandwidth, network.server_bandwidth, "",
        str(scenario.device.server_cores), f"{scenario.device.server_speed:g}", "",
    )  # fmt: skip
    columns = ("who", "parties", "preset", "latency", "up", "down", "loss", "cores", "speed", "is up")
    found = [PartyTable("who has what", columns, [server, *(_row(*group, scenario) for group in fleet.groups())])]
    if scenario.link:
        rows = [
            (link.party, "to" if link.one_way else "and", link.peer, link.latency or "as above",
             "as above" if link.loss is None else _share(link.loss))
            for link in scenario.link
        ]  # fmt: skip
        found.append(PartyTable("links of some pairs", ("from", "", "peer", "latency", "loss"), rows))
    if scenario.host:
        hosts = [(", ".join(host.parties), str(host.cores)) for host in scenario.host]
        found.append(PartyTable("hosts whose cores are shared", ("parties", "cores"), hosts))
    if fleet.handling:
        own = [(str(scenario.device.handling), scenario.device.handling_rate)]
        found.append(PartyTable("what a message takes on a core of speed 1", ("handling", "handling_rate"), own))
    return found


def _row(numbers: Any, kind: Kind, scenario: Scenario) -> tuple[str, ...]:
    network = scenario.network
    return (
        _names([int(number) for number in numbers]), f"{len(numbers):,}", _preset_of(kind),
        network.latency if kind.latency is None else kind.latency.text, kind.up.text, kind.down.text,
        _share(network.loss if kind.loss is None else kind.loss), str(kind.cores), kind.speed.text,
        kind.availability.rpartition("/")[2],
    )  # fmt: skip


def _preset_of(kind: Kind) -> str:
    """The preset that the kind's access is, if it is one."""
    own = {"latency": "" if kind.latency is None else kind.latency.text, "up": kind.up.text, "down": kind.down.text}
    return next((name for name, one in PRESETS.items() if one.values.items() <= own.items()), "")


def _share(loss: float) -> str:
    return f"{100 * loss:g}%"


def _names(numbers: Sequence[int]) -> str:
    """``client/0-4, 7``: the clients with these `numbers`, which rise."""
    starts = [0, *(place for place, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1)]
    ends = [*starts[1:], len(numbers)]
    spans = [
        f"{numbers[start]}" + (f"-{numbers[end - 1]}" if end > start + 1 else "")
        for start, end in zip(starts, ends, strict=True)
    ]
    more = len(numbers) - ends[min(_SPANS, len(ends)) - 1]
    return "client/" + ", ".join(spans[:_SPANS]) + (f" and {more:,} more" if more else "")
