"""What befalls links and messages: partitions, holds, single messages lost, doubled, late, flipped."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.crypto.agreement import SharedSecret
from protocols.crypto.sealing import PairChannel
from sim.faults import (
    Corrupt,
    Crash,
    Delay,
    Duplicate,
    Fault,
    Hold,
    Lose,
    MessageFault,
    Partition,
    Pause,
    Slow,
)
from sim.wire import Frame, associated_data, encode_body, flip_bit, pack_frame

Program = Any
Stage = Any


async def nothing(me: Any) -> None:
    pass


def listens(seconds: float = 100.0) -> Program:
    async def program(me: Any) -> None:
        await me.listen(seconds)

    return program


def says(*texts: str, to: str = "a", every: float = 1.0) -> Program:
    async def program(me: Any) -> None:
        for text in texts:
            with me.step("demo.say"):
                me.say(to, text)
            await asyncio.sleep(every)

    return program


def talks(*peers: str, count: int = 6, lasts: float = 400.0) -> Program:
    """Says who it is and the number to each of `peers` every second, and listens."""

    async def program(me: Any) -> None:
        async def speak() -> None:
            for number in range(count):
                for peer in peers:
                    me.say(peer, f"{me.name}{number}")
                await asyncio.sleep(1)

        await me.together(speak(), me.listen(lasts))

    return program


# Partitions


def test_nothing_gets_through_a_partition_and_all_that_was_sent_does_when_it_heals(stage: Stage) -> None:
    fault = Partition("b", peer="a", time=1.5, lasts=2.0)
    run = stage({"a": listens(), "b": says(*"123456")}, [fault], retransmission_timeout=0.3).run()
    # 3 is sent at 2, and again 0.3, 0.9 and 2.1 s after its first, second and third copy; 4 waits for it.
    assert run.heard("a") == [("1", 0.01), ("2", 1.01), ("3", 4.11), ("4", 4.11), ("5", 4.11), ("6", 5.01)]
    assert {why for *_, why in run.told("lose")} == {"cut off by a partition"}
    assert run.told("fault") == [
        (1.5, "b", "partition of b and a begins at 1.5 s"), (3.5, "b", "partition of b and a heals"),
    ]  # fmt: skip
    assert run.fired == [(fault, 1.5, "b")]


def test_datagrams_that_a_partition_cuts_off_are_lost(stage: Stage) -> None:
    fault = Partition("b", peer="a", time=1.5, lasts=2.0)
    run = stage({"a": listens(20), "b": says(*"123456")}, [fault], transport="datagram").run()
    assert run.texts("a") == ["1", "2", "5", "6"]


def test_what_is_on_its_way_when_a_partition_begins_is_cut_off_too(stage: Stage) -> None:
    run = stage({"a": listens(9), "b": says("1")}, [Partition("b", time=0.5)], latency="1s", transport="datagram").run()
    assert run.heard("a") == []
    assert run.told("lose") == [(1.0, "b", "cut off by a partition")]


@pytest.mark.parametrize(("one_way", "to_a", "to_b"), [(False, 2, 2), (True, 2, 6)])
def test_a_partition_one_way_and_both_ways(stage: Stage, one_way: bool, to_a: int, to_b: int) -> None:
    fault = Partition("b", peer="a", time=1.5, one_way=one_way)
    run = stage({"a": talks("b"), "b": talks("a")}, [fault], transport="datagram").run()
    assert (len(run.heard("a")), len(run.heard("b"))) == (to_a, to_b)


def test_acknowledgements_that_a_partition_cuts_off_bring_second_copies_which_are_removed(stage: Stage) -> None:
    run = stage({"a": listens(20), "b": says("1", "2")}, [Partition("a", peer="b", time=0.5, one_way=True, lasts=3.0)])
    assert run.run().heard("a") == [("1", 0.01), ("2", 1.01)]
    # The second note is sent at 1 and again at 2 and 4; the acknowledgement of that one gets through.
    assert [(when, note) for when, _, note in run.told("send") if note] == [
        (2.0, "sent again: 1"),
        (4.0, "sent again: 2"),
    ]
    assert run.told("drop") == [(2.01, "b", "a second copy"), (4.01, "b", "a second copy")]


@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_two_clients_of_a_star_are_cut_off_from_each_other_alone(stage: Stage, transport: str) -> None:
    programs = {
        "server": talks("c/0", "c/1"), "c/0": talks("c/1", "server"), "c/1": talks("c/0", "server"),
    }  # fmt: skip
    faults = [Partition("c/0", peer="c/1", time=1.5, lasts=2.0)]
    run = stage(programs, faults, topology="star", transport=transport).run()
    for name, other in (("c/0", "c/1"), ("c/1", "c/0")):
        heard = run.heard(name)
        assert [text for text, _ in heard if text.startswith("server")] == [f"server{n}" for n in range(6)]
        assert all(when < 5.1 and when % 1 < 0.1 for text, when in heard if text.startswith("server"))
        numbers = [0, 1, 2, 3, 4, 5] if transport == "reliable" else [0, 1, 4, 5]
        assert [text for text, _ in heard if text.startswith(other)] == [f"{other}{n}" for n in numbers]
        if transport == "reliable":
            assert {when for text, when in heard if text in (f"{other}2", f"{other}3")} == {3.51}
    assert len(run.heard("server")) == 12


def test_a_client_of_a_star_that_is_cut_off_hears_nobody(stage: Stage) -> None:
    programs = {"server": talks("c/0", "c/1"), "c/0": talks("c/1", "server"), "c/1": talks("c/0", "server")}
    run = stage(programs, [Partition("c/0", time=1.5)], topology="star", transport="datagram").run()
    assert Counter(text[:-1] for text in run.texts("c/0")) == {"server": 2, "c/1": 2}
    assert Counter(text[:-1] for text in run.texts("server")) == {"c/0": 2, "c/1": 6}


def test_each_party_of_a_pattern_is_cut_off_at_its_own_step(stage: Stage) -> None:
    fault = Partition("c/*", peer="a", at="demo.say", occurrence=2)
    run = stage({"a": listens(20), "c/0": says(*"123", every=2), "c/1": says(*"123")}, [fault], transport="datagram")
    assert run.run().fired == [(fault, 1.0, "c/1"), (fault, 2.0, "c/0")]
    assert run.texts("a") == ["1", "1"]


def test_a_partition_that_never_heals_does_not_go_on_for_ever(stage: Stage) -> None:
    """A message is sent again 15 times, at most 60 s apart; then its connection is given up, with what is behind it."""
    run = stage({"a": listens(2000), "b": says("1", "2")}, [Partition("b", time=0.0)]).run()
    assert run.heard("a") == []
    times = [when for when, _, _ in run.told("send")]
    assert times[0] == 0.0
    assert times[-1] < 700
    assert len(times) == 1 + 15 + 1 + 14  # the second is sent again, too, until the first is given up
    assert run.world.network.in_flight == 0


def test_a_partition_that_is_too_long_loses_the_connection_and_not_what_comes_after_it(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        me.say("a", "1", "2")
        await asyncio.sleep(2500)
        me.say("a", "3")

    run = stage({"a": listens(3000), "b": speak}, [Partition("b", time=0.0, lasts=2000.0)]).run()
    assert run.texts("a") == ["3"]


# Holds


@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_what_is_held_back_is_released_in_order(stage: Stage, transport: str) -> None:
    fault = Hold("a", peer="b", time=0.5, lasts=3.0)
    run = stage({"a": listens(20), "b": says(*"123456")}, [fault], transport=transport).run()
    assert run.heard("a") == [("1", 0.01), ("2", 3.51), ("3", 3.51), ("4", 3.51), ("5", 4.01), ("6", 5.01)]
    assert run.told("fault") == [
        (0.5, "a", "hold of a and b begins at 0.5 s"), (3.5, "a", "hold of a and b is released"),
    ]  # fmt: skip
    assert len(run.told("send")) == 6


def test_a_hold_one_way(stage: Stage) -> None:
    fault = Hold("b", peer="a", time=0.5, lasts=3.0, one_way=True)
    run = stage({"a": talks("b"), "b": talks("a")}, [fault]).run()
    assert [when for _, when in run.heard("a")] == [0.01, 3.51, 3.51, 3.51, 4.01, 5.01]
    assert [when for _, when in run.heard("b")] == [0.01, 1.01, 2.01, 3.01, 4.01, 5.01]


def test_the_relay_holds_back_what_two_clients_say_to_each_other(stage: Stage) -> None:
    programs = {"server": talks("c/0", "c/1"), "c/0": talks("c/1"), "c/1": talks("c/0", "server")}
    run = stage(programs, [Hold("c/0", peer="c/1", time=0.5, lasts=2.0)], topology="star").run()
    assert [when for text, when in run.heard("c/0") if text[:3] == "c/1"] == [0.02, 2.51, 2.51, 3.02, 4.02, 5.02]
    assert [when for text, when in run.heard("c/0") if text[:3] != "c/1"] == [0.01, 1.01, 2.01, 3.01, 4.01, 5.01]


def test_barriers_that_overlap(stage: Stage) -> None:
    faults = [Hold("a", time=0.5, lasts=3.0), Partition("a", time=1.5, lasts=3.0), Hold("b", time=3.0, lasts=4.0)]
    run = stage({"a": listens(30), "b": says(*"123456789")}, faults).run()
    assert run.texts("a") == list("123456789")
    assert [when for _, when in run.heard("a")][:3] == [0.01, 7.01, 7.01]


def test_what_is_on_its_way_is_cut_off_also_where_others_are_held_back(stage: Stage) -> None:
    faults = [Hold("b", time=0.2, lasts=9.0), Partition("b", time=0.5)]
    run = stage({"a": listens(9), "b": says("1")}, faults, latency="1s", transport="datagram").run()
    assert run.told("lose") == [(1.0, "b", "cut off by a partition")]


# Single messages


def test_a_lost_message_is_sent_again_and_those_behind_it_wait(stage: Stage) -> None:
    fault = Lose("b", message="StageNote", occurrence=2)
    run = stage({"a": listens(20), "b": says(*"1234", every=0.4)}, [fault]).run()
    assert run.heard("a") == [("1", 0.01), ("2", 1.41), ("3", 1.41), ("4", 1.41)]
    assert run.told("lose") == [(0.4, "b", "lost by a fault")]
    assert run.told("fault") == [(0.4, "b", "lose StageNote")]
    assert [(note, when) for when, _, note in run.told("send") if note] == [("sent again: 1", 1.4)]


def test_what_is_behind_a_message_that_its_sender_can_no_longer_send_again_is_dropped(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        if me.incarnation == 1:
            me.say("a", "1", "2", "3")
        await asyncio.sleep(5)
        me.say("a", f"life {me.incarnation}")

    faults = [Lose("b", occurrence=2), Crash("b", time=0.5, back_after=0.1)]
    run = stage({"a": listens(20), "b": speak}, faults).run()
    assert run.heard("a") == [("1", 0.01), ("life 2", 5.61)]
    assert run.told("drop") == [(0.5, "b", "an earlier message of its connection never came")]
    assert run.world.network.in_flight == 0


def test_nothing_is_sent_again_to_one_who_is_down(stage: Stage) -> None:
    faults = [Crash("b", time=0.0), Lose("a", occurrence=1)]
    run = stage({"a": says("1", "2", to="b"), "b": nothing}, faults).run()
    assert run.told("send", "lose", "drop") == [
        (0.0, "a", ""), (0.0, "a", "lost by a fault"), (1.0, "a", ""), (1.01, "a", "the receiver is down"),
    ]  # fmt: skip


def test_a_lost_datagram_is_lost(stage: Stage) -> None:
    run = stage({"a": listens(20), "b": says(*"1234")}, [Lose("b", occurrence=2)], transport="datagram").run()
    assert run.texts("a") == ["1", "3", "4"]


def test_the_timeout_doubles_up_to_a_minute(stage: Stage) -> None:
    run = stage({"a": listens(2000), "b": says("1")}, [Lose(time=0.0, lasts=300.0)]).run()
    assert [when for when, _, _ in run.told("send")] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]
    assert run.heard("a") == [("1", 303.01)]


def test_a_second_copy_is_removed_and_counted(stage: Stage) -> None:
    for transport in ("reliable", "datagram"):
        run = stage({"a": listens(20), "b": says(*"123")}, [Duplicate("b", occurrence=2)], transport=transport).run()
        assert run.texts("a") == ["1", "2", "3"]
        assert run.told("drop") == [(1.01, "b", "a second copy")]
        assert run.world.ledger.messages == 4


def test_what_a_delay_does_to_those_behind(stage: Stage) -> None:
    def heard(transport: str) -> list[Any]:
        faults = [Delay("b", occurrence=1, by=1.5)]
        return stage({"a": listens(20), "b": says(*"123")}, faults, transport=transport).run().heard("a")

    assert heard("reliable") == [("1", 1.51), ("2", 1.51), ("3", 2.01)]
    assert heard("datagram") == [("2", 1.01), ("1", 1.51), ("3", 2.01)]


def test_jitter_reorders_datagrams_alone(stage: Stage) -> None:
    texts = [str(number) for number in range(50)]

    def heard(transport: str) -> list[str]:
        run = stage({"a": listens(50), "b": says(*texts, every=0.01)}, transport=transport, jitter=0.1).run()
        return run.texts("a")

    assert heard("reliable") == texts
    assert heard("datagram") != texts
    assert sorted(heard("datagram")) == sorted(texts)


def test_several_faults_of_one_message(stage: Stage) -> None:
    faults = [Duplicate("b"), Delay("b", by=2.0), Lose("b")]
    run = stage({"a": listens(20), "b": says("1")}, faults).run()
    assert run.heard("a") == [("1", 0.01)]  # the first copy is lost, the second is neither late nor lost
    assert [note for *_, note in run.told("fault")] == ["duplicate StageNote", "delay StageNote", "lose StageNote"]


def test_a_message_fault_says_who_was_struck(stage: Stage) -> None:
    fault = Lose("c/*", peer="a", message="StageNote", occurrence=2)
    run = stage({"a": listens(20), "c/0": says("1"), "c/1": says("2")}, [fault]).run()
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
    programs = {"a": listens(20), "b": says(*"123"), "server": nothing}
    run = stage(programs, [fault], topology=topology, transport=transport).run()
    assert run.texts("a") == ["1", "3"]
    (drop,) = [event for event in run.events if event.kind == "drop"]
    assert (drop.party, drop.peer, drop.type) == ("b", "a", "StageNote")
    assert drop.note == "a bit was flipped: the TLS record's tag does not fit"
    assert run.told("fault") == [(1.0, "b", "corrupt StageNote")]


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
            "a": sealed(True, listens(20)), "b": sealed(False, says("one", "two", "three")), "server": nothing,
        }  # fmt: skip
        run = stage(programs, [Corrupt("b", occurrence=2)], topology=topology, seed=seed).run()
        assert run.texts("a") == ["one", "three"]
        (note,) = [note for *_, note in run.told("drop")]
        assert note.startswith("StageNote from b: ")
        notes[note.split(":")[1][:12]] += 1
    assert len(notes) > 1  # header and body were struck


def test_no_flipped_bit_of_a_sealed_message_gets_in(stage: Stage) -> None:
    """Each bit of the frame, header and body: nothing is heard, and one drop names the true sender and type."""
    lower, upper = channel(True), channel(False)
    run = stage({"a": listens(1), "b": nothing, "c": nothing})
    actor = run.actors["a"]
    actor.channels["b"] = lower
    message = run.note("hello")
    body = upper.seal(encode_body(message), associated_data("StageNote", "b", "a", 0, 0))
    packet = pack_frame(Frame("StageNote", "b", "a", 1, 0, 0, True, body), message, "", upper.overhead)
    for position in range(8 * len(packet.data)):
        actor._receive(msgspec.structs.replace(packet, data=flip_bit(packet.data, position)))
    actor._receive(packet)
    run.run()
    assert run.texts("a") == ["hello"]
    drops = run.told("drop")
    assert len(drops) == 8 * len(packet.data)
    assert all(note.startswith("StageNote from b: ") for *_, note in drops)
    assert actor.incarnations == {"b": 1}
    assert (actor.round, actor.attempt) == (0, 0)


# A network that looks out for faults of links is the same as one that does not, until one strikes


@pytest.mark.parametrize("topology", ["mesh", "star"])
@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_a_fault_that_never_strikes_changes_nothing(stage: Stage, topology: str, transport: str) -> None:
    programs = {
        "server": talks("c/0", "c/1"), "c/0": talks("c/1", "server"), "c/1": talks("c/0", "server"),
    }  # fmt: skip

    def hashes(*faults: Fault) -> tuple[str, str]:
        crash = Crash("c/1", time=2.05, back_after=1.0)
        return stage(
            programs, [crash, *faults], topology=topology, transport=transport, latency="lognormal:100ms,1",
            jitter=0.05, access={"up": 2000.0, "down": 1500.0},
        ).run().hashes  # fmt: skip

    assert hashes() == hashes(Partition("server", at="demo.never")) == hashes(Lose(message="Never"))


# Messages of an old life


@pytest.mark.parametrize("victim", ["a", "b"])
@pytest.mark.parametrize("topology", ["mesh", "star"])
@pytest.mark.parametrize(
    "faults",
    [
        [Hold("b", time=0.0, lasts=5.0)],
        [Hold("b", peer="a", time=0.0, lasts=5.0)],
        [Delay("b", by=5.0)],
        [Duplicate("b"), Delay("b", by=5.0)],
        [Partition("b", peer="a", time=0.0, lasts=5.0)],
        [Partition("b", time=0.0, lasts=5.0)],
        [Lose("b", time=0.0, lasts=3.0)],
        [Pause("b", time=0.0, lasts=5.0)],
        [Pause("a", time=0.0, lasts=5.0)],
        [Pause("server", time=0.0, lasts=5.0), Delay("b", by=1.0)],
        [Slow("server", time=0.0, factor=500.0), Delay("b", by=1.0)],
    ],
    ids=lambda faults: "+".join(f"{fault.kind} {fault.party}" for fault in faults),
)
def test_no_message_of_an_old_life_is_heard(stage: Stage, faults: list[Fault], topology: str, victim: str) -> None:
    """The first life's note is under way in some way or other when one of the two crashes and comes back."""

    async def speak(me: Any) -> None:
        me.say("a", f"of life {me.incarnation}")
        await asyncio.sleep(8)
        me.say("a", f"late of life {me.incarnation}")
        await asyncio.sleep(30)

    async def hear(me: Any) -> None:
        me.heard.append((f"life {me.incarnation}", me.now))
        await me.listen(60)

    programs = {"server": lambda me: asyncio.sleep(60), "a": hear, "b": speak}
    crash = Crash(victim, time=1.0, back_after=1.0)
    run = stage(programs, [*faults, crash], topology=topology, latency="1.5s", access={"up": 5e4, "down": 5e4}).run()
    assert run.actors[victim].incarnation == 2
    heard = run.texts("a")
    if victim == "b":
        assert "of life 1" not in heard
        assert "late of life 2" in heard
    else:
        assert heard[:2] == ["life 1", "life 2"]
        # Who stands still says nothing; what it says later is for the new life.
        assert ("of life 1" in heard) == (faults == [Pause("b", time=0.0, lasts=5.0)])
        assert "late of life 1" in heard
    assert run.world.network.in_flight == 0


# The same each time

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
def test_whatever_befalls_messages_each_is_heard_once_or_not_at_all(
    stage: Stage, faults: list[MessageFault], seed: int, topology: str, transport: str, loss: float
) -> None:
    programs = {
        "server": talks("c/0", "c/1"), "c/0": talks("c/1", "server"), "c/1": talks("c/0", "server"),
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
