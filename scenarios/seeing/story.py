"""The story of a run: one line for each important event, in the order of virtual time, with its reasons."""

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from msgspec import Struct

from tacit.parties.server import Loss
from tacit.scenarios.files.arguments import check_type
from tacit.scenarios.running.folder import Result
from tacit.scenarios.seeing.absences import Absence, Key, grouped, key_of
from tacit.scenarios.seeing.causes import Cause, Causes, Chain
from tacit.scenarios.seeing.facts import Facts, Waiting
from tacit.scenarios.seeing.messages import Message
from tacit.scenarios.seeing.reading import (
    AnyRow,
    Delivery,
    EndedRound,
    News,
    Record,
    Row,
    Sending,
    Transfers,
    WaitBegun,
    WaitEnded,
    is_under_way,
)
from tacit.scenarios.seeing.seen import Seen
from tacit.sim.trace import Fact
from tacit.sim.units import format_duration

__all__ = ["Line", "Story", "absences", "events"]

_LATE = 0.1
"""The share of the shortest deadline above which a party counts as late, or as holding others up."""

_STRIKES = 24
"""The most faults of messages that are shown one by one."""

_WORTH = ("metric", "outcome", "fault", "waited", "enter")
"""The kinds of events that may have a line."""

_JOBS = ("compute", "stretch", "processor")
"""The kinds of events whose value is seconds of a job."""

_ALIKE = 4
"""The most clients with the same ending that are shown one by one."""


_NONE = Cause()


class Line(Struct, frozen=True):
    """One event: its virtual `time` in seconds, the party, the event in words, and its reasons (`because`).

    `kind` is fault, return, message, deadline, held-up, late, lost, absence, round, ending, outcome, summary, or in the
    full story the kind of event in the record. `consequence`: the result of the loss of a message, or of a cause with
    several losses. `parties` are all parties that the line concerns, `n` is the number of the event in ``run.sqlite``.
    `causes` are the reasons with their kinds and times, one list for each missing party.
    """

    n: int
    time: float
    kind: str
    party: str
    text: str
    because: tuple[str, ...] = ()
    consequence: str = ""
    step: str = ""
    round: int = 0
    parties: tuple[str, ...] = ()
    causes: tuple[Chain, ...] = ()

    def concerns(self, party: str = "", step: str = "") -> bool:
        """True if the line is about this party and this step; "" matches any."""
        return (not party or party in (self.party, *self.parties)) and (not step or step == self.step)


