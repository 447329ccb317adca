"""All parties of a world at work, until its coordinator has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from parties.life import Present
from parties.party import Party
from parties.registered import Registered

__all__ = ["Begin", "play", "play_out"]

Begin = Callable[[Callable[[], None]], Awaitable[None]]


async def play(parties: Sequence[Party | Registered[Any]], coordinator: Party, begin: Begin | None = None) -> None:
    """Run all `parties` until the `coordinator` has ended and each of the others has ended, is down, or is idle.

    Raises the error of the first party, in order, whose program raised. A lost coordinator is no error: the others end
    by their deadlines. `begin` starts restored parties, in place of `start`.
    """
    changed, present = asyncio.Event(), Present(parties)
    always = [party.device for party in parties if not isinstance(party, Registered)]
    if begin is not None:
        await begin(changed.set)
    else:
        for device in present.devices.values():
            device.start(changed.set)
    while True:
        awake = [device.party for device in always]
        for some in present.registered:
            awake += [device.party for device in some.awake.values() if device.rest is None]
        failed = {party.name: party.failure for party in awake if party.failure is not None}
        for name in present if failed else ():
            if name in failed:
                raise failed[name]
        head = present[coordinator.name]
        if not head.finished and head.alive:
            pass
        elif all(not party.alive or party.finished or (party.idle and head.alive) for party in awake) and (
            head.alive or not any(some.waiting for some in present.registered)
        ):
            return
        await changed.wait()
        changed.clear()


def play_out(parties: Sequence[Party]) -> None:
    """`play` the `parties`, of which the first is the coordinator, in their world, which ends with it."""
    loop = parties[0].world.loop
    try:
        loop.run(play(parties, parties[0]))
    finally:
        loop.finish()
