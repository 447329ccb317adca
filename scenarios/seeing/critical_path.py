"""The critical path of a run: the chain of computations, transfers and waits that the end of the run waited for.

It is followed backwards from the last event. What a party did at a moment is explained by what ended then: a wait that
was answered, by the message that answered it, and so by the sender at the time of sending; a deadline, by the wait; a
job, by its party as the job began. So the chain covers the run from its beginning to its end without a gap, and each
virtual second belongs to one party, one step and, of transfers, one link.

What is not known. The record has no end of a job: one that was slowed or paused is taken to last until the next
recorded event of its party. A hop's time holds latency, the queue for bandwidth and the messages before it in order,
which are not apart. Time of a party between its events, without a wait or job (say of a wait that has no deadline), is
`unknown`; `paused` or `down` if the party was so for at least a part of it. Of two causes that end at the same time the
wait's message is followed, then the job: the other would have been as late. What is shown is therefore one longest
chain, and not how much faster the run would be without one of its links.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from tacit.scenarios.seeing.facts import Facts
from tacit.scenarios.seeing.reading import Row

__all__ = ["Segment", "Walk", "seconds_by"]

COMPUTING, TRANSFER, AGAIN, DEADLINE, UNKNOWN = "computing", "transfer", "sent again", "deadline", "unknown"

_CLOSE = 1e-12
"""Times that differ by less, relative to themselves, are equal: a job's end is a sum, which may be rounded."""


class Segment(Struct, frozen=True):
    """A part of the path.

    `kind` is computing, transfer, sent again (a lost copy was waited for), deadline, paused, down or unknown.
    `party` is whose time it is, of a transfer the sender of the hop, `peer` then the receiver, else "". `type` is that
    of a message, or those that a deadline waited for.
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
        """How long it took."""
        return self.ended - self.began

    @property
    def link(self) -> str:
        """Sender and receiver of a hop; "" of anything else."""
        return f"{self.party} -> {self.peer}" if self.peer else ""

    @property
    def place(self) -> str:
        """The link of a transfer, else the party."""
        return self.link or self.party


def seconds_by(segments: Iterable[Segment], *names: str) -> dict[tuple[str, ...], float]:
    """The seconds of the path by these attributes of its segments, the most first; their sum is the whole path."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in segments:
        found[tuple(str(getattr(one, name)) for name in names)].append(one.seconds)
    sums = {key: math.fsum(parts) for key, parts in found.items()}
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


_OF_PROGRAMS = ("send", "deliver", "enter", "leave", "compute", "waited")
_RECEIVED = ("answered", "until", "interrupted")
"""How waits end by a message."""


