"""Downlinks: the direction of a party's access in which it receives (see `tacit.sim.access`)."""

import math
from collections import deque
from heapq import heappop, heappush
from typing import Any

from tacit.sim.access import INSTANT, Access, Then
from tacit.sim.clock import Environment
from tacit.sim.course import Arrival, Course

__all__ = ["Downlink"]

_MEMORY, _MOST = 60.0, 256  # seconds for which idle time counts at least, and spans of it


class Downlink(Access):
    """The direction in which a party receives. It serves bytes in the order in which they arrive.

    Packets that arrive one after the other, none faster than the line, pass as they arrive: they stand in a row. Once
    some overlap, or bytes wait, or the party is slowed, the downlink follows each change of each rate. It does so when
    it must know how much waits: as the last byte of a packet arrives, or its own rate changes.

    A packet or chunk that arrives as a whole (`take`) waits as a whole, except for what the line could have served of
    it while it arrived and the line had nothing to do. Such time is used once.
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
        self._arrivals: dict[int, Arrival] | None = None  # by number; None while a row is enough
        self._changes: list[tuple[float, int]] = []  # a heap of times at which to look at an arrival
        self._count = 0  # of arrivals
        # Before `_idle_since`: from when to when there was nothing to do, at which rate, as far as `take` needs it.
        self._free: list[tuple[float, float, float]] | None = None
        self._longest = 0.0  # seconds that something took to leave that arrives as a whole

    @property
    def is_empty(self) -> bool:
        """True if no byte is in the downlink or on its way to it."""
        if self._arrivals is not None:
            self._catch_up()
            self._gather()
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
        more, now = float(size), self._env._now
        is_alone = self._arrivals is None and not self._row  # most often
        if is_alone:
            self._advance(now)
        else:
            self._begin()
        if not (self._open or self._backlog or self._waiting):  # idle
            self._served = 0.0
            if self._free:
                more = self._use(more, lasted)
            else:
                free = now - self._idle_since
                more -= self.rate / self._factor * (free if free < lasted else lasted)
                if more < 0.0:
                    more = 0.0
                self._idle_since = now
        self._free = None
        self._wait(more, then)
        if not is_alone:
            self._gather()

    def _begin(self) -> None:
        if self._row:
            self._spread()
        self._catch_up(up_to_now=False)  # a packet whose first byte arrives now is behind this one
        if self._is_idle:
            self._served = 0.0

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on; infinity stops it."""
        self._end_now()
        if self._row:
            self._spread()
        self._catch_up()
        if self._is_idle:
            self._free = self._spans()[-_MOST:] or None
            self._idle_since = self._env.now
        self._factor = factor
        self._gather()
        self._arm()

    def empty(self) -> None:
        """Let all packets through at once: the receiver is gone, and they are lost behind the downlink.

        What is still on its way arrives as before.
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
            one = self._arrivals[number] = course.arrival = Arrival(self, course, number)
            if is_open:
                one.go_to(self._at)
                self._count_in(one, rate, self._at)
            else:
                self.look(one, course.began + course.flight)

    # Packets on their way

    def look(self, arrival: Arrival, when: float) -> None:
        """Look at an arrival at the time `when`, as its rate may change."""
        if when < arrival.due:
            arrival.due = when
            heappush(self._changes, (when, arrival.number))

    def _follow(self, course: Course) -> Arrival:
        """Follow each change of the rate of an expected packet."""
        assert self._arrivals is not None
        self._count += 1
        arrival = course.arrival = self._arrivals[self._count] = Arrival(self, course, self._count)
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
                rate = course.size / (course.left - course.began) if course.left <= first else arrival.rate
                self._served = rate * (now - first)  # from where it counts does not matter: nothing waits
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

    def _count_in(self, arrival: Arrival, before: float, time: float) -> None:
        """Count an arrival at its new rate."""
        if arrival.is_over:
            self._end(arrival, before, time)
        else:
            self._inflow += arrival.rate - before

    def _end(self, arrival: Arrival, before: float, time: float) -> None:
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
        rate = self.rate / self._factor
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
        backlog = self._backlog + more
        if waiting := self._waiting:
            self._backlog = max(waiting[-1][0] - self._served, backlog)
            waiting.append((self._served + self._backlog, then))
            return
        self._backlog = backlog if backlog > 0.0 else 0.0
        if backlog <= self.rate / self._factor * INSTANT:
            self._backlog = 0.0
            if not self._open:
                self._idle_since = self._env._now
            then()
            return
        self._waiting = deque(((self._served + self._backlog, then),))
        self._arm()

    def _arm(self) -> None:
        due = math.inf
        if (waiting := self._waiting) and (rate := self.rate / self._factor):
            left = waiting[0][0] - self._served
            due = self._env._now + (left if left > 0.0 else 0.0) / rate
        self._set_timer(due)

    def _wake(self) -> None:
        self._timer = None
        if self._arrivals is None:
            self._advance(self._env._now)
        else:
            self._catch_up()
        waiting = self._waiting
        assert waiting is not None
        served, then = waiting.popleft()
        if served > self._served:  # up to rounding, it is this
            self._served = served
        near = self.rate / self._factor * INSTANT
        through = None
        while waiting and waiting[0][0] <= self._served + near:
            through = through or [then]
            through.append(waiting.popleft()[1])
        if waiting:
            self._arm()
        else:
            self._waiting = None  # an empty one takes 600 bytes
            self._due = math.inf
            if not self._open and self._backlog <= near:  # else what is left belongs to packets that were lost
                self._backlog = 0.0
                self._idle_since = self._env._now
        if self._arrivals is not None:
            self._gather()
        if through is None:
            then()
            return
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
        """Give what is left of `more` bytes that arrived during the last `lasted` seconds: idle time served the rest.

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
