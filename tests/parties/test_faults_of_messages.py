"""Tests of faults of single messages: loss, duplication, delay, corruption."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.sealing import PairChannel
from tacit.sim.faults import (
    Corrupt,
    Crash,
    Delay,
    Duplicate,
    Lose,
    MessageFault,
)
from tacit.sim.wire import Frame, altered, associated_data, encode_body, flip_bit, pack_frame

Program = Any
Stage = Any


def test_a_lost_message_is_sent_again_and_later_messages_wait(stage: Stage) -> None:
    fault = Lose("b", message="StageNote", occurrence=2)
    run = stage({"a": stage.listens(20), "b": stage.says(*"1234", every=0.4)}, [fault]).run()
    assert run.heard("a") == [("1", 0.01), ("2", 1.41), ("3", 1.41), ("4", 1.41)]
    assert run.noted("lose") == [(0.4, "b", "lost by a fault")]
    assert run.noted("fault") == [(0.4, "b", "lose StageNote")]
    assert [(note, when) for when, _, note in run.noted("send") if note] == [("sent again: 1", 1.4)]


def test_messages_behind_a_lost_message_of_a_crashed_sender_are_dropped(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        if me.incarnation == 1:
            me.say("a", "1", "2", "3")
        await asyncio.sleep(5)
        me.say("a", f"life {me.incarnation}")

    faults = [Lose("b", occurrence=2), Crash("b", time=0.5, back_after=0.1)]
    run = stage({"a": stage.listens(20), "b": speak}, faults).run()
    assert run.heard("a") == [("1", 0.01), ("life 2", 5.61)]
    assert run.noted("drop") == [(0.5, "b", "an earlier message of its connection never came")]
    assert run.world.network.in_flight == 0


def test_no_message_is_sent_again_to_a_party_that_is_down(stage: Stage) -> None:
    faults = [Crash("b", time=0.0), Lose("a", occurrence=1)]
    run = stage({"a": stage.says("1", "2", to="b"), "b": stage.nothing}, faults).run()
    assert run.noted("send", "lose", "drop") == [
        (0.0, "a", ""), (0.0, "a", "lost by a fault"), (1.0, "a", ""), (1.01, "a", "the receiver is down"),
    ]  # fmt: skip


def test_a_lost_datagram_is_not_sent_again(stage: Stage) -> None:
    run = stage(
        {"a": stage.listens(20), "b": stage.says(*"1234")}, [Lose("b", occurrence=2)], transport="datagram"
    ).run()
    assert run.texts("a") == ["1", "3", "4"]


def test_the_timeout_doubles_up_to_a_minute(stage: Stage) -> None:
    run = stage({"a": stage.listens(2000), "b": stage.says("1")}, [Lose(time=0.0, lasts=300.0)]).run()
    assert [when for when, _, _ in run.noted("send")] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]
    assert run.heard("a") == [("1", 303.01)]


def test_a_second_copy_is_removed_and_counted(stage: Stage) -> None:
    for transport in ("reliable", "datagram"):
        run = stage(
            {"a": stage.listens(20), "b": stage.says(*"123")}, [Duplicate("b", occurrence=2)], transport=transport
        ).run()
        assert run.texts("a") == ["1", "2", "3"]
        assert run.noted("drop") == [(1.01, "b", "a second copy")]
        assert run.world.ledger.messages == 4


def test_a_delay_holds_later_messages_back_only_on_ordered_connections(stage: Stage) -> None:
    def heard(transport: str) -> list[Any]:
        faults = [Delay("b", occurrence=1, by=1.5)]
        return stage({"a": stage.listens(20), "b": stage.says(*"123")}, faults, transport=transport).run().heard("a")

    assert heard("reliable") == [("1", 1.51), ("2", 1.51), ("3", 2.01)]
    assert heard("datagram") == [("2", 1.01), ("1", 1.51), ("3", 2.01)]


def test_jitter_reorders_only_datagrams(stage: Stage) -> None:
    texts = [str(number) for number in range(50)]

    def heard(transport: str) -> list[str]:
        run = stage(
            {"a": stage.listens(50), "b": stage.says(*texts, every=0.01)}, transport=transport, jitter=0.1
        ).run()
        return run.texts("a")

    assert heard("reliable") == texts
    assert heard("datagram") != texts
    assert sorted(heard("datagram")) == sorted(texts)


def test_several_faults_can_strike_one_message(stage: Stage) -> None:
    faults = [Duplicate("b"), Delay("b", by=2.0), Lose("b")]
    run = stage({"a": stage.listens(20), "b": stage.says("1")}, faults).run()
    assert run.heard("a") == [("1", 0.01)]  # the first copy is lost, the second is neither late nor lost
    assert [note for *_, note in run.noted("fault")] == ["duplicate StageNote", "delay StageNote", "lose StageNote"]


def test_a_message_fault_is_recorded_with_its_parties_step_and_type(stage: Stage) -> None:
    fault = Lose("c/*", peer="a", message="StageNote", occurrence=2)
    run = stage({"a": stage.listens(20), "c/0": stage.says("1"), "c/1": stage.says("2")}, [fault]).run()
    (fired,) = run.world.faults.fired
    assert (fired.fault, fired.party, fired.peer, fired.step, fired.message) == (
        fault, "c/1", "a", "demo.say", "StageNote"
    )  # fmt: skip
    (event,) = [event for event in run.events if event.kind == "fault"]
    assert (event.party, event.peer, event.type, event.step) == ("c/1", "a", "StageNote", "demo.say")


# Corrupt


def channel(lower: bool) -> PairChannel:
    return PairChannel(SharedSecret(bytes(32), bytes(16), 0, ("a", "b")), lower=lower)


@pytest.mark.parametrize("topology", ["mesh", "star"])
@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_a_flipped_bit_is_refused_by_the_record_layer(stage: Stage, topology: str, transport: str) -> None:
    fault = Corrupt("b", occurrence=2)
    programs = {"a": stage.listens(20), "b": stage.says(*"123"), "server": stage.nothing}
    run = stage(programs, [fault], topology=topology, transport=transport).run()
    assert run.texts("a") == ["1", "3"]
    (drop,) = [event for event in run.events if event.kind == "drop"]
    assert (drop.party, drop.peer, drop.type) == ("b", "a", "StageNote")
    assert drop.note == "a bit was flipped: the TLS record's tag does not fit"
    assert run.noted("fault") == [(1.0, "b", "corrupt StageNote")]


@pytest.mark.parametrize("topology", ["mesh", "star"])
def test_a_flipped_bit_of_a_sealed_message_is_refused_by_the_receiver(stage: Stage, topology: str) -> None:
    def sealed(lower: bool, program: Program) -> Program:
        async def run(me: Any) -> None:
            me.channels["b" if me.name == "a" else "a"] = channel(lower)
            await program(me)

        return run

    notes = Counter()
    for seed in range(30):
        programs = {
            "a": sealed(True, stage.listens(20)), "b": sealed(False, stage.says("one", "two", "three")),
            "server": stage.nothing,
        }  # fmt: skip
        run = stage(programs, [Corrupt("b", occurrence=2)], topology=topology, seed=seed).run()
        assert run.texts("a") == ["one", "three"]
        (note,) = [note for *_, note in run.noted("drop")]
        assert note.startswith("StageNote from b: ")
        notes[note.split(":")[1][:12]] += 1
    assert len(notes) > 1  # header and body were both changed


def test_no_flipped_bit_of_a_sealed_message_gets_in(stage: Stage) -> None:
    """For each bit of the frame, header and body: no message is received, and one drop names the true sender and
    type."""
    lower, upper = channel(True), channel(False)
    run = stage({"a": stage.listens(1), "b": stage.nothing, "c": stage.nothing})
    actor = run.actors["a"]
    actor.channels["b"] = lower
    message = run.note("hello")
    body = upper.seal(encode_body(message), associated_data("StageNote", "b", "a", 0, 0))
    packet = pack_frame(Frame("StageNote", "b", "a", 1, 0, 0, True, body), message, "", upper.overhead)
    for position in range(8 * len(packet.data)):
        actor.receive(altered(packet, flip_bit(packet.data, position)))
    actor.receive(packet)
    run.run()
    assert run.texts("a") == ["hello"]
    drops = run.noted("drop")
    assert len(drops) == 8 * len(packet.data)
    assert all(note.startswith("StageNote from b: ") for *_, note in drops)
    assert actor.incarnations == {"b": 1}
    assert (actor.round, actor.attempt) == (0, 0)


# Determinism

message_faults = st.builds(
    lambda kind, party, how: kind[0](party, **kind[1], **how),
    st.sampled_from([(Lose, {}), (Duplicate, {}), (Delay, {"by": 0.7}), (Corrupt, {})]),
    st.sampled_from(["*", "c/0", "c/*"]),
    st.sampled_from([{}, {"occurrence": 3}, {"probability": 0.4}, {"time": 1.0, "lasts": 2.0}, {"peer": "server"}]),
)


@settings(deadline=None, max_examples=60)
@given(
    faults=st.lists(message_faults, max_size=4),
    seed=st.integers(0, 3),
    topology=st.sampled_from(["mesh", "star"]),
    transport=st.sampled_from(["reliable", "datagram"]),
    loss=st.sampled_from([0.0, 0.3]),
)
def test_under_any_message_faults_each_message_is_received_at_most_once(
    stage: Stage, faults: list[MessageFault], seed: int, topology: str, transport: str, loss: float
) -> None:
    programs = {
        "server": stage.talks("c/0", "c/1"), "c/0": stage.talks("c/1", "server"), "c/1": stage.talks("c/0", "server"),
    }  # fmt: skip

    def once() -> Any:
        return stage(
            programs, faults, seed=seed, topology=topology, transport=transport, loss=loss, latency="lognormal:50ms,1",
            retransmission_timeout=0.5,
        ).run()  # fmt: skip

    run, again = once(), once()
    assert run.hashes == again.hashes
    corrupted = sum(isinstance(fired.fault, Corrupt) for fired in run.world.faults.fired)
    heard = 0
    for name in programs:
        texts = run.texts(name)
        assert len(set(texts)) == len(texts)
        heard += len(texts)
        if transport == "reliable":
            for sender in programs:
                numbers = [int(text[-1]) for text in texts if text[:-1] == sender]
                assert numbers == sorted(numbers)
    if transport == "reliable" and not any(isinstance(fault, Lose) and fault.probability for fault in faults):
        assert heard >= 36 - corrupted
