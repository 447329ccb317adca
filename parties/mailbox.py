"""Messages that a party has received, and the waits that they end.

A message is taken by type and sender. Messages wait as frames, undecoded, until they are taken; messages of a later
(round, attempt) than the party's wait until the party enters it, unless their type announces a new one. Messages of an
earlier one are late, unless their type is lasting.

A message may overtake another one of its sender. So an announcement that is `in_round` waits until the party has
entered its round, and a message that `follows` others until one of these was taken (`tacit.sim.wire.Message`). A
message that waits is checked when it is taken, as any other.

Both kinds of waiting messages together are bounded for each sender: at most `MOST_AHEAD`, with bodies of at most
`MOST_BYTES_AHEAD` in all unless it is only one. Further ones are dropped. A message counts until it is taken or late,
also after what it follows was taken. Messages that are not ahead are not bounded here.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from tacit.parties.rest import Rest
from tacit.sim.loop import SimLoop
from tacit.sim.taps import Wait
from tacit.sim.wire import Frame, Message, follows, is_followed, is_lasting, is_replaced

__all__ = ["MOST_AHEAD", "MOST_BYTES_AHEAD", "Collected", "Kinds", "Mailbox", "NoAnswer", "Waiter"]


MOST_AHEAD = 4096
"""The most messages of a sender that wait for a later (round, attempt) than the receiver's, or for one they follow."""

MOST_BYTES_AHEAD = 1 << 28
"""The most bytes of these messages, unless there is only one."""

Kinds = tuple[type[Message], ...]
M = TypeVar("M", bound=Message)


