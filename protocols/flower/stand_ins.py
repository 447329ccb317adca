"""Stand-ins for `threading`, `concurrent.futures`, `time` and `os._exit` in blocking code (`threads`).

Code that starts threads gets fibers with virtual time.
"""

import asyncio
import concurrent.futures
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from tacit.protocols.flower.threads import Event, Exited, Fiber, Spawned, any_done, current, in_world

__all__ = ["EPOCH", "JOB", "VIRTUAL", "JobClock", "stand_ins"]

EPOCH = 1_767_225_600.0
"""The value of ``time.time()`` at the beginning of a run: 2026-01-01 00:00 UTC, in seconds since 1970."""


# In place of threading

_Lock, _RLock, _Condition = threading.Lock, threading.RLock, threading.Condition
_start, _join, _is_alive = threading.Thread.start, threading.Thread.join, threading.Thread.is_alive


class Lock:
    """A `threading.Lock` between fibers; in other threads a real lock."""

    _reenters = False

    def __init__(self) -> None:
        self._owner: Fiber | None = None
        self._depth = 0
        self._freed = Event()
        self._real: Any = _RLock() if self._reenters else _Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current()
        if me is None:
            return bool(self._real.acquire(blocking, timeout))
        while self._depth and not (self._reenters and self._owner is me):
            if not blocking:
                return False
            self._freed.clear()
            if not self._freed.wait(None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        if current() is None:
            self._real.release()
            return
        if not self._depth:
            raise RuntimeError("release unlocked lock")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if self._freed.waiting:
                self._freed.set()

    def locked(self) -> bool:
        return bool(self._depth) if current() is not None else bool(self._real.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """A `threading.RLock` between fibers; in other threads a real one."""

    _reenters = True

    def _is_owned(self) -> bool:
        me = current()
        return bool(self._real._is_owned()) if me is None else bool(self._depth) and self._owner is me

    def _release_save(self) -> Any:
        if current() is None:
            return self._real._release_save()
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def _acquire_restore(self, saved: Any) -> None:
        if current() is None:
            self._real._acquire_restore(saved)
        else:
            self.acquire()
            self._depth = saved


class Condition(threading.Condition):
    """A `threading.Condition` between fibers; in other threads a real one. Waiting fibers may be woken spuriously."""

    def __init__(self, lock: Any = None) -> None:
        ours: Any = RLock() if lock is None else lock
        super().__init__(ours)
        self._changed = Event()

    def wait(self, timeout: float | None = None) -> bool:
        if current() is None:
            return super().wait(timeout)
        if not self._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError("cannot wait on un-acquired lock")
        self._changed.clear()
        saved = self._release_save()  # type: ignore[attr-defined]
        try:
            return self._changed.wait(timeout)
        finally:
            self._acquire_restore(saved)  # type: ignore[attr-defined]

    def notify(self, n: int = 1) -> None:
        super().notify(n)
        if current() is not None and self._changed.waiting:
            self._changed.set()


def _start_thread(self: Any) -> None:
    fiber = current()
    if fiber is None or not _is_app(sys._getframe(1), 1):
        _start(self)
        return
    if _spawned_of(self) is not None:
        raise RuntimeError("threads can only be started once")
    self._spawned = fiber.spawn(lambda: _run_thread(self), self.name)


def _run_thread(thread: threading.Thread) -> None:
    try:
        thread.run()
    except SystemExit:
        pass  # which ends a thread and nothing else
    except Exception as error:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))


def _spawned_of(thread: threading.Thread) -> Spawned | None:
    return thread.__dict__.get("_spawned")


def _join_thread(self: threading.Thread, timeout: float | None = None) -> None:
    spawned = _spawned_of(self)
    if spawned is None:
        _join(self, timeout)
    elif current() is not None:
        spawned.done.wait(timeout)


def _thread_is_alive(self: threading.Thread) -> bool:
    spawned = _spawned_of(self)
    return _is_alive(self) if spawned is None else not spawned.done.is_set()


# In place of concurrent.futures

