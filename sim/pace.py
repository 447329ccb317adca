"""Things that take a while, on something that may slow down or stand still meanwhile."""

import math
from collections.abc import Callable

from sim.loop import Environment, Timer

__all__ = ["Span"]


class Span:
    """Calls `call()` when what was begun is done; from then on another may begin.

    Everything takes `factor` times the seconds it takes at full speed; infinity: it stands still.
    """

    __slots__ = ("_begun", "_call", "_due", "_env", "_factor", "_left", "_timer")

    def __init__(self, env: Environment, call: Callable[[], object], factor: float = 1.0) -> None:
        self._env, self._call, self._factor = env, call, factor
        self._timer: Timer | None = None
        self._begun = False
        self._left = self._due = 0.0

    def begin(self, seconds: float) -> None:
        """Begin something that takes `seconds` at full speed."""
        self._begun, self._left = True, seconds
        if self._factor != math.inf:
            self._due = self._env.now + seconds * self._factor
            self._timer = self._env.at(self._due, self._end)

    def stretch(self, factor: float) -> None:
        """From now on, `factor` times as long."""
        left = self._left
        if self._timer is not None:
            left = (self._due - self._env.now) / self._factor
            self._timer.cancel()
            self._timer = None
        self._factor = factor
        if self._begun:
            self.begin(left)

    def cancel(self) -> None:
        """Break off what was begun, if anything was."""
        self._begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._begun, self._timer = False, None
        self._call()
