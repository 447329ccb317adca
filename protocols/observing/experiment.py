"""What a run is made of: its world and tables, its parties, and an observer who sees what no party could."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from parties.data.splits import Shard
from parties.datasets.content import Report
from parties.device import Device
from parties.registered import Registered
from protocols.observing.parts import Parts
from protocols.observing.simulated import ResultFields, Simulated, Strike
from sim.faults import Fault
from sim.units import rate
from sim.world import World

__all__ = [
    "Checkpointable",
    "Experiment",
    "Observer",
    "PartialReporter",
    "Progress",
    "Setting",
    "Tables",
    "client_access",
    "server_access",
    "silent",
]

AWAKE = 200
"""The most clients that stay there while they rest: to make one again takes a tenth of a millisecond."""

C = TypeVar("C")

Progress = Callable[[str], AbstractContextManager[Report]]
"""Makes, of what takes long, a context whose value is called with what is done, how much of it, and of how much."""


def silent(title: str) -> AbstractContextManager[Report]:
    """A `Progress` that shows nothing."""
    return nullcontext(lambda what, done, of: None)


class Tables(Protocol):
    """What a protocol may ask of the scenario that it is run by: the seed, and tables."""

    @property
    def seed(self) -> int: ...
    @property
    def entropy(self) -> str: ...
    @property
    def cost(self) -> str: ...
    @property
    def protocol(self) -> Any: ...
    @property
    def data(self) -> Any: ...
    @property
    def network(self) -> Any: ...
    @property
    def device(self) -> Any: ...
    @property
    def attack(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Setting:
    """What a run of a protocol is made of.

    `tables`: those of its scenario, which have what the protocol `uses`. `parts`: all points of the run. `shards`: each
    client's, by its name. `faults`: those that each [[fault]] stands for.
    """

    world: World
    tables: Any
    parts: Parts
    shards: Mapping[str, Shard]
    faults: Sequence[tuple[Fault, ...]] = ()
    progress: Progress = silent

    @property
    def keys(self) -> Any:
        """The [protocol] table, of the type that the protocol declares."""
        return self.tables.protocol

    def clients(self, make: Callable[..., C], *arguments: Any) -> list[C]:
        """A client for each shard, of what `make` makes of world, name, shard and `arguments`."""
        access = self.client_access
        return [make(self.world, name, shard, *arguments, **access) for name, shard in self.shards.items()]

    def registered(self, kind: type[Any], settings: Any) -> Sequence[Any]:
        """A client of the class `kind`, derived from `protocols.rounds.RoundsClient`, for each shard.

        Of more than `AWAKE`, those at rest are not there (`parties.registered`).
        """
        resting = kind.resting(settings)
        if resting is None or len(self.shards) <= AWAKE:
            return self.clients(kind, settings)

        def make(name: str, device: Device) -> Any:
            return kind(self.world, name, self.shards[name], settings, device=device)

        return Registered(self.world, kind, tuple(self.shards), make, resting, self.client_access)

    @property
    def client_access(self) -> dict[str, Any]:
        """What each client's access to the network and its machine are, as `parties.party.Party` takes them."""
        return client_access(self.tables)

    @property
    def server_access(self) -> dict[str, Any]:
        """The same for the server."""
        return server_access(self.tables)


def client_access(tables: Tables) -> dict[str, Any]:
    """Each client's bytes a second `up` and `down`, its `cores` and their `speed`."""
    network, device = tables.network, tables.device
    return {
        "up": _pipe(network.up or network.bandwidth),
        "down": _pipe(network.down or network.bandwidth),
        "cores": device.cores,
        "speed": device.speed,
    }


def server_access(tables: Tables) -> dict[str, Any]:
    """The same of the server."""
    network, device = tables.network, tables.device
    own = _pipe(network.server_bandwidth)
    return {"up": own, "down": own, "cores": device.server_cores, "speed": device.server_speed}


def _pipe(text: str) -> float:
    """Bytes a second, 0 for an unlimited one."""
    value = rate(text)
    return 0.0 if math.isinf(value) else value


class Observer(Protocol):
    """Looks at a run as no party could."""

    def sum_up(self) -> Simulated:
        """The results, once all parties have ended."""

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far."""


@runtime_checkable
class Checkpointable(Observer, Protocol):
    """The observer of a run that can be broken off between two rounds and go on later.

    It calls `after_round` with the number of each round that has ended. `kinds` are the classes, of plain fields, of
    what it and the parties hold.
    """

    kinds: ClassVar[tuple[type, ...]]
    after_round: Callable[[int], None]

    def state(self) -> Any:
        """What it has seen."""

    def restore(self, state: Any) -> None:
        """Go on from a `state`."""


@runtime_checkable
class PartialReporter(Protocol):
    """An observer that can report on a run that was broken off."""

    def so_far(self) -> ResultFields:
        """The results until then."""


class Experiment(Protocol):
    """The parties of one run and their observer. `rounds`: how many there will be."""

    @property
    def clients(self) -> Sequence[Any]: ...
    @property
    def server(self) -> Any: ...
    @property
    def observer(self) -> Observer: ...
    @property
    def rounds(self) -> int: ...

    def plan(self) -> None:
        """Let the parties announce the computing that is to come."""