class Story:
    """Makes the lines of a run from its record, as it grows; `everything`: a line for every event.

    A loss or missed deadline whose cause has a line already gets its own line only if `unfolded`.
    """

    def __init__(self, *, everything: bool = False, unfolded: bool = False) -> None:
        self._everything, self._unfolded = everything, unfolded or everything
        self._said: set[Key] = set()
        self._why: dict[Loss, Cause] = {}
        self._losses: list[Loss] = []
        self._facts = Facts()
        self._causes = Causes(self._facts)
        self._strikes = self._last = 0
        self._time = 0.0
        self._noticed: set[tuple[str, int]] = set()
        self._endings: list[tuple[str, str]] = []
        self._explained: dict[int, str] = {}  # the consequence of each message's loss

    def look(self, record: Record) -> tuple[News, list[Line]]:
        """Read the new rows of a `record`; return them, without those that give no line, and their lines.

        Each line is made with knowledge of all new rows.
        """
        begun, messages, facts = self._last > 0, set[int](), self._facts

        def see(row: AnyRow) -> None:
            facts.add(row)
            if isinstance(row, Row):
                messages.add(row.message)

        def send(sending: Sending) -> bool:
            messages.add(sending.message)
            return facts.send(sending)

        def deliver(delivery: Delivery) -> bool:
            messages.add(delivery.message)
            return facts.deliver(delivery) is not None

        transfers = Transfers(send, deliver) if begun else facts.transfers
        if self._everything:
            news = record.news(see if begun else facts.add)
        else:
            news = record.news(see if begun else facts.add, _WORTH, transfers)
        return news, self._take(news, messages if begun else self._facts.messages.keys())

    def _take(self, news: News, messages: Set[int]) -> list[Line]:
        """The lines for `news`; `messages`: the numbers of the messages that it concerns."""
        if "transport" in news.about:
            self._causes = Causes(self._facts, datagrams=news.about["transport"] == "datagram")
        self._facts.take_answers(news)
        found: list[Line] = []
        for row in news.rows:
            found += self._of_row(row)
        if news.last > self._last:
            self._last, self._time = news.last, news.time
        for one in news.rounds:
            found += self._of_round(one)
        if news.ended:  # includes losses that the server did not notice
            unnoticed = (loss for loss in news.losses if (loss.party, loss.round) not in self._noticed)
            found += [line for loss in unnoticed for line in self._of_loss(self._last, loss)]
        if not self._everything:
            found += self._of_messages(messages)
        found.sort(key=lambda line: (line.time, line.n))
        if news.ended:
            self._losses = list(news.losses)  # the final losses name the step at which each party fell
        return found + (self._end(news) if news.ended else [])

    def break_off(self) -> list[Line]:
        """The last lines of a run that has not ended and whose process is gone."""
        text = "the record ends here: the run was broken off, and what followed is not known"
        return [*self._of_absences(), *self._summary(), Line(self._last, self._time, "outcome", "run", text)]

    def cause_of(self, loss: Loss) -> Cause:
        """The cause of a loss."""
        if loss not in self._why:
            self._why[loss] = self._causes.of_loss(loss.party, loss.round, loss.time)
        return self._why[loss]

    def absences(self, losses: Iterable[Loss] | None = None) -> list[Absence]:
        """An entry for each cause of the `losses`; by default of all known losses."""
        return grouped(self._losses if losses is None else losses, self._facts, self.cause_of)

    # The lines for one event

    def _of_row(self, row: AnyRow) -> Iterator[Line]:
        lines = list(self._worth(row))
        yield from lines
        if not self._everything or lines:
            return
        if isinstance(row, Row):
            ends = f"{row.sender} -> {row.receiver}" if row.message and row.sender and row.receiver else row.peer
            place = row.step if row.kind in ("enter", "leave", *_JOBS) else ""
            words = (row.type, place, ends, row.note if row.kind not in _JOBS else format_duration(row.value))
            parties = tuple(filter(None, (row.party, row.peer, row.sender, row.receiver)))
            text = " ".join((row.kind, *filter(None, words)))
            yield Line(row.n, row.time, row.kind, row.party, text, (), "", row.step, row.round, parties)
        elif (wait := self._facts.waits.get(row.wait)) is not None:
            named: tuple[str, ...] = ()
            if isinstance(row, WaitBegun):
                said: tuple[str, ...] = (*row.types, *row.sources)
            else:
                named = tuple(dict.fromkeys(filter(None, (*row.silent, row.last))))
                said = (row.how, *row.silent, *row.missing)
            text, parties = " ".join((row.kind, *said)), (wait.party, *named)
            yield Line(row.n, row.time, row.kind, wait.party, text, (), "", wait.step, wait.stamp[0], parties)

    def _worth(self, row: AnyRow) -> Iterable[Line]:
        if not isinstance(row, Row):
            line = self._of_wait(row) if isinstance(row, WaitEnded) else None
            return () if line is None else (line,)
        if row.fact == Fact.LOST:
            self._noticed.add((row.party, row.round))
            loss = Loss(row.party, row.step, row.detail, row.round, row.time)
            self._losses.append(loss)
            return self._of_loss(row.n, loss)
        if row.fact == Fact.REFUSED:
            return (self._line(row, "refused", row.note),)
        if row.kind == "outcome":
            self._endings.append((row.party, row.note))
        worth = {"fault": self._of_fault, "enter": self._of_step}.get(row.kind)
        line = None if worth is None else worth(row)
        return () if line is None else (line,)

    def _of_fault(self, row: Row) -> Line | None:
        if row.message:
            self._strikes += 1
            if self._strikes > _STRIKES and not self._everything:
                return None
            text = f"the fault {row.detail} strikes {row.type} to {row.receiver}"
            return self._line(row, "fault", text, parties=(row.sender, row.receiver))
        where = f", in {row.step}" if row.step else ""
        return self._line(row, "return" if row.fact == Fact.OVER else "fault", f"{row.note}{where}")

    def _of_wait(self, row: WaitEnded) -> Line | None:
        wait = self._facts.waits.get(row.wait)
        if wait is None:
            return None
        if wait.how in ("deadline", "gone") and wait.missing:
            names = wait.silent or wait.missing
            waited = f"waiting for {' or '.join(wait.types)} from {_names(names)}"
            passed = f"the deadline of {format_duration(wait.deadline)} has passed"
            why = "all that are missing are known to be gone" if wait.how == "gone" else passed
            text = f"{why}, {waited}" + ("" if wait.silent else ", not all of it received")
            cause = self._causes.of_deadline(wait)
            if cause and self._is_known(
                "deadline", wait.party, wait.types, *(key_of("", one, "") for one in cause.apart())
            ):
                return None
            return self._wait_line(row, wait, "deadline", text, cause, (*names, *cause.parties))
        if wait.how == "answered" and len(wait.sources) > 1 and self._is_long(wait.alone, wait):
            longer = f"waited {format_duration(wait.alone)} longer for {' or '.join(wait.types)} from {wait.last}"
            cause = self._causes.of_delay(wait.last, wait)
            text = f"{longer} than from the others"
            return self._wait_line(row, wait, "held-up", text, cause, (wait.last, *cause.parties))
        return None

    def _is_long(self, seconds: float, wait: Waiting) -> bool:
        return seconds > _LATE * wait.deadline

    def _of_step(self, row: Row) -> Line | None:
        """A line if a client enters a step much later than most other clients."""
        step = row.step, row.round, row.attempt
        if row.party == "server" or self._facts.entered[step].get(row.party) != row.time:
            return None
        others, median = self._facts.median_before(step, row.party)
        lag = row.time - median
        if others < 2 or lag <= _LATE * self._facts.least_deadline:
            return None
        cause = self._causes.of_late_entry(row.party, row.time - lag, row.time)
        text = f"enters {row.step} {format_duration(lag)} after the median of {others} others"
        return self._line(row, "late", text, cause, cause.parties)

    def _is_known(self, *key: object) -> bool:
        """True if there is a line with this key already, and the story is not `unfolded`."""
        known = key in self._said and not self._unfolded
        self._said.add(key)
        return known

    def _of_loss(self, n: int, loss: Loss) -> Iterator[Line]:
        cause = self.cause_of(loss)
        for number in cause.messages:
            self._explained.setdefault(number, f"{loss.party} is lost at {format_duration(loss.time)}")
        if self._is_known("lost", *key_of(loss.party, cause, loss.action)):
            return
        named = (loss.party, *cause.parties)
        text = f"is lost at {loss.step}: {loss.action}"
        because, step, number = cause.reasons, loss.step, loss.round
        yield Line(n, loss.time, "lost", loss.party, text, because, "", step, number, named, cause.chains)

    def _of_absences(self) -> list[Line]:
        """The lines about causes of several losses, with their consequences."""
        return [
            Line(self._last, self._time, "absence", one.party, f"was lost {len(one.losses)} times", one.because[-1:],
                 one.consequence, one.step, one.losses[0].round, (one.party,))
            for one in self.absences() if len(one.losses) > 1
        ]  # fmt: skip

    def _of_messages(self, new: Set[int]) -> Iterator[Line]:
        """Yield lines for those of the `new` messages whose loss or drop explains the loss of a party."""
        for number, consequence in self._explained.items():
            one = self._facts.messages[number]
            if number in new and (one.lost or one.dropped):
                (time, why), *_ = one.lost or one.dropped
                ending = "is lost" if one.lost else "is dropped"
                text = f"{one.type} to {one.receiver} {ending} ({why}), {_afterwards(one)}"
                stamp = one.stamp[0]
                ends = (one.sender, one.receiver)
                yield Line(one.n, time, "message", one.sender, text, (), consequence, one.step, stamp, ends)

    def _of_round(self, one: EndedRound) -> Iterator[Line]:
        time = one.began if one.ended is None else one.ended
        if one.problem:
            yield Line(one.n, time, "round", "server", f"round {one.round} is lost: {one.problem}", round=one.round)
        elif self._everything and one.ended is not None:
            counts = f"{len(one.answered)} of {one.called} answers"
            yield Line(one.n, time, "round", "server", f"round {one.round} ends with {counts}", round=one.round)

    def _end(self, news: News) -> list[Line]:
        """The last lines: the endings of clients' programs, absences, the summary and the outcome."""
        time = float(str(news.about.get("virtual_seconds", self._time)))
        found = []
        endings: dict[str, list[str]] = {}
        for party, note in self._endings:
            if note != "completed":
                endings.setdefault(note, []).append(party)
        for note, parties in endings.items():
            groups = [[party] for party in parties] if len(parties) <= _ALIKE else [parties]
            for group in groups:
                text = f"ends: {note}"
                found.append(Line(self._last, time, "ending", _names(group), text, parties=tuple(group)))
        reason = f": {news.about['reason']}" if news.about.get("reason") else ""
        outcome = Line(self._last, time, "outcome", "run", f"{news.about['outcome']}{reason}")
        return [*found, *self._of_absences(), *self._summary(), outcome]

    def _summary(self) -> list[Line]:
        """The lines with the numbers of lost, repeated and refused messages."""
        messages = list(self._facts.messages.made)
        why = Counter(reason for one in messages for _, reason in one.lost)
        again = sum(one.again for one in messages)
        refused = Counter(one.refused[1] for one in messages if one.refused is not None)
        found = []
        if why or again:
            unreceived = sum(one.received is None and bool(one.lost) for one in messages)
            lost = ", ".join(f"{count} {reason}" for reason, count in why.items())
            ends = f"{again} sent again; {unreceived} of these messages not received"
            found.append(f"copies of messages lost: {lost or 'none'}; {ends}")
        if refused:
            found.append("messages refused: " + ", ".join(f"{count} {reason}" for reason, count in refused.items()))
        if self._strikes > _STRIKES and not self._everything:
            found.append(f"faults of messages: {self._strikes} struck, of which the first {_STRIKES} are shown")
        return [Line(self._last, self._time, "summary", "network", text) for text in found]

    @staticmethod
    def _line(row: Row, kind: str, text: str, cause: Cause = _NONE, parties: Iterable[str] = ()) -> Line:
        named = tuple(
            dict.fromkeys((*parties, *filter(None, (row.party, row.peer if kind in ("fault", "return") else ""))))
        )
        because, step = cause.reasons, row.step
        return Line(row.n, row.time, kind, row.party, text, because, "", step, row.round, named, cause.chains)

    @staticmethod
    def _wait_line(row: WaitEnded, wait: Waiting, kind: str, text: str, cause: Cause, parties: Iterable[str]) -> Line:
        named = tuple(dict.fromkeys((*parties, wait.party)))
        because, number = cause.reasons, wait.stamp[0]
        return Line(row.n, row.time, kind, wait.party, text, because, "", wait.step, number, named, cause.chains)


