"""Blocking code in virtual time: threads of which one runs at a time, while the loop's own thread stands still.

A `Fiber` is such a thread. Virtual time stands still while it computes. To wait, it passes the loop a coroutine
(`in_world`) and gets its result when that is done, in virtual time.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

__all__ = [
    "Event", "Exited", "Fiber", "Spawned", "Stopped", "Turn", "Waits", "any_done", "current", "exit_of", "in_world",
]  # fmt: skip

Waits = Callable[[], Awaitable[Any]]
"""Makes an awaitable for a fiber; it is called, and awaited, in the loop's thread."""


class Stopped(BaseException):
    """Raised in a fiber whose party is gone, at its next wait."""


class Exited(SystemExit):
    """Raised in an app instead of os._exit, which must not end Tacit."""


def exit_of(error: SystemExit) -> str:
    """The call that has raised `error`, in words."""
    return f"{'os._exit' if isinstance(error, Exited) else 'sys.exit'}({error.code!r})"


class Turn(NamedTuple):
    """The next stop of a fiber: a wait for the result of `waits`, or its end with `value` or `error`."""

    waits: Waits | None
    value: Any = None
    error: BaseException | None = None


_REFUSALS = 1_000
"""The number of times that `Stopped` is raised in a thread that catches it, before the thread is abandoned."""

_Lock = threading.Lock  # for which there is a stand-in in fibers

_here = threading.local()


def current() -> "Fiber | None":
    """The fiber that runs the caller; None in any other thread."""
    fiber: Fiber | None = getattr(_here, "fiber", None)
    return fiber


def in_world(waits: Waits) -> Any:
    """Let the loop await what `waits` makes; return its result or raise its error. Only in a fiber."""
    fiber = current()
    if fiber is None:
        raise RuntimeError("only the thread that runs the server app, and those that it starts, can wait for clients.")
    return fiber.wait(waits)


class Fiber:
    """A thread that runs `function()` in turns: from one of its waits to the next.

    `by`: the fiber that started it. All end with the first fiber, as the threads of a process do.
    """

    def __init__(self, function: Callable[[], Any], clock: Callable[[], float], by: "Fiber | None" = None) -> None:
        self._function, self.clock, self._by = function, clock, by
        self._go, self._back = _Lock(), _Lock()
        self._go.acquire()
        self._back.acquire()
        self._turn = Turn(None)
        self._given: tuple[Any, BaseException | None] = (None, None)
        self._thread: threading.Thread | None = None
        self._stopped = self.ended = False
        self._refused = 0
        self.spawned: list[asyncio.Task[Any]] = [] if by is None else by.spawned

    def _run(self) -> None:
        self._go.acquire()
        _here.fiber = self
        turn = Turn(None)
        try:
            self._check()
            turn = Turn(None, self._function())
        except BaseException as error:
            turn = Turn(None, None, error)
        self._turn, self.ended = turn, True
        self._back.release()

    def _check(self) -> Any:
        value, error = self._given
        if self._stopped:
            self._refuse()
        if error is not None:
            raise error
        return value

    def wait(self, waits: Waits) -> Any:
        """Wait in the fiber's thread for the result of what `waits` makes."""
        if self._stopped:
            self._refuse()
        self._turn = Turn(waits)
        self._back.release()
        self._go.acquire()
        return self._check()

    def _refuse(self) -> NoReturn:
        """Raise Stopped. A thread that continues nevertheless is blocked here forever, and nobody waits for it."""
        self._refused += 1
        while self._refused > _REFUSALS:
            self.ended = True
            self._back.release()
            self._go.acquire()
        raise Stopped

    def go_on(self, value: Any = None, error: BaseException | None = None) -> Turn:
        """Continue the fiber, from the loop's thread, with the `value` that it waited for, or the `error`, to its next
        wait."""
        if self._thread is None:  # made here: what a thread is made of has stand-ins in fibers
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._given = value, error
        self._go.release()
        self._back.acquire()
        return self._turn

    def stop(self) -> None:
        """End the fiber, from the loop's thread: `Stopped` is raised at each of its waits."""
        self._stopped = True
        while self._thread is not None and not self.ended:
            self.go_on()

    async def run(self, turn: Callable[[Callable[[], Turn]], Awaitable[Turn]] | None = None) -> Any:
        """Run the fiber to its end and return its result. `turn` runs each of its turns, for example as a job; by
        default directly.

        Raises any error of the function, and RuntimeError for a call of sys.exit or os._exit.
        """
        value: Any = None
        error: BaseException | None = None
        try:
            while True:

                def next_turn(value: Any = value, error: BaseException | None = error) -> Turn:
                    return self.go_on(value, error)

                now = next_turn() if turn is None else await turn(next_turn)
                if now.waits is None:
                    if isinstance(now.error, SystemExit):
                        where = now.error.__traceback__
                        raise RuntimeError(f"it called {exit_of(now.error)}").with_traceback(where) from now.error
                    if now.error is not None:
                        raise now.error
                    return now.value
                value = error = None
                try:
                    value = await now.waits()
                except Exception as raised:
                    error = raised
        finally:
            for task in self.spawned if self._by is None else ():
                task.cancel()
            self.stop()

    def spawn(self, function: Callable[[], Any], name: str) -> "Spawned":
        """Start another fiber, from this fiber's thread, that runs `function()` from the next wait on."""
        return Spawned(self, function, name)


class Spawned:
    """A fiber that another one has started. `done` is set at its end."""

    def __init__(self, by: Fiber, function: Callable[[], Any], name: str) -> None:
        self.fiber = Fiber(function, by.clock, by)
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = Event()

        async def start() -> None:
            by.spawned.append(asyncio.get_running_loop().create_task(self._main(), name=name))

        by.wait(start)

    async def _main(self) -> None:
        try:
            self.value = await self.fiber.run()
        except (Exception, Stopped) as error:
            self.error = error
        finally:
            self.done.set_here()


async def any_done(spawned: Iterable[Spawned], timeout: float | None) -> None:
    """Wait, in the loop, until one of these has ended, for at most `timeout` virtual seconds."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for one in spawned:
        one.done.waiting.append(future)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await future


class Event:
    """A `threading.Event` between fibers."""

    def __init__(self) -> None:
        self._set = False
        self.waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._set

    def clear(self) -> None:
        self._set = False

    def set_here(self) -> None:
        """Do `set` from the loop's thread."""
        self._set = True
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def set(self) -> None:
        async def now() -> None:
            self.set_here()

        in_world(now)

    def wait(self, timeout: float | None = None) -> bool:
        return bool(in_world(lambda: self.wait_here(timeout)))

    async def wait_here(self, timeout: float | None = None) -> bool:
        """Do `wait` in the loop."""
        if not self._set:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(future)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await future
        return self._set
