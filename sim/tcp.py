"""A hop over TCP: a stream each way between two parties, whose window the network's acknowledgements open.

The first message between two parties opens a connection: a round trip for SYN, another for TLS 1.3, both of whose ends
show certificates (`tacit.sim.tcp_window.FLIGHTS`). Messages go one after the other, in chunks of at most half the
window; a chunk goes through the sender's uplink and the receiver's downlink, which all connections of a party share,
chunk by chunk in order of arrival: so they get equal shares. The first byte of a chunk reaches the receiver before the
last one has left. As its acknowledgement returns, the window grows (slow start, then CUBIC), and shrinks again while
nothing is sent (RFC 2861, as in Linux). A message is delivered once all before it are.

A segment that the link loses is sent again: after a round trip where three follow it, after two as a tail loss probe
(RFC 8985), or after the timeout where it is alone on its way; acknowledgements take no bandwidth, and the next one
replaces one that is lost. Behind a partition, a chunk is sent again after timeouts that double up to 120 s (RFC 6298),
and after 15 of them the connection is given up. A fault that loses a message, or a partition, ends the copy as lost;
the retransmission is counted as another copy.

It does not model queues that overflow, delays by other traffic's queues beyond its chunks, or pacing.
"""

import math
from functools import partial
from typing import Generic, TypeVar

from tacit.sim.clock import Environment
from tacit.sim.link import SENDER_GONE, Link
from tacit.sim.tcp_flow import HELD, Flow, Sending
from tacit.sim.tcp_window import FIRST, FLIGHTS, HEADERS, LATE, SEGMENT, TRAIN
from tacit.sim.transport import BEHIND, SECOND_COPY, Carrier, Copy

__all__ = ["TcpStream"]

UNSENT = "its connection ended before all of it was sent"

_LAST = len(FLIGHTS) - 1

C = TypeVar("C", bound=Copy)


