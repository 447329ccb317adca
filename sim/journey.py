"""Copies of packets in flight."""

from collections.abc import Callable
from typing import Protocol

from tacit.sim.endpoint import Endpoint
from tacit.sim.wire import Packet, flip_bit

__all__ = ["Journey", "is_refused"]


class Carrier(Protocol):
    """The network, as a copy in flight uses it."""

    def land(self, journey: "Journey") -> None: ...
    def end(self, kind: str, journey: "Journey", why: str = "") -> None: ...


class Journey:
    """One copy of a packet in flight: the incarnations of its sender and receiver, and its hop.

    `flipped` is the data that travels instead of the packet's own bytes after bits were flipped. `delay` and `doomed`:
    see `tacit.sim.transport.Copy`. `departed`: when its link took it, None before and once it is through. `message` and
    `number` are the message and copy of `tacit.sim.trace.Event`. The `network` carries it.
    """

    near: Endpoint
    far: Endpoint
    far_incarnation: int
    flipped: bytes | None
    departed: float | None

    __slots__ = (
        "delay", "departed", "doomed", "far", "far_incarnation", "flipped", "message", "near", "network", "number",
        "packet", "source", "source_incarnation", "target", "target_incarnation",
    )  # fmt: skip
    stored = __slots__

    def __init__(self, network: Carrier, packet: Packet, source: Endpoint, target: Endpoint, number: int = 0) -> None:
        self.network, self.packet, self.flipped = network, packet, None
        self.message = self.number = number
        self.source, self.source_incarnation = source, source.incarnation
        self.target, self.target_incarnation = target, target.incarnation
        self.delay, self.doomed, self.departed = 0.0, False, None

    def copy(self, number: int) -> "Journey":
        """Another copy, at the beginning of the hop. Bits that the relay flipped are flipped in all copies."""
        copy = Journey(self.network, self.packet, self.source, self.target, number)
        copy.message = self.message
        copy.source_incarnation, copy.target_incarnation = self.source_incarnation, self.target_incarnation
        copy.near, copy.far, copy.far_incarnation = self.near, self.far, self.far_incarnation
        if self.packet.sealed:
            copy.flipped = self.flipped
        return copy

    def arrive(self) -> None:
        """Arrive at the end of the hop."""
        self.network.land(self)

    def lose(self, why: str) -> None:
        """End, because it was lost."""
        self.network.end("lose", self, why)

    def flip(self, draw: Callable[[int], int]) -> None:
        """Flip one bit of the data in flight: the bit with the index `draw(number of bits)`."""
        data = self.packet.data if self.flipped is None else self.flipped
        self.flipped = flip_bit(data, draw(8 * len(data)))

    @property
    def size(self) -> int:
        """The number of bytes that travel."""
        return self.packet.size

    @property
    def each(self) -> int:
        """The bytes of each single message that the packet stands for."""
        return self.packet.size // self.packet.times

    @property
    def is_relayed(self) -> bool:
        """True on the second hop, from the relay to the receiver."""
        return self.near is not self.source


def is_refused(journey: Journey) -> bool:
    """Return true if the TLS connection of the hop rejects the data; it cannot detect bits that the relay flipped."""
    return not journey.packet.sealed and journey.flipped is not None and journey.flipped != journey.packet.data
