"""The trace of a run: its record as processes, threads, slices, flows and counters.

| in the trace | meaning |
| --- | --- |
| a process | a party; the server first |
| a thread `core N` of it | its jobs, on the first free core, because the record does not name cores |
| its tracks `events`, `steps`, `waits` | faults, as bands if they last, and losses; its steps; its waits |
| a slice on `sent` | a message, until it is received, lost for good or the record ends, with its bytes |
| a flow | from the message to the moment on `received` at which it is delivered |
| counters | bytes in flight of all parties and of each party; measurements, such as accuracy |
| tracks without a process | rounds, and the critical path |

A message counts as bytes in flight while a copy of it is on a link; bytes that are on a link at the end of the record
are removed there. Jobs and waits without an end in the record end as in the timeline.
"""

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit.parties.learning.extras import MissingExtra, require
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.seeing.messages import Message
from tacit.scenarios.seeing.reading import opened
from tacit.scenarios.seeing.timeline.model import Band, Model, model_of

if TYPE_CHECKING:
    from tacit.scenarios.seeing.tracing.writer import Counter, Lanes, Writer

__all__ = ["check_trace", "write_trace"]


def check_trace() -> None:
    """Raise FolderError unless a trace can be written here."""
    try:
        require("perfetto", "trace", "a trace for Perfetto")
    except MissingExtra as missing:
        raise FolderError(str(missing)) from None


def write_trace(folder: Path, path: Path) -> int:
    """Write the trace of the run in `folder` to the new file `path`, and return the number of messages in it.

    For a run in progress, or one that was killed, the trace has the recorded part. Raises FolderError and OSError.
    """
    from tacit.scenarios.seeing.tracing.writer import Writer

    model = model_of(folder)
    with opened(folder) as connection, path.open("xb") as file:
        try:
            writer = Writer(file)
            _Trace(writer, model, connection).write()
            writer.close()
        except BaseException:
            path.unlink()
            raise
    return len(model.messages)


class _Item(NamedTuple):
    """An entry of the trace that begins at a time, and the function that writes it."""

    time: float
    write: Callable[[], None]


class _Tracks:
    """The tracks of a party, each made on first use."""

    def __init__(self, writer: "Writer", party: str, pid: int) -> None:
        self._writer, self._pid = writer, pid
        self.process = writer.process(party, pid)
        self.metrics: dict[str, int] = {}

    def _lanes(self, name: str, rank: int, *, nested: bool = False) -> "Lanes":
        from tacit.scenarios.seeing.tracing.writer import Lanes

        return Lanes(lambda number: self._writer.track(name, self.process, rank), nested=nested)

    @cached_property
    def events(self) -> "Lanes":
        return self._lanes("events", 1)

    @cached_property
    def steps(self) -> "Lanes":
        return self._lanes("steps", 2, nested=True)

    @cached_property
    def waits(self) -> "Lanes":
        return self._lanes("waits", 3)

    @cached_property
    def sent(self) -> "Lanes":
        return self._lanes("sent", 4)

    @cached_property
    def received(self) -> int:
        return self._writer.track("received", self.process, 5)

    @cached_property
    def cores(self) -> "Lanes":
        from tacit.scenarios.seeing.tracing.writer import Lanes

        def make(number: int) -> int:
            return self._writer.thread(self.process, self._pid, self._pid * _THREADS + number, f"core {number}")

        return Lanes(make)

    @cached_property
    def in_flight(self) -> "Counter":
        from tacit.scenarios.seeing.tracing.writer import Counter

        return Counter(self._writer, self._writer.counter("bytes in flight", self.process, of_bytes=True))

    def metric(self, name: str) -> int:
        if name not in self.metrics:
            self.metrics[name] = self._writer.counter(name, self.process)
        return self.metrics[name]


_THREADS = 1000
"""The difference between the thread numbers of one party and those of the next."""


