"""Snapshots of parties between two rounds as plain data, and restored parties that continue from them.

When the coordinator has just ended a round, each other party must be down, have ended, or rest where its program can be
restarted. Everything else (messages in flight, future faults) may be in any state: see `tacit.sim.snapshot`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from tacit.parties.device import Device
from tacit.parties.life import IDLE, Present
from tacit.parties.party import Party
from tacit.parties.registered import Registered
from tacit.sim.snapshot import NotPlain, Snapshot
from tacit.sim.world import World

__all__ = ["BrokenOff"]


class BrokenOff:
    """Stores and restores the `parties` of a `world`; `kinds` are classes of plain fields that they hold."""

    def __init__(
        self, world: World, parties: Sequence[Party | Registered[Any]], coordinator: Party, kinds: tuple[type, ...] = ()
    ) -> None:
        self._world, self._coordinator, self._parties = world, coordinator, Present(parties)
        self._snapshot = Snapshot(world, self._parties.devices, kinds)
        self._longer = 0.0

    def take(self, rest: Any, spill: BinaryIO | None = None) -> dict[str, Any]:
        """Store the world, the parties, and the caller's `rest`; for `spill` see `tacit.sim.snapshot.Snapshot.take`.

        Raises NotPlain if a party is in the middle of an activity.
        """
        waits = dict[int, str]()
        for name, device in self._parties.devices.items():
            if device.rest is not None:
                if device.alive and device.rest.timer is None:
                    raise NotPlain(f"{name} is about to begin")
                if device.rest.timer is not None:
                    waits[id(device.rest.timer)] = name
                continue
            party = self._parties[name]
            if name == self._coordinator.name:
                if party.paused or not party.alive:
                    raise NotPlain(f"{name} does not go on")
            elif party.alive and not party.finished:
                if (timer := party.rest_timer) is None:
                    raise NotPlain(f"{name} is in {party.step_name or 'no step'}")
                waits[id(timer)] = name
        states = ((name, device.program_state()) for name, device in self._parties.devices.items())
        stored, messages = self._snapshot.take(states, rest, waits, spill)
        for message in messages:
            if self._parties.devices[message.receiver].rest is not None:
                continue
            receiver = self._parties[message.receiver]
            if receiver.place not in ("", IDLE) and message.type in receiver.needs(receiver.place):
                raise NotPlain(f"{receiver.name} is to get {message.type}")
        return stored

    def restore(self, state: dict[str, Any], longer: float = 0.0) -> Any:
        """Set the parties of a world that has not begun to `state`; return the caller's rest.

        `longer`: the virtual seconds by which parties that wait for calls wait longer than stored. For errors see
        `Snapshot`.
        """
        states, rest = self._snapshot.restore(state)
        self._longer = longer
        for name, device in self._parties.devices.items():
            device.restore_program(states[name])
            waiting: Any = device.party if device.rest is None else device.rest
            if longer and getattr(waiting, "until", None) is not None:
                waiting.until += longer
        return rest

    async def begin(self, watcher: Callable[[Device], None]) -> None:
        """Start all parties, for `play`; the coordinator continues with its next round."""
        count = self._world.trace.count

        async def begin_again(name: str, when: float) -> None:
            device = self._parties.devices[name]
            if device.rest is not None:
                self._world.loop.env.set_clock(device.rest.since)
                device.rest_again(when + self._longer)
                return
            party = self._parties[name]
            self._world.loop.env.set_clock(party.since)
            party.device.begin_again()
            await asyncio.sleep(0)
            party.device.stand_still_again()
            timer = party.rest_timer if device.rest is None else device.rest.timer
            if timer is None or self._world.trace.count != count:
                raise RuntimeError(f"{name} does not rest at {party.place!r} as it did")

        for device in self._parties.devices.values():
            device.watcher = watcher
        await self._snapshot.schedule(begin_again)
        self._coordinator.device.begin_again()
        self._snapshot.restore_task_count()
