"""What a party has received and what it waits for.

A message is taken by type and sender. Messages wait as frames, undecoded, until they are taken; those of a later
(round, attempt) than the party's wait until it gets there, unless their type announces a new one. Those of an earlier
one are late, unless their type is lasting.
"""

import asyncio
from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic

from parties.owner import Kinds, M, Owner
from parties.rest import Rest
from sim.loop import SimLoop, Timer, timer_of
from sim.taps import Wait
from sim.wire import Frame, Message, is_lasting

__all__ = ["Arrivals", "Collected", "Kinds", "Mailbox", "NoAnswer", "Watch", "names_of", "type_names"]


class NoAnswer(Exception):
    """A wait ended at its deadline without a message."""

    def __init__(self, party: str, what: str, deadline: float) -> None:
        self.party, self.what, self.deadline = party, what, deadline
        super().__init__(f"{party} waited {deadline:g} s for {what} in vain")


@dataclass(frozen=True)
class Collected(Generic[M]):
    """The answers received, by sender in the order asked, and who did not answer."""

    answers: dict[str, M]
    missing: tuple[str, ...]


class Mailbox:
    """Frames that have come and were not taken yet; `stamp` is the owner's (round, attempt)."""

    def __init__(self, owner: Owner, loop: SimLoop) -> None:
        self.owner, self.loop = owner, loop
        self.stamp = (0, 0)
        self._frames: dict[str, deque[Frame]] = {}
        self.waiting: list[Arrivals[Any] | Watch] = []
        self.rest: Rest | None = None  # of the owner, which goes on with the wait in which it rested

    def __len__(self) -> int:
        return sum(map(len, self._frames.values()))

    @property
    def awaited(self) -> str:
        """What is waited for, in words; "" if nothing is."""
        return "; ".join(waiter.what for waiter in self.waiting)

    def state(self) -> list[tuple[str, list[Frame]]]:
        """The messages received, by type."""
        return [(kind, list(frames)) for kind, frames in self._frames.items()]

    def restore(self, stamp: tuple[int, int], state: list[tuple[str, list[Frame]]]) -> None:
        """Go on from a `state`."""
        self.stamp = stamp
        self._frames = {kind: deque(frames) for kind, frames in state}

    @property
    def timer(self) -> Timer | None:
        """The timer of the only wait for messages; None if there are several, or none."""
        waits = [waiter for waiter in self.waiting if isinstance(waiter, Arrivals)]
        return waits[0].timer if len(waits) == 1 else None

    def is_late(self, frame: Frame) -> bool:
        """Whether `frame` is late: of an earlier round or attempt, and not of a lasting type."""
        return (frame.round, frame.attempt) < self.stamp and not is_lasting(frame)

    def put(self, frame: Frame) -> None:
        """Add `frame` and wake the waits that it concerns. A lasting one replaces its sender's earlier one."""
        frames = self._frames.setdefault(frame.type, deque())
        if is_lasting(frame) and any(one.sender == frame.sender for one in frames):
            frames = self._frames[frame.type] = deque(one for one in frames if one.sender != frame.sender)
        frames.append(frame)
        for waiter in self.waiting:
            if waiter.concerns(frame):
                waiter.wake()

    def advance(self, stamp: tuple[int, int]) -> list[Frame]:
        """Enter a later (round, attempt); returns the frames that are too late by that, taken out."""
        self.stamp = stamp
        late = [frame for frames in self._frames.values() for frame in frames if self.is_late(frame)]
        if late:
            for kind, frames in self._frames.items():
                self._frames[kind] = deque(frame for frame in frames if not self.is_late(frame))
        for waiter in self.waiting:  # a message that was early may be the one it waits for
            waiter.wake()
        return late

    def take(self, kinds: tuple[type[M], ...], sources: Container[str] | None) -> tuple[str, M] | None:
        """The first message of one of `kinds` from one of `sources` (None: from anybody), and its sender."""
        self.owner.check_alive()
        for kind in kinds:
            frames = self._frames.get(kind.__name__)
            at = 0
            while frames and at < len(frames):
                frame = frames[at]
                if not self._may_take(frame, kind, sources):
                    at += 1
                    continue
                del frames[at]
                message = self.owner.open(frame, kind)
                if message is not None:
                    return frame.sender, message
        return None

    def first_sender(self, kinds: Kinds, sources: Container[str], after: tuple[int, int] = (-1, -1)) -> str | None:
        """The sender of the first message to take, of a later (round, attempt) than `after`; None if there is none."""
        for kind in kinds:
            for frame in self._frames.get(kind.__name__, ()):
                if self._may_take(frame, kind, sources) and (frame.round, frame.attempt) > after:
                    return frame.sender
        return None

    def holds_any(self, kinds: Iterable[type[Message]]) -> bool:
        """Whether one of `kinds` was received, from anybody and for any round."""
        return any(self._frames.get(kind.__name__) for kind in kinds)

    def check_interrupts(self) -> None:
        """Raise the error of an interrupting message that was received, if any."""
        for kind in self.owner.interrupts:
            stop = self.take((kind,), None)
            if stop is not None:
                self.owner.interrupted(*stop)

    def add(self, waiter: "Arrivals[Any] | Watch") -> None:
        """Wake `waiter` from now on."""
        self.waiting.append(waiter)

    def remove(self, waiter: "Arrivals[Any] | Watch") -> None:
        """Wake `waiter` no more."""
        self.waiting.remove(waiter)

    async def wait(self, waiter: "Arrivals[Any]", future: "asyncio.Future[None]") -> None:
        """Wait for `future`, which `waiter` sets when it is woken."""
        self.add(waiter)
        try:
            await future
        finally:
            self.remove(waiter)

    def _may_take(self, frame: Frame, kind: type[Message], sources: Container[str] | None) -> bool:
        return (sources is None or frame.sender in sources) and (
            kind.announces or (frame.round, frame.attempt) <= self.stamp
        )


