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
from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Protocol

from tacit.sim.clock import Environment, Timer
from tacit.sim.course import Rate, Source

__all__ = ["INSTANT", "Access", "Parcel", "Then", "Uplink"]

INSTANT = 1e-9
"""Seconds of work that count as none: what rounding leaves."""

Then = Callable[[], object]

_PLACE, _NUMBER = attrgetter("place"), attrgetter("number")  # what flows are sorted by


class Parcel(Protocol):
    """The `size` bytes that an uplink carries on a `link`, at a rate of at most `cap` bytes a second."""

    size: int
    link: Any
    is_quiet: bool
    """True if `leave` only schedules what follows, so that nothing enters the uplink or goes down meanwhile."""

    @property
    def cap(self) -> float: ...

    def begin(self, source: Source) -> object:
        """Note that the first byte enters the uplink, at the rate of `source`."""

    def turn(self, now: float, source: Source) -> object:
        """Note that the bytes leave at the rate of another `source` from `now` on."""

    def rejoin(self, rate: Rate) -> object:
        """Continue at the shared `rate` in a restored world."""

    def leave(self) -> object:
        """Travel on: the last byte is through the uplink."""

    def lose(self) -> object:
        """End: the sender went down before the bytes were through."""


class _Leaving:
    """A parcel on its way through an uplink, at the shared rate or, if `capped`, at the rate of its receiver.

    `end`: the time at which it is through if capped, else the bytes that each shared flow will have sent then. `place`:
    by what flows are sorted.
    """

    __slots__ = ("cap", "capped", "end", "number", "parcel", "place")
    stored = ("cap", "capped", "end", "number", "parcel")
    place: tuple[float, int]

    def __init__(self, number: int, parcel: Parcel, end: float) -> None:
        self.number, self.parcel, self.end = number, parcel, end
        self.cap = parcel.cap
        self.capped = False


class Access:
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
        timer = self._timer
        if timer is not None:
            if self._due == due or (keep_earlier and self._due < due):
                return
            timer.cancel()
        self._due = due
        self._timer = None if due == math.inf else self._env.at(due, self._wake)

    def _end_now(self) -> None:
        """Wake if that is due now: what ends at this moment does so at the old rate, whatever rounding left of it."""
        if self._timer is not None and self._due <= self._env.now + INSTANT:
            self._timer.cancel()
            self._wake()

    def _wake(self) -> None:
        raise NotImplementedError


