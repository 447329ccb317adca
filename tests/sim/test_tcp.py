"""Messages over TCP: never faster than the link, slower if the window is small, complete and in order over lossy
links."""

import math
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.sim.clock import Environment
from tacit.sim.conditions import Barrier, Conditions
from tacit.sim.faults import Partition
from tacit.sim.latency import parse_latency
from tacit.sim.link import Link
from tacit.sim.loop import SimLoop
from tacit.sim.network import LinkNetwork
from tacit.sim.tcp import (
    FIRST,
    FLIGHTS,
    HEADERS,
    SEGMENT,
    SET_UP,
    LossyTcpStream,
    Window,
    headers,
    segments,
    streams,
)
from tacit.sim.trace import Trace
from tacit.sim.triggers import Faults
from tacit.sim.wire import Ledger, Packet

Case = Sequence[tuple[float, int]]

MS40 = 0.04
MBIT20 = 2.5e6

sizes = st.integers(1, 3_000_000)
rates = st.sampled_from([1e5, 625e3, MBIT20, 1.25e7, 0.0])
latencies = st.sampled_from(["0ms", "5ms", "40ms", "150ms"])


class Wire:
    """A network of named parties over TCP that notes when each packet arrived."""

    def __init__(
        self, latency: str = "40ms", loss: float = 0.0, seed: int = 1, faulty: bool = False, **rates: float
    ) -> None:
        self.loop = SimLoop()
        faults = Faults([Partition("nobody", time=0.0)] if faulty else [])
        conditions = Conditions("mesh", parse_latency(latency), loss=loss, transport="tcp")
        self.network = LinkNetwork(self.loop, Trace(), Ledger(), seed, conditions, faults)
        self.got: list[tuple[float, str, int]] = []
        for name in ("a", "b", "c"):
            rate = rates.get(name, 0.0)
            self.network.attach(name, partial(self.take, name), up=rate, down=rate)

    def take(self, name: str, packet: Packet) -> None:
        self.got.append((self.loop.env.now, packet.sender, packet.round))

    def send(self, sender: str, receiver: str, size: int, number: int = 1) -> None:
        packet = Packet(b"", b"", bytes(32), sender, receiver, 1, "p", "s", "T", number, 0, False, size, 0, 0)
        self.network.send(packet)

    def at(self, when: float, sender: str, receiver: str, size: int, number: int = 1) -> None:
        self.loop.env.at(when, partial(self.send, sender, receiver, size, number))

    def run(self) -> list[tuple[float, str, int]]:
        while self.loop.env.live:
            self.loop.env.step()
        self.loop.finish()
        assert self.network.in_flight == 0
        return self.got


def arrival(size: int, latency: str = "40ms", rate: float = MBIT20, before: Case = (), pause: float = 5.0) -> float:
    """The seconds that a message takes, `pause` seconds after the last of the messages `before`, each (pause, size)."""
    wire = Wire(latency, a=rate)
    time = 0.0
    for wait, earlier in before:
        time += wait
        wire.at(time, "a", "b", earlier)
    wire.at(time + (pause if before else 0.0), "a", "b", size)
    return wire.run()[-1][0] - time - (pause if before else 0.0)


@given(one=sizes, more=st.integers(1, 500_000), latency=latencies, rate=rates)
@settings(max_examples=60, deadline=None)
def test_a_larger_message_never_takes_less_time(one: int, more: int, latency: str, rate: float) -> None:
    assert arrival(one, latency, rate) <= arrival(one + more, latency, rate)


@given(size=sizes, latency=latencies, rate=rates)
@settings(max_examples=60, deadline=None)
def test_no_message_is_faster_than_the_link(size: int, latency: str, rate: float) -> None:
    seconds = parse_latency(latency).seconds or 0.0
    bytes_sent = size + HEADERS * segments(size)
    fluid = seconds + (bytes_sent / rate if rate else 0.0)
    found = arrival(size, latency, rate)
    assert found >= fluid + 4 * seconds - 1e-9
    assert arrival(size, latency, rate, before=[(0.0, 1)]) >= fluid - 1e-9
    rounds = math.ceil(math.log2(segments(size) / FIRST + 1)) + 1
    assert found <= fluid + (4 + 2 * rounds) * seconds + (sum(FLIGHTS) / rate if rate else 0.0) + 1e-9