class _Trace:
    """Writes all entries, merged from sources that are each in the order of time."""

    def __init__(self, writer: "Writer", model: Model, connection: sqlite3.Connection) -> None:
        from tacit.scenarios.seeing.tracing.writer import Counter, Lanes

        self._writer, self._model, self._connection = writer, model, connection
        self._rounds = Lanes(lambda number: writer.track("rounds"))
        self._path = Lanes(lambda number: writer.track("critical path"))
        self._in_flight = Counter(writer, writer.counter("bytes in flight", of_bytes=True))
        self._parties: dict[str, _Tracks] = {}
        for party in model.parties:
            self._tracks_of(party)
        self._last = {one.number: one.ended for one in model.copies}  # the last copy's end is the message's

    def write(self) -> None:
        """Write everything."""
        sources: Iterable[Iterable[_Item]] = (
            self._whole(), self._events(), self._metrics(), self._steps(), self._jobs(), self._waits(),
            self._messages(), self._hops(),
        )  # fmt: skip
        for item in heapq.merge(*sources, key=lambda item: item.time):
            item.write()

    def _tracks_of(self, party: str) -> _Tracks:
        """The tracks of `party`; for "", those of the network."""
        if party not in self._parties:
            self._parties[party] = _Tracks(self._writer, party or "network", len(self._parties) + 1)
        return self._parties[party]

    def _slice(
        self, lanes: "Lanes", began: float, ended: float | None, name: str, category: str, facts: dict[str, Any]
    ) -> _Item:
        end = max(began, self._model.end if ended is None else ended)

        def write() -> None:
            self._writer.slice(lanes.place(began, end), began, end, name, category, facts)

        return _Item(began, write)

    def _instant(self, party: str, time: float, name: str, category: str, facts: dict[str, Any]) -> _Item:
        return _Item(
            time, lambda: self._writer.instant(self._tracks_of(party).events.first, time, name, category, facts)
        )

    def _whole(self) -> Iterator[_Item]:
        """The entries for rounds and for the critical path."""
        found = [
            self._slice(self._rounds, one.began, one.ended, f"round {one.name}", "round", {"how it ended": one.text})
            for one in self._model.rounds
        ]
        for one in self._model.path:
            about = {"step": one.step, "type": one.type, "seconds": one.seconds}
            name = f"{one.kind}: {one.place}"
            found.append(self._slice(self._path, one.began, one.ended, name, "critical path", about))
        return iter(sorted(found, key=lambda item: item.time))

    def _events(self) -> Iterator[_Item]:
        """The entries for faults and their states, losses, and the ends of clients' programs."""
        found = [
            self._slice(self._tracks_of(party).events, one.began, one.ended, one.kind, "fault", {"what": one.text})
            for one in self._model.bands
            for party in one.parties
        ]
        for time, party, peer, step, kind, message, note in self._rows(
            "SELECT time, party, peer, step, type, message, note FROM faults"
        ):
            facts = {"peer": peer or None, "step": step or None, "type": kind or None, "message": message or None}
            found.append(self._instant(party, time, note, "fault", facts))
        found += [
            self._instant(one.party, one.time, f"lost: {one.text}", "loss", {})
            for one in self._model.marks
            if one.kind == "lost"
        ]
        for time, party, note in self._rows("SELECT time, party, note FROM outcomes"):
            found.append(self._instant(party, time, note, "outcome", {}))
        return iter(sorted(found, key=lambda item: item.time))

    def _metrics(self) -> Iterator[_Item]:
        for time, party, name, value in self._rows("SELECT time, party, name, value FROM metrics ORDER BY time"):
            yield _Item(time, self._measured(party, name, time, value))

    def _measured(self, party: str, name: str, time: float, value: float) -> Callable[[], None]:
        from tacit.scenarios.seeing.tracing.writer import nanoseconds

        def write() -> None:
            self._writer.until(time)
            self._writer.count(self._tracks_of(party).metric(name), nanoseconds(time), float(value))

        return write

    def _steps(self) -> Iterator[_Item]:
        rows = self._rows("SELECT party, step, round, attempt, entered, left FROM steps ORDER BY entered, left DESC")
        for party, step, number, attempt, entered, left in rows:
            ended = self._broken_off(party, entered) if left is None else left
            yield self._slice(
                self._tracks_of(party).steps, entered, ended, step, "step", {"round": number, "attempt": attempt}
            )

    def _broken_off(self, party: str, entered: float) -> float | None:
        """The end of a step that has no end in the record: when the party went down or entered another step; else
        None."""
        again = "SELECT min(time) FROM events WHERE kind = 'enter' AND party = ? AND time > ?"
        (next_one,) = self._connection.execute(again, (party, entered)).fetchone()
        downs = (one.began for one in self._model.bands if self._is_down(one, party) and one.began >= entered)
        return min((time for time in (next_one, *downs) if time is not None), default=None)

    @staticmethod
    def _is_down(band: Band, party: str) -> bool:
        return band.kind == "down" and party in band.parties

    def _jobs(self) -> Iterator[_Item]:
        for one in self._model.bars:
            about = {"seconds of one core": one.seconds}
            yield self._slice(
                self._tracks_of(one.party).cores, one.began, one.ended, one.step or "(no step)", "job", about
            )

    def _waits(self) -> Iterator[_Item]:
        for one in self._model.gaps:
            types = ", ".join(one.types)
            about = {"from": one.what, "types": types, "step": one.step, "how it ended": one.end}
            yield self._slice(
                self._tracks_of(one.party).waits, one.began, one.ended, f"wait for {types}", "wait", about
            )

    def _messages(self) -> Iterator[_Item]:
        for one in self._model.messages:
            yield _Item(one.sent, lambda one=one: self._message(one))  # type: ignore[misc]

    def _message(self, one: Message) -> None:
        ended = one.received
        if ended is None:
            ended = self._last.get(one.number) if one.fate in ("lost", "dropped") else None
        end = max(one.sent, self._model.end if ended is None else ended)
        sizes = dict(zip(("payload", "sealing", "envelope"), one.sizes, strict=True))
        sizes = {"bytes": one.bytes, **sizes, "hops": one.hops}
        ends: dict[str, str | int | float | None] = {"message": one.number, "from": one.sender, "to": one.receiver}
        about = {**ends, **sizes, "step": one.step, "round": one.stamp[0], "attempt": one.stamp[1], "fate": one.fate}
        about |= {"copies lost": len(one.lost) or None, "sent again": one.again or None, "note": one.note or None}
        flow = 0 if one.received is None else one.number
        track = self._tracks_of(one.sender).sent.place(one.sent, end)
        self._writer.slice(track, one.sent, end, one.type, "message", about, flow)
        if one.received is not None:
            self._writer.arrival(self._tracks_of(one.receiver).received, one.received, one.type, "message", ends, flow)

    def _hops(self) -> Iterator[_Item]:
        """The entries for the bytes of each copy of a message, on each link of its way."""
        for sent, ended, sender, size in self._rows("SELECT sent, ended, sender, bytes FROM hops ORDER BY sent"):
            yield _Item(sent, self._carried(sent, self._model.end if ended is None else ended, sender, size))

    def _carried(self, sent: float, ended: float, sender: str, size: int) -> Callable[[], None]:
        def write() -> None:
            for counter in (self._in_flight, self._tracks_of(sender).in_flight):
                counter.change(sent, size)
                counter.change_later(max(sent, ended), -size)

        return write

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        return iter(self._connection.execute(query))
