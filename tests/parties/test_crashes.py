"""Steps, and crashes in them: a crashed party sends nothing, and a returned party is a new incarnation."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tacit.parties.party import NoAnswer
from tacit.sim.faults import Crash, Crashed
from tacit.sim.wire import Packet

Stage = Any


# Steps


async def two_steps(me: Any) -> None:
    for _ in range(2):
        with me.step("demo.first"):
            await asyncio.sleep(1)
            me.heard.append("first")
        with me.step("demo.second"):
            await asyncio.sleep(1)
            me.heard.append("second")


def test_steps_are_traced_at_both_ends(stage: Stage) -> None:
    run = stage({"a": two_steps}).run()
    entered = [(e.time, e.kind, e.step) for e in run.events if e.kind in ("enter", "leave")]
    assert entered[:4] == [
        (0.0, "enter", "demo.first"), (1.0, "leave", "demo.first"),
        (1.0, "enter", "demo.second"), (2.0, "leave", "demo.second"),
    ]  # fmt: skip


def test_messages_and_jobs_are_filed_under_the_step_of_their_task(stage: Stage) -> None:
    async def program(me: Any) -> None:
        async def in_step(name: str, seconds: float) -> None:
            with me.step(name):
                await asyncio.sleep(seconds)
                me.send("b", me.Note(name))
                await me.compute({"second": 1}, float)
                with me.step(f"{name}.inner"):
                    me.send("b", me.Note(f"{name}.inner"))
                me.send("b", me.Note(name))

        await me.together(in_step("demo.left", 2), in_step("demo.right", 1))

    run = stage({"a": program, "b": stage.nothing}).run()
    sent = [e for e in run.events if e.kind == "send"]
    assert {e.step for e in run.events if e.kind == "compute"} == {"demo.left", "demo.right"}
    assert Counter(e.step for e in sent) == {
        "demo.left": 2, "demo.right": 2, "demo.left.inner": 1, "demo.right.inner": 1
    }  # fmt: skip


def test_an_error_ends_the_step_in_which_an_exception_is_raised(stage: Stage) -> None:
    async def program(me: Any) -> None:
        with pytest.raises(NoAnswer), me.step("demo.failing"):
            await me.recv(me.Note, "b", 1.0)
        with me.step("demo.next"):
            pass
        me.send("b", me.Note("between steps"))

    run = stage({"a": program, "b": stage.nothing}).run()
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
def test_a_crash_strikes_at_its_stated_trigger(
    stage: Stage, fault: Crash, heard: list[str], when: float, note: str
) -> None:
    run = stage({"a": lambda me: asyncio.sleep(10), "b": two_steps}, [fault]).run()
    assert run.heard("b") == heard
    faults = [event for event in run.events if event.kind == "fault"]
    assert [(event.time, event.party, event.note) for event in faults] == [(when, "b", note)]
    assert [fired.fault for fired in run.world.faults.fired] == [fault]
    assert not run.actors["b"].alive
    assert "down" in repr(run.actors["b"])


def test_a_crash_before_or_after_a_step_includes_none_or_all_its_actions(stage: Stage) -> None:
    async def program(me: Any) -> None:
        with me.step("demo.send"):
            me.send("a", me.Note("one"))
            me.send("a", me.Note("two"))

    for fault, count in ((Crash("b", before="demo.send"), 0), (Crash("b", after="demo.send"), 2)):
        run = stage({"a": lambda me: asyncio.sleep(1), "b": program}, [fault]).run()
        kinds = [event.kind for event in run.events if event.kind in ("enter", "leave", "deliver")]
        assert kinds == ["enter"] * (count > 0) + ["deliver"] * count


def test_a_crash_that_comes_too_late_does_not_fire(stage: Stage) -> None:
    run = stage({"a": lambda me: asyncio.sleep(10), "b": stage.nothing}, [Crash("b", time=5.0)]).run()
    assert run.world.faults.fired == []
    assert run.actors["b"].alive


def test_a_crashed_party_sends_no_answer(stage: Stage) -> None:
    """A program that handles its cancellation still cannot send, wait, compute or enter a step."""

    async def undead(me: Any) -> None:
        for _ in range(3):
            try:
                await me.recv(me.Note, "a", 100.0)
            except BaseException as error:
                me.heard.append(type(error))
            for act in (
                lambda: me.send("a", me.Note("from the grave")),
                lambda: me.step("demo.grave").__enter__(),
            ):
                with pytest.raises(Crashed):
                    act()
            with pytest.raises(Crashed):
                await me.compute({"second": 1}, float)
            with pytest.raises(Crashed):
                await me.collect(me.Note, ["a"], deadline=1.0)
        me.send("a", me.Note("from the grave"))

    run = stage({"a": lambda me: asyncio.sleep(10), "b": undead}, [Crash("b", time=1.0)]).run()
    assert run.heard("b") == [asyncio.CancelledError, Crashed, Crashed]
    assert not [event for event in run.events if event.kind in ("send", "compute", "enter")]


def test_a_crash_in_the_turn_of_an_answer_takes_effect(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        async with asyncio.timeout(5):
            await me.recv(me.Note, "c", 5.0)
        me.heard.append("went on")

    run = stage({"c": stage.says("the answer", to="b"), "b": wait})
    endpoint = run.actors["b"].device.endpoint
    take = endpoint.receive

    def take_and_crash(packet: Packet) -> None:
        take(packet)  # the answer was delivered, but "b" has not run yet
        run.actors["b"].device.crash()

    endpoint.receive = take_and_crash
    run.run()
    assert [event.kind for event in run.events if event.party == "b" or event.type] == ["send", "deliver", "fault"]
    assert run.heard("b") == []


def test_a_crash_ends_all_tasks_run_by_together(stage: Stage) -> None:
    async def work(me: Any) -> None:
        async def child(name: str) -> None:
            try:
                with me.step(f"demo.{name}"):
                    await asyncio.sleep(1 if name == "x" else 100)
            finally:
                me.heard.append(name)

        await me.together(child("x"), child("y"), me.together(child("z")))
        me.heard.append("went on")

    run = stage({"a": lambda me: asyncio.sleep(10), "b": work}, [Crash("b", after="demo.x")]).run()
    assert sorted(run.heard("b")) == ["x", "y", "z"]
    assert run.actors["b"].failure is None


def test_an_error_in_the_clean_up_of_a_crashed_party_does_not_fail_the_run(stage: Stage) -> None:
    async def untidy(me: Any) -> None:
        try:
            await me.recv(me.Note, "a", 100.0)
        finally:
            raise LookupError("what was in memory is gone")

    run = stage({"a": lambda me: asyncio.sleep(10), "b": untidy}, [Crash("b", time=1.0)]).run()
    assert run.now == 10.0


def test_a_crash_gives_the_cores_and_the_uplink_back(stage: Stage) -> None:
    async def work(me: Any) -> None:
        if me.incarnation == 2:
            begun = me.world.loop.time()
            await me.compute({"second": 1}, float)
            me.send("a", me.Note("back"))
            me.heard.append(me.world.loop.time() - begun)
            return
        me.send("a", me.Note("x" * 100_000))  # 100 s of uplink
        await me.together(*(me.compute({"second": 100}, float) for _ in range(3)))

    async def wait(me: Any) -> None:
        me.heard.append((await me.recv(me.Note, "b", 300.0)).text)
        me.heard.append(me.world.loop.time())

    run = stage({"a": wait, "b": work}, [Crash("b", time=5.0, back_after=1.0)], access={"up": 1000.0})
    machine = run.actors["b"].device.machine
    run.run()
    assert run.heard("b") == [1.0]
    text, when = run.heard("a")
    assert text == "back"
    assert 7.0 < when < 8.0
    assert machine.cores.count == 0
    assert not machine.cores.queue


def test_a_returning_party_is_a_new_incarnation_with_only_its_disk(stage: Stage) -> None:
    async def program(me: Any) -> None:
        me.heard.append((me.incarnation, me.round, dict(me.disk), dict(me.channels), me.step_name))
        me.disk["kept"] = me.incarnation
        me.channels["a"] = object()
        me.advance(4, 2)
        with me.step("demo.work"):
            await asyncio.sleep(3)
        me.heard.append(me.world.loop.time())

    run = stage(
        {"a": lambda me: asyncio.sleep(10), "b": program}, [Crash("b", after="demo.work", back_after=2.0)]
    ).run()
    assert run.heard("b") == [(1, 0, {}, {}, ""), (2, 0, {"kept": 1}, {}, ""), 8.0]
    assert run.notes("fault") == ["crash after demo.work", "rejoin as incarnation 2"]
    assert repr(run.actors["b"]) == "<b, incarnation 2, up>"


def test_actions_of_a_returned_party_before_its_first_step_have_no_step(stage: Stage) -> None:
    async def program(me: Any) -> None:
        me.send("a", me.Note("hello"))
        with me.step("demo.work"):
            await asyncio.sleep(1)

    run = stage({"a": lambda me: asyncio.sleep(10), "b": program}, [Crash("b", after="demo.work", back_after=1)]).run()
    assert [event.step for event in run.events if event.kind == "send"] == ["", ""]


def test_messages_to_and_from_an_earlier_incarnation_are_dropped_and_traced(stage: Stage) -> None:
    async def talk(me: Any) -> None:
        me.send("b", me.Note("to the first"))
        await asyncio.sleep(2)
        me.send("b", me.Note("to the second"))
        for _ in range(2):
            try:
                me.heard.append((await me.recv(me.Reply, "b", 2.0)).text)
            except NoAnswer:
                me.heard.append(None)

    async def program(me: Any) -> None:
        me.send("a", me.Reply(f"from {me.incarnation}"))
        me.heard.append((await me.recv(me.Note, "a", 10.0)).text)

    fault = Crash("b", time=0.2, back_after=0.5)
    run = stage({"a": talk, "b": program}, [fault], latency="1s").run()
    assert run.heard("a") == ["from 2", None]
    assert run.heard("b") == ["to the second"]
    assert run.notes("drop") == [
        "sent to an earlier incarnation of the receiver",
        "from an earlier incarnation of the sender",
    ]
    assert run.actors["a"].incarnations == {"b": 2}


def test_a_task_of_an_earlier_incarnation_cannot_act_for_the_new_incarnation(stage: Stage) -> None:
    left: list[asyncio.Task[None]] = []

    async def linger(me: Any) -> None:
        await asyncio.sleep(5)
        for act in (lambda: me.send("a", me.Note("ghost")), lambda: me.step("demo.ghost").__enter__()):
            try:
                act()
            except Crashed:
                me.heard.append("fenced")
        try:
            await me.recv(me.Note, "a", 10.0)
        except Crashed:
            me.heard.append("fenced")

    async def program(me: Any) -> None:
        if me.incarnation == 1:
            left.append(asyncio.get_running_loop().create_task(linger(me)))  # this task is not cancelled
        await asyncio.sleep(20)

    run = stage({"a": lambda me: asyncio.sleep(30), "b": program}, [Crash("b", time=1.0, back_after=1.0)]).run()
    assert run.heard("b") == ["fenced"] * 3
    assert not [event for event in run.events if event.kind == "send"]


def test_each_incarnation_round_and_attempt_has_its_own_randomness(stage: Stage) -> None:
    async def program(me: Any) -> None:
        for stamp in ((0, 0), (1, 0), (1, 1)):
            me.advance(*stamp)
            me.heard += [me.entropy("key").bytes(16), me.entropy("mask").bytes(16)]
        await asyncio.sleep(2)

    programs = {"a": lambda me: asyncio.sleep(10), "b": program, "c": program}
    run = stage(programs, [Crash("b", time=1.0, back_after=1.0)]).run()
    drawn = run.heard("b") + run.heard("c")
    assert len(drawn) == 18 == len(set(drawn))
    assert stage(programs, [Crash("b", time=1.0, back_after=1.0)]).run().heard("b") == run.heard("b")
    assert not set(stage(programs, seed=2).run().heard("b")) & set(drawn)