_ThreadPool = concurrent.futures.ThreadPoolExecutor
_wait, _as_completed = concurrent.futures.wait, concurrent.futures.as_completed


class _Future:
    """A `concurrent.futures.Future` of a fiber; sets of them iterate in the order of their numbers."""

    def __init__(self, spawned: Spawned, number: int) -> None:
        self.spawned, self._number = spawned, number

    def __hash__(self) -> int:
        return self._number

    def done(self) -> bool:
        return self.spawned.done.is_set()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.spawned.done.wait(timeout):
            raise TimeoutError
        return self.spawned.error

    def result(self, timeout: float | None = None) -> Any:
        if (error := self.exception(timeout)) is not None:
            raise error
        return self.spawned.value


class _Executor:
    """A `concurrent.futures.ThreadPoolExecutor` with a fiber for each call; at most `max_workers` run at once.

    Without a number all run at once, because the default would depend on the machine.
    """

    def __init__(self, max_workers: int | None = None, *_: Any, **__: Any) -> None:
        self._futures: list[_Future] = []
        self._free: Any = nullcontext() if max_workers is None else threading.Semaphore(max_workers)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> _Future:
        fiber = current()
        assert fiber is not None
        number = len(self._futures)

        def call() -> Any:
            with self._free:
                return function(*arguments, **named)

        spawned = fiber.spawn(call, f"{getattr(function, '__name__', 'call')} {number}")
        self._futures.append(_Future(spawned, number))
        return self._futures[-1]

    def map(self, function: Callable[..., Any], *columns: Iterable[Any], **_: Any) -> Iterator[Any]:
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


class _Waited(NamedTuple):
    """The result of `concurrent.futures.wait`."""

    done: set[Any]
    not_done: set[Any]


def _wait_for(fs: Iterable[Any], timeout: float | None = None, return_when: str = "ALL_COMPLETED") -> Any:
    """Replace `concurrent.futures.wait`: fibers wait for `timeout` virtual seconds."""
    every, fiber = list(fs), current()
    if fiber is None or not all(isinstance(one, _Future) for one in every):
        return _wait(every, timeout, return_when)
    every.sort(key=hash)
    end = None if timeout is None else fiber.clock() + timeout
    while left := [one for one in every if not one.done()]:
        ended = [one for one in every if one not in left]
        enough = ended if return_when == "FIRST_COMPLETED" else [one for one in ended if one.spawned.error is not None]
        if (enough and return_when != "ALL_COMPLETED") or (end is not None and fiber.clock() >= end):
            break
        in_world(partial(any_done, [one.spawned for one in left], None if end is None else end - fiber.clock()))
    return _Waited({one for one in every if one not in left}, set(left))


