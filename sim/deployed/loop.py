"""The event loop of a deployed party: the simulator's loop with the real clock and with sockets.

It offers parties the same interface as `tacit.sim.loop.SimLoop` (timers in its environment, what each party waits for,
numbered tasks). A timer is called when the real clock has reached it. It detects no deadlock, because a message may
always arrive.
"""

import asyncio
import time
from collections.abc import Callable
from heapq import heapify
from typing import Any

from tacit.sim.clock import Environment
from tacit.sim.loop import REFUSED, SimLoop

__all__ = ["RealLoop"]


class _RealEnvironment(Environment):
    """An environment on the real clock; `_now` is the time at which the current turn of the loop began."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock()

    def catch_up(self) -> None:
        """Process all events that are due now, and set the time of this turn."""
        now, queue = self._clock(), self._queue
        while queue and queue[0][0] <= now:
            self.step()
        self._now = max(self._now, now)

    def seconds_left(self) -> float | None:
        """Seconds until the next event is due; None if there is none."""
        return max(0.0, self._queue[0][0] - self._clock()) if len(self._queue) > self.cancelled else None

    def move(self, seconds: float) -> None:
        """Postpone all events by `seconds`, after the clock was set forward by that amount."""
        self._queue[:] = [(when + seconds, priority, number, event) for when, priority, number, event in self._queue]
        heapify(self._queue)
        self._now += seconds


class RealLoop(SimLoop, asyncio.SelectorEventLoop):
    """An event loop on the real clock.

    Its time is seconds since the run began or, before that, since the loop was made.
    """

    env: _RealEnvironment

    def __init__(self) -> None:
        super().__init__()
        self._origin = time.monotonic()
        self.env = _RealEnvironment(self.time)

    def time(self) -> float:
        """Real seconds since the run began."""
        return time.monotonic() - self._origin

    def set_time(self, seconds: float) -> None:
        """Set the clock to `seconds`. Timers stay due as long after this moment as they were before."""
        before = self.time()
        self._origin = time.monotonic() - seconds
        self.env.move(seconds - before)

    def _run_once(self) -> None:
        """Run one turn: read from sockets and call what is due, as asyncio does, with the environment's timers."""
        selector: Any = self._selector  # type: ignore[attr-defined]
        timeout = 0.0 if self._ready or self._stopping else self.env.seconds_left()
        self._process_events(selector.select(timeout))  # type: ignore[attr-defined]
        self.env.catch_up()
        for _ in range(len(self._ready)):  # what these make due has the next turn
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    # What a simulated world refuses

    def _write_to_self(self) -> None:
        asyncio.SelectorEventLoop._write_to_self(self)  # type: ignore[attr-defined]

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return asyncio.SelectorEventLoop.call_soon_threadsafe(self, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        return asyncio.SelectorEventLoop.run_in_executor(self, executor, func, *args)


for _name in REFUSED:
    setattr(RealLoop, _name, getattr(asyncio.SelectorEventLoop, _name))
