"""Messages that overtake others of their sender wait in the mailbox for their turn, and pass every check at it."""

import asyncio
from typing import Any, ClassVar

import pytest

from tacit.parties import mailbox
from tacit.parties.party import NoAnswer
from tacit.sim.faults import Crash
from tacit.sim.wire import Message

Stage = Any


class OvertakingAttempt(Message):
    """A message that opens an attempt of its receiver's own round."""

    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    text: str


class OvertakingOrder(Message):
    """A message that follows a note."""

    follows: ClassVar[tuple[str, ...]] = ("StageNote",)
    text: str


class OvertakingOther(Message):
    """A message that follows none."""

    text: str


async def of_round_2(me: Any) -> None:
    """Open an attempt of round 2."""
    me.advance(2, 1)
    me.send("a", OvertakingAttempt("of round 2"))


async def in_vain(me: Any, kind: type[Message], deadline: float = 1.0) -> None:
    with pytest.raises(NoAnswer):
        await me.recv(kind, "b", deadline)


def test_an_announcement_in_a_round_waits_until_its_receiver_has_entered_the_round(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        me.advance(1, 3)
        await in_vain(me, OvertakingAttempt)
        assert (me.round, me.attempt) == (1, 3)
        me.advance(2, 0)
        me.heard.append((await me.recv(OvertakingAttempt, "b", 0.0)).text)
        assert (me.round, me.attempt) == (2, 1)

    assert stage({"a": wait, "b": of_round_2}).run().heard("a") == ["of round 2"]


def test_an_announcement_in_a_later_round_ends_no_wait_of_this_one(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        me.advance(1, 1)
        await asyncio.sleep(0.5)
        found = await me.collect(me.Note, ["c"], deadline=5.0, until=(OvertakingAttempt,))
        me.heard.append((found.answers["c"].text, me.now))

    async def later(me: Any) -> None:
        await asyncio.sleep(2)
        me.advance(1, 1)
        me.send("a", me.Note("in time"))

    assert stage({"a": wait, "b": of_round_2, "c": later}).run().heard("a") == [("in time", 2.01)]


def test_an_announcement_that_opens_a_round_is_taken_at_once_and_the_waiting_one_after_it(stage: Stage) -> None:
    async def overtaken(me: Any) -> None:
        await of_round_2(me)
        await asyncio.sleep(1)
        me.round, me.attempt = 2, 0
        me.send("a", me.Round("round 2"))

    async def wait(me: Any) -> None:
        me.advance(1, 1)
        for _ in range(2):
            with me.incoming((OvertakingAttempt, me.Round), ["b"], deadline=5.0) as arrivals:
                me.heard.append(((await arrivals.next())[1].text, me.now))

    found = stage({"a": wait, "b": overtaken}).run().heard("a")
    assert found == [("round 2", 1.01), ("of round 2", 1.01)]


def test_a_message_that_follows_another_waits_until_that_was_taken_in_the_same_attempt(stage: Stage) -> None:
    async def send(me: Any) -> None:
        me.advance(1, 1)
        me.send("a", OvertakingOrder("of attempt 1"))
        await asyncio.sleep(1)
        me.send("a", me.Note("first"))
        me.advance(1, 2)
        me.send("a", OvertakingOrder("of attempt 2"))

    async def other(me: Any) -> None:
        me.advance(1, 1)
        me.send("a", me.Note("from another sender"))

    async def wait(me: Any) -> None:
        me.advance(1, 1)
        me.heard.append((await me.recv(me.Note, "c", 1.0)).text)
        await in_vain(me, OvertakingOrder, 0.5)
        order = asyncio.ensure_future(me.recv(OvertakingOrder, "b", 5.0))  # a wait that goes on beside the next one
        me.heard.append((await me.recv(me.Note, "b", 5.0)).text)
        me.heard.append((await order).text)
        await asyncio.sleep(1)
        me.advance(1, 2)
        await in_vain(me, OvertakingOrder)

    heard = stage({"a": wait, "b": send, "c": other}).run().heard("a")
    assert heard == ["from another sender", "first", "of attempt 1"]


def test_a_sender_has_a_bounded_number_of_messages_that_wait_for_a_later_round(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "MOST_AHEAD", 3)

    async def flood(me: Any) -> None:
        for number in (2, 3):
            me.advance(number, 0)
            for text in range(5):
                me.send("a", me.Note(f"{number}.{text}"))
            await asyncio.sleep(1)

    async def wait(me: Any) -> None:
        me.advance(1, 1)
        await asyncio.sleep(0.5)
        me.advance(2, 0)
        with me.incoming((me.Note,), ["b", "c"], deadline=0.1) as arrivals:
            async for source, message in arrivals:
                me.heard.append((source, message.text))
        await asyncio.sleep(1)
        me.advance(3, 0)
        with me.incoming((me.Note,), ["b"], deadline=0.1) as arrivals:
            async for source, message in arrivals:
                me.heard.append((source, message.text))

    async def one(me: Any) -> None:
        me.advance(2, 0)
        me.send("a", me.Note("of another sender"))

    run = stage({"a": wait, "b": flood, "c": one}).run()
    assert run.heard("a") == [
        ("b", "2.0"), ("b", "2.1"), ("b", "2.2"), ("c", "of another sender"),
        ("b", "3.0"), ("b", "3.1"), ("b", "3.2"),
    ]  # fmt: skip
    assert (
        len([note for note in run.notes("drop") if "as many of its messages wait for their turn as may" in note]) == 4
    )


def test_the_bytes_of_messages_that_wait_are_bounded_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that follow a message that does not come; one alone may be larger, and others are not counted."""
    monkeypatch.setattr(mailbox, "MOST_BYTES_AHEAD", 1000)

    async def flood(me: Any) -> None:
        me.advance(1, 1)
        for number in range(4):
            me.send("a", OvertakingOrder(f"{number}" + 400 * "x"))  # the third is too much
        for number in range(4):
            me.send("a", OvertakingOther(f"{number}" + 400 * "x"))  # follows nothing
        me.send("a", me.Note("first"))
        me.advance(2, 0)
        me.send("a", me.Note(2000 * "y"))
        await asyncio.sleep(1)
        me.advance(3, 0)
        me.send("a", me.Note(2000 * "z"))  # nothing else waits by now
        me.send("a", me.Note("small"))

    async def wait(me: Any) -> None:
        me.advance(1, 1)
        await asyncio.sleep(0.5)
        me.heard.append((await me.recv(me.Note, "b", 5.0)).text)
        for kind in (OvertakingOrder, OvertakingOrder, *[OvertakingOther] * 4):
            me.heard.append((await me.recv(kind, "b", 5.0)).text[0])
        await in_vain(me, OvertakingOrder)
        await asyncio.sleep(1)
        me.advance(3, 0)
        me.heard.append((await me.recv(me.Note, "b", 5.0)).text[0])
        await in_vain(me, me.Note)

    run = stage({"a": wait, "b": flood}).run()
    assert run.heard("a") == ["first", "0", "1", "0", "1", "2", "3", "z"]
    assert (
        len([note for note in run.notes("drop") if "as many of its messages wait for their turn as may" in note]) == 4
    )


def test_a_waiting_message_of_an_incarnation_that_is_gone_is_dropped_at_its_turn(stage: Stage) -> None:
    async def send(me: Any) -> None:
        me.advance(2 if me.incarnation == 1 else 1, 1)
        me.send("a", me.Note(f"of incarnation {me.incarnation}"))
        await asyncio.sleep(10)

    async def wait(me: Any) -> None:
        me.advance(1, 1)
        me.heard.append((await me.recv(me.Note, "b", 9.0)).text)
        me.advance(2, 1)
        await in_vain(me, me.Note)

    run = stage({"a": wait, "b": send}, [Crash("b", time=1.0, back_after=1.0)]).run()
    assert run.heard("a") == ["of incarnation 2"]
    assert run.notes("drop") == ["StageNote from b: it is of incarnation 1, which is gone"]
