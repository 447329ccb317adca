"""Rounds that a server opens and clients answer, independent of their content: membership and waits.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | Enroll | server -> each client not enrolled | 0 | who is there? |
| train.enroll | Enrolled | client -> server | 0 | how many points it has, and how many labels |

A client waits for rounds for as long as all of them may take; a client that comes back takes part as soon as it is
called again. One that never enrolled is asked again in each round to which it is not called, and its answer is valid in
all later rounds, however late it is; a round without a known client waits a deadline for that. A client that has not
enrolled when the first round begins, and is not called to it, is lost in it; likewise in later rounds if all clients
that have enrolled are called to each. A client whose round is over goes on with the latest call, and takes no call for
a round that it has ended or was dismissed from. A round that an Abort ends is lost, and the next begins. Federated
training (`federated`) and co-training (`cotraining`) are made of such rounds.

A server that comes back continues from its disk, with the state after the last round that it ended. The round that it
was in is lost, as by an Abort, and is not opened again; privacy charges it as any other.

A run ends with a lost round in which a client may have sent masked values, or in which the server was lost while there
was a secure sum. An answer that is only late lets the server open that round's sum after all. The next round would
begin with the same model or consensus, clients that learn without chance would give the same values again, and the
difference of two sums over different clients reveals one client's values. Clients enforce this, too, also after a
crash: they refuse a call with the model of any earlier round for which they have sent masked values, and one with the
consensus of such a round whose sum was not reported as done. So a round that would begin with the model of an earlier
one is not opened: it is lost for that reason, at no cost, and the run completes (`RoundsServer.standstill`).

A server that was lost in a run and has only its disk continues with the next round, unless it was lost in a round with
a secure sum. Such a run ends, like a run of a single round: a second sum of the same secrets, over other clients than
the first, would show the difference, and the first may have been opened before the server was lost. So the round is not
begun again; clients are dismissed, and need not wait for their deadlines."""

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Held, Shard
from tacit.parties.life import Observed
from tacit.parties.party import NoAnswer
from tacit.parties.registered import Resting
from tacit.parties.server import Server
from tacit.protocols.outcome import Abort, Overtaken, Reason, Withdrawn
from tacit.protocols.parts import Part, Step
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.values import BadValues
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "ENROLL", "ENROLMENT", "NEVER_DRAWN", "NOT_AGAIN", "SAME_AGAIN", "SERVER_LOST", "SPENT", "STANDSTILL", "UNOPENED",
    "CalledClient", "Enroll", "Enrolled", "OnceServer", "Record", "RoundsClient", "RoundsServer", "Settings",
    "copied",
]  # fmt: skip

NEVER_DRAWN = "never drawn"
"""The end of the part of a client that was never called to a round."""

_ENROLLING = "train.enroll"

ENROLL = (
    Step("client", _ENROLLING, "say how many points and labels it has"),
    Step("server", _ENROLLING, "ask who is there, with how many points and labels; once, before the first round"),
)
"""The steps before the first round."""


SAME_AGAIN = "clients had sent masked values, and the next round would begin with the same model or consensus"
"""The reason why a run ends with a lost round."""

_NOT_ENROLLED = "it has not enrolled: the round begins without it"

STANDSTILL = (
    "no round is opened from round {number} on: its model is the one that round {found} began with, for the average of "
    "rounded values moves it no more, and clients give values for a secure sum once for a model"
)
"""The kind of the reason why rounds are not opened: round `number` would begin like round `found`."""

SPENT = (
    "no round is opened from round {number} on: epsilon would be {spent:.4g}, above privacy.epsilon(={epsilon:g}); the "
    "rounds before have spent {used:.4g}"
)
"""The kind of the reason why rounds are not opened: the budget is used up."""

UNOPENED = STANDSTILL, SPENT
"""The kinds of reasons why a server opens no further round."""

_LOST_FOR_GOOD = "round {number} is lost: {why}; " + SAME_AGAIN

_ENDED, _OPENED, _OVER = "ended rounds", "opened round", "over"  # on the server's disk


class Enroll(Message):
    announces: ClassVar[bool] = True


class Enrolled(Message):
    lasting: ClassVar[bool] = True
    points: int
    labeled: int


class Enrolment(Part):
    """Enrolment as a part of a protocol of rounds."""

    takes = ENROLL

    def waits(self, tables: Any) -> int:
        return 2


ENROLMENT = Enrolment()


