"""The model of a timeline, made from a run's record: messages, jobs, waits, faults, steps and rounds in virtual
seconds.

Times are as recorded. Three things are derived. A job ends when its seconds are over, or when its party goes down. A
job of a party that is slowed or paused meanwhile lasts until the party's next activity. A fault of a link is drawn at
both its ends. Idle spans are folded if they are long.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.scenarios.running.record_format import VIEW_OF
from tacit.scenarios.seeing.critical_path import Segment
from tacit.scenarios.seeing.facts import Facts, Job, Waiting
from tacit.scenarios.seeing.messages import Message, MessageColumns
from tacit.scenarios.seeing.reading import News, Row, opened
from tacit.scenarios.seeing.seen import Seen
from tacit.sim.trace import Fact
from tacit.sim.units import format_duration

__all__ = ["Band", "Bar", "Copy", "Gap", "Mark", "Model", "Phase", "folds", "model_of"]

_NAMED = 4
"""The most parties that a wait names."""

_STOPS = ("paused", "down")

_SHARE = 0.08
"""The length from which on an idle span is folded, as a share of the time that is not folded."""

_SHORTEST = 0.002
"""The least length of a folded span, as a share of the whole run, for runs with hardly any busy time."""

_MARGIN = 0.1
"""The part of an idle span that remains at each end of a fold, as a share of the least folded length."""

Span = tuple[float, float]


class Copy(NamedTuple):
    """A row of the view `hops`, for a message of which a copy was lost, dropped or sent again."""

    number: int
    sent: float
    ended: float | None
    sender: str
    receiver: str
    fate: str
    why: str
    note: str
    fact: str


class Bar(NamedTuple):
    """A job, or several consecutive `jobs`: its times, and its seconds at full speed."""

    party: str
    step: str
    began: float
    ended: float
    seconds: float
    jobs: int = 1


class Gap(NamedTuple):
    """A wait: the types of its messages, and its end in words; `ended` is None if it has not ended."""

    party: str
    step: str
    types: tuple[str, ...]
    began: float
    ended: float | None
    what: str
    how: str
    end: str


class Band(NamedTuple):
    """A lasting fault: down, paused, slow, cut or held, in the lanes of `parties`."""

    kind: str
    parties: tuple[str, ...]
    began: float
    ended: float | None
    text: str


class Mark(NamedTuple):
    """An event at one moment: a crash, a return, a loss, a fault without an end."""

    kind: str
    party: str
    time: float
    text: str


class Phase(NamedTuple):
    """A round; or a step, from the first party's entry to the first entry into another step."""

    name: str
    began: float
    ended: float
    text: str = ""


@dataclass
class Model:
    """All data of a timeline. `end` is the last time in the record; `ended` is true if the run had ended by then."""

    end: float
    ended: bool
    parties: list[str]
    columns: MessageColumns
    """All messages; `messages` are those of them that are drawn singly."""
    messages: Sequence[Message]
    copies: list[Copy] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    path: list[Segment] = field(default_factory=list)
    rounds: list[Phase] = field(default_factory=list)
    steps: list[Phase] = field(default_factory=list)
    folded: list[Span] = field(default_factory=list)
    counted: str = ""
    """A sentence on the part that is only counted and not drawn; "" if everything is drawn."""

    @property
    def gaps(self) -> Iterator[Gap]:
        """The `waits` in words."""
        return map(_gap, self.waits)


_COPIES = f"""
WITH events AS MATERIALIZED (SELECT * FROM event_rows WHERE message IN (
    SELECT message FROM event_rows WHERE kind IN ('lose', 'drop') OR fact = 'again')),
{VIEW_OF["hops"].common}
SELECT message, sent, ended, sender, receiver, fate, why, note, fact FROM hops ORDER BY sent, copy, hop"""
"""The view `hops` for messages with troubles only; for all messages it would first join every event with the others."""
_LOSSES = "SELECT party, time, 'is lost in round ' || round || ' at ' || step || ': ' || action FROM losses"