def _afterwards(one: Message) -> str:
    received = "not received" if one.received is None else f"received at {format_duration(one.received)}"
    return f"sent again {one.again} time{'s' * (one.again != 1)}, {received}" if one.again else "not sent again"


def _names(names: Iterable[str]) -> str:
    """The first names, with the number of further ones."""
    every = list(names)
    return ", ".join(every[:_ALIKE]) + (f" and {len(every) - _ALIKE} more" if len(every) > _ALIKE else "")


def events(run: Result | str | Path, *, everything: bool = False, unfolded: bool = False) -> list[Line]:
    """Return the events of a run, in virtual time, with their causes, as `tacit events` prints them.

    `run` is a result or a run's folder; for a run in progress the result has the events so far. `everything`: a line
    for every event; `unfolded`: a line for each loss and missed deadline, even if its cause has a line already. Each
    line has time, party, text, because and more. Raises FolderError, a ValueError, for a folder without a run.
    """
    check_type("run", run, (Result, str, Path), "a Result, or a run's folder as str or Path")
    folder = run.folder if isinstance(run, Result) else Path(run)
    story, goes_on = Story(everything=everything, unfolded=unfolded), is_under_way(folder)
    news, lines = story.look(Record(folder))
    return lines if goes_on or news.ended else [*lines, *story.break_off()]


def absences(folder: Path, losses: Iterable[Loss] | None = None, seen: Seen | None = None) -> list[Absence]:
    """An entry for each cause of the `losses` of the run in `folder`; by default of all recorded losses.

    `seen` is the part of its record that has been read already. Raises FolderError.
    """
    if losses is not None:
        facts = Facts() if seen is None else seen.facts
        news = Record(folder).news(facts.add, (), facts.transfers) if seen is None else seen.news
        facts.take_answers(news)
        causes = Causes(facts, datagrams=news.about.get("transport") == "datagram")
        return grouped(losses, facts, lambda loss: causes.of_loss(loss.party, loss.round, loss.time))
    story = Story()
    story.look(Record(folder))
    return story.absences(losses)
