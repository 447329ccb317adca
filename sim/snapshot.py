"""Snapshots of a world as plain data, and restored worlds that continue from them bit for bit.

It contains the clock, both hashes, the ledger, past and future faults, every packet in flight and the state of each
random stream. It does not contain programs: each party that is up must be at a place where its program can be restarted
(`tacit.parties.party`), and no job may be running.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tacit.sim.barriers import Barrier
from tacit.sim.clock import Timer
from tacit.sim.faults import Fired
from tacit.sim.journey import Journey
from tacit.sim.plain import NotPlain, Reader, Writer
from tacit.sim.tcp_flow import Flow, Sending
from tacit.sim.tcp_window import Window
from tacit.sim.transport import _Connection, _Item
from tacit.sim.wire import Frame, LedgerRow, Packet
from tacit.sim.world import World

__all__ = ["NotPlain", "Snapshot"]

_KINDS: dict[str, type] = {
    kind.__name__.lstrip("_"): kind
    for kind in (Barrier, Fired, Frame, LedgerRow, Packet, Timer, _Connection, _Item, Journey, Flow, Sending, Window)
}


class Snapshot:
    """Stores and restores worlds; `parties` are named in pending calls, `kinds` are more classes of plain fields."""

    def __init__(self, world: World, parties: Mapping[str, object], kinds: tuple[type, ...] = ()) -> None:
        self._world = world
        self._parties = {f"party {name}": party for name, party in parties.items()}
        self._kinds = _KINDS | {kind.__name__: kind for kind in kinds}
        self._to_come: list[tuple[float, Any]] = []
        self._task_count = 0

    def take(self, rest: Any, waits: Mapping[str, Timer]) -> tuple[dict[str, Any], list[Frame | Packet]]:
        """Store the world, and `rest`, any data of the caller. Returns the state and the messages in flight.

        `waits` are the timers of the parties that are restarted. Raises NotPlain if a pending
        activity is not storable.
        """
        world, env = self._world, self._world.loop.env
        if not world.loop.is_still:
            raise NotPlain("something else happens at this moment")
        names = {id(timer): name for name, timer in waits.items()}
        writer = Writer(self._known(), self._kinds)
        stored = writer.write(
            {
                "trace": world.trace.state(),
                "ledger": world.ledger.rows(),
                "faults": world.faults.state(),
                "computing": world.computing.state(),
                "network": world.network.state(),
                "to come": [(when, names.get(id(event), event)) for when, event in env.to_come()],
                "rest": rest,
            }
        )
        state = {
            "now": world.loop.time(),
            "births": world.loop.task_count,
            "run": world.run_id,
            "links": [list(ends) for ends in world.network.ends()],
            "told": stored,
            "objects": writer.objects,
        }
        return state, [one for one in writer.seen if isinstance(one, Frame | Packet)]

    def restore(self, state: dict[str, Any]) -> Any:
        """Set a world that has not begun to `state`, except for future events; return the caller's `rest`.

        Raises LookupError, TypeError, ValueError or AttributeError if `state` is invalid.
        """
        world, env = self._world, self._world.loop.env
        world.network.connect((near, far) for near, far in state["links"])
        make: dict[type, Callable[[], Any]] = {Timer: lambda: Timer(env, lambda: None)}
        stored = Reader(self._known(), self._kinds, state["objects"], make).read(state["told"])
        world.run_id = state["run"]
        world.trace.restore(stored["trace"])
        world.ledger.restore(stored["ledger"])
        world.faults.restore(stored["faults"])
        world.computing.restore(stored["computing"])
        world.network.restore(stored["network"])
        env.set_clock(state["now"])
        self._to_come, self._task_count = stored["to come"], state["births"]
        return stored["rest"]

    async def schedule(self, begin: Callable[[str, float], Awaitable[None]]) -> None:
        """Schedule the future events in their old order. `begin` starts a party, so that its timer exists."""
        env = self._world.loop.env
        now = env.now
        for when, what in self._to_come:
            if isinstance(what, str):
                await begin(what, when)
                env.set_clock(now)
            else:
                env.put(when, what)

    def restore_task_count(self) -> None:
        """Continue the numbering of tasks from the snapshot."""
        self._world.loop.task_count = self._task_count

    def _known(self) -> dict[str, object]:
        return self._world.network.parts() | self._world.faults.all | self._parties
