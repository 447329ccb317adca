"""Tests of faults of links: partitions and holds, and messages in flight when a party comes back."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tacit.sim.faults import (
    Crash,
    Delay,
    Duplicate,
    Fault,
    Hold,
    Lose,
    Partition,
    Pause,
    Slow,
)

Stage = Any


# Partitions


def test_messages_stopped_by_a_partition_are_delivered_when_the_partition_heals(stage: Stage) -> None:
    fault = Partition("b", peer="a", time=1.5, lasts=2.0)
    run = stage({"a": stage.listens(), "b": stage.says(*"123456")}, [fault], retransmission_timeout=0.3).run()
    # Message 3 is sent at 2, and again 0.3, 0.9 and 2.1 s later; message 4 waits for it.
    assert run.heard("a") == [("1", 0.01), ("2", 1.01), ("3", 4.11), ("4", 4.11), ("5", 4.11), ("6", 5.01)]
    assert {why for *_, why in run.noted("lose")} == {"cut off by a partition"}
    assert run.noted("fault") == [
        (1.5, "b", "partition of b and a begins at 1.5 s"), (3.5, "b", "partition of b and a heals"),
    ]  # fmt: skip
    assert run.fired == [(fault, 1.5, "b")]


def test_datagrams_that_a_partition_cuts_off_are_lost(stage: Stage) -> None:
    fault = Partition("b", peer="a", time=1.5, lasts=2.0)
    run = stage({"a": stage.listens(20), "b": stage.says(*"123456")}, [fault], transport="datagram").run()
    assert run.texts("a") == ["1", "2", "5", "6"]


def test_a_partition_stops_messages_already_in_flight(stage: Stage) -> None:
    run = stage(
        {"a": stage.listens(9), "b": stage.says("1")}, [Partition("b", time=0.5)], latency="1s", transport="datagram"
    ).run()
    assert run.heard("a") == []
    assert run.noted("lose") == [(1.0, "b", "cut off by a partition")]


@pytest.mark.parametrize(("one_way", "to_a", "to_b"), [(False, 2, 2), (True, 2, 6)])
def test_a_partition_cuts_off_one_or_both_directions(stage: Stage, one_way: bool, to_a: int, to_b: int) -> None:
    fault = Partition("b", peer="a", time=1.5, one_way=one_way)
    run = stage({"a": stage.talks("b"), "b": stage.talks("a")}, [fault], transport="datagram").run()
    assert (len(run.heard("a")), len(run.heard("b"))) == (to_a, to_b)


def test_acknowledgements_that_a_partition_cuts_off_bring_second_copies_which_are_removed(stage: Stage) -> None:
    run = stage(
        {"a": stage.listens(20), "b": stage.says("1", "2")},
        [Partition("a", peer="b", time=0.5, one_way=True, lasts=3.0)],
    )
    assert run.run().heard("a") == [("1", 0.01), ("2", 1.01)]
    # The second note is sent at 1, and again at 2 and 4; the last copy is acknowledged.
    assert [(when, note) for when, _, note in run.noted("send") if note] == [
        (2.0, "sent again: 1"),
        (4.0, "sent again: 2"),
    ]
    assert run.noted("drop") == [(2.01, "b", "a second copy"), (4.01, "b", "a second copy")]


@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_a_partition_of_two_clients_of_a_star_keeps_their_links_to_the_server(stage: Stage, transport: str) -> None:
    programs = {
        "server": stage.talks("c/0", "c/1"), "c/0": stage.talks("c/1", "server"), "c/1": stage.talks("c/0", "server"),
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


def test_a_client_of_a_star_that_is_cut_off_receives_no_message(stage: Stage) -> None:
    programs = {
        "server": stage.talks("c/0", "c/1"),
        "c/0": stage.talks("c/1", "server"),
        "c/1": stage.talks("c/0", "server"),
    }
    run = stage(programs, [Partition("c/0", time=1.5)], topology="star", transport="datagram").run()
    assert Counter(text[:-1] for text in run.texts("c/0")) == {"server": 2, "c/1": 2}
    assert Counter(text[:-1] for text in run.texts("server")) == {"c/0": 2, "c/1": 6}


def test_each_party_of_a_pattern_is_cut_off_at_its_own_step(stage: Stage) -> None:
    fault = Partition("c/*", peer="a", at="demo.say", occurrence=2)
    run = stage(
        {"a": stage.listens(20), "c/0": stage.says(*"123", every=2), "c/1": stage.says(*"123")},
        [fault],
        transport="datagram",
    )
    assert run.run().fired == [(fault, 1.0, "c/1"), (fault, 2.0, "c/0")]
    assert run.texts("a") == ["1", "1"]


def test_retransmissions_into_a_permanent_partition_end(stage: Stage) -> None:
    """A message is sent again 15 times, at most 60 s apart. Then its connection is given up, with all later
    messages."""
    run = stage({"a": stage.listens(2000), "b": stage.says("1", "2")}, [Partition("b", time=0.0)]).run()
    assert run.heard("a") == []
    times = [when for when, _, _ in run.noted("send")]
    assert times[0] == 0.0
    assert times[-1] < 700
    assert len(times) == 1 + 15 + 1 + 14  # the second message is also sent again, until the first is given up
    assert run.world.network.in_flight == 0


def test_a_partition_that_breaks_a_connection_does_not_lose_later_messages(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        me.say("a", "1", "2")
        await asyncio.sleep(2500)
        me.say("a", "3")

    run = stage({"a": stage.listens(3000), "b": speak}, [Partition("b", time=0.0, lasts=2000.0)]).run()
    assert run.texts("a") == ["3"]


# Holds


@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_held_messages_are_released_in_order(stage: Stage, transport: str) -> None:
    fault = Hold("a", peer="b", time=0.5, lasts=3.0)
    run = stage({"a": stage.listens(20), "b": stage.says(*"123456")}, [fault], transport=transport).run()
    assert run.heard("a") == [("1", 0.01), ("2", 3.51), ("3", 3.51), ("4", 3.51), ("5", 4.01), ("6", 5.01)]
    assert run.noted("fault") == [
        (0.5, "a", "hold of a and b begins at 0.5 s"), (3.5, "a", "hold of a and b is released"),
    ]  # fmt: skip
    assert len(run.noted("send")) == 6


def test_a_one_way_hold_delays_only_one_direction(stage: Stage) -> None:
    fault = Hold("b", peer="a", time=0.5, lasts=3.0, one_way=True)
    run = stage({"a": stage.talks("b"), "b": stage.talks("a")}, [fault]).run()
    assert [when for _, when in run.heard("a")] == [0.01, 3.51, 3.51, 3.51, 4.01, 5.01]
    assert [when for _, when in run.heard("b")] == [0.01, 1.01, 2.01, 3.01, 4.01, 5.01]


def test_a_hold_between_two_clients_of_a_star_delays_only_their_messages(stage: Stage) -> None:
    programs = {"server": stage.talks("c/0", "c/1"), "c/0": stage.talks("c/1"), "c/1": stage.talks("c/0", "server")}
    run = stage(programs, [Hold("c/0", peer="c/1", time=0.5, lasts=2.0)], topology="star").run()
    assert [when for text, when in run.heard("c/0") if text[:3] == "c/1"] == [0.02, 2.51, 2.51, 3.02, 4.02, 5.02]
    assert [when for text, when in run.heard("c/0") if text[:3] != "c/1"] == [0.01, 1.01, 2.01, 3.01, 4.01, 5.01]


def test_overlapping_holds_and_partitions_delay_messages_until_the_last_ends(stage: Stage) -> None:
    faults = [Hold("a", time=0.5, lasts=3.0), Partition("a", time=1.5, lasts=3.0), Hold("b", time=3.0, lasts=4.0)]
    run = stage({"a": stage.listens(30), "b": stage.says(*"123456789")}, faults).run()
    assert run.texts("a") == list("123456789")
    assert [when for _, when in run.heard("a")][:3] == [0.01, 7.01, 7.01]


def test_a_partition_loses_messages_in_flight_also_during_a_hold(stage: Stage) -> None:
    faults = [Hold("b", time=0.2, lasts=9.0), Partition("b", time=0.5)]
    run = stage({"a": stage.listens(9), "b": stage.says("1")}, faults, latency="1s", transport="datagram").run()
    assert run.noted("lose") == [(1.0, "b", "cut off by a partition")]


# Until a fault of a link is applied, looking for such faults changes nothing


@pytest.mark.parametrize("topology", ["mesh", "star"])
@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_a_fault_that_never_strikes_changes_no_hash(stage: Stage, topology: str, transport: str) -> None:
    programs = {
        "server": stage.talks("c/0", "c/1"), "c/0": stage.talks("c/1", "server"), "c/1": stage.talks("c/0", "server"),
    }  # fmt: skip

    def hashes(*faults: Fault) -> tuple[str, str]:
        crash = Crash("c/1", time=2.05, back_after=1.0)
        return stage(
            programs, [crash, *faults], topology=topology, transport=transport, latency="lognormal:100ms,1",
            jitter=0.05, access={"up": 2000.0, "down": 1500.0},
        ).run().hashes  # fmt: skip

    assert hashes() == hashes(Partition("server", at="demo.never")) == hashes(Lose(message="Never"))


# Messages of an earlier incarnation


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
def test_no_message_of_an_earlier_incarnation_is_received(
    stage: Stage, faults: list[Fault], topology: str, victim: str
) -> None:
    """A note of the first incarnation is in flight when one of the two parties crashes and returns."""

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
        # A paused party sends nothing; its later messages are for the new incarnation.
        assert ("of life 1" in heard) == (faults == [Pause("b", time=0.0, lasts=5.0)])
        assert "late of life 1" in heard
    assert run.world.network.in_flight == 0
