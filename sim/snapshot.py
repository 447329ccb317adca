"""A world between two moments as plain data, and a world like it that goes on from there, to the last bit.

It holds the clock, both hashes, the ledger, what faults have done and will do, every packet on its way and where each
random stream stands. It does not hold programs: each party that is there must have come to a place where it can be
started anew (`parties.party`), and no job may be under way.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import simpy
from simpy.resources.base import Get, Put

from sim.barriers import Barrier
from sim.faults import Fired
from sim.journey import Journey
from sim.loop import Timer
from sim.plain import NotPlain, Reader, Writer
from sim.transport import _Connection, _Item
from sim.wire import Frame, LedgerRow, Packet
from sim.world import World

__all__ = ["NotPlain", "Snapshot"]

_KINDS: dict[str, type] = {
    kind.__name__.lstrip("_"): kind
    for kind in (Barrier, Fired, Frame, LedgerRow, Packet, Timer, _Connection, _Item, Journey)
}


class Snapshot:
    """Takes and takes up worlds; `parties` are named in calls that wait, `kinds` are more classes of plain fields."""

    def __init__(self, world: World, parties: Mapping[str, object], kinds: tuple[type, ...] = ()) -> None:
        self._world = world
        self._parties = {f"party {name}": party for name, party in parties.items()}
        self._kinds = _KINDS | {kind.__name__: kind for kind in kinds}
        self._to_come: list[tuple[float, Any]] = []
        self._births = 0

    def take(self, rest: Any, waits: Mapping[str, Timer]) -> tuple[dict[str, Any], list[Frame | Packet]]:
        """The world and the `rest`, whatever its owner wants to find again; and the messages that are in it.

        `waits` are timers of those who are started anew, by party. Raises NotPlain where something goes on that cannot
        be told.
        """
        world, env = self._world, self._world.loop.env
        if not world.loop.is_still:
            raise NotPlain("something else happens at this moment")
        names = {id(timer): name for name, timer in waits.items()}
        writer = Writer(self._known(), self._kinds)
        told = writer.tell(
            {
                "trace": world.trace.state(),
                "ledger": world.ledger.rows(),
                "faults": world.faults.state(),
                "computing": world.computing.state(),
                "network": world.network.state(),
                "to come": [
                    (when, names.get(id(event), event)) for when, event in env.to_come() if not _is_idle(event)
                ],
                "rest": rest,
            }
        )
        state = {
            "now": world.loop.time(),
            "births": world.loop.births,
            "run": world.run_id,
            "links": [list(ends) for ends in world.network.ends()],
            "told": told,
            "objects": writer.objects,
        }
        return state, [one for one in writer.seen if isinstance(one, Frame | Packet)]

    def take_up(self, state: dict[str, Any]) -> Any:
        """Set a world that has not begun to `state`, all but what is to come; returns the rest.

        Raises LookupError, TypeError, ValueError or AttributeError for a state that is none.
        """
        world, env = self._world, self._world.loop.env
        world.network.connect((near, far) for near, far in state["links"])
        make: dict[type, Callable[[], Any]] = {Timer: lambda: Timer(env, lambda: None)}
        its = Reader(self._known(), self._kinds, state["objects"], make).read(state["told"])
        world.run_id = state["run"]
        world.trace.take_up(its["trace"])
        world.ledger.take_up(its["ledger"])
        world.faults.take_up(its["faults"])
        world.computing.take_up(its["computing"])
        world.network.take_up(its["network"])
        env.set_clock(state["now"])
        self._to_come, self._births = its["to come"], state["births"]
        return its["rest"]

    async def schedule(self, begin: Callable[[str], Awaitable[None]]) -> None:
        """Let what is to come be so, in the old order; `begin` starts a party so that its timer is there."""
        env = self._world.loop.env
        now = env.now
        for when, what in self._to_come:
            if isinstance(what, str):
                await begin(what)
                env.set_clock(now)
            else:
                env.put(when, what)

    def forget_births(self) -> None:
        """Number tasks on from where the world was broken off."""
        self._world.loop.births = self._births

    def _known(self) -> dict[str, object]:
        return self._world.network.parts() | self._world.faults.all | self._parties


def _is_idle(event: simpy.Event) -> bool:
    """Whether nobody waits for what happens then: a core was given back that nobody asks for."""
    return isinstance(event, Get | Put) and not (event.resource.put_queue or event.resource.get_queue)
