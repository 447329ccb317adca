"""A server that plays several parts at the same time, each with a separate round and attempt."""

from collections.abc import Iterable, Mapping
from typing import Any

from tacit.parties.server import Server
from tacit.sim.wire import Packet

__all__ = ["Room", "RoomsServer"]


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
