"""Tests of faults of parties: crashes, leaves and pauses, with their triggers. For slowness see test_stragglers."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.sim.faults import Crash, Crashed, Fault, Hold, Leave, Partition, Pause, Slow, availability
from tacit.sim.pool import Pool

Program = Any
Stage = Any


def lasts(seconds: float) -> Program:
    async def program(me: Any) -> None:
        await asyncio.sleep(seconds)

    return program


def says(*texts: str, every: float = 1.0) -> Program:
    async def program(me: Any) -> None:
        for text in texts:
            with me.step("demo.say"):
                me.say("a", text)
            await me.work(every)

    return program


# Triggers


@pytest.mark.parametrize(
    ("fault", "heard", "when"),
    [
        (Crash("b", at="demo.say"), "", 0.0),
        (Crash("b", after="demo.say"), "1", 0.0),
        (Crash("b", at="demo.say", occurrence=3), "12", 2.0),
        (Crash("b", message="StageNote"), "", 0.0),
        (Crash("b", message="StageNote", occurrence=2), "1", 1.0),
        (Crash("b", time=1.5), "12", 1.5),
        (Crash("b", time=0.0), "", 0.0),
        (Crash("b", at="demo.say", probability=1.0), "", 0.0),
        (Crash("?", message="StageNote", occurrence=2), "1", 1.0),
    ],
)
@pytest.mark.parametrize("kind", [Crash, Leave])
def test_messages_sent_before_a_crash_or_leave_are_received(
    stage: Stage, kind: type[Fault], fault: Crash, heard: str, when: float
) -> None:
    fault = kind(fault.party, **{key: value for key, value in fault.given().items() if key != "party"})
    run = stage({"a": stage.listens(5), "b": says("1", "2", "3")}, [fault]).run()
    assert "".join(run.texts("a")) == heard
    assert run.noted("fault") == [(when, "b", f"{kind.kind} {fault.trigger}")]
    assert run.fired == [(fault, when, "b")]
    assert not run.actors["b"].alive


def test_a_message_that_triggers_a_crash_is_not_sent(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        me.reply("a", "of another type")
        with pytest.raises(Crashed):
            me.say("a", "never")
        with pytest.raises(Crashed):
            me.say("a", "from the grave")

    run = stage({"a": lasts(1), "b": speak}, [Crash("b", message="StageNote")]).run()
    assert [event.type for event in run.events if event.kind == "send"] == ["StageReply"]


def test_a_pattern_strikes_each_party_at_its_own_count(stage: Stage) -> None:
    fault = Crash("client/*", at="demo.say", occurrence=2)
    slow, fast = says("1", "2", every=3.0), says("1", "2", every=1.0)
    run = stage({"a": stage.listens(9), "client/0": slow, "client/1": fast}, [fault]).run()
    assert run.fired == [(fault, 1.0, "client/1"), (fault, 3.0, "client/0")]
    assert run.texts("a") == ["1", "1"]


@pytest.mark.parametrize(
    "fault",
    [
        Crash("c", time=1.0),
        Crash("b", at="demo.other"),
        Pause("b", message="StageReply", lasts=1.0),
        Leave("b", at="demo.say", occurrence=4),
        Slow("b", time=50.0, factor=2.0),
    ],
)
def test_a_fault_that_never_strikes_is_not_recorded_as_fired(stage: Stage, fault: Fault) -> None:
    run = stage({"a": stage.listens(5), "b": says("1", "2", "3")}, [fault]).run()
    assert run.fired == []
    assert run.texts("a") == ["1", "2", "3"]


def test_a_fault_at_time_zero_strikes_before_the_first_action_of_a_party(stage: Stage) -> None:
    run = stage({"a": stage.listens(5), "b": says("1")}, [Crash("b", time=0.0, back_after=2.0)]).run()
    assert run.heard("a") == [("1", 2.01)]
    assert run.noted("fault", "enter") == [
        (0.0, "b", "crash at 0 s"), (2.0, "b", "rejoin as incarnation 2"), (2.0, "b", ""),
    ]  # fmt: skip


def test_an_availability_trace_is_followed(stage: Stage) -> None:
    rows = [("b", 1.0, 2.5), ("b", 4.0, 5.2)]
    run = stage(
        {"a": stage.listens(9), "b": says(*"12345"), "c": stage.nothing}, availability(rows, ["a", "b", "c"])
    ).run()
    assert run.heard("a") == [("1", 1.01), ("2", 2.01), ("1", 4.01), ("2", 5.01)]
    assert [when for when, *_ in run.noted("fault")] == [0.0, 1.0, 2.5, 4.0, 5.2]
    assert {name for _, name, _ in run.noted("fault")} == {"b"}


def test_a_fault_with_a_probability_strikes_at_times_that_follow_from_the_seed(stage: Stage) -> None:
    def times(seed: int) -> list[float]:
        fault = Crash("b", message="StageNote", probability=0.3, back_after=0.5)
        run = stage({"a": stage.listens(200), "b": says(*map(str, range(20)))}, [fault], seed=seed).run()
        return [when for _, when, _ in run.fired]

    assert 3 < len(times(1)) < 200
    assert times(1) == times(1)
    assert times(1) != times(2)


# Leave


def test_queued_messages_are_sent_after_a_leave_and_lost_by_a_crash(stage: Stage) -> None:
    def heard(fault: Fault) -> int:
        async def speak(me: Any) -> None:
            me.say("a", *(str(number) * 1000 for number in range(5)))  # one second of uplink each
            await me.work(100)

        return len(stage({"a": stage.listens(20), "b": speak}, [fault], access={"up": 1100.0}).run().heard("a"))

    assert heard(Crash("b", time=2.5)) == 2
    assert heard(Leave("b", time=2.5)) == 5


def test_a_party_that_left_receives_no_message_and_never_returns(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        await me.work(3)
        me.say("b", "too late")
        await me.work(3)

    faults = [Leave("b", time=1.0), Crash("b", time=2.0, back_after=0.5), Pause("b", time=2.0, lasts=1.0)]
    run = stage({"a": speak, "b": stage.listens()}, faults).run()
    assert run.noted("fault") == [(1.0, "b", "leave at 1 s")]
    assert run.noted("drop") == [(3.01, "a", "the receiver is down")]


def test_a_crashed_party_that_leaves_does_not_return(stage: Stage) -> None:
    faults = [Crash("b", time=1.0, back_after=5.0), Leave("b", time=3.0), Leave("b", time=4.0)]
    run = stage({"a": lasts(9), "b": says(*"123")}, faults).run()
    assert run.noted("fault") == [(1.0, "b", "crash at 1 s"), (3.0, "b", "leave at 3 s")]
    assert [(fault, when) for fault, when, _ in run.fired] == [(faults[0], 1.0), (faults[1], 3.0)]
    assert not run.actors["b"].alive


# Pause


def test_a_paused_party_handles_waiting_messages_in_order_when_resumed(stage: Stage) -> None:
    run = stage({"a": stage.listens(20), "b": says(*"123456")}, [Pause("a", time=0.5, lasts=3.0)]).run()
    assert run.heard("a") == [
        ("1", 0.01), ("2", 3.5), ("3", 3.5), ("4", 3.5), ("5", 4.01), ("6", 5.01)
    ]  # fmt: skip
    assert run.noted("fault") == [(0.5, "a", "pause at 0.5 s"), (3.5, "a", "resume")]


def test_messages_of_a_paused_party_are_sent_when_the_pause_ends(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        with me.step("demo.say"):
            me.say("a", "1", "2")
        await me.work(1)
        me.say("a", "3")

    run = stage({"a": stage.listens(20), "b": speak}, [Pause("b", at="demo.say", lasts=3.0)]).run()
    assert run.heard("a") == [("1", 3.01), ("2", 3.01), ("3", 4.01)]


def test_the_message_that_triggers_a_pause_is_sent_after_the_pause(stage: Stage) -> None:
    run = stage(
        {"a": stage.listens(20), "b": says("1", "2")}, [Pause("b", message="StageNote", occurrence=2, lasts=3.0)]
    )
    assert run.run().heard("a") == [("1", 0.01), ("2", 4.01)]


def test_computing_stops_during_a_pause(stage: Stage) -> None:
    async def compute(me: Any) -> None:
        await me.together(me.work(2), me.work(1))  # one core runs them one after the other
        me.heard.append(me.now)

    run = stage({"a": lasts(20), "b": compute}, [Pause("b", time=1.5, lasts=3.0), Pause("b", time=5.25, lasts=1.0)])
    assert run.run().heard("b") == [7.0]


def test_a_deadline_that_passes_in_a_pause_ends_the_wait_after_received_messages(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await me.hear("b", 2.0)
        await me.hear("b", 2.0)

    run = stage({"a": wait, "b": says("late but there", every=50.0)}, [Pause("a", time=0.005, lasts=5.0)]).run()
    assert run.heard("a") == [("late but there", 5.005), (None, 7.005)]


def test_a_wait_that_begins_in_a_pause_is_timed_from_the_end_of_the_pause(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        with me.step("demo.wait"):
            await me.hear("b", 2.0)

    run = stage({"a": wait, "b": stage.nothing}, [Pause("a", at="demo.wait", lasts=5.0)]).run()
    assert run.heard("a") == [(None, 7.0)]


def test_a_pause_within_a_wait_does_not_extend_the_wait(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        await me.hear("b", 2.0)

    assert stage({"a": wait, "b": stage.nothing}, [Pause("a", time=0.5, lasts=1.0)]).run().heard("a") == [(None, 2.0)]


def test_overlapping_pauses_are_joined(stage: Stage) -> None:
    faults = [Pause("a", time=1.0, lasts=4.0), Pause("a", time=2.0, lasts=1.0), Pause("a", time=4.5, lasts=2.0)]
    run = stage({"a": stage.listens(20), "b": says(*"12345678")}, faults).run()
    assert [when for _, when in run.heard("a")] == [0.01, *[6.5] * 6, 7.01]
    assert [note for *_, note in run.noted("fault")].count("resume") == 1


def test_a_paused_party_that_crashes_drops_its_messages_and_returns_unpaused(stage: Stage) -> None:
    faults = [Pause("b", time=1.0, lasts=5.0), Crash("b", time=2.0, back_after=1.0)]

    async def live(me: Any) -> None:
        me.say("a", f"life {me.incarnation}")
        await me.listen(3.0)

    async def speak(me: Any) -> None:
        await me.work(1.5)
        me.say("b", "to the paused")
        await me.work(2)
        me.say("b", "to the new")
        await me.listen(10)

    run = stage({"a": speak, "b": live}, faults).run()
    assert run.heard("b") == [("to the new", 3.51)]
    assert run.noted("drop") == [(2.0, "a", "the receiver is down")]
    assert run.noted("fault") == [
        (1.0, "b", "pause at 1 s"), (2.0, "b", "crash at 2 s"), (3.0, "b", "rejoin as incarnation 2"),
    ]  # fmt: skip
    assert not run.actors["b"].paused


def test_a_paused_party_that_crashes_sends_none_of_its_waiting_messages(stage: Stage) -> None:
    faults = [Pause("b", at="demo.say", lasts=5.0), Crash("b", time=2.0)]
    run = stage({"a": stage.listens(20), "b": says("1", "2")}, faults).run()
    assert run.heard("a") == []
    assert not [event for event in run.events if event.kind == "send"]


def test_a_paused_relay_forwards_messages_when_resumed(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        for text in "12":
            me.say("a", text)
            await me.work(1)

    programs = {"a": stage.listens(20), "b": speak, "server": lasts(20)}
    run = stage(programs, [Pause("server", time=0.0, lasts=5.0)], topology="star").run()
    assert run.heard("a") == [("1", 5.01), ("2", 5.01)]


# All faults together, and determinism

moments = st.floats(0, 4).map(lambda value: round(value, 3))
triggers = st.one_of(
    moments.map(lambda when: {"time": when}),
    st.sampled_from([{"at": "demo.say"}, {"after": "demo.say"}, {"message": "StageNote"}]).flatmap(
        lambda trigger: st.sampled_from([{}, {"occurrence": 2}, {"probability": 0.4}]).map(lambda more: trigger | more)
    ),
)
needed = st.sampled_from(
    [
        (Crash, {}), (Crash, {"back_after": 0.7}), (Leave, {}), (Pause, {"lasts": 0.8}), (Slow, {"factor": 2.5}),
        (Slow, {"factor": 3.0, "lasts": 1.0}), (Partition, {"lasts": 1.5}), (Partition, {"peer": "a", "one_way": True}),
        (Hold, {"lasts": 1.0, "peer": "client/*"}),
    ]
)  # fmt: skip
faults_of_parties = st.builds(
    lambda kind, party, trigger: kind[0](party, **kind[1], **trigger),
    needed,
    st.sampled_from(["server", "client/0", "client/*", "*"]),
    triggers,
)


def play_messages(stage: Stage, faults: list[Fault], **options: Any) -> Any:
    """Three parties that compute, send each other messages and read, for some time."""
    names = ("server", "client/0", "client/1")

    async def live(me: Any) -> None:
        async def write() -> None:
            for number in range(3):
                with me.step("demo.say"):
                    await me.work(0.5)
                    for name in names:
                        if name != me.name:
                            me.say(name, f"{me.name} {me.incarnation} {number} " + "x" * 200)

        await me.together(write(), me.listen(8.0))

    return stage(dict.fromkeys(names, live), faults, access={"up": 3000.0, "down": 3000.0}, **options).run()


@settings(deadline=None, max_examples=60)
@given(
    faults=st.lists(faults_of_parties, max_size=5),
    seed=st.integers(0, 3),
    conditions=st.sampled_from(
        [{}, {"topology": "star"}, {"topology": "star", "loss": 0.2}, {"transport": "datagram", "loss": 0.2}]
    ),
)
@example([Hold("client/0", time=0.2, lasts=1.2), Pause("server", time=0.8, lasts=1.0)], 0, {"topology": "star"})
def test_under_any_party_faults_a_run_ends_accounts_for_all_and_is_repeatable(
    stage: Stage, faults: list[Fault], seed: int, conditions: dict[str, Any]
) -> None:
    first, second = (play_messages(stage, faults, seed=seed, **conditions) for _ in range(2))
    assert first.hashes == second.hashes
    assert first.fired == second.fired
    for name, actor in first.actors.items():
        heard = [text.split()[:3] for text in first.texts(name)]
        assert len({tuple(words) for words in heard}) == len(heard) or actor.incarnation > 1
        if conditions.get("transport") != "datagram":  # messages of one incarnation are received in order
            for life in {(words[0], words[1]) for words in heard}:
                numbers = [int(words[2]) for words in heard if (words[0], words[1]) == life]
                assert numbers == sorted(numbers)


def test_a_pool_of_workers_changes_no_hash(stage: Stage) -> None:
    faults = [
        Pause("client/0", time=0.3, lasts=0.9), Slow("server", time=0.2, factor=2.0, lasts=1.0),
        Crash("client/1", at="demo.say", occurrence=2, back_after=0.6), Partition("client/0", time=0.1, lasts=1.0),
    ]  # fmt: skip
    pool = Pool(2)
    try:
        pooled = play_messages(stage, faults, engine=pool, loss=0.2)
    finally:
        pool.close()
    assert pooled.hashes == play_messages(stage, faults, loss=0.2).hashes