def model_of(folder: Path, seen: Seen | None = None) -> Model:
    """The timeline of the run in `folder`, or of its recorded part if it has not ended. Raises FolderError.

    `seen` is the part of its record that has been read already.
    """
    with opened(folder) as connection:
        copies = [Copy._make(row) for row in connection.execute(_COPIES)]
        lost = [Mark._make(("lost", *row)) for row in connection.execute(_LOSSES)]
    return _model_of(copies, lost, seen or Seen(folder))


def _model_of(copies: list[Copy], lost: list[Mark], seen: Seen) -> Model:
    facts, news = seen.facts, seen.news
    end = max(max(seen.moments, default=0.0), seen.end)
    model = Model(end, news.ended, seen.parties, seen.messages, seen.messages)
    model.copies = [one for one in copies if one.number in facts.messages]
    model.bars = sorted(_bars(facts, seen.doings, end), key=lambda bar: bar.began)
    model.waits = sorted(facts.waits.values(), key=lambda wait: wait.began)
    model.bands = _bands(facts, model.parties)
    model.marks = sorted([*_marks(news), *lost], key=lambda mark: mark.time)
    model.path = seen.path(end)
    model.rounds = list(_rounds(seen, end))
    model.steps = _steps(facts, end)
    jobs = np.array([(bar.began, bar.ended) for bar in model.bars], np.float64).reshape(-1, 2)
    model.folded = folds(np.append(seen.moments, end), np.concatenate([*_under_way(model, facts), jobs]))
    return model


def _bars(facts: Facts, doings: Mapping[str, Sequence[float]], end: float) -> Iterator[Bar]:
    for party, jobs in facts.jobs.items():
        for job in jobs:
            yield Bar(party, job.step, job.began, min(end, _end_of(job, party, facts, doings[party], end)), job.seconds)


def _end_of(job: Job, party: str, facts: Facts, times: Sequence[float], end: float) -> float:
    """The time at which a job ended; `times` are those of its party's activities."""
    ended = job.began + job.seconds
    if any(facts.spell(kind, party, job.began, ended) for kind in ("slow", "paused")):
        place = bisect_right(times, job.began)
        ended = max(ended, times[place] if place < len(times) else end)
    downs = [one.began for one in facts.spells_of(party) if one.kind == "down" and job.began <= one.began < ended]
    return min([ended, *downs])


def _gap(wait: Waiting) -> Gap:
    ends = {
        "answered": f"answered, last by {wait.last}" if wait.last else "answered",
        "deadline": f"the deadline of {format_duration(wait.deadline)} passed"
        + (f"; missing: {_named(wait.missing)}" if wait.missing else ""),
        "gone": "all that were missing were known to be gone" + (f": {_named(wait.missing)}" if wait.missing else ""),
        "until": "another message was received",
        "": f"not ended in the record; deadline {format_duration(wait.deadline)}",
    }
    text = ends.get(wait.how, wait.how)
    return Gap(wait.party, wait.step, tuple(wait.types), wait.began, wait.ended, _named(wait.sources), wait.how, text)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _bands(facts: Facts, parties: Sequence[str]) -> list[Band]:
    known, found = set(parties), []
    for party in filter(facts.with_spells.__contains__, parties):
        for one in facts.spells_of(party):
            lanes = (party, one.peer) if one.peer in known and one.peer != party else (party,)
            found.append(Band(one.kind, lanes, one.began, one.ended, one.note))
    return sorted(found, key=lambda band: band.began)


def _marks(news: News) -> Iterator[Mark]:
    for row in news.rows:
        if isinstance(row, Row) and row.kind == "fault" and row.party:
            is_back = row.fact == Fact.OVER and row.detail == Fact.DOWN
            where = f", in {row.step}" if row.step and row.step not in row.note else ""
            if is_back or row.fact == Fact.DOWN:
                yield Mark("return" if is_back else "crash", row.party, row.time, f"{row.note}{where}")


def _rounds(seen: Seen, end: float) -> Iterator[Phase]:
    """Yield the rounds that have ended, and the current one, whose beginning is assumed at the end of the one
    before."""
    last, rounds = 0.0, seen.news.rounds
    for one in rounds:
        problem = f"lost: {one.problem}" if one.problem else f"{len(one.answered)} answers"
        yield Phase(str(one.round), one.began, end if one.ended is None else one.ended, problem)
        last = end if one.ended is None else one.ended
    number = seen.last_round
    if number > max((one.round for one in rounds), default=0) and end > last:
        yield Phase(str(number), last, end, "not ended in the record")