def _each_as_completed(fs: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """Replace `concurrent.futures.as_completed`; fibers that end at once come in the order of their numbers."""
    left, fiber = set(fs), current()
    if fiber is None or not all(isinstance(one, _Future) for one in left):
        yield from _as_completed(left, timeout)
        return
    end = None if timeout is None else fiber.clock() + timeout
    while left:
        done, left = _wait_for(left, None if end is None else end - fiber.clock(), "FIRST_COMPLETED")
        if not done:
            raise TimeoutError(f"{len(left)} futures unfinished")
        yield from sorted(done, key=hash)


# In place of both modules

_FRAMES = 3
"""The most frames between an app's code and the creation of its lock, which may be inside an event inside a queue."""

_apps: list[tuple[str, ...]] = []
"""The folders of code whose threads are fibers. Other packages keep real threads, because they wait for no client."""


def _is_app(frame: FrameType | None, frames: int = _FRAMES) -> bool:
    """Return true if one of the next `frames` frames belongs to an app."""
    for _ in range(frames if _apps else 0):
        if frame is None:
            break
        if frame.f_code.co_filename.startswith(_apps[-1]):
            return True
        frame = frame.f_back
    return False


def _of_apps(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes `ours` if an app calls it, and the `real` object otherwise."""

    def make(*arguments: Any, **named: Any) -> Any:
        return (ours if _is_app(sys._getframe(1)) else real)(*arguments, **named)

    return make


def _pool(*arguments: Any, **named: Any) -> Any:
    """Make a pool of fibers if an app asks for it in a fiber, and of threads otherwise."""
    is_ours = current() is not None and _is_app(sys._getframe(1), 1)
    return (_Executor if is_ours else _ThreadPool)(*arguments, **named)


# In place of time


class JobClock(threading.local):
    """The time in a job of a client, in virtual seconds; `moment` is None in any other thread.

    `slept`: the seconds that the job has slept, which pass after it. Otherwise time stands still, because the number of
    times that libraries read the clock depends on what is loaded; after many reads it advances, for code that waits for
    a moment to pass.
    """

    moment: float | None = None
    slept = 0.0
    looks = 0

    @contextmanager
    def starting(self, moment: float) -> Iterator[None]:
        """Inside this context the time in this thread is virtual, from `moment` on."""
        self.moment, self.slept, self.looks = moment, 0.0, 0
        try:
            with stand_ins():
                yield
        finally:
            self.moment = None

    def now(self) -> float | None:
        """The virtual seconds in a job or a fiber; None elsewhere."""
        return self.moment if (fiber := current()) is None else fiber.clock()

    def look(self) -> float | None:
        """Read the time for other code: after a thousand reads, each one advances the time of a job by a
        millisecond."""
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
"""The beginning of each clock of the module `time`, and its unit in seconds."""

_REAL: dict[str, Callable[..., Any]] = {"sleep": _sleep, **{name: getattr(time, name) for name in _CLOCKS}}

VIRTUAL: dict[Callable[..., Any], Callable[..., Any]] = {
    _sleep: _sleeps,
    **{_REAL[name]: _virtual(_REAL[name], *clock) for name, clock in _CLOCKS.items()},
}
"""Stand-ins for the functions of the module `time` in fibers and jobs; in other threads they call the real ones."""


_exit = os._exit
_process = [os.getpid()]


def _exits(status: int) -> NoReturn:
    if (current() is None and JOB.moment is None) or os.getpid() != _process[0]:  # a child may end as it likes
        _exit(status)
    raise Exited(status)


def _clocks_of(module: Any) -> dict[str, Any]:
    """Stand-ins for the clocks that a module of Python has imported by name."""
    real = {id(clock): clock for clock in VIRTUAL}
    return {name: VIRTUAL[real[id(value)]] for name, value in vars(module).items() if id(value) in real}


_PATCHES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (time, {name: VIRTUAL[real] for name, real in _REAL.items()}),
    (os, {"_exit": _exits}),
    (threading.Thread, {"start": _start_thread, "join": _join_thread, "is_alive": _thread_is_alive}),
    (
        threading,
        {
            "Lock": _of_apps(_Lock, Lock),
            "RLock": _of_apps(_RLock, RLock),
            "Condition": _of_apps(_Condition, Condition),
            **_clocks_of(threading),
        },
    ),
    (queue, _clocks_of(queue)),
    (concurrent.futures, {"ThreadPoolExecutor": _pool, "wait": _wait_for, "as_completed": _each_as_completed}),
)
"""Stand-ins for names of modules and of a class. Events, semaphores, barriers and queues are built from these."""


@contextmanager
def stand_ins(*folders: str) -> Iterator[None]:
    """Inside this context the code of an app uses virtual time, in fibers and in jobs; other threads are unchanged.

    `folders` contain the code whose threads are fibers.
    """
    _process[0] = os.getpid()
    before = [(owner, {name: getattr(owner, name) for name in names}) for owner, names in _PATCHES]
    _apps.extend([(__file__, *(f"{folder}{os.sep}" for folder in folders))] if folders else [])
    for owner, names in _PATCHES:
        for name, stand_in in names.items():
            setattr(owner, name, stand_in)
    try:
        yield
    finally:
        del _apps[len(_apps) - bool(folders) :]
        for owner, names in before:
            for name, value in names.items():
                setattr(owner, name, value)
