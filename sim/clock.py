"""The virtual clock: SimPy's environment with timers at exact times, and queues of calls that come due in order.

`events.c` does what `Environment` and `Line` do here, and the most frequent turns of links and of the network
(`tacit.sim.link`, `tacit.sim.network`), if it is compiled when Tacit is installed. The times and the order of all calls
are the same, to the last bit.
"""

import importlib
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any

import simpy

__all__ = ["Environment", "Line", "Timer", "in_python", "is_compiled", "use_compiled"]

_Entry = tuple[float, int, int, Any]
"""An entry of the heap: the due time, SimPy's priority, the number of events scheduled before it, and the call."""

_NORMAL = simpy.events.NORMAL  # the priority of all that is due at one moment
_SWEEP = 1000  # cancelled timers that may lie in the heap before it is worth looking


class Timer:
    """Calls `call()` when it is due, unless it is cancelled before.

    It is no event of SimPy: nothing can wait for it.
    """

    __slots__ = ("call", "env", "pending")
    stored = ("call",)

    def __init__(self, env: "Environment", call: Callable[[], object]) -> None:
        self.env = env
        self.call = call
        self.pending = True

    def cancel(self) -> None:
        """Cancel the call. Does nothing if the timer has fired or was cancelled before."""
        if self.pending:
            self.pending = False
            self.call = _nothing  # what it would have called need not stay until it leaves the heap
            self.env.count_cancelled()


class Line:
    """A queue of calls that mostly come due in the order in which they are added. Only the first one is in the heap.

    Each call is made at the place among all other events that it would have in the heap. No call can be cancelled.
    """

    __slots__ = ("_calls", "_env", "_first")

    def __init__(self, env: "Environment") -> None:
        self._env = env
        self._first: _Entry | None = None
        self._calls: deque[_Entry] | None = None  # those behind the first; an empty one takes 600 bytes

    def __iter__(self) -> Iterator["_Entry"]:
        if self._first is not None:
            yield self._first
            yield from self._calls or ()

    def at(self, when: float, call: Callable[[], object]) -> None:
        """Call `call()` at the virtual time `when`. If that is past, call it now, after everything that is due now."""
        env, first, calls = self._env, self._first, self._calls
        if when < env._now:
            when = env._now
        number = next(env._eid)
        if first is None:
            self._first = (when, _NORMAL, number, call)
            heappush(env._queue, (when, _NORMAL, number, self))
        elif when < (calls[-1] if calls else first)[0]:
            heappush(env._queue, (when, _NORMAL, number, call))
        elif calls is None:
            self._calls = deque(((when, _NORMAL, number, call),))
        else:
            calls.append((when, _NORMAL, number, call))

    def __call__(self) -> None:
        """Put the next call into the heap, and make the first call."""
        first, calls = self._first, self._calls
        assert first is not None
        if calls:
            self._first = calls.popleft()
            when, _, number, _ = self._first
            heappush(self._env._queue, (when, _NORMAL, number, self))
        else:
            self._first = self._calls = None
        first[3]()


def _nothing() -> None:
    """Do nothing: the call of a cancelled timer."""


