"""Uplinks and downlinks: how the packets of one party share its access to the network.

Bytes flow through both ends of a link at once: a packet alone takes its size / the slower rate, and the latency. An
uplink serves all its links at the same time, each at an equal share of the rate, but none faster than its receiver's
downlink (max-min fairness: Bertsekas and Gallager, Data Networks, 6.5.2); each link sends one packet after another. A
downlink serves bytes in the order in which they arrive, each after the backlog before it; a packet arrives at the
rate at which it leaves, and counts at its mean rate if that changed on its way.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

from tacit.sim.clock import Environment, Timer

__all__ = ["Downlink", "Inflow", "Parcel", "Uplink"]

_INSTANT = 1e-9  # seconds of work that count as none: what rounding leaves

Then = Callable[[], object]


class Parcel(Protocol):
    """The `size` bytes that an uplink carries on a `link`, at a rate of at most `cap` bytes a second."""

    size: int
    link: Any

    @property
    def cap(self) -> float: ...

    def begin(self) -> object:
        """Note that the first byte enters the uplink."""

    def leave(self) -> object:
        """Travel on: the last byte is through the uplink."""

    def lose(self) -> object:
        """End: the sender went down before the bytes were through."""


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
        "_alone", "_capped", "_ends", "_flows", "_level", "_number", "_sent", "_shared", "_taken", "_times", "_waiting",
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

    @property
    def is_empty(self) -> bool:
        """True if no parcel is in the uplink."""
        return self._alone is None and not self._flows

    def carry(self, parcel: Parcel) -> None:
        """Carry a `parcel` after all earlier ones of its link."""
        if self.is_empty and self._factor < math.inf:
            self._alone, self._at = parcel, self._env.now
            self._set_timer(self._at + parcel.size / min(parcel.cap, self._now_rate))
            parcel.begin()
            return
        self._join()
        link = parcel.link
        if link in self._flows:
            self._waiting.setdefault(link, deque()).append(parcel)
        else:
            self._begin(parcel)
        self._share()

    def rate_of(self, link: Any) -> float:
        """The rate in bytes a second at which the current parcel of a link leaves; 0 if there is none."""
        if (alone := self._alone) is not None:
            return min(alone.cap, self._now_rate) if alone.link is link else 0.0
        flow = self._flows.get(link)
        return 0.0 if flow is None else flow.cap if flow.capped else self._level

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
        work = [self._number, self._sent, self._taken, self._level, self._at]
        return [self._alone, flows, waiting, work, self._factor, self._timer, self._due]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again."""
        self._alone, flows, waiting, work, self._factor, self._timer, self._due = state
        for flow in flows:
            self._flows[flow.parcel.link] = flow
            self._place(flow, flow.capped)
        self._number, self._sent, self._taken, self._level, self._at = work
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

    def _begin(self, parcel: Parcel) -> None:
        self._advance()
        self._number += 1
        flow = _Leaving(self._number, parcel, self._sent + parcel.size)
        self._flows[parcel.link] = flow
        self._place(flow, False)
        parcel.begin()

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
        while shared and (flow := shared[0]).cap * len(shared) <= rate - self._taken:
            self._take_out(flow)
            flow.end = now + max(0.0, flow.end - self._sent) / flow.cap
            self._place(flow, True)
        self._level = max(0.0, rate - self._taken) / len(shared) if shared else 0.0
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
        else:
            self._clear()


def _is_outdated(entry: tuple[float, int, _Leaving], capped: bool) -> bool:
    """Return true if the flow of a heap's `entry` has ended or has another end by now."""
    end, _, flow = entry
    return flow.capped is not capped or flow.end != end


Inflow = tuple[float, float, float, float, int]
"""The state of a downlink as the first byte of a packet arrives: the packet's rate, the time, since when the downlink
has had nothing to do, the bytes served so far, and how often the receiver has gone down."""


