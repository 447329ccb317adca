"""The fleet of a run: the access, machine and links of each party.

[network] and [device] are the defaults; the tables [[client]], [[link]] and [[host]] override them. A client takes two
bytes of memory; its properties are computed on request. Random choices for a client use the stream (seed, "fleet", its
name, the key); the choice of the clients of a table uses (seed, "fleet", the tables' `name`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.fleet.energy import ClassEnergy, ClientEnergy, Energy, Power, parse_processor, parse_radio
from tacit.parties.fleet.keys import PRESETS
from tacit.parties.fleet.kinds import Amount, Kind, devices_file, kind_of, uptimes_file
from tacit.sim.conditions import Access
from tacit.sim.faults import Crash, availability
from tacit.sim.handling import Handling
from tacit.sim.latency import Latency, added, parse_latency
from tacit.sim.machine import Host
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml
from tacit.sim.units import duration, rate

__all__ = ["HELPER", "SERVER", "Fleet"]

SERVER = "server"
_LISTED = 200
"""The largest number of clients whose energies are listed one by one."""

HELPER = "helper"
"""The name of the second aggregator, in protocols that have one. It has its own machine and network access."""
_CLIENT = "client/"
_KEYS = ("latency", "up", "down", "loss", "cores", "speed", "availability", "device_class", "radio", "processor")

Layer = tuple[str, Mapping[str, Any]]
"""The keys that a table gives, and the name of the table for errors."""

Numbers = NDArray[np.int64]


class Fleet:
    """The accesses and links of a server and of `tables.data.clients` clients.

    `tables` has seed, data, network and device, and optionally client, link and host. `handling` is the time of
    messages on a core of speed 1. Raises Problem, which names the table and the key.
    """

    def __init__(self, tables: Any) -> None:
        network, device = tables.network, tables.device
        self._seed, self._count = int(tables.seed), int(tables.data.clients)
        self._is_star = network.topology == "star"
        self._latency, self._loss = network.latency, network.loss
        self._layers: list[Layer] = [("", _client_defaults(network, device))]
        self._stacks: list[tuple[int, ...]] = [(0,)]
        self._codes = np.zeros(self._count, np.uint16)
        self._kinds: dict[int, Kind] = {}
        self._latencies: dict[tuple[str, ...], Latency] = {}
        self._servers = _servers(network, device)
        self._clients_tables = tuple(getattr(tables, "client", ()))
        self._links = tuple(getattr(tables, "link", ()))
        self._hosts = [(one.parties, Host(one.cores)) for one in getattr(tables, "host", ())]
        self.handling = _handling(device)
        self._drawn: dict[str, list[Numbers]] = {}
        for number, table in enumerate(self._clients_tables):
            self._add(f"client.{number}", table)
        self._check_links()
        self._check_hosts()
        _check_power(device)

    # What parties have

    def of(self, party: str) -> Access:
        """The access and processor of `party`."""
        host = next((host for patterns, host in self._hosts if _is_meant(party, patterns)), None)
        if party in self._servers:
            return self._with_handling(replace(self._servers[party], host=host))
        kind = self.kind(party)
        up, down, speed = (
            self._amount(amount, party, key)
            for key, amount in (("up", kind.up), ("down", kind.down), ("speed", kind.speed))
        )
        return self._with_handling(Access(_pipe(up), _pipe(down), kind.cores, speed, host))

    def _with_handling(self, access: Access) -> Access:
        """Add the handling of messages to `access`.

        The machine of a single party becomes a host, shared by handling and jobs.
        """
        if not self.handling:
            return access
        return replace(access, host=access.host or Host(access.cores), handling=self.handling.at(access.speed))

    def kind(self, client: str) -> Kind:
        """The kind of the `client`, with its properties."""
        return self._kind(int(self._codes[int(client.removeprefix(_CLIENT))]))

    def host(self, party: str) -> int | None:
        """The index of the [[host]] on which `party` runs; None if it has its own machine."""
        return next((place for place, (some, _) in enumerate(self._hosts) if _is_meant(party, some)), None)

    def groups(self) -> Iterator[tuple[Numbers, Kind]]:
        """The kinds of clients with the numbers of their clients, in order; the default kind is first."""
        codes, first = np.unique(self._codes, return_index=True)
        for code in codes[np.argsort(first)] if self._count else ():
            yield np.flatnonzero(self._codes == code), self._kind(int(code))

    # What links are like

    @cached_property
    def loses(self) -> bool:
        """Return true if any link loses messages."""
        own = any(kind.loss for _, kind in self.groups())
        return bool(self._loss or own or any(link.loss for link in self._links))

    def between(self, near: str, far: str) -> tuple[Latency, float]:
        """The latency and the loss of the link from `near` to `far`."""
        kinds = [self.kind(party) for party in (near, far) if party.startswith(_CLIENT)]
        latencies = [kind.latency for kind in kinds if kind.latency is not None]
        losses = [kind.loss for kind in kinds if kind.loss is not None]
        latency = self._added(*latencies) if latencies else self._parsed(self._latency)
        loss = 1 - math.prod(1 - loss for loss in losses) if len(losses) > 1 else losses[0] if losses else self._loss
        for link in self._links:
            if _joins(link, near, far):
                latency = latency if link.latency is None else self._parsed(link.latency)
                loss = loss if link.loss is None else link.loss
        return latency, loss

    @property
    def is_uniform(self) -> bool:
        """True if all links have the properties of [network]."""
        return not (self._clients_tables or self._links)

    # What they use

    @cached_property
    def counts_energy(self) -> bool:
        """Return true if the energy of any client is counted."""
        return any(kind.radio or kind.processor for _, kind in self.groups())

    def power(self, party: str) -> Power | None:
        """The radio and processor of `party`, for its energy; None if its energy is not counted."""
        if not party.startswith(_CLIENT) or not ((kind := self.kind(party)).radio or kind.processor):
            return None
        access = self.of(party)
        seconds = access.handling.seconds if access.handling else lambda _: 0.0
        return Power(kind.radio, kind.processor, seconds)

    def energy(self, found: Mapping[str, ClientEnergy]) -> Energy:
        """The energy of all clients whose energy is counted; `found` has that of each client that used any."""
        classes: dict[str, list[ClientEnergy]] = {}
        counts: dict[str, int] = {}
        for numbers, kind in self.groups():
            if kind.radio or kind.processor:
                name = kind.device_class or "all"
                counts[name] = counts.get(name, 0) + len(numbers)
                classes.setdefault(name, []).extend(found[one] for one in self._names(numbers) if one in found)
        rows = [
            ClassEnergy(
                name,
                counts[name],
                sum(one.radio for one in some),
                sum(one.tail for one in some),
                sum(one.processor for one in some),
                max((one.joules for one in some), default=0.0),
            )
            for name, some in classes.items()
        ]
        each = dict(sorted(found.items(), key=lambda item: int(item[0].removeprefix(_CLIENT))))
        return Energy(
            sum(row.radio + row.tail + row.processor for row in rows), rows, each if len(each) <= _LISTED else {}
        )

    # When they are up

    def crashes(self) -> tuple[Crash, ...]:
        """The crashes of clients that have an `availability`; one fault for all clients of a table.

        If a file has several traces, each client draws one.
        """
        found: list[Crash] = []
        read: dict[str, list[list[tuple[float, float]]]] = {}
        for numbers, kind in self.groups():
            if kind.availability:
                if kind.availability not in read:
                    read[kind.availability] = uptimes_file(kind.availability)
                traces = read[kind.availability]
                for party in self._parties(numbers) if len(traces) == 1 else self._names(numbers):
                    rows = [(party, up, down) for up, down in traces[self._drawn_trace(party, len(traces))]]
                    found += availability(rows, [party])
        return tuple(found)

    def _drawn_trace(self, party: str, count: int) -> int:
        """Draw the index of an availability trace for `party`, of `count` traces."""
        return int(generator(self._seed, "fleet", party, "availability").integers(count)) if count > 1 else 0

    def _parties(self, numbers: Numbers) -> list[str]:
        """Names, or one pattern, that match exactly the clients with these `numbers`."""
        patterns = [table.name for table in self._clients_tables if table.share is None]
        for pattern in patterns:
            if np.array_equal(self._meant(pattern), numbers):
                return [pattern]
        return self._names(numbers)

    def _names(self, numbers: Numbers) -> list[str]:
        return [f"{_CLIENT}{number}" for number in numbers]

    # Reading the tables

    def _add(self, place: str, table: Any) -> None:
        numbers = self._meant(table.name)
        if not len(numbers):
            problem = f"{toml(table.name)} is no client and means none; allowed: client/0 to client/{self._count - 1}"
            raise Problem(f"{place}.name", problem)
        if table.share is not None:
            numbers = self._share(f"{place}.share", table, numbers)
        values = {key: value for key in _KEYS if (value := getattr(table, key)) not in (None, "")}
        self._lay(place, {**_preset(table.preset), **values}, numbers)
        if table.file:
            self._add_file(place, table, numbers)

    def _add_file(self, place: str, table: Any, numbers: Numbers) -> None:
        place = f"{place}.file"
        try:
            lines = devices_file(table.file)
        except ValueError as error:
            raise Problem(place, str(error)) from None
        named = [line for line in lines if "name" in line[1]]
        if named and len(named) < len(lines):
            raise Problem(place, f"{table.file}: some lines give a name and some do not; allowed: all or none")
        if named:
            for number, line in lines:
                meant = self._meant(line["name"])
                if not len(meant):
                    problem = f"means no client; there are client/0 to client/{self._count - 1}"
                    raise Problem(place, f"{table.file}: line {number}, column name: {line['name']!r} {problem}")
                self._lay_line(place, table.file, number, line, np.intersect1d(meant, numbers))
            return
        chances = np.array([line.get("share", 1.0) for _, line in lines])
        stream = generator(self._seed, "fleet", table.name, "file")
        drawn = stream.choice(len(lines), len(numbers), p=chances / chances.sum())
        for index, (number, line) in enumerate(lines):
            self._lay_line(place, table.file, number, line, numbers[drawn == index])

    def _lay_line(self, place: str, file: str, number: int, line: Mapping[str, Any], numbers: Numbers) -> None:
        try:
            own = {key: line[key] for key in _KEYS if key in line}
            self._lay("", {**_preset(line.get("preset", "")), **own}, numbers)
        except Problem as error:
            raise Problem(place, f"{file}: line {number}, column {error.key.lstrip('.')}: {error.problem}") from None

    def _lay(self, place: str, values: Mapping[str, Any], numbers: Numbers) -> None:
        """Override keys of the clients with these `numbers`; `place` is the table, for errors."""
        for key, value in values.items():
            try:
                kind_of({**self._layers[0][1], key: value})
                if key == "availability":
                    uptimes_file(value)
            except ValueError as error:
                raise Problem(f"{place}.{key}", str(error)) from None
        if not values or not len(numbers):
            return
        self._layers.append((place, values))
        own = self._codes[numbers]
        for code in np.unique(own):
            if len(self._stacks) > np.iinfo(self._codes.dtype).max:
                raise Problem(place.partition(".")[0], "there are more than 65,536 kinds of clients; allowed: fewer")
            self._codes[numbers[own == code]] = len(self._stacks)
            self._stacks.append((*self._stacks[code], len(self._layers) - 1))

    def _meant(self, name: str) -> Numbers:
        """The numbers of the clients that match a name or pattern, in order."""
        if name == f"{_CLIENT}*":
            return np.arange(self._count)
        if not set(name) & set("*?["):
            text = name.removeprefix(_CLIENT)
            known = name.startswith(_CLIENT) and text.isdecimal() and str(int(text)) == text
            return np.array([int(text)] if known and int(text) < self._count else [], np.int64)
        every = (number for number in range(self._count) if fnmatchcase(f"{_CLIENT}{number}", name))
        return np.fromiter(every, np.int64)

    def _share(self, key: str, table: Any, numbers: Numbers) -> Numbers:
        """The clients that a table with a share draws, in order, excluding those drawn before for the same name."""
        shares = [one.share for one in self._clients_tables if one.name == table.name and one.share is not None]
        if sum(shares) > 1 + 1e-9:
            raise Problem(key, f"the shares of {toml(table.name)} are {sum(shares):g} together; allowed: at most 1")
        before = self._drawn.setdefault(table.name, [])
        order = generator(self._seed, "fleet", table.name).permutation(numbers)
        ends = [round(sum(shares[:place]) * len(numbers)) for place in (len(before), len(before) + 1)]
        before.append(np.sort(order[ends[0] : ends[1]]))
        return before[-1]

    def _kind(self, code: int) -> Kind:
        if code not in self._kinds:
            whole: dict[str, Any] = {}
            for layer in self._stacks[code]:
                whole |= self._layers[layer][1]
            self._kinds[code] = kind_of(whole)
        return self._kinds[code]

    def _parsed(self, text: str) -> Latency:
        if (text,) not in self._latencies:
            self._latencies[text,] = parse_latency(text)
        return self._latencies[text,]

    def _added(self, *latencies: Latency) -> Latency:
        texts = tuple(one.text for one in latencies)
        if texts not in self._latencies:
            self._latencies[texts] = latencies[0] if len(latencies) == 1 else added(*latencies)
        return self._latencies[texts]

    def _amount(self, amount: Amount, party: str, key: str) -> float:
        return amount.value if amount.draw is None else float(amount.draw(generator(self._seed, "fleet", party, key)))

    def _check_links(self) -> None:
        for number, link in enumerate(self._links):
            place = f"link.{number}"
            for key in ("party", "peer"):
                if not self._exists(getattr(link, key)):
                    problem = f"{toml(getattr(link, key))} is no party and means none"
                    raise Problem(f"{place}.{key}", f"{problem}; allowed: server, client/0 to client/{self._count - 1}")
            if self._is_star and not (fnmatchcase(SERVER, link.party) or fnmatchcase(SERVER, link.peer)):
                problem = f"{toml(link.peer)}: clients of a star have links with the server alone"
                raise Problem(f"{place}.peer", f'{problem}; allowed: "server", or network.topology = "mesh"')
            if link.latency is None and link.loss is None:
                raise Problem(place, "neither latency nor loss is given; allowed: one of them or both")
            if link.latency is not None:
                try:
                    parse_latency(link.latency)
                except ValueError as error:
                    raise Problem(f"{place}.latency", str(error)) from None

    def _check_hosts(self) -> None:
        taken: dict[str, int] = {}
        seen = np.full(self._count, -1)
        for number, (patterns, _) in enumerate(self._hosts):
            for pattern in patterns:
                place = f"host.{number}.parties"
                if not self._exists(pattern):
                    problem = f"{toml(pattern)} is no party and means none"
                    raise Problem(place, f"{problem}; allowed: server, client/0 to client/{self._count - 1}")
                meant = self._meant(pattern)
                twice = [f"{_CLIENT}{one}" for one in meant[(seen[meant] >= 0) & (seen[meant] != number)][:1]]
                seen[meant] = number
                for party in (SERVER, HELPER):
                    if fnmatchcase(party, pattern):
                        twice += [party] if taken.get(party, number) != number else []
                        taken[party] = number
                if twice:
                    raise Problem(place, f"{twice[0]} runs on another host already; allowed: each party on one host")

    def _exists(self, pattern: str) -> bool:
        return fnmatchcase(SERVER, pattern) or fnmatchcase(HELPER, pattern) or len(self._meant(pattern)) > 0


def _servers(network: Any, device: Any) -> dict[str, Access]:
    """The accesses of the server and of the helper, which has those of the server's settings that it lacks."""
    pipe = _pipe(rate(network.server_bandwidth))
    server = Access(pipe, pipe, device.server_cores, device.server_speed)
    own = _pipe(rate(network.helper_bandwidth or network.server_bandwidth))
    cores = device.server_cores if device.helper_cores is None else device.helper_cores
    speed = device.server_speed if device.helper_speed is None else device.helper_speed
    return {SERVER: server, HELPER: Access(own, own, cores, speed)}