class Uplink(Access):
    """The direction in which a party sends. Its links share it, each with one parcel at a time.

    While only one link has parcels, they stand in a row: no flow is made for them, and nothing is sorted.
    """

    __slots__ = (
        "_alone", "_behind", "_capped", "_end", "_ends", "_flows", "_is_capped", "_level", "_number", "_sent",
        "_shared", "_tail", "_taken", "_times", "_waiting",
    )  # fmt: skip

    def __init__(self, env: Environment, rate: float, factor: float = 1.0) -> None:
        super().__init__(env, rate, factor)
        self._clear()

    def _clear(self) -> None:
        self._alone: Parcel | None = None  # the only one, which entered the uplink at the time `_at`
        # The row behind it, on the same link; None if it has been alone so far. As in a flow, `_end` is when it is
        # through, `_is_capped` whether at the rate of its receiver, and the work is counted up to `_at`.
        self._behind: deque[Parcel] | None = None
        self._end, self._is_capped = 0.0, False
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
        alone = self._alone
        if alone is None:
            if not self._flows and self._factor < math.inf:
                rate, cap, now = self.rate / self._factor, parcel.cap, self._env._now
                if cap < rate:
                    rate = cap
                self._alone, self._at = parcel, now
                self._set_timer(now + parcel.size / rate)
                parcel.begin(rate)
                return
        elif alone.link is parcel.link and parcel.is_quiet and alone.is_quiet:
            self._line_up(alone, parcel)
            return
        else:
            self._join()
        link = parcel.link
        if link in self._flows:
            self._waiting.setdefault(link, deque()).append(parcel)
        elif self._shared or self._level:
            self._begin(parcel)
        else:
            self._begin_one(parcel)
            return
        self._share()

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on; infinity stops it."""
        self._end_now()
        self._join()
        self._advance()
        self._factor = factor
        self._share()

    def empty(self) -> None:
        """Drop all parcels, in the order in which they were sent: the sender is gone."""
        self._dissolve()
        flows = [flow.parcel for flow in sorted(filter(None, self._flows.values()), key=_NUMBER)]
        flows += [] if self._alone is None else [self._alone]
        waiting = [parcel for queue in self._waiting.values() for parcel in queue]
        self._clear()
        self._set_timer(math.inf)
        for parcel in (*flows, *waiting):
            parcel.lose()

    def state(self) -> list[Any]:
        """The parcels in the uplink, and how much of each has been sent."""
        self._dissolve()
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

    # A row

    def _line_up(self, alone: Parcel, parcel: Parcel) -> None:
        """Put a parcel into the row behind those of the same link."""
        if self._behind is not None:
            self._behind.append(parcel)
            return
        now = self._env._now
        self._behind = deque((parcel,))
        self._number = 1
        self._end = max(0.0, alone.size - min(alone.cap, self._now_rate) * (now - self._at))
        self._is_capped = False
        self._at = now
        alone.turn(now, self._tail)
        self._go_on(alone, now)

    def _go_on(self, parcel: Parcel, now: float) -> None:
        """Let the first one of the row have all of the rate that its receiver takes: see `_share`."""
        rate = self.rate / self._factor
        if not self._is_capped and (cap := parcel.cap) <= rate:
            self._is_capped = True
            self._end = now + max(0.0, self._end - self._sent) / cap
            parcel.turn(now, cap)
        level = 0.0 if self._is_capped else rate
        if level != self._level:
            self._level, self._tail = level, self._tail.change(now, level)
        due = self._end if self._is_capped else now + max(0.0, self._end - self._sent) / level
        self._set_timer(due, keep_earlier=True)

    def _wake_row(self, parcel: Parcel) -> None:
        """Let the first one of the row leave if it is through, and the next one begin."""
        behind, now = self._behind, self._env._now
        assert behind is not None
        self._sent += self._level * (now - self._at)
        self._at = now
        near = INSTANT + 4 * math.ulp(now)
        if self._end <= (now + near if self._is_capped else self._sent + near * self._level):
            parcel.leave()
            if not behind:
                self._clear()
                return
            parcel = self._alone = behind.popleft()
            self._number += 1
            self._end, self._is_capped = self._sent + parcel.size, False
            parcel.begin(self._tail)
        self._go_on(parcel, now)

    def _dissolve(self) -> None:
        """Make flows of a row."""
        parcel, behind = self._alone, self._behind
        if parcel is None or behind is None:
            return
        self._alone = self._behind = None
        flow = self._flows[parcel.link] = _Leaving(self._number, parcel, self._end)
        self._place(flow, self._is_capped)
        if behind:
            self._waiting[parcel.link] = behind

    # Sharing

    def _join(self) -> None:
        """Put the parcel that was alone, or the row, among those that share."""
        self._dissolve()
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

    def _begin_one(self, parcel: Parcel) -> None:
        """Begin a parcel while no flow shares, and divide the rate, as `_begin` and `_share` do."""
        rate, now, capped = self.rate / self._factor, self._env._now, self._capped
        left, cap, self._at = rate - self._taken, parcel.cap, now
        if not cap <= left or (capped and capped[-1].cap * 2 > left + capped[-1].cap):
            self._begin(parcel)
            self._share()
            return
        self._number += 1
        flow = self._flows[parcel.link] = _Leaving(self._number, parcel, self._sent + parcel.size)
        parcel.begin(self._tail)
        flow.end = now + max(0.0, flow.end - self._sent) / cap
        self._place(flow, True)
        parcel.turn(now, cap)
        self._set_timer(self._next(), keep_earlier=True)

    def _advance(self) -> None:
        now = self._env._now
        self._sent += self._level * (now - self._at)
        self._at = now

    def _place(self, flow: _Leaving, capped: bool) -> None:
        """Put a flow among the `capped` ones or the shared ones, with its `end` in their terms."""
        flow.capped = capped
        flow.place = flow.cap, flow.number
        if capped:
            self._taken += flow.cap
            flows = self._capped
            heappush(self._times, (flow.end, flow.number, flow))
        else:
            flows = self._shared
            heappush(self._ends, (flow.end, flow.number, flow))
        if flows and flow.place < flows[-1].place:
            insort(flows, flow, key=_PLACE)
        else:  # most often
            flows.append(flow)

    def _take_out(self, flow: _Leaving) -> None:
        flows = self._capped if flow.capped else self._shared
        del flows[0 if flows[0] is flow else bisect_left(flows, flow.place, key=_PLACE)]
        if flow.capped:
            self._taken = self._taken - flow.cap if flows else 0.0

    def _share(self) -> None:
        """Divide the rate: those whose receiver takes less than an equal share get that, the others share the rest."""
        rate, now = self.rate / self._factor, self._env._now
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
        while ends and ((flow := ends[0][2]).capped or flow.end != ends[0][0]):  # outdated
            heappop(ends)
        while times and (not (flow := times[0][2]).capped or flow.end != times[0][0]):
            heappop(times)
        due = times[0][0] if times else math.inf
        if ends and self._level:
            due = min(due, self._env._now + max(0.0, ends[0][0] - self._sent) / self._level)
        return due

    def _wake(self) -> None:
        self._timer = None
        if (parcel := self._alone) is not None:
            if self._behind is not None:
                self._wake_row(parcel)
            else:
                self._alone = None
                parcel.leave()
            return
        self._advance()
        now = self._at
        near = INSTANT + 4 * math.ulp(now)
        through = []
        heap, until = self._times, now + near
        while heap and (heap[0][0] <= until or heap[0][2].end != heap[0][0] or not heap[0][2].capped):
            end, _, flow = heappop(heap)
            if flow.end == end and flow.capped:  # else it is outdated
                through.append(flow)
                flow.end = math.nan  # other entries of it are outdated
        heap, until = self._ends, self._sent + near * self._level
        while heap and (heap[0][0] <= until or heap[0][2].end != heap[0][0] or heap[0][2].capped):
            end, _, flow = heappop(heap)
            if flow.end == end and not flow.capped:
                through.append(flow)
                flow.end = math.nan
        if len(through) > 1:
            through.sort(key=_NUMBER)
        flows, waiting = self._flows, self._waiting
        for flow in through:
            self._take_out(flow)
            flows[flow.parcel.link] = None
        for flow in through:
            parcel = flow.parcel
            link = parcel.link
            parcel.leave()  # which may make the sender go down
            if flows is not self._flows or flows.get(link, flow) is not None:
                continue
            if (queue := waiting.get(link)) is None:
                del flows[link]
                continue
            parcel = queue.popleft()
            if not queue:
                del waiting[link]
            if len(through) == 1 and not (self._shared or self._level):
                self._begin_one(parcel)
                return
            self._begin(parcel)
        if self._flows:
            self._share()
        elif self._alone is None:  # not sent by one of them after the sender went down
            self._clear()