@given(latency=st.sampled_from(["5ms", "40ms", "150ms"]), rate=st.sampled_from([625e3, MBIT20, 1.25e7]))
@settings(max_examples=9, deadline=None)
def test_a_warm_connection_is_as_fast_as_its_link_and_cools_down(latency: str, rate: float) -> None:
    seconds = parse_latency(latency).seconds or 0.0
    first = arrival(300_000, latency, rate, before=[(0.0, 1)])
    soon = arrival(600_000, latency, rate) + 2 * seconds
    warm = arrival(300_000, latency, rate, before=[(0.0, 600_000)], pause=soon)
    cold = arrival(300_000, latency, rate, before=[(0.0, 600_000)], pause=60.0)
    fluid = seconds + (300_000 + HEADERS * segments(300_000)) / rate
    assert fluid - 1e-9 <= warm < 1.3 * fluid
    assert cold == pytest.approx(first)


WAYS = ["ab", "ba", "ac", "cb"]

TABLE = [("40ms", MBIT20, 1_000, 0.0408), ("40ms", MBIT20, 100_000, 0.228), ("40ms", MBIT20, 300_000, 0.402),
         ("40ms", MBIT20, 1_000_000, 0.694), ("40ms", MBIT20, 10_000_000, 4.452), ("150ms", 625e3, 100_000, 0.855),
         ("150ms", 625e3, 1_000_000, 2.674), ("5ms", 1.25e7, 100_000, 0.0314)]  # fmt: skip
"""One-way times over an open connection of Linux's own TCP, over links of namespaces (docs/validation.md)."""


@pytest.mark.parametrize(("latency", "rate", "size", "real"), TABLE)
def test_messages_take_as_long_as_measured(latency: str, rate: float, size: int, real: float) -> None:
    assert arrival(size, latency, rate, before=[(0.0, 1)]) == pytest.approx(real, rel=0.15)


