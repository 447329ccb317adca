"""A party's processor in virtual time."""

import asyncio

import simpy

from sim.loop import Environment
from sim.pace import Span

__all__ = ["Machine"]


class Machine:
    """A party's processor: `cores` of them, each `speed` times as fast as the cost table's.

    All jobs may for a while take `factor` times as long, those that have begun too; infinity stops them.
    """

    def __init__(self, env: Environment, cores: int = 1, speed: float = 1.0, factor: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed(={speed}) must be > 0.")
        self.cores = simpy.Resource(env, capacity=cores)
        self.speed = speed
        self._env, self._factor = env, factor
        self._busy: dict[Span, None] = {}

    @property
    def only(self) -> Span | None:
        """The job that is going on; None if it is not a single one."""
        return next(iter(self._busy)) if len(self._busy) == 1 else None

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do."""
        return not (self._busy or self.cores.users or self.cores.queue)

    async def work(self, seconds: float, due: float | None = None) -> None:
        """Wait until a job is done that takes `seconds` at full speed, or is `due` if it began before a snapshot."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        span = Span(self._env, lambda: None if done.done() else done.set_result(None), self._factor)
        self._busy[span] = None
        if due is None:
            span.begin(seconds)
        else:
            span.go_on(due)
        try:
            await done
        finally:
            span.cancel()
            del self._busy[span]

    def stretch(self, factor: float) -> None:
        """Make everything take `factor` times as long as at full speed from now on."""
        self._factor = factor
        for span in self._busy:
            span.stretch(factor)
