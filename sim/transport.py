"""Hops over links that lose or duplicate packets: a reliable transport, or datagrams.

*Reliable*, like TCP: a copy is sent again if it or its acknowledgement is lost, after a timeout that doubles up to 60 s
(RFC 6298). The receiver removes duplicates and delivers in order, so a message waits for those before it.
Acknowledgements are TCP headers, which are not counted; partitions and losses affect them too. A connection ends with
either end's incarnation, or after 15 retries, as in Linux (tcp_retries2). Then its undelivered packets are lost, and
later packets use a new connection. *Datagram*, like DTLS over UDP: lost packets are not sent again, the order is not
kept, duplicates are removed.

A network without losses and faults of links needs no transport: everything arrives in order.
"""

from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from tacit.sim.clock import Environment, Timer
from tacit.sim.conditions import Barrier
from tacit.sim.link import Link, Passage

__all__ = ["BEHIND", "BY_FAULT", "CUT", "LIMIT", "ON_LINK", "SECOND_COPY", "Carrier", "Copy", "Transport"]

_LONGEST = 60.0  # seconds between two copies
LIMIT = 15  # copies sent again in vain before the connection is given up

CUT = "cut off by a partition"
BEHIND = "an earlier message of its connection never came"
SECOND_COPY, BY_FAULT, ON_LINK = "a second copy", "lost by a fault", "lost on the link"
"""The reasons for which a copy is lost or dropped, as its event states them in `note`."""


class Copy(Protocol):
    """One copy of a packet on one hop.

    `size` in bytes; `delay`: seconds that a fault adds to its travel; `doomed`: a fault loses it on the link.
    """

    delay: float
    doomed: bool

    @property
    def size(self) -> int: ...


C = TypeVar("C", bound=Copy)


class Carrier(Protocol[C]):
    """The network around a transport."""

    def barrier(self, sender: str, receiver: str) -> Barrier | None:
        """The first barrier that blocks messages between the two parties, or None."""

    def is_cut(self, sender: str, receiver: str) -> bool:
        """Return true if a partition separates the two parties."""

    def again(self, copy: C, tries: int) -> C:
        """Make copy number `tries` of those sent again on the same hop; it is counted and traced as sent."""

    def resend(self, copy: C, why: str) -> None:
        """Trace that a part of a copy was lost and is sent again by its connection."""

    def is_gone(self, copy: C) -> bool:
        """Return true if the receiver at the end of the hop is down or another incarnation than the copy was sent
        to."""

    def carried(self, copy: C) -> None:
        """Note that the last byte of a copy is through its link; it may still wait for earlier ones."""

    def arrive(self, copy: C) -> None:
        """Receive a copy at the end of its hop."""

    def end(self, kind: str, copy: C, why: str) -> None:
        """Trace the end of a copy ("lose" or "drop")."""


class _Item:
    """One packet with all its copies. `flying` counts the copies in flight."""

    __slots__ = stored = ("connection", "departed", "flying", "has_come", "number", "tries")

    def __init__(self, connection: "_Connection[Any]") -> None:
        self.connection = connection
        self.number = connection.sent
        self.departed = 0.0
        self.flying = self.tries = 0
        self.has_come = False


class _Crossing(Passage, Generic[C]):
    """The way of one `copy` of an `item` over the link of a `transport`, on which it may be lost."""

    __slots__ = ("copy", "item", "transport")
    is_quiet = False
    stored = (*Passage.stored, *__slots__)

    def __init__(self, transport: "Transport[C]", link: Link, item: _Item, copy: C) -> None:
        super().__init__(
            link, copy.size, partial(transport.arrive, item, copy), partial(transport.lose, item, copy), copy.delay
        )
        self.transport, self.item, self.copy = transport, item, copy

    @property
    def flows(self) -> bool:
        """True if the bytes reach the receiver as they leave: nothing is known yet that loses them before."""
        return not self.copy.doomed and not self.transport.is_cut

    def leave(self) -> None:
        """Travel, unless the copy is lost or a barrier keeps it: the last byte is through the sender's uplink."""
        self.item.departed = self.link.now
        barrier = self.transport.barrier
        if barrier is not None and barrier.holds:
            self.vanish()
            barrier.kept.append(self.leave)
        elif barrier is not None:
            self._vanish(CUT)
        elif self.copy.doomed:
            self._vanish(BY_FAULT)
        elif self.link.loses():
            self._vanish(ON_LINK)
        else:
            super().leave()

    def arrive(self) -> None:
        """Let the last byte enter the receiver's downlink, unless the ends are cut off by then."""
        if self.transport.is_cut:
            self._vanish(CUT)
        else:
            super().arrive()

    def _vanish(self, why: str) -> None:
        self.vanish()
        self.cut(why)


