"""A party's access to the network."""

import math
from collections.abc import Callable
from typing import Any

from tacit.sim.access import Uplink
from tacit.sim.clock import Environment
from tacit.sim.downlink import Downlink
from tacit.sim.handling import Handler, Handling
from tacit.sim.link import Link
from tacit.sim.machine import Host
from tacit.sim.wire import Packet

__all__ = ["Endpoint"]

Name = tuple[str, ...]
End = Link | Callable[[], object]
Ends = Link | dict[Name, End] | None
"""What a party's going down concerns, by name: nothing, one link alone, or several links and calls."""


def _with(ends: Ends, name: Name, end: End) -> Ends:
    if ends is None:
        return end if isinstance(end, Link) else {name: end}
    several: dict[Name, End] = {ends.ends: ends} if isinstance(ends, Link) else ends
    several[name] = end
    return several


def _without(ends: Ends, name: Name) -> Ends:
    if isinstance(ends, dict):
        del ends[name]
    return ends if isinstance(ends, dict) and ends else None


def _links(ends: Ends) -> tuple[Link, ...]:
    if isinstance(ends, dict):
        return tuple(end for end in ends.values() if isinstance(end, Link))
    return () if ends is None else (ends,)


def _end_all(ends: Ends) -> None:
    for end in ends.values() if isinstance(ends, dict) else _links(ends):
        if isinstance(end, Link):
            end.renew()
        else:
            end()


