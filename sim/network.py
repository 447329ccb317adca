"""The network: endpoints, the links between them, and the end of every packet.

In a `mesh` every two parties share a link; in a `star` each party shares one with the hub alone, which relays. Both
hops of a relayed packet are sent, counted and traced. A packet is dropped, and the trace says why, when its receiver
or the relay is down, when either is another incarnation than the one it was sent to, or when its sender has come back
as another one.

Each copy of a packet ends as delivered, lost or dropped, or is still in flight: the number of sends in the trace plus
that of relays with a note (copies made at the relay) is the number of ends plus `in_flight`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tacit.sim.clock import use_compiled
from tacit.sim.conditions import Barrier, Conditions, Statistics
from tacit.sim.digests import chained
from tacit.sim.endpoint import Endpoint
from tacit.sim.faults import Fired, MessageFault
from tacit.sim.handling import Handling
from tacit.sim.link import SENDER_GONE, DrawCounts, Link
from tacit.sim.loop import SimLoop
from tacit.sim.machine import Host
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Fact, Trace
from tacit.sim.transport import CUT, SECOND_COPY, Transport
from tacit.sim.triggers import Faults
from tacit.sim.wire import Ledger, LedgerRow, Packet, altered, flip_bit

_NO_ORIGIN = ("", 0, 0)
_SWEEP = 64  # the most parties whose links are let go when one more rests

if TYPE_CHECKING:
    from tacit.sim.tcp import TcpStream

__all__ = ["Endpoint", "Journey", "LinkNetwork", "is_refused"]


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

    def __call__(self, why: str = "") -> None:
        """Arrive, or end because it was lost for the reason `why`: a bound method for each would take more memory."""
        if why:
            self.lose(why)
        else:
            self.arrive()

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


class LinkNetwork:
    """Carries packets between endpoints. `hub` is the relay of a star.

    Networks with lossy links or message faults use `tacit.sim.transport`, networks over TCP `tacit.sim.tcp`; others
    need neither.
    """

    # `__dict__`, as whoever looks on may put a method of its own in front of one of these.
    __slots__ = (
        "__dict__", "__weakref__", "_barriers", "_conditions", "_copies", "_draws", "_endpoints", "_env", "_faults",
        "_flying", "_hub", "_is_mesh", "_is_perfect", "_is_plain", "_is_reliable", "_is_tcp", "_ledger", "_links",
        "_loop", "_lost", "_retired", "_seed", "_sent_again", "_taps", "_times", "_trace", "_transports", "in_flight",
    )  # fmt: skip

    def __init__(
        self,
        loop: SimLoop,
        trace: Trace,
        ledger: Ledger,
        seed: int,
        conditions: Conditions,
        faults: Faults | None = None,
        hub: str = "server",
        taps: Taps | None = None,
    ) -> None:
        self._loop, self._trace, self._ledger, self._seed = loop, trace, ledger, seed
        self._conditions, self._hub = conditions, hub
        self._env, self._times = loop.env, conditions.times
        self._is_mesh = conditions.topology == "mesh"
        self._is_reliable = conditions.transport != "datagram"
        self._is_tcp = conditions.transport == "tcp"
        self._faults = faults or Faults()
        self._taps = taps or Taps()
        self._is_perfect = not (conditions.loses or self._faults.of_links)
        self._is_plain = self._is_perfect and not self._is_tcp  # links alone carry the packets
        self._endpoints: dict[str, Endpoint] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._draws = DrawCounts(hub)  # of links that were let go
        self._retired: deque[Endpoint] = deque()  # whose links are to be let go
        self._transports: dict[tuple[str, str], Transport[Journey] | TcpStream[Journey]] = {}
        self._barriers: list[Barrier] = []
        self._sent_again = self._copies = 0
        self._lost: Counter[str] = Counter()
        self.in_flight = 0
        self._flying: dict[str, int] = {}  # by sender

    def attach(
        self, name: str, receive: Callable[[Packet], None], up: float = 0.0, down: float = 0.0,
        handling: Handling | None = None, host: Host | None = None,
    ) -> Endpoint:  # fmt: skip
        """Add a party with `up` and `down` bytes a second (0: unlimited). Its messages take `handling` on `host`."""
        if name in self._endpoints:
            raise ValueError(f"two parties are called {name}")
        stretched = partial(self._tell_handling, name) if handling is not None and self._times else None
        endpoint = self._endpoints[name] = Endpoint(self._env, name, receive, up, down, handling, host, stretched)
        return endpoint

    def retire(self, name: str) -> None:
        """Free the links of the resting party `name` once no packet is in flight on them.

        Links are rebuilt with their state when they are used again. Lossy links and links with faults are kept, and
        those of TCP, whose windows persist.
        """
        if not self._is_perfect or self._is_tcp:
            return
        endpoint = self._endpoints[name]
        # What it received has arrived; what it sent travels for a while.
        for link in endpoint.links_in:
            if link.is_idle:
                self._forget(link)
        self._retired.append(endpoint)
        for _ in range(min(_SWEEP, len(self._retired))):
            if not self._let_go(self._retired[0]):  # the one that has rested longest
                break
            self._retired.popleft()

    def _let_go(self, endpoint: Endpoint) -> bool:
        """Free the endpoint's links except for their draws, if none is in use; return true if so."""
        links = (*endpoint.links_out, *endpoint.links_in)
        for link in links:
            if not link.is_idle:
                return False
        for link in links:
            self._forget(link)
        endpoint.let_go()
        return True

    def _forget(self, link: Link) -> None:
        """Free an idle link, keeping the number of its draws."""
        near, far = key = link.ends
        self._draws.keep(near, far, link.draws)
        del self._links[near, far]
        self._endpoints[near].remove_outgoing(key)
        self._endpoints[far].remove_incoming(key)

    def send(self, packet: Packet) -> None:
        """Send `packet` and return immediately."""
        for tap in self._taps.sent:
            tap(packet)
        source, target = self._endpoints[packet.sender], self._endpoints.get(packet.receiver)
        if target is None:  # a name from a forged message
            note = f"{packet.type} to {packet.receiver!r}: there is no such party"
            self._trace.add(Event(self._env.now, "drop", packet.sender, step=packet.step, note=note))
        elif source.paused:
            source.sends.append(partial(self._begin, packet, source, target))
        else:
            self._begin(packet, source, target)

    @property
    def is_perfect(self) -> bool:
        """True if no packet is lost, cut off or held back."""
        return self._is_perfect

    def absent(self) -> dict[str, int]:
        """The parties that are down, each with its last incarnation."""
        return {name: endpoint.incarnation for name, endpoint in self._endpoints.items() if not endpoint.alive}

    def is_under_way(self, sender: str, receiver: str) -> bool:
        """Return true if a message from `sender`, which is up and not cut off from `receiver`, is still in flight."""
        near = self._endpoints[sender]
        if not near.alive or near.paused or self.barrier(sender, receiver) is not None:
            return False
        return self._flying.get(sender, 0) > 0

    def signal(self, sender: str, receiver: str, call: Callable[[], object]) -> None:
        """Call `call()` when a segment without data arrives at `receiver`, behind everything sent before.

        It is no message and not counted. One that is lost or cut off is sent again after a timeout.
        """
        again = partial(self.signal, sender, receiver, call)
        barrier = self.barrier(sender, receiver) if self._barriers else None
        stream = self._transports.get((sender, receiver))
        if barrier is not None and barrier.holds:
            barrier.kept.append(again)
        elif barrier is not None or not (stream is None or isinstance(stream, Transport) or not stream.is_busy):
            self._env.at(self._env.now + self._conditions.retransmission_timeout, again)
        else:
            link = self._link(self._endpoints[sender], self._endpoints[receiver])
            link.send(0, call, partial(self._signal_later, again))

    def _signal_later(self, again: Callable[[], object], _: str) -> None:
        self._env.at(self._env.now + self._conditions.retransmission_timeout, again)

    def block(self, barrier: Barrier) -> None:
        """Add `barrier`. Only for a network that was made with faults of links."""
        if self._is_perfect:
            raise RuntimeError("a network that was made without faults of links has no barriers.")
        self._barriers.append(barrier)

    def unblock(self, barrier: Barrier) -> None:
        """Remove `barrier` and deliver, in order, the messages that it held."""
        self._barriers.remove(barrier)
        for go_on in barrier.take():
            go_on()

    def state(self) -> dict[str, Any]:
        """The endpoints and the packets in flight. Those of links that were let go are an iterator."""
        return {
            "in flight": self.in_flight,
            "flying": dict(self._flying),
            "sent again": self._sent_again,
            "copies": self._copies,
            "lost": dict(self._lost),
            "endpoints": {name: one.state() for name, one in self._endpoints.items() if not one.is_new},
            "draws": (one for one in self._draws if one[:2] not in self._links),
            "links": [
                (*ends, link.state(), self._transports[ends].state() if ends in self._transports else None)
                for ends, link in self._links.items()
            ],
            "barriers": self._barriers,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`. Only for an unused network with the same endpoints."""
        self.in_flight, self._sent_again, self._copies = state["in flight"], state["sent again"], state["copies"]
        self._lost, self._flying = Counter(state["lost"]), dict(state.get("flying", {}))
        for name, endpoint_state in state["endpoints"].items():
            self._endpoints[name].restore(endpoint_state)
        for near, far, draws in state["draws"]:
            self._draws.keep(near, far, draws)
        for near, far, link_state, connection in state["links"]:
            self._links[near, far].restore(link_state)
            if connection is not None:
                self._transports[near, far].restore(connection)
        self._barriers = state["barriers"]

    def statistics(self) -> Statistics:
        """The retransmitted and lost copies so far, the connections opened, and TCP's retransmitted segments."""
        streams = [one for one in self._transports.values() if not isinstance(one, Transport)]
        opened, *again = (
            sum(getattr(one, name) for one in streams) for name in ("opened", "segments_again", "bytes_again")
        )
        return Statistics(self._sent_again, dict(self._lost), opened, *again)

    def ends(self) -> list[tuple[str, str]]:
        """The existing links, in the order in which they were first used."""
        return list(self._links)

    def connect(self, ends: Iterable[tuple[str, str]]) -> None:
        """Make the links between `ends`."""
        for near, far in ends:
            make = self._link if self._is_perfect and not self._is_tcp else self._transport
            make(self._endpoints[near], self._endpoints[far])

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """All endpoints by the names of their parties."""
        return self._endpoints

    def parts(self) -> dict[str, object]:
        """All objects that packets in flight refer to, except for endpoints, each under a unique name."""
        found: dict[str, object] = {"network": self}
        for name, endpoint in self._endpoints.items():
            for way, access in zip(("up", "down"), endpoint.access, strict=True):
                if access is not None:
                    found[f"{way} {name}"] = access
            if endpoint.handler is not None:
                found[f"handler {name}"] = endpoint.handler
        for (near, far), link in self._links.items():
            found[f"link {near} {far}"] = link
        for (near, far), transport in self._transports.items():
            found[f"transport {near} {far}"] = transport
        return found

    # For transports

    def barrier(self, sender: str, receiver: str) -> Barrier | None:
        """The first barrier that blocks messages between the two parties, or None."""
        for barrier in self._barriers:
            if barrier.is_between(sender, receiver):
                return barrier
        return None

    def is_cut(self, sender: str, receiver: str) -> bool:
        """Return true if a partition separates the two parties."""
        return any(not barrier.holds and barrier.is_between(sender, receiver) for barrier in self._barriers)

    def again(self, journey: Journey, tries: int) -> Journey:
        """Make copy number `tries` of those sent again on the same hop; it is counted and traced as sent."""
        self._sent_again += 1
        copy = self._copy(journey, f"sent again: {tries}", Fact.AGAIN, tries)
        copy.departed = self._env.now
        if not copy.is_relayed:
            for fault in self._due(copy, again=True):
                fault.affect(copy, partial(self._faults.bit, fault, copy.packet.sender))
        return copy

    def resend(self, journey: Journey, why: str) -> None:
        """Trace that a connection sends a part of a copy again; its stream counts the bytes, and the ledger none."""
        self._trace.tell(self._event("resend", journey, journey.near.name, journey.far.name, why))

    def carried(self, journey: Journey) -> None:
        """Tell observers how long a copy was on its way through both ends of its link, without the latency."""
        if self._times and journey.departed is not None:
            flight = self._links[journey.near.name, journey.far.name].flight
            self._tell_transfer(journey, journey.far.name, flight)
        journey.departed = None

    def _tell_transfer(self, journey: Journey, peer: str, flight: float = 0.0) -> None:
        assert journey.departed is not None
        now, packet = self._env.now, journey.packet
        seconds = max(0.0, now - journey.departed - flight)
        event = Event(now, "carry", journey.near.name, peer, step=packet.step, type=packet.type, value=seconds)
        self._trace.tell(event)

    def _tell_handling(self, party: str, seconds: float) -> None:
        """Tell observers the seconds for which a message held a core of a slow party beyond those at full speed."""
        self._trace.tell(Event(self._env.now, "stretch", party, value=seconds))

    def is_gone(self, journey: Journey) -> bool:
        """Return true if the receiver at the end of the hop is down or another incarnation than the packet was sent
        to."""
        return not journey.far.alive or journey.far.incarnation != journey.far_incarnation

    def land(self, journey: Journey) -> None:
        """Receive a packet that its link alone has carried."""
        if self._times:
            self.carried(journey)
        else:
            journey.departed = None
        if journey.far.handles:
            self.arrive(journey)
        else:
            self._take(journey)

    def arrive(self, journey: Journey) -> None:
        """Receive a packet at the end of its hop, where its handling takes time first."""
        handler = journey.far.handler
        if handler is None or not journey.far.alive:
            self._take(journey)
        else:
            take = partial(self._take, journey)
            handler.take(journey.each, take, take, journey.packet.times)

    def _take(self, journey: Journey) -> None:
        far, is_there = journey.far, journey.far is journey.target
        if far.paused:
            far.arrivals.append(partial(self._take, journey))
        elif not far.alive:
            self.end("drop", journey, "the receiver is down" if is_there else f"the relay {far.name} is down")
        elif far.incarnation != journey.far_incarnation:
            self.end("drop", journey, f"sent to an earlier incarnation of the {'receiver' if is_there else 'relay'}")
        elif journey.flipped is not None and is_refused(journey):
            self.end("drop", journey, "a bit was flipped: the TLS record's tag does not fit")
        elif is_there:
            self._deliver(journey)
        else:
            self._relay(journey)

    def end(self, kind: str, journey: Journey, why: str = "") -> None:
        """Trace the end of a copy."""
        sender = journey.packet.sender
        self._count_end(sender)
        if kind == "lose":
            self._lost[why] += 1
            if self._times and journey.departed is not None:
                self._tell_transfer(journey, "")  # what was sent of it was sent in vain
            journey.departed = None
        self._record(kind, journey, sender, journey.packet.receiver, why, Fact.COPY if why == SECOND_COPY else "")

    def _count_end(self, sender: str) -> None:
        self.in_flight -= 1
        flying = self._flying
        left = flying[sender] - 1
        if left:
            flying[sender] = left
        else:
            del flying[sender]

    # One packet's way

    def _begin(self, packet: Packet, source: Endpoint, target: Endpoint) -> None:
        sender, hub, flying = packet.sender, self._hub, self._flying
        self._copies += 1
        journey = Journey(self, packet, source, target, self._copies)
        self.in_flight += 1
        flying[sender] = flying.get(sender, 0) + 1
        is_direct = self._is_mesh or sender == hub or packet.receiver == hub
        self._hop(journey, source, target if is_direct else self._endpoints[hub])

    def _hop(self, journey: Journey, near: Endpoint, far: Endpoint) -> None:
        journey.near, journey.far = near, far
        journey.far_incarnation = journey.target_incarnation if far is journey.target else far.incarnation
        if self._is_plain and near.alive and not near.handles:  # most often
            packet, trace, relayed = journey.packet, self._trace, near is not journey.source
            link = self._links.get((near.name, far.name)) or self._link(near, far)
            row = link.row
            if (
                row is None or row.type is not packet.type or row.step is not packet.step
                or row.relayed is not relayed or row.protocol is not packet.protocol
            ):  # fmt: skip
                row = link.row = self._ledger.row_of(packet, near.name, far.name, relayed)
            size = self._ledger.add(row, packet)
            if trace.uses_digests:
                self._record("relay" if relayed else "send", journey, near.name, far.name)
            else:  # it only counts
                trace.count += 1
            journey.departed = self._env._now
            link.send(size, journey, journey)
            return
        copies = [journey]
        if not self._is_perfect and near.alive:
            copies = self._faulted_copies(journey)
        else:
            self._count(journey)
        if not near.alive:
            self.end("lose", journey, SENDER_GONE)
        elif (handler := near.handler) is None:
            self._depart(*copies)
        else:
            handler.take(
                journey.each, partial(self._depart, *copies), partial(self._stay, *copies), journey.packet.times
            )

    def _depart(self, *copies: Journey) -> None:
        """Send the copies of a packet on their hop."""
        journey, now = copies[0], self._env.now
        for copy in copies:
            copy.departed = now
        near, far = journey.near, journey.far
        if not self._is_plain:
            self._transport(near, far).send(*copies)
        else:
            link = self._links.get((near.name, far.name)) or self._link(near, far)
            link.send(journey.packet.size, journey, journey)

    def _stay(self, *copies: Journey) -> None:
        """End the copies of a packet whose sender went down before they had left."""
        for copy in copies:
            self.end("lose", copy, SENDER_GONE)

    def _faulted_copies(self, journey: Journey) -> list[Journey]:
        """The copies in which a packet is sent after all message faults that apply; they are counted and traced."""
        faults = [] if journey.is_relayed else self._due(journey, again=False)
        for fault in faults:
            fault.affect(journey, partial(self._faults.bit, fault, journey.packet.sender))
        self._count(journey)
        doubles = sum(fault.copies for fault in faults)
        return [journey, *(self._copy(journey, SECOND_COPY, Fact.COPY) for _ in range(doubles))]

    def _due(self, journey: Journey, *, again: bool) -> list[MessageFault]:
        """The message faults that apply to a packet as its sender sends it, recorded and traced."""
        packet, now = journey.packet, self._loop.time()
        due = self._faults.of_message(packet.sender, packet.receiver, packet.type, now, packet.round, again=again)
        for fault in due:
            self._faults.fired.append(Fired(fault, now, packet.sender, packet.receiver, packet.step, packet.type))
            note = f"{fault.kind} {packet.type}"
            self._trace.add(
                self._event("fault", journey, packet.sender, packet.receiver, note, Fact.STRIKES, fault.kind)
            )
        return due

    def _copy(self, journey: Journey, note: str, fact: str, number: int = 0) -> Journey:
        self._copies += 1
        copy = journey.copy(self._copies)
        self.in_flight += 1
        sender = journey.packet.sender
        self._flying[sender] = self._flying.get(sender, 0) + 1
        self._count(copy, note, fact, number)
        return copy

    def _relay(self, journey: Journey) -> None:
        journey.delay, journey.doomed = 0.0, False  # that was on the first hop
        barrier = self.barrier(journey.source.name, journey.target.name) if self._barriers else None
        if barrier is None:
            self._hop(journey, journey.far, journey.target)
        elif barrier.holds or self._is_reliable:  # the relay has it, and does not carry it yet
            barrier.kept.append(partial(self._go_on, journey))
        else:
            self.end("lose", journey, CUT)

    def _go_on(self, journey: Journey) -> None:
        """Let the relay forward a packet that it kept.

        A paused relay does so when it resumes, before later arrivals.
        """
        relay = journey.far
        if relay.paused:
            kept = sum(getattr(call, "func", None) == self._go_on for call in relay.arrivals)
            relay.arrivals.insert(kept, partial(self._go_on, journey))
        else:
            self._take(journey)

    def _deliver(self, journey: Journey) -> None:
        packet, source = journey.packet, journey.source
        if source.incarnation != journey.source_incarnation:
            self.end("drop", journey, "from an earlier incarnation of the sender")
            return
        sender = packet.sender
        self._count_end(sender)
        self._record("deliver", journey, sender, packet.receiver)
        if journey.flipped is not None:
            packet = altered(packet, journey.flipped)
        for tap in self._taps.delivered:
            tap(self._env.now, packet)
        journey.target.receive(packet)

    def _count(self, journey: Journey, note: str = "", fact: str = "", number: int = 0) -> None:
        near, far, relayed = journey.near, journey.far, journey.near is not journey.source
        self._ledger.count(journey.packet, near.name, far.name, relayed)
        if not self._trace.uses_digests:  # it only counts
            self._trace.count += 1
            return
        self._record("relay" if relayed else "send", journey, near.name, far.name, note, fact, number)

    def _record(
        self, kind: str, journey: Journey, sender: str, receiver: str, why: str = "", fact: str = "", number: int = 0
    ) -> None:
        """Trace an event of a copy, as `Trace.add` does. It is only made if somebody looks at it."""
        trace, packet = self._trace, journey.packet
        if not trace.uses_digests:
            trace.count += 1
            return
        shape = (
            self._env._now, kind, sender, receiver, packet.protocol, packet.step, packet.type, packet.round,
            packet.attempt, packet.payload, packet.sealing, packet.envelope,
        )  # fmt: skip
        rest = (why, float(packet.times) if packet.times > 1 else 0.0, packet.digest)
        trace.chain(shape, rest)
        if trace.is_watched:  # as `_event`
            hop = 1 if journey.near is journey.source else 2
            ends = packet.sender, packet.receiver
            event = Event(*shape, *rest, journey.message, journey.number, hop, *ends, _NO_ORIGIN, fact, "", number)
            trace.tell(event)

    def _link(self, near: Endpoint, far: Endpoint) -> Link:
        key = (near.name, far.name)
        link = self._links.get(key)
        if link is None:
            conditions = self._conditions
            latency, loss = conditions.between(*key)
            link = self._links[key] = Link(
                self._env,
                latency,
                self._seed,
                key,
                up=near.up,
                down=far.down,
                jitter=conditions.jitter,
                loss=loss,
                ordered=self._is_reliable,
            )
            if draws := self._draws.of(*key):
                link.go_on(draws)
            near.add_outgoing(key, link)
            far.add_incoming(key, link)
        return link

    def _transport(self, near: Endpoint, far: Endpoint) -> "Transport[Journey] | TcpStream[Journey]":
        key = (near.name, far.name)
        transport = self._transports.get(key)
        if transport is None and self._is_tcp:
            from tacit.sim.tcp import connected

            links = self._link(near, far), self._link(far, near)
            streams = connected(self._env, self, links, near, far, lossy=not self._is_perfect)
            self._transports.update(streams)
            transport = streams[key]
        elif transport is None:
            timeout = self._conditions.retransmission_timeout if self._is_reliable else None
            link = self._link(near, far)
            transport = self._transports[key] = Transport(self._env, link, self, near.name, far.name, timeout)
            near.add_outgoing(("transport", *key), transport.close)
            far.add_incoming(("transport", *key), transport.close)
        return transport

    def _event(
        self,
        kind: str,
        journey: Journey,
        sender: str,
        receiver: str,
        why: str = "",
        fact: str = "",
        detail: str = "",
        number: int = 0,
    ) -> Event:
        packet = journey.packet
        alike = float(packet.times) if packet.times > 1 else 0.0
        return Event(
            self._env.now, kind, sender, receiver, packet.protocol, packet.step, packet.type,
            packet.round, packet.attempt, packet.payload, packet.sealing, packet.envelope, why, alike, packet.digest,
            journey.message, journey.number, 2 if journey.is_relayed else 1, packet.sender, packet.receiver,
            _NO_ORIGIN, fact, detail, number,
        )  # fmt: skip


use_compiled("network", LinkNetwork, Journey, Endpoint, Packet, LedgerRow, Ledger, Trace, Link, Event, chained)
