"""The device of a party, which exists through all incarnations of the party and on which faults act."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tacit.parties.presence import send_heartbeat
from tacit.parties.rest import Rest
from tacit.sim.compute import Machine
from tacit.sim.conditions import CONNECTION, HEARTBEAT, Barrier
from tacit.sim.faults import Crash, Crashed, Fired, Leave, LinkFault, PartyFault, Pause, Slow, optional, seconds
from tacit.sim.handling import Handling
from tacit.sim.machine import Host
from tacit.sim.plain import Written
from tacit.sim.trace import Event, Fact
from tacit.sim.wire import Packet
from tacit.sim.world import World

__all__ = ["Device"]


# Who makes the parties of devices that are mostly at rest.


class PartyFactory(Protocol):
    """Makes the parties of devices that are at rest most of the time (`tacit.parties.registered`)."""

    def make(self, device: Any) -> Any: ...
    def begin(self, device: Any) -> None: ...
    def slept(self, device: Any) -> None: ...
    def woke(self, device: Any) -> None: ...
    def fell(self) -> None: ...
    def rested_again(self, device: Any) -> None: ...
    def restored(self, device: Any) -> None: ...


def _nothing(device: "Device") -> None:
    """Do nothing: the initial `Device.watcher`."""


class Device:
    """The network access, the processor and the `disk` of the `party`, of the class `kind`.

    `make` makes the party again when it comes back. A `factory`, if given, does so instead, and also makes a party that
    is at `rest` when something concerns it. `up` and `down` are bytes a second (0: unlimited); `cores` and `speed`
    describe the machine, which may share the cores of a `host` and takes `handling` for messages. `observed` is what
    the party stores for observers of a run. `watcher` is called with the device whenever the party ends, goes idle,
    goes down or comes back. Unused parts take no memory, because there may be many devices.
    """

    __slots__ = (
        "_after_pause", "_disk", "_has_left", "_machine", "_make", "_observed", "_party", "_processor", "_slowed",
        "_world", "endpoint", "factory", "kind", "name", "pauses", "rest", "watcher",
    )  # fmt: skip

    def __init__(
        self,
        world: World,
        name: str,
        kind: type,
        party: Any = None,
        make: Callable[..., Any] | None = None,
        factory: PartyFactory | None = None,
        *, up: float = 0.0, down: float = 0.0,
        cores: int = 1, speed: float = 1.0, host: Host | None = None, handling: Handling | None = None,
    ) -> None:  # fmt: skip
        self.name, self.kind, self.factory, self._party = name, kind, factory, party
        self.rest = None if factory is None else Rest()
        self.watcher: Callable[[Device], None] = _nothing
        self._world, self._make = world, make
        self._disk: dict[str, Any] | None = None
        self._observed: dict[str, Any] | None = None
        self.endpoint = world.network.attach(name, self.receive, up, down, handling, host)
        self._processor = (cores, speed, host)
        self._machine: Machine | None = None
        self._slowed: tuple[Slow, ...] = ()
        self.pauses = 0  # those that go on
        self._after_pause: tuple[Callable[[], object], ...] = ()
        self._has_left = False

    def share(self, other: "Device") -> None:
        """Use the descriptions of the `other` device where they are equal: each takes memory only once."""
        if self._processor == other._processor:
            self._processor = other._processor
        self.endpoint.share(other.endpoint)

    @property
    def disk(self) -> dict[str, Any]:
        """What survives a crash of the party, by name."""
        if self._disk is None:
            self._disk = {}
        return self._disk

    @disk.setter
    def disk(self, stored: dict[str, Any]) -> None:
        self._disk = stored

    @property
    def observed(self) -> dict[str, Any]:
        """What the party stores for observers of a run, by name."""
        if self._observed is None:
            self._observed = {}
        return self._observed

    @property
    def party(self) -> Any:
        """The party in its present incarnation. A resting party is made for inspection and keeps resting."""
        if self._party is None:
            assert self.factory is not None
            self._party = self.factory.make(self)
            if self.rest is not None:
                self._party.recall(self.rest)
        return self._party

    @property
    def alive(self) -> bool:
        """True if the party has not crashed or left."""
        return self.endpoint.alive

    @property
    def finished(self) -> bool:
        """True if the party's program has ended."""
        return bool(self.party.finished if self.rest is None else self.rest.finished)

    @property
    def idle(self) -> bool:
        """True if the party only waits for the next round to begin."""
        return bool(self.party.idle if self.rest is None else self.rest.idle)

    @property
    def step_name(self) -> str:
        """The step that the party is in, or was in last."""
        return str(self.party.step_name if self.rest is None else self.rest.step)

    @property
    def machine(self) -> Machine:
        """The processor, made on demand."""
        if self._machine is None:
            cores, speed, host = self._processor
            self._machine = Machine(self._world.loop.env, cores, speed, self._factor, host)
            if self.endpoint.paused:
                self._machine.stretch(math.inf)
        return self._machine

    def runs(self, party: object) -> bool:
        """Return true if `party` is the object that runs on this device."""
        return self._party is party

    def seen(self, name: str) -> Any:
        """The attribute `name` of the party, for an observer.

        Observed attributes do not require making a resting party.
        """
        kept: Any = getattr(self.kind, name, None)
        return kept.of(self) if hasattr(kept, "of") else getattr(self.party, name)

    def receive(self, packet: Packet) -> None:
        """Pass an arriving packet to the party."""
        if self.rest is not None:
            self.wake()
        self._party.receive(packet)

    def changed(self) -> None:
        """Call the watcher: the party has ended, goes idle, goes down or comes back."""
        self.watcher(self)

    def start(self, watcher: "Callable[[Device], None]" = _nothing, *, again: bool = False) -> None:
        """Begin the party's program, and schedule the faults with a time.

        `again`: another process ran the party before, and faults whose time is past are skipped.
        """
        self.watcher = watcher
        self._begin()
        for fault in self._world.faults.timed(self.name):
            assert fault.time is not None
            when = seconds(fault.time)
            if when > self._world.loop.time():
                self._world.loop.env.at(when, partial(self.strike, fault))
            elif not again:  # before it does anything
                self.strike(fault)

    def fall_asleep(self, rest: Rest) -> None:
        """Free the party, which has begun to `rest`, and everything that only an awake party needs."""
        if self._party is not None or self.endpoint.incarnation > 1:  # else there was no party yet
            self._party = None
            if self._machine is not None and self._machine.is_idle:
                self._machine = None
            self._world.loop.waits.pop(self.name, None)
            self._world.network.retire(self.name)
        self.rest = rest
        if self.factory is not None:
            self.factory.slept(self)

    def wake(self) -> None:
        """Continue the party from where it rests, because something concerns it now."""
        rest = self.rest
        if rest is not None and rest.idle and self.factory is not None:
            made = self._party  # for inspection
            party = self.party  # a new one recalls its rest
            if made is not None:
                made.recall(rest)
            self.rest = None
            self.factory.woke(self)
            party.go_on(rest.number)

    def give_up(self) -> None:
        """Wake the party in the next turn of the loop, because its patience has run out."""
        self._world.loop.call_soon(self._run_out)

    def _run_out(self) -> None:
        if self.rest is not None and self.endpoint.alive:
            self.rest.in_time = False
            self.wake()

    def crash(
        self, why: str = "crash", back_after: float | None = None, *, kind: str = Crash.kind, powerless: bool = False
    ) -> None:
        """Stop immediately: nothing more is sent, received or computed, and memory is lost.

        The party comes back after `back_after` seconds. A machine that is `powerless` does not close its connections.
        `kind` is that of the fault.
        """
        self._go(why, kind, self.endpoint.fall, powerless=powerless)
        self._later(back_after, self.rejoin)

    def leave(self, why: str = "leave", *, kind: str = Leave.kind) -> None:
        """Leave permanently. Messages sent before still go out; a party that is down does not come back."""
        if not self.endpoint.alive:
            self._note_fault(why, Fact.DOWN, kind)
        self._go(why, kind, self.endpoint.leave)
        self._has_left = True

    def rejoin(self) -> None:
        """Come back as the next incarnation: a new party with this device's disk only, and an idle processor."""
        if self.endpoint.alive or self._has_left:
            return
        self.endpoint.rejoin()
        self._machine = None
        if self._make is not None:
            self._party = self._make(device=self)
        else:
            self.rest, self._party = Rest(), None
        self._note_fault(f"rejoin as incarnation {self.endpoint.incarnation}", Fact.OVER, Fact.DOWN)
        self._begin()
        self._tell(there=True)
        self.changed()

    def _tell(self, *, there: bool) -> None:
        """Notify, a segment later, all watchers of connections that those of this party are open or closed."""
        watching, watchers = self._world.watching, self._world.watchers
        if watching is None or watching.kind != CONNECTION:
            return
        for name, see in watchers.items():
            if name != self.name:
                called = partial(see, self.name, self.endpoint.incarnation, there)
                self._world.network.signal(self.name, name, called)
        if there and self.name in watchers:  # it has new connections, to those alone that are up
            for name, incarnation in self._world.network.absent().items():
                self._world.network.signal(name, self.name, partial(self.see, name, incarnation, False))

    def see(self, party: str, incarnation: int, there: bool) -> None:
        """Notify the server on this device that the connection of `party` was opened or closed."""
        if self.endpoint.paused:
            self.endpoint.arrivals.append(partial(self.see, party, incarnation, there))
        elif self.endpoint.alive and self._party is not None:
            self._party.presence.see(party, incarnation, there=there)

    def check_presence(self, incarnation: int) -> None:
        """Let the server on this device check for silent clients, now and again after each interval."""
        watching, endpoint = self._world.watching, self.endpoint
        if not endpoint.alive or endpoint.incarnation != incarnation or self.finished or watching is None:
            return
        if endpoint.paused:  # what was received meanwhile comes first
            self.after_pause(partial(self.check_presence, incarnation))
            return
        self._party.presence.check()
        self._later(watching.interval, partial(self.check_presence, incarnation))

    def beat(self, incarnation: int) -> None:
        """Send a heartbeat, now and again after each interval, until the party has ended or is down."""
        watching, endpoint = self._world.watching, self.endpoint
        if not endpoint.alive or endpoint.incarnation != incarnation or self.finished or watching is None:
            return
        if not endpoint.paused:
            try:
                send_heartbeat(self.party)
            except Crashed:  # of a fault that this message triggers
                return
        self._later(watching.interval, partial(self.beat, incarnation))

    def _begin(self) -> None:
        watching = self._world.watching
        if watching is not None and watching.kind == HEARTBEAT:
            call = self.check_presence if self.name in self._world.watchers else self.beat
            self._later(watching.interval, partial(call, self.endpoint.incarnation))
        if self.factory is None:
            self._party.begin()
        else:
            self.factory.begin(self)

    def pause(self, why: str = "pause", lasts: float | None = None, *, kind: str = Pause.kind) -> None:
        """Pause for `lasts` seconds. Arriving packets are kept, sends are delayed, and computing and deadlines stop."""
        if self.endpoint.alive:
            self._note_fault(why, Fact.PAUSED, kind)
            self.pauses += 1
            self._stand_still()
            self.wake()
            self._later(lasts, partial(self._resume_in, self.endpoint.incarnation))

    def resume(self) -> None:
        """End one pause. After the last one, handle the kept packets first, then the deadlines that have passed."""
        if not self.pauses:
            return
        self.pauses -= 1
        if self.pauses:
            return
        self._note_fault("resume", Fact.OVER, Fact.PAUSED)
        self.endpoint.resume()
        if self._machine is not None:
            self._machine.stretch(self._factor)
        waiting, self._after_pause = self._after_pause, ()
        for call in waiting:
            call()

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the party resumes; never if it goes down instead."""
        self._after_pause += (call,)

    def state(self) -> dict[str, Any]:
        """The state without the network access (`tacit.sim.snapshot`)."""
        return {name: getattr(self, name) for name in ("disk", "_slowed", "pauses", "_after_pause", "_has_left")}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`; the endpoint keeps its own factor."""
        for name, value in state.items():
            setattr(self, name, value)
        if self._machine is not None:
            self._machine.stretch(self._factor)

    def program_state(self) -> Any:
        """The state of the party's program. For a resting party: its rest, its observed attributes and the device's."""
        rest = self.rest
        if rest is None:
            return self.party.state()
        ending = None if self._observed is None else self._observed.get("ending")
        if ending is None and self._is_new:  # most often
            return Written(["list", rest.written(), None, None])
        return [rest.state(), ending, None if self._is_new else self.state()]

    def restore_program(self, state: Any) -> None:
        """Continue from a `program_state`; a resting party is prepared to begin again."""
        if isinstance(state, dict):
            self.rest = None
            self.party.restore(state)
            if self.factory is not None:
                self.factory.restored(self)
            return
        rest, ending, own = state
        self.rest = Rest.restored(rest)
        if ending is not None:
            self.observed["ending"] = ending
        if own is not None:
            self.restore(own)

    @property
    def _is_new(self) -> bool:
        return not (self._slowed or self.pauses or self._after_pause or self._has_left or self._disk)

    def begin_again(self) -> None:
        """Begin the party's program at the place where it rested."""
        self.endpoint.paused = False
        self.party.begin()

    def rest_again(self, when: float) -> None:
        """Rest as before, until the time `when` at most."""
        rest = self.rest
        assert rest is not None and self.factory is not None
        rest.timer = self._world.loop.env.at(when, self.give_up)
        self.factory.rested_again(self)

    def stand_still_again(self) -> None:
        """Pause as before the snapshot, once the party waits."""
        if self.pauses:
            self._stand_still()

    def strike(self, fault: PartyFault, before: str = "") -> None:
        """Apply `fault`, unless it needs a running party and this one is down or has ended.

        `before`: the step before which the party is, of a fault that names none.
        """
        is_there = not self._has_left if fault.strikes == "staying" else self.endpoint.alive
        if fault.strikes != "any" and (not is_there or self.finished):
            return
        peer = fault.peer if isinstance(fault, LinkFault) else ""
        step = fault.start or fault.after or (fault.is_drawn and before) or self.step_name
        self._world.faults.fired.append(Fired(fault, self._world.loop.time(), self.name, peer, step, fault.message))
        fault.strike(self)

    def _go(self, why: str, kind: str, go: Callable[[], None], *, powerless: bool = False) -> None:
        if self.endpoint.alive:
            self._note_fault(why, Fact.DOWN, kind)
            self.pauses = 0
            self._after_pause = ()
            go()
            if self.rest is None:
                self._party.end()
            else:
                self._end_rest(self.rest)
            if not powerless:
                self._tell(there=False)
            self.changed()

    def _end_rest(self, rest: Rest) -> None:
        if rest.timer is not None:
            rest.timer.cancel()
            rest.timer = None
        if rest.idle and self.factory is not None:
            rest.idle = False
            self.factory.fell()
        if (wait := rest.wait) is not None:
            rest.wait = None
            wait.ended, wait.silent, wait.missing = "cancelled", wait.sources, wait.sources
            for tap in self._world.taps.waits:
                tap(self._world.loop.time(), wait)

    def _stand_still(self) -> None:
        self.endpoint.pause()
        if self._machine is not None:
            self._machine.stretch(math.inf)

    def _note_fault(self, note: str, fact: str, detail: str, peer: str = "") -> None:
        step, now = self.step_name, self._world.loop.time()
        self._world.trace.add(Event(now, "fault", self.name, peer, step=step, note=note, fact=fact, detail=detail))

    @property
    def _factor(self) -> float:
        """The product of the factors of all active faults, each counted once.

        Otherwise a party that repeats a step twenty times would be slowed by the twentieth power.
        """
        return math.prod(fault.factor for fault in dict.fromkeys(self._slowed))

    def _stretch(self) -> None:
        """Set the pace of computing, sending and receiving according to the active faults."""
        self.endpoint.stretch(self._factor)
        if self._machine is not None and not self.endpoint.paused:
            self._machine.stretch(self._factor)

    # Faults: what they do, and how they end

    def _later(self, seconds: float | None, call: Callable[[], object]) -> None:
        if seconds is not None:
            self._world.loop.env.at(self._world.loop.env.now + seconds, call)

    def _resume_in(self, incarnation: int) -> None:
        if self.endpoint.alive and self.endpoint.incarnation == incarnation:
            self.resume()

    def slow(self, fault: Slow) -> None:
        """Slow down computing, sending and receiving by the factor of `fault`, for its duration."""
        self._note_fault(f"slow {fault.trigger}: {fault.factor:g} times as long", Fact.SLOW, fault.kind)
        self._slowed += (fault,)
        self._stretch()
        self._later(optional(fault.lasts), partial(self._quicken, fault))

    def _quicken(self, fault: Slow) -> None:
        self._note_fault("slow ends", Fact.OVER, Fact.SLOW)
        slowed = list(self._slowed)
        slowed.remove(fault)
        self._slowed = tuple(slowed)
        self._stretch()

    def block(self, fault: LinkFault) -> None:
        """Block the links that `fault` names, for its duration."""
        of, to = ("from", "to") if fault.one_way else ("of", "and")
        barrier = Barrier(self.name, fault.peer, one_way=fault.one_way, holds=fault.spell == "held")
        what = f"{fault.kind} {of} {self.name} {to} {fault.peer}"
        self._note_fault(f"{what} begins {fault.trigger}", fault.spell, fault.kind, fault.peer)
        self._world.network.block(barrier)
        end = f"{what} {fault.over}"
        self._later(optional(fault.lasts), partial(self._unblock, barrier, end, fault.spell))

    def _unblock(self, barrier: Barrier, note: str, spell: str) -> None:
        self._note_fault(note, Fact.OVER, spell, barrier.peer)
        self._world.network.unblock(barrier)
