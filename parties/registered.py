"""Clients of which most rest at any time: each is made when something concerns it, and let go when it rests again.

A client that waits for a round to begin is a `Rest`: where its program was, and its timer. Messages, faults and the end
of its patience make a party of it that goes on as if it had waited all the time, so that nothing in a run depends on
it. What lasts is its `tacit.parties.device.Device`, as it is after a crash.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from tacit.parties.device import Device
from tacit.parties.rest import Rest
from tacit.sim.taps import Wait
from tacit.sim.world import World

__all__ = ["Registered", "Resting"]

P = TypeVar("P")


@dataclass(frozen=True)
class Resting:
    """The first wait of parties of a class: messages of `types` from `source`, for `patience` seconds."""

    types: tuple[str, ...]
    source: str
    patience: float


class Registered(Sequence[P], Generic[P]):
    """The clients of a run with these `names`, of the class `kind`; `make` makes the party of a name and a `device`.

    `access` is, of a name, what the device has, as `tacit.parties.device.Device` takes it.

    `awake` are the devices of those that are not at rest, `waiting` counts those that are and have not ended or gone
    down, `made` how many parties were made so far.
    """

    def __init__(
        self,
        world: World,
        kind: type[P],
        names: Sequence[str],
        make: Callable[[str, Device], P],
        resting: Resting,
        access: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._world, self._make, self._resting = world, make, resting
        self.awake: dict[str, Device] = {}
        self.waiting = self.made = 0
        self.devices = [Device(world, name, kind, factory=self, **access(name)) for name in names]

    def __len__(self) -> int:
        return len(self.devices)

    @overload
    def __getitem__(self, number: int) -> P: ...
    @overload
    def __getitem__(self, number: slice) -> list[P]: ...
    def __getitem__(self, number: int | slice) -> P | list[P]:
        """The party, in its present incarnation; one that rests is made for it."""
        if isinstance(number, slice):
            return [device.party for device in self.devices[number]]
        party: P = self.devices[number].party
        return party

    def __iter__(self) -> Iterator[P]:
        return (device.party for device in self.devices)

    def make(self, device: Device) -> P:
        """The party of a `device`."""
        self.made += 1
        return self._make(device.name, device)

    def begin(self, device: Device) -> None:
        """Begin a program, in the place of which there is a rest from its first moment on."""
        self.awake.pop(device.name, None)
        device.rest = Rest(number=self._world.loop.task_count)
        self._world.loop.task_count += 1
        self._world.loop.call_soon(self._first_rest, device, device.rest)

    def _first_rest(self, device: Device, rest: Rest) -> None:
        if device.rest is not rest or not device.endpoint.alive:  # it went down before it did anything
            return
        world, waits = self._world, self._resting
        rest.since = world.loop.time()
        rest.until = rest.since + waits.patience
        self._report(device, rest)
        rest.timer = world.loop.env.at(rest.since + (rest.until - rest.since), device.give_up)  # as `Party.recv` does
        rest.idle = True
        device.fall_asleep(rest)
        device.changed()

    def _report(self, device: Device, rest: Rest) -> None:
        """Report the wait of a client at rest to the taps."""
        waits, taps = self._resting, self._world.taps.waits
        if taps and rest.until is not None:
            left = rest.until - rest.since
            rest.wait = Wait(device.name, rest.step, rest.round, rest.attempt, waits.types, (waits.source,), left)
            for tap in taps:
                tap(self._world.loop.time(), rest.wait)

    def slept(self, device: Device) -> None:
        """Take note that the party of a `device` rests."""
        self.awake.pop(device.name, None)
        self.waiting += 1

    def woke(self, device: Device) -> None:
        """Take note that it does no more."""
        self.awake[device.name] = device
        self.waiting -= 1

    def rested_again(self, device: Device) -> None:
        """Take note that one rests in a world that was restored."""
        assert device.rest is not None
        self._report(device, device.rest)
        self.waiting += 1

    def restored(self, device: Device) -> None:
        """Take note that one is awake in a world that was restored."""
        self.awake[device.name] = device

    def fell(self) -> None:
        """Take note that one went down at rest."""
        self.waiting -= 1
