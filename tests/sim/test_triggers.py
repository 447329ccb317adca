"""When the faults of a run strike."""

from sim.faults import Crash
from sim.triggers import Faults


def test_a_crash_strikes_its_party_at_its_step_and_side() -> None:
    before, after = Crash("a", before="x"), Crash("b", after="x")
    faults = Faults((before, after))
    assert faults.at_step("a", "y", "before") is None
    assert faults.at_step("c", "x", "before") is None
    assert faults.at_step("a", "x", "before") is before
    assert faults.at_step("a", "x", "after") is None
    assert faults.at_step("b", "x", "before") is None
    assert faults.at_step("b", "x", "after") is after


def test_occurrences_are_counted_by_party_and_step() -> None:
    third = Crash("a", before="x", occurrence=3)
    faults = Faults((third,))
    struck = []
    for _ in range(4):
        faults.at_step("b", "x", "before")
        faults.at_step("a", "y", "before")
        struck.append(faults.at_step("a", "x", "before"))
        faults.at_step("a", "x", "after")
    assert struck == [None, None, third, None]


def test_the_second_time_after_a_step() -> None:
    second = Crash("a", after="x", occurrence=2)
    faults = Faults((second,))
    struck = []
    for _ in range(3):
        faults.at_step("a", "x", "before")
        struck.append(faults.at_step("a", "x", "after"))
    assert struck == [None, second, None]


def test_crashes_at_a_time_are_listed_by_party() -> None:
    early, late = Crash("a", time=0.0), Crash("a", time=3.0)
    faults = Faults((late, Crash("a", before="x"), Crash("b", time=1.0), early))
    assert faults.timed("a") == [late, early]
    assert faults.timed("c") == []
    assert faults.fired == []
