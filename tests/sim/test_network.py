"""The end of every packet: topologies, incarnations, and that no packet vanishes without an event."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.sim.clock import in_python, is_compiled
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.network import Endpoint, LinkNetwork
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Trace
from tacit.sim.wire import Frame, Ledger, Message, Packet, encode_body, pack_frame


class NetworkParcel(Message):
    values: bytes


class NetworkLetter(Message):
    text: str


def parcel(sender: str, receiver: str, size: int = 100) -> Packet:
    message = NetworkParcel(bytes(size))
    frame = Frame("NetworkParcel", sender, receiver, 1, 0, 0, False, encode_body(message))
    return pack_frame(frame, message, "network.step")


class World:
    def __init__(self, topology: str = "star", seed: int = 1, latency: str = "10ms", **conditions: Any) -> None:
        self.loop = SimLoop()
        self.events: list[Event] = []
        self.sent: list[Packet] = []
        self.shown: list[tuple[float, Packet]] = []
        self.trace = Trace([self.events.append])
        self.ledger = Ledger()
        self.taps = Taps([self.sent.append], [lambda time, packet: self.shown.append((time, packet))])
        given = Conditions(topology, parse_latency(latency), **conditions)
        self.network = LinkNetwork(self.loop, self.trace, self.ledger, seed, given, taps=self.taps)
        self.received: list[tuple[str, float, bytes]] = []
        self.endpoints: dict[str, Endpoint] = {}

    def attach(self, *names: str, **access: float) -> None:
        for name in names:
            self.endpoints[name] = self.network.attach(name, partial(self.receive, name), **access)

    def receive(self, name: str, packet: Packet) -> None:
        self.received.append((name, self.loop.time(), packet.data))

    def send(self, sender: str, receiver: str, size: int = 100) -> Packet:
        packet = parcel(sender, receiver, size)
        self.network.send(packet)
        return packet

    def run(self, seconds: float = 1000.0) -> None:
        self.loop.run(asyncio.sleep(seconds))
        self.loop.finish()

    def kinds(self) -> list[tuple[str, str, str]]:
        return [(event.kind, event.party, event.peer) for event in self.events]

    def copies(self) -> int:
        """Return the number of copies of all packets: those that senders sent, and those that a relay added."""
        return sum(event.kind == "send" or (event.kind == "relay" and event.note != "") for event in self.events)

    def notes(self, kind: str) -> list[str]:
        return [event.note for event in self.events if event.kind == kind]


def test_in_a_mesh_every_two_parties_have_a_link() -> None:
    world = World("mesh")
    world.attach("server", "client/0", "client/1")
    packet = world.send("client/0", "client/1")
    world.run()
    assert world.received == [("client/1", 0.01, packet.data)]
    assert world.kinds() == [("send", "client/0", "client/1"), ("deliver", "client/0", "client/1")]
    assert world.ledger.bytes == packet.size


@pytest.mark.parametrize("topology", ["star", "mesh"])
def test_taps_get_each_sent_and_each_received_packet(topology: str) -> None:
    world = World(topology)
    world.attach("server", "client/0", "client/1", "client/2")
    world.endpoints["client/2"].fall()
    lost = world.send("client/0", "client/2")
    received = world.send("client/0", "client/1")
    world.run()
    assert world.sent == [lost, received]
    assert world.shown == [(world.received[0][1], received)]


def test_in_a_star_the_hub_relays_and_both_hops_count() -> None:
    world = World("star")
    world.attach("server", "client/0", "client/1")
    packet = world.send("client/0", "client/1")
    world.run()
    assert world.received == [("client/1", 0.02, packet.data)]
    assert world.kinds() == [
        ("send", "client/0", "server"),
        ("relay", "server", "client/1"),
        ("deliver", "client/0", "client/1"),
    ]
    rows = [(row.sender, row.receiver, row.relayed, row.messages, row.total) for row in world.ledger.rows()]
    assert rows == [
        ("client/0", "server", False, 1, packet.size),
        ("server", "client/1", True, 1, packet.size),
    ]
    assert world.ledger.bytes == 2 * packet.size


def test_messages_to_and_from_the_hub_take_one_hop() -> None:
    world = World("star")
    world.attach("server", "client/0")
    world.send("client/0", "server")
    world.send("server", "client/0")
    world.run()
    assert [event.kind for event in world.events] == ["send", "send", "deliver", "deliver"]


def test_a_relayed_packet_takes_every_bandwidth_on_its_way() -> None:
    world = World("star", latency="1s")
    world.attach("server", up=500.0, down=2000.0)
    world.attach("client/0", up=1000.0)
    world.attach("client/1", down=4000.0)
    size = world.send("client/0", "client/1", 9_000).size
    world.run()
    # The relay has the whole message before it sends: client/0's uplink bounds the first hop, its own the second.
    expected = size / 1000 + 1 + size / 500 + 1
    assert [when for _, when, _ in world.received] == [pytest.approx(expected, rel=1e-12)]


def test_the_hubs_uplink_is_shared_by_all_that_it_relays() -> None:
    world = World("star", latency="0ms")
    world.attach("server", up=1000.0)
    world.attach(*(f"client/{i}" for i in range(4)))
    size, *_ = [world.send(f"client/{i}", f"client/{(i + 1) % 4}", 1000).size for i in range(4)]
    world.run()
    assert [when for _, when, _ in world.received] == pytest.approx([size * 4 / 1000] * 4)


def test_a_relay_that_is_down_drops_messages() -> None:
    world = World("star")
    world.attach("server", "client/0", "client/1")
    world.send("client/0", "client/1")
    world.endpoints["server"].fall()
    world.run()
    assert world.notes("drop") == ["the relay server is down"]
    assert not world.received
    assert world.network.in_flight == 0


def test_a_receiver_that_is_down_drops_messages() -> None:
    world = World("mesh")
    world.attach("a", "b")
    world.send("a", "b")
    world.endpoints["b"].fall()
    world.run()
    assert world.notes("drop") == ["the receiver is down"]
    assert not world.received


def test_a_resumed_party_receives_waiting_messages_before_sending() -> None:
    world = World("mesh")
    world.attach("server", "client/0")
    world.endpoints["client/0"].pause()
    world.send("client/0", "server", 10)
    received = world.send("server", "client/0")
    world.loop.call_at(1.0, world.endpoints["client/0"].resume)
    world.run()
    assert [(event.kind, event.party, event.time) for event in world.events] == [
        ("send", "server", 0.0),
        ("deliver", "server", 1.0),
        ("send", "client/0", 1.0),
        ("deliver", "client/0", 1.01),
    ]
    assert world.received[0] == ("client/0", 1.0, received.data)


def test_a_sent_message_arrives_although_its_sender_crashed() -> None:
    world = World("mesh")
    world.attach("a", "b")
    world.send("a", "b")
    world.endpoints["a"].fall()
    world.run()
    assert [name for name, *_ in world.received] == ["b"]


def test_messages_queued_at_a_crashing_sender_are_lost() -> None:
    world = World("mesh")
    world.attach("a", "b", up=1000.0)
    for _ in range(3):
        world.send("a", "b", 1000)
    world.loop.call_at(1.5, world.endpoints["a"].fall)
    world.run()
    assert len(world.received) == 1
    assert world.notes("lose") == ["the sender was gone before it was sent"] * 2
    assert [event.time for event in world.events if event.kind == "lose"] == [1.5, 1.5]


def test_a_party_that_is_down_cannot_send() -> None:
    world = World("mesh")
    world.attach("a", "b")
    world.endpoints["a"].fall()
    world.send("a", "b")
    world.run()
    assert world.notes("lose") == ["the sender was gone before it was sent"]


@pytest.mark.parametrize("topology", ["mesh", "star"])
@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("a", "from an earlier incarnation of the sender"),
        ("b", "sent to an earlier incarnation of the receiver"),
    ],
)
def test_late_messages_of_an_earlier_incarnation_are_dropped_and_traced(topology: str, who: str, why: str) -> None:
    world = World(topology)
    world.attach("server", "a", "b")
    world.send("a", "b")
    world.endpoints[who].fall()
    world.endpoints[who].rejoin()
    assert world.endpoints[who].incarnation == 2
    world.loop.call_at(1.0, lambda: world.send("a", "b"))
    world.run()
    assert world.notes("drop") == [why]
    assert [when >= 1 for _, when, _ in world.received] == [True]


def test_a_party_that_comes_back_has_its_uplink_for_itself() -> None:
    world = World("mesh", latency="0ms")
    world.attach("a", "b", up=1000.0)
    world.send("a", "b", 100_000)
    world.loop.call_at(1.0, world.endpoints["a"].fall)
    world.loop.call_at(2.0, world.endpoints["a"].rejoin)
    world.loop.call_at(3.0, lambda: world.send("a", "b", 1000))
    world.run()
    (arrival,) = [when for _, when, _ in world.received]
    assert arrival == 3.0 + parcel("a", "b", 1000).size / 1000


def test_lost_packets_are_traced() -> None:
    world = World("star", loss=0.5, seed=5, transport="datagram")
    world.attach("server", "a", "b")
    for _ in range(40):
        world.send("a", "b")
    world.run()
    lost = world.notes("lose")
    assert lost == ["lost on the link"] * len(lost)
    assert 0 < len(world.received) == 40 - len(lost)
    relayed = sum(event.kind == "relay" for event in world.events)
    assert len(world.received) < relayed < 40  # each hop loses independently


def test_a_new_party_does_not_shift_the_draws_of_others() -> None:
    def arrivals(*more: str) -> list[float]:
        world = World("mesh", latency="lognormal:40ms,0.5", loss=0.1)
        world.attach("a", "b", *more)
        for number in range(100):
            for name in more:
                world.loop.call_at(float(number), lambda n=name: world.send(n, "a"))
            world.loop.call_at(float(number), lambda: world.send("a", "b"))
        world.run()
        return [when for name, when, _ in world.received if name == "b"]

    alone = arrivals()
    assert len(alone) > 50
    assert arrivals("c", "d") == alone


def test_two_parties_of_one_name_and_unknown_topologies_are_refused() -> None:
    world = World()
    world.attach("a")
    with pytest.raises(ValueError, match="two parties are called a"):
        world.attach("a")
    world.run(0)
    with pytest.raises(ValueError, match=r"topology\(='ring'\) must be mesh or star"):
        Conditions("ring")
    with pytest.raises(ValueError, match=r"transport\(='quic'\) must be reliable, datagram or tcp"):
        Conditions(transport="quic")
    for timeout in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"retransmission_timeout\(=.*\) must be > 0 seconds"):
            Conditions(retransmission_timeout=timeout)


# Any schedule

NAMES = ("server", "client/0", "client/1", "client/2")
moments = st.floats(0, 3)
sends = st.tuples(moments, st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 3000)).filter(
    lambda send: send[1] != send[2]
)
crashes = st.tuples(moments, st.sampled_from(NAMES), st.none() | st.floats(0, 1))


@settings(deadline=None)
@given(
    schedule=st.lists(sends, max_size=40),
    lives=st.lists(crashes, max_size=5),
    topology=st.sampled_from(["mesh", "star"]),
    transport=st.sampled_from(["reliable", "datagram"]),
    rate=st.sampled_from([0.0, 2000.0]),
    loss=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 5),
)
def test_every_copy_is_delivered_lost_or_dropped(
    schedule: list[tuple[float, str, str, int]],
    lives: list[tuple[float, str, float | None]],
    topology: str,
    transport: str,
    rate: float,
    loss: float,
    seed: int,
) -> None:
    """sent = delivered + lost + dropped at the end; the clock never goes back; the ledger is the sum over the trace."""
    world = World(topology, seed, latency="lognormal:50ms,1", loss=loss, jitter=0.1, transport=transport)
    world.attach(*NAMES, up=rate, down=rate)

    def fall(name: str, back: float | None) -> None:
        endpoint = world.endpoints[name]
        if endpoint.alive:
            endpoint.fall()
            if back is not None:
                world.loop.call_later(back, endpoint.rejoin)

    for when, sender, receiver, size in schedule:
        world.loop.call_at(when, lambda s=sender, r=receiver, n=size: world.send(s, r, n))
    for when, name, back in lives:
        world.loop.call_at(when, fall, name, back)
    world.run()
    counts = Counter(event.kind for event in world.events)
    assert world.copies() == counts["deliver"] + counts["lose"] + counts["drop"]
    assert world.network.in_flight == 0
    assert len(world.received) == counts["deliver"] <= len(schedule)
    times = [event.time for event in world.events]
    assert times == sorted(times)
    hops = [event for event in world.events if event.kind in ("send", "relay")]
    assert world.ledger.messages == len(hops)
    for column in ("payload", "sealing", "envelope"):
        assert world.ledger.total(column) == sum(getattr(event, column) for event in hops)
    if not lives and (transport == "reliable" or not loss):
        assert counts["deliver"] == len(schedule)
    if not loss or transport == "datagram":
        assert counts["send"] == len(schedule)


PARTIES = ("server", "client/0", "client/1", "client/2")
ACTS = st.tuples(
    st.floats(0, 0.2),
    st.sampled_from(["parcel", "parcel", "letter", "letter", "many", "fall", "rejoin", "pause", "resume"]),
    st.sampled_from(PARTIES),
    st.sampled_from(PARTIES),
    st.integers(0, 3000),
)


def trace_of(topology: str, tapped: bool, hashed: bool, watched: bool, rate: float, acts: list[Any]) -> Any:
    """The events and hashes of a run with these acts, and the counts that it leaves."""
    world = World(topology)
    world.trace = world.network._trace = Trace([world.events.append] if watched else [], hashed=hashed)
    if not tapped:
        world.taps.sent.clear()
        world.taps.delivered.clear()
    world.attach(*PARTIES, up=rate, down=rate)

    def act(kind: str, one: str, other: str, size: int) -> None:
        endpoint = world.endpoints[one]
        if kind == "fall" and endpoint.alive:
            endpoint.fall()
        elif kind == "rejoin" and not endpoint.alive:
            endpoint.rejoin()
        elif kind == "pause" and endpoint.alive and not endpoint.paused:
            endpoint.pause()
        elif kind == "resume" and endpoint.paused:
            endpoint.resume()
        elif kind in ("parcel", "letter", "many") and one != other and endpoint.alive:
            message = NetworkLetter("x" * size) if kind == "letter" else NetworkParcel(bytes(size))
            body = encode_body(message)
            frame = Frame(type(message).__name__, one, other, endpoint.incarnation, 1, size % 3, False, body)
            step = ("network.step", "network.other")[size % 2]
            world.network.send(pack_frame(frame, message, step, times=3 if kind == "many" else 1))

    for when, *what in acts:
        world.loop.env.at(when, partial(act, *what))
    world.run(100.0)
    hashes = world.trace.trace_hash, world.trace.shape_hash, world.trace.count
    return hashes, world.events, world.received, world.ledger.rows(), world.ledger.bytes, world.network.in_flight


@pytest.mark.skipif(not is_compiled(), reason="not compiled")
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["star", "mesh"]), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 1e4, 1e6]),
    st.lists(ACTS, max_size=25),
)  # fmt: skip
def test_compiled_ways_tell_the_same_as_those_in_python(
    topology: str, tapped: bool, hashed: bool, watched: bool, rate: float, acts: list[Any]
) -> None:
    compiled = trace_of(topology, tapped, hashed, watched, rate, acts)
    with in_python():
        assert trace_of(topology, tapped, hashed, watched, rate, acts) == compiled
    assert not hashed or compiled[0][2] == 0 or compiled[0][0] != Trace().trace_hash
    assert not watched or len(compiled[1]) == compiled[0][2]
