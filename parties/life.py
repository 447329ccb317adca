"""The lifecycle of a party, from its start until it ends or goes down.

A party that comes back is a new object of the same class, made with the same arguments: everything else in its memory
is lost. Its `Device` persists, with the disk and the `Observed` attributes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Generic, Self, TypeVar, cast, overload

from tacit.parties.device import Device
from tacit.parties.registered import Registered
from tacit.parties.rest import Rest
from tacit.sim.faults import Crashed
from tacit.sim.loop import own_party, own_step
from tacit.sim.wire import Packet
from tacit.sim.world import World

__all__ = ["IDLE", "Lifecycle", "Observed", "Present"]

IDLE = "between rounds"
"""The place at which a party rests while it waits for a round to begin."""


T = TypeVar("T")
P = TypeVar("P", bound="Lifecycle")


class Observed(Generic[T]):
    """An attribute of a party for observers of a run, stored with the device; its initial value comes from `make`.

    It survives a crash; therefore the party itself must not read it.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, party: None, owner: type) -> Self: ...
    @overload
    def __get__(self, party: "Lifecycle", owner: type) -> T: ...
    def __get__(self, party: "Lifecycle | None", owner: type) -> T | Self:
        if party is None:
            return self
        value: T = party.device.observed.setdefault(self._name, self._make())
        return value

    def of(self, device: Device) -> T:
        """The value for the party of a `device`, without making a resting party."""
        value: T = device.observed[self._name] if self._name in device.observed else self._make()
        return value

    def __set__(self, party: "Lifecycle", value: T) -> None:
        party.device.observed[self._name] = value


class _Joined(Mapping[str, Device]):
    """The devices in several dictionaries that have no name in common, in their order."""

    def __init__(self, parts: Sequence[Mapping[str, Device]]) -> None:
        self._parts = tuple(parts)

    def __getitem__(self, name: str) -> Device:
        for part in self._parts:
            if name in part:
                return part[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))


class Present(Mapping[str, P]):
    """Parties by name, each in its present incarnation. The state of resting parties is read from their `devices`."""

    def __init__(self, parties: Iterable[P | Registered[P]]) -> None:
        self.registered: list[Registered[P]] = []
        parts: list[dict[str, Device]] = []  # those of registered clients are not copied: there may be very many
        for one in [parties] if isinstance(parties, Registered) else parties:
            if isinstance(one, Registered):
                self.registered.append(one)
                parts.append(one.named)
            elif parts and not (self.registered and parts[-1] is self.registered[-1].named):
                parts[-1][one.name] = one.device
            else:
                parts.append({one.name: one.device})
        self.devices: Mapping[str, Device] = parts[0] if len(parts) == 1 else _Joined(parts)

    def __getitem__(self, name: str) -> P:
        return cast(P, self.devices[name].party)

    def __iter__(self) -> Iterator[str]:
        return iter(self.devices)

    def __len__(self) -> int:
        return len(self.devices)


class Lifecycle:
    """One incarnation of a party, under its `name`.

    `access` belongs to its `Device`, which the first incarnation makes.
    """

    _make: Callable[..., Self]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        self = super().__new__(cls)
        self._make = partial(cls, *arguments, **named)
        return self

    def __init__(self, world: World, name: str, *, device: Device | None = None, **access: Any) -> None:
        self.world = world
        self.name = name
        self.device: Device = device or Device(world, name, type(self), self, self._make, **access)
        self.idle = False
        self.finished = False
        self.place = ""  # where `main` waits so that it can be restarted there; "" anywhere else
        self.since = 0.0  # when it began to rest, in virtual seconds
        self._step = ""  # the latest step entered; tasks of one party may be in different ones
        self._task: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None

    @property
    def alive(self) -> bool:
        """True if the party has not crashed or left."""
        return self.device.endpoint.alive and self.device.runs(self)

    @property
    def paused(self) -> bool:
        """True while the party is paused."""
        return self.device.endpoint.paused

    @property
    def incarnation(self) -> int:
        """The number of the party's incarnation: 1, and one more each time it comes back."""
        return self.device.endpoint.incarnation

    @property
    def disk(self) -> dict[str, Any]:
        """The part of the party's state that survives a crash."""
        return self.device.disk

    @property
    def step_name(self) -> str:
        """The step that the party is in, or was in last."""
        return self._step

    async def main(self) -> None:
        """The party's program."""
        raise NotImplementedError(f"{type(self).__name__} has no program")

    def begin(self) -> None:
        """Begin `main`."""
        self.idle = self.finished = False
        self._task = self.world.loop.create_task(self._live(), name=self.name)

    def go_on(self, number: int) -> None:
        """Continue `main` of a party that was at rest, as task `number`."""
        self._task = self.world.loop.create_task_again(self._live(), self.name, number)

    def recall(self, rest: Rest) -> None:
        """Restore the state in which the party began to `rest`."""
        self.idle, self.finished, self.since, self._step = rest.idle, rest.finished, rest.since, rest.step
        self.place = IDLE if rest.idle else ""

    def end(self) -> None:
        """Cancel the program, because the device is down."""
        if self._task is not None:
            self._task.cancel()

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the party resumes; never if it goes down instead."""
        self.device.after_pause(call)

    def state(self) -> dict[str, Any]:
        """The state of a party that waits, has ended or is down, without its network access (`tacit.sim.snapshot`)."""
        names = ("idle", "finished", "place", "since", "_step")
        return {name: getattr(self, name) for name in names} | {"device": self.device.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`, instead of `begin`; a resting program is prepared to begin again."""
        fields = dict(state)
        self.device.restore(fields.pop("device"))
        for name, value in fields.items():
            setattr(self, name, value)

    def rest(self, idle: bool) -> None:
        """Record with `idle` true that the party only waits for a round to begin.

        A run ends when only idle parties are left.
        """
        self.idle = idle
        self.rest_at(IDLE if idle else "")
        self.device.changed()

    def rest_at(self, place: str) -> None:
        """Record that the party waits for a message at a `place` where `main` can be restarted; "": it no longer
        does."""
        self.place, self.since = place, self.world.loop.time()

    def check_alive(self) -> None:
        """Raise Crashed in a task of a party that is down, and in a task that belongs to an earlier incarnation."""
        device = self.device
        # `alive`, without its calls: each message asks several times.
        if not (device.endpoint.alive and device._party is self):
            raise Crashed(self.name)

    def receive(self, packet: Packet) -> None:
        """Process an arriving packet."""
        raise NotImplementedError(f"{type(self).__name__} receives nothing")

    async def _live(self) -> None:
        own_party.set(self.name)
        own_step.set("")
        try:
            await self.main()
        except asyncio.CancelledError:
            if self.alive:
                raise
        except (Exception, Crashed, BaseExceptionGroup) as error:
            if self.alive:  # what goes wrong in a party that is gone goes unnoticed
                self.failure = error
        finally:
            if self.alive:
                self.finished = True
                self.device.changed()
