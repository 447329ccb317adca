"""A packet takes the latency and its size / the slower end, and links share the access of a party."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.access import Uplink
from tacit.sim.clock import Environment
from tacit.sim.downlink import Downlink
from tacit.sim.latency import parse_latency
from tacit.sim.link import PACKET, Link
from tacit.sim.loop import SimLoop
from tacit.sim.streams import child

Arrival = tuple[str, float]


class World:
    """Links under test, with the times of arrivals and losses."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.arrived: list[Arrival] = []
        self.lost: list[tuple[str, float, str]] = []

    def up(self, rate: float) -> Uplink:
        return Uplink(self.loop.env, rate)

    def down(self, rate: float) -> Downlink:
        return Downlink(self.loop.env, rate)

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


RATES = st.sampled_from([100.0, 1000.0, 12_345.6, 1e6])


@given(RATES, RATES, st.integers(1, 10**7), st.floats(0, 5))
def test_a_packet_alone_takes_the_slower_end_and_the_latency(up: float, down: float, size: int, when: float) -> None:
    world = World()
    link = world.link("500ms", up=world.up(up), down=world.down(down))
    world.at(when, lambda: world.send(link, "a", size))
    assert world.run(10**6) == [("a", pytest.approx(when + size / min(up, down) + 0.5, rel=1e-6))]


def test_packets_of_a_link_take_turns(world: World) -> None:
    link = world.link("1s", up=world.up(1000), down=world.down(500))
    world.send(link, "a", 2000)
    world.send(link, "b", 2000)
    world.at(20.0, lambda: world.send(link, "c", 500))
    assert world.run() == [("a", 5.0), ("b", 9.0), ("c", 22.0)]


@pytest.mark.parametrize("rate", [8e6, 2e6, 1e6, 7e5])
@pytest.mark.parametrize("size", [100, 10_000, 10**7])
@pytest.mark.parametrize("sends", [True, False], ids=["to", "from"])
def test_equal_transfers_end_when_arithmetic_says(world: World, rate: float, size: int, sends: bool) -> None:
    server = world.up(rate) if sends else world.down(rate)
    for number in range(4):
        ends = {"up": server, "down": world.down(1e6)} if sends else {"up": world.up(1e6), "down": server}
        world.send(world.link("40ms", number, **ends), str(number), size)
    last = max(when for _, when in world.run())
    packet = min(size, PACKET) * 4 / rate  # packets are not divided
    assert last == pytest.approx(0.04 + max(size / 1e6, 4 * size / rate), rel=0.05, abs=packet)


def fairly_shared(transfers: list[tuple[float, int, float]], rate: float) -> list[float]:
    """The ends of transfers with a start, a size and a highest rate that share `rate`: max-min fairness by steps."""
    left = {number: float(size) for number, (_, size, _) in enumerate(transfers)}
    ends, now = [0.0] * len(transfers), 0.0
    while left:
        active = [number for number in left if transfers[number][0] <= now]
        rates, free, share = {}, rate, sorted(active, key=lambda number: transfers[number][2])
        for place, number in enumerate(share):
            rates[number] = min(transfers[number][2], free / (len(share) - place))
            free -= rates[number]
        steps = [left[number] / rates[number] for number in active]
        steps += [transfers[number][0] - now for number in left if number not in rates]
        step = min(steps)
        now += step
        for number in active:
            left[number] -= rates[number] * step
            if left[number] <= 1e-6 * transfers[number][1]:
                ends[number] = now
                del left[number]
    return ends


TRANSFERS = st.lists(
    st.tuples(st.integers(0, 20).map(float), st.integers(2000, 10_000), st.sampled_from([50.0, 200.0, 999.0, 1e4])),
    min_size=1, max_size=12,
)  # fmt: skip


@given(TRANSFERS)
def test_an_uplink_is_shared_fairly_by_its_links(transfers: list[tuple[float, int, float]]) -> None:
    world = World()
    up = world.up(1000.0)
    for number, (when, size, rate) in enumerate(transfers):
        link = world.link("3s", number, up=up, down=world.down(rate))
        world.at(when, partial(world.send, link, str(number), size))
    arrived = dict(world.run(100_000))
    expected = fairly_shared(transfers, 1000.0)
    assert [arrived[str(number)] - 3 for number in range(len(transfers))] == pytest.approx(expected, rel=1e-5)


@given(TRANSFERS)
def test_a_downlink_serves_bytes_in_the_order_of_arrival(transfers: list[tuple[float, int, float]]) -> None:
    world = World()
    down = world.down(1000.0)
    for number, (when, size, rate) in enumerate(transfers):
        link = world.link("3s", number, up=world.up(rate), down=down)
        world.at(when, partial(world.send, link, str(number), size))
    arrived = dict(world.run(100_000))
    rates = [min(rate, 1000.0) for _, _, rate in transfers]  # no sender is faster than the receiver
    ends = [when + size / rate for (when, size, _), rate in zip(transfers, rates, strict=True)]
    backlog, before, expected = 0.0, 0.0, {}
    for now in sorted({when for when, _, _ in transfers} | set(ends)):
        inflow = sum(
            rate for (when, _, _), rate, end in zip(transfers, rates, ends, strict=True) if when <= before < end
        )
        backlog = max(0.0, backlog + (inflow - 1000.0) * (now - before))
        before = now
        expected |= {number: now + backlog / 1000.0 for number, end in enumerate(ends) if end == now}
    found = [arrived[str(number)] - 3 for number in range(len(transfers))]
    assert found == pytest.approx([expected[number] for number in range(len(transfers))], rel=1e-5)