class Endpoint:
    """A party's access to the network, with `up` and `down` in bytes a second (0: unlimited).

    `receive` is called with the packets that arrive. `incarnation` grows by one each time the party comes back. `alive`
    is false after a crash until then, and after the party has left. While the party is `paused`, `arrivals` and `sends`
    keep the packets to process when it resumes. With a `handling`, each message takes time on the cores of `host`
    before it leaves and before it is received; `stretched` is called with the seconds that this takes longer while the
    party is slow, and `handles` is true. Unused parts are created on demand, because there may be many idle endpoints.
    """

    __slots__ = (
        "_arrivals", "_down", "_env", "_factor", "_handled", "_handler", "_incoming", "_outgoing", "_rates", "_sends",
        "_up", "alive", "handles", "incarnation", "name", "paused", "receive",
    )  # fmt: skip

    def __init__(
        self, env: Environment, name: str, receive: Callable[[Packet], None], up: float = 0.0, down: float = 0.0,
        handling: Handling | None = None, host: Host | None = None, stretched: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        if handling is not None and host is None:
            raise ValueError(f"{name} has a handling and no host on which it is done.")
        self.name = name
        self.receive = receive
        self.incarnation = 1
        self.alive = True
        self.paused = False
        self._env, self._rates, self._factor = env, (up, down), 1.0
        self._up: Uplink | None = None
        self._down: Downlink | None = None
        self._handled = None if handling is None or host is None else (handling, host, stretched)
        self._handler: Handler | None = None
        self._arrivals: list[Callable[[], object]] | None = None
        self._sends: list[Callable[[], object]] | None = None
        self._outgoing: Ends = None
        self._incoming: Ends = None
        self.handles = self._handled is not None

    @property
    def arrivals(self) -> list[Callable[[], object]]:
        """What to do with the packets that arrived during the pause, in order."""
        if self._arrivals is None:
            self._arrivals = []
        return self._arrivals

    @property
    def sends(self) -> list[Callable[[], object]]:
        """The sendings that wait for the end of the pause, in order."""
        if self._sends is None:
            self._sends = []
        return self._sends

    def share(self, other: "Endpoint") -> None:
        """Use the rates of the `other` endpoint if they are equal."""
        if self._rates == other._rates:
            self._rates = other._rates

    def add_outgoing(self, name: Name, end: End) -> None:
        """Add a link that is renewed when the party goes down, or a call that is made then."""
        self._outgoing = _with(self._outgoing, name, end)

    def add_incoming(self, name: Name, end: End) -> None:
        """Add a link that is renewed when the party stops receiving, or a call that is made then."""
        self._incoming = _with(self._incoming, name, end)

    def remove_outgoing(self, name: Name) -> None:
        """Undo `add_outgoing`."""
        self._outgoing = _without(self._outgoing, name)

    def remove_incoming(self, name: Name) -> None:
        """Undo `add_incoming`."""
        self._incoming = _without(self._incoming, name)

    @property
    def links_out(self) -> tuple[Link, ...]:
        """The links of `add_outgoing`."""
        return _links(self._outgoing)

    @property
    def links_in(self) -> tuple[Link, ...]:
        """The links of `add_incoming`."""
        return _links(self._incoming)

    @property
    def up(self) -> Uplink | None:
        """The uplink; None if it is unlimited."""
        if self._up is None and self._rates[0]:
            self._up = Uplink(self._env, self._rates[0], self._factor)
        return self._up

    @property
    def down(self) -> Downlink | None:
        """The downlink; None if it is unlimited."""
        if self._down is None and self._rates[1]:
            self._down = Downlink(self._env, self._rates[1], self._factor)
        return self._down

    @property
    def access(self) -> tuple[Uplink | None, Downlink | None]:
        """The uplink and the downlink that exist so far; None for each that does not."""
        return self._up, self._down

    @property
    def handler(self) -> Handler | None:
        """The handler of messages before they are sent or received; None if handling takes no time."""
        if self._handler is None and self._handled is not None:
            handling, host, stretched = self._handled
            slowness = math.inf if self.paused else self._factor
            self._handler = Handler(self._env, handling, host, slowness, stretched)
        return self._handler

    def fall(self) -> None:
        """Go down. Packets in the party's own uplink and downlink are lost."""
        self._stop()
        _end_all(self._outgoing)
        if self._up is not None:
            self._up.empty()
        if self._handler is not None:
            self._handler.empty()

    def leave(self) -> None:
        """Leave permanently. Packets that were sent before still go out."""
        self._stop()

    def rejoin(self) -> None:
        """Come back as the next incarnation."""
        self.incarnation += 1
        self.alive = True

    def pause(self) -> None:
        """Pause: nothing is received or sent."""
        self.paused = True
        if self._handler is not None:
            self._handler.slow(math.inf)

    def resume(self) -> None:
        """Process the packets that arrived during the pause, in order, and then send those that waited."""
        self.paused = False
        if self._handler is not None:
            self._handler.slow(self._factor)
        for calls in (self.arrivals, self.sends):
            waiting = calls[:]
            calls.clear()
            for call in waiting:
                call()

    def stretch(self, factor: float) -> None:
        """Make sending and receiving take `factor` times as long as at full rate from now on."""
        self._factor = factor
        for one in self.access:
            if one is not None:
                one.stretch(factor)
        if self._handler is not None and not self.paused:
            self._handler.slow(factor)

    def let_go(self) -> None:
        """Free the idle access and the handler of a party without links; they are made again on demand."""
        self._up = self._down = None
        if self._handler is not None and self._handler.is_empty:
            self._handler = None
        self._arrivals, self._sends = self._arrivals or None, self._sends or None

    def state(self) -> list[Any]:
        """The state: incarnation, liveness, held-back packets, and what is in its uplink and downlink."""
        parts = [None if part is None else part.state() for part in (*self.access, self._handler)]
        return [self.incarnation, self.alive, self.paused, self.arrivals, self.sends, self._factor, *parts]

    @property
    def is_new(self) -> bool:
        """True if the state is that of an unused endpoint."""
        if not self.alive or self.paused or self.incarnation != 1 or self._factor != 1.0:
            return False
        if self._arrivals or self._sends:
            return False
        if not (self._handler is None or self._handler.is_empty) or not (self._up is None or self._up.is_empty):
            return False
        return self._down is None or self._down.is_new

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`."""
        self.incarnation, self.alive, self.paused, self._arrivals, self._sends, self._factor, up, down, handler = state
        for part, own in ((self.up, up), (self.down, down), (self.handler, handler)):
            if part is not None and own is not None:
                part.restore(own)

    def _stop(self) -> None:
        self.alive = False
        _end_all(self._incoming)
        self.sends.clear()
        self.resume()  # the handlers of what arrived see that nobody is there
        if self._down is not None:
            self._down.empty()
