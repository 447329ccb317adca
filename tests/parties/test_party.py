"""The actor: waiting, steps, crashes and returns, and that a run is the same each time."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.party import NoAnswer, Party, play
from sim.compute import CostTable, Free, Modelled
from sim.faults import Crash, Crashed
from sim.latency import parse_latency
from sim.loop import Deadlock
from sim.network import Conditions
from sim.trace import Event
from sim.wire import Frame, Message, Packet, encode_body, pack_frame
from sim.world import World


class PartyNote(Message):
    text: str


class PartyReply(Message):
    text: str


class PartyNumber(Message):
    number: int


class PartyRound(Message):
    """Opens a new (round, attempt)."""

    announces: ClassVar[bool] = True
    text: str


class PartyStop(Message):
    """Interrupts whatever its receiver waits for."""

    announces: ClassVar[bool] = True
    why: str


class Stopped(Exception):
    pass


Program = Callable[["Actor"], Awaitable[Any]]


class Actor(Party):
    """Runs the program it is given; `heard` is for the test to look at."""

    interrupts = (PartyStop,)
    observed = ("heard",)

    def __init__(self, world: World, name: str, program: Program, **access: Any) -> None:
        super().__init__(world, name, **access)
        self.program = program
        self.heard: list[Any] = []

    async def main(self) -> None:
        await self.program(self)

    def interrupted(self, source: str, message: Message) -> None:
        assert isinstance(message, PartyStop)
        raise Stopped(message.why)


@dataclass
class Play:
    """A few actors in one world, the first of them its coordinator."""

    programs: Mapping[str, Program]
    faults: Iterable[Crash] = ()
    latency: str = "10ms"
    seed: int = 1
    topology: str = "mesh"
    access: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(
            self.seed,
            conditions=Conditions(self.topology, parse_latency(self.latency)),
            table=CostTable({"second": 1.0}, "a machine", ""),
            cost=Modelled(),
            faults=self.faults,
            sinks=[self.events.append],
        )
        self.actors = {name: Actor(self.world, name, program, **self.access) for name, program in self.programs.items()}

    def run(self) -> "Play":
        actors = list(self.actors.values())
        try:
            self.world.loop.run(play(actors, actors[0]))
        finally:
            self.world.loop.finish()
        return self

    def heard(self, name: str) -> list[Any]:
        return self.actors[name].heard

    def notes(self, *kinds: str) -> list[str]:
        return [event.note for event in self.events if event.kind in kinds]

    @property
    def now(self) -> float:
        return self.world.loop.time()


async def nothing(me: Actor) -> None:
    pass


def says(*texts: str, to: str = "a", after: float = 0.0, every: float = 0.0) -> Program:
    async def program(me: Actor) -> None:
        await asyncio.sleep(after)
        for text in texts:
            me.send(to, PartyNote(text))
            await asyncio.sleep(every)

    return program


# recv


def test_a_message_is_received_after_its_latency() -> None:
    async def ask(me: Actor) -> None:
        me.send("b", PartyNote("hello"))
        reply = await me.recv(PartyReply, "b", 1.0)
        me.heard += [reply.text, me.world.loop.time()]

    async def answer(me: Actor) -> None:
        note = await me.recv(PartyNote, "a", 1.0)
        me.send("a", PartyReply(f"{note.text} to you"))

    assert Play({"a": ask, "b": answer}).run().heard("a") == ["hello to you", 0.02]


def test_a_wait_ends_at_its_deadline_with_no_answer() -> None:
    async def wait(me: Actor) -> None:
        await asyncio.sleep(2)
        with pytest.raises(NoAnswer, match=r"a waited 1\.5 s for PartyNote or PartyReply from b in vain") as caught:
            await me.recv((PartyNote, PartyReply), "b", 1.5)
        assert (caught.value.party, caught.value.deadline) == ("a", 1.5)
        me.heard.append(me.world.loop.time())

    assert Play({"a": wait, "b": nothing}).run().heard("a") == [3.5]


@pytest.mark.parametrize(("latency", "heard"), [("999ms", ["now"]), ("1001ms", [None])])
def test_what_comes_before_the_deadline_is_in_time(latency: str, heard: list[str | None]) -> None:
    async def wait(me: Actor) -> None:
        try:
            me.heard.append((await me.recv(PartyNote, "b", 1.0)).text)
        except NoAnswer:
            me.heard.append(None)

    assert Play({"a": wait, "b": says("now")}, latency=latency).run().heard("a") == heard


def test_what_comes_at_the_deadline_is_in_time_if_it_was_under_way_when_the_wait_began() -> None:
    """First in, first out at equal times."""

    async def wait(me: Actor) -> None:
        await asyncio.sleep(1.0)
        me.heard.append((await me.recv(PartyNote, "b", 1.0)).text)

    assert Play({"a": wait, "b": says("now")}, latency="2s").run().heard("a") == ["now"]


def test_messages_wait_in_the_mailbox_by_type_and_sender() -> None:
    async def wait(me: Actor) -> None:
        await asyncio.sleep(1)
        me.heard.append((await me.recv(PartyReply, "b", 0.0)).text)
        for source in ("c", "b", "b"):
            me.heard.append((await me.recv(PartyNote, source, 0.0)).text)

    async def both(me: Actor) -> None:
        me.send("a", PartyNote(f"first of {me.name}"))
        me.send("a", PartyReply(f"reply of {me.name}"))
        me.send("a", PartyNote(f"second of {me.name}"))

    run = Play({"a": wait, "b": both, "c": both}).run()
    assert run.heard("a") == ["reply of b", "first of c", "first of b", "second of b"]


def test_messages_of_a_sender_are_taken_in_order() -> None:
    async def wait(me: Actor) -> None:
        for _ in range(20):
            me.heard.append((await me.recv(PartyNote, "b", 10.0)).text)

    texts = [str(n) for n in range(20)]
    run = Play({"a": wait, "b": says(*texts, every=0.001)}, latency="lognormal:40ms,1").run()
    assert run.heard("a") == texts


# collect


def collects(**options: Any) -> Program:
    async def program(me: Actor) -> None:
        sources = [name for name in me.world.loop.waits if name != "a"]
        collected = await me.collect(PartyNote, sources, **{"deadline": 5.0, **options})
        answers = {source: message.text for source, message in collected.answers.items()}
        me.heard += [answers, collected.missing, round(me.world.loop.time(), 6)]

    return program


def test_collect_ends_when_all_have_answered_in_the_order_asked() -> None:
    run = Play({"a": collects(), "b": says("B", after=2), "c": says("C"), "d": says("D", after=1)}).run()
    answers, missing, now = run.heard("a")
    assert list(answers.items()) == [("b", "B"), ("c", "C"), ("d", "D")]
    assert (missing, now) == ((), 2.01)


def test_collect_ends_at_the_deadline_and_says_who_is_missing() -> None:
    run = Play({"a": collects(deadline=1.5), "b": says("B", after=2), "c": says("C"), "d": nothing}).run()
    assert run.heard("a") == [{"c": "C"}, ("b", "d"), 1.5]


def test_collect_ends_with_a_quorum() -> None:
    run = Play({"a": collects(quorum=2), "b": says("B", after=2), "c": says("C"), "d": says("D", after=1)}).run()
    assert run.heard("a") == [{"c": "C", "d": "D"}, ("b",), 1.01]


@pytest.mark.parametrize(("quorum", "now"), [(0, 0.0), (3, 2.01), (99, 2.01)])
def test_the_quorums_ends(quorum: int, now: float) -> None:
    run = Play({"a": collects(quorum=quorum), "b": says("B", after=2), "c": says("C"), "d": says("D")}).run()
    assert run.heard("a")[2] == now


def test_collect_from_nobody_ends_at_once() -> None:
    async def collect(me: Actor) -> None:
        collected = await me.collect(PartyNote, [], deadline=5.0)
        me.heard += [collected.answers, collected.missing, me.world.loop.time()]

    assert Play({"a": collect}).run().heard("a") == [{}, (), 0.0]


def test_collect_ends_when_a_message_of_another_type_says_so() -> None:
    async def end(me: Actor) -> None:
        me.send("a", PartyNote("C"))
        await asyncio.sleep(1)
        me.send("a", PartyReply("that is all"))

    run = Play({"a": collects(until=(PartyReply,)), "b": says("B", after=2), "c": end}).run()
    assert run.heard("a") == [{"c": "C"}, ("b",), 1.01]


def test_collect_takes_one_message_of_each_and_leaves_the_second() -> None:
    async def twice(me: Actor) -> None:
        for _ in range(2):
            collected = await me.collect(PartyNote, ["b", "c"], deadline=5.0)
            me.heard.append([message.text for message in collected.answers.values()])

    run = Play({"a": twice, "b": says("B1", "B2"), "c": says("C1", "C2", after=1, every=1)}).run()
    assert run.heard("a") == [["B1", "C1"], ["B2", "C2"]]


def test_incoming_gives_each_message_as_it_comes() -> None:
    async def listen(me: Actor) -> None:
        kinds: tuple[type[Any], ...] = (PartyNote, PartyReply)
        with me.incoming(kinds, ["b", "c"], deadline=2.5) as arrivals:
            async for source, message in arrivals:
                me.heard.append((source, message.text, round(me.world.loop.time(), 6)))
        me.heard.append(me.world.loop.time())

    async def reply(me: Actor) -> None:
        await asyncio.sleep(0.5)
        me.send("a", PartyReply("x"))

    run = Play({"a": listen, "b": says("1", "2", "3", every=1.0), "c": reply}).run()
    assert run.heard("a") == [("b", "1", 0.01), ("c", "x", 0.51), ("b", "2", 1.01), ("b", "3", 2.01), 2.5]


def test_begun_waits_for_the_first_message_and_does_not_take_it() -> None:
    async def listen(me: Actor) -> None:
        with me.incoming((PartyNote,), ["b"], deadline=9.0) as arrivals:
            me.heard += [await arrivals.begun(), me.world.loop.time()]
        me.heard.append((await me.recv(PartyNote, "b", 0.0)).text)
        with me.incoming((PartyNote,), ["b"], deadline=2.0) as arrivals:
            me.heard += [await arrivals.begun(), me.world.loop.time()]

    run = Play({"a": listen, "b": says("hello", after=1)}).run()
    assert run.heard("a") == [True, 1.01, "hello", False, 3.01]


def test_waits_leave_no_timer_behind() -> None:
    async def wait(me: Actor) -> None:
        await me.recv(PartyNote, "b", 1000.0)
        await me.collect(PartyNote, ["b"], deadline=2000.0)
        assert me.world.loop.env.live == 0

    run = Play({"a": wait, "b": says("1", "2")}).run()
    assert run.now == 0.01


# Rounds and attempts


def test_late_messages_are_dropped_and_traced() -> None:
    async def wait(me: Actor) -> None:
        await asyncio.sleep(1)  # by now "kept" and "in the mailbox" have come
        me.advance(1, 2)
        with pytest.raises(NoAnswer):
            await me.recv(PartyNote, "b", 5.0)

    run = Play({"a": wait, "b": says("in the mailbox", "on its way", every=2.0)}).run()
    late = "PartyNote from b: late: of an earlier round or attempt"
    assert run.notes("drop") == [late, late]


def test_early_messages_wait_until_the_party_gets_there() -> None:
    async def early(me: Actor) -> None:
        me.advance(2, 1)
        me.send("a", PartyNote("early"))

    async def wait(me: Actor) -> None:
        with pytest.raises(NoAnswer):
            await me.recv(PartyNote, "b", 1.0)
        me.advance(2, 0)
        with pytest.raises(NoAnswer):
            await me.recv(PartyNote, "b", 1.0)
        me.advance(2, 1)
        me.heard.append((await me.recv(PartyNote, "b", 0.0)).text)

    assert Play({"a": wait, "b": early}).run().heard("a") == ["early"]


def test_an_announcement_takes_its_receiver_along_and_wakes_those_who_wait_for_that() -> None:
    async def announce(me: Actor) -> None:
        me.advance(3, 1)
        me.send("a", PartyNote("of round 3"))
        await asyncio.sleep(1)
        me.send("a", PartyRound("round 3"))

    async def take_part(me: Actor) -> None:
        async def listen() -> None:
            me.heard.append((await me.recv(PartyNote, "b", 100.0)).text)
            me.heard.append(me.world.loop.time())

        async def follow() -> None:
            me.heard.append((await me.recv(PartyRound, "b", 100.0)).text)
            await asyncio.sleep(5)

        with me.incoming((PartyNote,), ["b"], deadline=0.5) as arrivals:
            assert not await arrivals.begun()
        await me.together(listen(), follow())
        me.heard.append((me.round, me.attempt))

    run = Play({"a": take_part, "b": announce}).run()
    assert run.heard("a") == ["round 3", "of round 3", 1.01, (3, 1)]


def test_a_party_does_not_go_back() -> None:
    async def program(me: Actor) -> None:
        me.advance(2, 3)
        me.advance(2, 1)
        me.advance(1, 9)
        me.heard.append((me.round, me.attempt))

    assert Play({"a": program}).run().heard("a") == [(2, 3)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.integers(0, 9))
def test_each_message_is_taken_in_its_own_attempt_or_dropped(stamps: list[tuple[int, int]], seed: int) -> None:
    """A sender that goes forwards, a receiver that goes through all attempts at its own pace."""

    async def send(me: Actor) -> None:
        for stamp in sorted(stamps):
            me.advance(*stamp)
            me.send("a", PartyNote(f"{me.round}.{me.attempt}"))
            await asyncio.sleep(0.1)

    async def receive(me: Actor) -> None:
        for stamp in [(r, t) for r in range(3) for t in range(3)]:
            me.advance(*stamp)
            with me.incoming((PartyNote,), ["b"], deadline=0.1) as arrivals:
                async for _, message in arrivals:
                    me.heard.append(((me.round, me.attempt), message.text))

    run = Play({"a": receive, "b": send}, latency="lognormal:50ms,1", seed=seed).run()
    assert all(f"{stamp[0]}.{stamp[1]}" == text for stamp, text in run.heard("a"))
    counts = Counter(event.kind for event in run.events)
    left = len(run.actors["a"]._mailbox)
    assert counts["deliver"] == len(run.heard("a")) + counts["drop"] + left


# Interrupts and together


def test_an_interrupt_ends_whatever_the_party_waits_for() -> None:
    async def wait(me: Actor) -> None:
        with pytest.raises(Stopped, match="enough"):
            await me.together(
                me.recv(PartyNote, "b", 100.0), me.collect(PartyReply, ["b"], deadline=100.0), asyncio.sleep(100)
            )
        me.heard += [me.world.loop.time(), (me.round, me.attempt)]
        with pytest.raises(NoAnswer):  # it strikes once
            await me.recv(PartyNote, "b", 1.0)

    async def stop(me: Actor) -> None:
        me.advance(1, 1)
        await asyncio.sleep(1)
        me.send("a", PartyStop("enough"))

    assert Play({"a": wait, "b": stop}).run().heard("a") == [1.01, (1, 1)]


def test_together_returns_all_results_in_order() -> None:
    async def one(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def program(me: Actor) -> None:
        me.heard += await me.together(one(3), one(1), one(2))
        me.heard += await me.together()
        me.heard.append(me.world.loop.time())

    assert Play({"a": program}).run().heard("a") == [3, 1, 2, 3.0]


def test_the_first_error_ends_the_others_and_comes_as_it_is() -> None:
    async def program(me: Actor) -> None:
        async def fail(seconds: float, error: type[Exception]) -> None:
            await asyncio.sleep(seconds)
            raise error(f"after {seconds}")

        async def unwind() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                me.heard.append("cancelled")

        with pytest.raises(LookupError, match="after 1"):
            await me.together(unwind(), fail(2, ValueError), fail(1, LookupError))
        me.heard.append(me.world.loop.time())

    assert Play({"a": program}).run().heard("a") == ["cancelled", 1.0]


# Steps


async def two_steps(me: Actor) -> None:
    for _ in range(2):
        with me.step("demo.first"):
            await asyncio.sleep(1)
            me.heard.append("first")
        with me.step("demo.second"):
            await asyncio.sleep(1)
            me.heard.append("second")


def test_steps_are_traced_at_both_ends() -> None:
    run = Play({"a": two_steps}).run()
    entered = [(e.time, e.kind, e.step) for e in run.events if e.kind in ("enter", "leave")]
    assert entered[:4] == [
        (0.0, "enter", "demo.first"), (1.0, "leave", "demo.first"),
        (1.0, "enter", "demo.second"), (2.0, "leave", "demo.second"),
    ]  # fmt: skip


def test_messages_and_jobs_are_filed_under_the_step_of_their_task() -> None:
    async def program(me: Actor) -> None:
        async def in_step(name: str, seconds: float) -> None:
            with me.step(name):
                await asyncio.sleep(seconds)
                me.send("b", PartyNote(name))
                await me.compute({"second": 1}, float)
                with me.step(f"{name}.inner"):
                    me.send("b", PartyNote(f"{name}.inner"))
                me.send("b", PartyNote(name))

        await me.together(in_step("demo.left", 2), in_step("demo.right", 1))

    run = Play({"a": program, "b": nothing}).run()
    sent = [e for e in run.events if e.kind == "send"]
    assert {e.step for e in run.events if e.kind == "compute"} == {"demo.left", "demo.right"}
    assert Counter(e.step for e in sent) == {
        "demo.left": 2, "demo.right": 2, "demo.left.inner": 1, "demo.right.inner": 1
    }  # fmt: skip


def test_a_step_that_is_left_by_an_error_is_left() -> None:
    async def program(me: Actor) -> None:
        with pytest.raises(NoAnswer), me.step("demo.failing"):
            await me.recv(PartyNote, "b", 1.0)
        with me.step("demo.next"):
            pass
        me.send("b", PartyNote("between steps"))

    run = Play({"a": program, "b": nothing}).run()
    assert [e.step for e in run.events if e.kind == "send"] == ["demo.next"]
    assert [(e.kind, e.step) for e in run.events if e.kind in ("enter", "leave")] == [
        ("enter", "demo.failing"), ("enter", "demo.next"), ("leave", "demo.next"),
    ]  # fmt: skip


# Crashes


@pytest.mark.parametrize(
    ("fault", "heard", "when", "note"),
    [
        (Crash("b", before="demo.second"), ["first"], 1.0, "crash before demo.second"),
        (Crash("b", after="demo.first"), ["first"], 1.0, "crash after demo.first"),
        (Crash("b", after="demo.second"), ["first", "second"], 2.0, "crash after demo.second"),
        (Crash("b", before="demo.first", occurrence=2), ["first", "second"], 2.0, "crash before demo.first"),
        (Crash("b", after="demo.first", occurrence=2), ["first", "second", "first"], 3.0, "crash after demo.first"),
        (Crash("b", time=2.5), ["first", "second"], 2.5, "crash at 2.5 s"),
        (Crash("b", time=0.0), [], 0.0, "crash at 0 s"),
    ],
)
def test_a_crash_strikes_where_it_was_told_to(fault: Crash, heard: list[str], when: float, note: str) -> None:
    run = Play({"a": lambda me: asyncio.sleep(10), "b": two_steps}, [fault]).run()
    assert run.heard("b") == heard
    faults = [event for event in run.events if event.kind == "fault"]
    assert [(event.time, event.party, event.note) for event in faults] == [(when, "b", note)]
    assert [fired.fault for fired in run.world.faults.fired] == [fault]
    assert not run.actors["b"].alive
    assert "down" in repr(run.actors["b"])


def test_before_a_step_is_before_its_first_action_and_after_is_after_its_last() -> None:
    async def program(me: Actor) -> None:
        with me.step("demo.send"):
            me.send("a", PartyNote("one"))
            me.send("a", PartyNote("two"))

    for fault, count in ((Crash("b", before="demo.send"), 0), (Crash("b", after="demo.send"), 2)):
        run = Play({"a": lambda me: asyncio.sleep(1), "b": program}, [fault]).run()
        kinds = [event.kind for event in run.events if event.kind in ("enter", "leave", "deliver")]
        assert kinds == ["enter"] * (count > 0) + ["deliver"] * count


def test_a_crash_that_comes_too_late_does_not_fire() -> None:
    run = Play({"a": lambda me: asyncio.sleep(10), "b": nothing}, [Crash("b", time=5.0)]).run()
    assert run.world.faults.fired == []
    assert run.actors["b"].alive


def test_a_crashed_party_does_not_answer_from_the_grave() -> None:
    """Whatever it does with its cancellation: it cannot send, wait, compute or take a step."""

    async def undead(me: Actor) -> None:
        for _ in range(3):
            try:
                await me.recv(PartyNote, "a", 100.0)
            except BaseException as error:
                me.heard.append(type(error))
            for act in (
                lambda: me.send("a", PartyNote("from the grave")),
                lambda: me.step("demo.grave").__enter__(),
            ):
                with pytest.raises(Crashed):
                    act()
            with pytest.raises(Crashed):
                await me.compute({"second": 1}, float)
            with pytest.raises(Crashed):
                await me.collect(PartyNote, ["a"], deadline=1.0)
        me.send("a", PartyNote("from the grave"))

    run = Play({"a": lambda me: asyncio.sleep(10), "b": undead}, [Crash("b", time=1.0)]).run()
    assert run.heard("b") == [asyncio.CancelledError, Crashed, Crashed]
    assert not [event for event in run.events if event.kind in ("send", "compute", "enter")]


def test_a_crash_in_the_turn_of_the_answer_is_not_swallowed() -> None:
    async def wait(me: Actor) -> None:
        async with asyncio.timeout(5):
            await me.recv(PartyNote, "c", 5.0)
        me.heard.append("went on")

    run = Play({"c": says("the answer", to="b"), "b": wait})
    endpoint = run.actors["b"]._endpoint
    take = endpoint.receive

    def take_and_crash(packet: Packet) -> None:
        take(packet)  # the answer is there, and "b" has not yet had its turn
        run.actors["b"].crash()

    endpoint.receive = take_and_crash
    run.run()
    assert [event.kind for event in run.events] == ["send", "deliver", "fault"]
    assert run.heard("b") == []


def test_what_a_crash_leaves_in_together_ends_too() -> None:
    async def work(me: Actor) -> None:
        async def child(name: str) -> None:
            try:
                with me.step(f"demo.{name}"):
                    await asyncio.sleep(1 if name == "x" else 100)
            finally:
                me.heard.append(name)

        await me.together(child("x"), child("y"), me.together(child("z")))
        me.heard.append("went on")

    run = Play({"a": lambda me: asyncio.sleep(10), "b": work}, [Crash("b", after="demo.x")]).run()
    assert sorted(run.heard("b")) == ["x", "y", "z"]
    assert run.actors["b"].failure() is None


def test_an_error_while_a_crashed_party_unwinds_is_no_error_of_the_run() -> None:
    async def untidy(me: Actor) -> None:
        try:
            await me.recv(PartyNote, "a", 100.0)
        finally:
            raise LookupError("what was in memory is gone")

    run = Play({"a": lambda me: asyncio.sleep(10), "b": untidy}, [Crash("b", time=1.0)]).run()
    assert run.now == 10.0


def test_a_crash_gives_the_cores_and_the_uplink_back() -> None:
    async def work(me: Actor) -> None:
        if me.incarnation == 2:
            begun = me.world.loop.time()
            await me.compute({"second": 1}, float)
            me.send("a", PartyNote("back"))
            me.heard.append(me.world.loop.time() - begun)
            return
        me.send("a", PartyNote("x" * 100_000))  # 100 s of uplink
        await me.together(*(me.compute({"second": 100}, float) for _ in range(3)))

    async def wait(me: Actor) -> None:
        me.heard.append((await me.recv(PartyNote, "b", 300.0)).text)
        me.heard.append(me.world.loop.time())

    run = Play({"a": wait, "b": work}, [Crash("b", time=5.0, back_after=1.0)], access={"up": 1000.0})
    machine = run.actors["b"]._device.machine
    run.run()
    assert run.heard("b") == [1.0]
    text, when = run.heard("a")
    assert text == "back"
    assert 7.0 < when < 8.0
    assert machine.cores.count == 0
    assert not machine.cores.queue


def test_a_party_that_comes_back_is_a_new_incarnation_with_its_disk_alone() -> None:
    async def program(me: Actor) -> None:
        me.heard.append((me.incarnation, me.round, dict(me.disk), dict(me.channels), me.step_name))
        me.disk["kept"] = me.incarnation
        me.channels["a"] = Rot13()
        me.advance(4, 2)
        with me.step("demo.work"):
            await asyncio.sleep(3)
        me.heard.append(me.world.loop.time())

    run = Play({"a": lambda me: asyncio.sleep(10), "b": program}, [Crash("b", after="demo.work", back_after=2.0)]).run()
    assert run.heard("b") == [(1, 0, {}, {}, ""), (2, 0, {"kept": 1}, {}, ""), 8.0]
    assert run.notes("fault") == ["crash after demo.work", "rejoin as incarnation 2"]
    assert repr(run.actors["b"]) == "<b, incarnation 2, up>"


def test_what_a_returned_party_does_before_its_first_step_is_filed_under_none() -> None:
    async def program(me: Actor) -> None:
        me.send("a", PartyNote("hello"))
        with me.step("demo.work"):
            await asyncio.sleep(1)

    run = Play({"a": lambda me: asyncio.sleep(10), "b": program}, [Crash("b", after="demo.work", back_after=1)]).run()
    assert [event.step for event in run.events if event.kind == "send"] == ["", ""]


def test_messages_to_and_from_an_earlier_incarnation_are_dropped_and_traced() -> None:
    async def talk(me: Actor) -> None:
        me.send("b", PartyNote("to the first"))
        await asyncio.sleep(2)
        me.send("b", PartyNote("to the second"))
        for _ in range(2):
            try:
                me.heard.append((await me.recv(PartyReply, "b", 2.0)).text)
            except NoAnswer:
                me.heard.append(None)

    async def program(me: Actor) -> None:
        me.send("a", PartyReply(f"from {me.incarnation}"))
        me.heard.append((await me.recv(PartyNote, "a", 10.0)).text)

    fault = Crash("b", time=0.2, back_after=0.5)
    run = Play({"a": talk, "b": program}, [fault], latency="1s").run()
    assert run.heard("a") == ["from 2", None]
    assert run.heard("b") == ["to the second"]
    assert run.notes("drop") == [
        "sent to an earlier incarnation of the receiver",
        "from an earlier incarnation of the sender",
    ]
    assert run.actors["a"].incarnations == {"b": 2}


def test_a_task_that_an_earlier_incarnation_left_behind_cannot_act_for_the_new_one() -> None:
    left: list[asyncio.Task[None]] = []

    async def linger(me: Actor) -> None:
        await asyncio.sleep(5)
        for act in (lambda: me.send("a", PartyNote("ghost")), lambda: me.step("demo.ghost").__enter__()):
            try:
                act()
            except Crashed:
                me.heard.append("fenced")
        try:
            await me.recv(PartyNote, "a", 10.0)
        except Crashed:
            me.heard.append("fenced")

    async def program(me: Actor) -> None:
        if me.incarnation == 1:
            left.append(asyncio.get_running_loop().create_task(linger(me)))  # nobody cancels it
        await asyncio.sleep(20)

    run = Play({"a": lambda me: asyncio.sleep(30), "b": program}, [Crash("b", time=1.0, back_after=1.0)]).run()
    assert run.heard("b") == ["fenced"] * 3
    assert not [event for event in run.events if event.kind == "send"]


def test_each_incarnation_round_and_attempt_has_its_own_randomness() -> None:
    async def program(me: Actor) -> None:
        for stamp in ((0, 0), (1, 0), (1, 1)):
            me.advance(*stamp)
            me.heard += [me.entropy("key").bytes(16), me.entropy("mask").bytes(16)]
        await asyncio.sleep(2)

    programs = {"a": lambda me: asyncio.sleep(10), "b": program, "c": program}
    run = Play(programs, [Crash("b", time=1.0, back_after=1.0)]).run()
    drawn = run.heard("b") + run.heard("c")
    assert len(drawn) == 18 == len(set(drawn))
    assert Play(programs, [Crash("b", time=1.0, back_after=1.0)]).run().heard("b") == run.heard("b")
    assert not set(Play(programs, seed=2).run().heard("b")) & set(drawn)


# Sealed channels


class Rot13:
    """A stand-in for a cipher: shows what it is bound to, and refuses what is not for it."""

    overhead = 3

    def __init__(self) -> None:
        self.bound: list[bytes] = []

    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes:
        self.bound.append(associated_data)
        return b"seal"[: self.overhead] + bytes(byte ^ 13 for byte in plaintext)

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        self.bound.append(associated_data)
        if not sealed.startswith(b"sea"):
            raise ValueError("not authentic")
        return bytes(byte ^ 13 for byte in sealed[self.overhead :])


class Broken(Rot13):
    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes:
        return bytes(self.overhead) + plaintext


def sealed_play(mine: Any, theirs: Any) -> Play:
    async def send(me: Actor) -> None:
        if mine is not None:
            me.channels["a"] = mine
        me.send("a", PartyNote("secret"))

    async def receive(me: Actor) -> None:
        if theirs is not None:
            me.channels["b"] = theirs
        try:
            me.heard.append((await me.recv(PartyNote, "b", 1.0)).text)
        except NoAnswer:
            me.heard.append(None)

    return Play({"a": receive, "b": send}).run()


def test_a_channel_seals_opens_and_binds_the_context() -> None:
    mine, theirs = Rot13(), Rot13()
    run = sealed_play(mine, theirs)
    assert run.heard("a") == ["secret"]
    assert mine.bound == theirs.bound
    assert len(mine.bound) == 1
    (sent,) = [event for event in run.events if event.kind == "send"]
    assert sent.sealing == 3
    assert run.world.ledger.total("sealing") == 3


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        (None, Rot13(), "PartyNote from b must be sealed, and is not"),
        (Rot13(), None, "PartyNote from b is sealed, and there is no channel"),
        (Broken(), Rot13(), "not authentic"),
    ],
)
def test_what_is_not_sealed_as_agreed_is_dropped_and_traced(mine: Any, theirs: Any, why: str) -> None:
    run = sealed_play(mine, theirs)
    assert run.heard("a") == [None]
    (note,) = run.notes("drop")
    assert note.startswith("PartyNote from b: ")
    assert why in note


def test_what_does_not_decode_is_dropped_with_sender_and_type() -> None:
    class Scrambler(Rot13):
        def open(self, sealed: bytes, associated_data: bytes) -> bytes:
            return b"\x91\x05"

    run = sealed_play(Rot13(), Scrambler())
    assert run.heard("a") == [None]
    assert run.notes("drop") == [
        "PartyNote from b: PartyNote from b does not decode: Expected `str`, got `int` - at `$[0]`"
    ]


def packet_with(data: bytes) -> Packet:
    """What "b" sends to "a", with other bytes in it."""
    frame = Frame("PartyNote", "b", "a", 1, 0, 0, False, encode_body(PartyNote("hello")))
    return msgspec.structs.replace(pack_frame(frame, PartyNote("hello"), ""), data=data)


def test_garbage_on_the_wire_is_dropped_and_traced() -> None:
    run = Play({"a": lambda me: asyncio.sleep(1), "b": nothing})
    run.actors["a"]._receive(packet_with(b"\xc1garbage"))
    run.run()
    (note,) = run.notes("drop")
    assert note.startswith("PartyNote from b: 8 bytes are no frame")


# play


def test_play_ends_with_the_coordinator_and_does_not_wait_for_the_idle() -> None:
    async def rest(me: Actor) -> None:
        me.rest(True)
        await me.recv(PartyNote, "a", 1000.0)

    run = Play({"a": lambda me: asyncio.sleep(1), "b": rest, "c": lambda me: asyncio.sleep(3)}).run()
    assert run.now == 3.0


def test_play_goes_on_for_a_party_that_is_busy_again() -> None:
    async def rest(me: Actor) -> None:
        me.rest(True)
        await me.recv(PartyNote, "a", 1000.0)
        me.rest(False)
        await asyncio.sleep(5)

    async def lead(me: Actor) -> None:
        me.send("b", PartyNote("begin"))
        await asyncio.sleep(1)

    assert Play({"a": lead, "b": rest}).run().now == 5.01


def test_when_the_coordinator_is_lost_the_others_end_by_their_deadlines() -> None:
    async def follow(me: Actor) -> None:
        me.rest(True)
        try:
            await me.recv(PartyNote, "a", 7.0)
        except NoAnswer as silence:
            me.heard.append(str(silence))

    run = Play({"a": lambda me: asyncio.sleep(3), "b": follow}, [Crash("a", time=1.0)]).run()
    assert run.now == 7.0
    assert run.heard("b") == ["b waited 7 s for PartyNote from a in vain"]


def test_what_a_program_raises_ends_the_play_at_once() -> None:
    async def fail(me: Actor) -> None:
        await asyncio.sleep(2)
        raise LookupError(f"{me.name} has no data")

    run = Play({"a": lambda me: asyncio.sleep(100), "b": fail})
    with pytest.raises(LookupError, match="b has no data"):
        run.run()
    assert run.now == 2.0


def test_parties_that_wait_for_each_other_for_ever_are_a_deadlock() -> None:
    def wait_for(name: str) -> Program:
        async def program(me: Actor) -> None:
            with me.step("demo.wait"):
                await me.collect(PartyNote, [name], deadline=float("inf"))

        return program

    async def silent(me: Actor) -> None:
        await asyncio.get_running_loop().create_future()

    programs = {"a": wait_for("b"), "b": wait_for("a"), "c": silent, "d": nothing, "e": nothing}
    run = Play(programs, [Crash("e", time=0.0)])
    with pytest.raises(Deadlock) as caught:
        run.run()
    assert caught.value.waits == {
        "a": "PartyNote from b (in demo.wait)",
        "b": "PartyNote from a (in demo.wait)",
        "c": "nothing that it names (in no step)",
    }


@pytest.fixture
def clean_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert caplog.messages == []


@pytest.mark.usefixtures("clean_end")
def test_ctrl_c_in_a_party_leaves_at_once_and_ends_clean() -> None:
    async def work(me: Actor) -> None:
        async def press() -> None:
            await asyncio.sleep(1)
            signal.raise_signal(signal.SIGINT)

        with me.step("demo.work"):
            await me.together(
                press(), me.compute({"second": 9}, float), me.recv(PartyNote, "a", 9.0), me.together(asyncio.sleep(9))
            )

    async def lead(me: Actor) -> None:
        await me.collect(PartyNote, ["b"], deadline=100.0)

    run = Play({"a": lead, "b": work, "c": lead})
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.now == 1.0
    assert [event.kind for event in run.events] == ["enter", "compute"]


# A run is the same each time

FAULTS = (Crash("client/1", after="demo.work", back_after=0.5), Crash("client/2", time=1.5))


def workload(clients: int = 4, text: str = "hello", **changes: Any) -> Play:
    """A server that asks for numbers three times, clients that compute them and tell each other; two of them crash."""
    names = [f"client/{i}" for i in range(clients)]

    async def serve(me: Actor) -> None:
        for number in range(3):
            me.advance(number + 1, 0)
            with me.step("demo.ask"):
                for name in names:
                    me.send(name, PartyRound(text))
                collected = await me.collect(PartyNumber, names, deadline=2.0, quorum=len(names) - 1)
                me.heard.append({name: message.number for name, message in collected.answers.items()})

    async def work(me: Actor) -> None:
        me.rest(True)
        while True:
            await me.recv(PartyRound, "server", 100.0)
            with me.step("demo.work"):
                others = [name for name in names if name != me.name]
                number = me.entropy("number").below(1000)
                await me.together(*(me.compute({"second": 0.1}, float) for _ in others))
                for name in others:
                    me.send(name, PartyNumber(number))
                await me.collect(PartyNumber, others, deadline=0.5)
                me.send("server", PartyNumber(number))

    settings = {
        "latency": "lognormal:40ms,0.5",
        "topology": "star",
        "access": {"up": 5e4, "down": 1e5},
        "faults": FAULTS,
    }
    return Play({"server": serve} | dict.fromkeys(names, work), **{**settings, **changes})


def hashes(run: Play) -> tuple[str, str]:
    return run.world.trace.trace_hash, run.world.trace.shape_hash


def test_the_same_run_has_the_same_hashes() -> None:
    first, second = workload().run(), workload().run()
    assert first.events == second.events
    assert hashes(first) == hashes(second)
    assert [fired.fault for fired in first.world.faults.fired] == list(FAULTS)
    assert any(note.startswith("rejoin") for note in first.notes("fault"))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"latency": "lognormal:40ms,0.51"},
        {"latency": "41ms"},
        {"topology": "mesh"},
        {"clients": 5},
        {"faults": ()},
        {"faults": FAULTS[:1]},
        {"access": {"up": 5e4, "down": 1.1e5}},
        {"text": "longer than hello"},
    ],
)
def test_any_other_condition_changes_both_hashes(changes: dict[str, Any]) -> None:
    (trace, shape), (other_trace, other_shape) = hashes(workload().run()), hashes(workload(**changes).run())
    assert trace != other_trace
    assert shape != other_shape


def test_another_payload_of_the_same_size_changes_the_trace_hash_alone() -> None:
    (trace, shape), (other_trace, other_shape) = hashes(workload().run()), hashes(workload(text="hallo").run())
    assert trace != other_trace
    assert shape == other_shape


def test_the_hash_is_the_same_in_another_process_whatever_its_hash_seed_and_heap() -> None:
    script = textwrap.dedent("""
        import importlib.util, sys
        kept = [bytearray(size) for size in range(0, int(sys.argv[2]) * 977, 977)]
        spec = importlib.util.spec_from_file_location("test_party", sys.argv[1])
        module = importlib.util.module_from_spec(spec)
        sys.modules["test_party"] = module
        spec.loader.exec_module(module)
        print(*module.hashes(module.workload().run()))
    """)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, __file__, str(layout)],
            env={**os.environ, "PYTHONHASHSEED": str(layout), "PYTHONPATH": os.getcwd()},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for layout in (1, 40)
    ]  # fmt: skip
    assert outputs == [list(hashes(workload().run()))] * 2


def test_the_ledger_is_the_sum_of_the_trace() -> None:
    run = workload().run()
    ledger = run.world.ledger
    hops = [event for event in run.events if event.kind in ("send", "relay")]
    assert ledger.messages == len(hops)
    for column in ("payload", "sealing", "envelope"):
        assert ledger.total(column) == sum(getattr(event, column) for event in hops)
    for row in ledger.rows():
        same = [
            event
            for event in hops
            if (event.step, event.type, event.party, event.peer) == (row.step, row.type, row.sender, row.receiver)
            and (event.kind == "relay") == row.relayed
        ]
        assert (row.messages, row.total) == (len(same), sum(e.payload + e.sealing + e.envelope for e in same))


# Any schedule

moments = st.floats(0, 2)
NAMES = ("server", "client/0", "client/1", "client/2")


@settings(deadline=None, max_examples=60)
@given(
    letters=st.lists(st.tuples(moments, st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30),
    crashes=st.lists(st.tuples(moments, st.sampled_from(NAMES), st.none() | moments), max_size=4),
    topology=st.sampled_from(["mesh", "star"]),
    rate=st.sampled_from([0.0, 500.0]),
    seed=st.integers(0, 3),
)
def test_whatever_happens_every_message_ends_somewhere(
    letters: list[tuple[float, str, str]],
    crashes: list[tuple[float, str, float | None]],
    topology: str,
    rate: float,
    seed: int,
) -> None:
    """sent = delivered + lost + dropped; nobody hears from the dead; the clock never goes back; it all repeats."""

    def correspond(name: str) -> Program:
        async def program(me: Actor) -> None:
            async def write() -> None:
                for when, sender, receiver in sorted(letters):
                    if sender == name != receiver and when >= me.world.loop.time():
                        await asyncio.sleep(when - me.world.loop.time())
                        me.send(receiver, PartyNote(f"{me.incarnation} at {me.world.loop.time()}"))

            async def read() -> None:
                others = [other for other in NAMES if other != name]
                with me.incoming((PartyNote,), others, deadline=60.0) as arrivals:
                    async for source, message in arrivals:
                        me.heard.append((source, message.text, me.incarnation, me.world.loop.time()))

            await me.together(write(), read())

        return program

    def once() -> Play:
        return Play(
            {name: correspond(name) for name in NAMES},
            [Crash(name, time=when, back_after=back) for when, name, back in crashes],
            latency="lognormal:50ms,1", seed=seed, topology=topology, access={"up": rate, "down": rate},
        ).run()  # fmt: skip

    run = once()
    counts = Counter(event.kind for event in run.events)
    assert counts["send"] == counts["deliver"] + counts["lose"] + counts["drop"]
    assert run.world.network.in_flight == 0
    times = [event.time for event in run.events]
    assert times == sorted(times)
    assert sum(len(run.heard(name)) for name in NAMES) <= counts["deliver"]
    if not crashes:
        assert counts["deliver"] == counts["send"] == sum(len(run.heard(name)) for name in NAMES)
    assert hashes(once()) == hashes(run)


def test_free_computing_takes_no_time() -> None:
    world = World(cost=Free())

    async def program(me: Actor) -> None:
        me.plan({"ring.add": 10})
        me.heard += [await me.compute({"ring.add": 10}, max, 3, 4), world.loop.time()]

    actor = Actor(world, "a", program)
    world.loop.run(play([actor], actor))
    world.loop.finish()
    assert actor.heard == [4, 0.0]


def test_a_party_needs_a_program() -> None:
    world = World()
    party = Party(world, "a")
    with pytest.raises(NotImplementedError, match="Party has no program"):
        world.loop.run(play([party], party))
    world.loop.finish()
