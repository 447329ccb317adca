"""Uplinks and downlinks: how the packets of one party share its access to the network.

Bytes flow through both ends of a link at once: a packet alone takes its size / the slower rate, and the latency. An
uplink serves all its links at the same time, each at an equal share of the rate, but none faster than its receiver's
downlink (max-min fairness: Bertsekas and Gallager, Data Networks, 6.5.2); each link sends one packet after another. A
downlink serves bytes in the order in which they arrive, each after the backlog before it. Bytes arrive as they left,
the latency later: each change of a packet's rate counts.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, Protocol

from tacit.sim.clock import Environment, Timer

__all__ = ["Course", "Downlink", "Parcel", "Rate", "Source", "Uplink"]

_INSTANT = 1e-9  # seconds of work that count as none: what rounding leaves
_MEMORY, _MOST = 60.0, 256  # seconds for which idle time counts at least, and spans of it

Then = Callable[[], object]


class Parcel(Protocol):
    """The `size` bytes that an uplink carries on a `link`, at a rate of at most `cap` bytes a second."""

    size: int
    link: Any

    @property
    def cap(self) -> float: ...

    def begin(self, source: "Source") -> object:
        """Note that the first byte enters the uplink, at the rate of `source`."""

    def turn(self, now: float, source: "Source") -> object:
        """Note that the bytes leave at the rate of another `source` from `now` on."""

    def rejoin(self, rate: "Rate") -> object:
        """Continue at the shared `rate` in a restored world."""

    def leave(self) -> object:
        """Travel on: the last byte is through the uplink."""

    def lose(self) -> object:
        """End: the sender went down before the bytes were through."""


class Rate:
    """The `rate` of the shared flows of an uplink, in bytes a second, from the time `since` on.

    `then` is the next one once there is one. A list like this goes as soon as no packet needs it. `watchers` wait for
    its next change.
    """

    __slots__ = ("rate", "since", "then", "watchers")

    def __init__(self, since: float, rate: float) -> None:
        self.since, self.rate = since, rate
        self.then: Rate | None = None
        self.watchers: list[_Arrival] | None = None

    def change(self, now: float, rate: float) -> "Rate":
        """Give the rate that holds from `now` on."""
        if now == self.since and self.watchers is None:
            self.rate = rate
            return self
        self.then = Rate(now, rate)
        watchers, self.watchers = self.watchers, None
        for watcher in watchers or ():
            watcher.tell(now)
        return self.then

    def watch(self, watcher: "_Arrival") -> None:
        """Tell `watcher` when the rate changes."""
        if self.watchers is None:
            self.watchers = []
        self.watchers.append(watcher)


Source = float | Rate
"""A rate that stays, or the shared one."""


class Course:
    """The course of a packet's `size` bytes: at which rates they left, from `began` to `left` (infinite until then).

    They arrive `flight` seconds later, the last one at `end`: later still if it may not overtake. `rates` are None for a
    packet that arrives as a whole.
    """

    __slots__ = ("arrival", "began", "end", "flight", "left", "rates", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.began = self.flight = 0.0
        self.left = self.end = math.inf
        self.rates: Source | list[tuple[float, Source]] | None = None
        self.arrival: _Arrival | None = None  # while the downlink follows each change

    def turn(self, now: float, source: Source) -> None:
        """Note that the bytes leave at the rate of another `source` from `now` on."""
        rates, arrival = self.rates, self.arrival
        if rates is None:
            return
        if not isinstance(rates, list):
            if arrival is None and self.began == now:
                self.rates = source
                return
            rates = self.rates = [(self.began, rates)]
        if arrival is None and rates[-1][0] == now:
            rates[-1] = (now, source)
        else:
            rates.append((now, source))
        if arrival is not None:
            arrival.tell(now)

    def stop(self, now: float, end: float, *, is_cut: bool = False) -> None:
        """Note that no byte leaves after `now`, and that the last one arrives at `end`; `is_cut`: others never left."""
        self.left, self.end = now, end
        if is_cut and isinstance(self.rates, float):
            self.rates = [(self.began, self.rates)]
        if self.arrival is not None:
            self.arrival.tell(now)

    def rejoin(self, rate: Rate) -> None:
        """Continue at the shared `rate` in a restored world."""
        rates, arrival = self.rates, self.arrival
        if isinstance(rates, list):
            rates[-1] = (rates[-1][0], rate)
            if arrival is not None and arrival.place == len(rates) - 1:
                arrival.source = rate
                rate.watch(arrival)

    @property
    def history(self) -> float | list[tuple[float, float]] | None:
        """The rate that never changed, or all rates so far with the times from which on they held; None as `rates`."""
        rates = self.rates
        if rates is None or isinstance(rates, float):
            return rates
        return list(self._all(rates if isinstance(rates, list) else [(self.began, rates)]))

    @history.setter
    def history(self, rates: float | list[tuple[float, float]] | None) -> None:
        self.rates = [*rates] if isinstance(rates, list) else rates
        self.arrival = None

    def _all(self, rates: list[tuple[float, Source]]) -> Iterator[tuple[float, float]]:
        ends = [since for since, _ in rates[1:]]
        for (since, source), end in zip(rates, [*ends, self.left], strict=True):
            if not isinstance(source, Rate):
                yield since, source
                continue
            yield since, source.rate
            while (source := source.then) is not None and source.since < end:
                yield max(since, source.since), source.rate


class _Leaving:
    """A parcel on its way through an uplink, at the shared rate or, if `capped`, at the rate of its receiver.

    `end`: the time at which it is through if capped, else the bytes that each shared flow will have sent then.
    """

    __slots__ = stored = ("cap", "capped", "end", "number", "parcel")

    def __init__(self, number: int, parcel: Parcel, end: float) -> None:
        self.number, self.parcel, self.end = number, parcel, end
        self.cap = parcel.cap
        self.capped = False

    def __lt__(self, other: "_Leaving") -> bool:
        return (self.cap, self.number) < (other.cap, other.number)


class _Access:
    """One direction of a party's access: `rate` bytes a second, divided by a `factor` while the party is slowed."""

    __slots__ = ("_at", "_due", "_env", "_factor", "_timer", "rate")

    def __init__(self, env: Environment, rate: float, factor: float) -> None:
        if not rate > 0:
            raise ValueError(f"rate(={rate}) must be > 0 bytes/s.")
        self._env, self.rate, self._factor = env, rate, factor
        self._timer: Timer | None = None
        self._due = math.inf  # of the timer
        self._at = 0.0  # up to when the work is counted

    @property
    def _now_rate(self) -> float:
        return self.rate / self._factor

    def _set_timer(self, due: float, *, keep_earlier: bool = False) -> None:
        """Wake at `due`; a timer before that may stay if `keep_earlier`, and then finds nothing to do."""
        if self._timer is not None and (self._due == due or (keep_earlier and self._due < due)):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if due == math.inf else self._env.at(due, self._wake)

    def _wake(self) -> None:
        raise NotImplementedError


