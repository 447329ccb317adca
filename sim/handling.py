"""The CPU time that messages take outside of jobs: encoding, encryption of the connection, the event loop, the record.

A party's program handles one message at a time, sent or received, in the order in which they are handed in. Handling
does not occupy the cores that the party's jobs wait for, but it shares the `tacit.sim.machine.Host` with them. A
message is sent, and delivered, once it is handled; a relay handles it twice.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.sim.clock import Environment
from tacit.sim.machine import Held, Host, Span

__all__ = ["Handler", "Handling"]

Then = Callable[[], object]


@dataclass(frozen=True)
class Handling:
    """The CPU seconds that a machine takes for each `message` it sends or receives, and its `rate` in bytes a second.

    Raises ValueError for negative seconds, and for a rate that is not above 0.
    """

    message: float = 0.0
    rate: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.message < math.inf:
            raise ValueError(f"message(={self.message}) must be >= 0 seconds, and finite.")
        if not self.rate > 0:
            raise ValueError(f"rate(={self.rate}) must be > 0 bytes/s.")

    def __bool__(self) -> bool:
        """Return true if handling takes any time."""
        return self.message > 0 or self.rate < math.inf

    def seconds(self, size: int) -> float:
        """The CPU seconds for one message of `size` bytes."""
        return self.message + size / self.rate

    def at(self, speed: float) -> "Handling":
        """The handling on a core that is `speed` times as fast."""
        return Handling(self.message / speed, self.rate * speed)


class Handler(Span):
    """Handles the messages of one party, one after another, on the cores of `host`, in the time that `handling` gives.

    All messages take `slowness` times as long; infinity stops the handler. Once a message is handled, `stretched` is
    called with the further seconds for which it held a core because of that.
    """

    __slots__ = ("_beyond", "_handling", "_held", "_host", "_queue", "_slowness", "_stretched")

    def __init__(
        self, env: Environment, handling: Handling, host: Host, slowness: float = 1.0,
        stretched: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(env)
        self._handling, self._host, self._slowness, self._stretched = handling, host, slowness, stretched
        self._held, self._beyond = Held(env), 0.0
        self._queue: deque[tuple[float, Then, Then]] = deque()  # the first one is being handled

    @property
    def is_empty(self) -> bool:
        """True if no message is waiting or being handled."""
        return not self._queue

    def take(self, size: int, then: Then, cut: Then, times: int = 1) -> None:
        """Call `then` once `times` messages of `size` bytes are handled, after all earlier ones; call `cut` if the
        party falls."""
        self._queue.append((times * self._handling.seconds(size), then, cut))
        if len(self._queue) == 1:
            self._report()
            self.set_pace()  # which was not kept up while there was nothing to do
            self._beyond = 0.0
            self.begin(self._queue[0][0])

    def slow(self, slowness: float) -> None:
        """Make everything take `slowness` times as long as at full speed from now on."""
        self._slowness = slowness
        self.set_pace()
        self._report()
        self._beyond += self._held.count(slowness, self._host)

    def set_pace(self, *, as_before: bool = False) -> None:
        """Continue at the pace that follows from the slowness and the host; `as_before` keeps the due time."""
        self._beyond += self._held.count(self._slowness, self._host)
        pace = self._slowness * self._host.factor
        if as_before:
            self.keep_due(pace)
        else:
            self.stretch(pace)

    def empty(self) -> None:
        """Drop all messages in the handler, because the party is down."""
        self.cancel()
        dropped, self._queue = self._queue, deque()
        self._report()
        for _, _, cut in dropped:
            cut()

    def state(self) -> list[Any]:
        """The message being handled, the waiting ones, and the share of the first one that is done."""
        self._beyond += self._held.count(self._slowness, self._host)
        queue = list(map(list, self._queue))
        return [queue, self._timer, self._due, self._left, self._factor, self._slowness, self._beyond]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again.

        A state of an earlier version lacks the seconds beyond full speed: they are counted from now on.
        """
        queue, self._timer, self._due, self._left, self._factor, self._slowness, *beyond = state
        self._beyond = beyond[0] if beyond else 0.0
        self._queue = deque((seconds, then, cut) for seconds, then, cut in queue)
        self._report(as_before=True)
        self._held.count(self._slowness, self._host)

    def _report(self, *, as_before: bool = False) -> None:
        goes_on = bool(self._queue) and not math.isinf(self._slowness)
        self._host.count(self, int(goes_on), as_before=as_before)

    def _end(self) -> None:
        self._timer = None
        beyond, self._beyond = self._beyond + self._held.count(self._slowness, self._host), 0.0
        if beyond and self._stretched is not None:
            self._stretched(beyond)
        _, then, _ = self._queue.popleft()
        if self._queue:
            self.begin(self._queue[0][0])
        else:
            self._report()
        then()
