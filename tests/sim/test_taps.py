"""Taps: jobs are reported when they are submitted and when their results are used."""

import operator
from typing import Any

import pytest

from tacit.sim.compute import Free, Machine
from tacit.sim.taps import Taps
from tacit.sim.world import World


def compute(world: World, function: Any, *arguments: Any) -> Any:
    machine = Machine(world.loop.env)
    try:
        return world.loop.run(world.computing.run(machine, "a", "step", {}, function, *arguments))
    finally:
        world.loop.finish()


def test_taps_get_each_job_at_its_begin_and_at_its_end() -> None:
    seen: list[tuple[Any, ...]] = []
    world = World(cost=Free(), taps=Taps(begun=[lambda *job: seen.append(("begun", *job))]))
    world.taps.computed.append(lambda *job: seen.append(("computed", *job)))
    assert compute(world, operator.add, 2, 3) == 5
    assert seen == [("begun", "a", "step", {}, operator.add, (2, 3)), ("computed", "a", "step", (2, 3), 5)]


def test_taps_get_a_failing_job_only_at_its_begin() -> None:
    seen: list[tuple[Any, ...]] = []
    world = World(cost=Free())
    world.taps.begun.append(lambda *job: seen.append(job))
    world.taps.computed.append(lambda *job: seen.append(job))
    with pytest.raises(ZeroDivisionError):
        compute(world, operator.floordiv, 1, 0)
    assert seen == [("a", "step", {}, operator.floordiv, (1, 0))]


def test_every_world_has_taps_of_its_own() -> None:
    one, other = World(), World()
    one.taps.sent.append(print)
    assert not other.taps.sent