class Walk:
    """Goes back from event to event: each step leads to an earlier event or an earlier time, and so there is an end.

    All events of a record are first added, in order; `facts` are made of the same ones.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._delivered: dict[str, list[Row]] = defaultdict(list)  # by receiver
        self._waited: dict[str, list[Row]] = defaultdict(list)
        self._jobs: dict[str, list[Row]] = defaultdict(list)  # in the order of their ends at full speed
        self._doings: dict[str, list[Row]] = defaultdict(list)  # what a party's program did by itself
        self._hops: tuple[dict[int, Row], dict[int, Row]] = {}, {}  # of hops 1 and 2, by copy
        self._first: dict[tuple[int, int], Row] = {}  # by message and hop, where it is not the copy of that number
        self._begun: dict[int, Row] = {}  # waits
        self._last: Row | None = None
        self._found: list[Segment] = []

    def add(self, row: Row) -> None:
        """Take one more event in."""
        if row.kind in ("send", "relay"):
            self._hops[row.hop - 1].setdefault(row.copy, row)
            if row.copy != row.message and row.message not in self._hops[row.hop - 1]:
                self._first.setdefault((row.message, row.hop), row)
        elif row.kind == "deliver":
            self._delivered[row.receiver].append(row)
        elif row.kind == "compute" and row.value > 0:
            self._jobs[row.party].append(row)
        elif row.kind == "wait":
            self._begun[row.message] = row
        elif row.kind == "waited":
            self._waited[row.party].append(row)
        if row.kind in _OF_PROGRAMS:
            self._last = row
            if row.kind != "deliver" and not row.note.startswith("sent again"):
                self._doings[row.party].append(row)

    def back(self, end: float) -> list[Segment]:
        """All segments, in the order of time, from 0 to `end`."""
        self._found = []
        for jobs in self._jobs.values():
            jobs.sort(key=_end_of)
        party, step, time, number = "", "", end, 0
        if self._last is not None:
            last = self._last
            jobs = [one for found in self._jobs.values() for one in found[-1:] if _is_close(_end_of(one), end)]
            chosen = jobs[-1] if jobs and last.time < end else last
            party = chosen.receiver if chosen.kind == "deliver" else chosen.party
            step, number = chosen.step, last.n + 1
        while True:
            cause = self._at(party, time, number) or self._stretched(party, time, number)
            if cause is None:
                since = self._before(party, time, number)
                self._add(self._gap(party, since, time), party, "", step, "", since, time)
                if since == 0.0:
                    return self._found[::-1]
                time = since
            elif cause.kind == "compute":
                self._add(COMPUTING, party, "", cause.step, "", cause.time, time)
                step, time, number = cause.step, cause.time, cause.n
            elif cause.kind == "waited":
                begun = self._begun[cause.message]
                self._add(DEADLINE, party, "", begun.step, begun.type, begun.time, time)
                step, time, number = begun.step, begun.time, begun.n
            else:
                sent = self._carried(cause)
                party, step, time, number = sent.party, sent.step, sent.time, sent.n

    def _at(self, party: str, time: float, number: int) -> Row | None:
        """Return the message, deadline or job that ended at `time`, before the event `number` of `party`."""
        delivered = [row for row in _same(self._delivered.get(party, []), time) if row.n < number]
        delivered = [row for row in delivered if any(row.copy in hops for hops in self._hops)]
        for wait in reversed(_same(self._waited.get(party, []), time)):
            begun = self._begun.get(wait.message)
            if wait.n < number and begun is not None:
                if wait.type in ("deadline", "gone"):
                    return wait
                earlier = [row for row in delivered if row.n < wait.n]
                awaited = [row for row in earlier if wait.type != "answered" or row.type in begun.type.split()]
                if awaited and wait.type in _RECEIVED:
                    return awaited[-1]
        jobs = self._jobs.get(party, [])
        place = bisect_right(jobs, time * (1 + _CLOSE), key=_end_of)
        for job in reversed(jobs[:place]):
            if not _is_close(_end_of(job), time):
                break
            if job.n < number and job.time <= time:
                return job
        return delivered[-1] if delivered else None

    def _stretched(self, party: str, time: float, number: int) -> Row | None:
        """The job of `party` that lasted until then because it was slowed or paused."""
        doings = self._doings.get(party, [])
        place = bisect_left(doings, number, key=lambda row: row.n)
        while place and doings[place - 1].time >= time:
            place -= 1
        last = doings[place - 1] if place else None
        if last is None or last.kind != "compute" or last.value <= 0:
            return None
        held = any(self._facts.spell(kind, party, last.time, time) for kind in ("slow", "paused"))
        return last if held else None

    def _before(self, party: str, time: float, number: int) -> float:
        """When something last ended that explains what `party` did, before `time`; 0 at the beginning."""
        found = [0.0]
        for rows, when in ((self._delivered, _time_of), (self._waited, _time_of), (self._jobs, _end_of)):
            some = rows.get(party, [])
            place = bisect_left(some, time, key=when)
            for row in reversed(some[:place]):
                # an answered wait is there by its message
                if row.n < number and row.time > 0.0 and (row.kind != "waited" or row.type in ("deadline", "gone")):
                    found.append(when(row))
                    break
        return max(found)

    def _gap(self, party: str, since: float, time: float) -> str:
        """The kind of the time between the two, for which nothing is recorded that ended."""
        for spell in self._facts.spells_of(party):
            if spell.kind in ("paused", "down") and spell.began < time and (spell.ended or time) > since:
                return spell.kind
        return UNKNOWN

    def _carried(self, delivered: Row) -> Row:
        """Add the hops of a message that was delivered, and the time that lost copies took; returns its sending."""
        time, copy = delivered.time, delivered.copy
        for hop in (2, 1):
            row = self._hops[hop - 1].get(copy)
            if row is None:
                continue
            self._add(TRANSFER, row.party, row.peer, row.step, row.type, row.time, time)
            first = self._first.get((row.message, hop)) or self._hops[hop - 1][row.message]
            self._add(AGAIN, row.party, row.peer, row.step, row.type, first.time, row.time)
            time, copy, delivered = first.time, first.copy, first
        return delivered

    def _add(self, kind: str, party: str, peer: str, step: str, type_: str, began: float, ended: float) -> None:
        if ended > began:
            self._found.append(Segment(kind, party, peer, step, type_, began, ended))


def _time_of(row: Row) -> float:
    return row.time


def _end_of(job: Row) -> float:
    return job.time + job.value


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other))


def _same(rows: list[Row], time: float) -> list[Row]:
    """Those of `rows`, in order, that happened then."""
    return rows[bisect_left(rows, time, key=_time_of) : bisect_right(rows, time, key=_time_of)]
