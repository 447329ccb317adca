"""The network: endpoints, the links between them, and what becomes of every packet.

In a `mesh` every two parties share a link; in a `star` each party shares one with the hub alone, which relays. Both
hops of a relayed packet are sent, counted and traced. A packet is dropped, and the trace says why, when its receiver
is down, when its receiver is another incarnation than the one it was sent to, or when its sender has come back as
another one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sim.latency import Latency, parse_latency
from sim.link import Link, Pipe
from sim.loop import SimLoop
from sim.streams import generator
from sim.trace import Event, Trace
from sim.wire import Ledger, Packet

__all__ = ["Conditions", "Endpoint", "Network"]


@dataclass(frozen=True)
class Conditions:
    """What all links have in common: topology ("mesh" or "star"), latency, jitter in seconds, loss in [0, 1)."""

    topology: str = "star"
    latency: Latency = field(default_factory=lambda: parse_latency("0ms"))
    jitter: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if self.topology not in ("mesh", "star"):
            raise ValueError(f"topology(={self.topology!r}) must be mesh or star.")


class Endpoint:
    """A party's access to the network; `receive` is handed the bytes that come.

    `incarnation` grows by one each time the party comes back; `alive` is false between a crash and that.
    """

    def __init__(
        self, name: str, receive: Callable[[bytes], None], up: Pipe | None = None, down: Pipe | None = None
    ) -> None:
        self.name = name
        self.receive = receive
        self.up, self.down = up, down
        self.incarnation = 1
        self.alive = True

    def fall(self) -> None:
        """Go down. What is on its way through the party's own access to the network, either way, goes no further."""
        self.alive = False
        for pipe in (self.up, self.down):
            if pipe is not None:
                pipe.empty()

    def rejoin(self) -> None:
        """Come back as the next incarnation."""
        self.incarnation += 1
        self.alive = True


class Network:
    """Carries packets between endpoints; `hub` is the relay of a star."""

    def __init__(
        self,
        loop: SimLoop,
        trace: Trace,
        ledger: Ledger,
        seed: int,
        conditions: Conditions,
        hub: str = "server",
    ) -> None:
        self._loop, self._trace, self._ledger, self._seed = loop, trace, ledger, seed
        self._conditions, self._hub = conditions, hub
        self._is_mesh = conditions.topology == "mesh"
        self._endpoints: dict[str, Endpoint] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self.in_flight = 0

    def attach(self, name: str, receive: Callable[[bytes], None], up: float = 0.0, down: float = 0.0) -> Endpoint:
        """Add a party with `up` and `down` bytes a second (0: unlimited)."""
        if name in self._endpoints:
            raise ValueError(f"two parties are called {name}")
        env = self._loop.env
        pipes = (Pipe(env, rate) if rate else None for rate in (up, down))
        endpoint = self._endpoints[name] = Endpoint(name, receive, *pipes)
        return endpoint

    def send(self, packet: Packet) -> None:
        """Send `packet` on its way; returns at once."""
        source, target = self._endpoints[packet.sender], self._endpoints[packet.receiver]
        journey = _Journey(packet, source, target)
        self.in_flight += 1
        if self._is_mesh or self._hub in (packet.sender, packet.receiver):
            self._hop(journey, source, target, False, self._deliver)
        else:
            self._hop(journey, source, self._endpoints[self._hub], False, self._relay)

    def _relay(self, journey: "_Journey") -> None:
        hub = self._endpoints[self._hub]
        if hub.alive:
            self._hop(journey, hub, journey.target, True, self._deliver)
        else:
            self._end("drop", journey, f"the relay {hub.name} is down")

    def _deliver(self, journey: "_Journey") -> None:
        packet, target = journey.packet, journey.target
        if not target.alive:
            self._end("drop", journey, "the receiver is down")
        elif target.incarnation != journey.target_incarnation:
            self._end("drop", journey, "sent to an earlier incarnation of the receiver")
        elif journey.source.incarnation != journey.source_incarnation:
            self._end("drop", journey, "from an earlier incarnation of the sender")
        else:
            self._end("deliver", journey)
            target.receive(packet.data)

    def _hop(
        self,
        journey: "_Journey",
        source: Endpoint,
        target: Endpoint,
        relayed: bool,
        then: Callable[["_Journey"], None],
    ) -> None:
        packet = journey.packet
        self._ledger.count(packet, source.name, target.name, relayed)
        self._note("relay" if relayed else "send", journey, source.name, target.name)
        if source.alive:
            self._link(source, target).send(packet.size, partial(then, journey), partial(self._end, "lose", journey))
        else:
            self._end("lose", journey, "the sender was gone before it was sent")

    def _link(self, source: Endpoint, target: Endpoint) -> Link:
        key = (source.name, target.name)
        link = self._links.get(key)
        if link is None:
            conditions = self._conditions
            link = self._links[key] = Link(
                self._loop.env,
                conditions.latency,
                generator(self._seed, "link", *key),
                up=source.up,
                down=target.down,
                jitter=conditions.jitter,
                loss=conditions.loss,
            )
        return link

    def _end(self, kind: str, journey: "_Journey", why: str = "") -> None:
        self.in_flight -= 1
        self._note(kind, journey, journey.packet.sender, journey.packet.receiver, why)

    def _note(self, kind: str, journey: "_Journey", sender: str, receiver: str, why: str = "") -> None:
        packet = journey.packet
        event = Event(
            self._loop.env.now, kind, sender, receiver, packet.protocol, packet.step, packet.type,
            packet.round, packet.attempt, packet.payload, packet.sealing, packet.envelope, why, 0.0, packet.digest,
        )  # fmt: skip
        self._trace.add(event)


class _Journey:
    """A packet on its way, and which incarnations it is from and for."""

    __slots__ = ("packet", "source", "source_incarnation", "target", "target_incarnation")

    def __init__(self, packet: Packet, source: Endpoint, target: Endpoint) -> None:
        self.packet = packet
        self.source, self.source_incarnation = source, source.incarnation
        self.target, self.target_incarnation = target, target.incarnation
