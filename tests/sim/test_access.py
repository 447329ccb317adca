"""Uplinks and downlinks carry what a fluid does: all programs of packets end when a plain simulation says.

The reference below shares no code with `tacit.sim.access`. First it divides each uplink by progressive filling, from
event to event; then it integrates each downlink over the pieces of its inflow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.access import Uplink, _Leaving
from tacit.sim.clock import Environment, Timer, in_python, is_compiled
from tacit.sim.downlink import Downlink
from tacit.sim.latency import parse_latency
from tacit.sim.link import PACKET, Link, Passage
from tacit.sim.plain import Reader, Writer

NEAR = 1e-9  # of a size: what rounding leaves


@dataclass(frozen=True)
class Packet:
    """A packet sent at `time`, with its latency; one that is `lost` is so once its last byte has left."""

    time: float
    sender: int
    receiver: int
    size: int
    latency: float
    lost: bool = False


@dataclass(frozen=True)
class Program:
    """Rates of senders and receivers, packets, and what happens: (time, number of the party, factor)."""

    ups: tuple[float, ...]
    downs: tuple[float, ...]
    packets: tuple[Packet, ...]
    slow_ups: tuple[tuple[float, int, float], ...] = ()
    slow_downs: tuple[tuple[float, int, float], ...] = ()
    falls_up: tuple[tuple[float, int], ...] = ()
    falls_down: tuple[tuple[float, int], ...] = ()


# The reference


@dataclass
class Way:
    """How a packet left: pieces of (from, to, rate); `left` is None if its sender fell before that."""

    packet: Packet
    pieces: list[tuple[float, float, float]] = field(default_factory=list)
    left: float | None = None

    @property
    def began(self) -> float:
        return self.pieces[0][0]


def filled(caps: list[float], rate: float) -> list[float]:
    """Progressive filling: all rates grow alike, until each meets its cap or the sum meets `rate`."""
    found = [0.0] * len(caps)
    growing, free = set(range(len(caps))), rate
    while growing and free > 0:
        step = min(min(caps[one] - found[one] for one in growing), free / len(growing))
        for one in growing:
            found[one] += step
        free -= step * len(growing)
        full = {one for one in growing if caps[one] - found[one] <= 1e-12 * caps[one]}
        if not full:
            break
        growing -= full
    return found


def sent(program: Program, sender: int) -> list[Way]:
    """The ways of all packets of a sender that begin to leave."""
    packets = [one for one in program.packets if one.sender == sender]
    slow = [(time, factor) for time, who, factor in program.slow_ups if who == sender]
    falls = [time for time, who in program.falls_up if who == sender]
    times = sorted({one.time for one in packets} | {time for time, _ in slow} | set(falls))
    queues: dict[int, list[tuple[Way, float]]] = {}  # by link: the ways, and the bytes left
    ways: list[Way] = []
    now, factor = 0.0, 1.0
    while True:
        heads = [queue[0] for queue in queues.values() if queue]
        rates = filled([program.downs[way.packet.receiver] for way, _ in heads], program.ups[sender] / factor)
        ends = [now + left / rate for (_, left), rate in zip(heads, rates, strict=True) if rate]
        due = min([*ends, *times[:1]], default=None)
        if due is None:
            return ways
        for (way, left), rate in zip(heads, rates, strict=True):
            way.pieces.append((now, due, rate))
            left -= rate * (due - now)
            queue = queues[way.packet.receiver]
            if left > NEAR * way.packet.size + 1e-12 * rate * (1 + now):
                queue[0] = way, left
                continue
            queue.pop(0)
            way.left = due
            if queue:
                ways.append(queue[0][0])
        now = due
        if times[:1] != [now]:
            continue
        del times[0]
        if now in falls:
            queues.clear()
        factor = next((new for time, new in slow if time == now), factor)
        for one in packets:
            if one.time == now:
                way = Way(one)
                queue = queues.setdefault(one.receiver, [])
                queue.append((way, float(one.size)))
                if len(queue) == 1:
                    ways.append(way)


def received(program: Program, receiver: int, ways: list[Way]) -> dict[int, float]:
    """The times at which packets are through the downlink of a receiver, by the `id` of its packet."""
    inflow: list[tuple[float, float, float]] = []  # from, to, rate
    opened: list[tuple[float, float]] = []
    ends: list[tuple[float, Way]] = []
    last: dict[int, float] = {}
    for way in ways:
        flight = way.packet.latency
        if way.left is not None and not way.packet.lost:
            arrival = max(way.left + flight, last.get(way.packet.sender, 0.0))
            last[way.packet.sender] = arrival
            ends.append((arrival, way))
        if way.packet.size > PACKET:
            stop = way.left if way.packet.lost and way.left is not None else math.inf
            pieces = [(a + flight, min(b + flight, stop), rate) for a, b, rate in way.pieces]
            inflow += pieces
            opened.append((pieces[0][0], ends[-1][0] if ends and ends[-1][1] is way else pieces[-1][1]))
    slow = [(time, factor) for time, who, factor in program.slow_downs if who == receiver]
    falls = [time for time, who in program.falls_down if who == receiver]
    moments = {time for piece in inflow for time in piece[:2]} | {time for time, _ in ends} | {time for time, _ in slow}
    now, backlog, rate = 0.0, 0.0, program.downs[receiver]
    idle: list[tuple[float, float, float]] = []
    waiting: list[tuple[float, Way]] = []  # the bytes before the end of each
    found: dict[int, float] = {}
    for due in [*sorted(moments | set(falls)), math.inf]:
        coming = sum(r for a, b, r in inflow if a <= now < b)
        is_open = any(a <= now < b for a, b in opened)
        # What waits passes at `rate` until then.
        for before, way in waiting:
            if rate and now + before / rate <= due:
                found[id(way.packet)] = now + before / rate
        seconds = due - now
        waiting = [(before - rate * seconds, way) for before, way in waiting if not (rate and before <= rate * seconds)]
        if due == math.inf:
            return found
        if is_open:
            idle = []
        elif not backlog or (rate and backlog < rate * seconds):
            idle.append((now + (backlog / rate if backlog else 0.0), due, rate))
        backlog = max(0.0, backlog + (coming - rate) * seconds)
        now = due
        if now in falls:
            backlog = 0.0
            for _, way in waiting:
                found[id(way.packet)] = now
            waiting = []
        rate = next((program.downs[receiver] / factor for time, factor in slow if time == now), rate)
        for time, way in ends:
            if time != now:
                continue
            if way.packet.size <= PACKET:
                more = float(way.packet.size)
                assert way.left is not None
                if not backlog and not any(a < now <= b for a, b in opened):
                    more, _ = served(more, idle, now - (way.left - way.began))
                backlog, idle = backlog + more, []
            if backlog <= 2e-9 * program.downs[receiver]:
                found[id(way.packet)] = now
            else:
                waiting.append((backlog, way))


def served(
    more: float, idle: list[tuple[float, float, float]], since: float
) -> tuple[float, list[tuple[float, float, float]]]:
    """The part of `more` bytes that idle time from `since` on leaves, and the idle time that is left."""
    left = []
    for start, end, rate in idle:
        begin = max(start, since)
        done = min(more, max(0.0, end - begin) * rate)
        more -= done
        parts = [(start, end, rate)] if not done else [(start, begin, rate), (begin + done / rate, end, rate)]
        left += [(a, b, rate) for a, b, rate in parts if b > a]
    return more, left


def expected(program: Program) -> dict[int, float]:
    """The times at which packets are through, by their places in the program."""
    ways = [way for sender in range(len(program.ups)) for way in sent(program, sender)]
    found: dict[int, float] = {}
    for receiver in range(len(program.downs)):
        found |= received(program, receiver, [way for way in ways if way.packet.receiver == receiver])
    return {place: found[id(one)] for place, one in enumerate(program.packets) if id(one) in found}


# The links under test


NONE = parse_latency("0ms")


class Doomed(Passage):
    """A passage that is lost once its last byte has left."""

    __slots__ = ()

    def leave(self) -> None:
        self.vanish()


class Loud(Passage):
    """A passage that might do anything as it leaves, so that it never stands in a row."""

    __slots__ = ()
    is_quiet = False


class LoudDoomed(Doomed):
    __slots__ = ()
    is_quiet = False


class Plain(Uplink):
    """An uplink that divides its rate again whenever a parcel begins."""

    __slots__ = ()

    def _begin_one(self, parcel: Any) -> None:
        self._begin(parcel)
        self._share()


class Net:
    """The parties of a program, with all its links; without the short cuts of an uplink if `plain`."""

    def __init__(self, program: Program, *, plain: bool = False) -> None:
        self.env = env = Environment()
        self.program = program
        self.arrived: dict[int, float] = {}
        self.kinds = (Loud, LoudDoomed) if plain else (Passage, Doomed)
        self.ups = [(Plain if plain else Uplink)(env, rate) for rate in program.ups]
        self.downs = [Downlink(env, rate) for rate in program.downs]
        self.links = {
            (a, b): Link(env, NONE, 1, (str(a), str(b)), up=up, down=down)
            for a, up in enumerate(self.ups)
            for b, down in enumerate(self.downs)
        }

    def schedule(self) -> None:
        """Schedule all that happens, falls before slowdowns, and these before packets, at equal times."""
        program, at = self.program, self.env.at
        for time, who in program.falls_up:
            at(time, self.ups[who].empty)
        for time, who in program.falls_down:
            at(time, self.downs[who].empty)
        for ends, slow in ((self.ups, program.slow_ups), (self.downs, program.slow_downs)):
            for time, who, factor in slow:
                at(time, partial(ends[who].stretch, factor))  # type: ignore[attr-defined]
        for place, one in enumerate(program.packets):
            at(one.time, partial(self.send, place))

    def send(self, place: int) -> None:
        one = self.program.packets[place]
        kind = self.kinds[one.lost]
        link = self.links[one.sender, one.receiver]
        link.carry(kind(link, one.size, partial(self.arrive, place), self.lose, one.latency))

    def arrive(self, place: int) -> None:
        self.arrived[place] = self.env.now

    def lose(self, why: str) -> None:
        pass

    def run(self, until: float = math.inf) -> dict[int, float]:
        while self.env.live and self.env.peek() <= until:
            self.env.step()
        return self.arrived

    # Stored and restored

    @property
    def parts(self) -> dict[str, object]:
        parts: dict[str, object] = {f"link {a} {b}": link for (a, b), link in self.links.items()}
        parts |= {f"up {place}": up for place, up in enumerate(self.ups)}
        return {"net": self, **parts, **{f"down {place}": down for place, down in enumerate(self.downs)}}

    def moved(self) -> "Net":
        """A new net that continues from the state of this one, as data."""
        kinds = {kind.__name__: kind for kind in (Passage, Doomed, _Leaving, Timer)}
        writer = Writer(self.parts, kinds)
        accesses = [*self.ups, *self.downs]
        stored = writer.write([one.state() for one in accesses])
        links = writer.write([link.state() for link in self.links.values()])
        events = writer.write([list(one) for one in self.env.to_come()])
        net = Net(self.program)
        make: dict[type, Callable[[], Any]] = {Timer: lambda: Timer(net.env, lambda: None)}
        reader = Reader(net.parts, kinds, writer.objects, make)
        for access, state in zip([*net.ups, *net.downs], reader.read(stored), strict=True):
            access.restore(state)
        for link, link_state in zip(net.links.values(), reader.read(links), strict=True):
            link.restore(link_state)
        net.env.set_clock(self.env.now)
        for when, event in reader.read(events):
            net.env.put(when, event)
        net.arrived = dict(self.arrived)
        return net


def found(program: Program) -> dict[int, float]:
    net = Net(program)
    net.schedule()
    return net.run()


def check(program: Program) -> None:
    """Compare both simulations."""
    ours, theirs = found(program), expected(program)
    assert ours.keys() == theirs.keys()
    for place in ours:
        assert ours[place] == pytest.approx(theirs[place], rel=1e-6, abs=1e-8), place


# Named cases


def test_two_packets_that_speed_up_do_not_take_the_same_idle_time() -> None:
    """Two senders each begin two packets; the other one ends soon, and the rest is twice as fast."""
    packets = [
        Packet(0.0, sender, receiver, size, 0.0)
        for sender in (0, 1)
        for receiver, size in ((0, 100_000), (1 + sender, 9_500))
    ]
    program = Program((10_000.0, 10_000.0), (10_000.0, 10_000.0, 10_000.0), tuple(packets))
    ended = found(program)
    assert max(ended[0], ended[2]) == pytest.approx(20.0)  # 200 kB through 10 kB/s
    check(program)


def test_a_packet_that_slows_is_served_as_its_bytes_arrive() -> None:
    """Half of it arrives at 10 kB/s beside another at that rate, the rest at 1 kB/s: the line is done before it."""
    packets = (Packet(0.0, 0, 0, 80_000, 0.0), Packet(0.0, 1, 0, 40_000, 0.0))
    program = Program((10_000.0, 10_000.0), (10_000.0,), packets, slow_ups=((1.0, 0, 10.0),))
    ended = found(program)
    assert ended[0] == pytest.approx(1.0 + 70.0)
    check(program)


def taken(*chunks: tuple[float, int, float], slow: float = math.inf) -> list[float]:
    """The times at which chunks are through a line of 10 kB/s that is ten times as slow from `slow` on."""
    env = Environment()
    down = Downlink(env, 10_000.0)
    ended: list[float] = []
    env.at(slow, partial(down.stretch, 10.0))
    for time, size, lasted in chunks:
        env.at(time, partial(down.take, size, lasted, lambda: ended.append(env.now)))
    while env.live:
        env.step()
    return ended


def test_one_byte_does_not_cancel_idle_time() -> None:
    assert taken((10.0, 1, 0.0), (10.1, 100_000, 10.05)) == pytest.approx([10.0001, 10.1])


def test_one_chunk_does_not_cancel_the_idle_time_of_another() -> None:
    """Two senders at half the rate of the line: neither waits for the other."""
    assert taken((60.0, 300_000, 60.0), (61.0, 300_000, 60.0)) == [60.0, 61.0]


def test_idle_time_counts_at_the_rate_it_had() -> None:
    """Bytes that arrived at the full rate have passed, whatever the rate is afterwards."""
    assert taken((9.0, 90_000, 9.0), (10.0, 1_000, 0.1), slow=9.0) == pytest.approx([9.0, 10.9])
    packets = (Packet(0.0, 0, 0, 100_000, 0.0),)
    program = Program((10_000.0,), (10_000.0,), packets, slow_downs=((9.0, 0, 10.0),))
    assert found(program)[0] == pytest.approx(9.0 + 10.0)
    check(program)


def test_an_uplink_keeps_what_is_sent_after_its_sender_fell_and_came_back_in_one_call() -> None:
    env = Environment()
    up = Uplink(env, 1000.0)
    links = [Link(env, NONE, 1, (str(one),), up=up) for one in range(3)]
    ended: list[tuple[str, float]] = []

    def fall() -> None:
        up.empty()
        links[2].send(1000, lambda: ended.append(("new", env.now)), lambda why: None)

    class Last(Passage):
        __slots__ = ()

        def leave(self) -> None:
            fall()

    links[0].carry(Last(links[0], 1000, lambda: None, lambda why: None))
    links[1].send(5000, lambda: ended.append(("old", env.now)), lambda why: ended.append(("lost", env.now)))
    while env.live:
        env.step()
    assert ended == [("lost", 2.0), ("new", 3.0)]


# All programs

RATES = st.sampled_from([1000.0, 1500.0, 2500.0, 9999.0, 1e5])
TIMES = st.one_of(st.integers(0, 30).map(float), st.floats(0, 30, allow_subnormal=False))
SIZES = st.one_of(st.integers(1, PACKET), st.integers(PACKET + 1, 60_000))
LATENCIES = st.one_of(st.just(0.0), st.sampled_from([0.05, 1.0, 7.0]), st.floats(0.001, 10))
FACTORS = st.sampled_from([1.0, 1.0, 2.0, 10.0, math.inf])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    senders, receivers = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    packet = st.builds(
        Packet, TIMES, st.integers(0, senders - 1), st.integers(0, receivers - 1), SIZES, LATENCIES,
        st.sampled_from([False, False, False, True]),
    )  # fmt: skip

    def events(parties: int) -> st.SearchStrategy[Any]:
        slow = st.tuples(TIMES, st.integers(0, parties - 1), FACTORS)
        return st.lists(slow, max_size=3, unique_by=lambda one: one[:2]).map(
            lambda some: (*some, *((100.0, who, 1.0) for who in range(parties)))
        )

    def falls(parties: int) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(TIMES, st.integers(0, parties - 1)), max_size=1, unique=True).map(tuple)

    return Program(
        tuple(draw(st.lists(RATES, min_size=senders, max_size=senders))),
        tuple(draw(st.lists(RATES, min_size=receivers, max_size=receivers))),
        tuple(draw(st.lists(packet, min_size=1, max_size=12))),
        draw(events(senders)), draw(events(receivers)), draw(falls(senders)), draw(falls(receivers)),
    )  # fmt: skip


@given(programs())
def test_all_packets_end_when_a_fluid_would(program: Program) -> None:
    check(program)


@given(programs(), st.sampled_from([1.0, 0.1, 0.0]))
def test_short_cuts_of_an_uplink_change_no_bit(program: Program, pace: float) -> None:
    """A row of one link, and a flow that has its receiver's rate at once. At a lower `pace` of time, or all together,
    more packets meet."""
    packets = tuple(replace(one, time=one.time * pace) for one in program.packets)
    program = replace(program, packets=packets)
    plain = Net(program, plain=True)
    plain.schedule()
    assert found(program) == plain.run()


@pytest.mark.parametrize(("up", "down"), [(1000.0, 9999.0), (9999.0, 1000.0), (2500.0, 2500.0), (0.3, 0.1)])
@pytest.mark.parametrize("other", [None, 0.05, 7.3])
def test_a_row_of_equal_packets_leaves_as_its_flows_would(up: float, down: float, other: float | None) -> None:
    """Until a packet to another receiver, at the time `other`, ends the row."""
    packets = [Packet(0.0 if one < 9 else 0.7, 0, 0, 301 if one % 4 else 3000, 0.1) for one in range(12)]
    more = [] if other is None else [Packet(other, 0, 1, 2000, 0.0)]
    program = Program((up,), (down, down), (*packets, *more), slow_ups=((9.1, 0, 3.0),))
    plain = Net(program, plain=True)
    plain.schedule()
    times = found(program)
    assert len(times) == len(program.packets) and times == plain.run()


@pytest.mark.skipif(not is_compiled(), reason="not compiled")
@given(programs())
def test_compiled_turns_change_no_bit(program: Program) -> None:
    compiled = found(program)
    with in_python():
        assert found(program) == compiled


@pytest.mark.skipif(not is_compiled(), reason="not compiled")
@given(programs(), st.floats(0, 60))
def test_a_net_stored_by_compiled_code_continues_in_python(program: Program, when: float) -> None:
    net = Net(program)
    net.schedule()
    net.run(when)
    with in_python():
        restored = net.moved().run()
    assert restored == net.run()


@given(programs(), st.floats(0, 60))
def test_a_stored_net_continues_bit_for_bit(program: Program, when: float) -> None:
    net = Net(program)
    net.schedule()
    net.run(when)
    restored = net.moved()
    assert restored.run() == net.run()


# Chunks that arrive as a whole

CHUNKS = st.lists(st.tuples(TIMES, st.integers(1, 30_000), st.floats(0, 12)), min_size=1, max_size=12)


def through(chunks: list[tuple[float, int, float]], slow: list[tuple[float, float]], rate: float) -> list[float]:
    """The times at which `chunks` (time of arrival, bytes, seconds that they took) are through a line of `rate`.

    The line does the work of each, after that of all which was before, in the earliest time that it has from the
    first byte on: so it fills the free pieces of a timetable.
    """
    turns = [0.0, *(time for time, _ in slow), math.inf]
    factors = [1.0, *(factor for _, factor in slow)]
    free = [(a, b, rate / factor) for (a, b), factor in zip(pairwise(turns), factors, strict=True)]
    ends = []
    for now, size, lasted in chunks:
        left, end, kept = float(size), now, []
        for a, b, pace in free:
            start = max(a, now - lasted)
            if left <= 1e-9 * size or b <= start:
                kept.append((a, b, pace))
                continue
            seconds = min(left / pace, b - start)
            left -= seconds * pace
            end = max(now, start + seconds)
            kept += [(x, y, pace) for x, y in ((a, start), (start + seconds, b)) if y > x]
        free = kept
        ends.append(end)
    return ends


@given(CHUNKS, st.lists(st.tuples(TIMES, st.sampled_from([1.0, 2.0, 10.0])), max_size=3, unique_by=lambda one: one[0]))
def test_a_chunk_uses_idle_time_while_it_comes_in(
    chunks: list[tuple[float, int, float]], slow: list[tuple[float, float]]
) -> None:
    chunks, slow = sorted(chunks, key=lambda one: one[0]), sorted(slow)
    env = Environment()
    down = Downlink(env, 1000.0)
    ended: dict[int, float] = {}

    def end(place: int) -> None:
        ended[place] = env.now

    for time, factor in slow:
        env.at(time, partial(down.stretch, factor))
    for place, (time, size, lasted) in enumerate(chunks):
        env.at(time, partial(down.take, size, lasted, partial(end, place)))
    while env.live:
        env.step()
    expected = through(chunks, slow, 1000.0)
    # Chunks end in order, as a stream delivers them: one that has its time already waits for those before it.
    expected = [max(expected[: place + 1]) for place in range(len(expected))]
    assert [ended[place] for place in range(len(chunks))] == pytest.approx(expected, rel=1e-6, abs=1e-6)
