"""Snapshots of a world as plain data, and restored worlds that continue from them bit for bit.

It contains the clock, both hashes, the ledger, past and future faults, every packet in flight and the state of each
random stream. It does not contain programs: each party that is up must be at a place where its program can be restarted
(`tacit.parties.party`), and no job may be running.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from msgspec.structs import astuple

from tacit.sim.access import _Leaving
from tacit.sim.clock import Timer
from tacit.sim.conditions import Barrier
from tacit.sim.endpoint import Endpoint
from tacit.sim.faults import Fired
from tacit.sim.link import Chunk, Passage
from tacit.sim.network import Journey
from tacit.sim.plain import Named, NotPlain, Reader, Writer
from tacit.sim.tcp import Flow, Sending, Window
from tacit.sim.transport import _Connection, _Crossing, _Item
from tacit.sim.wire import Frame, LedgerRow, Packet
from tacit.sim.world import World

__all__ = ["NotPlain", "Snapshot"]

_KINDS: dict[str, type] = {
    kind.__name__.lstrip("_"): kind
    for kind in (
        Barrier, Fired, Frame, Packet, Timer, _Connection, _Item, Journey, Passage, _Crossing, Chunk, _Leaving, Flow,
        Sending, Window,
    )
}  # fmt: skip


class _Known(Named):
    """The parts of a world that exist again in the restored one: `few` by name, endpoints and `parties`.

    Endpoints and parties are found by their own names, because there may be very many.
    """

    def __init__(
        self, few: Mapping[str, object], endpoints: Mapping[str, object], parties: Mapping[str, object]
    ) -> None:
        self._few = few
        self._names = {id(value): name for name, value in few.items()}
        self._named = {_ENDPOINT: endpoints, _PARTY: parties}

    def name_of(self, value: object) -> str | None:
        kind = _ENDPOINT if isinstance(value, Endpoint) else _PARTY
        name = getattr(value, "name", None)
        if isinstance(name, str) and self._named[kind].get(name) is value:
            return kind + name
        return self._names.get(id(value))

    def __getitem__(self, name: str) -> object:
        for kind, named in self._named.items():
            if name.startswith(kind):
                return named[name.removeprefix(kind)]
        return self._few[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._few
        for kind, named in self._named.items():
            yield from (kind + name for name in named)

    def __len__(self) -> int:
        return len(self._few) + sum(map(len, self._named.values()))


_ENDPOINT, _PARTY = "endpoint ", "party "


class Snapshot:
    """Stores and restores worlds; `parties` are named in pending calls, `kinds` are more classes of plain fields."""

    def __init__(self, world: World, parties: Mapping[str, object], kinds: tuple[type, ...] = ()) -> None:
        self._world = world
        self._parties = parties
        self._kinds = _KINDS | {kind.__name__: kind for kind in kinds}
        self._to_come: list[tuple[float, Any]] = []
        self._task_count = 0

    def take(
        self, parties: Iterable[tuple[str, Any]], rest: Any, waits: Mapping[int, str], spill: BinaryIO | None = None
    ) -> tuple[dict[str, Any], list[Frame | Packet]]:
        """Store the world, the states of `parties` by name, and `rest`, any data of the caller. Returns the state and
        the messages in flight.

        `waits` are the parties that are restarted, by the `id` of the timer of each. What there is much of is written
        to the file `spill`, if given, and the state only refers to it (`tacit.sim.plain.pieces`). Raises NotPlain if a
        pending activity is not storable.
        """
        world, env = self._world, self._world.loop.env
        if not world.loop.is_still:
            raise NotPlain("something else happens at this moment")
        writer = Writer(self._known(), self._kinds, spill)
        network = world.network.state()
        state = {
            "now": world.loop.time(),
            "tasks": world.loop.task_count,
            "run": world.run_id,
            "links": [list(ends) for ends in world.network.ends()],
            "parties": writer.entries(parties),
            "ledger": writer.rows(map(astuple, world.ledger.rows())),
            "draws": writer.rows(network.pop("draws")),
            "to come": writer.rows(
                (when, waits.get(id(event)) or writer.write(event)) for when, event in env.to_come()
            ),
            "world": writer.write(
                {
                    "trace": world.trace.state(),
                    "faults": world.faults.state(),
                    "computing": world.computing.state(),
                    "network": network,
                    "rest": rest,
                }
            ),
            "objects": writer.objects,
        }
        return state, [one for one in writer.seen if isinstance(one, Frame | Packet)]

    def restore(self, state: dict[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """Set a world that has not begun to `state`, except for future events; return the states of the parties and
        the caller's `rest`.

        Raises LookupError, TypeError, ValueError or AttributeError if `state` is invalid.
        """
        world, env = self._world, self._world.loop.env
        world.network.connect((near, far) for near, far in state["links"])
        make: dict[type, Callable[[], Any]] = {Timer: lambda: Timer(env, lambda: None)}
        reader = Reader(self._known(), self._kinds, state["objects"], make)
        stored, draws, to_come = (reader.read(state[name]) for name in ("world", "draws", "to come"))
        world.run_id = state["run"]
        world.trace.restore(stored["trace"])
        world.ledger.restore(LedgerRow(*fields) for fields in reader.read(state["ledger"]))
        world.faults.restore(stored["faults"])
        world.computing.restore(stored["computing"])
        world.network.restore(stored["network"] | {"draws": draws})
        env.set_clock(state["now"])
        self._to_come, self._task_count = to_come, state["tasks"]
        return reader.read(state["parties"]), stored["rest"]

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

    def _known(self) -> _Known:
        network = self._world.network
        return _Known(network.parts() | self._world.faults.all, network.endpoints, self._parties)