class Environment(simpy.Environment):
    """A SimPy environment with timers at exact times, which can be cancelled.

    `cancelled` counts the cancelled timers still in the heap. By themselves they must not move the clock.
    """

    # Of SimPy but the last, in slots, where C finds them: the time, the numbers of events, and the heap.
    __slots__ = ("_eid", "_now", "_queue", "cancelled")
    _queue: list[Any]

    now: Any = property(attrgetter("_now"))  # read with every message: without a call of Python
    """The virtual time in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = 0

    @property
    def live(self) -> int:
        """The number of events still to happen, without those that wait in a `Line` behind others."""
        return len(self._queue) - self.cancelled

    def step(self) -> None:
        """Go to the time of the next event and process it. Raises simpy.core.EmptySchedule if there is none."""
        queue = self._queue
        if not queue or isinstance(queue[0][3], simpy.Event):
            super().step()
            return
        self._now, _, _, call = heappop(queue)
        if type(call) is not Timer:
            call()
        elif call.pending:
            call.pending = False
            call.call()
        else:
            self.cancelled -= 1

    def step_until(self, due: Collection[object]) -> bool:
        """Step until `due` has an element. Returns false if only cancelled timers are left, or nothing.

        The steps are those of `step`, without a call for each: most of a run's turns are steps.
        """
        queue = self._queue
        while not due:
            if len(queue) <= self.cancelled:
                return False
            entry = heappop(queue)
            call = entry[3]
            kind = type(call)
            if kind is Timer:
                self._now = entry[0]
                if call.pending:
                    call.pending = False
                    call.call()
                else:
                    self.cancelled -= 1
            elif kind is Line or not isinstance(call, simpy.Event):
                self._now = entry[0]
                call()
            else:
                heappush(queue, entry)
                super().step()
        return True

    def at(self, when: float, call: Callable[[], object]) -> Timer:
        """Call `call()` at the virtual time `when`: now if that is past (after everything that is due now), never if
        infinite.

        SimPy's own timeout takes a delay; two of them for one moment, set at different times, can differ in their last
        bit, and would not keep their order.
        """
        timer = Timer(self, call)
        if when < math.inf:
            now = self._now
            heappush(self._queue, (when if when > now else now, _NORMAL, next(self._eid), timer))
        else:
            timer.pending = False  # it is not in the heap, so there is nothing to cancel
        return timer

    def put(self, when: float, call: Timer | Callable[[], object]) -> None:
        """Schedule a new timer, or a call that is never cancelled, for the virtual time `when`."""
        now = self._now
        heappush(self._queue, (when if when > now else now, _NORMAL, next(self._eid), call))

    def to_come(self) -> Iterator[tuple[float, simpy.Event | Timer | Callable[[], object]]]:
        """Yield the times and the events to come, in the order in which they were scheduled, without cancelled
        timers."""
        entries: list[Any] = []
        for entry in self._queue:
            if isinstance(entry[3], Line):
                entries += entry[3]
            else:
                entries.append(entry)
        entries.sort(key=itemgetter(2))
        return ((when, event) for when, _, _, event in entries if getattr(event, "pending", True))

    def set_clock(self, now: float) -> None:
        """Set the clock to `now`; only for restoring a world from a snapshot."""
        self._now = now

    def count_cancelled(self) -> None:
        """Count one more cancelled timer, and remove all cancelled ones once they are a quarter of the heap."""
        self.cancelled += 1
        if self.cancelled > _SWEEP and 4 * self.cancelled > len(self._queue):
            self._queue[:] = [item for item in self._queue if getattr(item[3], "pending", True)]
            heapify(self._queue)  # every entry is unlike every other, so the order they come in does not change
            self.cancelled = 0


_Method = tuple[type, str, Any]
"""A method with its class and its name."""

_in_c: list[_Method] = []
_in_python: list[_Method] = []


def _use(methods: Iterable[_Method]) -> None:
    for owner, name, method in methods:
        setattr(owner, name, method)


def _add(methods: list[_Method]) -> None:
    """Use compiled `methods` instead of those in Python."""
    _in_c.extend(methods)
    _in_python.extend((owner, name, vars(owner)[name]) for owner, name, _ in methods)
    _use(methods)


def _compiled() -> Any:
    """The compiled `events.c`; None if it is missing or an older one. Its methods of the queue are used from now on."""
    try:
        found = importlib.import_module("tacit.sim._events")
        types = Environment, Timer, Line, simpy.Event
        at, put, step_until, line_at = found.methods(*types, simpy.Environment.step, deque, _NORMAL)
    except (ImportError, AttributeError, TypeError):
        return None
    _add(
        [
            (Environment, "at", at),
            (Environment, "put", put),
            (Environment, "step_until", step_until),
            (Line, "at", line_at),
        ]
    )
    return found


_EVENTS = _compiled()


def use_compiled(kind: str, *types: Any) -> None:
    """Use the compiled methods of `types`, of the `kind` "link" or "network", if there are any.

    Those of the network also take a function, `tacit.sim.digests.chained`.
    """
    try:
        found = getattr(_EVENTS, f"{kind}_methods")(*types)
    except (AttributeError, TypeError, RuntimeError):
        return
    _add(list(found))


def is_compiled() -> bool:
    """True if `events.c` is compiled, and used outside of `in_python`."""
    return bool(_in_c)


@contextmanager
def in_python() -> Iterator[None]:
    """A context in which the queue of events and links work in Python, as if `events.c` were not compiled."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in _in_c]
    _use(_in_python)
    try:
        yield
    finally:
        _use(before)
