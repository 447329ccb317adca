"""Waits for messages: an iterator over arriving messages, and a context that a message ends."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache
from typing import Any, Generic

from tacit.parties.mailbox import Kinds, M, Mailbox, Waiter
from tacit.parties.rest import Rest
from tacit.sim.clock import Timer
from tacit.sim.taps import Wait
from tacit.sim.wire import Frame, Message

__all__ = ["Arrivals", "Watch", "names_of", "type_names"]


class Arrivals(Waiter, Generic[M]):
    """An iterator over messages as they arrive. It is a context, so that its timer is always cancelled.

    A deadline that passes while the owner is paused ends the waiting when the owner resumes, after the messages that
    arrived meanwhile. A wait that begins while it is paused counts from the end of the pause.
    """

    # What most waits never change: one is made for nearly every message.
    timer: Timer | None = None
    """The timer that ends the waiting; None before there is one."""
    _in_time, _until_found = True, False
    _nobody_left = False  # all for whom it still waited are known to be gone
    _future: "asyncio.Future[None] | None" = None
    _handle: Callable[[str, M], bool] | None = None  # what messages are handed to, while it waits
    _enough = False  # is what that said last
    _is_handing = False  # to take a message may let another one be taken, and then wakes this wait again
    _wait: Wait | None = None  # as reported to those who look on
    _begun = False
    _last = ""  # who sent the last message
    _times = (0.0, 0.0)  # of that, and of the last from anybody else; of the wait's beginning if it is later

    def __init__(
        self,
        mailbox: Mailbox,
        kinds: tuple[type[M], ...],
        sources: Iterable[str],
        deadline: float,
        until: Kinds,
        over: Callable[[], bool] | None = None,
    ) -> None:
        owner = mailbox.owner
        self._mailbox, self._kinds, self._until, self._over = mailbox, kinds, until, over
        self.sources: dict[str, None] = dict.fromkeys(sources)
        self._deadline, self._owner = deadline, owner
        self._end = float(mailbox.loop.env.now) + deadline
        self.types, self.ends = _type_names(kinds), _type_names(until + owner.interrupts)
        self._is_timed = not owner.paused
        self._heard: set[str] = set()
        rest = mailbox.rest
        if rest is not None:
            mailbox.rest = None
            self._go_on_from(rest)
        elif not self._is_timed:
            owner.after_pause(self._begin_clock)

    def _go_on_from(self, rest: Rest) -> None:
        """Take over the wait in which the owner was at rest."""
        self.timer, self._wait, self._times = rest.timer, rest.wait, (rest.since, rest.since)
        self._begun = True
        self._is_timed, self._in_time = True, rest.in_time
        if rest.timer is not None:
            rest.timer.call = self._come_due

    @property
    def what(self) -> str:
        sources = list(self.sources)
        return f"{names_of(self._kinds)} from {', '.join(sources) if len(sources) < 4 else f'{len(sources)} parties'}"

    def __enter__(self) -> "Arrivals[M]":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self._wait is not None:
            self._report_end(self._wait, kind)

    def _report_end(self, wait: Wait, kind: type[BaseException] | None) -> None:
        if kind is not None:
            wait.ended = "interrupted" if issubclass(kind, Exception) else "cancelled"
        else:
            timely = "answered" if self._in_time else "deadline"
            wait.ended = "until" if self._until_found else "gone" if self._nobody_left else timely
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
            future = self._begin_to_wait()
            if future is None:
                return None
            try:
                await future
            finally:
                self._mailbox.remove(self)

    async def hand_each(self, handle: Callable[[str, M], bool]) -> None:
        """Pass each message to `handle` on receipt, until that returns true or the waiting has ended.

        A task that takes messages one after another is woken for each, which costs more than handling most of them.
        """
        self._hand_over(handle)
        try:
            while not self._enough:
                self._handle = handle
                if not await self._look_again():
                    return
                self._hand_over(handle)
        finally:
            self._handle = None

    def _hand_over(self, handle: Callable[[str, M], bool]) -> int:
        """Pass the available messages on until they are enough; return their number."""
        count = 0
        while not self._enough and (found := self._mailbox.take(self._kinds, self.sources)) is not None:
            count += 1
            self._hear(found[0])
            self._enough = handle(*found)
        return count

    async def one_each(self) -> AsyncIterator[tuple[str, M]]:
        """Yield one message of each source: received ones in the order of the sources, then the others on receipt."""
        found: dict[str, M] = {}
        order = tuple(self.sources)
        while (first := self._mailbox.take(self._kinds, self.sources)) is not None:
            source, found[first[0]] = first
            self._hear(source)
            self.leave_out(source)
            del first
        for source in order:
            if source in found:
                yield source, found.pop(source)
        while self.sources and (arrived := await self.next()) is not None:
            self.leave_out(arrived[0])
            yield arrived
            del arrived

    async def begun(self) -> bool:
        """Wait until a message can be taken; return false if the waiting has ended without one."""
        while (sender := self._mailbox.first_sender(self._kinds, self.sources)) is None:
            if not await self._look_again():
                return False
        self._hear(sender)
        return True

    def _hear(self, sender: str) -> None:
        if self._begun and self._wait is None:  # nobody looks on
            return
        self._times = (float(self._mailbox.loop.env.now), self._times[sender == self._last])
        self._last = sender
        self._heard.add(sender)

    def leave_out(self, source: str) -> None:
        """Take no more messages from `source`: they stay in the mailbox."""
        self.sources.pop(source, None)

    @property
    def _is_over(self) -> bool:
        """True if all remaining sources are known to be gone."""
        return self._owner.are_gone(self.sources, self._over)

    async def _look_again(self) -> bool:
        """Wait for a change; return false if the waiting has ended."""
        future = self._begin_to_wait()
        if future is None:
            return False
        try:
            await future
        finally:
            self._mailbox.remove(self)
        return True

    def _begin_to_wait(self) -> "asyncio.Future[None] | None":
        """Register for the next change, which ends the future, in the mailbox; return None if the waiting has ended."""
        mailbox = self._mailbox
        mailbox.check_interrupts()
        if not self._in_time:
            return None
        if self._until and mailbox.holds_any(self._until):
            self._until_found = True
            return None
        if self._is_over:
            self._nobody_left = True
            return None
        loop = mailbox.loop
        if not self._begun and self.sources:
            self._begun = True
            self._wait = self._owner.waits(type_names(self._kinds), tuple(self.sources), self._deadline)
            self._times = (loop.time(),) * 2
        if self.timer is None and self._is_timed:
            self.timer = loop.env.at(self._end, self._come_due)
        self._future = future = loop.create_future()
        mailbox.add(self)
        return future

    def _begin_clock(self) -> None:
        self._is_timed, self._end = True, self._mailbox.loop.time() + self._deadline
        self.wake()  # to set the timer, if it still waits

    def _come_due(self) -> None:
        """Pass the deadline after what is due at this moment already, as every timer of the loop."""
        self._mailbox.loop.call_soon(self._pass_deadline)

    def _pass_deadline(self) -> None:
        if self._owner.paused:
            self._owner.after_pause(self._pass_deadline)
        else:
            self._in_time = False
            self.wake()

    def wake(self) -> None:
        if self._future and not self._future.done() and not self._is_handing:
            if self._handle is not None:
                self._is_handing = True
                try:
                    if self._hand_over(self._handle) and not self._enough and not self._is_over:
                        return
                except BaseException as error:
                    self._future.set_exception(error)
                    return
                finally:
                    self._is_handing = False
            self._future.set_result(None)

    def takes(self, frame: Frame) -> bool:
        handle, future, kinds = self._handle, self._future, self._kinds
        if handle is None or future is None or future.done() or self._is_handing:
            return False
        kind = kinds[0]
        if len(kinds) > 1 or frame.type != kind.__name__ or frame.sender not in self.sources:
            return False
        if self._mailbox.holds(kind):
            return False
        self._is_handing = True
        try:
            message = self._mailbox.open(frame, kind)
            if message is not None:
                self._hear(frame.sender)
                self._enough = handle(frame.sender, message)
                if not self._enough and not self._is_over:
                    return True
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        finally:
            self._is_handing = False
        return True


class Watch(Waiter):
    """A context that ends with `error`, `grace` seconds after a later message of `kinds` from one of `sources`.

    Later means of a later (round, attempt) than the owner's when the context was made; with `rounds`, of a later round.
    The context also ends with the errors of interrupting messages. The message stays in the mailbox. The activity in
    the context is cancelled; it must not take messages of `kinds` itself.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        kinds: Kinds,
        sources: Iterable[str],
        error: Exception,
        grace: float = 0.0,
        *,
        rounds: bool = False,
    ) -> None:
        self._mailbox, self._kinds, self.sources, self._error = mailbox, kinds, frozenset(sources), error
        self._owner, self._grace = mailbox.owner, grace
        self._timer: asyncio.TimerHandle | None = None
        self.types, self.ends = _type_names(kinds), _type_names(self._owner.interrupts)
        self._begun_at = (mailbox.stamp[0], sys.maxsize) if rounds else mailbox.stamp
        self._found: Exception | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    @property
    def what(self) -> str:
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

    def wake(self) -> None:
        if self._found is None and self._task is not None:
            try:
                self._look()
            except Exception as error:
                if self._found is None:  # an interrupting message may have woken it a second time, as it was opened
                    self._task.cancel()
                self._found = error

    def _look(self) -> None:
        self._mailbox.check_interrupts()
        if self._mailbox.first_sender(self._kinds, self.sources, self._begun_at) is None:
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
    """The names of message types for a text, as in ``Hello or Goodbye``."""
    return " or ".join(kind.__name__ for kind in kinds)


@cache
def type_names(kinds: tuple[type[Message], ...]) -> tuple[str, ...]:
    """The names of message types as a tuple."""
    return tuple(kind.__name__ for kind in kinds)


@cache
def _type_names(kinds: tuple[type[Message], ...]) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in kinds)
