"""Messages that take CPU time before sending and before receipt, on cores shared with jobs."""

import asyncio
import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.sim.conditions import Conditions
from tacit.sim.faults import Lose
from tacit.sim.handling import Handler, Handling
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.machine import Host, Machine
from tacit.sim.network import Endpoint, LinkNetwork
from tacit.sim.trace import Event, Trace
from tacit.sim.triggers import Faults
from tacit.sim.wire import Frame, Ledger, Message, Packet, encode_body, pack_frame

EACH = Handling(0.25, 1000.0)
"""0.25 s for each message, and 1 s for 1000 bytes."""


class HandledParcel(Message):
    values: bytes


def parcel(sender: str, receiver: str, size: int = 100) -> Packet:
    message = HandledParcel(bytes(size))
    frame = Frame("HandledParcel", sender, receiver, 1, 0, 0, False, encode_body(message))
    return pack_frame(frame, message, "handled.step")


class World:
    def __init__(self, topology: str = "star", faults: Faults | None = None, **conditions: Any) -> None:
        self.loop = SimLoop()
        self.events: list[Event] = []
        given = Conditions(topology, parse_latency("10ms"), **conditions)
        trace = Trace([self.events.append])
        self.network = LinkNetwork(self.loop, trace, Ledger(), 1, given, faults)
        self.received: list[tuple[str, float]] = []
        self.ends: dict[str, Endpoint] = {}

    def attach(self, name: str, handling: Handling | None = EACH, host: Host | None = None, **access: float) -> None:
        def receive(packet: Packet) -> None:
            self.received.append((name, self.loop.time()))

        host = host or Host(1)
        self.ends[name] = self.network.attach(name, receive, handling=handling, host=host, **access)

    def send(self, sender: str, receiver: str, size: int = 100) -> int:
        """The bytes that travel."""
        packet = parcel(sender, receiver, size)
        self.network.send(packet)
        return packet.size

    def run(self, seconds: float = 1000.0) -> None:
        self.loop.run(asyncio.sleep(seconds))
        self.loop.finish()

    @property
    def ended(self) -> list[tuple[str, str]]:
        return [(event.kind, event.note) for event in self.events if event.kind in ("deliver", "lose", "drop")]


@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_a_message_is_handled_at_both_ends(transport: str) -> None:
    world = World("mesh", transport=transport)
    world.attach("a", up=500.0)
    world.attach("b")
    size = world.send("a", "b")
    world.run()
    assert world.received == [("b", pytest.approx(2 * EACH.seconds(size) + size / 500 + 0.01))]
    assert EACH.seconds(size) == 0.25 + size / 1000


def test_over_tcp_messages_are_handled_and_the_handshake_is_not() -> None:
    times = []
    for handling in (None, EACH):
        world = World("mesh", transport="tcp")
        world.attach("a", handling)
        world.attach("b", handling)
        size = world.send("a", "b")
        world.run()
        times.append(world.received[0][1])
    assert times[1] == pytest.approx(times[0] + 2 * EACH.seconds(size))


def test_a_relay_handles_a_message_twice_one_after_the_other() -> None:
    world = World()
    for name in ("server", "client/0", "client/1", "client/2"):
        world.attach(name)
    size = world.send("client/0", "client/1")
    world.run()
    each = EACH.seconds(size)
    assert world.received == [("client/1", pytest.approx(4 * each + 0.02))]
    world = World()
    for name in ("server", "client/0", "client/1"):
        world.attach(name)
    each = EACH.seconds(world.send("client/0", "server"))
    world.send("client/1", "server")  # they arrive together, and the server handles one after the other
    world.run()
    assert [time for _, time in world.received] == pytest.approx([2 * each + 0.01, 3 * each + 0.01])


def test_on_a_host_parties_share_cores_with_each_other_and_with_jobs() -> None:
    host = Host(1)
    world = World("mesh")
    for name in ("a", "b", "c"):
        world.attach(name, host=host)
    size = world.send("a", "c")
    world.send("b", "c")
    world.run()
    each = EACH.seconds(size)  # both sends take turns, then c handles one after the other
    assert [time for _, time in world.received] == pytest.approx([3 * each + 0.01, 4 * each + 0.01])

    host, world = Host(1), World("mesh")
    for name in ("a", "b"):
        world.attach(name, host=host)
    machine = Machine(world.loop.env, host=host)

    async def main() -> float:
        world.send("a", "b")
        await machine.work(10.0)
        return world.loop.time()

    try:
        ended = world.loop.run(main())
    finally:
        world.loop.finish()
    assert world.received[0][1] == pytest.approx(4 * each + 0.01)  # each end takes twice as long beside the job
    assert ended == pytest.approx(10.0 + 2 * each)  # the job takes the same time longer


