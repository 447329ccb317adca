"""Links: the time that a packet takes from one party to another.

A packet first holds the sender's uplink for size / rate, then travels for the latency plus the jitter, then holds the
receiver's downlink for size / rate (store and forward). Up- and downlinks carry one packet at a time, are shared by all
of a party's links and serve in order of arrival. `tacit.sim.transport` handles losses and retransmissions.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from tacit.sim.clock import Environment, Line
from tacit.sim.latency import Latency, uniforms
from tacit.sim.pace import Span
from tacit.sim.streams import child

__all__ = ["SENDER_GONE", "Link", "Passage", "Pipe"]

SENDER_GONE = "the sender was gone before it was sent"

Then = Callable[[], object]


class Pipe(Span):
    """One direction of a party's access to the network: `rate` bytes a second, one packet after another."""

    __slots__ = ("_idle_since", "_queue", "rate")

    def __init__(self, env: Environment, rate: float) -> None:
        if not rate > 0:
            raise ValueError(f"rate(={rate}) must be > 0 bytes/s.")
        super().__init__(env)
        self._queue: deque[tuple[int, Then, Then]] | None = None  # the first one is on its way through
        self.rate = rate
        self._idle_since = 0.0

    @property
    def is_empty(self) -> bool:
        """True if no packet is in the pipe."""
        return not self._queue

    def carry(self, size: int, through: Then, cut: Then, since: float = 0.0) -> None:
        """Call `through` when `size` bytes have passed, after all earlier ones; call `cut` if the pipe is emptied.

        `since`: the seconds for which the bytes have been arriving; while the pipe was idle, part of them already
        passed.
        """
        if self._queue is None:
            self._queue = deque()
        self._queue.append((size, through, cut))
        if len(self._queue) == 1:
            seconds = size / self.rate
            if since:
                seconds = max(0.0, seconds - min(since, self._env.now - self._idle_since))
            self.begin(seconds)

    def empty(self) -> None:
        """Drop the packet in progress and the waiting ones: the party at this end is gone."""
        self.cancel()
        dropped, self._queue = self._queue, None
        self._idle_since = self._env.now
        for _, _, cut in dropped or ():
            cut()

    def state(self) -> list[Any]:
        """The messages in the pipe, in progress and waiting, and how much of the first has been sent."""
        return [list(map(list, self._queue or ())), self._timer, self._due, self._left, self._factor]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`; the timer is not started again."""
        queue, self._timer, self._due, self._left, self._factor = state
        self._queue = deque((size, through, cut) for size, through, cut in queue) or None

    def _end(self) -> None:
        queue = self._queue
        assert queue is not None
        self._timer = None
        _, through, _ = queue.popleft()
        if queue:
            self.begin(queue[0][0] / self.rate)
        else:
            self._queue = None  # an empty one takes 600 bytes
            self._idle_since = self._env.now
        through()


class _Stream:
    """Makes the generator of one of a link's random streams, each time the same."""

    __slots__ = ("_ends", "_number", "_seed")

    def __init__(self, seed: int, ends: tuple[str, ...], number: int) -> None:
        self._seed, self._ends, self._number = seed, ends, number

    def __call__(self) -> np.random.Generator:
        return child(self._seed, "link", *self._ends, number=self._number)


class Passage:
    """The way of `size` bytes over a `link` that loses none; for `deliver` and `cut` see `Link.send`.

    It is one small object, because a message to each of many clients may be on its way at the same time.
    """

    __slots__ = ("cut", "deliver", "link", "size")
    stored = __slots__

    def __init__(self, link: "Link", size: int, deliver: Then, cut: Callable[[str], object]) -> None:
        self.link, self.size, self.deliver, self.cut = link, size, deliver, cut

    def leave(self) -> None:
        """Travel: the bytes are through the sender's uplink."""
        self.link.travel(self.deliver if self.link.down is None else self.arrive)

    def lose(self) -> None:
        """Tell that the sender went down before the bytes were through."""
        self.cut(SENDER_GONE)

    def arrive(self) -> None:
        """Enter the receiver's downlink."""
        down = self.link.down
        assert down is not None
        down.carry(self.size, self.deliver, self.deliver)


class Link:
    """One direction between two parties. Delays and losses are drawn from streams of (`seed`, "link", `ends`).

    An `ordered` link delivers in the order of sending, as one connection of a stream transport does. `draws` is the
    number of delays drawn so far.
    """

    __slots__ = (
        "_answers", "_answers_drawn", "_chances", "_chances_drawn", "_delays", "_env", "_flight", "_jitter",
        "_last", "_loss", "_ordered", "_shakes", "_up", "down", "draws", "fixed", "flight",
    )  # fmt: skip

    def __init__(
        self,
        env: Environment,
        latency: Latency,
        seed: int,
        ends: tuple[str, ...],
        *,
        up: Pipe | None = None,
        down: Pipe | None = None,
        jitter: float = 0.0,
        loss: float = 0.0,
        ordered: bool = True,
    ) -> None:
        if not jitter >= 0:
            raise ValueError(f"jitter(={jitter}) must be >= 0 seconds.")
        if not 0 <= loss < 1:
            raise ValueError(f"loss(={loss}) must lie in [0, 1).")
        self._env = env
        self._flight: Line | None = None
        fixed = latency.seconds
        self._delays = latency.stream(_Stream(seed, ends, 0)) if fixed is None else repeat(fixed)
        self._chances: Iterator[float] | None = uniforms(_Stream(seed, ends, 1)) if loss else None
        self._answers: Iterator[float] | None = uniforms(_Stream(seed, ends, 3)) if loss else None
        self._shakes: Iterator[float] | None = uniforms(_Stream(seed, ends, 2)) if jitter else None
        self.fixed = None if jitter else fixed  # what `draw` always returns
        self.flight = fixed or 0.0  # the latency of the latest packet, with what was added to it
        self._up, self.down = up, down
        self._jitter, self._loss, self._ordered = jitter, loss, ordered
        self._last = 0.0
        self.draws = self._chances_drawn = self._answers_drawn = 0

    def state(self) -> tuple[list[int], float]:
        """The numbers of random draws so far, and the arrival time of the latest packet."""
        return [self.draws, self._chances_drawn, self._answers_drawn], self._last

    def go_on(self, draws: int) -> None:
        """Continue after `draws` delays. Only for an unused link that loses nothing."""
        self.restore(([draws, 0, 0], 0.0))

    def restore(self, state: tuple[list[int], float]) -> None:
        """Continue from a `state`. Only for an unused link."""
        travelled, chances, answers = state[0]
        self.draws, self._chances_drawn, self._answers_drawn, self._last = travelled, chances, answers, state[1]
        for stream, count in (
            (self._delays, travelled), (self._shakes, travelled), (self._chances, chances), (self._answers, answers)
        ):  # fmt: skip
            if stream is not None:
                next(islice(stream, count, count), None)

    def send(self, size: int, deliver: Then, cut: Callable[[str], object]) -> None:
        """Carry `size` bytes, losing none; then call `deliver`, or `cut` with the reason if the sender goes before.

        When the receiver's downlink is emptied, its packets are delivered immediately, so that the network sees that
        the receiver is gone.
        """
        passage = Passage(self, size, deliver, cut)
        if self._up is None:
            passage.leave()
        else:
            self._up.carry(size, passage.leave, passage.lose)

    def depart(self, size: int, then: Then, cut: Then) -> None:
        """Send `size` bytes through the sender's uplink; call `cut` if the sender goes down before they are through."""
        if self._up is None:
            then()
        else:
            self._up.carry(size, then, cut)

    def travel(self, then: Then, delay: float = 0.0) -> None:
        """Call `then` after the latency, the jitter and a `delay` in seconds."""
        arrival = self._env.now + next(self._delays) + delay
        self.draws += 1
        if self._shakes is not None:
            arrival += self._jitter * next(self._shakes)
        if self._ordered:  # events at equal times keep their order
            if arrival < self._last:
                arrival = self._last
            self._last = arrival
        self.flight = arrival - self._env.now
        if self._flight is None:
            self._flight = Line(self._env)
        self._flight.at(arrival, then)

    def draw(self) -> float:
        """Draw the latency and jitter of the next packet, in seconds."""
        self.draws += 1
        seconds = next(self._delays)
        self.flight = seconds if self._shakes is None else seconds + self._jitter * next(self._shakes)
        return self.flight

    def go(self, seconds: float, then: Then) -> None:
        """Call `then` after `seconds`, but not before earlier packets have arrived."""
        arrival = self._env.now + seconds
        if arrival < self._last:
            arrival = self._last
        self._last = arrival
        self._env.at(arrival, then)

    def flow_in(self, size: int, then: Then) -> None:
        """Receive `size` bytes through the downlink, of which the last has arrived; then call `then`.

        The first byte arrived earlier, by the time that the bytes took through the sender's uplink.
        """
        if self.down is None:
            then()
        else:
            self.down.carry(size, then, then, 0.0 if self._up is None else size / self._up.rate)

    @property
    def pace(self) -> float:
        """The seconds a byte through the slower one of both pipes."""
        return max((1 / pipe.rate for pipe in (self._up, self.down) if pipe is not None), default=0.0)

    def come_in(self, size: int, then: Then) -> None:
        """Receive `size` bytes through the downlink, or as many as get through; then call `then`."""
        if self.down is None:
            then()
        else:
            self.down.carry(size, then, then)

    def loses(self) -> bool:
        """Draw the loss of the packet that now enters the link: true if it is lost."""
        self._chances_drawn += 1
        return self._chances is not None and next(self._chances) < self._loss

    def loses_answer(self) -> bool:
        """Draw the loss of the acknowledgement of a packet: true if it is lost on its way back."""
        self._answers_drawn += 1
        return self._answers is not None and next(self._answers) < self._loss

    @property
    def is_idle(self) -> bool:
        """True if everything that was sent has arrived, so that the link can be rebuilt from its draws alone."""
        pipes = (self._up, self.down)
        return self._last <= self._env.now and all(pipe is None or pipe.is_empty for pipe in pipes)

    def renew(self) -> None:
        """Allow later packets to overtake packets in flight, which belong to an older connection."""
        self._last = 0.0
