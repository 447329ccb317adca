"""Work that takes time on a device that may slow down or stop meanwhile."""

import math
from collections.abc import Callable

from tacit.sim.clock import Environment, Timer

__all__ = ["Span"]


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
