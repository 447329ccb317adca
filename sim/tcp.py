"""A hop over TCP: a stream each way between two parties, whose window the network's acknowledgements open.

The first message between two parties opens a connection: a round trip for SYN, another for TLS 1.3, both of whose ends
show certificates (`FLIGHTS`). Messages go one after the other, in chunks of at most half the window; a chunk goes
through the sender's uplink and the receiver's downlink, which all connections of a party share (`tacit.sim.access`).
The first byte of a chunk reaches the receiver before the last one has left. As its acknowledgement returns, the window
grows (slow start, then CUBIC with fast convergence), and shrinks again while nothing is sent (RFC 2861, as in Linux). A
message is delivered once all before it are.

A segment that the link loses is sent again: after a round trip where three follow it, after two as a tail loss probe
(RFC 8985), or after the timeout where it is alone on its way. Segments that are sent again take bandwidth, and their
bytes and headers are counted apart from messages. Acknowledgements take no bandwidth, and the next one replaces one
that is lost. Behind a partition, a chunk is sent again after timeouts that double up to 120 s (RFC 6298), and after 15
of them the connection is given up. A fault that loses a message, or a partition, ends the copy as lost; the
retransmission is counted as another copy.

It does not model queues that overflow, delays by other traffic's queues beyond its chunks, or pacing.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from tacit.sim.clock import Environment, Timer
from tacit.sim.endpoint import Endpoint
from tacit.sim.link import SENDER_GONE, Link
from tacit.sim.transport import BEHIND, BY_FAULT, CUT, LIMIT, ON_LINK, SECOND_COPY, Carrier, Copy

__all__ = [
    "ACKNOWLEDGEMENT",
    "FIRST",
    "FLIGHTS",
    "HEADERS",
    "SEGMENT",
    "SET_UP",
    "SET_UP_NAME",
    "Flow",
    "Sending",
    "TcpStream",
    "Window",
    "connected",
    "headers",
    "segments",
    "streams",
]

C = TypeVar("C", bound=Copy)

# --- segments and the congestion window

SEGMENT = 1448
"""The most message bytes in a packet."""

HEADERS = 52
"""The bytes of the IPv4 header and of TCP's with its timestamps."""

ACKNOWLEDGEMENT = HEADERS
"""The bytes of a packet that only acknowledges; one is sent for every second segment."""

FIRST = 10
"""The window of a new connection, in segments (RFC 6928)."""

SHORTEST = 0.2
"""The least difference in seconds between a retransmission timeout and a round trip: Linux's TCP_RTO_MIN."""

LONGEST = 120.0
"""The longest retransmission timeout in seconds: Linux's TCP_RTO_MAX."""

FLIGHTS = (60, 60, HEADERS + HEADERS + 239, HEADERS + 752, HEADERS + 530)
"""The bytes of each flight of a connection's set-up: both SYN, then TLS 1.3 as OpenSSL 3 does it, in which both ends
show a certificate (P-256, self-signed, 350 bytes). The opener sends the first, third and fifth."""

_LAST = len(FLIGHTS) - 1

SET_UP = sum(FLIGHTS) + HEADERS + 1150
"""The bytes of a connection's set-up, including the session tickets after it."""

SET_UP_NAME = "TCP and TLS set-up"
"""The label of the set-up's bytes in tables; they belong to no message type."""

_MOST = (4 << 20) // SEGMENT
"""The largest window: that of Linux's send buffer, in segments."""

TRAIN, LATE = 0.001, 2.5
"""HyStart detects a filled path if segments arrive this many seconds apart or less: it measures acknowledgement trains
of 2 ms.

On a slower path it detects the growing delay once the window is this many times as large.
"""

_BETA, _C = 0.7, 0.4
_FRIENDLY = 3 * (1 - _BETA) / (1 + _BETA)
_UNHURT = 1 / 20  # segments for each that is acknowledged, as long as none was lost


