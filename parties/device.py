"""What a party runs on: it lasts through all incarnations of the party, and faults act on it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from sim.barriers import Barrier
from sim.compute import Machine
from sim.faults import Crash, Fired, Hold, Leave, Partition, PartyFault, Pause, Slow
from sim.trace import Event
from sim.wire import Packet
from sim.world import World

__all__ = ["Device"]


class _Program(Protocol):
    """What runs on a device: the party in one incarnation."""

    finished: bool
    idle: bool
    failure: BaseException | None

    @property
    def alive(self) -> bool: ...
    @property
    def step_name(self) -> str: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def receive(self, packet: Packet) -> None: ...


class Device:
    """The access to the network, the processor and the `disk` of the `party`, which `make` makes for each incarnation.

    `up` and `down` are bytes a second (0: unlimited), `cores` and `speed` the machine. `observed` is what the party
    stores for observers of a run. `changed` is called whenever the party ends, goes idle, goes down or comes back.
    """

    def __init__(
        self,
        world: World,
        name: str,
        party: _Program,
        make: Callable[..., _Program],
        *,
        up: float = 0.0,
        down: float = 0.0,
        cores: int = 1,
        speed: float = 1.0,
    ) -> None:
        self.name, self.party = name, party
        self.disk: dict[str, Any] = {}
        self.observed: dict[str, Any] = {}
        self.changed: Callable[[], None] = lambda: None
        self._world, self._env, self._make = world, world.loop.env, make
        self.endpoint = world.network.attach(name, lambda packet: self.party.receive(packet), up, down)
        self._new_machine = partial(Machine, self._env, cores, speed)
        self.machine = self._new_machine()
        self._slowed: list[Slow] = []
        self._pauses = 0  # those that go on
        self._after_pause: list[Callable[[], object]] = []
        self._has_left = False

    def start(self, changed: Callable[[], None] = lambda: None) -> None:
        """Begin the party's program, and apply the faults that have a time when it comes."""
        self.changed = changed
        self.party.begin()
        for fault in self._world.faults.timed(self.name):
            assert fault.time is not None
            if fault.time > self._world.loop.time():
                self._env.at(fault.time, partial(self.strike, fault))
            else:  # before it does anything
                self.strike(fault)

    def crash(self, why: str = "crash") -> None:
        """Fall silent at once: nothing more is sent, received or computed, and memory is lost."""
        self._go(why, self.endpoint.fall)

    def leave(self, why: str = "leave") -> None:
        """Go for good; what was sent already still goes out. Of a party that is down: it does not come back."""
        if not self.endpoint.alive:
            self._note_fault(why)
        self._go(why, self.endpoint.leave)
        self._has_left = True

    def rejoin(self) -> None:
        """Come back as the next incarnation: a new party with nothing but this device, and a processor that is free."""
        if self.endpoint.alive or self._has_left:
            return
        self.endpoint.rejoin()
        self.machine = self._new_machine(self._factor)
        self.party = self._make(device=self)
        self._note_fault(f"rejoin as incarnation {self.endpoint.incarnation}")
        self.party.begin()
        self.changed()

    def pause(self, why: str = "pause") -> None:
        """Pause. What arrives is kept, what is sent goes out later, and computing and deadlines wait."""
        if self.endpoint.alive:
            self._note_fault(why)
            self._pauses += 1
            self._stand_still()

    def resume(self) -> None:
        """End one pause. After the last, go on: first with what has come, then with the deadlines that have passed."""
        if not self._pauses:
            return
        self._pauses -= 1
        if self._pauses:
            return
        self._note_fault("resume")
        self.endpoint.resume()
        self.machine.stretch(self._factor)
        waiting, self._after_pause = self._after_pause, []
        for call in waiting:
            call()

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the party goes on; if it goes down instead, never."""
        self._after_pause.append(call)

    def state(self) -> dict[str, Any]:
        """Its state, without the access to the network (`sim.snapshot`)."""
        return {name: getattr(self, name) for name in ("disk", "_slowed", "_pauses", "_after_pause", "_has_left")}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a `state`; the endpoint keeps its own factor."""
        vars(self).update(state)
        self.machine.stretch(self._factor)

    def begin_again(self) -> None:
        """Begin the party's program at the place where it rests."""
        self.endpoint.paused = False
        self.party.begin()

    def stand_still_again(self) -> None:
        """Pause as before, once the party waits."""
        if self._pauses:
            self._stand_still()

    def strike(self, fault: PartyFault) -> None:
        """Apply `fault`, unless it needs a party that is up and this one is not, or has ended."""
        effect, needs_life = _EFFECTS[type(fault)]
        is_there = not self._has_left if isinstance(fault, Leave) else self.endpoint.alive
        if needs_life and (not is_there or self.party.finished):
            return
        peer = fault.peer if isinstance(fault, Partition | Hold) else ""
        step = fault.before or fault.after or self.party.step_name
        self._world.faults.fired.append(Fired(fault, self._world.loop.time(), self.name, peer, step, fault.message))
        effect(self, fault)

    def _go(self, why: str, go: Callable[[], None]) -> None:
        if self.endpoint.alive:
            self._note_fault(why)
            self._pauses = 0
            self._after_pause.clear()
            go()
            self.party.end()
            self.changed()

    def _stand_still(self) -> None:
        self.endpoint.pause()
        self.machine.stretch(math.inf)

    def _note_fault(self, note: str, peer: str = "") -> None:
        step, now = self.party.step_name, self._world.loop.time()
        self._world.trace.add(Event(now, "fault", self.name, peer, step=step, note=note))

    @property
    def _factor(self) -> float:
        """The product of the factors of all faults that go on, each once.

        A party that comes to the same step twenty times would otherwise be slow by the twentieth power.
        """
        return math.prod(fault.factor for fault in dict.fromkeys(self._slowed))

    def _stretch(self) -> None:
        """Compute, send and receive as slowly as the faults say that go on."""
        self.endpoint.stretch(self._factor)
        if not self.endpoint.paused:
            self.machine.stretch(self._factor)

    # Faults: what they do, and how they end

    def _later(self, seconds: float | None, call: Callable[[], object]) -> None:
        if seconds is not None:
            self._env.at(self._env.now + seconds, call)

    def _crash(self, fault: Crash) -> None:
        self.crash(f"crash {fault.trigger}")
        self._later(fault.back_after, self.rejoin)

    def _leave(self, fault: Leave) -> None:
        self.leave(f"leave {fault.trigger}")

    def _pause(self, fault: Pause) -> None:
        self.pause(f"pause {fault.trigger}")
        self._later(fault.lasts, partial(self._resume_in, self.endpoint.incarnation))

    def _resume_in(self, incarnation: int) -> None:
        if self.endpoint.alive and self.endpoint.incarnation == incarnation:
            self.resume()

    def _slow(self, fault: Slow) -> None:
        self._note_fault(f"slow {fault.trigger}: {fault.factor:g} times as long")
        self._slowed.append(fault)
        self._stretch()
        self._later(fault.lasts, partial(self._quicken, fault))

    def _quicken(self, fault: Slow) -> None:
        self._note_fault("slow ends")
        self._slowed.remove(fault)
        self._stretch()

    def _block(self, fault: Partition | Hold) -> None:
        is_hold, (of, to) = isinstance(fault, Hold), ("from", "to") if fault.one_way else ("of", "and")
        barrier = Barrier(self.name, fault.peer, one_way=fault.one_way, holds=is_hold)
        what = f"{fault.kind} {of} {self.name} {to} {fault.peer}"
        self._note_fault(f"{what} begins {fault.trigger}", fault.peer)
        self._world.network.block(barrier)
        end = f"{what} {'is released' if is_hold else 'heals'}"
        self._later(fault.lasts, partial(self._unblock, barrier, end, fault.peer))

    def _unblock(self, barrier: Barrier, note: str, peer: str) -> None:
        self._note_fault(note, peer)
        self._world.network.unblock(barrier)


_EFFECTS: dict[type[PartyFault], tuple[Callable[..., None], bool]] = {
    Crash: (Device._crash, True),
    Leave: (Device._leave, True),
    Pause: (Device._pause, True),
    Slow: (Device._slow, False),
    Partition: (Device._block, False),
    Hold: (Device._block, False),
}
"""What each fault does, and whether only to the living."""