class Uplink(_Access):
    """The direction in which a party sends. Its links share it, each with one parcel at a time."""

    __slots__ = (
        "_alone", "_capped", "_ends", "_flows", "_level", "_number", "_sent", "_shared", "_tail", "_taken", "_times", "_waiting",
    )  # fmt: skip

    def __init__(self, env: Environment, rate: float, factor: float = 1.0) -> None:
        super().__init__(env, rate, factor)
        self._clear()

    def _clear(self) -> None:
        self._alone: Parcel | None = None  # the only one, which entered the uplink at the time `_at`
        self._number = 0
        self._flows: dict[Any, _Leaving | None] = {}  # by link; None between two parcels
        self._waiting: dict[Any, deque[Parcel]] = {}
        self._shared: list[_Leaving] = []  # both by their caps
        self._capped: list[_Leaving] = []
        # Heaps of when shared flows and capped ones end. Some entries are outdated.
        self._ends: list[tuple[float, int, _Leaving]] = []
        self._times: list[tuple[float, int, _Leaving]] = []
        self._sent = self._taken = 0.0  # the bytes that each shared flow has sent; the rate that all capped ones take
        self._level = 0.0  # the rate of each shared flow
        self._at = self._env.now
        self._tail = Rate(self._at, 0.0)  # the level, behind the earlier ones

    @property
    def is_empty(self) -> bool:
        """True if no parcel is in the uplink."""
        return self._alone is None and not self._flows

    def carry(self, parcel: Parcel) -> None:
        """Carry a `parcel` after all earlier ones of its link."""
        if self.is_empty and self._factor < math.inf:
            rate = min(parcel.cap, self._now_rate)
            self._alone, self._at = parcel, self._env.now
            self._set_timer(self._at + parcel.size / rate)
            parcel.begin(rate)
            return
        self._join()
        link = parcel.link
        if link in self._flows:
            self._waiting.setdefault(link, deque()).append(parcel)
        else:
            self._begin(parcel)
        self._share()

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on; infinity stops it."""
        self._join()
        self._advance()
        self._factor = factor
        self._share()

    def empty(self) -> None:
        """Drop all parcels, in the order in which they were sent: the sender is gone."""
        flows = [flow.parcel for flow in sorted(filter(None, self._flows.values()), key=lambda flow: flow.number)]
        flows += [] if self._alone is None else [self._alone]
        waiting = [parcel for queue in self._waiting.values() for parcel in queue]
        self._clear()
        self._set_timer(math.inf)
        for parcel in (*flows, *waiting):
            parcel.lose()

    def state(self) -> list[Any]:
        """The parcels in the uplink, and how much of each has been sent."""
        flows = list(filter(None, self._flows.values()))
        waiting = [list(queue) for queue in self._waiting.values()]
        work = [self._number, self._sent, self._taken, self._level, self._at, self._tail.since]
        return [self._alone, flows, waiting, work, self._factor, self._timer, self._due]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again."""
        self._alone, flows, waiting, work, self._factor, self._timer, self._due = state
        for flow in flows:
            self._flows[flow.parcel.link] = flow
            self._place(flow, flow.capped)
        self._number, self._sent, self._taken, self._level, self._at, since = work
        self._tail = Rate(since, self._level)
        for flow in flows:
            if not flow.capped:
                flow.parcel.rejoin(self._tail)
        for queue in waiting:
            self._waiting[queue[0].link] = deque(queue)

    # Sharing

    def _join(self) -> None:
        """Put the parcel that was alone among those that share."""
        if (parcel := self._alone) is None:
            return
        self._alone = None
        sent = min(parcel.cap, self._now_rate) * (self._env.now - self._at)
        self._number = 1
        flow = self._flows[parcel.link] = _Leaving(1, parcel, max(0.0, parcel.size - sent))
        self._place(flow, False)
        self._at = self._env.now
        parcel.turn(self._at, self._tail)

    def _begin(self, parcel: Parcel) -> None:
        self._advance()
        self._number += 1
        flow = _Leaving(self._number, parcel, self._sent + parcel.size)
        self._flows[parcel.link] = flow
        self._place(flow, False)
        parcel.begin(self._tail)

    def _advance(self) -> None:
        now = self._env.now
        self._sent += self._level * (now - self._at)
        self._at = now

    def _place(self, flow: _Leaving, capped: bool) -> None:
        """Put a flow among the `capped` ones or the shared ones, with its `end` in their terms."""
        flow.capped = capped
        if capped:
            self._taken += flow.cap
            insort(self._capped, flow)
            heappush(self._times, (flow.end, flow.number, flow))
        else:
            insort(self._shared, flow)
            heappush(self._ends, (flow.end, flow.number, flow))

    def _take_out(self, flow: _Leaving) -> None:
        flows = self._capped if flow.capped else self._shared
        flows.pop(bisect_left(flows, flow))
        if flow.capped:
            self._taken = self._taken - flow.cap if flows else 0.0

    def _share(self) -> None:
        """Divide the rate: those whose receiver takes less than an equal share get that, the others share the rest."""
        rate, now = self._now_rate, self._env.now
        capped, shared = self._capped, self._shared
        while capped and (flow := capped[-1]).cap * (len(shared) + 1) > rate - self._taken + flow.cap:
            self._take_out(flow)
            flow.end = self._sent + max(0.0, flow.end - now) * flow.cap
            self._place(flow, False)
            flow.parcel.turn(now, self._tail)
        while shared and (flow := shared[0]).cap * len(shared) <= rate - self._taken:
            self._take_out(flow)
            flow.end = now + max(0.0, flow.end - self._sent) / flow.cap
            self._place(flow, True)
            flow.parcel.turn(now, flow.cap)
        level = max(0.0, rate - self._taken) / len(shared) if shared else 0.0
        if level != self._level:
            self._level, self._tail = level, self._tail.change(now, level)
        self._set_timer(self._next(), keep_earlier=True)

    def _next(self) -> float:
        """The time at which the next flow ends, at the present rates."""
        ends, times = self._ends, self._times
        while ends and _is_outdated(ends[0], False):
            heappop(ends)
        while times and _is_outdated(times[0], True):
            heappop(times)
        due = times[0][0] if times else math.inf
        if ends and self._level:
            due = min(due, self._env.now + max(0.0, ends[0][0] - self._sent) / self._level)
        return due

    def _wake(self) -> None:
        self._timer = None
        if (parcel := self._alone) is not None:
            self._alone = None
            parcel.leave()
            return
        self._advance()
        near = _INSTANT + 4 * math.ulp(self._env.now)
        through = []
        for heap, until in ((self._times, self._env.now + near), (self._ends, self._sent + near * self._level)):
            while heap and (heap[0][0] <= until or _is_outdated(heap[0], heap is self._times)):
                if not _is_outdated(entry := heappop(heap), heap is self._times):
                    through.append(entry[2])
                    entry[2].end = math.nan  # other entries of it are outdated
        through.sort(key=lambda flow: flow.number)
        for flow in through:
            self._take_out(flow)
            self._flows[flow.parcel.link] = None
        for flow in through:
            flow.parcel.leave()  # which may make the sender go down
            link = flow.parcel.link
            if self._flows.get(link, flow) is not None:
                continue
            if (queue := self._waiting.get(link)) is None:
                del self._flows[link]
                continue
            parcel = queue.popleft()
            if not queue:
                del self._waiting[link]
            self._begin(parcel)
        if self._flows:
            self._share()
        elif self._alone is None:  # not sent by one of them after the sender went down
            self._clear()


