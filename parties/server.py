"""The server, the message with which it excludes a client, and a server that plays several parts at the same time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from tacit.parties.life import Observed
from tacit.parties.party import Party
from tacit.parties.presence import Heartbeat, Presence
from tacit.sim.trace import Fact
from tacit.sim.wire import Message, Packet
from tacit.sim.world import World

__all__ = ["Dismissed", "Loss", "Room", "RoomsServer", "Server"]


class Dismissed(Message):
    """server -> client: this round continues without you, or is aborted; and the reason."""

    protocol: ClassVar[str] = "control"
    announces: ClassVar[bool] = True
    explains: ClassVar[bool] = True
    reason: str
    aborted: bool


class Loss(msgspec.Struct, frozen=True):
    """A lost party: the step in which it was missed, the reaction, the round and the time (seconds)."""

    party: str
    step: str
    action: str
    round: int = 0
    time: float = 0.0


class Server(Party):
    """The coordinating party. It knows the clients by name and keeps the list of lost ones.

    `observers` are called, in order, with its record of each round that has ended.
    """

    lost = Observed(list[Loss])
    observers = Observed(list[Callable[[Any], object]])

    groups: Sequence[tuple[str, ...]] = ()
    """The groups of clients with which it runs the protocol in parallel; empty if all clients are together."""

    def __init__(self, world: World, clients: Iterable[str], name: str = "server", **access: Any) -> None:
        super().__init__(world, name, **access)
        self.clients = tuple(clients)
        self.presence = None if world.watching is None else Presence(self, self.clients, world.watching)
        if self.presence is not None:
            world.watchers[name] = self.device.see

    @property
    def present(self) -> tuple[str, ...]:
        """The clients that are not known to be gone, in their order."""
        gone = () if self.presence is None else self.presence.gone
        return tuple(name for name in self.clients if name not in gone) if gone else self.clients

    def are_gone(self, sources: dict[str, None], over: Callable[[], bool] | None = None) -> bool:
        if self.presence is None or not self.presence.gone:
            return False
        if over is not None and not self.presence.gone.keys().isdisjoint(sources):
            return over()
        return self.presence.all_gone(sources)

    def receive(self, packet: Packet) -> None:
        if self.presence is not None:
            self.presence.hear(packet.sender)
            if packet.type == Heartbeat.__name__:
                return
        super().receive(packet)

    def state(self) -> dict[str, Any]:
        return super().state() | ({} if self.presence is None else {"presence": self.presence.state()})

    def restore(self, state: dict[str, Any]) -> None:
        fields = dict(state)
        if self.presence is not None:
            self.presence.restore(fields.pop("presence"))
        super().restore(fields)

    def lose(self, parties: Iterable[str], action: str, step: str = "") -> None:
        """Record `parties` as lost in `step`, by default the current one, with the reaction to it."""
        step = step or self.step_name
        for party in parties:
            self.lost.append(Loss(party, step, action, self.round, self.world.loop.time()))
            origin = "", self.round, self.attempt
            self.world.note(
                "metric", party, step=step, note=f"lost: {action}", origin=origin, fact=Fact.LOST, detail=action
            )

    def report(self, record: Any) -> None:
        """Pass the `record` of a round that has ended to the observers."""
        for observer in self.observers:
            observer(record)

    def dismiss(self, parties: Iterable[str], reason: str, *, aborted: bool = False) -> None:
        """Send `parties` the message that they are excluded from this round."""
        for party in parties:
            self.send(party, Dismissed(str(reason), aborted))  # a text with facts is sent as a text

    def broadcast(self, parties: Iterable[str], message: Message) -> None:
        """Send `message` to each of `parties`."""
        self.send_each(parties, message)


# --- several parts at the same time, each with a separate round and attempt


class Room(Server):
    """The server's part in one group of `clients`: a separate round, attempt and mailbox, on the device of the `main`
    one.

    It acts as the server: under its name, with its network access and its cores, and until it goes down.
    """

    def __init__(self, main: "RoomsServer", clients: Iterable[str]) -> None:
        self._main = main
        super().__init__(main.world, clients, main.name, device=main.device)
        self.presence = main.presence

    @property
    def alive(self) -> bool:
        return self._main.alive

    def check_alive(self) -> None:
        self._main.check_alive()

    @property
    def _step(self) -> str:
        return self._own_step

    @_step.setter
    def _step(self, name: str) -> None:
        self._own_step = self._main._step = name

    def advance(self, round_number: int, attempt: int) -> None:
        super().advance(round_number, attempt)
        self._main.round = max(self._main.round, self.round)

    def awaited(self) -> str:
        """The wait in words; "" without a wait."""
        return self._mailbox.awaited


class RoomsServer(Server):
    """A server that passes messages of clients to their rooms; without rooms it is like any other server."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._rooms: Mapping[str, Room] = {}

    def open_rooms(self, rooms: Iterable[Room]) -> None:
        """Pass messages from the clients of each of `rooms` to their room from now on."""
        self._rooms = {name: room for room in rooms for name in room.clients}
        self.world.loop.waits[self.name] = self._awaited  # which the rooms have taken over

    @property
    def waits_for(self) -> tuple[str, ...]:
        rooms = dict.fromkeys(self._rooms.values())
        return tuple(name for room in rooms for name in room.waits_for) or super().waits_for

    def _awaited(self) -> str:
        if not self._rooms or not self.alive or self.finished:
            return super()._awaited()
        waits = [room.awaited() for room in dict.fromkeys(self._rooms.values())]
        return f"{'; '.join(filter(None, waits)) or 'nothing that it names'} (in {self._step or 'no step'})"

    def wake_waits_for(self, source: str) -> None:
        room = self._rooms.get(source)
        if room is None:
            super().wake_waits_for(source)
        else:
            room.wake_waits_for(source)

    def receive(self, packet: Packet) -> None:
        room = self._rooms.get(packet.sender)
        if room is None:
            super().receive(packet)
        else:
            room.receive(packet)
