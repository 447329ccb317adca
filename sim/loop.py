"""An asyncio event loop on SimPy's heap: one virtual clock for coroutines, links and resources.

SimPy's heap is the only timer queue, so events at equal times keep the order in which they were scheduled. When no
callback is due the loop steps SimPy until one is. The loop never waits on real time, opens a socket or uses a thread;
the methods of asyncio for these raise an error.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, NoReturn, TypeVar

from tacit.sim.clock import Environment, Timer
from tacit.sim.seeding import carried_on

__all__ = ["REFUSED", "Deadlock", "Livelock", "SimLoop", "own_party", "own_step", "settle"]

T = TypeVar("T")

_MOST_TURNS = 1_000_000  # turns of the loop at one moment, after which it is taken to last for ever
_MOST_STEPS = 10_000_000  # of SimPy at one moment, likewise: a crowd on links without latency takes a few a message
_UNWINDING = 1000  # turns of the loop that tasks have for ending once they are cancelled


class Deadlock(RuntimeError):
    """No event is left to happen, yet parties still wait. `waits` maps each party to what it waits for."""

    def __init__(self, time: float, waits: dict[str, str]) -> None:
        self.time = time
        self.waits = waits
        lines = "; ".join(f"{who} waits for {what}" for who, what in waits.items())
        super().__init__(f"deadlock at {time:.6f} s: {lines or 'nobody says what is awaited'}")


own_party: ContextVar[str] = ContextVar("party of the running task", default="")
own_step: ContextVar[str] = ContextVar("step of the running task", default="")


class Livelock(RuntimeError):
    """Activity at one moment of virtual time does not end.

    `parties` lists the active parties with their steps; `places` are the files and lines of their code.
    """

    def __init__(self, time: float, count: int, parties: list[str], places: list[str]) -> None:
        self.time, self.parties, self.places = time, parties, places
        where = ", ".join(places) or "nobody knows where"
        who = f"{', '.join(parties)}: " if parties else ""
        super().__init__(f"{who}{count:,} turns at {time:.6f} s, and nothing that takes time: {where}")


class _Task(asyncio.Task[Any]):
    """A task that hashes by its number, so that sets of tasks iterate alike in every process."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class _Handle(asyncio.Handle):
    """A callback that is due: asyncio's, made without what asyncio notes for debugging."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._callback, self._args, self._loop = callback, args, loop
        self._cancelled = False
        self._repr = self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("timer",)
    timer: Timer


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation; `env` is its SimPy environment.

    `waits` holds for each party a function that says what it waits for ("": nothing); `Deadlock` reports it.
    `task_count` is the number of tasks created so far.
    """

    _ready: deque[asyncio.Handle]  # of asyncio: the callbacks that are due now
    _closed: bool  # of asyncio
    _debug: bool  # of asyncio
    _stopping: bool  # of asyncio: the turn under way is the last
    _thread_id: int | None  # of asyncio: where the loop runs, while it runs

    def __init__(self) -> None:
        super().__init__()
        self.env = Environment()
        self.waits: dict[str, Callable[[], str]] = {}
        self.task_count = 0
        self._turns = self._steps = 0  # at this moment
        self.set_task_factory(self._create)

    def _create(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> _Task:
        task = _Task(self.task_count, carried_on(coro), loop=loop, **kwargs)
        self.task_count += 1
        return task

    def create_task_again(self, coro: Coroutine[Any, Any, None], name: str, number: int) -> "asyncio.Task[None]":
        """Create a task that continues the work of task `number`, which has ended."""
        task: asyncio.Task[None] = _Task(number, coro, loop=self, name=name)
        return task

    def is_last(self, handle: asyncio.Handle) -> bool:
        """Return true if no callback is due after that of `handle`, which has not been called."""
        return bool(self._ready) and self._ready[-1] is handle

    @property
    def is_still(self) -> bool:
        """True if nothing but the running task happens at this moment."""
        return not self._ready

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end and return its result, also where another loop runs in this thread (a notebook's).

        Raises Deadlock when nothing can happen any more, and KeyboardInterrupt at once on Ctrl-C.
        """
        with _others_suspended():
            return self.run_until_complete(main)

    def finish(self) -> None:
        """Cancel the running tasks, let them unwind without moving the clock, and close the loop."""
        if self.is_closed():
            return
        self.set_exception_handler(_broken_off)
        for turn in range(_UNWINDING):
            if not self._ready or turn % 100 == 99:  # or something goes on at one moment without an end
                tasks = sorted(asyncio.all_tasks(self), key=hash)
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
            self.call_soon(self.stop)
            try:
                with _others_suspended():
                    self.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # the error that ended the run is raised in all tasks that waited for the failed one, too
        self.close()

    # The clock

    def time(self) -> float:
        """Virtual seconds since the start."""
        return float(self.env.now)

    def call_later(  # type: ignore[override]  # older than TypeVarTuple
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.env.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = _TimerHandle(when, callback, args, self, context)
        handle.timer = self.env.at(when, partial(self._ready.append, handle))
        return handle

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Schedule a callback like asyncio, without asyncio's checks for mistakes with threads."""
        if self._closed or self._debug:
            return super().call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: _TimerHandle) -> None:
        handle.timer.cancel()

    async def hold(self, seconds: float) -> None:
        """Wait for `seconds`. A cancelled wait leaves no timer behind that could move the clock."""
        future = self.create_future()
        timer = self.env.at(self.env.now + seconds, partial(settle, future, None))
        try:
            await future
        finally:
            timer.cancel()

    # A turn

    def _run_once(self) -> None:
        """Run turns until the loop is to stop. In each, call what is due, or step SimPy until something is.

        SimPy takes the place of asyncio's selector. asyncio calls this once for each turn; it does the same with one
        call for all turns, because most have a single callback.
        """
        ready = self._ready
        while True:
            if ready:
                self._turns += 1
                if self._turns == _MOST_TURNS:
                    self._give_up(_MOST_TURNS)
            elif not self._stopping:
                self._turns = 0
                self._step_until_due()
            for _ in range(len(ready)):  # what these make due has the next turn
                handle: Any = ready.popleft()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._report(handle, error)
                    handle = None  # which would keep what it has called
            if self._stopping:
                return

    def _report(self, handle: asyncio.Handle, error: BaseException) -> None:
        """Report the error of a callback, as asyncio does."""
        message = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _step_until_due(self) -> None:
        env = self.env
        before = env.now
        if not env.step_until(self._ready):
            waits = {who: what for who, tell in self.waits.items() if (what := tell())}
            raise Deadlock(self.time(), waits)
        self._steps = self._steps + 1 if env.now == before else 0
        if self._steps == _MOST_STEPS:
            self._give_up(_MOST_STEPS)

    def _give_up(self, count: int) -> NoReturn:
        """Raise Livelock with the parties and places of what is due after `count` turns at this moment."""
        self._turns = self._steps = 0
        parties = dict.fromkeys(handle._context.run(_worker) for handle in self._ready)  # type: ignore[attr-defined]
        places = dict.fromkeys(map(_place, self._ready))
        raise Livelock(self.time(), count, [who for who in parties if who], list(places))

    def _write_to_self(self) -> None:
        pass

    # What a simulated world does not have

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        if self.is_running() and threading.get_ident() != self._thread_id:
            _refuse("a callback from another thread would make the order of events depend on real time")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> NoReturn:  # type: ignore[override]
        _refuse("work in a thread ends at a real time; use a party's compute()")


def _worker() -> str:
    """The party of the running task with its step; "" outside of parties."""
    step = f" in {own_step.get()}" if own_step.get() else ""
    return own_party.get() and own_party.get() + step


def _place(handle: asyncio.Handle) -> str:
    """The file and line of the task that `handle` continues."""
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    frames = task.get_stack() if isinstance(task, asyncio.Task) else []
    return f"{frames[-1].f_code.co_filename}, line {frames[-1].f_lineno}" if frames else repr(handle)


def _refuse(why: str) -> NoReturn:
    raise RuntimeError(f"not in a simulation: {why}.")


def _no_sockets(self: SimLoop, *args: Any, **kwargs: Any) -> NoReturn:
    _refuse("there are no sockets, pipes, processes or signals; parties exchange messages over links")


REFUSED = (
    "add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler",
    "connect_accepted_socket", "connect_read_pipe", "connect_write_pipe", "create_connection",
    "create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server", "getaddrinfo",
    "getnameinfo", "sendfile", "sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom",
    "sock_recvfrom_into", "sock_sendall", "sock_sendfile", "sock_sendto", "start_tls", "subprocess_exec",
    "subprocess_shell",
)  # fmt: skip
"""Features of asyncio's loops that a simulation refuses."""

for _name in REFUSED:
    setattr(SimLoop, _name, _no_sockets)


@contextmanager
def _others_suspended() -> Iterator[None]:
    """Hide the running loop and its task from asyncio in this thread, and restore them afterwards.

    asyncio refuses a second loop in a thread so that the first does not starve. Here that is intended: the callback of
    the first loop waits for the simulation as for any other call.
    """
    other = asyncio._get_running_loop()
    if other is None:
        yield
        return
    task = asyncio.current_task()
    if task is not None:
        asyncio.tasks._leave_task(other, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(other)
        if task is not None:
            asyncio.tasks._enter_task(other, task)


def settle(future: "asyncio.Future[Any]", value: Any) -> None:
    """Give `future` its result, unless nobody waits for it any more."""
    if not future.done():
        future.set_result(value)


def _broken_off(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass on asyncio's report about a finished loop, except for the Ctrl-C that ended it, which the caller has."""
    if not isinstance(context.get("exception"), KeyboardInterrupt | SystemExit):
        loop.default_exception_handler(context)