@given(
    letters=st.lists(st.tuples(st.sampled_from(WAYS), st.integers(1, 200_000)), min_size=1, max_size=9),
    loss=st.sampled_from([0.0, 0.01, 0.3]),
    seed=st.integers(0, 5),
    times=st.lists(st.floats(0, 3), min_size=9, max_size=9),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_message_is_received_once_in_order_and_repeatably(
    letters: list[tuple[str, int]], loss: float, seed: int, times: list[float]
) -> None:
    found = []
    for _ in range(2):
        wire = Wire("lognormal:40ms,0.5", loss, seed, a=MBIT20, b=1e6, c=1e5)
        for number, ((ends, size), time) in enumerate(zip(letters, sorted(times), strict=False)):
            wire.at(time, *ends, size, number)
        found.append(wire.run())
    assert found[0] == found[1]
    assert sorted(number for _, _, number in found[0]) == list(range(len(letters)))
    for ends in {ends for ends, _ in letters}:
        numbers = [number for _, _, number in found[0] if letters[number][0] == ends]
        assert numbers == sorted(numbers)


def test_losses_take_round_trips_and_never_save_time() -> None:
    perfect = arrival(1_000_000)
    for seed in range(4):
        wire = Wire(loss=0.01, seed=seed, a=MBIT20)
        wire.send("a", "b", 1_000_000)
        ((time, _, _),) = wire.run()
        assert perfect < time < 20 * perfect


def test_two_senders_share_the_receivers_downlink() -> None:
    wire = Wire("5ms", a=MBIT20, b=MBIT20, c=MBIT20)
    for sender in ("a", "c"):
        wire.send(sender, "b", 2_000_000)
    times = [time for time, _, _ in wire.run()]
    fluid = 2 * (2_000_000 + HEADERS * segments(2_000_000)) / MBIT20
    assert fluid < times[0] <= times[1] < 1.1 * fluid
    assert times[0] > 0.9 * times[1]


@pytest.mark.parametrize(("up", "down"), [(1e5, 1e5), (1e5, 2e4), (2e4, 1e5)])
def test_a_segment_is_received_while_it_is_still_being_sent(up: float, down: float) -> None:
    """It takes the latency and the time through the slower of the two ends, not the sum of both."""
    wire = Wire(a=up, b=down)
    wire.send("a", "b", 1)
    wire.at(5.0, "a", "b", 1000, 2)
    seconds = wire.run()[-1][0] - 5.0
    assert seconds == pytest.approx(MS40 + (1000 + HEADERS) / min(up, down), abs=1e-9)


def test_messages_stopped_by_a_partition_arrive_after_the_partition() -> None:
    wire = Wire(faulty=True, a=MBIT20)
    barrier = Barrier("a", "b")
    wire.send("a", "b", 1)
    wire.at(2.0, "a", "b", 50_000, 2)
    wire.loop.env.at(1.0, partial(wire.network.block, barrier))
    wire.loop.env.at(9.0, partial(wire.network.unblock, barrier))
    received = wire.run()
    assert [number for _, _, number in received] == [1, 2]
    assert 9.0 < received[1][0] < 20.0
    assert wire.network.statistics().sent_again > 0


def test_a_message_behind_a_partition_that_stays_is_given_up() -> None:
    """It is given up after 15 tries with timeouts that double up to 120 s, like in Linux: within twenty minutes."""
    wire = Wire(faulty=True, a=MBIT20)
    wire.send("a", "b", 1)
    wire.loop.env.at(1.0, partial(wire.network.block, Barrier("a", "b")))
    wire.at(2.0, "a", "b", 1_000, 2)
    while wire.loop.env.live and wire.loop.env.now < 1200:
        wire.loop.env.step()
    assert [number for _, _, number in wire.got] == [1]
    assert (wire.network.in_flight, wire.loop.env.live) == (0, 0)
    assert wire.network.statistics().sent_again == 15
    assert wire.loop.env.now > 600
    wire.loop.finish()


def test_one_connection_carries_both_directions() -> None:
    wire = Wire(a=MBIT20)
    wire.send("a", "b", 100)
    wire.at(1.0, "b", "a", 100)
    (first, _, _), (second, _, _) = wire.run()
    assert first == pytest.approx(5 * MS40, abs=0.005)
    assert second == pytest.approx(1.0 + MS40, abs=0.001)
    assert wire.network.statistics().connections == 1


@given(
    steps=st.lists(st.tuples(st.sampled_from(["grow", "rest", "reduce", "collapse"]), st.integers(1, 50)), max_size=40)
)
def test_a_window_keeps_between_one_segment_and_its_limit(steps: list[tuple[str, int]]) -> None:
    window, now = Window(), 0.0
    for name, count in steps:
        now += 0.1
        match name:
            case "grow":
                window.grow(min(count, int(window.size)), 138.0, now)
            case "rest":
                window.rest(count * 0.1, 0.28)
            case _:
                getattr(window, name)(now)
        assert 1 <= window.size <= 4 << 20


def test_headers_are_those_of_segments_and_every_second_acknowledgement() -> None:
    assert [segments(size) for size in (1, SEGMENT, SEGMENT + 1)] == [1, 1, 2]
    assert [headers(size) for size in (1, SEGMENT + 1, 3 * SEGMENT)] == [2 * HEADERS, 3 * HEADERS, 5 * HEADERS]
    assert sum(FLIGHTS) < SET_UP < 4_000
    assert all(one > 0 for one in FLIGHTS) and all(a != b for a, b in pairwise(FLIGHTS[1:]))


class Losing(Link):
    """A link of 40 ms that loses the packets with the numbers `lost`, of those that its chances are drawn for."""

    __slots__ = ("count", "lost")

    def __init__(self, env: Environment, lost: Collection[int]) -> None:
        super().__init__(env, parse_latency("40ms"), 1, ())
        self.count, self.lost = 0, lost

    def loses(self) -> bool:
        self.count += 1
        return self.count in self.lost


def arrivals_without(lost: Collection[int], *sizes: int, counted: list[tuple[int, int]] | None = None) -> list[float]:
    """The times at which messages of these `sizes` arrive, which are sent at once over an open connection.

    `lost`: the numbers of the segments that are lost, of all that are sent. `counted` gets the number and the bytes of
    those that were sent again.
    """
    wire = Wire(faulty=True)
    got: list[float] = []
    carrier = SimpleNamespace(
        barrier=lambda *ends: None, is_cut=lambda *ends: False, is_gone=lambda copy: False, end=lambda *end: None,
        carried=lambda copy: None,
        resend=lambda *why: None, arrive=lambda copy: got.append(wire.loop.env.now),
    )  # fmt: skip
    env = wire.loop.env
    links = [Losing(env, ()), Losing(env, ())]
    stream = streams(env, carrier, links, ("a", "b"), LossyTcpStream)["a", "b"]
    stream.send(SimpleNamespace(size=1, delay=0.0, doomed=False))
    while env.live:
        env.step()
    began, links[0].count, links[0].lost = env.now + 0.1, 0, lost
    for size in sizes:
        env.at(began, partial(stream.send, SimpleNamespace(size=size, delay=0.0, doomed=False)))
    while env.live:
        env.step()
    wire.loop.finish()
    assert len(got) == 1 + len(sizes)
    if counted is not None:
        counted.append((stream.segments_again, stream.bytes_again))
    return [time - began for time in got[1:]]


@pytest.mark.parametrize(
    ("lost", "waited"),
    [
        ([], 0.0),
        ([1], 2 * MS40),  # four segments follow it: a fast retransmission, after a round trip
        ([5], 4 * MS40),  # none follows it: a tail loss probe, after two
        ([1, 5], 4 * MS40),  # the last lost one counts
        ([1, 2, 3, 4, 5], 0.2 + 6 * MS40),  # nothing returns: the timeout, and then windows of 1, 2 and 4 segments
    ],
)
def test_what_follows_a_lost_segment_decides_when_it_is_sent_again(lost: list[int], waited: float) -> None:
    (arrival,) = arrivals_without(lost, 5 * SEGMENT)
    assert arrival == pytest.approx(MS40 + waited)


def test_a_lost_segment_is_sent_again_before_later_messages() -> None:
    first, second = arrivals_without([1], 5 * SEGMENT, 400 * SEGMENT)
    assert first == pytest.approx(5 * MS40)  # a round trip until the loss is known, and one until the window has room
    assert second > 2 * first


@pytest.mark.parametrize(("idle", "left"), [(0.9, 160), (1.1, 80), (2.0, 80), (2.1, 40), (4.0, 20), (100.0, FIRST)])
def test_an_idle_window_is_halved_for_each_timeout_after_the_first(idle: float, left: float) -> None:
    """Linux halves it while the idle time, less a timeout each time, is above 0 (RFC 2861)."""
    window = Window()
    window.size = 160
    window.rest(idle * 0.3, 0.3)
    assert window.size == left


@pytest.mark.parametrize("largest", [20.0, 100.0, 1000.0])
def test_a_window_after_a_loss_follows_the_cubic_function(largest: float) -> None:
    """W(t) = C (t - K)^3 + W_max, where K = cbrt((1 - beta) W_max / C), beta = .7 and C = .4 (RFC 9438, 4.2)."""
    window = Window()
    window.size = largest
    window.reduce(10.0)
    assert window.size == pytest.approx(0.7 * largest)
    follow_the_cubic_function(window, largest, 10.0)


@pytest.mark.parametrize(("second", "aim"), [(60.0, 51.0), (99.0, 84.15), (100.0, 100.0), (150.0, 150.0)])
def test_a_window_that_did_not_regain_its_size_aims_lower_after_the_next_loss(second: float, aim: float) -> None:
    """W_max = cwnd (1 + beta) / 2 where cwnd < W_max, else cwnd (RFC 9438, 4.7)."""
    window = Window()
    window.size = 100.0
    window.reduce(10.0)
    window.size = second
    window.reduce(20.0)
    assert window.size == pytest.approx(0.7 * second)
    follow_the_cubic_function(window, aim, 20.0)


def follow_the_cubic_function(window: Window, largest: float, since: float) -> None:
    """Compare the growth of a `window` with that to W_max = `largest` after a loss at the time `since`."""
    least = window.size
    k = math.cbrt((largest - least) / 0.4)
    for part in (0.5, 1.0, 1.5):
        window.size = least
        while (expected := 0.4 * (part * k - k) ** 3 + largest) > window.size * (1 + 1e-9):
            before = window.size
            window.grow(1, math.inf, since + part * k)
            assert before < window.size
        assert window.size == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize("lost", [[], [1], [2, 4], [1, 2, 3, 4, 5], [1, 6]])
def test_segments_that_are_sent_again_are_counted_with_their_headers(lost: list[int]) -> None:
    """With numbers up to 5 a segment is lost once, with 6 once more as it is sent again."""
    counted: list[tuple[int, int]] = []
    arrivals_without(lost, 4 * SEGMENT + 100, counted=counted)
    full, last = len([one for one in lost if one != 5]), 5 in lost
    assert counted == [(full + last, full * (SEGMENT + HEADERS) + last * (100 + HEADERS))]


def test_as_much_is_sent_again_as_the_link_loses() -> None:
    wire = Wire(loss=0.05, a=MBIT20)
    for number in range(100):
        wire.at(number, "a", "b", 10 * SEGMENT, number)
    wire.run()
    found = wire.network.statistics()
    assert found.sent_again == 0
    assert 30 < found.segments_again < 75  # 1000 and those that are lost again
    assert found.segment_bytes_again == pytest.approx(found.segments_again * (SEGMENT + HEADERS), rel=0.1)
