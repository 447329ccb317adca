"""What stands for the modules `threading`, `concurrent.futures` and `time` in code that blocks (`threads`).

Code that starts threads of its own gets fibers, and time is virtual in them.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from protocols.flower.threads import Event, Fiber, Spawned, current, in_world

__all__ = ["EPOCH", "JOB", "VIRTUAL", "Futures", "JobClock", "Threading", "virtual_time"]

EPOCH = 1_767_225_600.0
"""Seconds since 1970 at the beginning of a run, 2026-01-01 00:00 UTC: what ``time.time()`` says there."""


# In place of threading


class Lock:
    """`threading.Lock` and `threading.RLock` between fibers."""

    def __init__(self) -> None:
        self._owner: Fiber | None = None
        self._depth = 0
        self._freed = Event()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current()
        while self._owner is not None and self._owner is not me:
            if not blocking:
                return False
            self._freed.clear()
            if not self._freed.wait(None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if self._freed.waiting:
                self._freed.set()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition(Lock):
    """`threading.Condition` between fibers."""

    def __init__(self, lock: Any = None) -> None:
        super().__init__()
        self._changed = Event()

    def notify(self, n: int = 1) -> None:
        self.notify_all()

    def notify_all(self) -> None:
        if self._changed.waiting:
            self._changed.set()

    def wait(self, timeout: float | None = None) -> bool:
        self._changed.clear()
        self.release()
        try:
            return self._changed.wait(timeout)
        finally:
            self.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        fiber = current()
        end = None if timeout is None or fiber is None else fiber.clock() + timeout
        while not (found := predicate()):
            left = None if end is None or fiber is None else end - fiber.clock()
            if (left is not None and left <= 0) or not self.wait(left):
                return predicate()
        return found


class Thread:
    """`threading.Thread` as a fiber."""

    def __init__(
        self, group: None = None, target: Any = None, name: str = "thread", args: Any = (), kwargs: Any = None,
        *, daemon: bool | None = None,
    ) -> None:  # fmt: skip
        self.name, self.daemon = name, daemon
        self._call = lambda: target(*args, **(kwargs or {}))
        self._spawned: Spawned | None = None

    def start(self) -> None:
        fiber = current()
        assert fiber is not None
        self._spawned = fiber.spawn(self._call, self.name)

    def join(self, timeout: float | None = None) -> None:
        if self._spawned is not None:
            self._spawned.done.wait(timeout)

    def is_alive(self) -> bool:
        return self._spawned is not None and not self._spawned.done.is_set()


class Threading:
    """What code may take of the module `threading`."""

    Thread, Event, Lock, RLock, Condition = Thread, Event, Lock, Lock, Condition
    local, current_thread, get_ident = threading.local, threading.current_thread, threading.get_ident


# In place of concurrent.futures


class _Future:
    """`concurrent.futures.Future` of a fiber; sets of them iterate in the order of their numbers."""

    def __init__(self, spawned: Spawned, number: int) -> None:
        self._spawned, self._number = spawned, number

    def __hash__(self) -> int:
        return self._number

    def done(self) -> bool:
        return self._spawned.done.is_set()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._spawned.done.wait(timeout)
        return self._spawned.error

    def result(self, timeout: float | None = None) -> Any:
        if (error := self.exception(timeout)) is not None:
            raise error
        return self._spawned.value


class _Executor:
    """`concurrent.futures.ThreadPoolExecutor` with a fiber for each call, all at once."""

    def __init__(self, max_workers: int | None = None, *_: Any, **__: Any) -> None:
        self._futures: list[_Future] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> _Future:
        fiber = current()
        assert fiber is not None
        number = len(self._futures)
        spawned = fiber.spawn(lambda: function(*arguments, **named), f"{function.__name__} {number}")
        self._futures.append(_Future(spawned, number))
        return self._futures[-1]

    def map(self, function: Callable[..., Any], *columns: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(function, *row) for row in zip(*columns, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, **_: Any) -> None:
        if wait:
            for future in self._futures:
                future.exception()

    def __enter__(self) -> "_Executor":
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class Futures:
    """What code may take of the package `concurrent`, whose module `futures` this is, too."""

    ThreadPoolExecutor = _Executor
    Future = concurrent.futures.Future

    @staticmethod
    def wait(fs: Iterable[_Future], timeout: float | None = None, **_: Any) -> tuple[set[_Future], set[_Future]]:
        """Wait for all of `fs`, for `timeout` virtual seconds each; returns those done, and the others."""
        all_of_them = sorted(fs, key=hash)
        for future in all_of_them:
            future._spawned.done.wait(timeout)
        done = {future for future in all_of_them if future.done()}
        return done, {future for future in all_of_them if not future.done()}

    @staticmethod
    def as_completed(fs: Iterable[_Future], timeout: float | None = None) -> Iterator[_Future]:
        """All of `fs`, each when it is done, in the order of their numbers."""
        for future in sorted(fs, key=hash):
            future._spawned.done.wait(timeout)
            yield future


Futures.futures = Futures  # type: ignore[attr-defined]


# In place of time


class JobClock(threading.local):
    """The time in a job of a client, seconds of virtual time; `moment` is None in any other thread.

    `slept`: what the job has slept, which is to pass after it. Time stands still otherwise, as how often libraries look
    at the clock depends on what is loaded; until code has looked so often that it waits for a moment to pass.
    """

    moment: float | None = None
    slept = 0.0
    looks = 0

    @contextmanager
    def starting(self, moment: float) -> Iterator[None]:
        """Within it, the time in this thread is virtual from `moment` on."""
        self.moment, self.slept, self.looks = moment, 0.0, 0
        try:
            with virtual_time():
                yield
        finally:
            self.moment = None

    def now(self) -> float | None:
        """Virtual seconds, in a job or a fiber; else None."""
        return self.moment if (fiber := current()) is None else fiber.clock()

    def look(self) -> float | None:
        """`now`, for code of others: from a thousand looks on, each moves the time of a job by a millisecond."""
        if self.moment is not None and current() is None:
            self.looks += 1
            self.moment += 1e-3 if self.looks > 1_000 else 0.0
        return self.now()


JOB = JobClock()


def _virtual(real: Callable[..., float], since: float, unit: float = 1.0) -> Callable[..., float]:
    def now() -> float:
        seconds = JOB.look()
        if seconds is None:
            return real()
        return since + seconds if unit == 1.0 else int((since + seconds) / unit)

    return now


_sleep = time.sleep


def _sleeps(seconds: float) -> None:
    if current() is not None:
        in_world(lambda: asyncio.sleep(max(seconds, 0.0)))
    elif JOB.moment is not None:
        JOB.moment += max(seconds, 0.0)
        JOB.slept += max(seconds, 0.0)
    else:
        _sleep(seconds)


_CLOCKS = {
    "time": (EPOCH, 1.0), "monotonic": (0.0, 1.0), "perf_counter": (0.0, 1.0),
    "time_ns": (EPOCH, 1e-9), "monotonic_ns": (0.0, 1e-9), "perf_counter_ns": (0.0, 1e-9),
}  # fmt: skip
"""When each clock of the module `time` began, and the seconds that it counts in."""

_REAL: dict[str, Callable[..., Any]] = {"sleep": _sleep, **{name: getattr(time, name) for name in _CLOCKS}}

VIRTUAL: dict[Callable[..., Any], Callable[..., Any]] = {
    _sleep: _sleeps,
    **{_REAL[name]: _virtual(_REAL[name], *clock) for name, clock in _CLOCKS.items()},
}
"""What stands for a function of the module `time` in fibers and jobs; in any other thread it does what that does."""


@contextmanager
def virtual_time() -> Iterator[None]:
    """Within it, the functions of the module `time` mean virtual time in fibers and in jobs."""
    before = {name: getattr(time, name) for name in _REAL}
    for name, real in _REAL.items():
        setattr(time, name, VIRTUAL[real])
    try:
        yield
    finally:
        for name, real in before.items():
            setattr(time, name, real)
