"""A packet takes size/up + latency + size/down seconds, in turn and in order."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.latency import parse_latency
from tacit.sim.link import Link, Pipe
from tacit.sim.loop import SimLoop

Arrival = tuple[str, float]


class World:
    """Links under test, with the times of arrivals and losses."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.arrived: list[Arrival] = []
        self.lost: list[tuple[str, float, str]] = []

    def pipe(self, rate: float) -> Pipe:
        return Pipe(self.loop.env, rate)

    def link(self, latency: str = "0ms", seed: int = 1, **conditions: Any) -> Link:
        return Link(self.loop.env, parse_latency(latency), seed, (), **conditions)

    def send(self, link: Link, name: str, size: int) -> None:
        now = self.loop.time
        link.send(size, lambda: self.arrived.append((name, now())), lambda why: self.lost.append((name, now(), why)))

    def at(self, when: float, call: Callable[[], object]) -> None:
        self.loop.call_at(when, call)

    def run(self, seconds: float = 1000.0) -> list[Arrival]:
        self.loop.run(asyncio.sleep(seconds))
        self.loop.finish()
        return self.arrived


@pytest.fixture
def world() -> World:
    return World()


def test_a_link_without_limits_takes_the_latency(world: World) -> None:
    link = world.link("40ms")
    world.send(link, "big", 10**9)
    world.at(1.0, lambda: world.send(link, "later", 1))
    assert world.run() == [("big", 0.04), ("later", 1.04)]


def test_bandwidth_and_latency_add_up(world: World) -> None:
    link = world.link("500ms", up=world.pipe(1000), down=world.pipe(2000))
    world.send(link, "a", 4000)
    assert world.run() == [("a", 4.0 + 0.5 + 2.0)]


def test_packets_take_turns_on_the_uplink_and_on_the_downlink(world: World) -> None:
    link = world.link("1s", up=world.pipe(1000), down=world.pipe(500))
    world.send(link, "a", 1000)
    world.send(link, "b", 1000)
    world.at(20.0, lambda: world.send(link, "c", 500))
    # a leaves at 1, arrives at 2, is received at 4; b leaves at 2, arrives at 3, waits until 4, is received at 6.
    assert world.run() == [("a", 4.0), ("b", 6.0), ("c", 20.0 + 0.5 + 1.0 + 1.0)]


def test_all_links_of_a_sender_share_its_uplink(world: World) -> None:
    up = world.pipe(1000)
    links = [world.link(f"{milliseconds}ms", up=up) for milliseconds in (0, 250, 500)]
    for name, link in zip("abc", links, strict=True):
        world.send(link, name, 1000)
    assert world.run() == [("a", 1.0), ("b", 2.25), ("c", 3.5)]


def test_all_links_to_a_receiver_share_its_downlink(world: World) -> None:
    down = world.pipe(1000)
    for name, latency in (("far", "3s"), ("near", "1s"), ("nearer", "0.5s")):
        world.send(world.link(latency, down=down), name, 1000)
    assert world.run() == [("nearer", 1.5), ("near", 2.5), ("far", 4.0)]


def test_uplink_and_downlink_do_not_slow_each_other(world: World) -> None:
    up, down = world.pipe(1000), world.pipe(1000)
    world.send(world.link(up=up), "out", 5000)
    world.send(world.link(down=down), "in", 5000)
    assert sorted(world.run()) == [("in", 5.0), ("out", 5.0)]


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 10_000)), min_size=1, max_size=20),
    st.sampled_from([100.0, 1000.0, 12_345.6]),
)
def test_a_pipe_serves_one_packet_at_a_time_in_order(packets: list[tuple[float, int]], rate: float) -> None:
    world = World()
    link = world.link("10ms", up=world.pipe(rate))
    for number, (when, size) in enumerate(packets):
        world.at(when, partial(world.send, link, str(number), size))
    expected, free = [], 0.0
    for number, (when, size) in sorted(enumerate(packets), key=lambda item: item[1][0]):
        free = max(free, when) + size / rate
        expected.append((str(number), free + 0.01))
    assert world.run(10_000) == expected


@given(st.lists(st.floats(0, 0.2), min_size=2, max_size=40), st.integers(0, 100), st.booleans())
def test_packets_arrive_in_the_order_they_were_sent(gaps: list[float], seed: int, limited: bool) -> None:
    world = World()
    down = world.pipe(1e4) if limited else None
    link = world.link("lognormal:40ms,1.5", seed, jitter=0.5, down=down)
    for number, when in enumerate(np.cumsum(gaps).tolist()):
        world.at(when, partial(world.send, link, str(number), 100))
    arrived = world.run()
    assert [int(name) for name, _ in arrived] == list(range(len(gaps)))
    assert all(first <= second for (_, first), (_, second) in pairwise(arrived))


def test_jitter_spreads_evenly_over_its_range(world: World) -> None:
    link = world.link("10ms", jitter=0.02)
    for number in range(5000):
        world.at(number * 0.1, partial(world.send, link, str(number), 1))
    delays = np.array([when - int(name) * 0.1 for name, when in world.run(600)])
    assert 0.01 <= delays.min() < 0.0101
    assert 0.0299 < delays.max() < 0.03
    assert delays.mean() == pytest.approx(0.02, rel=0.02)


def test_emptying_a_pipe_loses_its_packets_and_frees_the_pipe_at_once(world: World) -> None:
    up = world.pipe(1000)
    link = world.link("1s", up=up)
    for name in ("through", "half through", "waiting"):
        world.send(link, name, 10_000)
    world.at(15.0, up.empty)
    world.at(16.0, lambda: world.send(link, "afterwards", 2000))
    assert world.run() == [("through", 11.0), ("afterwards", 19.0)]
    gone = "the sender was gone before it was sent"
    assert world.lost == [("half through", 15.0, gone), ("waiting", 15.0, gone)]


def test_emptying_an_empty_pipe_loses_no_packet(world: World) -> None:
    up = world.pipe(1000)
    link = world.link(up=up)
    up.empty()
    world.send(link, "a", 1000)
    world.at(5.0, up.empty)
    world.at(6.0, lambda: world.send(link, "b", 1000))
    assert world.run() == [("a", 1.0), ("b", 7.0)]
    assert not world.lost


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"jitter": -1.0}, r"jitter\(=-1\.0\) must be >= 0"),
        ({"jitter": float("nan")}, r"jitter\(=nan\)"),
        ({"loss": 1.0}, r"loss\(=1\.0\) must lie in"),
        ({"loss": -0.1}, r"loss\(=-0\.1\) must lie in"),
    ],
)
def test_impossible_conditions_are_refused(world: World, conditions: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world.link(**conditions)
    world.run(0)


@pytest.mark.parametrize("rate", [0.0, -5.0])
def test_a_pipe_needs_a_rate(world: World, rate: float) -> None:
    with pytest.raises(ValueError, match="must be > 0 bytes/s"):
        world.pipe(rate)
    world.run(0)
