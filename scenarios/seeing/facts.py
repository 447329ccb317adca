"""Facts of a record, by message, wait and party, as the basis of explanations."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from sys import intern
from typing import Any

from tacit.scenarios.seeing.messages import Message, Messages
from tacit.scenarios.seeing.reading import AnyRow, Delivery, News, Row, Sending, Transfers, WaitBegun, WaitEnded
from tacit.sim.faults import KINDS, PartyFault
from tacit.sim.trace import Fact

__all__ = ["Facts", "Job", "Spell", "Waiting"]


@dataclass(eq=False, slots=True)
class Waiting:
    """A wait, with the columns of the view `waits`."""

    number: int
    party: str
    step: str
    stamp: tuple[int, int]
    types: tuple[str, ...]
    sources: tuple[str, ...]
    began: float
    deadline: float
    ended: float | None = None
    how: str = ""
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    last: str = ""
    alone: float = 0.0

    def is_open(self, at: float) -> bool:
        """True if the wait was open at that time. At its very end it counts as open unless it was answered."""
        return self.began <= at and (self.ended is None or at < self.ended or (at == self.ended and bool(self.missing)))


@dataclass(eq=False, slots=True)
class Spell:
    """A lasting state: a party that is ``down``, ``paused`` or ``slow``, or a link that is ``cut`` or ``held``.

    `fault` is the kind of the fault that began it, `note` the fault in words.
    """

    kind: str
    party: str
    peer: str
    step: str
    began: float
    fault: str
    note: str
    ended: float | None = None

    @property
    def went(self) -> str:
        """The verb for a party that the fault took down."""
        kind = KINDS.get(self.fault)
        return kind.went if kind is not None and issubclass(kind, PartyFault) and kind.went else "went down"

    @property
    def trigger(self) -> str:
        """The rest of the note after the kind of the fault, such as its step."""
        return self.note.removeprefix(self.fault).lstrip()

    def lasts(self, begin: float, end: float) -> bool:
        """True if the state existed at any time from `begin` to `end`."""
        return self.began <= end and (self.ended is None or self.ended >= begin)

    def concerns(self, sender: str, receiver: str) -> bool:
        """True if it affects the link between the two parties."""
        ends = ((sender, receiver), (receiver, sender))
        return any(one == self.party and fnmatchcase(other, self.peer) for one, other in ends)


@dataclass(frozen=True)
class Job:
    """A job of a party: its step, its beginning, and the virtual seconds that it takes at full speed."""

    step: str
    began: float
    seconds: float


_AGAIN = Fact.AGAIN.value


def _append(found: dict[str, Waiting | list[Waiting]], party: str, one: Waiting) -> None:
    """Add `one` to the entries of a party. A single entry is stored without a list, as most of a large run have one."""
    before = found.setdefault(party, one)
    if isinstance(before, list):
        before.append(one)
    elif before is not one:
        found[party] = [before, one]


def _listed(found: Waiting | list[Waiting] | None) -> list[Waiting]:
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


class Facts:
    """The facts in the rows of a record, added in order."""

    def __init__(self) -> None:
        self.messages = Messages()
        self.waits: dict[int, Waiting] = {}
        self.of_links: list[Spell] = []
        self._spells: dict[str, list[Spell]] = defaultdict(list)
        self.jobs: dict[str, list[Job]] = defaultdict(list)
        self.entered: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
        # The times at which clients entered a step, in order.
        self._times: dict[tuple[str, int, int], list[float]] = defaultdict(list)
        self.losses: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        self._objections: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        self.least_deadline = float("inf")
        self.endings: dict[str, str] = {}
        self.slept: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        self.answered: dict[int, frozenset[str]] = {}
        self._troubled: dict[tuple[str, str], list[Message]] = defaultdict(list)
        self._stamps: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[
            tuple[int, int, int], tuple[tuple[int, int, int], int]
        ] = {}  # equal sizes share one tuple, with their sum
        self._waits_of: dict[str, Waiting | list[Waiting]] = {}
        self._missing: dict[str, list[Waiting]] = defaultdict(list)
        self._gone: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def add(self, row: AnyRow) -> None:
        """Record an event or wait."""
        if (take := _TAKERS.get(row.kind)) is not None:
            take(self, row)

    def taker(self, kind: str) -> Callable[[Any], None] | None:
        """The function that records events of that kind; None for kinds without facts."""
        return None if (take := _TAKERS.get(kind)) is None else partial(take, self)

    def _hop_or_refusal(self, row: Row) -> None:
        if row.message:
            self._hop(row)
        elif row.kind == "drop" and row.sender:
            self._objections[row.sender, row.round].append((row.time, f"{row.party} could not use {row.note}"))

    def _metric(self, row: Row) -> None:
        if row.fact == Fact.LOST:
            self.losses[row.party, row.round].append((row.time, row.step))
        elif row.fact == Fact.REFUSED:
            self._objections[row.party, row.round].append((row.time, f"{row.party} {row.note}"))
        elif row.fact == Fact.GONE:
            self._gone[row.party].append((row.time, row.note))
        elif row.fact == Fact.SLEEPS:
            self.slept[row.party].append((row.step, row.time, row.value))

    def _compute(self, row: Row) -> None:
        self.jobs[row.party].append(Job(intern(row.step), row.time, row.value))

    def _outcome(self, row: Row) -> None:
        self.endings[row.party] = row.note

    def take_answers(self, news: News) -> None:
        """Record whose answers the ended rounds contain."""
        self.answered.update((one.round, frozenset(one.answered)) for one in news.rounds)

    def _enter(self, row: Row) -> None:
        step = row.step, row.round, row.attempt
        if row.party not in self.entered[step]:
            self.entered[step][row.party] = row.time
            if row.party != "server":
                self._times[step].append(row.time)

    def median_before(self, step: tuple[str, int, int], party: str) -> tuple[int, float]:
        """The number of other clients that had entered a step when the client `party` did, and the median of their
        times.

        The median is 0 if there are none.
        """
        times = self._times[step]
        count = bisect_right(times, self.entered[step][party]) - 1
        return count, (times[(count - 1) // 2] + times[count // 2]) / 2 if count else 0.0

    def between(self, sender: str, receiver: str, types: Iterable[str]) -> Iterator[Message]:
        """The messages of `types` from one party to another, those of each type in the order of sending."""
        found = self.messages.between(sender, receiver)
        return (one for kind in types for one in found if one.type == kind)

    def sent_to(self, receiver: str, sender: str) -> Iterator[Message]:
        """All messages from one party to another, in the order of sending."""
        return iter(sorted(self.messages.between(sender, receiver), key=lambda one: one.number))

    def before(self, message: Message, at: float) -> Message | None:
        """The first message with trouble before `at` that was still on a connection when `message` entered it; None if
        none.

        Messages of one connection arrive in the order of sending, also if they are relayed to different receivers.
        """
        for source, target, entered, _ in message.legs:
            if entered is None:
                continue
            for one in self._troubled.get((source, target), ()):
                since = min(
                    (*(time for time, _ in (*one.lost, *one.resent)), *(time for time, _, _ in one.struck)), default=at
                )
                if one is message or since >= at:
                    continue
                for begin, end, at_first, left in one.legs:
                    on_it = (begin, end) == (source, target) and at_first is not None and at_first <= entered
                    if on_it and (left is None or left > entered):
                        return one
        return None

    def known_gone(self, party: str, at: float) -> tuple[float, str] | None:
        """The time at which the server last learned, by `at`, that `party` was gone, and a reason in words; None if it
        did not."""
        return next((one for one in reversed(self._gone.get(party, ())) if one[0] <= at), None)

    def returned(self, party: str, at: float) -> Spell | None:
        """The last time that `party` was down and had returned by `at`."""
        downs = [one for one in self.spells_of(party) if one.kind == "down"]
        found = [one for one in downs if one.ended is not None and one.ended <= at]
        return found[-1] if found else None

    @property
    def with_spells(self) -> Set[str]:
        """The parties that have any spell."""
        return self._spells.keys()

    def spells_of(self, party: str) -> list[Spell]:
        """The spells of a party, in order; a link's spell belongs to the party that its fault names first."""
        return self._spells.get(party, [])

    def waits_of(self, party: str) -> list[Waiting]:
        """The waits of a party, in order."""
        return _listed(self._waits_of.get(party))

    def waits_for(self, party: str) -> list[Waiting]:
        """The waits that ended with messages of `party` missing, in the order of their ends."""
        return self._missing.get(party, [])

    def spell(self, kind: str, party: str, begin: float, end: float) -> Spell | None:
        """The last spell of that kind of `party` at any time from `begin` to `end`."""
        found = [one for one in self.spells_of(party) if one.kind == kind and one.lasts(begin, end)]
        return found[-1] if found else None

    def objection(self, party: str, round_number: int, at: float) -> tuple[float, str] | None:
        """The last refusal by `party` in a round before `at`, or of its messages: time and text; None if there is
        none."""
        return next((one for one in reversed(self._objections.get((party, round_number), ())) if one[0] <= at), None)

    def _message(self, row: Row) -> Message:
        return self.messages.get(row.message) or self.messages.add_first(row)

    @property
    def transfers(self) -> Transfers:
        """The functions that record sendings and deliveries."""
        return Transfers(self.send, lambda delivery: self.deliver(delivery) is not None)

    def send(self, sending: Sending) -> bool:
        """Record a sending; returns false, without recording it, if its message is known already."""
        return self.messages.add(sending)

    def deliver(self, delivery: Delivery) -> str | None:
        """Record a delivery and return its receiver; None, without recording it, if the sending is unknown."""
        return self.messages.receive(delivery.message, delivery.time)

    def _deliver(self, row: Row) -> None:
        if row.message and self.messages.receive(row.message, row.time) is None:
            self._message(row).received = row.time

    def _send(self, row: Row) -> None:
        if not row.message:
            return
        one = self._message(row)
        self._record_hop(one, row)
        one.copies += 1
        if row.peer != row.receiver and not one.relay:
            one.relay = row.peer
            if one.struck:  # the fault was recorded before the message was sent
                self._enter_trouble(one)

    def _relay(self, row: Row) -> None:
        if not row.message:
            return
        one = self._message(row)
        self._record_hop(one, row)
        one.copies += bool(row.fact)
        if one.relayed is None:
            one.relay, one.relayed = row.party, row.time

    def _record_hop(self, one: Message, row: Row) -> None:
        """Record that a copy of a message was sent on a hop."""
        sizes = row.payload, row.sealing, row.envelope
        one.sizes, size = self._sizes.get(sizes) or self._sizes.setdefault(sizes, (sizes, sum(sizes)))
        one.bytes += size if row.value < 2 else int(row.value) * size
        one.hops += 1
        if row.fact == _AGAIN:
            one.again += 1

    def _hop(self, row: Row) -> None:
        one, kind = self._message(row), row.kind
        if kind in ("lose", "drop"):
            one.ended += 1
        if kind == "resend":
            self._trouble(one)
            one.resent += ((row.time, row.note),)
        elif kind == "lose":
            self._trouble(one)
            one.lost += ((row.time, row.note),)
        elif kind == "drop" and row.fact != Fact.COPY:
            one.dropped += ((row.time, row.note),)
        if kind in ("lose", "drop") and not one.n and (one.lost or one.dropped):
            one.n = row.n

    def _trouble(self, one: Message) -> None:
        if not (one.lost or one.resent or one.struck):
            self._enter_trouble(one)

    def _enter_trouble(self, one: Message) -> None:
        for source, target, _, _ in one.legs:
            self._troubled[source, target].append(one)

    def _refuse(self, row: Row) -> None:
        every = self.between(row.sender, row.receiver, (row.type,))
        stamp = row.round, row.attempt
        alike = [one for one in every if one.stamp == stamp and one.received is not None and not one.refused]
        just_now = [one for one in alike if one.received == row.time]
        if alike:  # the record does not say which unread message; accepted ones were received earlier
            one = (just_now or alike[-1:])[0]
            one.refused, one.late = (row.time, row.detail or row.note), row.fact == Fact.LATE

    def _begin(self, row: WaitBegun) -> None:
        stamp = row.round, row.attempt
        stamp = self._stamps.setdefault(stamp, stamp)
        wait = Waiting(row.wait, row.party, row.step, stamp, row.types, row.sources, row.time, row.deadline)
        self.waits[row.wait] = wait
        _append(self._waits_of, row.party, wait)
        self.least_deadline = min(self.least_deadline, row.deadline)

    def _end(self, row: WaitEnded) -> None:
        if (known := self.waits.get(row.wait)) is not None:
            known.ended, known.how, known.alone, known.last = row.time, row.how, row.alone, row.last
            known.missing, known.silent = row.missing, row.silent
            for party in known.missing:
                self._missing[party].append(known)

    def _fault(self, row: Row) -> None:
        if row.message:  # the fault is traced before the message is sent
            one = self._message(row)
            self._trouble(one)
            one.struck += ((row.time, row.detail, row.note),)
        elif row.fact == Fact.OVER:
            for spell in self.spells_of(row.party):
                if (spell.kind, spell.peer) == (row.detail, row.peer) and spell.ended is None:
                    spell.ended = row.time
                    if spell.kind != Fact.PAUSED:  # a party continues after the end of all its pauses
                        break
        elif row.fact and row.fact != Fact.DISCONNECTED:
            for spell in self.spells_of(row.party) if row.fact == Fact.DOWN else ():
                if spell.kind == Fact.PAUSED and spell.ended is None:
                    spell.ended = row.time
            spell = Spell(row.fact, row.party, row.peer, row.step, row.time, row.detail, row.note)
            self._spells[row.party].append(spell)
            if row.fact in (Fact.CUT, Fact.HELD):
                self.of_links.append(spell)


_TAKERS: dict[str, Callable[[Facts, Any], None]] = {
    **dict.fromkeys(("lose", "drop", "resend"), Facts._hop_or_refusal), "deliver": Facts._deliver,
    "send": Facts._send, "relay": Facts._relay, "refuse": Facts._refuse, "wait": Facts._begin, "waited": Facts._end,
    "fault": Facts._fault, "compute": Facts._compute, "enter": Facts._enter, "metric": Facts._metric,
    "outcome": Facts._outcome,
}  # fmt: skip
"""The methods that record each kind of event, unbound: objects with bound methods of their own are freed only by the
garbage collector."""
