"""The rates at which the bytes of a packet leave an uplink, and arrive at a downlink the latency later."""

import math
from collections.abc import Iterator
from typing import Protocol

__all__ = ["Arrival", "Course", "Rate", "Source"]


class Rate:
    """The `rate` of the shared flows of an uplink, in bytes a second, from the time `since` on.

    `then` is the next one once there is one. A list like this goes as soon as no packet needs it. `watchers` wait for
    its next change.
    """

    __slots__ = ("is_used", "rate", "since", "then", "watchers")

    def __init__(self, since: float, rate: float) -> None:
        self.since, self.rate = since, rate
        self.is_used = False  # by a packet
        self.then: Rate | None = None
        self.watchers: list[Arrival] | None = None

    def change(self, now: float, rate: float) -> "Rate":
        """Give the rate that holds from `now` on."""
        if not self.is_used or (now == self.since and self.watchers is None):
            self.since, self.rate = now, rate
            return self
        self.then = Rate(now, rate)
        self.then.is_used = True
        watchers, self.watchers = self.watchers, None
        for watcher in watchers or ():
            watcher.tell(now)
        return self.then

    def watch(self, watcher: "Arrival") -> None:
        """Tell `watcher` when the rate changes."""
        if self.watchers is None:
            self.watchers = []
        self.watchers.append(watcher)


Source = float | Rate
"""A rate that stays, or the shared one."""


class Course:
    """The course of a packet's `size` bytes: at which rates they left, from `began` to `left` (infinite until then).

    They arrive `flight` seconds later, the last one at `end`: later still if it must not overtake. `rates` are None for
    a packet that arrives as a whole, and `size` is 0 where they are not those of all bytes.
    """

    __slots__ = ("arrival", "began", "end", "flight", "left", "rates", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.began = self.flight = 0.0
        self.left = self.end = math.inf
        self.rates: Source | list[tuple[float, Source]] | None = None
        self.arrival: Arrival | None = None  # while the downlink follows each change

    def turn(self, now: float, source: Source) -> None:
        """Note that the bytes leave at the rate of another `source` from `now` on."""
        rates, arrival = self.rates, self.arrival
        if rates is None:
            return
        if isinstance(source, Rate):
            source.is_used = True
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
        if is_cut:
            self.size = 0
        if self.arrival is not None:
            self.arrival.tell(now)

    @property
    def is_steady(self) -> bool:
        """True if all bytes left at one rate."""
        rates = self.rates
        if isinstance(rates, list):
            if len(rates) > 1:
                return False
            rates = rates[0][1]
        return not isinstance(rates, Rate) or rates.then is None or rates.then.since >= self.left

    def rejoin(self, rate: Rate) -> None:
        """Continue at the shared `rate` in a restored world."""
        rates, arrival = self.rates, self.arrival
        if isinstance(rates, list):
            rates[-1] = (rates[-1][0], rate)
            rate.is_used = True
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
            rate: Rate | None = source
            while rate is not None and rate.since < max(end, math.nextafter(since, math.inf)):
                yield max(since, rate.since), rate.rate
                rate = rate.then


class Follower(Protocol):
    """A downlink that follows arrivals."""

    def look(self, arrival: "Arrival", when: float) -> None:
        """Look at an arrival at the time `when`, as its rate may change."""


class Arrival:
    """A packet on its way to a downlink that follows each change of its rate.

    `place` is that of its present rate in its course, -1 before its first byte; `due`: when the downlink looks again.
    """

    __slots__ = ("course", "down", "due", "has_left", "is_over", "number", "place", "rate", "source")

    def __init__(self, down: "Follower", course: Course, number: int) -> None:
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
            course.size = 0 if isinstance(rates, list) or isinstance(self.source, Rate) else course.size
        return course

    def _step(self) -> None:
        course, source, place = self.course, self.source, self.place
        rates = course.rates
        assert rates is not None
        turn = rates[place + 1] if isinstance(rates, list) and place + 1 < len(rates) else None
        then = source.then if isinstance(source, Rate) else None
        if place < 0:
            self.place, source = 0, rates[0][1] if isinstance(rates, list) else rates
            if course.size and course.left <= course.began + course.flight and course.is_steady:
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
