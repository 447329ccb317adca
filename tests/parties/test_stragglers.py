"""A slow party: the durations that grow, for how long, and combinations with other faults."""

import asyncio
from typing import Any

import pytest

from tacit.sim.faults import Crash, Fault, Pause, Slow

Stage = Any


async def sleep_for_long(me: Any) -> None:
    await asyncio.sleep(200)


def test_a_straggler_computes_and_sends_slowly(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        await me.work(2)
        me.say("a", "x" * 1000)

    def arrival(*faults: Fault) -> float:
        run = stage({"a": stage.listens(100), "b": speak}, faults, latency="0ms", access={"up": 1000.0}).run()
        return next(when for _, when in run.heard("a"))

    alone = arrival()
    assert arrival(Slow("b", time=0.0, factor=3.0)) == pytest.approx(3 * alone)
    assert arrival(Slow("b", time=0.0, factor=3.0), Slow("b", time=0.0, factor=2.0)) == pytest.approx(6 * alone)
    assert arrival(Slow("b", time=1.0, factor=3.0)) == pytest.approx(1 + 3 * (alone - 1))
    assert arrival(Slow("b", time=1.0, factor=4.0, lasts=2.0)) == pytest.approx(alone + 1.5)
    assert arrival(Slow("b", time=2.5, factor=2.0, lasts=0.5)) == pytest.approx(alone + 0.25)


def test_a_straggler_receives_slowly_and_the_trace_has_the_end_of_its_slowness(stage: Stage) -> None:
    async def speak(me: Any) -> None:
        me.say("a", "x" * 1000)

    def run(*faults: Fault) -> Any:
        return stage({"a": stage.listens(100), "b": speak}, faults, latency="0ms", access={"down": 1000.0}).run()

    alone = run().heard("a")[0][1]
    slow = run(Slow("a", time=0.0, factor=2.5, lasts=50.0))
    assert slow.heard("a")[0][1] == pytest.approx(2.5 * alone)
    assert slow.noted("fault") == [(0.0, "a", "slow at 0 s: 2.5 times as long"), (50.0, "a", "slow ends")]


def test_a_straggler_struck_again_is_slow_for_longer_but_not_slower(stage: Stage) -> None:
    async def compute(me: Any) -> None:
        for number in range(4):
            begun = me.now
            if number < 3:
                with me.step("demo.say"):
                    pass
            await me.work(1)
            me.heard.append(round(me.now - begun, 6))

    def seconds(**how: float) -> list[float]:
        fault = Slow("b", at="demo.say", probability=1.0, factor=3.0, **how)
        run = stage({"a": sleep_for_long, "b": compute}, [fault]).run()
        assert [when for _, when, _ in run.fired] == [0.0, 3.0, 6.0]
        return run.heard("b")

    assert seconds() == [3.0, 3.0, 3.0, 3.0]
    # From 6 s, the time of the last fault, to 10 s.
    assert seconds(lasts=4.0) == pytest.approx([3.0, 3.0, 3.0, 1 + 2 / 3], abs=1e-5)


def test_a_straggler_is_still_slow_after_its_return(stage: Stage) -> None:
    async def compute(me: Any) -> None:
        begun = me.now
        await me.work(1)
        me.heard.append(round(me.now - begun, 6))

    faults = [Slow("b", time=0.0, factor=3.0), Crash("b", time=1.0, back_after=1.0)]
    assert stage({"a": sleep_for_long, "b": compute}, faults).run().heard("b") == [3.0]


def test_a_party_slowed_during_a_pause_continues_slowly(stage: Stage) -> None:
    async def compute(me: Any) -> None:
        await me.work(2)
        me.heard.append(me.now)

    faults = [Pause("b", time=1.0, lasts=4.0), Slow("b", time=2.0, factor=2.0)]
    assert stage({"a": sleep_for_long, "b": compute}, faults).run().heard("b") == [7.0]
