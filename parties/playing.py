"""Runs parties until none has anything left to do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tacit.parties.device import Device
from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.parties.registered import Registered

__all__ = ["Begin", "play", "play_out"]

Begin = Callable[[Callable[[Device], None]], Awaitable[None]]


async def play(parties: Sequence[Party | Registered[Any]], coordinator: Party, begin: Begin | None = None) -> None:
    """Run all `parties` until the `coordinator` has ended and each of the others has ended, is down, or is idle.

    Raises the error of the first party, in order, whose program raised. The loss of the coordinator is no error: the
    others end by their deadlines. `begin` starts restored parties, instead of `start`.
    """
    changed, latest, present = asyncio.Event(), dict[str, Device](), Present(parties)

    lead = coordinator.device

    def watch(device: Device) -> None:
        # While the coordinator works, only an error of another party matters: clients rest and wake all the time.
        is_over = device is lead or not lead.alive or lead.finished
        if is_over or (device.rest is None and device.party.failure is not None):
            latest[device.name] = device
            changed.set()

    always = [party.device for party in parties if not isinstance(party, Registered)]
    if begin is not None:
        await begin(watch)
    else:
        for device in present.devices.values():
            device.start(watch)
    while True:
        changes = [device.party for device in latest.values() if device.rest is None]
        latest.clear()
        failed = {party.name: party.failure for party in changes if party.failure is not None}
        for name in present if failed else ():
            if name in failed:
                raise failed[name]
        head = present[coordinator.name]
        if head.finished or not head.alive:
            awake = [device.party for device in always]
            for some in present.registered:
                awake += [device.party for device in some.awake.values() if device.rest is None]
            over = all(not party.alive or party.finished or (party.idle and head.alive) for party in awake)
            if over and (head.alive or not any(some.waiting for some in present.registered)):
                return
        await changed.wait()
        changed.clear()


def play_out(parties: Sequence[Party]) -> None:
    """Run `play` with the `parties`, whose first one is the coordinator, in their world, and close the world's loop."""
    loop = parties[0].world.loop
    try:
        loop.run(play(parties, parties[0]))
    finally:
        loop.finish()
