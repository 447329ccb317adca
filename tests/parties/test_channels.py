"""Sealed channels, and packets that differ from what was sealed."""

import asyncio
from typing import Any

import pytest

from tacit.parties.party import NoAnswer
from tacit.sim.wire import Frame, Message, Packet, altered, encode_body, pack_frame

Stage = Any


class Rot13:
    """A stand-in for a cipher, which shows its context and refuses other contexts."""

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


def play_sealed_message(stage: Stage, mine: Any, theirs: Any) -> Any:
    async def send(me: Any) -> None:
        if mine is not None:
            me.channels["a"] = mine
        me.send("a", me.Note("secret"))

    async def receive(me: Any) -> None:
        if theirs is not None:
            me.channels["b"] = theirs
        try:
            me.heard.append((await me.recv(me.Note, "b", 1.0)).text)
        except NoAnswer:
            me.heard.append(None)

    return stage({"a": receive, "b": send}).run()


def test_a_channel_seals_opens_and_binds_the_context(stage: Stage) -> None:
    mine, theirs = Rot13(), Rot13()
    run = play_sealed_message(stage, mine, theirs)
    assert run.heard("a") == ["secret"]
    assert mine.bound == theirs.bound
    assert len(mine.bound) == 1
    (sent,) = [event for event in run.events if event.kind == "send"]
    assert sent.sealing == 3
    assert run.world.ledger.total("sealing") == 3


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        (None, Rot13(), "StageNote from b must be sealed, and is not"),
        (Rot13(), None, "StageNote from b is sealed, and there is no channel"),
        (Broken(), Rot13(), "not authentic"),
    ],
)
def test_a_message_not_sealed_as_agreed_is_dropped_and_traced(stage: Stage, mine: Any, theirs: Any, why: str) -> None:
    run = play_sealed_message(stage, mine, theirs)
    assert run.heard("a") == [None]
    (note,) = run.notes("drop")
    assert note.startswith("StageNote from b: ")
    assert why in note


def test_a_message_that_does_not_decode_is_dropped_with_sender_and_type(stage: Stage) -> None:
    class Scrambler(Rot13):
        def open(self, sealed: bytes, associated_data: bytes) -> bytes:
            return b"\x91\x05"

    run = play_sealed_message(stage, Rot13(), Scrambler())
    assert run.heard("a") == [None]
    assert run.notes("drop") == [
        "StageNote from b: StageNote from b does not decode: Expected `str`, got `int` - at `$[0]`"
    ]


def packet_with(note: Message, data: bytes) -> Packet:
    """The packet of `note` from "b" to "a", with other bytes in it."""
    frame = Frame("StageNote", "b", "a", 1, 0, 0, False, encode_body(note))
    return altered(pack_frame(frame, note, ""), data)


def test_garbage_on_the_wire_is_dropped_and_traced(stage: Stage) -> None:
    run = stage({"a": lambda me: asyncio.sleep(1), "b": stage.nothing})
    run.actors["a"].receive(packet_with(run.note("hello"), b"\xc1garbage"))
    run.run()
    (note,) = run.notes("drop")
    assert note.startswith("StageNote from b: 8 bytes are no frame")