class _Connection(Generic[C]):
    """One incarnation of each end: the number `sent`, the number `due` next at the receiver, and early arrivals.

    `timers` belong to items to be sent again. From the number `broken` on nothing is delivered any more.
    """

    __slots__ = stored = ("broken", "due", "early", "open", "sent", "timers")

    def __init__(self) -> None:
        self.sent = self.due = 0
        self.early: dict[int, C] = {}
        self.timers: dict[_Item, Timer] = {}
        self.open = True
        self.broken: int | None = None


class Transport(Generic[C]):
    """The hop from the party `source` to the party `target` over `link`; with a `timeout` in seconds it is reliable."""

    def __init__(
        self, env: Environment, link: Link, carrier: Carrier[C], source: str, target: str, timeout: float | None
    ) -> None:
        self._env, self._link, self._carrier = env, link, carrier
        self._source, self._target, self._timeout = source, target, timeout
        self._connection: _Connection[C] = _Connection()

    def send(self, *copies: C) -> None:
        """Send a packet in one or more `copies`."""
        item = _Item(self._connection)
        self._connection.sent += 1
        item.flying = len(copies)  # all of them, before the first can get lost
        for copy in copies:
            self._depart(item, copy)

    def close(self) -> None:
        """Close the connection, because one end is gone: nothing is sent again, and later packets use a new
        connection."""
        connection = self._connection
        self._connection = _Connection()
        self._link.renew()
        connection.open = False
        for item in list(connection.timers):
            connection.timers.pop(item).cancel()
            self._check(item)

    def state(self) -> "_Connection[C]":
        """The state of the connection."""
        return self._connection

    def restore(self, connection: "_Connection[C]") -> None:
        """Restore a `connection`; its timers are not started again."""
        self._connection = connection

    # One copy's way

    def _depart(self, item: _Item, copy: C) -> None:
        self._link.carry(_Crossing(self, self._link, item, copy))

    @property
    def barrier(self) -> Barrier | None:
        """The first barrier that blocks messages on this hop, or None."""
        return self._carrier.barrier(self._source, self._target)

    @property
    def is_cut(self) -> bool:
        """True if a partition separates the two ends of the hop."""
        return self._carrier.is_cut(self._source, self._target)

    def arrive(self, item: _Item, copy: C) -> None:
        """Receive a copy whose last byte is through the receiver's downlink."""
        connection = item.connection
        item.flying -= 1
        self._carrier.carried(copy)
        if self._carrier.is_cut(self._target, self._source) or self._link.loses_answer():
            self._repeat(item, copy)
        elif (timer := connection.timers.pop(item, None)) is not None:
            timer.cancel()
        if item.has_come:
            self._carrier.end("drop", copy, SECOND_COPY)
            return
        item.has_come = True
        if self._timeout is None:
            self._carrier.arrive(copy)
        elif connection.broken is not None and item.number > connection.broken:
            self._carrier.end("drop", copy, BEHIND)
        else:
            connection.early[item.number] = copy
            while (first := connection.early.pop(connection.due, None)) is not None:
                connection.due += 1
                self._carrier.arrive(first)

    # Once more

    def lose(self, item: _Item, copy: C, why: str) -> None:
        """End a copy that was lost, and send the packet again if the transport does."""
        item.flying -= 1
        self._carrier.end("lose", copy, why)
        self._repeat(item, copy)
        self._check(item)

    def _repeat(self, item: _Item, copy: C) -> None:
        connection = item.connection
        if self._timeout is None or not connection.open or item in connection.timers or item.tries == LIMIT:
            return
        if self._carrier.is_gone(copy):
            return
        wait = min(self._timeout * 2**item.tries, max(self._timeout, _LONGEST))
        item.tries += 1
        connection.timers[item] = self._env.at(item.departed + wait, partial(self._again, item, copy))

    def _again(self, item: _Item, copy: C) -> None:
        del item.connection.timers[item]
        item.flying += 1
        self._depart(item, self._carrier.again(copy, item.tries))

    def _check(self, item: _Item) -> None:
        """Close the connection if `item` has not arrived and never will."""
        connection = item.connection
        if self._timeout is None or item.has_come or item.flying or item in connection.timers:
            return
        connection.broken = item.number if connection.broken is None else min(connection.broken, item.number)
        for number in sorted(number for number in connection.early if number > connection.broken):
            self._carrier.end("drop", connection.early.pop(number), BEHIND)
        if connection is self._connection:
            self.close()
