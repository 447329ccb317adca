"""The actor that every party is: it sends, waits with a deadline, computes, takes steps, crashes and comes back.

A party's program is its `main`, one coroutine; what it does at the same time are tasks inside it. Messages of an
earlier (round, attempt) than the party's are late: they are dropped and traced. Those of a later one wait in its
mailbox until the party gets there.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol, TypeVar, overload

from parties.mailbox import Arrivals, Collected, Mailbox, NoAnswer, names_of
from sim.compute import Machine, Work
from sim.faults import Crash, Crashed
from sim.streams import Entropy
from sim.wire import (
    Frame,
    Message,
    WireError,
    announces,
    associated_data,
    decode_body,
    decode_frame,
    encode_body,
    pack_frame,
)
from sim.world import World

__all__ = ["Arrivals", "Channel", "Collected", "NoAnswer", "Party", "play"]

M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)
R = TypeVar("R")


class Channel(Protocol):
    """Seals and opens what two parties send to each other. `open` raises ValueError for what is not authentic."""

    overhead: int

    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes: ...
    def open(self, sealed: bytes, associated_data: bytes) -> bytes: ...


class _Step:
    """The context of a step that a party takes."""

    __slots__ = ("_name", "_party", "_token")

    def __init__(self, party: "Party", name: str) -> None:
        self._party, self._name = party, name

    def __enter__(self) -> None:
        party, name = self._party, self._name
        party._step = name
        party._reach(name, "before")
        party.world.note("enter", party.name, step=name)
        self._token = party._own_step.set(name)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        party, name = self._party, self._name
        party._own_step.reset(self._token)
        if kind is None:
            party._reach(name, "after")
            party.world.note("leave", party.name, step=name)


class Party:
    """One party of the protocol, attached to the world's network under its `name`.

    `up` and `down` are bytes a second (0: unlimited), `cores` and `speed` its machine. `disk` is what survives a crash.
    """

    authority = ""
    """The only party whose announcements count; "": anybody's."""

    interrupts: ClassVar[tuple[type[Message], ...]] = ()
    """Message types that end whatever the party waits for, by way of `interrupted`."""

    def __init__(
        self, world: World, name: str, *, up: float = 0.0, down: float = 0.0, cores: int = 1, speed: float = 1.0
    ) -> None:
        self.world = world
        self.name = name
        self.round = 0
        self.attempt = 0
        self.channels: dict[str, Channel] = {}
        self.incarnations: dict[str, int] = {}  # of each party heard from, the latest
        self.disk: dict[str, Any] = {}
        self.idle = False
        self.finished = False
        self._step = ""  # the latest step entered; tasks of one party may be in different ones
        self._own_step: ContextVar[str] = ContextVar(f"step of {name}", default="")
        self._own_life: ContextVar[int] = ContextVar(f"incarnation of {name}", default=0)  # of the running task
        self._mailbox = Mailbox(self, world.loop)
        self._task: asyncio.Task[None] | None = None
        self._changed: Callable[[], None] = lambda: None
        self._machine = Machine(world.loop.env, cores, speed)
        self._cores, self._speed = cores, speed
        self._endpoint = world.network.attach(name, self._receive, up, down)
        world.loop.waits[name] = self._awaited

    def __repr__(self) -> str:
        return f"<{self.name}, incarnation {self.incarnation}, {'up' if self.alive else 'down'}>"

    # Life

    @property
    def alive(self) -> bool:
        """Not crashed, or back again."""
        return self._endpoint.alive

    @property
    def incarnation(self) -> int:
        """1, and one more each time the party came back."""
        return self._endpoint.incarnation

    @property
    def step_name(self) -> str:
        """The step that the party is in, or was in last."""
        return self._step

    async def main(self) -> None:
        """The party's program."""
        raise NotImplementedError(f"{type(self).__name__} has no program")

    def start(self, changed: Callable[[], None] = lambda: None) -> None:
        """Begin `main`; `changed` is called whenever the party ends, goes idle, crashes or comes back."""
        self._changed = changed
        for fault in self.world.faults.timed(self.name):
            assert fault.time is not None
            self.world.loop.call_at(fault.time, self._strike, fault)
        self._begin()

    def crash(self, why: str = "") -> None:
        """Fall silent at once: nothing more is sent, received or computed, and memory is lost."""
        if not self.alive:
            return
        self.world.note("fault", self.name, step=self._step, note=why or "crash")
        self._endpoint.fall()
        if self._task is not None:
            self._task.cancel()
        self._changed()

    def rejoin(self) -> None:
        """Come back as a new incarnation with nothing but the disk, and begin `main` anew."""
        if self.alive:
            return
        self._endpoint.rejoin()
        self.round = self.attempt = 0
        self.channels, self._step = {}, ""
        self._mailbox = Mailbox(self, self.world.loop)
        self._machine = Machine(self.world.loop.env, self._cores, self._speed)
        self.world.note("fault", self.name, note=f"rejoin as incarnation {self.incarnation}")
        self._begin()
        self._changed()

    def _begin(self) -> None:
        self.idle = self.finished = False
        self._task = self.world.loop.create_task(self._live(), name=self.name)

    async def _live(self) -> None:
        incarnation = self.incarnation
        self._own_life.set(incarnation)
        self._own_step.set("")
        try:
            await self.main()
        except (Exception, Crashed, asyncio.CancelledError, BaseExceptionGroup):
            if self._lives(incarnation):  # what goes wrong in a party that is gone goes unnoticed
                raise
        finally:
            if self._lives(incarnation):
                self.finished = True
                self._changed()

    def _lives(self, incarnation: int) -> bool:
        return self.alive and self.incarnation == incarnation

    def _awaited(self) -> str:
        """What the party waits for, for a deadlock's report."""
        if not self.alive or self.finished:
            return ""
        return f"{self._mailbox.awaited or 'nothing that it names'} (in {self._step or 'no step'})"

    def failure(self) -> BaseException | None:
        """What `main` raised, if it ended that way."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def rest(self, idle: bool) -> None:
        """Say whether the party only waits for a round to begin; a run does not go on for the sake of those that do."""
        self.idle = idle
        self._changed()

    def _strike(self, fault: Crash) -> None:
        if self.alive and not self.finished:
            self.world.faults.fired.append(fault)
            where = f"{'before' if fault.before else 'after'} {fault.before or fault.after}"
            self.crash("crash " + (where if fault.time is None else f"at {fault.time:g} s"))
            if fault.back_after is not None:
                self.world.loop.call_later(fault.back_after, self.rejoin)

    # Steps and computing

    def step(self, name: str) -> AbstractContextManager[None]:
        """Take the step `name`: traced at both ends, and the place where a scenario's faults strike."""
        return _Step(self, name)

    def _reach(self, name: str, when: str) -> None:
        self.check_alive()
        fault = self.world.faults.at_step(self.name, name, when)
        if fault is not None:
            self._strike(fault)
            raise Crashed(self.name)

    async def compute(self, work: Work, function: Callable[..., R], *arguments: Any) -> R:
        """Run `function(*arguments)` on this party's machine; returns its result after its virtual duration.

        `work` counts the operations for the cost table. The function must depend on its arguments alone, and both
        must pickle.
        """
        self.check_alive()
        return await self.world.computing.run(
            self._machine, self.name, self._own_step.get() or self._step, work, function, *arguments
        )

    def plan(self, work: Work) -> None:
        """Announce work that is to come, for the estimate of the time left."""
        self.world.computing.plan(work)

    def entropy(self, *names: str | int) -> Entropy:
        """This incarnation's own cryptographic randomness for the purpose `names` in this round and attempt."""
        return self.world.entropy(self.name, self.incarnation, self.round, self.attempt, *names)

    # Messages

    def advance(self, round_number: int, attempt: int) -> None:
        """Enter (round, attempt); what is in the mailbox from before is late."""
        if (round_number, attempt) <= (self.round, self.attempt):
            return
        self.round, self.attempt = round_number, attempt
        for frame in self._mailbox.advance((round_number, attempt)):
            self._drop(frame, "late: of an earlier round or attempt")

    def send(self, receiver: str, message: Message) -> None:
        """Send `message`; a channel to the receiver seals it. Returns at once; the network takes its time."""
        self.check_alive()
        channel = self.channel_to(receiver)
        kind, body, sealing = type(message).__name__, encode_body(message), 0
        if channel is not None:
            bound = associated_data(kind, self.name, receiver, self.round, self.attempt)
            body, sealing = channel.seal(body, bound), channel.overhead
        frame = Frame(kind, self.name, receiver, self.incarnation, self.round, self.attempt, channel is not None, body)
        self.world.network.send(pack_frame(frame, message, self._own_step.get() or self._step, sealing))

    def channel_to(self, receiver: str) -> Channel | None:
        """The channel that seals what goes to `receiver`, or None where the link's own encryption is enough."""
        return self.channels.get(receiver)

    @overload
    async def recv(self, kinds: type[M], source: str, deadline: float) -> M: ...
    @overload
    async def recv(self, kinds: tuple[type[M], type[N]], source: str, deadline: float) -> M | N: ...
    @overload
    async def recv(self, kinds: tuple[type[M], ...], source: str, deadline: float) -> M: ...
    async def recv(self, kinds: type[Any] | tuple[type[Any], ...], source: str, deadline: float) -> Any:
        """The next message of one of `kinds` from `source`. Raises NoAnswer after `deadline` virtual seconds."""
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        with self.incoming(wanted, (source,), deadline=deadline) as arrivals:
            found = await arrivals.next()
        if found is None:
            raise NoAnswer(self.name, f"{names_of(wanted)} from {source}", deadline)
        return found[1]

    async def collect(
        self,
        kind: type[M],
        sources: Iterable[str],
        *,
        deadline: float,
        quorum: int | None = None,
        until: tuple[type[Message], ...] = (),
    ) -> Collected[M]:
        """One `kind` message from each of `sources`; a second one from the same stays in the mailbox.

        Ends when all have answered, when `quorum` of them have, after `deadline` virtual seconds, or as soon as a
        message of a type in `until` has come.
        """
        order = tuple(sources)
        need = len(order) if quorum is None else min(quorum, len(order))
        answers: dict[str, M] = {}
        if need:
            with self.incoming((kind,), order, deadline=deadline, until=until) as arrivals:
                async for source, message in arrivals:
                    answers[source] = message
                    arrivals.leave_out(source)
                    if len(answers) >= need:
                        break
        return Collected(
            {name: answers[name] for name in order if name in answers},
            tuple(name for name in order if name not in answers),
        )

    def incoming(
        self,
        kinds: tuple[type[M], ...],
        sources: Iterable[str],
        *,
        deadline: float,
        until: tuple[type[Message], ...] = (),
    ) -> Arrivals[M]:
        """Each message of one of `kinds` from `sources` as it comes.

        ``with me.incoming(...) as arrivals: async for source, message in arrivals``. Ends after `deadline` virtual
        seconds, or as soon as a message of a type in `until` has come.
        """
        return self._mailbox.arrivals(kinds, sources, deadline, until)

    async def together(self, *coroutines: Coroutine[Any, Any, R]) -> list[R]:
        """Run all at the same time and return their results. The first error ends the others and is raised as it is."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(coroutine) for coroutine in coroutines]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    def interrupted(self, source: str, message: Message) -> None:
        """Called with a message of an interrupting type; raises to end the wait."""
        raise NotImplementedError(f"{type(self).__name__} does not say what {type(message).__name__} means")

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """For the mailbox: the message in `frame`, or None after dropping what cannot be read."""
        body = frame.body
        try:
            if frame.sealed:
                channel = self.channels.get(frame.sender)
                if channel is None:
                    raise WireError(f"{frame.type} from {frame.sender} is sealed, and there is no channel")
                bound = associated_data(frame.type, frame.sender, self.name, frame.round, frame.attempt)
                body = channel.open(body, bound)
            elif frame.sender in self.channels:
                raise WireError(f"{frame.type} from {frame.sender} must be sealed, and is not")
            message = decode_body(frame, body, kind)
        except ValueError as error:
            self._drop(frame, str(error))
            return None
        self.incarnations[frame.sender] = frame.incarnation
        self.advance(frame.round, frame.attempt)
        return message

    def _receive(self, data: bytes) -> None:
        try:
            frame = decode_frame(data)
        except WireError as error:
            self.world.note("drop", self.name, note=str(error))
            return
        if self.authority and announces(frame) and frame.sender != self.authority:
            self._drop(frame, f"only {self.authority} announces")
        elif self._mailbox.is_late(frame):
            self._drop(frame, "late: of an earlier round or attempt")
        else:
            self._mailbox.put(frame)

    def _drop(self, frame: Frame, why: str) -> None:
        self.world.note("drop", self.name, step=self._step, note=f"{frame.type} from {frame.sender}: {why}")

    def check_alive(self) -> None:
        """Raises Crashed in a task of a party that is down, and in one that an earlier incarnation left behind."""
        endpoint = self._endpoint
        if not endpoint.alive or self._own_life.get() not in (0, endpoint.incarnation):
            raise Crashed(self.name)


async def play(parties: Sequence[Party], coordinator: Party) -> None:
    """Run all `parties` until the `coordinator` has ended and each of the others has ended, is down, or is idle.

    Raises what a party's program raised, the first party's first. A lost coordinator is no error: the others end by
    their deadlines.
    """
    changed = asyncio.Event()
    for party in parties:
        party.start(changed.set)
    others = [party for party in parties if party is not coordinator]
    while True:
        for party in parties:
            if (error := party.failure()) is not None:
                raise error
        idle_ends = coordinator.alive and coordinator.finished
        coordinator_ended = idle_ends or not coordinator.alive
        if coordinator_ended and all(
            not party.alive or party.finished or (party.idle and idle_ends) for party in others
        ):
            return
        await changed.wait()
        changed.clear()
