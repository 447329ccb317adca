"""Links: how long a packet takes from one party to another, and whether it comes at all.

A packet first holds the sender's uplink for size / rate, then travels for the latency plus the jitter, then holds the
receiver's downlink for size / rate (store and forward). Up- and downlinks are SimPy resources of one place, shared by
all of a party's links and served in order of arrival. A link delivers in the order of sending, as a stream transport
does.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from sim.latency import Latency, uniforms
from sim.loop import Environment, Timer

__all__ = ["Link", "Pipe"]

Then = Callable[[], object]


class Pipe:
    """One direction of a party's access to the network, `rate` bytes a second, one packet after another."""

    def __init__(self, env: Environment, rate: float) -> None:
        if not rate > 0:
            raise ValueError(f"rate(={rate}) must be > 0 bytes/s.")
        self._env = env
        self._queue: deque[tuple[int, Then, Then]] = deque()  # the first one is on its way through
        self._timer: Timer | None = None
        self.rate = rate

    def carry(self, size: int, through: Then, cut: Then) -> None:
        """Call `through` when `size` bytes have gone through, after all before them; `cut` if the pipe is emptied."""
        self._queue.append((size, through, cut))
        if len(self._queue) == 1:
            self._begin(size)

    def empty(self) -> None:
        """Drop the packet that is on its way through and those that wait: the party at this end is gone."""
        if self._timer is not None:
            self._timer.cancel()
        dropped, self._queue = self._queue, deque()
        for _, _, cut in dropped:
            cut()

    def _begin(self, size: int) -> None:
        self._timer = self._env.at(self._env.now + size / self.rate, self._end)

    def _end(self) -> None:
        _, through, _ = self._queue.popleft()
        if self._queue:
            self._begin(self._queue[0][0])
        through()


class Link:
    """One direction between two parties. Delays and losses are drawn from the link's own `generator`."""

    def __init__(
        self,
        env: Environment,
        latency: Latency,
        generator: np.random.Generator,
        *,
        up: Pipe | None = None,
        down: Pipe | None = None,
        jitter: float = 0.0,
        loss: float = 0.0,
    ) -> None:
        if not jitter >= 0:
            raise ValueError(f"jitter(={jitter}) must be >= 0 seconds.")
        if not 0 <= loss < 1:
            raise ValueError(f"loss(={loss}) must lie in [0, 1).")
        self._env = env
        delays, chances, shakes = generator.spawn(3)
        self._delays = latency.stream(delays)
        self._chances: Iterator[float] | None = uniforms(chances) if loss else None
        self._shakes: Iterator[float] | None = uniforms(shakes) if jitter else None
        self._up, self._down = up, down
        self._jitter, self._loss = jitter, loss
        self._last = 0.0

    def send(self, size: int, deliver: Then, lost: Callable[[str], object]) -> None:
        """Carry `size` bytes; then call `deliver`, or `lost` with the reason.

        A packet that the receiver's downlink is emptied of is delivered then: whoever is there sees that nobody is.
        """
        if self._up is None:
            self._travel(size, deliver, lost)
        else:
            self._up.carry(
                size,
                partial(self._travel, size, deliver, lost),
                partial(lost, "the sender was gone before it was sent"),
            )

    def _travel(self, size: int, deliver: Then, lost: Callable[[str], object]) -> None:
        if self._chances is not None and next(self._chances) < self._loss:
            lost("lost on the link")
            return
        arrival = self._env.now + next(self._delays)
        if self._shakes is not None:
            arrival += self._jitter * next(self._shakes)
        self._last = max(arrival, self._last)  # events at equal times keep their order
        down = self._down
        self._env.at(self._last, deliver if down is None else partial(down.carry, size, deliver, deliver))