@given(TRANSFERS, st.integers(0, 1000))
def test_no_access_carries_more_than_its_rate(transfers: list[tuple[float, int, float]], seed: int) -> None:
    world = World()
    ups = [world.up(rate) for _, _, rate in transfers[:3]]
    downs = [world.down(rate) for _, _, rate in transfers[-3:]]
    chosen = np.random.default_rng(seed)
    links = [
        [world.link("lognormal:1s,1", 3 * place + other, up=up, down=down) for other, down in enumerate(downs)]
        for place, up in enumerate(ups)
    ]
    loads: dict[int, int] = {}
    for number, (when, size, _) in enumerate(transfers):
        link = links[chosen.integers(len(ups))][chosen.integers(len(downs))]
        world.at(when, partial(world.send, link, str(number), size))
        for end in (link.up, link.down):
            loads[id(end)] = loads.get(id(end), 0) + size
    last = max(when for _, when in world.run(10**6))
    assert len(world.arrived) == len(transfers)
    assert last >= max(loads[id(end)] / end.rate for end in (*ups, *downs) if id(end) in loads) - 1e-6


def test_a_small_packet_waits_for_the_backlog_of_a_downlink(world: World) -> None:
    down = world.down(1000)
    for number in range(2):
        world.send(world.link(seed=number, up=world.up(1000), down=down), str(number), 4000)
    world.at(4.0, lambda: world.send(world.link(seed=2, down=down), "small", 500))
    assert world.run() == [("0", 8.0), ("1", 8.0), ("small", 8.5)]


def test_a_slowed_end_slows_what_is_on_its_way(world: World) -> None:
    up, down = world.up(1000), world.down(1000)
    world.send(world.link("1s", up=up), "sent", 4000)
    world.send(world.link("1s", seed=2, down=down), "received", 4000)
    world.at(2.0, lambda: (up.stretch(3.0), down.stretch(3.0)))
    world.at(5.0, lambda: (up.stretch(float("inf")), down.stretch(float("inf"))))
    world.at(10.0, lambda: (up.stretch(1.0), down.stretch(1.0)))
    # 2,000 bytes left in 2 s, 1,000 in the next 3 s, and the last 1,000 after 10 s; 1,000, 1,000, 2,000 arrived.
    assert sorted(world.run()) == [("received", 12.0), ("sent", 12.0)]


def test_uplink_and_downlink_do_not_slow_each_other(world: World) -> None:
    up, down = world.up(1000), world.down(1000)
    world.send(world.link(up=up), "out", 5000)
    world.send(world.link(down=down), "in", 5000)
    assert sorted(world.run()) == [("in", 5.0), ("out", 5.0)]


@given(st.lists(st.floats(0, 0.2), min_size=2, max_size=40), st.integers(0, 100), st.booleans())
def test_packets_arrive_in_the_order_they_were_sent(gaps: list[float], seed: int, limited: bool) -> None:
    world = World()
    down = world.down(1e4) if limited else None
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


def test_emptying_an_uplink_loses_its_packets_and_frees_it_at_once(world: World) -> None:
    up = world.up(1000)
    link = world.link("1s", up=up)
    for name in ("through", "half through", "waiting"):
        world.send(link, name, 10_000)
    world.at(15.0, up.empty)
    world.at(16.0, lambda: world.send(link, "afterwards", 2000))
    assert world.run() == [("through", 11.0), ("afterwards", 19.0)]
    gone = "the sender was gone before it was sent"
    assert world.lost == [("half through", 15.0, gone), ("waiting", 15.0, gone)]


def test_emptying_an_empty_uplink_loses_no_packet(world: World) -> None:
    up = world.up(1000)
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
def test_an_access_needs_a_rate(world: World, rate: float) -> None:
    for make in (world.up, world.down):
        with pytest.raises(ValueError, match="must be > 0 bytes/s"):
            make(rate)
    world.run(0)


def test_a_downlink_that_was_used_is_no_new_one() -> None:
    env = Environment()
    down = Downlink(env, 10.0)
    assert down.is_new
    down.take(20, 0.0, lambda: None)
    env.run()
    assert env.now == 2.0
    assert down.is_empty
    assert not down.is_new


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6), st.sampled_from(["lognormal:40ms,0.3", "30ms"]), st.booleans()
)
def test_a_link_that_is_made_again_continues_its_delays(lives: list[int], latency: str, shaken: bool) -> None:
    conditions = {"jitter": 0.01} if shaken else {}
    whole = World().link(latency, **conditions)
    expected, found = [whole.draw() for _ in range(sum(lives))], list[float]()
    for count in lives:
        again = World().link(latency, **conditions)
        again.go_on(len(found))
        found += [again.draw() for _ in range(count)]
    assert found == expected
    if not shaken:
        assert found == list(islice(parse_latency(latency).stream(lambda: child(1, "link", number=0)), len(found)))