def segments(size: int) -> int:
    """The number of segments of a message of `size` bytes."""
    return -(-size // SEGMENT)


def headers(size: int) -> int:
    """The bytes that TCP and IP add to a message of `size` bytes: headers of its segments, and their
    acknowledgements."""
    count = segments(size)
    return HEADERS * count + ACKNOWLEDGEMENT * -(-count // 2)


class Window:
    """The congestion window of one direction of a connection: `size` in segments, with slow start up to `threshold`."""

    __slots__ = stored = ("epoch", "flat", "origin", "reduced", "size", "threshold")

    def __init__(self) -> None:
        self.size: float = FIRST
        self.threshold = math.inf
        self.epoch = self.flat = self.origin = 0.0
        self.reduced = -math.inf  # when it was last made smaller

    def grow(self, count: int, full: float, now: float) -> None:
        """Process `count` acknowledged segments of a sender that used the whole window; `full` segments fill the
        path."""
        if self.size < self.threshold:
            self.size = min(self.size + count, _MOST)
            if self.size > full:
                self._settle(self.size, now)
            return
        target = self.origin + _C * (now - self.epoch - self.flat) ** 3
        least = _FRIENDLY / self.size if self.reduced > -math.inf else _UNHURT
        per_segment = max((target - self.size) / self.size, least)
        self.size = min(self.size + count * min(per_segment, 0.5), _MOST)

    def rest(self, idle: float, timeout: float) -> None:
        """Shrink after `idle` seconds without sending: by half for each `timeout`, down to the initial window."""
        times = math.ceil(idle / timeout) - 1
        if times > 0 and self.size > FIRST:
            self.threshold = max(self.threshold, 0.75 * self.size) if self.threshold < math.inf else math.inf
            self.size = max(FIRST, self.size / 2**times)
            self.epoch += idle

    def reduce(self, now: float) -> None:
        """Shrink after a loss that later segments revealed.

        A window that has not regained its size of the loss before makes room for other flows: it aims at less than its
        size (fast convergence, RFC 9438, section 4.7).
        """
        largest, is_smaller = self.size, self.reduced > -math.inf and self.size < self.origin
        aim = (1 + _BETA) / 2 if is_smaller else 1
        self._settle(max(_BETA * largest, 2.0), now)
        self.origin, self.flat = aim * largest, math.cbrt(largest * (aim - _BETA) / _C)
        self.reduced = now

    def collapse(self, now: float) -> None:
        """Shrink after a timeout: to one segment, with slow start up to the reduced window."""
        self.reduce(now)
        self.size = 1.0

    def _settle(self, size: float, now: float) -> None:
        self.size = self.threshold = self.origin = size
        self.epoch, self.flat = now, 0.0


# --- the state of messages and of one connection

_BUFFER, HELD = 43, 3
"""The segments in the send buffer of a new connection; and, for later ones, the segments per segment of the window."""


class Sending(Generic[C]):
    """A message on one hop: the bytes `sent`, `arrived`, and `missing`, which are to be sent again.

    `latency`, in seconds, is drawn at its beginning. `ended`: the copy is no longer in flight; `gone`: it will not be
    sent again either. `second`: it is a duplicate.
    """

    __slots__ = stored = (
        "arrived", "copy", "ended", "gone", "latency", "missing", "number", "second", "sent", "size", "tries",
    )  # fmt: skip

    def __init__(self, copy: C, number: int, second: bool) -> None:
        self.copy, self.number, self.second = copy, number, second
        self.size = copy.size
        self.sent = self.arrived = self.missing = self.tries = 0
        self.latency = 0.0
        self.ended = self.gone = False


class Flow(Generic[C]):
    """One direction of one connection, between one incarnation of each end.

    It is `open` once it may send, `opening` before. `items` have not been received yet, `unsent` have not been sent
    completely; `count` numbers them. `flying`: segments in flight. `acked`: the times at which acknowledgements return,
    and their segments. `most`: the largest number in flight since there were none. `last`: the time of the last
    sending. `latency` and round `trip` belong to the latest message. `buffer`: the capacity of the send buffer,
    `cramped` if it was too small. `waits`: it waits for an acknowledgement.
    """

    __slots__ = stored = (
        "acked", "buffer", "closed", "count", "cramped", "flying", "items", "last", "latency", "most", "open",
        "opening", "trip", "unsent", "waits", "window",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open = self.opening = self.closed = self.cramped = False
        self.buffer = _BUFFER
        self.items: deque[Sending[C]] = deque()
        self.unsent: deque[Sending[C]] = deque()
        self.acked: deque[tuple[float, int]] = deque()
        self.window = Window()
        self.flying = self.most = self.count = 0
        self.last = self.latency = self.trip = 0.0
        self.waits: Timer | None = None

    @property
    def timeout(self) -> float:
        """The timeout in seconds after which a segment that nothing follows is sent again (RFC 6298)."""
        return self.trip + max(SHORTEST, 2 * self.latency)


# --- the stream

UNSENT = "its connection ended before all of it was sent"


class TcpStream(Generic[C]):
    """A stream from the party `source` to `target`, over a `link` that loses nothing. `back` is the opposite stream."""

    back: "TcpStream[C]"
    most_at_once = FIRST // 2  # segments of a message that is sent in one chunk

    def __init__(self, env: Environment, carrier: Carrier[C], link: Link, source: str, target: str) -> None:
        self._env, self._carrier, self._link = env, carrier, link
        self.opened = 0  # connections that this end opened
        self.segments_again = self.bytes_again = 0  # that were sent again because the link lost them, with headers
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
            partial(link.land, latency, partial(link.take, size, self._lasts(size), landed)),
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
        self._carrier.carried(copy)
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

    def state(self) -> tuple[Flow[C], int, int, int]:
        """The state of this direction of the connection, the connections opened, and segments and bytes sent again."""
        return self._flow, self.opened, self.segments_again, self.bytes_again

    def restore(self, state: tuple[Flow[C], int, int, int]) -> None:
        """Continue from a `state`; its timer is not started again."""
        self._flow, self.opened, self.segments_again, self.bytes_again = state

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
        way._link.land(latency, partial(way._link.take, FLIGHTS[number], 0.0, landed))

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
        self._link.land(item.latency + delay, partial(self._come_in, flow, item, size, count, sent))

    def _come_in(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        whole = size + HEADERS * count
        self._link.take(whole, self._lasts(whole), partial(self._arrive, flow, item, size, count, sent))

    def _lasts(self, size: int) -> float:
        """The seconds that a chunk takes through the uplink: the receiver's downlink was open to it in that time."""
        return 0.0 if self._link.up is None else size / self._link.up.rate

    def _arrive(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        """Receive a chunk and return its acknowledgement; the one of its beginning was sent before."""
        now, latency = self._env.now, item.latency
        item.arrived += size
        if item.arrived == item.size:
            self._carrier.carried(item.copy)
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

    def _count_again(self, segments: int, size: int) -> None:
        """Count segments that are sent again, and their bytes with headers. A lost chunk goes with a copy instead."""
        self.segments_again += segments
        self.bytes_again += size

    def _is_stopped(self, flow: Flow[C], other: Flow[C], number: int, tries: int) -> bool:
        """Return true if a flight of the set-up cannot continue now."""
        return False

    def _is_heard(self, flow: Flow[C], count: int) -> bool:
        """Return true if the acknowledgement of `count` segments gets through."""
        return True


# --- links that lose packets or are cut

SET_UP_LOST = "a part of the connection's set-up lost on the link"

_ENOUGH = 3
"""The number of segments that must follow a lost one for a fast retransmission."""


def connected(
    env: Environment, carrier: Carrier[C], links: Sequence[Link], near: Endpoint, far: Endpoint, *, lossy: bool
) -> dict[tuple[str, str], TcpStream[C]]:
    """The streams between two parties, by their ends, over the `links` in both directions.

    They end with the parties.
    """
    made = streams(env, carrier, links, (near.name, far.name), LossyTcpStream if lossy else TcpStream)
    for (source, target), stream in zip(((near, far), (far, near)), made.values(), strict=True):
        key = ("transport", source.name, target.name)
        source.add_outgoing(key, partial(stream.close, SENDER_GONE))
        target.add_incoming(key, stream.close)
    return made


def streams(
    env: Environment,
    carrier: Carrier[C],
    links: Sequence[Link],
    ends: tuple[str, str],
    kind: Callable[..., TcpStream[C]] = TcpStream,
) -> dict[tuple[str, str], TcpStream[C]]:
    """The streams from the first of `ends` to the second and back, by their ends, over `links`."""
    near, far = ends
    there, back = kind(env, carrier, links[0], near, far), kind(env, carrier, links[1], far, near)
    there.back, back.back = back, there
    return {(near, far): there, (far, near): back}


class LossyTcpStream(TcpStream[C]):
    """A stream over links with losses, partitions and faults of messages."""

    most_at_once = 0

    def _is_stopped(self, flow: Flow[C], other: Flow[C], number: int, tries: int) -> bool:
        way = self if number % 2 == 0 else self.back
        barrier = self._carrier.barrier(way._source, way._target)
        if barrier is not None and barrier.holds:
            barrier.kept.append(partial(self._left, flow, other, number, tries))
            return True
        if barrier is None and not way._link.loses():
            return False
        if barrier is None and flow.items:  # the message that opens the connection waits for it
            self._carrier.resend(flow.items[0].copy, SET_UP_LOST)
        if tries == LIMIT:
            self._break(flow)
        elif not flow.closed:
            way._count_again(1, FLIGHTS[number])
            wait = min(2.0**tries, LONGEST)
            self._env.at(self._env.now + wait, partial(self._fly, flow, other, number, tries + 1))
        return True

    def _enter(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        size, count = self._survivors(flow, item, size, count, sent)
        if size:
            super()._enter(flow, item, size, count, sent)

    def _come_in(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> None:
        if self._carrier.is_cut(self._source, self._target):
            self._vanish(flow, item, size, count, CUT)
        else:
            super()._come_in(flow, item, size, count, sent)

    def _survivors(self, flow: Flow[C], item: Sending[C], size: int, count: int, sent: float) -> tuple[int, int]:
        """Draw the losses of a chunk that enters the link.

        Returns its surviving bytes and segments, and schedules the rest.
        """
        barrier = self._carrier.barrier(self._source, self._target)
        if barrier is not None and barrier.holds:
            barrier.kept.append(partial(self._enter, flow, item, size, count, sent))
            return 0, 0
        if barrier is not None or item.copy.doomed:
            self._vanish(flow, item, size, count, CUT if barrier is not None else BY_FAULT)
            return 0, 0
        lost = [place for place in range(count) if self._link.loses()]
        if not lost:
            return size, count
        if flow.closed:
            self._vanish(flow, item, size, count, ON_LINK)
            return 0, 0
        gone = sum(size - place * SEGMENT if place == count - 1 else SEGMENT for place in lost)
        followers = count - 1 - lost[-1] + (_ENOUGH if flow.unsent else 0)
        round_trip = 2 * item.latency
        probed = followers < _ENOUGH and flow.flying > len(lost)
        collapses = followers < _ENOUGH and not probed
        wait = flow.timeout if collapses else 2 * round_trip if probed else round_trip
        item.missing += gone
        self._carrier.resend(item.copy, f"{len(lost)} segment{'s' * (len(lost) > 1)} lost on the link")
        self._count_again(len(lost), gone + HEADERS * len(lost))
        self._later(wait, flow, item, gone, len(lost), collapses)
        return size - gone, count - len(lost)

    def _vanish(self, flow: Flow[C], item: Sending[C], size: int, count: int, why: str) -> None:
        """Lose a whole chunk, and its message's copy with it."""
        if not item.ended:
            item.ended = True
            self._carrier.end("lose", item.copy, why)
        item.missing += size
        if flow.closed:  # nothing is sent again
            for one in flow.items:
                if one.number >= item.number:
                    self._give_up(one, BEHIND)
            return
        if item.tries == LIMIT:
            self._break(flow)
            return
        self._later(min(flow.timeout * 2**item.tries, LONGEST), flow, item, size, count, True)
        item.tries += 1

    def _later(self, wait: float, flow: Flow[C], item: Sending[C], size: int, count: int, collapses: bool) -> None:
        self._env.at(self._env.now + wait, partial(self._repeat, flow, item, size, count, collapses))

    def _repeat(self, flow: Flow[C], item: Sending[C], size: int, count: int, collapses: bool) -> None:
        """Put the lost bytes at the head of the bytes to be sent."""
        now = self._env.now
        if flow.closed or item.gone:
            return
        if self._carrier.is_gone(item.copy):
            self._break(flow)
            return
        item.missing -= size
        flow.flying -= count
        if now - flow.window.reduced > 2 * item.latency:
            if collapses:
                flow.window.collapse(now)
            else:
                flow.window.reduce(now)
        if item.ended:
            item.copy = self._carrier.again(item.copy, item.tries)
            item.ended = False
        if item.sent == item.size:
            place = sum(one.number < item.number for one in flow.unsent)
            flow.unsent.insert(place, item)
        item.sent -= size
        self._flush(flow)

    def _is_heard(self, flow: Flow[C], count: int) -> bool:
        cut = self._carrier.is_cut(self._target, self._source)
        if cut:
            self._unheard(flow, count, 0)
        return not cut

    def _unheard(self, flow: Flow[C], count: int, tries: int) -> None:
        """Retry after each timeout while acknowledgements do not get through."""
        if self._carrier.is_cut(self._target, self._source) and not flow.closed and tries < LIMIT:
            wait = min(flow.timeout * 2**tries, LONGEST)
            self._env.at(self._env.now + wait, partial(self._unheard, flow, count, tries + 1))
        elif not flow.closed and tries == LIMIT:
            self._break(flow)
        else:
            flow.acked.append((self._env.now, count))
            if flow.unsent:
                self._flush(flow)

    def _break(self, flow: Flow[C]) -> None:
        """Close the connection in both directions."""
        if flow is self._flow:
            self.back.close()
            self.close()
