"""A server that lies about who is present: it says that a living client is gone, or that a lost one is there.

The production server acts on what its `Presence` says. From a chosen message on, that is a lie about one client: the
server no longer hears it (`gone`), does not notice that its machine has failed (`alive`), or goes on to state the
incarnation before its machine has failed and come back (`old`). Clients know nothing of presence, so the promises of a
sum must hold whatever the server says: no smaller set than allowed, and no second answer.
"""

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

from tacit.parties.presence import Presence
from tacit.scenarios.chaos.server_lies import OF_PRESENCE, Lie, Move
from tacit.sim.conditions import HEARTBEAT, Watching
from tacit.sim.wire import Packet

__all__ = ["deceive", "watching_of"]

_WATCHING = Watching(HEARTBEAT, 5.0, 3)


def watching_of(program: Iterable[Lie | Move]) -> Watching | None:
    """How the server of `program` watches its clients; None if it does not lie about them."""
    return _WATCHING if any(one.kind in OF_PRESENCE for one in program) else None


def deceive(server: Any, kind: str, client: str, machine: Any) -> None:
    """Let `server` believe from now on what the lie of this `kind` says of `client`, whose party is `machine`."""
    if not isinstance(server.presence, _Lying):
        server.presence = _Lying(server, server.clients, _WATCHING)
    if kind == "gone":
        server.presence.denied.add(client)
        server.receive = partial(_unless_denied, server.presence.denied, server.receive)
        server.presence.check()
        return
    machine.device.crash()
    if kind == "alive":
        server.presence.believed.add(client)
    else:
        server.incarnations = _Stale(server.incarnations, client)
        machine.device.rejoin()


def _unless_denied(denied: Container[str], receive: Callable[[Packet], None], packet: Packet) -> None:
    """Receive a packet, unless its sender is said to be gone; the judge sees all packets."""
    if packet.sender not in denied:
        receive(packet)


class _Lying(Presence):
    """The presence of a server that lies: `denied` clients are gone for it, and `believed` ones are there."""

    def __init__(self, server: Any, clients: Iterable[str], watching: Watching) -> None:
        super().__init__(server, clients, watching)
        self.denied: set[str] = set()
        self.believed: set[str] = set()

    def hear(self, party: str) -> None:
        if party not in self.denied:
            super().hear(party)

    def check(self) -> None:
        for client in self.believed:
            super().hear(client)
        super().check()
        for client in sorted(self.denied):
            self._note_gone(client, "a lie of the server")


class _Stale(dict[str, int]):
    """Incarnations of which that of one client stays as it is."""

    def __init__(self, known: dict[str, int], client: str) -> None:
        super().__init__(known)
        self._client = client

    def __setitem__(self, name: str, incarnation: int) -> None:
        if name != self._client or name not in self:
            super().__setitem__(name, incarnation)
