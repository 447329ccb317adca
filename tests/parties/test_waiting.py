"""Waiting: messages taken by type, sender, round and attempt; deadlines, quorums, interrupts."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.parties.party import NoAnswer

Stage = Any
Program = Any


# recv


def test_a_message_is_received_after_its_latency(stage: Stage) -> None:
    async def ask(me: Any) -> None:
        me.send("b", me.Note("hello"))
        reply = await me.recv(me.Reply, "b", 1.0)
        me.heard += [reply.text, me.world.loop.time()]

    async def answer(me: Any) -> None:
        note = await me.recv(me.Note, "a", 1.0)
        me.send("a", me.Reply(f"{note.text} to you"))

    assert stage({"a": ask, "b": answer}).run().heard("a") == ["hello to you", 0.02]


def test_a_wait_ends_at_its_deadline_with_no_answer(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await asyncio.sleep(2)
        with pytest.raises(NoAnswer, match=r"a waited 1\.5 s for StageNote or StageReply from b in vain") as caught:
            await me.recv((me.Note, me.Reply), "b", 1.5)
        assert (caught.value.party, caught.value.deadline) == ("a", 1.5)
        me.heard.append(me.world.loop.time())

    assert stage({"a": wait, "b": stage.nothing}).run().heard("a") == [3.5]


@pytest.mark.parametrize(("latency", "heard"), [("999ms", ["now"]), ("1001ms", [None])])
def test_a_message_before_the_deadline_is_in_time(stage: Stage, latency: str, heard: list[str | None]) -> None:
    async def wait(me: Any) -> None:
        try:
            me.heard.append((await me.recv(me.Note, "b", 1.0)).text)
        except NoAnswer:
            me.heard.append(None)

    assert stage({"a": wait, "b": stage.says("now")}, latency=latency).run().heard("a") == heard


def test_a_message_at_the_deadline_is_in_time_if_sent_before_the_wait_began(stage: Stage) -> None:
    """At equal times, events happen in the order in which they were scheduled."""

    async def wait(me: Any) -> None:
        await asyncio.sleep(1.0)
        me.heard.append((await me.recv(me.Note, "b", 1.0)).text)

    assert stage({"a": wait, "b": stage.says("now")}, latency="2s").run().heard("a") == ["now"]


def test_messages_wait_in_the_mailbox_by_type_and_sender(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await asyncio.sleep(1)
        me.heard.append((await me.recv(me.Reply, "b", 0.0)).text)
        for source in ("c", "b", "b"):
            me.heard.append((await me.recv(me.Note, source, 0.0)).text)

    async def both(me: Any) -> None:
        me.send("a", me.Note(f"first of {me.name}"))
        me.send("a", me.Reply(f"reply of {me.name}"))
        me.send("a", me.Note(f"second of {me.name}"))

    run = stage({"a": wait, "b": both, "c": both}).run()
    assert run.heard("a") == ["reply of b", "first of c", "first of b", "second of b"]


def test_messages_of_a_sender_are_taken_in_order(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        for _ in range(20):
            me.heard.append((await me.recv(me.Note, "b", 10.0)).text)

    texts = [str(n) for n in range(20)]
    run = stage({"a": wait, "b": stage.says(*texts, every=0.001)}, latency="lognormal:40ms,1").run()
    assert run.heard("a") == texts


# collect


def collects(**options: Any) -> Program:
    async def program(me: Any) -> None:
        sources = [name for name in me.world.loop.waits if name != "a"]
        collected = await me.collect(me.Note, sources, **{"deadline": 5.0, **options})
        answers = {source: message.text for source, message in collected.answers.items()}
        me.heard += [answers, collected.missing, round(me.world.loop.time(), 6)]

    return program


def test_collect_ends_when_all_have_answered_in_the_order_asked(stage: Stage) -> None:
    run = stage(
        {"a": collects(), "b": stage.says("B", after=2), "c": stage.says("C"), "d": stage.says("D", after=1)}
    ).run()
    answers, missing, now = run.heard("a")
    assert list(answers.items()) == [("b", "B"), ("c", "C"), ("d", "D")]
    assert (missing, now) == ((), 2.01)


def test_collect_ends_at_the_deadline_with_the_missing_parties(stage: Stage) -> None:
    run = stage(
        {"a": collects(deadline=1.5), "b": stage.says("B", after=2), "c": stage.says("C"), "d": stage.nothing}
    ).run()
    assert run.heard("a") == [{"c": "C"}, ("b", "d"), 1.5]


def test_collect_ends_with_a_quorum(stage: Stage) -> None:
    run = stage(
        {"a": collects(quorum=2), "b": stage.says("B", after=2), "c": stage.says("C"), "d": stage.says("D", after=1)}
    ).run()
    assert run.heard("a") == [{"c": "C", "d": "D"}, ("b",), 1.01]


@pytest.mark.parametrize(("quorum", "now"), [(0, 0.0), (3, 2.01), (99, 2.01)])
def test_collect_with_a_quorum_of_none_ends_at_once_and_of_all_with_the_last_answer(
    stage: Stage, quorum: int, now: float
) -> None:
    run = stage(
        {"a": collects(quorum=quorum), "b": stage.says("B", after=2), "c": stage.says("C"), "d": stage.says("D")}
    ).run()
    assert run.heard("a")[2] == now


def test_collect_from_no_party_ends_at_once(stage: Stage) -> None:
    async def collect(me: Any) -> None:
        collected = await me.collect(me.Note, [], deadline=5.0)
        me.heard += [collected.answers, collected.missing, me.world.loop.time()]

    assert stage({"a": collect}).run().heard("a") == [{}, (), 0.0]


def test_collect_ends_with_a_message_of_a_type_named_in_until(stage: Stage) -> None:
    async def end(me: Any) -> None:
        me.send("a", me.Note("C"))
        await asyncio.sleep(1)
        me.send("a", me.Reply("that is all"))

    run = stage({"a": collects(until=(stage.actor.Reply,)), "b": stage.says("B", after=2), "c": end}).run()
    assert run.heard("a") == [{"c": "C"}, ("b",), 1.01]


def test_collect_takes_one_message_of_each_sender_and_leaves_the_second(stage: Stage) -> None:
    async def twice(me: Any) -> None:
        for _ in range(2):
            collected = await me.collect(me.Note, ["b", "c"], deadline=5.0)
            me.heard.append([message.text for message in collected.answers.values()])

    run = stage({"a": twice, "b": stage.says("B1", "B2", every=0), "c": stage.says("C1", "C2", after=1, every=1)}).run()
    assert run.heard("a") == [["B1", "C1"], ["B2", "C2"]]


def test_incoming_gives_each_message_on_receipt(stage: Stage) -> None:
    async def listen(me: Any) -> None:
        kinds: tuple[type[Any], ...] = (me.Note, me.Reply)
        with me.incoming(kinds, ["b", "c"], deadline=2.5) as arrivals:
            async for source, message in arrivals:
                me.heard.append((source, message.text, round(me.world.loop.time(), 6)))
        me.heard.append(me.world.loop.time())

    async def reply(me: Any) -> None:
        await asyncio.sleep(0.5)
        me.send("a", me.Reply("x"))

    run = stage({"a": listen, "b": stage.says("1", "2", "3", every=1.0), "c": reply}).run()
    assert run.heard("a") == [("b", "1", 0.01), ("c", "x", 0.51), ("b", "2", 1.01), ("b", "3", 2.01), 2.5]


def test_begun_waits_for_the_first_message_without_taking_the_message(stage: Stage) -> None:
    async def listen(me: Any) -> None:
        with me.incoming((me.Note,), ["b"], deadline=9.0) as arrivals:
            me.heard += [await arrivals.begun(), me.world.loop.time()]
        me.heard.append((await me.recv(me.Note, "b", 0.0)).text)
        with me.incoming((me.Note,), ["b"], deadline=2.0) as arrivals:
            me.heard += [await arrivals.begun(), me.world.loop.time()]

    run = stage({"a": listen, "b": stage.says("hello", after=1)}).run()
    assert run.heard("a") == [True, 1.01, "hello", False, 3.01]


def test_waits_leave_no_timer_behind(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await me.recv(me.Note, "b", 1000.0)
        await me.collect(me.Note, ["b"], deadline=2000.0)
        assert me.world.loop.env.live == 0

    run = stage({"a": wait, "b": stage.says("1", "2", every=0)}).run()
    assert run.now == 0.01


# Rounds and attempts


def test_late_messages_are_dropped_and_traced(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await asyncio.sleep(1)  # "kept" and "in the mailbox" have been delivered
        me.advance(1, 2)
        with pytest.raises(NoAnswer):
            await me.recv(me.Note, "b", 5.0)

    run = stage({"a": wait, "b": stage.says("in the mailbox", "on its way", every=2.0)}).run()
    late = "StageNote from b: late: of an earlier round or attempt"
    assert run.notes("drop") == [late, late]


def test_a_lasting_message_is_never_late_and_a_senders_latest_one_is_used(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await asyncio.sleep(1)
        me.advance(1, 2)
        await asyncio.sleep(1)
        me.advance(4, 1)
        collected = await me.collect(me.Lasting, ["b", "c"], deadline=0.0)
        me.heard += [{name: answer.text for name, answer in collected.answers.items()}, len(me._mailbox)]

    async def twice(me: Any) -> None:
        me.send("a", me.Lasting("first"))
        await asyncio.sleep(1.5)
        me.send("a", me.Lasting("second"))

    async def once(me: Any) -> None:
        me.send("a", me.Lasting("only"))

    run = stage({"a": wait, "b": twice, "c": once}).run()
    assert run.heard("a") == [{"b": "second", "c": "only"}, 0]
    assert run.notes("drop") == []


def test_messages_of_a_later_round_wait_until_the_party_enters_that_round(stage: Stage) -> None:
    async def early(me: Any) -> None:
        me.advance(2, 1)
        me.send("a", me.Note("early"))

    async def wait(me: Any) -> None:
        with pytest.raises(NoAnswer):
            await me.recv(me.Note, "b", 1.0)
        me.advance(2, 0)
        with pytest.raises(NoAnswer):
            await me.recv(me.Note, "b", 1.0)
        me.advance(2, 1)
        me.heard.append((await me.recv(me.Note, "b", 0.0)).text)

    assert stage({"a": wait, "b": early}).run().heard("a") == ["early"]


def test_an_announcement_moves_its_receiver_to_the_round_and_wakes_waiting_tasks(stage: Stage) -> None:
    async def announce(me: Any) -> None:
        me.advance(3, 1)
        me.send("a", me.Note("of round 3"))
        await asyncio.sleep(1)
        me.send("a", me.Round("round 3"))

    async def take_part(me: Any) -> None:
        async def listen() -> None:
            me.heard.append((await me.recv(me.Note, "b", 100.0)).text)
            me.heard.append(me.world.loop.time())

        async def follow() -> None:
            me.heard.append((await me.recv(me.Round, "b", 100.0)).text)
            await asyncio.sleep(5)

        with me.incoming((me.Note,), ["b"], deadline=0.5) as arrivals:
            assert not await arrivals.begun()
        await me.together(listen(), follow())
        me.heard.append((me.round, me.attempt))

    run = stage({"a": take_part, "b": announce}).run()
    assert run.heard("a") == ["round 3", "of round 3", 1.01, (3, 1)]


def test_a_party_does_not_return_to_an_earlier_round(stage: Stage) -> None:
    async def program(me: Any) -> None:
        me.advance(2, 3)
        me.advance(2, 1)
        me.advance(1, 9)
        me.heard.append((me.round, me.attempt))

    assert stage({"a": program}).run().heard("a") == [(2, 3)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.integers(0, 9))
def test_each_message_is_taken_in_its_own_attempt_or_dropped(
    stage: Stage, stamps: list[tuple[int, int]], seed: int
) -> None:
    """A sender that advances, and a receiver that goes through all attempts at its own pace."""

    async def send(me: Any) -> None:
        for stamp in sorted(stamps):
            me.advance(*stamp)
            me.send("a", me.Note(f"{me.round}.{me.attempt}"))
            await asyncio.sleep(0.1)

    async def receive(me: Any) -> None:
        for stamp in [(r, t) for r in range(3) for t in range(3)]:
            me.advance(*stamp)
            with me.incoming((me.Note,), ["b"], deadline=0.1) as arrivals:
                async for _, message in arrivals:
                    me.heard.append(((me.round, me.attempt), message.text))

    run = stage({"a": receive, "b": send}, latency="lognormal:50ms,1", seed=seed).run()
    assert all(f"{stamp[0]}.{stamp[1]}" == text for stamp, text in run.heard("a"))
    counts = Counter(event.kind for event in run.events)
    left = len(run.actors["a"]._mailbox)
    assert counts["deliver"] == len(run.heard("a")) + counts["drop"] + left


# Interrupts and together


def test_an_interrupt_message_ends_every_wait_of_a_party(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        with pytest.raises(me.Stopped, match="enough"):
            await me.together(
                me.recv(me.Note, "b", 100.0), me.collect(me.Reply, ["b"], deadline=100.0), asyncio.sleep(100)
            )
        me.heard += [me.world.loop.time(), (me.round, me.attempt)]
        with pytest.raises(NoAnswer):  # the interrupt happens once
            await me.recv(me.Note, "b", 1.0)

    async def stop(me: Any) -> None:
        me.advance(1, 1)
        await asyncio.sleep(1)
        me.send("a", me.Stop("enough"))

    assert stage({"a": wait, "b": stop}).run().heard("a") == [1.01, (1, 1)]


def test_together_returns_all_results_in_order(stage: Stage) -> None:
    async def one(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def program(me: Any) -> None:
        me.heard += await me.together(one(3), one(1), one(2))
        me.heard += await me.together()
        me.heard.append(me.world.loop.time())

    assert stage({"a": program}).run().heard("a") == [3, 1, 2, 3.0]


def test_the_first_error_in_together_cancels_the_other_tasks_and_is_raised(stage: Stage) -> None:
    async def program(me: Any) -> None:
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

    assert stage({"a": program}).run().heard("a") == ["cancelled", 1.0]
