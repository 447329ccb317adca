"""Links: the time that a packet takes from one party to another.

Each byte leaves through the sender's uplink, travels for the latency plus the jitter of its packet, and comes in
through the receiver's downlink, while later bytes of the packet still leave: see `tacit.sim.access`, which also says
how links share the access of a party. `tacit.sim.transport` handles losses and retransmissions.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from tacit.sim.access import Access, Uplink, _Leaving
from tacit.sim.clock import Environment, Line, use_compiled
from tacit.sim.course import Course, Rate, Source
from tacit.sim.downlink import Downlink
from tacit.sim.latency import Latency, uniforms
from tacit.sim.streams import child, for_once

__all__ = ["PACKET", "SENDER_GONE", "Chunk", "DrawCounts", "Link", "Passage"]

PACKET = 1460
"""The most bytes of a packet that arrives as a whole, because nothing smaller is sent on the wire."""

SENDER_GONE = "the sender was gone before it was sent"

Then = Callable[[], object]


class _Stream:
    """Makes the generator of one of a link's random streams, each time the same."""

    __slots__ = ("_ends", "_number", "_seed")

    def __init__(self, seed: int, ends: tuple[str, ...], number: int) -> None:
        self._seed, self._ends, self._number = seed, ends, number

    def __call__(self) -> np.random.Generator:
        return child(self._seed, "link", *self._ends, number=self._number)

    def for_once(self) -> np.random.Generator:
        """The generator for the next draw only."""
        return for_once(self._seed, "link", *self._ends, number=self._number)


class Passage(Course):
    """The way of `size` bytes over a `link` that loses none; for `deliver` and `cut` see `Link.send`.

    It is one small object, because a message to each of many clients may be on its way at the same time. `flight` is
    its latency in all, to which a fault may add a `delay`, in seconds.
    """

    __slots__ = ("cut", "delay", "deliver", "link")
    is_quiet = True
    stored: tuple[str, ...] = ("began", "cut", "delay", "deliver", "end", "flight", "history", "left", "link", "size")

    def __init__(
        self, link: "Link", size: int, deliver: Then, cut: Callable[[str], object], delay: float = 0.0
    ) -> None:
        self.size, self.began, self.flight = size, 0.0, 0.0  # as in a new course, which takes longer to make
        self.left = self.end = math.inf
        self.rates = self.arrival = None
        self.link, self.deliver, self.cut, self.delay = link, deliver, cut, delay

    @property
    def cap(self) -> float:
        """The rate of the receiver's downlink in bytes a second."""
        return math.inf if self.link.down is None else self.link.down.rate

    @property
    def flows(self) -> bool:
        """True if the bytes reach the receiver as they leave."""
        return True

    def begin(self, source: Source = math.inf) -> None:
        """Draw the latency: the first byte enters the sender's uplink, at the rate of `source`."""
        link = self.link
        self.began = link._env._now
        fixed = link.fixed
        if fixed is None:
            self.flight = link.draw() + self.delay
        else:  # as `draw`
            link.draws += 1
            link.flight = fixed
            self.flight = fixed + self.delay
        if self.size > PACKET and link.down is not None and link.up is not None and self.flows:
            self.rates = source
            if isinstance(source, Rate):
                source.is_used = True
            link.down.expect(self)

    def leave(self) -> None:
        """Travel: the last byte is through the sender's uplink."""
        link = self.link
        end = link.land(self.flight, self)
        if self.rates is None:
            self.left = link._env._now
        else:
            self.stop(link._env._now, end)

    def lose(self) -> None:
        """Tell that the sender went down before the bytes were through. Those that have left still arrive."""
        now = self.link.now
        self.stop(now, now + self.flight, is_cut=True)
        self.cut(SENDER_GONE)

    def vanish(self) -> None:
        """Let no more bytes arrive: they are lost on their way."""
        if self.rates is not None and self.link.down is not None:
            self.link.down.forget(self)
            self.rates = None

    def __call__(self) -> None:
        self.arrive()  # a bound method would take as much memory as half of the passage

    def arrive(self) -> None:
        """Let the last byte enter the receiver's downlink."""
        down = self.link.down
        if down is None:
            self.through()
        elif self.rates is None:
            down.take_one(self.size, self.left - self.began, self.through)
        else:
            down.close(self, self.through)

    def through(self) -> None:
        """Deliver: the last byte is through the receiver's downlink."""
        self.link.flight = self.flight
        self.deliver()


class Chunk:
    """A part of a stream in the sender's uplink. Its window bounds the rate, and no downlink."""

    __slots__ = stored = ("leave", "link", "lose", "size")
    cap = math.inf
    is_quiet = False

    def __init__(self, link: "Link", size: int, leave: Then, lose: Then) -> None:
        self.link, self.size, self.leave, self.lose = link, size, leave, lose

    def begin(self, source: Source) -> None:
        """Do nothing: the latency of a stream is drawn for each of its messages."""

    def turn(self, now: float, source: Source) -> None:
        """Do nothing: a chunk arrives as a whole."""

    def rejoin(self, rate: Rate) -> None:
        """Do nothing: a chunk arrives as a whole."""


