"""The critical path of a run: the chain of computations, transfers and waits that determined the end of the run.

It is followed backwards from the last event. The activity of a party at a moment is explained by an event that ended at
this moment: an answered wait by the message that answered it, and so by its sender at the time of sending; a deadline
by the wait; a job by its party when the job began. So the chain covers the run from its beginning to its end without a
gap, and each virtual second belongs to one party, one step and, for transfers, one link.

Limits. The record has no end of a job: a job that was slowed or paused is assumed to last until the next recorded event
of its party. The time of a hop contains latency, the queue for bandwidth and earlier messages of the connection, which
are not recorded separately. Time of a party between its events without a wait or job (for example, in a wait without a
deadline) is `unknown`; `paused` or `down` if the party was so for a part of it. If two causes end at the same time, the
wait's message is followed, then the job: the other one would have been as late. The path is therefore one longest
chain, and does not show how much faster the run would be without one of its links.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from tacit.scenarios.seeing.facts import Facts, Waiting
from tacit.scenarios.seeing.messages import Numbers
from tacit.scenarios.seeing.reading import Delivery, Row, Sending, WaitBegun, WaitEnded, reader_of
from tacit.sim.trace import Fact

__all__ = ["Segment", "Walk", "seconds_by"]

COMPUTING, TRANSFER, AGAIN, DEADLINE, UNKNOWN = "computing", "transfer", "sent again", "deadline", "unknown"

_AGAIN = Fact.AGAIN.value

_CLOSE = 1e-12
"""The relative difference below which times are equal: the end of a job is a sum, which may be rounded."""


class Segment(Struct, frozen=True):
    """A part of the path.

    `kind` is computing, transfer, sent again (waiting for a lost copy), deadline, paused, down or unknown. `party` is
    the party that spent the time; for a transfer the sender of the hop, with the receiver as `peer` (else ""). `type`
    is the type of the message, or the types that a deadline waited for.
    """

    kind: str
    party: str
    peer: str
    step: str
    type: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """The duration in virtual seconds."""
        return self.ended - self.began

    @property
    def link(self) -> str:
        """The sender and receiver of a hop; "" for other segments."""
        return f"{self.party} -> {self.peer}" if self.peer else ""

    @property
    def place(self) -> str:
        """The link of a transfer; the party for other segments."""
        return self.link or self.party


def seconds_by(segments: Iterable[Segment], *names: str) -> dict[tuple[str, ...], float]:
    """The seconds of the path by these attributes of its segments, the largest first; their sum is the whole path."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in segments:
        found[tuple(str(getattr(one, name)) for name in names)].append(one.seconds)
    sums = {key: math.fsum(parts) for key, parts in found.items()}
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


_RECEIVED = ("answered", "until", "interrupted")
"""The ends of waits that a message caused."""


