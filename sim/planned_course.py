"""How long what is planned takes, and the bytes held meanwhile: links, processors and waits, without the parties.

Messages of the planned sizes go through the links of a run with the same seed, whose latencies they draw, and jobs
take the cores of their party, one after another; messages are handled as in a run. Nothing is lost, and nothing is
computed.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sim.access import Access
from sim.clock import Environment
from sim.compute import Work
from sim.conditions import Conditions
from sim.handling import Handler
from sim.link import Pipe
from sim.machine import Jobs
from sim.pace import Span
from sim.planned import Onlook, Planned, PlannedMessage, PlannedReaction, PlannedWait, PlannedWork, travelling_sizes
from sim.planned_links import PlannedLinks

__all__ = ["Course", "planned_course"]


@dataclass(frozen=True)
class Course:
    """Virtual seconds until all is done, and the most bytes of messages that were on their way or not used up yet.

    `messages` are those that were sent, in the order in which they were planned: some are planned as the course goes
    on, by reactions, and some are dropped by a message that ends what a party does.
    """

    seconds: float
    most_held: int
    messages: list[PlannedMessage]


def planned_course(
    planned: Iterable[Planned],
    access: Callable[[str], Access],
    conditions: Conditions,
    seconds: Callable[[Work], float],
    seed: int,
    hub: str = "server",
    onlook: Onlook | None = None,
) -> Course:
    """The course of all that is `planned`; `seconds`: what work takes on one core of speed 1.

    Raises RuntimeError where a party waits for what nobody sends.
    """
    schedule = _Schedule(access, conditions, seconds, seed, hub, onlook)
    for one in planned:
        schedule.add(one)
    return schedule.run()


_Place = tuple[str, str]
"""A party and its strand."""


@dataclass
class _Strand:
    """What is left to do, in order, and what has been received of what may be waited for.

    `coming`: what is to be done each time that it begins again. `unused`: the bytes received since it last did
    something with what it has received. `senders`: by the types that it reacts to, whose messages are there, of which
    round. `job`: what goes on.
    """

    party: "_Party"
    to_do: deque[tuple[Any, ...]] = field(default_factory=deque)
    coming: deque[deque[tuple[Any, ...]]] = field(default_factory=deque)
    received: Counter[str] = field(default_factory=Counter)
    unused: int = 0
    listed: Counter[str] = field(default_factory=Counter)
    waits: Callable[[], bool] | None = None
    senders: dict[str, deque[tuple[str, int]]] = field(default_factory=dict)
    job: Span | None = None

    @property
    def listed_last(self) -> deque[tuple[Any, ...]]:
        """Where the plan goes on."""
        return self.coming[-1] if self.coming else self.to_do


@dataclass
class _Party:
    """A party, with its strands that the main one has not waited for yet in the plan."""

    name: str
    access: Access
    up: Pipe | None
    down: Pipe | None
    running: Jobs
    handler: Handler | None
    strands: dict[str, _Strand] = field(default_factory=dict)
    open: dict[str, None] = field(default_factory=dict)
    free: int = 1
    jobs: deque[Callable[[], object]] = field(default_factory=deque)


class _Schedule:
    def __init__(
        self,
        access: Callable[[str], Access],
        conditions: Conditions,
        seconds: Callable[[Work], float],
        seed: int,
        hub: str,
        onlook: Onlook | None,
    ) -> None:
        self._env, self._onlook, self._sent = Environment(), onlook, 0
        self._access, self._seconds = access, seconds
        self._center, self._hub = hub, hub if conditions.topology == "star" else ""
        self._parties: dict[str, _Party] = {}
        self._links = PlannedLinks(self._env, conditions, seed)
        self._left = 0  # to do, of all
        self._held = self._most = 0
        self._messages: dict[int, PlannedMessage] = {}
        self._calls: set[str] = set()
        self._idle: dict[int, _Strand] = {}  # with something to do since the course began

    def add(self, one: Planned) -> None:
        """Add to what its parties do."""
        match one:
            case PlannedMessage():
                sizes, kind = travelling_sizes(one), f"{type(one.message).__name__} {one.step} {one.round}"
                receivers = [(name, sizes[len(name.encode())]) for name in one.receivers]
                self._messages[id(one)] = one
                self._append(one.sender, one.strand, ("send", receivers, kind, one))
                for name in one.receivers if one.ends else ():
                    self._append(name, one.into, ("end", one))
                if one.calls:
                    self._calls.add(kind)
                if one.awaited:
                    for name in one.receivers:
                        self._await(name, one.into, kind, 1)
            case PlannedWork():
                self._append(one.party, one.strand, ("work", self._seconds(one.work), one))
            case PlannedWait():
                self._await(one.party, one.strand, f"{one.kind.__name__} {one.step} {one.round}", one.count)
            case PlannedReaction():
                self._strand(self._party(one.party), "").senders.setdefault(one.kind.__name__, deque())
                self._append(one.party, "", ("react", one.kind.__name__, one.then))

    def run(self) -> Course:
        """Do all of it."""
        for party in list(self._parties.values()):
            if "" in party.strands:
                self._begin(party.strands[""])
        while self._left and not (self._calls and self._all_rest()):
            if not self._env.live:
                raise RuntimeError(f"the plan waits for what nobody sends: {'; '.join(self._stuck())}")
            self._env.step()
        for strand in self._strands() if self._left else ():
            self._drop(strand)
        return Course(float(self._env.now), self._most, list(self._messages.values()))

    def _strands(self) -> Iterator[_Strand]:
        return (strand for party in self._parties.values() for strand in party.strands.values())

    def _all_rest(self) -> bool:
        """Whether each party is done, or waits to be called."""
        hub = self._parties.get(self._center)
        if hub is not None and any(strand.to_do for strand in hub.strands.values()):
            return False  # looked at first, as there may be many parties
        return all(
            not strand.to_do
            or (strand.waits is not None and strand.to_do[0][0] == "wait" and strand.to_do[0][1] in self._calls)
            for strand in self._strands()
        )

    def _stuck(self) -> list[str]:
        return [
            f"{party.name}{f' ({name})' if name else ''}: {strand.to_do[0]}"
            for party in self._parties.values()
            for name, strand in party.strands.items()
            if strand.to_do
        ]

    # The plan

    def _append(self, name: str, strand: str, what: tuple[Any, ...]) -> None:
        party = self._party(name)
        if strand:
            if strand not in party.open:
                party.open[strand] = None
                self._push(self._strand(party, ""), ("fork", strand))
                self._strand(party, strand).coming.append(deque())
        elif party.open:
            self._push(self._strand(party, ""), ("join", tuple(party.open)))
            party.open.clear()
        self._push(self._strand(party, strand), what)

    def _push(self, strand: _Strand, what: tuple[Any, ...]) -> None:
        if not strand.to_do:
            self._idle[id(strand)] = strand
        strand.listed_last.append(what)
        self._left += 1

    def _await(self, name: str, strand: str, kind: str, count: int) -> None:
        where = self._strand(self._party(name), strand)
        where.listed[kind] += count
        follows = strand in where.party.open if strand else not where.party.open
        if follows and where.listed_last and where.listed_last[-1][:2] == ("wait", kind):
            where.listed_last[-1] = ("wait", kind, where.listed[kind])
        else:
            self._append(name, strand, ("wait", kind, where.listed[kind]))

    def _party(self, name: str) -> _Party:
        party = self._parties.get(name)
        if party is None:
            access = self._access(name)
            up, down = (Pipe(self._env, rate) if rate else None for rate in (access.up, access.down))
            handling, host = access.handling, access.host
            handler = Handler(self._env, handling, host) if handling is not None and host is not None else None
            party = self._parties[name] = _Party(
                name, access, up, down, Jobs(self._env, host=host), handler, free=access.cores
            )
        return party

    def _strand(self, party: _Party, name: str) -> _Strand:
        strand = party.strands.get(name)
        if strand is None:
            strand = party.strands[name] = _Strand(party)
        return strand

    # What is done

    def _begin(self, strand: _Strand) -> None:
        """Do what a strand does up to where it has to wait."""
        while strand.to_do:
            match strand.to_do[0]:
                case ("wait", kind, count):
                    if strand.received[kind] < count:
                        strand.waits = partial(self._has, strand, kind, count)
                        return
                case ("react", kind, then):
                    senders = strand.senders[kind]
                    if not senders:
                        strand.waits = partial(bool, senders)
                        return
                    self._use(strand)
                    self._done(strand)
                    self._react(strand, then(*senders.popleft()))
                    continue
                case ("send", receivers, kind, one):
                    self._use(strand)
                    self._held += sum(size for _, size in receivers)
                    self._most = max(self._most, self._held)
                    for name, size in receivers:
                        self._send(strand.party, self._parties[name], size, kind, one)
                case ("end", _):
                    pass  # all before it is done
                case ("work", seconds, one):
                    self._work(strand, seconds / strand.party.access.speed, one)
                    return
                case ("fork", name):
                    other = strand.party.strands[name]
                    other.to_do = other.coming.popleft()
                    self._done(strand)
                    self._begin(other)
                    continue
                case ("join", names):
                    if any(strand.party.strands[name].to_do for name in names):
                        strand.waits = partial(self._ended, strand.party, names)
                        return
            self._done(strand)
        main = strand.party.strands.get("")
        if main is not None and main is not strand:
            self._wake(main)

    def _react(self, strand: _Strand, planned: Iterable[Planned]) -> None:
        """Add what is `planned` now, while `strand` goes on; parties that had nothing left to do begin again."""
        self._idle.clear()
        for one in planned:
            self.add(one)
        for other in list(self._idle.values()):
            if other is not strand:
                self._begin(other)

    def _end(self, strand: _Strand, one: PlannedMessage) -> None:
        """Drop what is left to do of what was listed before the message `one`, which has arrived."""
        if not any(what[0] == "end" and what[1] is one for what in strand.to_do):
            return
        if strand.job is not None:
            strand.party.running.end(strand.job)
            self._free(strand.party)
        strand.job = strand.waits = None
        self._drop(strand, ("end", one))
        self._begin(strand)

    def _drop(self, strand: _Strand, before: tuple[Any, ...] = ()) -> None:
        """Leave undone what is listed `before` something, or all."""
        while strand.to_do and (what := strand.to_do[0]) != before:
            if what[0] == "send":
                del self._messages[id(what[-1])]
            self._done(strand)

    def _done(self, strand: _Strand) -> None:
        strand.to_do.popleft()
        self._left -= 1

    def _wake(self, strand: _Strand) -> None:
        if strand.waits is not None and strand.waits():
            strand.waits = None
            self._begin(strand)

    @staticmethod
    def _has(strand: _Strand, kind: str, count: int) -> bool:
        return strand.received[kind] >= count

    @staticmethod
    def _ended(party: _Party, names: tuple[str, ...]) -> bool:
        return not any(party.strands[name].to_do for name in names)

    def _work(self, strand: _Strand, seconds: float, one: PlannedWork) -> None:
        party = strand.party

        def end() -> None:
            assert strand.job is not None
            party.running.end(strand.job)
            strand.job = None
            self._free(party)
            self._use(strand)
            self._done(strand)
            self._begin(strand)

        def begin() -> None:
            party.free -= 1
            if self._onlook is not None:
                self._onlook.job(self._env.now, one, seconds)
            strand.job = party.running.begin(seconds, end)

        if party.free:
            begin()
        else:
            party.jobs.append(begin)

    @staticmethod
    def _free(party: _Party) -> None:
        """Give a core back, and begin the job that waits for one."""
        party.free += 1
        if party.jobs:
            party.jobs.popleft()()

    def _send(self, near: _Party, far: _Party, size: int, kind: str, one: PlannedMessage) -> None:
        """Send the messages of `one`, of `size` bytes, as one that takes as long; one of them is held at a time."""
        self._sent += 1
        arrive = partial(self._arrive, far, kind, size, one, self._sent)
        hop = partial(self._hop, one, self._sent, far.name, size)
        if self._hub and self._hub not in (near.name, far.name):
            hub = self._party(self._hub)
            hop(near, hub, partial(hop, hub, far, arrive))
        else:
            hop(near, far, arrive)

    def _hop(
        self, one: PlannedMessage, number: int, receiver: str, size: int, near: _Party, far: _Party,
        then: Callable[[], object],
    ) -> None:  # fmt: skip
        if self._onlook is not None:
            self._onlook.hop(self._env.now, one, number, receiver, size, near.name, far.name)
        arrive = then if far.handler is None else partial(far.handler.take, size, then, then, one.times)
        if near.handler is None:
            self._links.send(near, far, size, one.times, arrive)
        else:
            send = partial(self._links.send, near, far, size, one.times, arrive)
            near.handler.take(size, send, send, one.times)

    def _use(self, strand: _Strand) -> None:
        self._held -= strand.unused
        strand.unused = 0

    def _arrive(self, party: _Party, kind: str, size: int, one: PlannedMessage, number: int) -> None:
        if self._onlook is not None:
            self._onlook.arrived(self._env.now, one, number, party.name, size)
        strand = self._strand(party, one.into)
        strand.received[kind] += 1
        strand.unused += size
        if strand.senders and (senders := strand.senders.get(type(one.message).__name__)) is not None:
            senders.append((one.sender, one.round))
        if one.ends:
            self._end(strand, one)
        self._wake(strand)