class TcpStream(Generic[C]):
    """A stream from the party `source` to `target`, over a `link` that loses nothing. `back` is the opposite stream."""

    back: "TcpStream[C]"
    most_at_once = FIRST // 2  # segments of a message that is sent in one chunk

    def __init__(self, env: Environment, carrier: Carrier[C], link: Link, source: str, target: str) -> None:
        self._env, self._carrier, self._link = env, carrier, link
        self.opened = 0  # connections that this end opened
        self._source, self._target = source, target
        self._flow: Flow[C] = Flow()
        self._pace = link.pace  # seconds a byte
        self._fixed = link.fixed
        each = link.pace * (SEGMENT + HEADERS)
        self._each = each if each <= TRAIN else each / LATE  # seconds a segment, as slow start sees them

    def send(self, *copies: C) -> None:
        """Send a packet in one or more `copies`."""
        flow = self._flow
        if flow.open and not flow.unsent and self._is_short(flow, copies[0]):
            return
        for place, copy in enumerate(copies):
            item = Sending(copy, flow.count, place > 0)
            flow.count += 1
            flow.items.append(item)
            flow.unsent.append(item)
        if flow.open:
            self._flush(flow)
        elif not flow.opening:
            other = self.back._flow
            flow.opening = other.opening = True
            self.opened += 1
            self._fly(flow, other, 0, 0)

    def _is_short(self, flow: Flow[C], copy: C) -> bool:
        """Send `copy` if it fits in one chunk now; return true if it was sent."""
        size, now = copy.size, self._env.now
        count = -(-size // SEGMENT)
        if count > self.most_at_once:
            return False
        self._settle(flow, now)
        flying = flow.flying + count
        if flying > flow.window.size or flying > flow.buffer:
            return False
        flow.flying = flying
        if flying > flow.most:
            flow.most = flying
        flow.last = now
        link, latency = self._link, self._fixed
        if latency is None:
            latency = link.draw()
        size += HEADERS * count
        landed = partial(self._land, flow, copy, count, latency, now)
        link.depart(
            size,
            partial(link.go, latency, partial(link.flow_in, size, landed)),
            partial(self._carrier.end, "lose", copy, SENDER_GONE),
        )
        return True

    def _land(self, flow: Flow[C], copy: C, count: int, latency: float, sent: float) -> None:
        """Deliver a short message at its receiver."""
        now = self._env.now
        flow.acked.append((now + latency, count))
        flow.latency, flow.trip = latency, now - sent + latency
        if flow.unsent:
            self._flush(flow)
        self._carrier.arrive(copy)

    @property
    def is_busy(self) -> bool:
        """True if something that was sent has not arrived."""
        return bool(self._flow.items)

    def close(self, why: str = UNSENT) -> None:
        """Close the connection because one of its ends is gone; later packets use a new connection.

        Bytes that have left still arrive; the rest is lost for the reason `why`.
        """
        flow, self._flow = self._flow, Flow()
        self._link.renew()
        flow.closed = True
        flow.unsent.clear()
        if flow.waits is not None:
            flow.waits.cancel()
        broken = False
        for item in flow.items:
            was_whole = item.sent == item.size and not item.missing
            if broken or not was_whole:
                self._give_up(item, BEHIND if was_whole else why)
                broken = True

    def state(self) -> tuple[Flow[C], int]:
        """The state of this direction of the connection, and the number of connections opened."""
        return self._flow, self.opened

    def restore(self, state: tuple[Flow[C], int]) -> None:
        """Continue from a `state`; its timer is not started again."""
        self._flow, self.opened = state

    # Setting up

    def _fly(self, flow: Flow[C], other: Flow[C], number: int, tries: int) -> None:
        """Send a flight of the connection set-up, which this end opened."""
        way = self if number % 2 == 0 else self.back
        left = partial(self._left, flow, other, number, tries)
        way._link.depart(FLIGHTS[number], left, partial(self._never, flow))

    def _left(self, flow: Flow[C], other: Flow[C], number: int, tries: int) -> None:
        way = self if number % 2 == 0 else self.back
        if self._is_stopped(flow, other, number, tries):
            return
        latency = way._link.draw()
        landed = partial(self._landed, flow, other, number, latency)
        way._link.go(latency, partial(way._link.come_in, FLIGHTS[number], landed))

    def _landed(self, flow: Flow[C], other: Flow[C], number: int, latency: float) -> None:
        if number < _LAST:
            self._fly(flow, other, number + 1, 0)
        if number == _LAST - 1:  # the last flight is the first segment that the window counts
            flow.flying = 1
            self._begin(flow, latency)
        elif number == _LAST:
            flow.acked.append((self._env.now + latency, 1))
            if flow.unsent:
                self._await(flow)
            self.back._begin(other, latency)

    def _begin(self, flow: Flow[C], latency: float) -> None:
        flow.open, flow.last, flow.latency, flow.trip = True, self._env.now, latency, 2 * latency
        self._flush(flow)

    def _never(self, flow: Flow[C]) -> None:
        """Do nothing: an end is gone, and its streams are closed."""

    # Sending

    def _flush(self, flow: Flow[C]) -> None:
        """Send what the window allows; wait for an acknowledgement if something is left."""
        now, unsent, window = self._env.now, flow.unsent, flow.window
        self._settle(flow, now)
        while unsent:
            room = min(int(window.size), flow.buffer) - flow.flying
            if room <= 0:
                flow.cramped = flow.buffer < window.size
                break
            item = unsent[0]
            left = item.size - item.sent
            count = -(-left // SEGMENT)
            count = min(count, room, int(window.size) + 1 >> 1)
            size = min(left, count * SEGMENT)
            if not item.sent:
                item.latency = self._link.draw() if self._fixed is None else self._fixed
            item.sent += size
            if item.sent == item.size:
                unsent.popleft()
            flow.flying += count
            if flow.flying > flow.most:
                flow.most = flow.flying
            flow.last = now
            self._link.depart(
                size + HEADERS * count,
                partial(self._enter, flow, item, size, count, now),
                partial(self._cut_off, flow, item),
            )
        if unsent:
            self._await(flow)

    def _settle(self, flow: Flow[C], now: float) -> None:
        """Process the returned acknowledgements; with nothing in flight, also the idle time."""
        acked, window = flow.acked, flow.window
        while acked and acked[0][0] <= now:
            count = acked.popleft()[1]
            flow.flying -= count
            most = flow.most
            if window.size < 2 * most and (window.size < window.threshold or window.size <= most + 1):
                window.grow(count, 2 * flow.latency / self._each if self._each else math.inf, now)
            if flow.cramped:
                flow.cramped, flow.buffer = False, max(flow.buffer, int(HELD * window.size))
        if not flow.flying:
            flow.most = 0
            if window.size > FIRST and now - flow.last > flow.timeout:
                window.rest(now - flow.last, flow.timeout)
                flow.last = now

    def _await(self, flow: Flow[C]) -> None:
        if flow.acked and flow.waits is None:
            flow.waits = self._env.at(flow.acked[0][0], partial(self._acknowledged, flow))

    def _acknowledged(self, flow: Flow[C]) -> None:
        flow.waits = None
        self._flush(flow)

    def _enter(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        """Put a chunk on the link after it has passed the uplink."""
        delay = item.copy.delay if not item.arrived else 0.0
        self._link.go(item.latency + delay, partial(self._come_in, flow, item, size, count, sent))

    def _come_in(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        self._link.flow_in(size + HEADERS * count, partial(self._arrive, flow, item, size, count, sent))

    def _arrive(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        """Receive a chunk and return its acknowledgement; the one of its beginning was sent before."""
        now, latency = self._env.now, item.latency
        item.arrived += size
        flow.latency, flow.trip = latency, now - sent + latency
        if self._is_heard(flow, count):
            spread = (size + HEADERS * count) * self._pace
            flow.acked.append((now + latency - spread if spread < latency else now, count))
            if flow.unsent:
                self._flush(flow)
        items = flow.items
        while items and ((first := items[0]).gone or first.arrived == first.size):
            items.popleft()
            if first.ended:
                continue
            first.ended = True
            if first.second:
                self._carrier.end("drop", first.copy, SECOND_COPY)
            else:
                self._carrier.arrive(first.copy)

    def _cut_off(self, flow: Flow[C], item: Sending[C]) -> None:
        """End a copy whose sender went down before a chunk had left."""
        self._give_up(item, SENDER_GONE)

    def _give_up(self, item: Sending[C], why: str) -> None:
        item.gone = True
        if not item.ended:
            item.ended = True
            self._carrier.end("lose" if why == SENDER_GONE else "drop", item.copy, why)

    # Where links lose, and are cut

    def _is_stopped(self, flow: Flow[C], other: Flow[C], number: int, tries: int) -> bool:
        """Return true if a flight of the set-up cannot continue now."""
        return False

    def _is_heard(self, flow: Flow[C], count: int) -> bool:
        """Return true if the acknowledgement of `count` segments gets through."""
        return True