class Arrivals(Generic[M]):
    """An iterator over messages as they arrive; entered as a context, so that its timer is always cancelled.

    A deadline that passes while the owner is paused ends the waiting when the owner resumes, after the messages that
    arrived meanwhile. A wait that begins while it is paused counts from the end of the pause.
    """

    def __init__(
        self, mailbox: Mailbox, kinds: tuple[type[M], ...], sources: Iterable[str], deadline: float, until: Kinds
    ) -> None:
        self._mailbox, self._kinds, self.sources, self._until = mailbox, kinds, dict.fromkeys(sources), until
        self._deadline, self._owner = deadline, mailbox.owner
        self._end = mailbox.loop.time() + deadline
        self._timer: asyncio.TimerHandle | Timer | None = None
        self._in_time, self._until_found = True, False
        self._future: asyncio.Future[None] | None = None
        self._types, self._ends = _type_names(kinds), _type_names(until + self._owner.interrupts)
        self._is_timed = not self._owner.paused
        self._wait: Wait | None = None  # as reported to those who look on
        self._heard: set[str] = set()
        self._last = ""  # who sent the last message
        self._times = (0.0, 0.0)  # of that, and of the last from anybody else; of the wait's beginning if it is later
        rest, mailbox.rest = mailbox.rest, None
        if rest is not None:
            self._go_on_from(rest)
        elif not self._is_timed:
            self._owner.after_pause(self._begin_clock)

    def _go_on_from(self, rest: Rest) -> None:
        """Be the wait in which the owner was at rest."""
        self._timer, self._wait, self._times = rest.timer, rest.wait, (rest.since, rest.since)
        self._is_timed, self._in_time = True, rest.in_time
        if rest.timer is not None:
            rest.timer.call = partial(self._mailbox.loop.call_soon, self._pass_deadline)

    @property
    def what(self) -> str:
        """What is waited for, in words."""
        sources = list(self.sources)
        return f"{names_of(self._kinds)} from {', '.join(sources) if len(sources) < 4 else f'{len(sources)} parties'}"

    @property
    def timer(self) -> Timer | None:
        """What ends the waiting; None if nothing does yet."""
        return timer_of(self._timer) if isinstance(self._timer, asyncio.TimerHandle) else self._timer

    def __enter__(self) -> "Arrivals[M]":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._wait is not None:
            self._report_end(self._wait, kind)

    def _report_end(self, wait: Wait, kind: type[BaseException] | None) -> None:
        if kind is not None:
            wait.ended = "interrupted" if issubclass(kind, Exception) else "cancelled"
        else:
            wait.ended = "until" if self._until_found else "answered" if self._in_time else "deadline"
        wait.silent = tuple(source for source in self.sources if source not in self._heard)
        wait.missing = wait.silent if wait.ended == "answered" else tuple(self.sources)
        wait.last, wait.alone = self._last, self._times[0] - self._times[1]
        self._owner.waited(wait)

    def __aiter__(self) -> "Arrivals[M]":
        return self

    async def __anext__(self) -> tuple[str, M]:
        found = await self.next()
        if found is None:
            raise StopAsyncIteration
        return found

    async def next(self) -> tuple[str, M] | None:
        """The next message and its sender, or None when the waiting has ended."""
        while True:
            found = self._mailbox.take(self._kinds, self.sources)
            if found is not None:
                self._hear(found[0])
                return found
            if not await self._look_again():
                return None

    async def begun(self) -> bool:
        """Wait until a message is there to be taken; false when the waiting has ended without one."""
        while (sender := self._mailbox.first_sender(self._kinds, self.sources)) is None:
            if not await self._look_again():
                return False
        self._hear(sender)
        return True

    def _hear(self, sender: str) -> None:
        self._times = (self._mailbox.loop.time(), self._times[sender == self._last])
        self._last = sender
        self._heard.add(sender)

    def leave_out(self, source: str) -> None:
        """Take no more messages from `source`: they stay in the mailbox."""
        self.sources.pop(source, None)

    async def _look_again(self) -> bool:
        """Wait for something to come; false when the waiting has ended."""
        mailbox = self._mailbox
        mailbox.check_interrupts()
        if not self._in_time:
            return False
        if self._until and mailbox.holds_any(self._until):
            self._until_found = True
            return False
        if self._wait is None and self.sources:
            self._wait = self._owner.waits(type_names(self._kinds), tuple(self.sources), self._deadline)
            self._times = (mailbox.loop.time(),) * 2
        if self._timer is None and self._is_timed:
            self._timer = mailbox.loop.call_at(self._end, self._pass_deadline)
        self._future = mailbox.loop.create_future()
        await mailbox.wait(self, self._future)
        return True

    def _begin_clock(self) -> None:
        self._is_timed, self._end = True, self._mailbox.loop.time() + self._deadline
        self.wake()  # to set the timer, if it still waits

    def _pass_deadline(self) -> None:
        if self._owner.paused:
            self._owner.after_pause(self._pass_deadline)
        else:
            self._in_time = False
            self.wake()

    def concerns(self, frame: Frame) -> bool:
        """Whether the arrival of `frame` is a reason to look again."""
        return (frame.type in self._types and frame.sender in self.sources) or frame.type in self._ends

    def wake(self) -> None:
        """Look again."""
        if self._future and not self._future.done():
            self._future.set_result(None)


