"""The server, and the message with which it excludes a client."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from tacit.parties.life import Observed
from tacit.parties.party import Party
from tacit.parties.presence import Heartbeat, Presence
from tacit.sim.trace import Fact
from tacit.sim.wire import Message, Packet
from tacit.sim.world import World

__all__ = ["Dismissed", "Loss", "Server"]


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

    def lose(self, parties: Iterable[str], action: str) -> None:
        """Record `parties` as lost in the current step, with the reaction to it."""
        for party in parties:
            self.lost.append(Loss(party, self.step_name, action, self.round, self.world.loop.time()))
            origin = "", self.round, self.attempt
            note = f"lost: {action}"
            self.world.note(
                "metric", party, step=self.step_name, note=note, origin=origin, fact=Fact.LOST, detail=action
            )

    def report(self, record: Any) -> None:
        """Pass the `record` of a round that has ended to the observers."""
        for observer in self.observers:
            observer(record)

    def dismiss(self, parties: Iterable[str], reason: str, *, aborted: bool = False) -> None:
        """Send `parties` the message that they are excluded from this round."""
        for party in parties:
            self.send(party, Dismissed(reason, aborted))

    def broadcast(self, parties: Iterable[str], message: Message) -> None:
        """Send `message` to each of `parties`."""
        self.send_each(parties, message)
