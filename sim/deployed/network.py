"""The network of one deployed party: it sends packets over its line, and delivers or relays those that arrive.

The ledger and the trace record the same as in the simulator; each process records what it sends, relays and receives. A
message's number is unique for its sender: it combines the incarnation and a running number.
"""

from collections.abc import Callable
from typing import Any

from tacit.sim.conditions import Conditions
from tacit.sim.deployed.records import Carry
from tacit.sim.endpoint import Endpoint
from tacit.sim.handling import Handling
from tacit.sim.loop import SimLoop
from tacit.sim.machine import Host
from tacit.sim.network import LinkNetwork
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Trace
from tacit.sim.wire import Ledger, Packet, WireError, packet_of

__all__ = ["DOWN", "DeployedEndpoint", "DeployedNetwork", "Line"]

DOWN = "the receiver is down"
_INCARNATION = 32
"""The bits of a message's number below the sender's incarnation."""

Line = Callable[[str, Carry], bool]
"""Sends a record to a party over its connection, or to the server, which relays it; returns false without a connection.
"""


class DeployedEndpoint(Endpoint):
    """A party's access to the network. `on_fall` is called when the party goes down."""

    __slots__ = ("on_fall",)

    def __init__(self, env: Any, name: str, receive: Callable[[Packet], None]) -> None:
        super().__init__(env, name, receive)
        self.on_fall: Callable[[], object] | None = None

    def fall(self) -> None:
        if self.on_fall is not None:
            self.on_fall()
        super().fall()


class DeployedNetwork(LinkNetwork):
    """The network as `me` sees it, in a star around `hub`. `line` sends its records."""

    def __init__(self, loop: SimLoop, trace: Trace, ledger: Ledger, taps: Taps, me: str, line: Line) -> None:
        super().__init__(loop, trace, ledger, 0, Conditions(), taps=taps)
        self._me, self._line = me, line
        self._sent = 0
        self.receiving: Callable[[str], bool] = lambda name: False  # whether a part of a record arrives from it
        self._latest: dict[str, int] = {}  # the number of each sender's last message here

    def attach(
        self, name: str, receive: Callable[[Packet], None], up: float = 0.0, down: float = 0.0,
        handling: Handling | None = None, host: Host | None = None,
    ) -> Endpoint:  # fmt: skip
        """Add a party. Its bandwidth and handling time are ignored: the real network and machine determine them."""
        if name in self._endpoints:
            raise ValueError(f"two parties are called {name}")
        endpoint = self._endpoints[name] = DeployedEndpoint(self._loop.env, name, receive)
        return endpoint

    def is_under_way(self, sender: str, receiver: str) -> bool:
        return self.receiving(sender)

    def signal(self, sender: str, receiver: str, call: Callable[[], object]) -> None:
        """Do nothing: the operating system closes the real connection when the process ends."""

    def absent(self) -> dict[str, int]:
        """Return no parties: a restarted server sees which clients connect."""
        return {}

    def retire(self, name: str) -> None:
        """Do nothing: there are no simulated links to free."""

    def send(self, packet: Packet) -> None:
        """Send `packet` and return immediately."""
        for tap in self._taps.sent:
            tap(packet)
        self._sent += 1
        number = packet.incarnation << _INCARNATION | self._sent
        far = packet.receiver if self._me == self._hub else self._hub
        self._ledger.count(packet, self._me, far, False)
        self._note_hop("send", packet, number, self._me, far)
        record = Carry(packet.step, number, packet.payload, packet.sealing, packet.data)
        if not self._line(packet.receiver, record):
            what = DOWN if self._me == self._hub else "the connection to the server is lost"
            self._note_hop("drop", packet, number, packet.sender, packet.receiver, what)

    def arrived(self, record: Carry, sender: str = "", incarnation: int = 0) -> None:
        """Deliver or relay a record from the line. At the hub, `sender` must be the frame's sender.

        Raises WireError, also for invalid names, incarnations or sizes, and for a repeated frame: numbers grow from
        message to message and from incarnation to incarnation.
        """
        packet = packet_of(record.frame, record.step, record.payload, record.sealing)
        if sender and (packet.sender, packet.incarnation) != (sender, incarnation):
            raise WireError(f"{sender!r} sent a frame as {packet.sender!r}, incarnation {packet.incarnation}")
        if packet.receiver not in self._endpoints or packet.sender not in self._endpoints:
            raise WireError(f"a frame from {packet.sender!r} to {packet.receiver!r}: there is no such party")
        number, hop = record.number, 1 if self._hub in (packet.sender, packet.receiver) else 2
        if number >> _INCARNATION != packet.incarnation or number <= self._latest.get(packet.sender, 0):
            raise WireError(f"{packet.sender!r}, incarnation {packet.incarnation}, sent number {number} again")
        self._latest[packet.sender] = number
        if packet.receiver == self._me:
            self._deliver_here(packet, number, hop)
        elif self._me != self._hub:
            raise WireError(f"a frame for {packet.receiver!r}")
        else:
            self._relay_on(packet, number, record)

    def _deliver_here(self, packet: Packet, number: int, hop: int) -> None:
        endpoint = self._endpoints[self._me]
        if not endpoint.alive:
            self._note_hop("drop", packet, number, packet.sender, packet.receiver, DOWN, hop)
            return
        self._note_hop("deliver", packet, number, packet.sender, packet.receiver, hop=hop)
        for tap in self._taps.delivered:
            tap(self._loop.time(), packet)
        endpoint.receive(packet)

    def _relay_on(self, packet: Packet, number: int, record: Carry) -> None:
        self._ledger.count(packet, self._me, packet.receiver, True)
        self._note_hop("relay", packet, number, self._me, packet.receiver, hop=2)
        if not self._line(packet.receiver, record):
            self._note_hop("drop", packet, number, packet.sender, packet.receiver, DOWN, 2)

    def _note_hop(
        self, kind: str, packet: Packet, number: int, near: str, far: str, why: str = "", hop: int = 1
    ) -> None:
        event = Event(
            self._loop.time(), kind, near, far, packet.protocol, packet.step, packet.type, packet.round, packet.attempt,
            packet.payload, packet.sealing, packet.envelope, why, 0.0, packet.digest, number, number, hop,
            packet.sender, packet.receiver,
        )  # fmt: skip
        self._trace.add(event)
