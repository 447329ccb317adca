"""A party's lifecycle: it starts, crashes and comes back, leaves, pauses, is slow; and how faults act on it.

When it comes back, its constructor runs again: whatever else it had in memory is lost. What stays is the device
with its disk, and what `observed` names, which is for observers of a run and never read by a party.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Self

from parties.device import Device
from sim.barriers import Barrier
from sim.faults import Crash, Crashed, Fired, Hold, Leave, Partition, PartyFault, Pause, Slow
from sim.trace import Event
from sim.wire import Packet
from sim.world import World

__all__ = ["IDLE", "Lifecycle"]

IDLE = "between rounds"
"""The place where a party rests that waits for a round to begin."""

_KEPT = ("_device", "_endpoint", "_own_life", "_own_step", "_changed", "_make")


class Lifecycle:
    """A party's lifecycle, under its `name`; `access` is that of its `Device`."""

    observed: ClassVar[tuple[str, ...]] = ()
    """Attributes that outlive a crash for those who look at a run. The party itself must not read them."""

    _make: Callable[[], None]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        self = super().__new__(cls)
        self._make = partial(cls.__init__, self, *arguments, **named)
        return self

    def __init__(self, world: World, name: str, **access: Any) -> None:
        self.world = world
        self.name = name
        self.idle = False
        self.finished = False
        self.place = ""  # where `main` waits so that it can be restarted there; "" anywhere else
        self.since = 0.0  # when it began to rest, in virtual seconds
        self._step = ""  # the latest step entered; tasks of one party may be in different ones
        self._task: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        self._pauses = 0  # those that go on
        self._after_pause: list[Callable[[], object]] = []
        if "_device" not in vars(self):
            self._device = Device(world, name, self._receive, **access)
            self._endpoint = self._device.endpoint
            self._own_step: ContextVar[str] = ContextVar(f"step of {name}", default="")
            self._own_life: ContextVar[int] = ContextVar(f"incarnation of {name}", default=0)  # of the running task
            self._changed: Callable[[], None] = lambda: None

    @property
    def alive(self) -> bool:
        """Not crashed, or back again, and has not left."""
        return self._endpoint.alive

    @property
    def paused(self) -> bool:
        """Standing still."""
        return self._endpoint.paused

    @property
    def incarnation(self) -> int:
        """The number of the party's incarnation: 1, and one more each time it comes back."""
        return self._endpoint.incarnation

    @property
    def disk(self) -> dict[str, Any]:
        """What survives a crash."""
        return self._device.disk

    @property
    def step_name(self) -> str:
        """The step that the party is in, or was in last."""
        return self._step

    async def main(self) -> None:
        """The party's program."""
        raise NotImplementedError(f"{type(self).__name__} has no program")

    def start(self, changed: Callable[[], None] = lambda: None) -> None:
        """Begin `main`; `changed` is called whenever the party ends, goes idle, goes down or comes back."""
        self._changed = changed
        self._begin()
        for fault in self.world.faults.timed(self.name):
            assert fault.time is not None
            if fault.time > self.world.loop.time():
                self.world.loop.env.at(fault.time, partial(self.strike, fault))
            else:  # before it does anything
                self.strike(fault)

    def crash(self, why: str = "crash") -> None:
        """Fall silent at once: nothing more is sent, received or computed, and memory is lost."""
        if self.alive:
            self._note_fault(why)
            self._end(self._endpoint.fall)

    def leave(self, why: str = "leave") -> None:
        """Go for good; what was sent already still goes out."""
        if self.alive:
            self._note_fault(why)
            self._end(self._endpoint.leave)

    def rejoin(self) -> None:
        """Come back as a new incarnation with nothing but the disk, and start `main` again."""
        if self.alive:
            return
        kept = {name: value for name, value in vars(self).items() if name in (*_KEPT, *self.observed)}
        vars(self).clear()
        vars(self).update(kept)
        self._make()
        vars(self).update(kept)
        self._device.boot(self._receive)
        self._note_fault(f"rejoin as incarnation {self.incarnation}")
        self._begin()
        self._changed()

    def pause(self, why: str = "pause") -> None:
        """Pause. What arrives is kept, what is sent goes out later, and computing and deadlines wait."""
        if self.alive:
            self._note_fault(why)
            self._pauses += 1
            self._device.pause()

    def resume(self) -> None:
        """End one pause. After the last, go on: first with what has come, then with the deadlines that have passed."""
        if not self._pauses:
            return
        self._pauses -= 1
        if self._pauses:
            return
        self._note_fault("resume")
        self._device.resume()
        waiting, self._after_pause = self._after_pause, []
        for call in waiting:
            call()

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the party goes on; if it goes down instead, never."""
        self._after_pause.append(call)

    def state(self) -> dict[str, Any]:
        """The state of a party that waits, has ended or is down, without its access to the network (`sim.snapshot`)."""
        names = ("idle", "finished", "place", "since", "_step", "_pauses", "_after_pause")
        return {name: getattr(self, name) for name in names} | {"disk": self.disk, "slow": self._device.slowed}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a `state`, in place of `start`; what rests is to `begin_again`."""
        fields = dict(state)
        self._device.disk = fields.pop("disk")
        self._device.restore(fields.pop("slow"))
        vars(self).update(fields)

    def listen(self, changed: Callable[[], None]) -> None:
        """`changed` is called as after `start`."""
        self._changed = changed

    def begin_again(self) -> None:
        """Begin `main` at the place where it rests."""
        self._endpoint.paused = False
        self._begin()

    def stand_still_again(self) -> None:
        """Pause as before, once `main` waits."""
        if self._pauses:
            self._device.pause()

    def rest(self, idle: bool) -> None:
        """Say whether the party only waits for a round to begin; a run does not go on for the sake of those that do."""
        self.idle = idle
        self.rest_at(IDLE if idle else "")
        self._changed()

    def rest_at(self, place: str) -> None:
        """Record that the party now waits for a message at a `place` where `main` can be restarted; "": it goes on."""
        self.place, self.since = place, self.world.loop.time()

    def check_alive(self) -> None:
        """Raises Crashed in a task of a party that is down, and in one that an earlier incarnation left behind."""
        endpoint = self._endpoint
        if not endpoint.alive or self._own_life.get() not in (0, endpoint.incarnation):
            raise Crashed(self.name)

    def strike(self, fault: PartyFault) -> None:
        """Apply `fault`, unless it needs a party that is up and this one is not, or has ended."""
        effect, needs_life = _EFFECTS[type(fault)]
        if needs_life and (not self.alive or self.finished):
            return
        peer = fault.peer if isinstance(fault, Partition | Hold) else ""
        step = fault.before or fault.after or self._step
        fired = Fired(fault, self.world.loop.time(), self.name, peer, step, fault.message)
        self.world.faults.fired.append(fired)
        effect(self, fault)

    # For the machinery

    def _receive(self, packet: Packet) -> None:
        raise NotImplementedError(f"{type(self).__name__} receives nothing")

    def _awaited(self) -> str:
        """What the party waits for, for a deadlock's report."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it waits for")

    def _begin(self) -> None:
        self.idle = self.finished = False
        self._task = self.world.loop.create_task(self._live(), name=self.name)

    async def _live(self) -> None:
        incarnation = self.incarnation
        self._own_life.set(incarnation)
        self._own_step.set("")
        try:
            await self.main()
        except asyncio.CancelledError:
            if self._lives(incarnation):
                raise
        except (Exception, Crashed, BaseExceptionGroup) as error:
            if self._lives(incarnation):  # what goes wrong in a party that is gone goes unnoticed
                self.failure = error
        finally:
            if self._lives(incarnation):
                self.finished = True
                self._changed()

    def _lives(self, incarnation: int) -> bool:
        return self.alive and self.incarnation == incarnation

    def _end(self, go: Callable[[], None]) -> None:
        self._pauses = 0
        self._after_pause.clear()
        go()
        if self._task is not None:
            self._task.cancel()
        self._changed()

    def _note_fault(self, note: str, peer: str = "") -> None:
        self.world.trace.add(Event(self.world.loop.time(), "fault", self.name, peer, step=self._step, note=note))

    def _later(self, seconds: float | None, call: Callable[[], object]) -> None:
        if seconds is not None:
            env = self.world.loop.env
            env.at(env.now + seconds, call)

    def _resume_in(self, incarnation: int) -> None:
        if self._lives(incarnation):
            self.resume()

    def _quicken(self, fault: Slow) -> None:
        self._note_fault("slow ends")
        self._device.quicken(fault)

    def _unblock(self, barrier: Barrier, note: str, peer: str) -> None:
        self._note_fault(note, peer)
        self.world.network.unblock(barrier)


def _crash(party: Lifecycle, fault: Crash) -> None:
    party.crash(f"crash {fault.trigger}")
    party._later(fault.back_after, party.rejoin)


def _leave(party: Lifecycle, fault: Leave) -> None:
    party.leave(f"leave {fault.trigger}")


def _pause(party: Lifecycle, fault: Pause) -> None:
    party.pause(f"pause {fault.trigger}")
    party._later(fault.lasts, partial(party._resume_in, party.incarnation))


def _slow(party: Lifecycle, fault: Slow) -> None:
    party._note_fault(f"slow {fault.trigger}: {fault.factor:g} times as long")
    party._device.slow(fault)
    party._later(fault.lasts, partial(party._quicken, fault))


def _block(party: Lifecycle, fault: Partition | Hold) -> None:
    network, is_hold = party.world.network, isinstance(fault, Hold)
    barrier = Barrier(party.name, fault.peer, one_way=fault.one_way, holds=is_hold)
    what = (
        f"{fault.kind} {'from' if fault.one_way else 'of'} {party.name} {'to' if fault.one_way else 'and'} {fault.peer}"
    )

    end = f"{what} {'is released' if is_hold else 'heals'}"
    party._note_fault(f"{what} begins {fault.trigger}", fault.peer)
    network.block(barrier)
    party._later(fault.lasts, partial(party._unblock, barrier, end, fault.peer))


_EFFECTS: dict[type[PartyFault], tuple[Callable[..., None], bool]] = {
    Crash: (_crash, True),
    Leave: (_leave, True),
    Pause: (_pause, True),
    Slow: (_slow, False),
    Partition: (_block, False),
    Hold: (_block, False),
}
"""What each fault does, and whether only to the living."""
