"""What a party runs on, and what is left of it when its process ends."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from sim.compute import Machine
from sim.faults import Slow
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
        self._slowed: list[Slow] = []

    def boot(self, receive: Callable[[Packet], None]) -> None:
        """Come back as the next incarnation, with a processor that has nothing to do."""
        self.endpoint.receive = receive
        self.endpoint.rejoin()
        self.machine = Machine(self._env, self._cores, self._speed, self._factor)

    @property
    def slowed(self) -> tuple[Slow, ...]:
        """The faults that slow it down, each as often as it applies now."""
        return tuple(self._slowed)

    def restore(self, slowed: Iterable[Slow]) -> None:
        """Apply those slow-downs again; the endpoint keeps its own factor."""
        self._slowed = list(slowed)
        self.machine.stretch(self._factor)

    def pause(self) -> None:
        """Pause the device."""
        self.endpoint.pause()
        self.machine.stretch(math.inf)

    def resume(self) -> None:
        """Go on: what has come meanwhile is received first."""
        self.endpoint.resume()
        self.machine.stretch(self._factor)

    def slow(self, fault: Slow) -> None:
        """Compute, send and receive `fault.factor` times as slowly, unless it is slow by `fault` already.

        A party that comes to the same step twenty times would otherwise be slow by the twentieth power.
        """
        self._slowed.append(fault)
        self._stretch()

    def quicken(self, fault: Slow) -> None:
        """End one application of `fault`; after the last, it slows no more."""
        self._slowed.remove(fault)
        self._stretch()

    @property
    def _factor(self) -> float:
        """The product of the factors of all faults that go on."""
        return math.prod(fault.factor for fault in dict.fromkeys(self._slowed))

    def _stretch(self) -> None:
        factor = self._factor
        self.endpoint.stretch(factor)
        if not self.endpoint.paused:
            self.machine.stretch(factor)
