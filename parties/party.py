"""The actor that every party is: it sends, waits with a deadline, computes, takes steps, crashes and comes back.

A party's program is its `main`, one coroutine; concurrent work of the party is tasks inside it. Messages of an earlier
(round, attempt) than the party's are late: they are dropped and traced, except those of a lasting type. Messages of a
later one wait in the mailbox until the party enters it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeVar, overload

from tacit.parties.life import Lifecycle
from tacit.parties.mailbox import MOST_AHEAD, MOST_BYTES_AHEAD, Collected, Kinds, Mailbox, NoAnswer
from tacit.parties.rest import Rest, interned
from tacit.parties.waiting import Arrivals, Watch, names_of, type_names
from tacit.sim.clock import Timer
from tacit.sim.compute import Work
from tacit.sim.conditions import HEARTBEAT
from tacit.sim.faults import PartyFault
from tacit.sim.grammar import in_number
from tacit.sim.hollow import body_of
from tacit.sim.loop import own_step
from tacit.sim.plugged import is_foreign
from tacit.sim.seeding import Generators, carried
from tacit.sim.streams import Entropy, derive
from tacit.sim.taps import Wait
from tacit.sim.trace import Event, Fact
from tacit.sim.wire import (
    Frame,
    Message,
    Packet,
    WireError,
    associated_data,
    decode_body,
    digest_of_body,
    encode_body,
    is_lasting,
    pack,
    payload_size,
    type_of,
    unpack_frame,
)
from tacit.sim.world import World

__all__ = ["Arrivals", "Channel", "Collected", "NoAnswer", "Party"]


# Channels that seal messages between two parties.


class Channel(Protocol):
    """Seals and opens the messages of two parties. `open` raises ValueError for data that is not authentic.

    `bind` extends the context that both parties must agree on.
    """

    overhead: int

    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes: ...
    def open(self, sealed: bytes, associated_data: bytes) -> bytes: ...
    def bind(self, context: bytes) -> None: ...


M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)
R = TypeVar("R")


class _Step:
    """The context of a step that a party takes."""

    __slots__ = ("_begins", "_entered", "_name", "_number", "_party", "_token")

    def __init__(self, party: "Party", name: str, *, entered: bool, begins: int) -> None:
        self._party, self._name, self._entered, self._begins = party, name, entered, begins

    def __enter__(self) -> None:
        party, name = self._party, self._name
        if not self._entered:
            party._step = name
            party._reach(name, "before", begins=self._begins)
        self._number = party.world.faults.reached(party.name, name)
        if not self._entered:
            party.world.note("enter", party.name, step=name, origin=("", party.round, party.attempt))
        self._token = own_step.set(name)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        party, name = self._party, self._name
        own_step.reset(self._token)
        if kind is None:
            party._reach(name, "after", self._number)
            party.world.note("leave", party.name, step=name, origin=("", party.round, party.attempt))


class Party(Lifecycle):
    """One party of the protocol, attached to the world's network under its `name`.

    `up` and `down` are bytes a second (0: unlimited), `cores` and `speed` its machine. `disk` survives a crash.
    """

    authority = ""
    """The only party whose announcements are accepted; "": all."""

    interrupts: ClassVar[Kinds] = ()
    """The message types that end all waits of the party, by a call of `interrupted`."""

    def __init__(self, world: World, name: str, **access: Any) -> None:
        super().__init__(world, name, **access)
        self.round = 0
        self.attempt = 0
        self.channels: dict[str, Channel] = {}
        self.incarnations: dict[str, int] = {}  # the latest of each party that has sent a message
        self._mailbox = Mailbox(self, world.loop)
        world.loop.waits[name] = self._awaited

    def __repr__(self) -> str:
        return f"<{self.name}, incarnation {self.incarnation}, {'up' if self.alive else 'down'}>"

    def _awaited(self) -> str:
        if not self.alive or self.finished:
            return ""
        return f"{self._mailbox.awaited or 'nothing that it names'} (in {self._step or 'no step'})"

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The parties from which it waits for messages. May be read at any time, also from another thread."""
        return tuple(dict.fromkeys(name for wait in self._waits for name in list(wait.sources)))

    @property
    def _waits(self) -> list[Arrivals[Any]]:
        return [wait for wait in list(self._mailbox.waiting) if isinstance(wait, Arrivals)]

    def state(self) -> dict[str, Any]:
        mailbox = self._mailbox.state()
        return super().state() | {
            "round": self.round, "attempt": self.attempt, "incarnations": self.incarnations, "mailbox": mailbox
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        fields = dict(state)
        self._mailbox.restore((fields["round"], fields["attempt"]), fields.pop("mailbox"))
        super().restore(fields)

    def recall(self, rest: Rest) -> None:
        super().recall(rest)
        self.round, self.attempt = self._mailbox.stamp = rest.round, rest.attempt
        self.incarnations = dict(rest.incarnations)
        self._mailbox.rest = rest if rest.idle else None

    @property
    def rested(self) -> Rest | None:
        """The rest from which the party continues, until it waits or takes a message; otherwise None."""
        return self._mailbox.rest

    def falls_asleep(self, kinds: Kinds, source: str, deadline: float, until: float) -> bool:
        """Free the party until one of `kinds` from `source` arrives, within `deadline` seconds; return true if it was
        freed.

        This needs a device that can make the party again, and no other activity of the party. `until` is the end of its
        patience.
        """
        device, mailbox = self.device, self._mailbox
        if device.factory is None or len(mailbox):  # most often
            return False
        old = mailbox.rest
        beats = self.world.watching is not None and self.world.watching.kind == HEARTBEAT
        if beats or device.pauses or not (old is None or old.in_time):
            return False
        known = interned(tuple(self.incarnations.items()))
        number = hash(self._task)
        rest = Rest(self.since, until, self.round, self.attempt, self._step, known, idle=True, number=number)
        if old is None:
            rest.wait = self.waits(type_names(kinds), interned((source,)), deadline)
            rest.timer = self.world.loop.env.at(self.world.loop.time() + deadline, device.give_up)
        else:
            rest.wait, rest.timer = old.wait, old.timer
        device.fall_asleep(rest)
        del mailbox.owner  # a circle would keep both
        return True

    def needs(self, place: str) -> tuple[str, ...]:
        """The types of messages that a program restarted at `place` cannot handle."""
        return ()

    @property
    def rest_timer(self) -> Timer | None:
        """The timer of the party's only wait, in which it rests; None unless it rests."""
        waits = self._waits if self.place else []
        return waits[0].timer if len(waits) == 1 else None

    # Steps and computing

    def step(self, name: str, *, entered: bool = False, begins: int = 0) -> AbstractContextManager[None]:
        """Take the step `name`: a context that is traced at both ends and triggers the scenario's faults.

        `entered`: the step was begun before the run was broken off, and only its end follows. `begins`: the round that
        begins with this step, for faults with a `round`.
        """
        return _Step(self, name, entered=entered, begins=begins)

    def _reach(self, name: str, when: str, number: int | None = None, begins: int = 0) -> None:
        self.check_alive()
        self._suffer(self.world.faults.at_step(self.name, name, when, begins or self.round, number), name)

    def _suffer(self, faults: list[PartyFault], before: str = "") -> None:
        for fault in faults:
            self.device.strike(fault, before)
            self.check_alive()

    async def compute(self, work: Work, function: Callable[..., R], *arguments: Any) -> R:
        """Run `function(*arguments)` on this party's machine; returns its result after its virtual duration.

        `work` counts the operations for the cost table. The function must depend on its arguments alone, and both
        must pickle.
        """
        self.check_alive()
        return await self.world.computing.run(
            self.device.machine, self.name, own_step.get() or self._step, work, function, *arguments
        )

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual `seconds`, which the record of the run reports."""
        event = Event(
            self.world.loop.time(),
            "metric",
            self.name,
            step=self.step_name,
            note=Fact.SLEEPS,
            value=seconds,
            fact=Fact.SLEEPS,
        )
        self.world.trace.tell(event)
        await asyncio.sleep(seconds)

    async def compute_until(self, due: float, work: Work, function: Callable[..., R], *arguments: Any) -> R:
        """Do the same as `compute` for the party's only job, which began before the run was broken off and is `due`
        then."""
        machine, step = self.device.machine, own_step.get()
        return await self.world.computing.go_on(machine, self.name, step, work, due, function, *arguments)

    def foresee(self, message: Message, stamp: tuple[int, int]) -> None:
        """Start the jobs that this party will compute on `message` of (round, attempt), which is being sent to it.

        For `tacit.protocols.federated.experiment`: the party's actions, messages and state must not depend on it.
        """

    def plan(self, work: Work) -> None:
        """Announce future work, for the estimate of the time left."""
        self.world.computing.plan(work)

    def drawing(self, owner: object, program: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
        """The coroutine `program` of `owner` in this round. If the owner's class is a user's, the global generators of
        Python, numpy and torch are seeded in it by a stream of this party (`tacit.sim.seeding`).
        """
        if not (self.world.draws and is_foreign(type(owner))):
            return program
        return carried(self._generators(owner), program)

    def drawn(self, owner: object, function: Callable[..., R], *arguments: Any) -> R:
        """Return `function(*arguments)`, a method of `owner`, with generators as in `drawing`."""
        if not (self.world.draws and is_foreign(type(owner))):
            return function(*arguments)
        with self._generators(owner, *(one for one in arguments if isinstance(one, str))):
            return function(*arguments)

    def _generators(self, owner: object, *names: str) -> Generators:
        place: tuple[str | int, ...] = (self.name, self.incarnation, self.round, type(owner).__qualname__, *names)
        return Generators(int.from_bytes(derive(self.world.seed, "own code", *place)[:8], "big"))

    def entropy(self, *names: str | int) -> Entropy:
        """This incarnation's cryptographic randomness for the purpose `names` in this round and attempt."""
        return self.world.entropy(self.name, self.incarnation, self.round, self.attempt, *names)

    # What must not be repeated: remembered on the disk, which survives a crash

    def latest(self, what: str) -> tuple[int, int]:
        """The latest (round, attempt) in which the party did `what`, in any incarnation; (0, 0) if never."""
        round_number, attempt = self.disk.get("entered", {}).get(what, (0, 0))
        return round_number, attempt

    def once(self, what: str) -> bool:
        """Record that the party does `what` in this attempt; return false if it did so in this attempt or a later
        one."""
        now = (self.round, self.attempt)
        if now <= self.latest(what):
            return False
        self.disk["entered"] = self.disk.get("entered", {}) | {what: now}
        return True

    def once_a_round(self, what: str, refused: str) -> bool:
        """Record that the party does `what` in this round; return false if it did so in this round or a later one.

        The trace then says that it has `refused` to, such as "sign: it has signed".
        """
        if self.latest(what)[0] >= self.round or not self.once(what):
            self.refuse(f"{refused} already, and once a round is all")
            return False
        return True

    def refuse(self, what: str) -> None:
        """Trace that the party refuses to do `what`: a text, or the reason (`outcome.Reason`) of a protocol."""
        what = in_number(what) if type(what) is str else what
        origin, note = ("", self.round, self.attempt), f"refused to {what}"
        self.world.note(
            "metric", self.name, step=self.step_name, note=note, origin=origin, fact=Fact.REFUSED, detail=what
        )

    # Messages

    def advance(self, round_number: int, attempt: int) -> None:
        """Enter (round, attempt); earlier messages in the mailbox become late."""
        if (round_number, attempt) <= (self.round, self.attempt):
            return
        self.round, self.attempt = round_number, attempt
        for frame in self._mailbox.advance((round_number, attempt)):
            self._drop(frame, "late: of an earlier round or attempt", Fact.LATE)

    def send(self, receiver: str, message: Message) -> None:
        """Send `message`, sealed by a channel to the receiver if there is one. Returns immediately."""
        self.send_each((receiver,), message)

    def send_alike(self, receiver: str, message: Message, times: int) -> None:
        """Send one message that stands for `times` equal messages, one after another; only in a hollow run."""
        if times == 1:
            self.send(receiver, message)
        else:
            self._send_each((receiver,), message, times)

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        """Send `message` to each of `receivers`, in order; common work is done once."""
        self._send_each(receivers, message)

    def _send_each(self, receivers: Iterable[str], message: Message, times: int = 1) -> None:
        kind, hollow = type(message).__name__, self.world.hollow
        plain = encode_body(message) if hollow is None else body_of(message, hollow)
        step, payload = own_step.get() or self._step, payload_size(message)
        plain_digest: bytes | None = None
        sealed_digest: bytes | None = None
        if self.world.trace.uses_digests:
            plain_digest, sealed_digest = digest_of_body(plain), b""
        name, faults, send = self.name, self.world.faults, self.world.network.send
        strikes, incarnation, number, attempt = faults.strike_sends, self.incarnation, self.round, self.attempt
        for receiver in receivers:
            self.check_alive()
            if strikes and (due := faults.at_send(name, kind, number)):
                self._suffer(due)
            channel = self.channel_to(receiver)
            body, digest, sealing = plain, plain_digest, 0
            if channel is not None:
                bound = associated_data(kind, name, receiver, number, attempt)
                body, digest, sealing = channel.seal(plain, bound), sealed_digest, channel.overhead
            named = (kind, name, receiver, incarnation, number, attempt, channel is not None)
            send(pack(named, body, message.protocol, step, sealing, digest, payload, times))

    def channel_to(self, receiver: str) -> Channel | None:
        """The channel that seals messages to `receiver`; None if the link's encryption is enough."""
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
            raise NoAnswer(self.name, names_of(wanted), deadline, source)
        return found[1]

    async def collect(
        self, kind: type[M], sources: Iterable[str], *, deadline: float, quorum: int | None = None, until: Kinds = ()
    ) -> Collected[M]:
        """Collect one `kind` message from each of `sources`; a second one from the same source stays in the mailbox.

        It ends when all have answered, when `quorum` of them have, after `deadline` virtual seconds, or as soon as a
        message of a type in `until` has arrived.
        """
        order = tuple(sources)
        need = len(order) if quorum is None else min(quorum, len(order))
        answers: dict[str, M] = {}
        if need:
            with self.incoming((kind,), order, deadline=deadline, until=until) as arrivals:
                leave_out = arrivals.leave_out

                def keep(source: str, message: M) -> bool:
                    answers[source] = message
                    leave_out(source)
                    return len(answers) >= need

                await arrivals.hand_each(keep)
        missing = tuple(name for name in order if name not in answers)
        return Collected({name: answers[name] for name in order if name in answers}, missing)

    async def each(
        self,
        kind: type[M],
        sources: Iterable[str],
        handle: Callable[[str, list[M]], Coroutine[Any, Any, None]],
        *,
        deadline: float,
        until: Kinds = (),
    ) -> None:
        """Run `handle` with one `kind` message from each of `sources` on receipt, concurrently.

        `handle` gets the sender, and the message in a list, from which it takes it out. It ends like `collect`, after
        all handlers that were begun are done; errors are those of `together`.
        """
        try:
            await asyncio.sleep(0)  # waits that the owner begins at this moment elsewhere come first, as of a task's
            with self.incoming((kind,), sources, deadline=deadline, until=until) as arrivals:
                async with asyncio.TaskGroup() as group:
                    async for source, message in arrivals.one_each():
                        group.create_task(handle(source, [message]))
                        del message
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def incoming(
        self,
        kinds: tuple[type[M], ...],
        sources: Iterable[str],
        *,
        deadline: float,
        until: Kinds = (),
        over: Callable[[], bool] | None = None,
    ) -> Arrivals[M]:
        """An iterator over the messages of one of `kinds` from `sources` as they arrive.

        ``with me.incoming(...) as arrivals: async for source, message in arrivals``. It ends after `deadline` virtual
        seconds, or as soon as a message of a type in `until` has arrived. If some of `sources` are known to be gone, it
        ends once `over()` is true, by default when all remaining sources are gone.
        """
        return Arrivals(self._mailbox, kinds, sources, deadline, until, over)

    def unless(
        self, kinds: Kinds, sources: Iterable[str], error: Exception, grace: float = 0.0, *, rounds: bool = False
    ) -> Watch:
        """A context that ends with `error`, `grace` seconds after a message of `kinds` of a later round or attempt.

        `rounds`: of a later round only.
        """
        return Watch(self._mailbox, kinds, sources, error, grace, rounds=rounds)

    def is_called_on(self, kinds: Kinds, sources: Iterable[str]) -> bool:
        """True if a message of `kinds` was received for a later round or attempt than the party's."""
        return self._mailbox.first_sender(kinds, frozenset(sources), self._mailbox.stamp) is not None

    async def together(self, *coroutines: Coroutine[Any, Any, R]) -> list[R]:
        """Run all coroutines concurrently and return their results.

        The first error cancels the others and is raised.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(coroutine) for coroutine in coroutines]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    def interrupted(self, source: str, message: Message) -> None:
        """Raise an error because of a message of an interrupting type, which ends the current wait."""
        raise NotImplementedError(f"{type(self).__name__} does not say what {type(message).__name__} means")

    def waits(self, types: tuple[str, ...], sources: tuple[str, ...], deadline: float) -> Wait | None:
        """Report the beginning of a wait to the taps (for the mailbox); return None if there are none."""
        taps = self.world.taps.waits
        if not taps or not deadline:
            return None
        step = own_step.get() or self._step
        began = self.world.loop.time()
        wait = Wait(self.name, step, self.round, self.attempt, types, sources, deadline, began=began)
        for tap in taps:
            tap(began, wait)
        return wait

    def are_gone(self, sources: dict[str, None], over: Callable[[], bool] | None = None) -> bool:
        """Return true if all of `sources` are known to be gone, or some are and `over()` is true (for the mailbox).

        Only a server knows that clients are gone.
        """
        return False

    def wake_waits_for(self, source: str) -> None:
        """Let all waits for `source` check again if any source is left to wait for."""
        for wait in self._waits:
            if source in wait.sources:
                wait.wake()

    def waited(self, wait: Wait) -> None:
        """Report the end of a wait (for the mailbox)."""
        for tap in self.world.taps.waits:
            tap(self.world.loop.time(), wait)

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """Decode the message in `frame`; if it is unreadable, drop it and return None (for the mailbox)."""
        body = frame.body
        try:
            if frame.incarnation < self.incarnations.get(frame.sender, 0) and not is_lasting(frame):
                raise WireError(f"it is of incarnation {frame.incarnation}, which is gone")
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
        if frame.round != self.round or frame.attempt != self.attempt:
            self.advance(frame.round, frame.attempt)
        return message

    def receive(self, packet: Packet) -> None:
        try:
            frame = unpack_frame(packet)
        except WireError as error:
            self._drop(packet, str(error))
            return
        mailbox, kind = self._mailbox, type_of(frame)
        if kind.announces and self.authority and frame.sender != self.authority:
            self._drop(frame, f"only {self.authority} announces")
        elif (frame.round, frame.attempt) == mailbox.stamp and not kind.follows:  # most often
            mailbox.put_due(frame)
        elif mailbox.is_late(frame):
            self._drop(frame, "late: of an earlier round or attempt", Fact.LATE)
        elif (waits := mailbox.must_wait(frame)) and mailbox.is_full(frame):
            most = f"{MOST_AHEAD} messages and {MOST_BYTES_AHEAD >> 20} MiB may"
            self._drop(frame, f"as many of its messages wait for their turn as may: {most}")
        else:
            mailbox.put(frame, waits)

    def _drop(self, what: Frame | Packet, why: str, fact: str = "") -> None:
        origin = what.type, what.round, what.attempt
        note = f"{what.type} from {what.sender}: {why}"
        self.world.note(
            "drop", self.name, step=self._step, note=note, sender=what.sender, origin=origin, fact=fact, detail=why
        )