class Link:
    """One direction between two parties. Delays and losses are drawn from streams of (`seed`, "link", `ends`).

    An `ordered` link delivers in the order of sending, as one connection of a stream transport does. `draws` is the
    number of delays drawn so far. `row` is where its user has counted its latest packet.
    """

    __slots__ = (
        "_answers", "_answers_drawn", "_begun", "_chances", "_chances_drawn", "_env", "_flight", "_jitter",
        "_last", "_latency", "_loss", "_ordered", "_seed", "_shakes", "_stream", "down", "draws", "ends", "fixed",
        "flight", "row", "up",
    )  # fmt: skip

    def __init__(
        self,
        env: Environment,
        latency: Latency,
        seed: int,
        ends: tuple[str, ...],
        *,
        up: Uplink | None = None,
        down: Downlink | None = None,
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
        self.ends, self._seed, self._latency = ends, seed, latency
        self._stream: Iterator[float] | None = None  # made for the second packet, as many links carry only one
        self._chances: Iterator[float] | None = uniforms(_Stream(seed, ends, 1)) if loss else None
        self._answers: Iterator[float] | None = uniforms(_Stream(seed, ends, 3)) if loss else None
        self._shakes: Iterator[float] | None = uniforms(_Stream(seed, ends, 2)) if jitter else None
        self.fixed = None if jitter else fixed  # what `draw` always returns
        self.flight = fixed or 0.0  # the latency of the latest packet, with what was added to it
        self.up, self.down = up, down
        self.row: Any = None
        self._jitter, self._loss, self._ordered = jitter, loss, ordered
        self._last = 0.0
        self.draws = self._begun = self._chances_drawn = self._answers_drawn = 0

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
        self._begun = travelled
        for stream, count in ((self._shakes, travelled), (self._chances, chances), (self._answers, answers)):
            if stream is not None:
                next(islice(stream, count, count), None)

    def send(self, size: int, deliver: Then, cut: Callable[[str], object]) -> None:
        """Carry `size` bytes, losing none; then call `deliver`, or `cut` with the reason if the sender goes before.

        When the receiver's downlink is emptied, its packets are delivered immediately, so that the network sees that
        the receiver is gone.
        """
        if self.up is None and self.down is None and self.fixed is not None:
            self.draws += 1
            self.land(self.fixed, deliver)
        elif (up := self.up) is None:
            self.carry(Passage(self, size, deliver, cut))
        else:
            up.carry(Passage(self, size, deliver, cut))

    def carry(self, passage: Passage) -> None:
        """Send the bytes of a passage through the sender's uplink, after all earlier ones."""
        if self.up is None:
            passage.begin()
            passage.leave()
        else:
            self.up.carry(passage)

    @property
    def now(self) -> float:
        """The virtual time."""
        return self._env.now

    def draw(self) -> float:
        """Draw the latency and jitter of the next packet, in seconds."""
        self.draws += 1
        if self.fixed is not None:
            self.flight = self.fixed
            return self.fixed
        seconds = self._late() if self._stream is None else next(self._stream)
        self.flight = seconds if self._shakes is None else seconds + self._jitter * next(self._shakes)
        return self.flight

    def _late(self) -> float:
        """Draw the latency of packet number `draws` where no stream is kept yet; the second one is drawn from it."""
        before = self.draws - 1
        stream = _Stream(self._seed, self.ends, 0)
        if self._latency.seconds is not None:
            self._stream = repeat(self._latency.seconds)
        elif before == self._begun and (first := self._latency.early(stream.for_once, before)) is not None:
            return first
        else:
            self._stream = self._latency.stream(stream)
            next(islice(self._stream, before, before), None)
        return next(self._stream)

    def land(self, seconds: float, then: Then) -> float:
        """Call `then` in `seconds`; on an ordered link not before earlier packets have arrived. Returns the time."""
        now = self._env._now
        arrival: float = now + seconds
        if self._ordered:  # events at equal times keep their order
            last = self._last
            if arrival < last:
                arrival = last
            self._last = arrival
            if self._flight is None and last <= now:  # nothing else is on its way
                self._env.put(arrival, then)
                return arrival
        if (flight := self._flight) is None:
            flight = self._flight = Line(self._env)
        flight.at(arrival, then)
        return arrival

    @property
    def pace(self) -> float:
        """The seconds a byte through the slower one of both ends."""
        return max((1 / one.rate for one in (self.up, self.down) if one is not None), default=0.0)

    def depart(self, size: int, then: Then, cut: Then) -> None:
        """Send a chunk of a stream through the sender's uplink; call `cut` if the sender goes down meanwhile."""
        if self.up is None:
            then()
        else:
            self.up.carry(Chunk(self, size, then, cut))

    def take(self, size: int, lasted: float, then: Then) -> None:
        """Receive a chunk that took `lasted` seconds to leave through the downlink; then call `then`."""
        if self.down is None:
            then()
        else:
            self.down.take(size, lasted, then)

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
        ends = (self.up, self.down)
        return self._last <= self._env.now and all(one is None or one.is_empty for one in ends)

    def renew(self) -> None:
        """Allow later packets to overtake packets in flight, which belong to an older connection."""
        self._last = 0.0


class DrawCounts:
    """The numbers of draws of links by their ends. Those of the `hub` are found by the other end alone: among many
    clients the pairs of names would take most of the memory."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self._from_hub: dict[str, int] = {}
        self._to_hub: dict[str, int] = {}
        self._others: dict[tuple[str, str], int] = {}

    def keep(self, near: str, far: str, draws: int) -> None:
        """Store the number of draws of a link."""
        if near == self._hub:
            self._from_hub[far] = draws
        elif far == self._hub:
            self._to_hub[near] = draws
        else:
            self._others[near, far] = draws

    def of(self, near: str, far: str) -> int:
        """The number of draws of a link; 0 if it is unknown."""
        if near == self._hub:
            return self._from_hub.get(far, 0)
        if far == self._hub:
            return self._to_hub.get(near, 0)
        return self._others.get((near, far), 0)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        hub = self._hub
        yield from ((hub, far, draws) for far, draws in self._from_hub.items())
        yield from ((near, hub, draws) for near, draws in self._to_hub.items())
        yield from ((*ends, draws) for ends, draws in self._others.items())


use_compiled("link", Access, Downlink, Uplink, _Leaving, Rate, Link, Passage)