def _client_defaults(network: Any, device: Any) -> dict[str, Any]:
    """The values of [network] and [device] for each client."""
    up, down = network.up or network.bandwidth, network.down or network.bandwidth
    found = {"up": up, "down": down, "cores": device.cores, "speed": device.speed}
    return {**found, "radio": device.radio, "processor": device.processor}


def _check_power(device: Any) -> None:
    """Raise Problem for an invalid radio or processor of [device]."""
    for key, parse in (("radio", parse_radio), ("processor", parse_processor)):
        if text := getattr(device, key):
            try:
                parse(text)
            except ValueError as error:
                raise Problem(f"device.{key}", str(error)) from None


def _handling(device: Any) -> Handling:
    """The handling of each message, from [device]. Raises Problem."""
    found = {}
    for key, read in (("handling", duration), ("handling_rate", rate)):
        try:
            found[key] = read(getattr(device, key))
        except ValueError as error:
            raise Problem(f"device.{key}", str(error)) from None
    return Handling(found["handling"], found["handling_rate"])


def _preset(name: str) -> dict[str, str]:
    return PRESETS[name].values if name else {}


def _pipe(value: float) -> float:
    """The rate in bytes a second; 0 for an unlimited pipe."""
    return 0.0 if math.isinf(value) else value


def _is_meant(party: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(party, pattern) for pattern in patterns)


def _joins(link: Any, near: str, far: str) -> bool:
    """Return true if `link` applies to messages from `near` to `far`."""
    forth = fnmatchcase(near, link.party) and fnmatchcase(far, link.peer)
    return forth or (not link.one_way and fnmatchcase(far, link.party) and fnmatchcase(near, link.peer))