class Watch:
    """A context that ends with `error`, `grace` seconds after a later message of `kinds` from one of `sources`.

    Later: of a later (round, attempt) than the owner's when this was made. It ends with what an interrupting message
    raises, too. The message stays in the mailbox. What goes on in the context is cancelled; it must not take messages
    of `kinds` itself.
    """

    def __init__(
        self, mailbox: Mailbox, kinds: Kinds, sources: Iterable[str], error: Exception, grace: float = 0.0
    ) -> None:
        self._mailbox, self._kinds, self._sources, self._error = mailbox, kinds, frozenset(sources), error
        self._owner, self._grace = mailbox.owner, grace
        self._timer: asyncio.TimerHandle | None = None
        self._types, self._ends = _type_names(kinds), _type_names(self._owner.interrupts)
        self._begun_at = mailbox.stamp
        self._found: Exception | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    @property
    def what(self) -> str:
        """What would end it, in words."""
        return f"the end of its work, or {names_of(self._kinds)}"

    def __enter__(self) -> "Watch":
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()  # a TaskGroup with a failed child may have left a request behind
        self._look()
        self._mailbox.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mailbox.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if self._found is not None:
            assert task is not None
            only_mine = task.uncancel() <= self._cancelling  # else somebody else wants it to end, too
            if only_mine and kind is asyncio.CancelledError:
                raise self._found from None

    def concerns(self, frame: Frame) -> bool:
        """Whether the arrival of `frame` may end it."""
        return (frame.type in self._types and frame.sender in self._sources) or frame.type in self._ends

    def wake(self) -> None:
        """Look whether it has come."""
        if self._found is None and self._task is not None:
            try:
                self._look()
            except Exception as error:
                if self._found is None:  # an interrupting message may have woken it a second time, as it was opened
                    self._task.cancel()
                self._found = error

    def _look(self) -> None:
        self._mailbox.check_interrupts()
        if self._mailbox.first_sender(self._kinds, self._sources, self._begun_at) is None:
            return
        if not self._grace:
            raise self._error
        if self._timer is None:
            self._timer = self._mailbox.loop.call_later(self._grace, self._end_grace)

    def _end_grace(self) -> None:
        if self._owner.paused:
            self._owner.after_pause(self._end_grace)
        else:
            self._grace = 0.0
            self.wake()


def names_of(kinds: Iterable[type[Message]]) -> str:
    """``Hello or Goodbye``."""
    return " or ".join(kind.__name__ for kind in kinds)


@cache
def type_names(kinds: tuple[type[Message], ...]) -> tuple[str, ...]:
    """The names of message types."""
    return tuple(kind.__name__ for kind in kinds)


@cache
def _type_names(kinds: tuple[type[Message], ...]) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in kinds)