class Settings(Protocol):
    """The public settings of rounds: their number, and virtual seconds.

    `deadline` bounds every wait of the server; `patience` is the longest duration of all rounds.
    """

    @property
    def rounds(self) -> int: ...
    @property
    def deadline(self) -> float: ...
    @property
    def patience(self) -> float: ...


SERVER_LOST = "the server was lost in it"
"""The reason why a round was lost."""

NOT_AGAIN = "the server was lost and is back: what it had received is gone, and nobody is asked for it twice"
"""The reason why a run of one round has ended."""

_BEGUN = "begun"


class OnceServer(Server):
    """A server whose run ends if it comes back after it has sent anything."""

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        if self.disk.get(_BEGUN, 0) < self.round:
            self.disk[_BEGUN] = self.round
        super().send_each(receivers, message)

    def ends_run(self) -> bool:
        """Return true if the server comes back to a run that it had begun; all clients are then dismissed."""
        begun = self.disk.get(_BEGUN, 0)
        if begun:
            self.advance(begun + 1, 0)  # to whatever attempt clients are at, what it says is not late
            self.dismiss(self.clients, NOT_AGAIN, aborted=True)
        return bool(begun)


def copied(value: Any) -> Any:
    """A copy of `value` with new lists and dicts, which may be changed in place; other objects are shared."""
    if type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(one) for one in value)
    return value


@dataclass(frozen=True)
class Record:
    """The record of one round at the server: the `cohort` that was called, and why it was `lost`."""

    number: int
    began: float
    cohort: tuple[str, ...]
    lost: str = ""

    @property
    def counted(self) -> tuple[str, ...]:
        """The clients whose answers are in the result of the round."""
        return ()


S = TypeVar("S", bound=Settings)
R = TypeVar("R", bound=Record)
T = TypeVar("T")


class CalledClient(Client):
    """A client that waits for `call`, takes part in the round that it opens, and waits for the next.

    It ends after its `last_round`, or after `patience` virtual seconds. `ending` is the end of its latest part:
    `between` after each that was not the last; `late` if it was called to a later round.
    """

    ending = Observed(lambda: "never took part")
    call: type[Message]
    other: ClassVar[tuple[type[Message], ...]] = ()  # messages that it answers while it waits
    by_round = False  # each call opens another round; one in the round is of a part of it
    between = "completed"
    late = "its last round was over before it was done"

    def __init__(
        self, world: World, name: str, shard: Shard | Held, patience: float, last_round: int = 1, **access: Any
    ) -> None:
        super().__init__(world, name, shard, **access)
        self.patience, self.last_round = patience, last_round
        self.until: float | None = None  # it waits no longer

    async def main(self) -> None:
        clock, rested = self.world.loop.time, self.rested
        if rested is not None:
            self.until = rested.until
        end = self.until = clock() + self.patience if self.until is None else self.until
        begun_at, kinds = self.place, (*self.other, self.call)
        self.place = "" if rested is None else begun_at
        while rested is not None or (clock() < end and not self.done):
            try:
                if rested is None:
                    place, begun_at = begun_at, ""
                    if await self.go_on_at(place):
                        self.ending = "completed"
                    self.rest(True)
                rested, begun_at = None, ""
                over, left = (self.round, self.attempt), end - self.since
                if self.falls_asleep(kinds, self.server, left, end):
                    return
                call = None  # the model in the last one would stay for as long as it waits
                call = await self.recv(kinds, self.server, left)
                self.rest(False)
                if not isinstance(call, self.call):
                    await self.respond(call)
                elif self.round > self.last_round:  # what is promised of all rounds counts those that were agreed on
                    self.refuse(f"take part in round {self.round}: {self.last_round} were agreed on")
                elif over < (self.round, self.attempt) and not self.is_called_on((self.call,), (self.server,)):
                    if not self.is_allowed(call):
                        continue
                    await self.take_part(call)
                    self.ending = "completed" if self.done else self.between
            except DismissedError as dismissed:
                self.ending = f"{'aborted' if dismissed.aborted else 'dismissed'}: {dismissed.reason}"
                if dismissed.aborted:
                    return
            except Overtaken:
                # At its resting place its part is done: it only waited for the server to say that the round is over.
                self.ending = "completed" if self.place else self.late
            except Withdrawn as why:
                self.ending = f"withdrew from the round: {why}"
            except NoAnswer as problem:
                self.ending = f"no answer from the server: {problem}"
            except BadValues as problem:
                self.ending = f"the server sent invalid values: {problem}"

    @property
    def done(self) -> bool:
        """True if its last round has begun, so that there is no other to wait for."""
        return self.round >= self.last_round

    async def unless_over(self, work: Coroutine[Any, Any, T], grace: float = 0.0) -> T:
        """Run `work`, a part of the round, and return its result; cancel it when the round ends, or `grace` seconds
        later.

        Raises DismissedError if the server dismisses the client, and Overtaken if it calls to a later round: a
        straggler's further messages would be too late, its update is not used, and the messages that it waits for are
        lost.
        """
        try:
            with self.unless((self.call,), (self.server,), Overtaken(), grace, rounds=self.by_round):
                return await work
        finally:
            work.close()  # where it was over before it began

    async def go_on_at(self, place: str) -> bool:
        """Finish a round from a `place` inside it; return false if there was none."""
        return False

    def is_allowed(self, call: Any) -> bool:
        """Return true if the client may give the answer that `call` asks for; if not, trace the reason."""
        return True

    async def take_part(self, call: Any) -> None:
        """Take part in the round that `call` opens."""
        raise NotImplementedError(f"{type(self).__name__} has no part in a round")

    def answer(self) -> None:
        """Answer one of the `other` messages."""

    async def respond(self, message: Message) -> None:
        """Answer `message`, one of the `other` ones; by default at once, by `answer`."""
        self.answer()


