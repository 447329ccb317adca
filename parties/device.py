"""What a party runs on, and what is left of it when its process ends."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from sim.compute import Machine
from sim.wire import Packet
from sim.world import World

__all__ = ["Device"]


class Device:
    """A party's access to the network, its processor and its `disk`.

    `up` and `down` are bytes a second (0: unlimited), `cores` and `speed` its machine.
    """

    def __init__(
        self,
        world: World,
        name: str,
        receive: Callable[[Packet], None],
        *,
        up: float = 0.0,
        down: float = 0.0,
        cores: int = 1,
        speed: float = 1.0,
    ) -> None:
        self._env, self._cores, self._speed = world.loop.env, cores, speed
        self.endpoint = world.network.attach(name, receive, up, down)
        self.disk: dict[str, Any] = {}
        self.machine = Machine(self._env, cores, speed)
        self._factors: list[float] = []

    def boot(self, receive: Callable[[Packet], None]) -> None:
        """Come back as the next incarnation, with a processor that has nothing to do."""
        self.endpoint.receive = receive
        self.endpoint.rejoin()
        self.machine = Machine(self._env, self._cores, self._speed, math.prod(self._factors))

    @property
    def factors(self) -> tuple[float, ...]:
        """What it is slowed down by."""
        return tuple(self._factors)

    def take_up(self, factors: Iterable[float]) -> None:
        """Go on with those `factors`; the endpoint keeps its own."""
        self._factors = list(factors)
        self.machine.stretch(math.prod(self._factors))

    def pause(self) -> None:
        """Stand still."""
        self.endpoint.pause()
        self.machine.stretch(math.inf)

    def resume(self) -> None:
        """Go on: what has come meanwhile is received first."""
        self.endpoint.resume()
        self.machine.stretch(math.prod(self._factors))

    def slow(self, factor: float) -> None:
        """Compute, send and receive `factor` times as slowly as before."""
        self._factors.append(factor)
        self._stretch()

    def quicken(self, factor: float) -> None:
        """Take back a `slow`."""
        self._factors.remove(factor)
        self._stretch()

    def _stretch(self) -> None:
        factor = math.prod(self._factors)
        self.endpoint.stretch(factor)
        if not self.endpoint.paused:
            self.machine.stretch(factor)
