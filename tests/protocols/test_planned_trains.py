"""Chunks that are planned some at a time: the same bytes, and about the same time, as one by one."""

from collections.abc import Iterator

import pytest

from protocols.crypto.groups import find_group
from protocols.xclp import planned_hamming
from sim.compute import CostTable
from sim.conditions import Conditions
from sim.latency import parse_latency
from sim.planned import Planned, PlannedMessage, counts
from sim.planned_course import Access, Course, planned_course

POINTS = {"client/0": 150, "client/1": 140, "client/2": 150}
BITS = 40


@pytest.fixture(autouse=True)
def fresh_plans() -> Iterator[None]:
    """What is kept of pairs is that of the limits of a test."""
    planned_hamming._with_blocks.cache_clear()
    yield
    planned_hamming._with_blocks.cache_clear()


def plan(variant: str) -> list[Planned]:
    return list(getattr(planned_hamming, variant)(POINTS, 1, BITS, find_group("p256")))


def course(planned: list[Planned]) -> Course:
    conditions = Conditions("star", parse_latency("10ms"))
    access = Access(up=2e5, down=2e5, cores=4)
    return planned_course(planned, lambda name: access, conditions, CostTable.load().duration, 1)


@pytest.mark.parametrize("variant", ["iknp", "naor_pinkas"])
def test_trains_take_the_bytes_and_the_time_of_their_chunks(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Chunks of single vectors: more than 128, from which on their numbers take a byte more.
    monkeypatch.setattr("protocols.crypto.ot_pair._REQUESTS", BITS * 150)
    monkeypatch.setattr("protocols.crypto.ot_pair._CHUNK", (1 << 10, 1 << 10))
    single = plan(variant)
    planned_hamming._with_blocks.cache_clear()
    monkeypatch.setattr(planned_hamming, "_TRAINS", 120)
    monkeypatch.setattr(planned_hamming, "_FEWEST", 40)
    trains = plan(variant)
    assert len(trains) < len(single) / 3
    assert max(one.times for one in trains if isinstance(one, PlannedMessage)) > 3
    assert all(one.times == 1 for one in single if isinstance(one, PlannedMessage))
    assert counts(trains, "server") == counts(single, "server")
    together, apart = course(trains), course(single)
    assert together.seconds == pytest.approx(apart.seconds, rel=0.06)
    assert together.most_held <= 1.2 * apart.most_held
