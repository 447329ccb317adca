"""All results of reading the events of a record once: facts, the critical path, and the data of a timeline."""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Any

from tacit.scenarios.seeing.critical_path import Segment, Walk
from tacit.scenarios.seeing.facts import Facts
from tacit.scenarios.seeing.messages import MessageColumns
from tacit.scenarios.seeing.reading import AnyRow, Delivery, Record, Row, Sending, Transfers, WaitBegun, WaitEnded

__all__ = ["Seen"]

_DOINGS = frozenset(("enter", "leave", "compute"))


class Seen:
    """The record of the run in `folder`, as read now. Raises FolderError.

    `news` has the events of faults only. `end` is the time of the last event of the run, `moments` are the times of all
    events, each once. `doings` are the times of each party's activities, from its first job on; `last_round` is the
    latest round of any party.
    """

    def __init__(self, folder: Path) -> None:
        self.facts = Facts()
        self._named: dict[str, None] = {}  # in the order of their first, which is nearly that of their numbers
        self.moments, self._last = array("d"), -1.0
        self.doings: dict[str, array[float]] = defaultdict(lambda: array("d"))
        self.last_round = 0
        self._walk = Walk(folder, self.facts)
        self._takers: dict[str, tuple[Callable[[Any], None], ...]] = {}  # the functions for each kind of event
        self.news = Record(folder).news(self._see, ("fault",), Transfers(self._see_sending, self._see_delivery))
        self._takers.clear()  # they refer to this object, and only the garbage collector would free it
        self.facts.take_answers(self.news)
        self._named.update(dict.fromkeys(self.facts.messages.parties))
        last = max(self.moments, default=0.0)
        self.end = float(str(self.news.about.get("virtual_seconds", last)))

    @cached_property
    def parties(self) -> list[str]:
        """All that the record names: the server, then the clients by number."""
        groups: dict[tuple[bool, str], list[tuple[float, str]]] = defaultdict(list)
        for name in filter(None, self._named):
            role, _, number = name.partition("/")
            groups[name != "server", role].append((float(number) if number.isdecimal() else math.inf, name))
        return [name for group in sorted(groups) for _, name in sorted(groups[group])]

    @cached_property
    def messages(self) -> MessageColumns:
        """All messages that were sent, in columns; senders and receivers are places in `parties`."""
        return self.facts.messages.columns(self.parties)

    def _see_sending(self, sending: Sending) -> bool:
        """Record a sending; returns False if its message is known already, as of a fault that is recorded before."""
        if not self.facts.send(sending):
            return False
        if sending.time != self._last:
            self._last = sending.time
            self.moments.append(sending.time)
        self._walk.send(sending)
        if sending.party in self.facts.jobs:
            self.doings[sending.party].append(sending.time)
        if sending.round > self.last_round:
            self.last_round = sending.round
        return True

    def _see_delivery(self, delivery: Delivery) -> bool:
        """Record a delivery whose sending is recorded; returns False for others, as in the record of one party."""
        if (receiver := self.facts.deliver(delivery)) is None:
            return False
        if delivery.time != self._last:
            self._last = delivery.time
            self.moments.append(delivery.time)
        self._walk.deliver(delivery, receiver)
        return True

    def _see(self, row: AnyRow) -> None:
        if row.time != self._last:
            self._last = row.time
            self.moments.append(row.time)
        for take in self._takers.get(row.kind) or self._takers_of(row.kind):
            take(row)

    def _takers_of(self, kind: str) -> tuple[Callable[[Any], None], ...]:
        """The functions that record events of that kind, looked up once per kind, since a large run has many events."""
        more: dict[str, tuple[Callable[[Any], None], ...]] = {
            "send": (self._do,),  # sender and receiver are those of the message
            "wait": (self._name_waiting,),
            "waited": (self._end_wait,),
        }
        own = more.get(kind) or ((self._name, self._do) if kind in _DOINGS else (self._name,))
        takers = self.facts.taker(kind), self._walk.taker(kind), *own
        return self._takers.setdefault(kind, tuple(take for take in takers if take is not None))

    def _name(self, row: Row) -> None:
        self._named[intern(row.party)] = None
        if not row.message:
            self._named[row.sender] = self._named[row.receiver] = None

    def _name_waiting(self, row: WaitBegun) -> None:
        self._named[row.party] = None

    def _end_wait(self, row: WaitEnded) -> None:
        wait = self.facts.waits.get(row.wait)
        if wait is not None and wait.party in self.facts.jobs:
            self.doings[wait.party].append(row.time)

    def _do(self, row: Row) -> None:
        if row.party in self.facts.jobs:
            self.doings[row.party].append(row.time)
        if row.round > self.last_round and row.kind in ("send", "enter"):
            self.last_round = row.round

    def path(self, end: float | None = None) -> list[Segment]:
        """The critical path up to `end`, by default the end of the run."""
        return self._walk.back(self.end if end is None else end)