def _is_outdated(entry: tuple[float, int, _Leaving], capped: bool) -> bool:
    """Return true if the flow of a heap's `entry` has ended or has another end by now."""
    end, _, flow = entry
    return flow.capped is not capped or flow.end != end


class _Arrival:
    """A packet on its way to a downlink that follows each change of its rate.

    `place` is that of its present rate in its course, -1 before its first byte; `due`: when the downlink looks again.
    """

    __slots__ = ("course", "down", "due", "has_left", "is_over", "number", "place", "rate", "source")

    def __init__(self, down: "Downlink", course: Course, number: int) -> None:
        self.down, self.course, self.number = down, course, number
        self.source: Source = 0.0
        self.place, self.rate, self.due = -1, 0.0, math.inf
        self.has_left = self.is_over = False  # all bytes have arrived; also the last one, which may have to wait

    def tell(self, now: float) -> None:
        """Note that the rate of the bytes that leave changes `now`."""
        if not self.is_over:
            self.down.look(self, now + self.course.flight)

    def next(self) -> float:
        """When the rate of the bytes that arrive changes next; infinite if that is not known yet."""
        course, source, place = self.course, self.source, self.place
        if place < 0:
            return course.began + course.flight
        if self.has_left:
            return course.end
        when, rates = course.left, course.rates
        if isinstance(rates, list) and place + 1 < len(rates):
            when = min(when, rates[place + 1][0])
        if isinstance(source, Rate) and source.then is not None:
            when = min(when, source.then.since)
        return when + course.flight

    def go_to(self, time: float) -> None:
        """Take up all changes that have arrived at `time`, and arrange to hear of the next one."""
        while (when := self.next()) <= time:
            self._step()
            if self.is_over:
                return
        if when < math.inf:
            self.down.look(self, when)
        elif isinstance(self.source, Rate):
            self.source.watch(self)

    def give_back(self) -> Course:
        """Follow the packet no more; return its course from its present rate on."""
        course, rates = self.course, self.course.rates
        self.is_over, course.arrival = True, None
        if self.place >= 0:
            rest = [(rates[self.place][0], self.source), *rates[self.place + 1 :]] if isinstance(rates, list) else None
            course.rates = rest or self.source
        return course

    def _step(self) -> None:
        course, source, place = self.course, self.source, self.place
        rates = course.rates
        assert rates is not None
        turn = rates[place + 1] if isinstance(rates, list) and place + 1 < len(rates) else None
        then = source.then if isinstance(source, Rate) else None
        if place < 0:
            self.place, source = 0, rates[0][1] if isinstance(rates, list) else rates
            if isinstance(rates, float) and course.left < math.inf:
                source = course.size / (course.left - course.began)  # up to rounding, it is this
        elif self.has_left:
            self.is_over = True
        elif then is not None and then.since < min(course.left, turn[0] if turn else math.inf):
            source = then
        elif turn is not None and turn[0] <= course.left:
            self.place, source = place + 1, turn[1]
        else:
            self.has_left, source = True, 0.0
        self.source = source
        self.rate = source.rate if isinstance(source, Rate) else source