def test_without_handling_messages_take_only_the_latency() -> None:
    assert not Handling() and EACH and EACH.at(2.0) == Handling(0.125, 2000.0)
    world = World("mesh")
    world.attach("a", None)
    world.attach("b", None)
    world.send("a", "b")
    world.run()
    assert world.received == [("b", 0.01)] and world.ends["a"].handler is None


def test_a_message_lost_by_a_fault_or_with_its_sender_is_accounted_for() -> None:
    lose = Lose(message="HandledParcel", occurrence=1)
    world = World("mesh", faults=Faults([lose], 1), transport="datagram")
    world.attach("a")
    world.attach("b")
    world.send("a", "b")
    world.send("a", "b")
    world.run()
    assert [kind for kind, _ in world.ended] == ["lose", "deliver"] and world.network.in_flight == 0

    world = World("mesh")
    world.attach("a")
    world.attach("b")
    world.send("a", "b")
    world.loop.env.at(0.1, world.ends["a"].fall)
    world.run()
    assert world.ended == [("lose", "the sender was gone before it was sent")] and world.network.in_flight == 0


def test_a_receiver_that_falls_while_it_handles_does_not_receive() -> None:
    world = World("mesh")
    world.attach("a", None)
    world.attach("b")
    world.send("a", "b")
    world.loop.env.at(0.1, world.ends["b"].fall)
    world.run()
    assert world.ended == [("drop", "the receiver is down")]


def test_a_paused_party_handles_no_message_and_a_slow_party_takes_longer() -> None:
    world = World("mesh")
    world.attach("a", None)
    world.attach("b")
    size = world.send("a", "b")
    each = EACH.seconds(size)
    world.loop.env.at(0.01 + each / 2, world.ends["b"].pause)
    world.loop.env.at(50.0, world.ends["b"].resume)
    world.run()
    assert [time for _, time in world.received] == pytest.approx([50.0 + each / 2])
    world = World("mesh")
    world.attach("a", None)
    world.attach("b")
    world.ends["b"].stretch(3.0)
    world.send("a", "b")
    world.run()
    assert [time for _, time in world.received] == pytest.approx([0.01 + 3 * each])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=8))
def test_a_host_handles_all_messages_in_the_sum_of_their_times(messages: list[tuple[int, str]]) -> None:
    host, world = Host(1), World("mesh")
    for name in ("a", "b", "c", "sink"):
        world.attach(name, host=host)
    sizes = [world.send(sender, "sink", size) for size, sender in messages]
    world.run()
    work = 2 * sum(map(EACH.seconds, sizes))
    last = max(time for _, time in world.received)
    assert len(world.received) == len(messages) and work - 1e-6 <= last <= work + 0.01 * len(messages) + 1e-6


def test_a_restored_handler_finishes_its_message() -> None:
    env = SimLoop().env
    handler = Handler(env, EACH, Host(1))
    done: list[float] = []
    handler.take(250, lambda: done.append(env.now), lambda: None)
    state = handler.state()
    other = Handler(env, EACH, Host(1))
    assert other.is_empty and not handler.is_empty
    other.restore(state)
    assert not other.is_empty and other.state() == state
    earlier = Handler(env, EACH, Host(1))
    earlier.restore(state[:-1])  # a state of a version that did not count slow seconds
    assert earlier.state() == state
    env.step()
    assert done == [0.5]


def test_a_message_that_is_handled_slowly_holds_a_core_for_longer() -> None:
    """Four times as long, three quarters of the time are beyond that at full speed; a pause is not, and holds none."""
    env, beyond = SimLoop().env, list[float]()
    handler = Handler(env, EACH, Host(1), stretched=beyond.append)
    for size in (250, 250):
        handler.take(size, lambda: None, lambda: None)
    env.step()
    assert env.now == 0.5 and beyond == []
    handler.slow(4.0)
    env.put(1.5, partial(handler.slow, math.inf))  # with half of the second message done
    states: list[Any] = []
    env.put(3.0, lambda: states.append(handler.state()))
    env.put(3.5, partial(handler.slow, 1.0))
    while not handler.is_empty:
        env.step()
    assert env.now == 3.5 + 0.25 and beyond == [pytest.approx(0.75)]
    restored = Handler(env, EACH, Host(1), stretched=beyond.append)
    restored.restore(states[0])
    restored.slow(1.0)
    while not restored.is_empty:
        env.step()
    assert beyond == [pytest.approx(0.75)] * 2


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((-1.0, 1.0), "message.=-1.0. must be >= 0"),
        ((math.inf, 1.0), "message.=inf. must be >= 0"),
        ((0.0, 0.0), "rate.=0.0. must be > 0"),
    ],
)
def test_handling_times_and_rates_out_of_range_are_refused(values: tuple[float, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Handling(*values)


def test_an_endpoint_with_handling_needs_a_host() -> None:
    with pytest.raises(ValueError, match="a has a handling and no host"):
        Endpoint(SimLoop().env, "a", lambda packet: None, handling=EACH)
