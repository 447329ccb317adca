"""A stage: a few actors in one world, each running the program that a test provides."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar

import pytest

from tacit.parties.life import Observed, Present
from tacit.parties.party import NoAnswer, Party
from tacit.parties.playing import play
from tacit.sim.compute import CostTable, Engine, Modelled
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Fault
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.wire import Message
from tacit.sim.world import World


class StageNote(Message):
    text: str


class StageReply(Message):
    text: str


class StageNumber(Message):
    number: int


class StageLasting(Message):
    """A message that is never late."""

    lasting: ClassVar[bool] = True
    text: str


class StageRound(Message):
    """A message that opens a new (round, attempt)."""

    announces: ClassVar[bool] = True
    text: str


class StageStop(Message):
    """A message that interrupts any wait of its receiver."""

    announces: ClassVar[bool] = True
    why: str


class Stopped(Exception):
    pass


class Actor(Party):
    """A party that runs a test's program. `heard`: (text, time) of all notes that it took; None for a missing
    answer."""

    Note, Reply, Number, Round, Stop = StageNote, StageReply, StageNumber, StageRound, StageStop
    Lasting = StageLasting
    Stopped = Stopped

    interrupts = (StageStop,)
    heard = Observed(list[Any])

    def __init__(self, world: World, name: str, program: "Program", **access: Any) -> None:
        super().__init__(world, name, **access)
        self.program = program

    async def main(self) -> None:
        await self.program(self)

    def interrupted(self, source: str, message: Message) -> None:
        assert isinstance(message, StageStop)
        raise Stopped(message.why)

    @property
    def now(self) -> float:
        """The clock, rounded to 9 digits."""
        return round(self.world.loop.time(), 9)

    def say(self, to: str, *texts: str) -> None:
        """Send notes."""
        for text in texts:
            self.send(to, StageNote(text))

    def reply(self, to: str, text: str) -> None:
        """Send a message of another type."""
        self.send(to, StageReply(text))

    async def hear(self, source: str, deadline: float) -> None:
        """Wait for a note."""
        try:
            text: str | None = (await self.recv(StageNote, source, deadline)).text
        except NoAnswer:
            text = None
        self.heard.append((text, self.now))

    async def listen(self, deadline: float) -> None:
        """Collect stage notes from all other parties until the deadline."""
        others = [name for name in self.world.loop.waits if name != self.name]
        with self.incoming((StageNote,), others, deadline=deadline) as arrivals:
            async for _, message in arrivals:
                self.heard.append((message.text, self.now))

    async def work(self, seconds: float) -> None:
        """Compute for this number of seconds."""
        await self.compute({"second": seconds}, float)


Program = Callable[[Any], Awaitable[Any]]


class Stage:
    """The world and its actors, the first of which is the coordinator; and some programs for actors."""

    actor = Actor

    @staticmethod
    async def nothing(me: Actor) -> None:
        """A program that ends immediately."""

    @staticmethod
    def listens(seconds: float = 100.0) -> Program:
        """A program that takes all notes for this number of seconds."""
        return lambda me: me.listen(seconds)

    @staticmethod
    def says(*texts: str, to: str = "a", after: float = 0.0, every: float = 1.0) -> Program:
        """A program that sends one text after another, each in a step of its own."""

        async def program(me: Actor) -> None:
            await asyncio.sleep(after)
            for text in texts:
                with me.step("demo.say"):
                    me.say(to, text)
                await asyncio.sleep(every)

        return program

    @staticmethod
    def talks(*peers: str, count: int = 6, lasts: float = 400.0) -> Program:
        """A program that sends its name and a number to each of `peers` every second, and listens."""

        async def program(me: Actor) -> None:
            async def speak() -> None:
                for number in range(count):
                    for peer in peers:
                        me.say(peer, f"{me.name}{number}")
                    await asyncio.sleep(1)

            await me.together(speak(), me.listen(lasts))

        return program

    def __init__(
        self,
        programs: Mapping[str, Program],
        faults: Iterable[Fault] = (),
        *,
        seed: int = 1,
        topology: str = "mesh",
        latency: str = "10ms",
        access: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
        **conditions: Any,
    ) -> None:
        self.events: list[Event] = []
        self.world = World(
            seed,
            conditions=Conditions(topology, parse_latency(latency), **conditions),
            table=CostTable({"second": 1.0}, "a machine", ""),
            cost=Modelled(),
            engine=engine,
            faults=faults,
            sinks=[self.events.append],
        )
        self.actors = Present(Actor(self.world, name, program, **access or {}) for name, program in programs.items())

    def run(self) -> "Stage":
        """Play to the end. Every copy of a message must then have ended, or be in flight."""
        actors = list(self.actors.values())
        try:
            self.world.loop.run(play(actors, actors[0]))
            self.check()
        finally:
            self.world.loop.finish()
        return self

    def check(self) -> None:
        """Check the invariants of any run at any time."""
        sent = sum(event.kind == "send" or (event.kind == "relay" and event.note != "") for event in self.events)
        ended = sum(
            event.kind in ("deliver", "lose") or (event.kind == "drop" and event.type != "") for event in self.events
        )
        assert sent == ended + self.world.network.in_flight
        hops = [event for event in self.events if event.kind in ("send", "relay")]
        ledger = self.world.ledger
        assert ledger.messages == len(hops)
        assert ledger.bytes == sum(event.payload + event.sealing + event.envelope for event in hops)
        troubles = self.world.network.statistics()
        assert troubles.lost == Counter(event.note for event in self.events if event.kind == "lose")
        assert troubles.sent_again == sum("sent again" in event.note for event in hops)
        times = [event.time for event in self.events]
        assert times == sorted(times)

    def note(self, text: str) -> Message:
        """The message with the `text`."""
        return StageNote(text)

    def heard(self, name: str) -> list[Any]:
        """The messages that the actor took, as (text, time)."""
        return self.actors[name].heard

    def texts(self, name: str) -> list[Any]:
        """The messages that the actor took, without the times."""
        return [text for text, _ in self.heard(name)]

    def noted(self, *kinds: str) -> list[tuple[float, str, str]]:
        """The time, party and note of each event of those kinds."""
        return [(round(e.time, 9), e.party, e.note) for e in self.events if e.kind in kinds]

    def notes(self, *kinds: str) -> list[str]:
        """The notes of the events of those kinds."""
        return [event.note for event in self.events if event.kind in kinds]

    @property
    def now(self) -> float:
        """The virtual time in seconds."""
        return self.world.loop.time()

    @property
    def fired(self) -> list[tuple[Fault, float, str]]:
        """The fault, time and party of each fault that was applied."""
        return [(fired.fault, round(fired.time, 9), fired.party) for fired in self.world.faults.fired]

    @property
    def hashes(self) -> tuple[str, str]:
        """The hashes of trace and shape."""
        return self.world.trace.trace_hash, self.world.trace.shape_hash


@pytest.fixture(scope="session")
def stage() -> type[Stage]:
    """The class `Stage`."""
    return Stage
