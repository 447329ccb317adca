"""What every experiment is: parties in a world, built from a scenario, and an observer who sees what no party could."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from parties.data.splits import Shard
from protocols.observing.parts import Parts
from protocols.observing.simulated import ResultFields, Simulated, Strike
from scenarios.schema import scenario as schema
from sim.faults import Fault
from sim.units import rate
from sim.world import World

__all__ = ["Experiment", "Keeper", "Onlooker", "Recounter", "Setting"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What an experiment is built in. `faults`: those that each [[fault]] stands for."""

    world: World
    scenario: schema.Scenario
    parts: Parts
    shards: Sequence[Shard]
    faults: Sequence[tuple[Fault, ...]]

    @property
    def client_access(self) -> dict[str, float]:
        """Of each client: bytes a second, cores, and their speed."""
        network, device = self.scenario.network, self.scenario.device
        return {
            "up": _pipe(network.up or network.bandwidth),
            "down": _pipe(network.down or network.bandwidth),
            "cores": device.cores,
            "speed": device.speed,
        }

    @property
    def server_access(self) -> dict[str, float]:
        """The same of the server."""
        network, device = self.scenario.network, self.scenario.device
        own = _pipe(network.server_bandwidth)
        return {"up": own, "down": own, "cores": device.server_cores, "speed": device.server_speed}


def _pipe(text: str) -> float:
    """Bytes a second, 0 for an unlimited one."""
    value = rate(text)
    return 0.0 if math.isinf(value) else value


class Onlooker(Protocol):
    """Looks at a run as no party could."""

    def sum_up(self) -> Simulated:
        """What came out, once all parties have ended."""

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far."""


@runtime_checkable
class Keeper(Onlooker, Protocol):
    """An onlooker of a run that can be broken off between two rounds and taken up again.

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
class Recounter(Protocol):
    """An onlooker that can tell of a run that was broken off."""

    def so_far(self) -> ResultFields:
        """What had come of it."""


class Experiment(Protocol):
    """The parties of one run and their observer. `rounds`: how many there will be."""

    @property
    def clients(self) -> Sequence[Any]: ...
    @property
    def server(self) -> Any: ...
    @property
    def observer(self) -> Onlooker: ...
    @property
    def rounds(self) -> int: ...

    def plan(self) -> None:
        """Let the parties announce the computing that is to come."""
