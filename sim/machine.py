"""A party's processor in virtual time, and hosts whose cores several processors share."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tacit.sim.clock import Environment, Timer
from tacit.sim.loop import settle

__all__ = ["Cores", "Held", "Host", "Jobs", "Machine", "Span"]


class Turn:
    """A request for a core: `begins` is done when the job may begin; a `granted` core must be released."""

    __slots__ = ("begins", "granted")

    def __init__(self) -> None:
        self.begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.granted = False


class Cores:
    """The cores of a processor: `capacity` jobs hold one at a time, first come, first served; `count` hold one now.

    Grants take the same places among the events of a moment as those of a SimPy resource, at lower cost: a core that is
    released goes to the next job one event later.
    """

    def __init__(self, env: Environment, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"cores(={capacity}) must be >= 1.")
        self._env, self.capacity, self.count = env, capacity, 0
        self.queue: deque[Turn] = deque()

    def request(self) -> Turn:
        """Request a core and return the turn, which is granted as soon as a core is free."""
        turn = Turn()
        self.queue.append(turn)
        self._grant()
        return turn

    def release(self, turn: Turn) -> None:
        """Release the core of `turn`, or withdraw the request."""
        if not turn.granted:
            self.queue.remove(turn)
            return
        self.count -= 1
        if self.queue:
            self._env.put(self._env.now, self._grant)

    def _grant(self) -> None:
        while self.queue and self.count < self.capacity:
            turn = self.queue.popleft()
            turn.granted = True
            self.count += 1
            self._env.put(self._env.now, partial(settle, turn.begins, None))


class Paced(Protocol):
    """A machine whose jobs share the cores of a host."""

    def set_pace(self, *, as_before: bool = False) -> None:
        """Continue at the pace that the host now has; `as_before` keeps the due time."""


class Host:
    """A positive number of `cores` that several machines share.

    While there are more jobs than cores, each job slows down by the number of jobs per core: jobs take turns, as
    processes do. Stopped jobs take no turn.
    """

    def __init__(self, cores: int) -> None:
        if cores < 1:
            raise ValueError(f"cores(={cores}) must be >= 1.")
        self.cores = cores
        self._counts: dict[Paced, int] = {}

    @property
    def factor(self) -> float:
        """The slowdown of a job now, compared with a core of its own; at least 1."""
        return max(1.0, sum(self._counts.values()) / self.cores)

    def count(self, jobs: Paced, number: int, *, as_before: bool = False) -> None:
        """Set the `number` of running jobs of `jobs`, and adapt the pace of all others.

        `as_before`: the jobs ran together before a snapshot, so due times stay.
        """
        before = self.factor
        if number:
            self._counts[jobs] = number
        else:
            self._counts.pop(jobs, None)
        if self.factor != before:
            for others in list(self._counts):
                others.set_pace(as_before=as_before)


class Held:
    """The seconds for which a job holds a core beyond those at full speed, as a slow party or a pause changes them.

    Of f times the time at full speed, 1 - 1/f are beyond it. Jobs that share the cores of a host hold their part of
    one, and stopped jobs hold none.
    """

    __slots__ = ("_env", "_rate", "_since")

    def __init__(self, env: Environment) -> None:
        self._env, self._since, self._rate = env, env.now, 0.0

    def count(self, factor: float, host: Host | None) -> float:
        """The seconds beyond since the last call; jobs take `factor` times as long from now on, on the `host`."""
        now = self._env.now
        beyond = (now - self._since) * self._rate
        shared = 1.0 if host is None else host.factor
        self._since, self._rate = now, 0.0 if math.isinf(factor) else (1 - 1 / factor) / shared
        return beyond


class Span:
    """Calls `done()` when the current work is done; then the next may begin.

    All work takes `factor` times the seconds that it takes at full speed; infinity stops it.
    """

    __slots__ = ("_done", "_due", "_env", "_factor", "_left", "_timer")

    def __init__(self, env: Environment, done: Callable[[], object] | None = None, factor: float = 1.0) -> None:
        self._env, self._done, self._factor = env, done, factor
        self._timer: Timer | None = None
        self._due = 0.0
        self._left: float | None = None  # seconds left of stopped work

    def begin(self, seconds: float) -> None:
        """Begin work that takes `seconds` at full speed."""
        if self._factor == math.inf:
            self._left = seconds
        else:
            self._due = self._env.now + seconds * self._factor
            self._timer = self._env.at(self._due, self._end)

    def go_on(self, due: float) -> None:
        """Continue work that began before a snapshot and is `due` at that time."""
        self._due = due
        self._timer = self._env.at(due, self._end)

    @property
    def timer(self) -> Timer | None:
        """The timer that ends the work; None if there is no work, or it is stopped."""
        return self._timer

    @property
    def due(self) -> float:
        """The virtual time at which the current work is due, unless it is stretched."""
        return self._due

    def stretch(self, factor: float) -> None:
        """Make all work take `factor` times as long from now on. Work that is due now ends now."""
        left = self._left
        if self._timer is not None and self._due <= self._env.now:
            self._factor = factor
            return
        if self._timer is not None:
            left = (self._due - self._env.now) / self._factor
        self.cancel()
        self._factor = factor
        if left is not None:
            self.begin(left)

    def keep_due(self, factor: float) -> None:
        """Make work that begins from now on take `factor` times as long; the current due time stays."""
        self._factor = factor

    def cancel(self) -> None:
        """Cancel the current work, if any."""
        self._left = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        if self._done is not None:
            self._done()


class Jobs:
    """The running jobs of one party. All take `factor` times as long as at full speed; infinity stops them.

    With a `host` they share its cores with the jobs of others.
    """

    def __init__(self, env: Environment, factor: float = 1.0, host: Host | None = None) -> None:
        self._env, self._factor, self._host = env, factor, host
        self._busy: dict[Span, float] = {}  # the seconds for which a job held a core beyond those at full speed
        self._held = Held(env)

    def __len__(self) -> int:
        return len(self._busy)

    @property
    def only(self) -> Span | None:
        """The only running job; None if there is not exactly one."""
        return next(iter(self._busy)) if len(self._busy) == 1 else None

    def begin(self, seconds: float, done: Callable[[], object], due: float | None = None) -> Span:
        """Begin a job that takes `seconds` and then calls `done`.

        One that began before a snapshot is `due` at that time.
        """
        span = Span(self._env, done, self._pace)
        self._count_beyond()
        self._busy[span] = 0.0
        self._report(as_before=due is not None)
        if due is None:
            span.begin(seconds)
        else:
            span.go_on(due)
        return span

    def end(self, span: Span) -> float:
        """Remove a job that is done or cancelled; return the seconds for which it held a core beyond those at full
        speed, because the party was slow."""
        span.cancel()
        self._count_beyond()
        beyond = self._busy.pop(span)
        self._report()
        return beyond

    def _count_beyond(self) -> None:
        if beyond := self._held.count(self._factor, self._host):
            for span in self._busy:
                self._busy[span] += beyond

    def stretch(self, factor: float) -> None:
        """Make everything take `factor` times as long as at full speed from now on."""
        self._factor = factor
        self.set_pace()
        self._report()
        self._count_beyond()

    def set_pace(self, *, as_before: bool = False) -> None:
        """Continue jobs at the pace that follows from the factor and the host; `as_before` keeps the due times."""
        self._count_beyond()
        for span in self._busy:
            if as_before:
                span.keep_due(self._pace)
            else:
                span.stretch(self._pace)

    @property
    def _pace(self) -> float:
        return self._factor if self._host is None else self._factor * self._host.factor

    def _report(self, *, as_before: bool = False) -> None:
        if self._host is not None:
            self._host.count(self, 0 if math.isinf(self._factor) else len(self._busy), as_before=as_before)


class Machine:
    """A party's processor: `cores` of them, each `speed` times as fast as the cost table's.

    All jobs, including running ones, may temporarily take `factor` times as long; infinity stops them. With a `host`
    they share its cores with the jobs of other machines.
    """

    def __init__(
        self, env: Environment, cores: int = 1, speed: float = 1.0, factor: float = 1.0, host: Host | None = None
    ) -> None:
        if not speed > 0:
            raise ValueError(f"speed(={speed}) must be > 0.")
        self.cores = Cores(env, cores)
        self.speed = speed
        self._jobs = Jobs(env, factor, host)

    @property
    def only(self) -> Span | None:
        """The only running job; None if there is not exactly one."""
        return self._jobs.only

    @property
    def is_idle(self) -> bool:
        """True if no job is running or waiting."""
        return not (len(self._jobs) or self.cores.count or self.cores.queue)

    async def work(
        self, seconds: float, due: float | None = None, beyond: Callable[[float], object] | None = None
    ) -> None:
        """Wait for a job that takes `seconds` at full speed. One that began before a snapshot is `due` at that time.

        `beyond` is called with the further seconds for which it held a core, if it was slow and is done.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        span = self._jobs.begin(seconds, partial(settle, done, None), due)
        try:
            await done
        finally:
            further = self._jobs.end(span)
        if further and beyond is not None:
            beyond(further)

    def stretch(self, factor: float) -> None:
        """Make everything take `factor` times as long as at full speed from now on."""
        self._jobs.stretch(factor)