class _Events:
    """Events by party, each with a time and a number, in columns: parties of a large run have few events each.

    All events are added first, each with a party and its time; after `sort` they can be looked up.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._parties = array("i")
        self._starts = array("q")
        self.times, self.numbers = array("d"), array("q")

    def __contains__(self, party: str) -> bool:
        return party in self._places

    def add(self, party: str, time: float, number: int) -> None:
        self._parties.append(self._places.setdefault(party, len(self._places)))
        self.times.append(time)
        self.numbers.append(number)

    def sort(self) -> None:
        """Group the events by party, each group in the order of time."""
        if self._starts:
            return
        parties, times = np.asarray(self._parties), np.asarray(self.times)
        order = np.lexsort((times, parties))
        numbers = np.asarray(self.numbers)[order]
        starts = np.searchsorted(parties[order], np.arange(len(self._places) + 1))
        self.times, self.numbers = array("d", times[order].tobytes()), array("q", numbers.tobytes())
        self._starts = array("q", starts.astype(np.int64).tobytes())

    def span(self, party: str) -> tuple[int, int]:
        """The first and the last place (exclusive) of the events of `party` in the columns."""
        place = self._places.get(party)
        return (0, 0) if place is None else (self._starts[place], self._starts[place + 1])

    def last(self, time: float) -> int | None:
        """The number of an event that is the last of its party and happened at `time`; None if there is none.

        If there are several, it is that of the party that was added last.
        """
        for end in reversed(self._starts[1:]):
            if _is_close(self.times[end - 1], time):
                return self.numbers[end - 1]
        return None

    def at(self, party: str, time: float) -> Sequence[int]:
        """The numbers of the events of `party` at `time`."""
        span = self.span(party)
        return self.numbers[bisect_left(self.times, time, *span) : bisect_right(self.times, time, *span)]


class Walk:
    """Follows the path from event to event: each step leads to an earlier event or time, so the walk ends.

    All events of the record of the run in `folder` are first added, in order; `facts` are made from the same events.
    Only the numbers of events are kept; those on the path are read again.
    """

    def __init__(self, folder: Path, facts: Facts) -> None:
        self._folder, self._facts = folder, facts
        self._delivered = _Events()  # deliveries by receiver
        self._waited, self._deadlines = _Events(), _Events()
        self._jobs = _Events()  # by the time of their end at full speed
        # Events of a party's program, from its first job on.
        self._doings: dict[str, array[int]] = defaultdict(lambda: array("q"))
        self._hops = Numbers(), Numbers()  # the events of hops 1 and 2, by copy
        self._first: dict[tuple[int, int], int] = {}  # by message and hop, if the first copy has another number
        self._begun = Numbers()  # the beginnings of waits
        self._last = 0
        self._read: Callable[[int], Row | int] = _unread
        self._found: list[Segment] = []

    def taker(self, kind: str) -> Callable[[Any], None] | None:
        """The function that records an event of that kind, called after the facts'; None for kinds that the path does
        not use."""
        return None if (take := _TAKERS.get(kind)) is None else partial(take, self)

    def send(self, sending: Sending) -> None:
        """Record that a message was sent."""
        self._hops[0].put(sending.message, sending.n)
        self._last = sending.n
        if sending.party in self._jobs:
            self._doings[sending.party].append(sending.n)

    def deliver(self, delivery: Delivery, receiver: str) -> None:
        """Record that a message was delivered to `receiver`."""
        self._delivered.add(receiver, delivery.time, delivery.n)
        self._last = delivery.n

    def _deliver(self, row: Row) -> None:
        self._delivered.add(row.receiver, row.time, row.n)
        self._last = row.n

    def _send(self, row: Row) -> None:
        self._hop(row)
        self._do(row)

    def _hop(self, row: Row) -> None:
        hops = self._hops[row.hop - 1]
        hops.put(row.copy, row.n)
        if row.copy != row.message and not hops[row.message]:
            self._first.setdefault((row.message, row.hop), row.n)

    def _compute(self, row: Row) -> None:
        if row.value > 0:
            self._jobs.add(row.party, _end_of(row), row.n)
        self._do(row)

    def _wait(self, row: WaitBegun) -> None:
        self._begun.put(row.wait, row.n)

    def _end_wait(self, row: WaitEnded) -> None:
        if (wait := self._facts.waits.get(row.wait)) is None:
            return
        self._waited.add(wait.party, row.time, row.n)
        if row.how in ("deadline", "gone"):
            self._deadlines.add(wait.party, row.time, row.n)
        self._last = row.n
        if wait.party in self._jobs:
            self._doings[wait.party].append(row.n)

    def _do(self, row: Row) -> None:
        self._last = row.n
        if row.party in self._jobs and row.fact != _AGAIN:
            self._doings[row.party].append(row.n)

    def back(self, end: float) -> list[Segment]:
        """All segments, in the order of time, from 0 to `end`."""
        self._found = []
        for events in (self._delivered, self._waited, self._deadlines, self._jobs):
            events.sort()
        with reader_of(self._folder) as self._read:
            return self._back(end)

    def _back(self, end: float) -> list[Segment]:
        party, step, time, number = "", "", end, 0
        if self._last:
            last = self._event(self._last)
            job = self._jobs.last(end) if _when(last) < end else None
            chosen = last if job is None else self._row(job)
            party = chosen.receiver if isinstance(chosen, Row) and chosen.kind == "deliver" else chosen.party
            step, number = chosen.step, self._last + 1
        while True:
            cause = self._at(party, time, number) or self._stretched(party, time, number)
            if cause is None:
                since = self._before(party, time, number)
                self._add(self._gap(party, since, time), party, "", step, "", since, time)
                if since == 0.0:
                    return self._found[::-1]
                time = since
            elif isinstance(cause, Waiting):
                self._add(DEADLINE, party, "", cause.step, " ".join(cause.types), cause.began, time)
                step, time, number = cause.step, cause.began, self._begun[cause.number]
            elif cause.kind == "compute":
                self._add(COMPUTING, party, "", cause.step, "", cause.time, time)
                step, time, number = cause.step, cause.time, cause.n
            else:
                sent = self._carried(cause)
                party, step, time, number = sent.party, sent.step, sent.time, sent.n

    def _event(self, number: int) -> Row | Waiting:
        """The event of that number, or the wait that ended at it."""
        found = self._read(number)
        return self._facts.waits[found] if isinstance(found, int) else found

    def _row(self, number: int) -> Row:
        found = self._read(number)
        if isinstance(found, int):
            raise LookupError(f"event {number} is the end of a wait.")
        return found

    def _at(self, party: str, time: float, number: int) -> Row | Waiting | None:
        """The message, deadline or job that ended at `time`, before the event `number` of `party`; None if there is
        none."""
        for place in reversed(self._waited.at(party, time)):
            if place >= number:
                continue
            wait = self._event(place)
            if not isinstance(wait, Waiting) or wait.how in ("deadline", "gone"):
                return wait
            types = wait.types if wait.how == "answered" else None
            awaited = self._delivery(party, time, place, types) if wait.how in _RECEIVED else None
            if awaited is not None:
                return awaited
        jobs = self._jobs
        first, last = jobs.span(party)
        place = bisect_right(jobs.times, time * (1 + _CLOSE), first, last)
        while place > first and _is_close(jobs.times[place - 1], time):
            place -= 1
            job = self._row(jobs.numbers[place])
            if job.n < number and job.time <= time:
                return job
        return self._delivery(party, time, number, None)

    def _delivery(self, party: str, time: float, number: int, types: Collection[str] | None) -> Row | None:
        """The last message, of one of `types`, delivered to `party` at `time` and before the event `number`."""
        for place in reversed(self._delivered.at(party, time)):
            if place < number:
                row = self._row(place)
                if any(hops[row.copy] for hops in self._hops) and (types is None or row.type in types):
                    return row
        return None

    def _stretched(self, party: str, time: float, number: int) -> Row | None:
        """The job of `party` that lasted until `time` because it was slowed or paused."""
        if not any(spell.kind in ("slow", "paused") for spell in self._facts.spells_of(party)):
            return None
        doings = self._doings.get(party, array("q"))
        place = bisect_left(doings, number)
        while place and _when(self._event(doings[place - 1])) >= time:
            place -= 1
        last = self._event(doings[place - 1]) if place else None
        if not isinstance(last, Row) or last.kind != "compute" or last.value <= 0:
            return None
        held = any(self._facts.spell(kind, party, last.time, time) for kind in ("slow", "paused"))
        return last if held else None

    def _before(self, party: str, time: float, number: int) -> float:
        """The time before `time` of the last end of an event that explains the party's activity; 0 if there is none."""
        found = [0.0]
        for events in (self._delivered, self._deadlines, self._jobs):
            first, last = events.span(party)
            for place in range(bisect_left(events.times, time, first, last) - 1, first - 1, -1):
                # an answered wait is found by its message
                earlier = events.numbers[place] < number and events.times[place] > 0.0
                if earlier and (events is not self._jobs or self._row(events.numbers[place]).time > 0.0):
                    found.append(events.times[place])
                    break
        return max(found)

    def _gap(self, party: str, since: float, time: float) -> str:
        """The kind of the time from `since` to `time`, in which nothing recorded ended."""
        for spell in self._facts.spells_of(party):
            if spell.kind in ("paused", "down") and spell.began < time and (spell.ended or time) > since:
                return spell.kind
        return UNKNOWN

    def _carried(self, delivered: Row) -> Row:
        """Add the hops of a delivered message, and the time that lost copies took; return its sending."""
        time, copy = delivered.time, delivered.copy
        for hop in (2, 1):
            if not self._hops[hop - 1][copy]:
                continue
            row = self._row(self._hops[hop - 1][copy])
            self._add(TRANSFER, row.party, row.peer, row.step, row.type, row.time, time)
            first = self._row(self._first.get((row.message, hop)) or self._hops[hop - 1][row.message])
            self._add(AGAIN, row.party, row.peer, row.step, row.type, first.time, row.time)
            time, copy, delivered = first.time, first.copy, first
        return delivered

    def _add(self, kind: str, party: str, peer: str, step: str, type_: str, began: float, ended: float) -> None:
        if ended > began:
            self._found.append(Segment(kind, party, peer, step, type_, began, ended))


_TAKERS: dict[str, Callable[[Walk, Any], None]] = {
    "send": Walk._send, "relay": Walk._hop, "deliver": Walk._deliver, "enter": Walk._do, "leave": Walk._do,
    "compute": Walk._compute, "wait": Walk._wait, "waited": Walk._end_wait,
}  # fmt: skip
"""The methods that record each kind of event."""


def _when(one: Row | Waiting) -> float:
    """The time of an event, or of the end of a wait."""
    return one.time if isinstance(one, Row) else one.ended or 0.0


def _unread(number: int) -> Row:
    raise LookupError(f"event {number} is read while the path is followed alone.")


def _end_of(job: Row) -> float:
    return job.time + job.value


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other))