class Owner(Protocol):
    """The party that a mailbox belongs to."""

    interrupts: ClassVar[Kinds]

    @property
    def paused(self) -> bool:
        """True while the party is paused."""

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the owner resumes."""

    def check_alive(self) -> None:
        """Raise an error if the owner is down and can take no messages."""

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """Decode the message in `frame`; if it is unreadable, drop it and return None."""

    def interrupted(self, source: str, message: Message) -> None:
        """Raise because of a message of a type in `interrupts`."""

    def waits(self, types: tuple[str, ...], sources: tuple[str, ...], deadline: float) -> Wait | None:
        """Report to observers that a wait begins; return None if there are no observers."""

    def waited(self, wait: Wait) -> None:
        """Report the end of a wait."""

    def are_gone(self, sources: dict[str, None], over: Callable[[], bool] | None = None) -> bool:
        """Return true if all of `sources` are known to be gone, or some are and `over()` is true."""


class NoAnswer(Exception):
    """A wait of `party` ended after `deadline` virtual seconds without `what`, from `source` if that is one party."""

    def __init__(self, party: str, what: str, deadline: float, source: str = "") -> None:
        self.party, self.what, self.deadline, self.source = party, what, deadline, source
        super().__init__(f"{party} waited {deadline:g} s for {what}{' from ' * bool(source)}{source} in vain")


@dataclass(frozen=True)
class Collected(Generic[M]):
    """The answers received, by sender in the order asked, and the names of those who did not answer."""

    answers: dict[str, M]
    missing: tuple[str, ...]


class Waiter:
    """One wait for messages of `types` from `sources`, or for any of the types `ends`, which end it.

    `number` is its number among the mailbox's waits; `lane` is the source if there is only one, "" otherwise.
    """

    types: frozenset[str]
    ends: frozenset[str]
    sources: Collection[str]
    number: int
    lane: str

    @property
    def what(self) -> str:
        """The wait in words."""
        raise NotImplementedError

    def concerns(self, frame: Frame) -> bool:
        """Return true if the arrival of `frame` is a reason to check the mailbox again."""
        return (frame.type in self.types and frame.sender in self.sources) or frame.type in self.ends

    def wake(self) -> None:
        """Check the mailbox again."""
        raise NotImplementedError

    def takes(self, frame: Frame) -> bool:
        """Take `frame`, which is due and comes before all that is in the mailbox; return false if it is to be put
        there."""
        return False


class Mailbox:
    """The frames that have been received and not taken yet; `stamp` is the owner's (round, attempt)."""

    def __init__(self, owner: Owner, loop: SimLoop) -> None:
        self.owner, self.loop = owner, loop
        self.stamp = (0, 0)
        self._frames: dict[str, deque[Frame]] = {}
        self._replaced: dict[str, set[str]] = {}  # by type: all senders of frames that wait and may be replaced
        # Not Counters, which take several times as long to make: a mailbox is made for each client that wakes.
        self._ahead: defaultdict[str, int] = defaultdict(int)  # frames that were ahead when they arrived, by sender
        self._bytes: defaultdict[str, int] = defaultdict(int)  # of their bodies
        self._counted: set[int] = set()  # their identities
        self._taken: set[tuple[str, str]] = set()  # type and sender of messages of this stamp that others follow
        self.waiting: dict[Waiter, None] = {}  # in the order in which they began
        self._lanes: dict[str, dict[Waiter, None]] = {"": {}}  # the same, by `Waiter.lane`
        self._ends: defaultdict[str, int] = defaultdict(int)  # how many of them a message of the type ends
        self._begun = 0
        self.rest: Rest | None = None  # of the owner, which goes on with the wait in which it rested

    def __len__(self) -> int:
        return sum(map(len, self._frames.values()))

    @property
    def awaited(self) -> str:
        """The waits in words; "" if there are none."""
        return "; ".join(waiter.what for waiter in self.waiting)

    def state(self) -> list[tuple[str, list[Frame]]]:
        """The messages received, by type."""
        return [(kind, list(frames)) for kind, frames in self._frames.items()]

    def restore(self, stamp: tuple[int, int], state: list[tuple[str, list[Frame]]]) -> None:
        """Go on from a `state`."""
        self._frames = {kind: deque(frames) for kind, frames in state}
        for kind, frames in self._frames.items():
            if frames and is_replaced(frames[0]):
                self._replaced[kind] = {frame.sender for frame in frames}
        self._enter(stamp)

    def _enter(self, stamp: tuple[int, int]) -> None:
        self.stamp = stamp
        self._taken.clear()
        if self._counted:
            self._ahead.clear()
            self._bytes.clear()
            self._counted.clear()
        for frames in self._frames.values():
            for frame in frames:
                if self.must_wait(frame):
                    self._count(frame)

    def _count(self, frame: Frame) -> None:
        self._counted.add(id(frame))
        self._ahead[frame.sender] += 1
        self._bytes[frame.sender] += len(frame.body)

    def _uncount(self, frame: Frame) -> None:
        if id(frame) in self._counted:
            self._counted.remove(id(frame))
            self._ahead[frame.sender] -= 1
            self._bytes[frame.sender] -= len(frame.body)

    def must_wait(self, frame: Frame) -> bool:
        """Return true if `frame` is of a later round or attempt, or follows a message that was not taken yet."""
        if self._is_ahead(frame):
            return True
        first = follows(frame)
        return bool(first) and not any((name, frame.sender) in self._taken for name in first)

    def _is_ahead(self, frame: Frame) -> bool:
        return (frame.round, frame.attempt) > self.stamp

    def is_late(self, frame: Frame) -> bool:
        """Return true if `frame` is late: of an earlier round or attempt, and not of a lasting type."""
        return (frame.round, frame.attempt) < self.stamp and not is_lasting(frame)

    def is_full(self, frame: Frame) -> bool:
        """Return true if as many or as large messages of its sender wait as may, so that `frame` cannot."""
        count, size = self._ahead[frame.sender], self._bytes[frame.sender] + len(frame.body)
        return count >= MOST_AHEAD or (count > 0 and size > MOST_BYTES_AHEAD)

    def put_due(self, frame: Frame) -> None:
        """Do the same as `put` for `frame` of the present round and attempt, of a type that follows no other.

        Most often one wait takes such messages from many, one after another: then it gets this one at once.
        """
        lanes = self._lanes
        if len(common := lanes[""]) == 1 and not lanes.get(frame.sender) and not self._ends.get(frame.type):
            (only,) = common
            if only.takes(frame):
                return
        self.put(frame, False)

    def put(self, frame: Frame, waits: bool) -> None:
        """Add `frame` and wake the waits that it concerns. A lasting one replaces its sender's earlier one.

        Not if its type is queued. `waits`: it must wait for its turn (`must_wait`).
        """
        frames = self._frames.get(frame.type)
        if frames is None:
            frames = self._frames[frame.type] = deque()
        if is_replaced(frame):
            senders = self._replaced.setdefault(frame.type, set())
            if not frames:
                senders.clear()
            elif frame.sender in senders:  # maybe: some may have been taken
                for one in frames:
                    if one.sender == frame.sender:
                        self._uncount(one)
                frames = self._frames[frame.type] = deque(one for one in frames if one.sender != frame.sender)
            senders.add(frame.sender)
        frames.append(frame)
        if waits:
            self._count(frame)
        for waiter in self._concerned(frame):
            waiter.wake()

    def _concerned(self, frame: Frame) -> list[Waiter]:
        """The waits that `frame` concerns, in the order in which they began.

        A party may have a separate wait for each of many others: those waits are looked up, not checked one by one.
        """
        waiting = self.waiting
        if len(waiting) < 2:  # most often
            return [waiter for waiter in waiting if waiter.concerns(frame)]
        kind, sender, found = frame.type, frame.sender, list[Waiter]()
        if self._ends.get(kind):
            return [waiter for waiter in waiting if waiter.concerns(frame)]
        lanes = self._lanes
        if own := lanes.get(sender):
            for waiter in own:
                if kind in waiter.types and sender in waiter.sources:
                    found.append(waiter)
        if common := lanes[""]:
            for waiter in common:
                if kind in waiter.types and sender in waiter.sources:
                    found.append(waiter)
        if len(found) > 1:
            found.sort(key=_number)
        return found

    def advance(self, stamp: tuple[int, int]) -> list[Frame]:
        """Enter a later (round, attempt). Removes and returns the frames that have become late."""
        self.stamp = stamp
        late = [frame for frames in self._frames.values() for frame in frames if self.is_late(frame)]
        if late:
            for kind, frames in self._frames.items():
                self._frames[kind] = deque(frame for frame in frames if not self.is_late(frame))
        self._enter(stamp)
        for waiter in self.waiting:  # a message that was early may be the one it waits for
            waiter.wake()
        return late

    def _note_taken(self, frame: Frame) -> None:
        """Let messages that follow `frame` be taken from now on."""
        if (frame.round, frame.attempt) == self.stamp:
            self._taken.add((frame.type, frame.sender))
            for waiter in self.waiting:
                waiter.wake()

    def take(self, kinds: tuple[type[M], ...], sources: Container[str] | None) -> tuple[str, M] | None:
        """Take the first message of one of `kinds` from one of `sources` (None: anybody), with its sender; None without
        one."""
        self.owner.check_alive()
        for kind in kinds:
            frames = self._frames.get(kind.__name__)
            if not frames:
                continue
            at = 0
            while at < len(frames):
                frame = frames[at]
                if not self._may_take(frame, kind, sources):
                    at += 1
                    continue
                del frames[at]
                if self._counted:
                    self._uncount(frame)
                message = self.open(frame, kind)
                if message is not None:
                    return frame.sender, message
        return None

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """Decode the message in `frame`, which is taken; None if it is unreadable and was dropped."""
        message = self.owner.open(frame, kind)
        if message is not None and is_followed(frame):
            self._note_taken(frame)
        return message

    def holds(self, kind: type[Message]) -> bool:
        """Return true if a message of type `kind` was received and not taken, whether or not it may be taken."""
        return bool(self._frames.get(kind.__name__))

    def first_sender(self, kinds: Kinds, sources: Container[str], after: tuple[int, int] = (-1, -1)) -> str | None:
        """The sender of the first message to take, of a later (round, attempt) than `after`; None without one."""
        for kind in kinds:
            for frame in self._frames.get(kind.__name__, ()):
                if self._may_take(frame, kind, sources) and (frame.round, frame.attempt) > after:
                    return frame.sender
        return None

    def holds_any(self, kinds: Iterable[type[Message]]) -> bool:
        """Return true if a message of one of `kinds` was received, from anybody and for any round.

        One that is `in_round` counts in its round alone.
        """
        for kind in kinds:
            frames = self._frames.get(kind.__name__)
            if frames and (not kind.in_round or any(frame.round <= self.stamp[0] for frame in frames)):
                return True
        return False

    def check_interrupts(self) -> None:
        """Raise the error of an interrupting message that was received, if any."""
        owner = self.owner
        owner.check_alive()
        for kind in owner.interrupts:
            if self._frames.get(kind.__name__) and (stop := self.take((kind,), None)) is not None:
                owner.interrupted(*stop)

    def add(self, waiter: Waiter) -> None:
        """Register `waiter`, to be woken from now on."""
        self._begun += 1
        waiter.number = self._begun
        sources = waiter.sources
        waiter.lane = next(iter(sources)) if len(sources) == 1 else ""
        self.waiting[waiter] = None
        lane = self._lanes.get(waiter.lane)
        if lane is None:
            lane = self._lanes[waiter.lane] = {}
        lane[waiter] = None
        for kind in waiter.ends:
            self._ends[kind] += 1

    def remove(self, waiter: Waiter) -> None:
        """Unregister `waiter`."""
        del self.waiting[waiter]
        del self._lanes[waiter.lane][waiter]
        for kind in waiter.ends:
            self._ends[kind] -= 1

    def _may_take(self, frame: Frame, kind: type[Message], sources: Container[str] | None) -> bool:
        if sources is not None and frame.sender not in sources:
            return False
        if (frame.round, frame.attempt) > self.stamp:
            # A party that has entered no round yet has none that an announcement could be ahead of.
            return kind.announces and not (kind.in_round and frame.round > self.stamp[0] > 0)
        return not kind.follows or any((name, frame.sender) in self._taken for name in kind.follows)


def _number(waiter: Waiter) -> int:
    return waiter.number
