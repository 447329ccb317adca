"""Registered clients, most of which rest at any time: a client is made when something concerns it, and freed when it
rests.

A client that waits for a round is stored as a `Rest`: the place of its program, and its timer. Messages, faults and the
end of its patience make a party of it that continues as if it had waited all the time, so that no result of a run
depends on it. As after a crash, its `tacit.parties.device.Device` persists.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

    `access` maps a name to the access of its device, as `tacit.parties.device.Device` takes it. `named` are all devices
    by name, `awake` those of clients that are not at rest, `waiting` is the number of resting clients that have not
    ended or gone down, `made` is the number of parties made so far.
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
        self.named = {name: Device(world, name, kind, factory=self, **access(name)) for name in names}
        self.devices = list(self.named.values())
        for one, following in pairwise(self.devices):
            following.share(one)
        self._latest: list[Any] = []  # devices that begin in one call of the loop, each with its rest
        self._call: asyncio.Handle | None = None  # that call
        self._since, self._until, self._due = math.nan, math.nan, math.nan  # of the rest that began last
        self._sources = (resting.source,)

    def __len__(self) -> int:
        return len(self.devices)

    @overload
    def __getitem__(self, number: int) -> P: ...
    @overload
    def __getitem__(self, number: slice) -> list[P]: ...
    def __getitem__(self, number: int | slice) -> P | list[P]:
        """The party in its present incarnation; a resting one is made for the access."""
        if isinstance(number, slice):
            return [device.party for device in self.devices[number]]
        party: P = self.devices[number].party
        return party

    def __iter__(self) -> Iterator[P]:
        return (device.party for device in self.devices)

    def make(self, device: Device) -> P:
        """Make the party of a `device`."""
        self.made += 1
        return self._make(device.name, device)

    def begin(self, device: Device) -> None:
        """Begin a program by a rest that represents its first moment."""
        self.awake.pop(device.name, None)
        loop = self._world.loop
        device.rest = Rest(number=loop.task_count)
        loop.task_count += 1
        if self._call is None or not loop.is_last(self._call):
            self._latest = []
            self._call = loop.call_soon(self._first_rests, self._latest)
        self._latest += (device, device.rest)  # at once after the others: one call for all takes a tenth of the memory

    def _first_rests(self, begun: list[Any]) -> None:
        self._call, self._latest = None, []
        for device, rest in zip(begun[::2], begun[1::2], strict=True):
            self._first_rest(device, rest)

    def _first_rest(self, device: Device, rest: Rest) -> None:
        if device.rest is not rest or not device.endpoint.alive:  # it went down before it did anything
            return
        world, waits = self._world, self._resting
        now = world.loop.time()
        if self._since != now:  # the same numbers for all that begin at one time
            self._since, self._until = now, now + waits.patience
            self._due = now + (self._until - now)  # as `Party.recv` does
        rest.since, rest.until = self._since, self._until
        self._report(device, rest)
        rest.timer = world.loop.env.at(self._due, device.give_up)
        rest.idle = True
        device.fall_asleep(rest)
        device.changed()

    def _report(self, device: Device, rest: Rest) -> None:
        """Report the wait of a client at rest to the taps."""
        waits, taps = self._resting, self._world.taps.waits
        if taps and rest.until is not None:
            left = rest.until - rest.since
            began = self._world.loop.time()
            rest.wait = Wait(
                device.name, rest.step, rest.round, rest.attempt, waits.types, self._sources, left, began=began
            )
            for tap in taps:
                tap(began, rest.wait)

    def slept(self, device: Device) -> None:
        """Record that the party of a `device` rests."""
        self.awake.pop(device.name, None)
        self.waiting += 1

    def woke(self, device: Device) -> None:
        """Record that the party of a `device` no longer rests."""
        self.awake[device.name] = device
        self.waiting -= 1

    def rested_again(self, device: Device) -> None:
        """Record that the party of a `device` rests in a restored world."""
        assert device.rest is not None
        self._report(device, device.rest)
        self.waiting += 1

    def restored(self, device: Device) -> None:
        """Record that the party of a `device` is awake in a restored world."""
        self.awake[device.name] = device

    def fell(self) -> None:
        """Record that a resting party went down."""
        self.waiting -= 1