class RoundsClient(CalledClient, Generic[S]):
    """A client that takes part in rounds. It waits until its patience ends, because the server may reopen the last
    round.

    State that must survive a crash is stored on its disk.
    """

    ending = Observed(lambda: NEVER_DRAWN)
    other: ClassVar[tuple[type[Message], ...]] = (Enroll,)
    done = False
    further = 0  # rounds, after those of the settings

    @classmethod
    def resting(cls, settings: S) -> Resting | None:
        """The first wait of a client of this class; None if a resting client cannot be made again.

        It can be if its `state` is all its memory between rounds.
        """
        return None

    def __init__(self, world: World, name: str, shard: Shard | Held, settings: S, **access: Any) -> None:
        super().__init__(world, name, shard, settings.patience, settings.rounds + self.further, **access)
        self.settings = settings

    def answer(self) -> None:
        with self.step(_ENROLLING):
            self.send(self.server, Enrolled(*self.holds))

    def state(self) -> dict[str, Any]:
        return super().state() | {"ending": self.ending, "until": self.until}


class RoundsServer(Server, Generic[S, R]):
    """Opens rounds, one after another, and reports the record of each at its end.

    `attributes` are the names of further attributes that a resumed run needs.
    """

    attributes: ClassVar[tuple[str, ...]] = ()
    further = 0  # rounds, after those of the settings
    aborted = ""  # why there is no next round, though not all have ended
    stands = ""  # why the last rounds were not opened
    record_type: type[R]
    model: bytes | None = None
    """The model after the latest round; None where the rounds are not of training."""

    def __init__(self, world: World, clients: Iterable[str], settings: S, **access: Any) -> None:
        super().__init__(world, clients, **access)
        self.settings = settings
        self.enrolled: dict[str, Enrolled] = {}
        self.ended = 0  # rounds
        self.out: set[str] = set()  # of this round

    @property
    def fewest(self) -> int:
        """The number of clients that must be present for a round to begin before a deadline has passed."""
        return 1

    def spare(self, clients: int, number: int) -> int | None:
        """The number of `clients` that the sum of round `number` may lose where few decide; None: a third of all."""
        return None

    @property
    def calls_all(self) -> bool:
        """True if all present clients that have enrolled are called to each round."""
        return True

    @property
    def last_round(self) -> int:
        """The number of the last planned round."""
        return self.settings.rounds + self.further

    def dismiss(self, parties: Iterable[str], reason: str, *, aborted: bool = False) -> None:
        parties = tuple(parties)
        self.out.update(parties)
        super().dismiss(parties, reason, aborted=aborted)

    async def main(self) -> None:
        if not self.ended and _ENDED in self.disk:
            if not self._go_on():
                self.aborted = NOT_AGAIN
                return
        elif not self.ended:
            with self.step(_ENROLLING):
                self.advance(1, 0)
                self.broadcast(self.clients, Enroll())
                await self._enroll(self.settings.deadline)
        self.disk[_ENDED] = self.kept()
        while self.ended < self.last_round and not self.aborted:
            self._end(await self._round(self.ended + 1))

    def _end(self, record: R) -> None:
        self.ended = record.number
        self.disk[_ENDED] = self.kept()
        self.report(record)

    def _go_on(self) -> bool:
        """Continue from the disk; return true if there is a next round.

        A round that was opened and not ended is lost. If clients gave values for a secure sum in it, no round follows:
        model and consensus are unchanged, so clients would give the same values again, in a sum over other clients.
        """
        self.go_on_from(self.disk[_ENDED])
        number, began, called = self.disk.get(_OPENED, (0, 0.0, ()))
        if number > self.ended:
            over = self.sums_in(number)
            if over:
                self.disk[_OVER] = True
            self.advance(number, 0)  # it is at this one until that has ended
            with self.step(_ENROLLING):
                self.advance(number + 1, 0)  # to whatever attempt of the lost one clients are at, this is not late
                if over:
                    self.dismiss(self.clients, NOT_AGAIN, aborted=True)
                else:
                    self.dismiss(called, f"the round is lost: {SERVER_LOST}")
            self._end(self.lost_in(number, began, called))
        return _OVER not in self.disk

    def sums_in(self, number: int) -> bool:
        """Return true if clients give values in round `number` of which only a sum may be revealed."""
        return False

    def kept(self) -> dict[str, Any]:
        """The state from which a server continues after a restart, as a copy."""
        return {"enrolled": self.enrolled, "ended": self.ended} | {
            name: copied(getattr(self, name)) for name in self.attributes
        }

    def go_on_from(self, kept: Mapping[str, Any]) -> None:
        """Continue from the state `kept`."""
        for name, value in kept.items():
            setattr(self, name, copied(value))

    def lost_in(self, number: int, began: float, called: tuple[str, ...]) -> R:
        """The record of round `number`, in which the returned server was lost."""
        return self.record_type(number, began, called, SERVER_LOST)

    def may_call(self, members: tuple[str, ...]) -> tuple[str, ...]:
        """The clients that may be called in the round to which `members` were called at its beginning."""
        return members

    async def _round(self, number: int) -> R:
        if self.presence is not None:  # a round without anybody would be over at once
            await self.presence.wait_for(self.fewest, self.settings.deadline)
        began = self.world.loop.time()
        with self.step("train.open", begins=number):
            self.advance(number, 1)
            self.out.clear()
            if why := self.standstill(number):
                self.stands = self.stands or why
                return self.record_type(number, began, (), self.stands)
            self.disk[_OPENED] = number, began, self.clients  # before anybody can know of it
            members = self.select_clients(number)
            self.disk[_OPENED] = number, began, self.may_call(members)
            called, present = frozenset(members), frozenset(self.present)
            due = [name for name in self.clients if name not in called and name not in self.enrolled]
            asked = [name for name in due if name in present]
            if not self.ended:  # all were asked before
                self.lose(due, _NOT_ENROLLED, _ENROLLING)
            elif self.calls_all:
                self.lose(asked, _NOT_ENROLLED, _ENROLLING)
            self.broadcast(asked, Enroll())
        try:
            record = await self.run_round(number, began, members)
        except Abort as abort:
            record = self.record_type(number, began, members, abort.reason)
            if number < self.last_round and self.latest(MASKED)[0] == number:
                self.disk[_OVER] = True
                self.aborted = Reason(_LOST_FOR_GOOD, number=number, why=abort.reason)
                self.dismiss(self.clients, self.aborted, aborted=True)
                return record
            self.dismiss(members, f"the round is lost: {abort}")
        await self._enroll(0.0 if members else self.settings.deadline)  # else all rounds would be over in no time
        return record

    def standstill(self, number: int) -> str:
        """The reason why clients would refuse round `number`, which then is not opened; "" if there is none."""
        return ""

    def select_clients(self, number: int) -> tuple[str, ...]:
        """Call clients to round `number`; return their names. Done in the step train.open."""
        raise NotImplementedError(f"{type(self).__name__} opens no rounds")

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> R:
        """Run round `number` with the `members` that were called. Raises Abort if the round is lost."""
        raise NotImplementedError(f"{type(self).__name__} runs no rounds")

    def state(self) -> dict[str, Any]:
        """The state of a party that has just ended a round."""
        names = ("enrolled", "lost", "ended", *self.attributes)
        found = super().state() | {name: getattr(self, name) for name in names}
        written = (_ENDED, _OPENED, _OVER)  # again, from the rest
        disk = {name: value for name, value in self.disk.items() if name not in written}
        return found | {"device": found["device"] | {"disk": disk}}

    async def _enroll(self, deadline: float) -> None:
        """Add the clients that have answered to `enrolled`."""
        absent = [name for name in self.clients if name not in self.enrolled]
        answers = (await self.collect(Enrolled, absent, deadline=deadline)).answers
        if answers:
            self.enrolled = self.enrolled | answers  # another one, for the disk may have the old one