class Downlink(_Access):
    """The direction in which a party receives. It serves bytes in the order in which they arrive."""

    __slots__ = ("_backlog", "_falls", "_idle_since", "_inflow", "_open", "_served", "_waiting")

    def __init__(self, env: Environment, rate: float, factor: float = 1.0) -> None:
        super().__init__(env, rate, factor)
        self._falls = 0
        self._served = 0.0
        self._idle_since = 0.0
        self._clear()

    def _clear(self) -> None:
        self._waiting: deque[tuple[float, Then]] | None = None  # whose last byte waits for `_served` to reach a number
        self._backlog = self._inflow = 0.0  # bytes, and bytes a second
        self._open = 0  # packets that arrive at this moment

    @property
    def is_empty(self) -> bool:
        """True if no byte is in the downlink."""
        done = self._now_rate * (self._env.now - self._at)
        return not self._waiting and not self._open and self._backlog <= done

    @property
    def is_new(self) -> bool:
        """True if the state is that of an unused downlink of the same party."""
        return not (self._idle_since or self._falls or self._served or self._backlog) and self.is_empty

    def open(self, rate: float) -> Inflow:
        """Receive the first byte of a packet that arrives at `rate` bytes a second; give what returns to `close`."""
        self._advance()
        since = self._env.now
        if self._is_idle:
            since, self._served = self._idle_since, 0.0
        self._open += 1
        self._inflow += rate
        return rate, self._env.now, since, self._served, self._falls

    def withdraw(self, inflow: Inflow) -> None:
        """Receive no more of a packet: the rest was lost."""
        self._advance()
        rate, _, _, _, falls = inflow
        if falls == self._falls:
            self._open -= 1
            self._inflow = self._inflow - rate if self._open else 0.0
            if self._is_idle:
                self._idle_since = self._env.now

    def close(self, inflow: Inflow, size: int, lasted: float, then: Then) -> None:
        """Receive the last of the `size` bytes of a packet; call `then` when they have passed.

        The packet took `lasted` seconds to leave. What arrived beyond the noted rate found the capacity that was idle.
        """
        rate, began, since, served, falls = inflow
        self.withdraw(inflow)
        more = float(size)
        if falls == self._falls:
            now = self._env.now
            more -= rate * (now - began)
            if more > 0:
                first = min(began, max(since, now - lasted))
                more = max(0.0, more - max(0.0, self._now_rate * (now - first) - (self._served - served)))
            if abs(more) < 1e-9 * size:
                more = 0.0
        self._wait(more, then)

    def take(self, size: int, lasted: float, then: Then) -> None:
        """Receive a packet of `size` bytes at once; call `then` when they have passed.

        The packet took `lasted` seconds to leave, in which part of it passed if the downlink was idle.
        """
        self._advance()
        more = float(size)
        if self._is_idle:
            self._served = 0.0
            more = max(0.0, more - self._now_rate * min(lasted, self._env.now - self._idle_since))
        self._wait(more, then)

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on; infinity stops it."""
        self._advance()
        self._factor = factor
        self._arm()

    def empty(self) -> None:
        """Let all packets through at once: the receiver is gone, and they are lost behind the downlink."""
        self._advance()
        waiting = self._waiting
        self._clear()
        self._falls += 1
        self._idle_since = self._env.now
        self._set_timer(math.inf)
        for _, then in waiting or ():
            then()

    def state(self) -> list[Any]:
        """The bytes in the downlink, and the packets that end with them."""
        waiting = [list(one) for one in self._waiting or ()]
        work = [self._backlog, self._inflow, self._open, self._served, self._falls, self._idle_since, self._at]
        return [waiting, work, self._factor, self._timer, self._due]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again."""
        waiting, work, self._factor, self._timer, self._due = state
        self._backlog, self._inflow, self._open, self._served, self._falls, self._idle_since, self._at = work
        self._waiting = deque((number, then) for number, then in waiting) or None

    # The backlog

    @property
    def _is_idle(self) -> bool:
        return not (self._open or self._backlog or self._waiting)

    def _advance(self) -> None:
        seconds = self._env.now - self._at
        self._at = self._env.now
        if not seconds or not (self._inflow or self._backlog):
            return
        rate = self._now_rate
        growth = self._inflow - rate
        if self._backlog + growth * seconds > 0:
            self._backlog += growth * seconds
            self._served += rate * seconds
        else:
            if not self._open:
                self._idle_since = self._env.now - seconds + self._backlog / rate
            self._served += self._backlog + self._inflow * seconds
            self._backlog = 0.0

    def _wait(self, more: float, then: Then) -> None:
        """Call `then` when the backlog with `more` bytes has passed."""
        least = self._waiting[-1][0] - self._served if self._waiting else 0.0
        self._backlog = max(least, self._backlog + more)
        rate = self._now_rate
        if self._waiting is None and (rate and self._backlog <= rate * _INSTANT):
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
        self._advance()
        assert self._waiting is not None
        self._served = max(self._served, self._waiting[0][0])  # up to rounding, it is this
        near = self._now_rate * _INSTANT
        through = []
        while self._waiting and self._waiting[0][0] <= self._served + near:
            through.append(self._waiting.popleft()[1])
        if not self._waiting:
            self._waiting = None  # an empty one takes 600 bytes
            if not self._open:
                self._backlog = 0.0
                self._idle_since = self._env.now
        self._arm()
        for then in through:
            then()
