"""A TCP stream over links that lose packets or are cut; `tacit.sim.tcp` describes its reaction."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from tacit.sim.clock import Environment
from tacit.sim.endpoint import Endpoint
from tacit.sim.link import SENDER_GONE, Link
from tacit.sim.tcp import TcpStream
from tacit.sim.tcp_flow import Flow, Sending
from tacit.sim.tcp_window import LONGEST, SEGMENT
from tacit.sim.transport import BEHIND, BY_FAULT, CUT, LIMIT, ON_LINK, Carrier, Copy

__all__ = ["LossyTcpStream", "connected", "streams"]

SET_UP_LOST = "a part of the connection's set-up lost on the link"

_ENOUGH = 3
"""The number of segments that must follow a lost one for a fast retransmission."""

C = TypeVar("C", bound=Copy)


def connected(
    env: Environment, carrier: Carrier[C], links: Sequence[Link], near: Endpoint, far: Endpoint, *, lossy: bool
) -> dict[tuple[str, str], TcpStream[C]]:
    """The streams between two parties, by their ends, over the `links` in both directions.

    They end with the parties.
    """
    made = streams(env, carrier, links, (near.name, far.name), LossyTcpStream if lossy else TcpStream)
    for (source, target), stream in zip(((near, far), (far, near)), made.values(), strict=True):
        key = ("transport", source.name, target.name)
        source.outgoing[key], target.incoming[key] = partial(stream.close, SENDER_GONE), stream.close
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
