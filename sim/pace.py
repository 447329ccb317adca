"""Work that takes time, on something that may slow down or stop meanwhile."""

import math
from collections.abc import Callable

from tacit.sim.clock import Environment, Timer

__all__ = ["Span"]


class Span:
    """Calls `done()` when the work that was begun is done; from then on another may begin.

    Everything takes `factor` times the seconds it takes at full speed; infinity stops it.
    """

    __slots__ = ("_done", "_due", "_env", "_factor", "_left", "_timer")

    def __init__(self, env: Environment, done: Callable[[], object] | None = None, factor: float = 1.0) -> None:
        self._env, self._done, self._factor = env, done, factor
        self._timer: Timer | None = None
        self._due = 0.0
        self._left: float | None = None  # seconds left of stopped work

    def begin(self, seconds: float) -> None:
        """Begin something that takes `seconds` at full speed."""
        if self._factor == math.inf:
            self._left = seconds
        else:
            self._due = self._env.now + seconds * self._factor
            self._timer = self._env.at(self._due, self._end)

    def go_on(self, due: float) -> None:
        """Go on with something that began before a snapshot was taken, and is due then."""
        self._due = due
        self._timer = self._env.at(due, self._end)

    @property
    def timer(self) -> Timer | None:
        """The timer that ends the work; None while there is none, or it is stopped."""
        return self._timer

    @property
    def due(self) -> float:
        """When the work that was begun is due, unless it is stretched."""
        return self._due

    def stretch(self, factor: float) -> None:
        """Make everything take `factor` times as long from now on. What is due at this moment is done."""
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
        """Make what begins from now on take `factor` times as long; what is due stays due."""
        self._factor = factor

    def cancel(self) -> None:
        """Break off what was begun, if anything was."""
        self._left = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        if self._done is not None:
            self._done()