def _steps(facts: Facts, end: float) -> list[Phase]:
    began = sorted((min(entered.values()), n, step) for n, ((step, _, _), entered) in enumerate(facts.entered.items()))
    ends = [time for time, _, _ in began[1:]] + [end] * bool(began)
    found = [Phase(step, time, ended) for (time, _, step), ended in zip(began, ends, strict=True)]
    return [one for one in found if one.ended > one.began]


def _under_way(model: Model, facts: Facts) -> Iterator[NDArray[np.float64]]:
    """Yield the times at which messages were in transit, without messages that a fault held up.

    Each array has a row for each message or copy, its begin and its end in virtual seconds.
    """
    columns, copied = model.columns, {one.number for one in model.copies}
    stopped = {name for name in facts.with_spells if any(one.kind in _STOPS for one in facts.spells_of(name))}
    stops = np.fromiter((name in stopped for name in model.parties), np.bool_, len(model.parties))
    moves = ~(np.isnan(columns.received) | np.isin(columns.number, list(copied)))
    for place in np.flatnonzero(moves & columns.noted).tolist():
        moves[place] = not columns[place].struck
    may_be_held = stops[columns.sender] | stops[columns.receiver] | bool(facts.of_links)
    for place in np.flatnonzero(moves & may_be_held).tolist():
        ends = model.parties[columns.sender[place]], model.parties[columns.receiver[place]]
        moves[place] = not _is_held(*ends, float(columns.sent[place]), float(columns.received[place]), stopped, facts)
    yield np.column_stack((columns.sent[moves], columns.received[moves]))
    spans = []
    for copy in model.copies:
        if copy.ended is None or ((known := facts.messages.get(copy.number)) is not None and known.struck):
            continue
        if not _is_held(copy.sender, copy.receiver, copy.sent, copy.ended, stopped, facts):
            spans.append((copy.sent, copy.ended))
    yield np.array(spans, np.float64).reshape(-1, 2)


def _is_held(sender: str, receiver: str, sent: float, ended: float, stopped: set[str], facts: Facts) -> bool:
    ends = sender, receiver
    for party in ends:
        if party in stopped and any(one.kind in _STOPS and one.lasts(sent, ended) for one in facts.spells_of(party)):
            return True
    links = (link for link in facts.of_links if link.lasts(sent, ended))
    return any(link.concerns(*ends) or link.party in ends for link in links)


def folds(moments: ArrayLike, busy: ArrayLike) -> list[Span]:
    """The spans to fold, in order. None contains one of the `moments`, or a part of a busy span.

    `busy` has a row for each span, its begin and its end; one that ends before it begins is ignored.
    """
    begins, ends = _spans(np.asarray(moments, np.float64), np.asarray(busy, np.float64).reshape(-1, 2))
    if not len(begins):
        return []
    reached = np.maximum.accumulate(ends)
    gaps = np.flatnonzero(begins[1:] > reached[:-1])
    idle: list[Span] = list(zip(reached[gaps].tolist(), begins[gaps + 1].tolist(), strict=True))
    whole = float(reached[-1] - begins[0])
    least = max(_SHORTEST * whole, _least([end - begin for begin, end in idle], whole))
    margin = _MARGIN * least
    found = [(begin, begin + margin, end - margin, end) for begin, end in idle if end - begin > least]
    return [(start, stop) for begin, start, stop, end in found if begin < start < stop < end]


def _spans(moments: NDArray[np.float64], busy: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The begins and ends of all spans, in the order of begins; a moment is a span."""
    spans = busy[busy[:, 0] <= busy[:, 1]]
    begins, ends = np.concatenate((moments, spans[:, 0])), np.concatenate((moments, spans[:, 1]))
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order]


def _least(lengths: list[float], whole: float) -> float:
    """The length above which idle spans are folded: a share of the time that then remains."""
    least = _SHARE * (whole - math.fsum(lengths))
    while True:
        shown = whole - math.fsum(length for length in lengths if length > least)
        longer = max(least, _SHARE * shown)
        if longer <= least * (1 + 1e-9) or not any(least < length <= longer for length in lengths):
            return longer
        least = longer