class Downlink(_Access):
    """The direction in which a party receives. It serves bytes in the order in which they arrive.

    Packets that come one after the other, none faster than the line, pass as they come: they stand in a row. Once some
    overlap, or bytes wait, or the party is slowed, the downlink follows each change of each rate. It does so when it
    must know how much waits: as the last byte of a packet arrives, or its own rate changes.

    A packet or chunk that arrives as a whole (`take`) waits as a whole, except for what the line could have served of
    it while it came in and the line had nothing to do. Such time is used once.
    """

    __slots__ = (
        "_arrivals", "_backlog", "_changes", "_count", "_free", "_idle_since", "_inflow", "_longest", "_open", "_row",
        "_served", "_waiting",
    )  # fmt: skip

    def __init__(self, env: Environment, rate: float, factor: float = 1.0) -> None:
        super().__init__(env, rate, factor)
        self._served = 0.0  # since it was idle
        self._idle_since = 0.0
        self._waiting: deque[tuple[float, Then]] | None = None  # whose last byte waits for `_served` to reach a number
        self._backlog = self._inflow = 0.0  # bytes, and bytes a second
        self._open = 0  # packets that arrive at this moment
        self._row: list[Course] | None = None  # each arrives after those before it
        self._arrivals: dict[int, _Arrival] | None = None  # by number; None while a row is enough
        self._changes: list[tuple[float, int]] = []  # a heap of times at which to look at an arrival
        self._count = 0  # of arrivals
        # Before `_idle_since`: from when to when there was nothing to do, at which rate, as far as `take` needs it.
        self._free: list[tuple[float, float, float]] | None = None
        self._longest = 0.0  # seconds in which something came in as a whole

    @property
    def is_empty(self) -> bool:
        """True if no byte is in the downlink or on its way to it."""
        if self._arrivals is not None:
            self._catch_up()
        if self._arrivals or self._waiting or any(course.end > self._env.now for course in self._row or ()):
            return False
        return self._backlog <= self._now_rate * (self._env.now - self._at)

    @property
    def is_new(self) -> bool:
        """True if the state is that of an unused downlink of the same party."""
        used = self._idle_since or self._served or self._backlog or self._open or self._waiting or self._free
        return not (used or self._row or self._arrivals is not None)

    def expect(self, course: Course) -> None:
        """Let the bytes of a packet arrive that begin to leave now; see `close`."""
        if self._arrivals is None:
            row = self._row
            if not row:
                if self._factor == 1.0 and not self._waiting and not self._backlog:
                    self._row = [course]
                    return
            elif row[-1].end <= course.began + course.flight:
                self._shorten()
                row.append(course)
                return
            self._spread()
        self._follow(course)

    def forget(self, course: Course) -> None:
        """Let no more bytes of a packet arrive: the rest was lost."""
        now = self._env.now
        if (arrival := course.arrival) is not None:
            self._catch_up()
            if not arrival.is_over:
                self._end(arrival, arrival.rate, now)
                self._gather()
        elif self._row is not None and course in self._row:
            self._shorten()
            if course in self._row:
                self._row.remove(course)
                if course.began + course.flight < now:
                    self._idle_since, self._free = now, None

    def close(self, course: Course, then: Then) -> None:
        """Receive the last byte of an expected packet; call `then` when it has passed."""
        if self._arrivals is None:
            if self._row:
                self._shorten()
            if not self._waiting and not self._backlog:
                then()
                return
        self._catch_up()
        self._wait(0.0, then)
        self._gather()

    def take(self, size: int, lasted: float, then: Then) -> None:
        """Receive a chunk of `size` bytes at once; call `then` when they have passed.

        The chunk took `lasted` seconds to leave, in which idle time served part of it, once and at the rate it had.
        """
        self._begin()
        more = float(size) if self._open else self._use(float(size), lasted)
        self._wait(more, then)
        self._gather()

    def take_one(self, size: int, lasted: float, then: Then) -> None:
        """Receive a packet that is not divided; call `then` when it has passed.

        As `take`, but such packets pass one after another: only the time since the latest one counts.
        """
        self._begin()
        more = float(size)
        if self._is_idle:
            more = self._use(more, lasted)
        self._free = None
        self._wait(more, then)
        self._gather()

    def _begin(self) -> None:
        if self._row:
            self._spread()
        self._catch_up(up_to_now=False)  # a packet whose first byte arrives now comes after this one
        if self._is_idle:
            self._served = 0.0

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on; infinity stops it."""
        if self._row:
            self._spread()
        self._catch_up()
        if self._is_idle:
            self._free = self._spans()
            self._idle_since = self._env.now
        self._factor = factor
        self._gather()
        self._arm()

    def empty(self) -> None:
        """Let all packets through at once: the receiver is gone, and they are lost behind the downlink.

        What is still on its way comes in as before.
        """
        self._catch_up()
        if not self._open and self._backlog:
            self._idle_since = self._env.now
        waiting, self._waiting = self._waiting, None
        self._backlog = self._served = 0.0
        self._set_timer(math.inf)
        self._gather()
        for _, then in waiting or ():
            then()

    def state(self) -> list[Any]:
        """The bytes in the downlink, the packets that end with them, and those on their way."""
        waiting = [list(one) for one in self._waiting or ()]
        work = [self._backlog, self._inflow, self._open, self._served, self._idle_since, self._at, self._longest]
        arrivals = None if self._arrivals is None else [
            [one.course, one.number, one.rate, one.place >= 0] for one in self._arrivals.values()
        ]  # fmt: skip
        ways = [self._row or [], arrivals, self._count, self._free or []]
        return [waiting, work, ways, self._factor, self._timer, self._due]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again."""
        waiting, work, ways, self._factor, self._timer, self._due = state
        self._backlog, self._inflow, self._open, self._served, self._idle_since, self._at, self._longest = work
        self._waiting = deque((number, then) for number, then in waiting) or None
        row, arrivals, self._count, free = ways
        self._row, self._free = row or None, [tuple(one) for one in free] or None
        if arrivals is None:
            return
        self._arrivals = {}
        for course, number, rate, is_open in arrivals:
            one = self._arrivals[number] = course.arrival = _Arrival(self, course, number)
            if is_open:
                one.go_to(self._at)
                if isinstance(course.rates, float) and not one.has_left:
                    one.rate = one.source = rate  # which may not have been the mean yet
                self._count_in(one, rate, self._at)
            else:
                self.look(one, course.began + course.flight)

    # Packets on their way

    def look(self, arrival: _Arrival, when: float) -> None:
        """Look at an arrival at the time `when`, as its rate may change."""
        if when < arrival.due:
            arrival.due = when
            heappush(self._changes, (when, arrival.number))

    def _follow(self, course: Course) -> _Arrival:
        """Follow each change of the rate of an expected packet."""
        assert self._arrivals is not None
        self._count += 1
        arrival = course.arrival = self._arrivals[self._count] = _Arrival(self, course, self._count)
        self.look(arrival, course.began + course.flight)
        return arrival

    def _shorten(self) -> None:
        """Remove the packets that have arrived from the row."""
        row, now = self._row, self._env.now
        assert row is not None
        while row and row[0].end <= now:
            self._idle_since, self._free = row.pop(0).end, None

    def _spread(self) -> None:
        """Follow each change from now on. The packets in a row have left no backlog until now."""
        row, now = self._row, self._env.now
        if not row:
            self._row, self._arrivals = None, {}
            self._advance(now)
            return
        self._shorten()
        self._row, self._arrivals = None, {}
        self._at, self._served = now, 0.0
        for course in row:
            arrival = self._follow(course)
            if (first := arrival.due) < now:
                arrival.go_to(first)
                self._served = arrival.rate * (now - first)  # any number would do
                arrival.due, self._free = math.inf, None
                arrival.go_to(now)
                self._open, self._inflow = 1, arrival.rate

    def _gather(self) -> None:
        """Let the only packet on its way, or none, be a row again, if nothing waits."""
        arrivals = self._arrivals
        if arrivals is None or len(arrivals) > 1 or self._backlog or self._waiting:
            return
        if arrivals and self._factor != 1.0:
            return
        for arrival in arrivals.values():
            self._row = [arrival.give_back()]
        self._arrivals = None
        self._changes = []
        self._open, self._inflow, self._served = 0, 0.0, 0.0

    def _catch_up(self, *, up_to_now: bool = True) -> None:
        """Process all that has arrived before now, and what arrives now only if `up_to_now`."""
        now, arrivals, changes = self._env.now, self._arrivals, self._changes
        if arrivals is not None:
            while changes and changes[0][0] <= now and (up_to_now or changes[0][0] < now):
                time, number = heappop(changes)
                arrival = arrivals.get(number)
                if arrival is None or arrival.due != time:
                    continue
                arrival.due = math.inf
                before, began = arrival.rate, arrival.place >= 0
                arrival_changes = arrival.next() <= time
                arrival.go_to(time)
                if arrival_changes:
                    self._advance(time)
                    if not began:
                        if self._is_idle:
                            self._served = 0.0
                        self._free = None
                        self._open += 1
                    self._count_in(arrival, before, time)
        self._advance(now)

    def _count_in(self, arrival: _Arrival, before: float, time: float) -> None:
        """Count an arrival at its new rate."""
        if arrival.is_over:
            self._end(arrival, before, time)
        else:
            self._inflow += arrival.rate - before

    def _end(self, arrival: _Arrival, before: float, time: float) -> None:
        """Count an arrival no more."""
        assert self._arrivals is not None
        arrival.is_over = True
        arrival.course.arrival = None
        del self._arrivals[arrival.number]
        if arrival.place >= 0:
            self._open -= 1
            self._inflow = self._inflow - before if self._open else 0.0
            if self._is_idle:
                self._idle_since = time

    # The backlog

    @property
    def _is_idle(self) -> bool:
        return not (self._open or self._backlog or self._waiting)

    def _advance(self, time: float) -> None:
        seconds = time - self._at
        self._at = time
        if not seconds or not (self._inflow or self._backlog):
            return
        rate = self._now_rate
        growth = self._inflow - rate
        if self._backlog + growth * seconds > 0:
            self._backlog += growth * seconds
            self._served += rate * seconds
        else:
            if not self._open:
                self._idle_since = time - seconds + self._backlog / rate
            self._served += self._backlog + self._inflow * seconds
            self._backlog = 0.0

    def _wait(self, more: float, then: Then) -> None:
        """Call `then` when the backlog with `more` bytes has passed."""
        least = self._waiting[-1][0] - self._served if self._waiting else 0.0
        self._backlog = max(least, self._backlog + more)
        rate = self._now_rate
        if self._waiting is None and self._backlog <= rate * _INSTANT:
            self._backlog = 0.0
            if not self._open:
                self._idle_since = self._env.now
            then()
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((self._served + self._backlog, then))
        if len(self._waiting) == 1:
            self._arm()

    def _arm(self) -> None:
        rate = self._now_rate
        due = math.inf
        if self._waiting and rate:
            due = self._env.now + max(0.0, self._waiting[0][0] - self._served) / rate
        self._set_timer(due)

    def _wake(self) -> None:
        self._timer = None
        self._catch_up()
        assert self._waiting is not None
        self._served = max(self._served, self._waiting[0][0])  # up to rounding, it is this
        near = self._now_rate * _INSTANT
        through = []
        while self._waiting and self._waiting[0][0] <= self._served + near:
            through.append(self._waiting.popleft()[1])
        if not self._waiting:
            self._waiting = None  # an empty one takes 600 bytes
            if not self._open and self._backlog <= near:  # else what is left belongs to packets that were lost
                self._backlog = 0.0
                self._idle_since = self._env.now
        self._arm()
        self._gather()
        for then in through:
            then()

    # Idle time

    def _spans(self) -> list[tuple[float, float, float]]:
        """The spans of time without work that still count, up to the present one if the downlink is idle."""
        now = self._env.now
        spans = [span for span in self._free or () if span[1] > now - max(_MEMORY, 4 * self._longest)]
        if self._is_idle and self._idle_since < now:
            spans.append((self._idle_since, now, self._now_rate))
        return spans

    def _use(self, more: float, lasted: float) -> float:
        """Give what is left of `more` bytes that came in during the last `lasted` seconds: idle time served the rest.

        Earlier time serves first, and no time serves twice.
        """
        now = self._env.now
        self._longest = max(self._longest, lasted)
        kept = []
        for start, end, rate in self._spans():
            begin = max(start, now - lasted)
            usable = max(0.0, end - begin) * rate
            if not usable or not more:
                kept.append((start, end, rate))
                continue
            if start < begin:
                kept.append((start, begin, rate))
            if usable > more:
                kept.append((begin + more / rate, end, rate))
            more = max(0.0, more - usable)
        self._free = kept[-_MOST:] or None
        if self._is_idle:
            self._idle_since = now
        return more
