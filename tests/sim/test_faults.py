"""Faults: the valid forms, and the messages for invalid ones."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.faults import (
    Corrupt,
    Crash,
    Crashed,
    Delay,
    Duplicate,
    Fault,
    Hold,
    Leave,
    Lose,
    Partition,
    Pause,
    Slow,
    availability,
)
from tacit.sim.triggers import Faults
from tacit.sim.uptimes import availability_file

NEEDED: dict[type[Fault], dict[str, Any]] = {
    Crash: {},
    Leave: {},
    Pause: {"lasts": 1.0},
    Slow: {"factor": 2.0},
    Partition: {},
    Hold: {"lasts": 1.0},
}
OF_MESSAGES: dict[type[Fault], dict[str, Any]] = {Lose: {}, Duplicate: {}, Delay: {"by": 1.0}, Corrupt: {}}


def test_a_crashed_party_cannot_be_caught_as_an_error() -> None:
    assert not issubclass(Crashed, Exception)


@pytest.mark.parametrize("make", NEEDED)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of at, before, after, time, message, share, count says when; given: none"),
        ({"before": "a", "after": "b"}, "exactly one .* given: before and after"),
        ({"at": "a", "before": "a"}, "exactly one"),
        ({"message": "Join", "time": 0.0}, "exactly one .* given: time and message"),
        ({"before": "a", "occurrence": 0}, "occurrence: 0 does not fit: .* >= 1"),
        ({"message": "a", "probability": 0.0}, "probability: 0.0 does not fit: "),
        ({"after": "a", "probability": 1.1}, "probability: 1.1 does not fit: .* <= 1"),
        ({"after": "a", "probability": 0.5, "occurrence": 2}, "occurrence and probability are both given"),
        ({"time": 1.0, "occurrence": 1}, "occurrence: does not go with time"),
        ({"time": 1.0, "probability": 0.5}, "probability: does not go with time"),
        ({"time": 1.0, "round": 2}, "round: does not go with time"),
        ({"after": "a", "round": 0}, "round: 0 does not fit: .* >= 1"),
        ({"time": -1.0}, "time: -1.0 is not a duration"),
        ({"time": float("nan")}, "time: nan is not a duration"),
        ({"time": float("inf")}, "time: inf is not a duration"),
    ],
)
def test_impossible_triggers_are_refused(make: type[Fault], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{make.kind} of client/0: .*{message}"):
        make("client/0", **NEEDED[make], **arguments)


@pytest.mark.parametrize("make", OF_MESSAGES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"occurrence": 0}, "occurrence: 0 does not fit: .* >= 1"),
        ({"round": 0}, "round: 0 does not fit: .* >= 1"),
        ({"probability": 2.0}, "probability: 2.0 does not fit"),
        ({"probability": 0.5, "occurrence": 2}, "occurrence and probability are both given"),
        ({"time": -1.0}, "time: -1.0 is not a duration"),
        ({"time": 1.0, "lasts": 0.0}, "lasts: 0.0 is too short; allowed: more than 0 s"),
        ({"lasts": 2.0}, "lasts: needs time, from which on it lasts"),
        ({"peer": ""}, "peer: is needed"),
        ({"party": ""}, "party: is needed"),
    ],
)
def test_impossible_faults_of_messages_are_refused(make: type[Fault], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**OF_MESSAGES[make], **arguments)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Crash, {"back_after": -2.0}, "back_after: -2.0 is not a duration"),
        (Pause, {"lasts": 0.0}, "lasts: 0.0 is too short; allowed: more than 0 s"),
        (Pause, {"lasts": float("inf")}, "lasts: inf is not a duration"),
        (Slow, {"factor": 0.5}, "factor: 0.5 does not fit: .* >= 1"),
        (Slow, {"factor": float("nan")}, "factor: nan does not fit"),
        (Slow, {"factor": 2.0, "lasts": -1.0}, "lasts: -1.0 is not a duration"),
        (Partition, {"lasts": 0.0}, "lasts: 0.0 is too short; allowed: more than 0 s"),
        (Partition, {"peer": ""}, "peer: is needed"),
        (Hold, {"lasts": -1.0}, "lasts: -1.0 is not a duration"),
    ],
)
def test_impossible_faults_are_refused(make: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("client/0", time=0.0, **arguments)


def test_a_delay_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"by: 0\.0 is too short"):
        Delay(by=0.0)


def test_a_fault_at_a_step_strikes_before_the_step() -> None:
    assert Crash("a", at="x").start == Crash("a", before="x").start == "x"
    assert Crash("a", at="x").trigger == Crash("a", before="x").trigger


def test_a_pattern_applies_to_the_names_that_match() -> None:
    fault = Leave("client/*", time=1.0)
    assert [name for name in ("server", "client/0", "client/11") if fault.applies_to(name)] == ["client/0", "client/11"]


@pytest.mark.parametrize(
    ("trigger", "words"),
    [({"at": "x"}, "before x"), ({"after": "x"}, "after x"), ({"message": "M"}, "at M"), ({"time": 0.25}, "at 0.25 s")],
)
def test_the_trigger_of_a_fault_is_described_in_words(trigger: dict[str, Any], words: str) -> None:
    assert Crash("a", **trigger).trigger == words


# Availability


def is_up_at(crashes: tuple[Crash, ...], party: str, moment: float) -> bool:
    return not any(
        crash.party == party
        and crash.time is not None
        and crash.time <= moment < (float("inf") if crash.back_after is None else crash.time + crash.back_after)
        for crash in crashes
    )


@given(
    st.lists(st.integers(0, 50), max_size=8, unique=True).map(sorted),
    st.booleans(),
)
def test_a_party_is_up_exactly_in_its_intervals(times: list[int], for_ever: bool) -> None:
    ends = [float(when) for when in times[: len(times) // 2 * 2]]
    rows = [("a", up, down) for up, down in zip(ends[::2], ends[1::2], strict=True)]
    if rows and for_ever:
        rows[-1] = (*rows[-1][:2], float("inf"))
    crashes = availability(rows, ["a", "b"])
    for half_seconds in range(120):
        moment = half_seconds / 2
        expected = not rows or any(up <= moment < down for _, up, down in rows)
        assert is_up_at(crashes, "a", moment) == expected
        assert is_up_at(crashes, "b", moment)


def test_adjacent_intervals_of_availability_are_merged() -> None:
    assert availability([("a", 0.0, 5.0), ("a", 5.0, 9.0)], ["a"]) == (Crash("a", time=9.0),)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("c", 0.0, 1.0)], "names 'c'; there are a, b"),
        ([("a", 2.0, 1.0)], "a cannot be up from 2 s to 1 s"),
        ([("c*", 0.0, 1.0)], r"names 'c\*'; there are a, b"),
        ([("a", 0.0, 1.0), ("[a-z]", 2.0, 3.0)], r"names a as 'a' and as '\[a-z\]'"),
        ([("a", -1.0, 1.0)], "a cannot be up from -1 s"),
        ([("a", 0.0, 3.0), ("a", 2.0, 4.0)], "a comes up at 2 s, but it is up until 3 s already"),
    ],
)
def test_impossible_availability_is_refused(rows: list[tuple[str, float, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        availability(rows, ["a", "b"])


def test_a_pattern_in_an_availability_trace_applies_to_all_matching_parties() -> None:
    crashes = availability([("client/*5", 0.0, 5.0), ("client/*5", 8.0, 9.0), ("client/7", 1.0, 3.0)], NAMES)
    faults = Faults(crashes)
    of_pattern = (Crash("client/*5", time=5.0, back_after=3.0), Crash("client/*5", time=9.0))
    assert tuple(faults.timed("client/5")) == tuple(faults.timed("client/15")) == of_pattern
    assert [fault.time for fault in faults.timed("client/7")] == [0.0, 3.0]
    assert not faults.timed("client/6")


def test_faults_at_a_time_come_in_their_order_whether_by_name_or_by_pattern() -> None:
    crashes = [Crash("client/*", time=3.0), Crash("client/5", time=1.0), Crash("*5", time=2.0), Crash("server", time=1)]
    assert Faults(crashes).timed("client/5") == crashes[:3]
    assert Faults(crashes).timed("client/6") == crashes[:1]


NAMES = [f"client/{number}" for number in range(20)]


def test_a_file_of_availability_is_read(tmp_path: Path) -> None:
    path = tmp_path / "up.csv"
    path.write_text("party,up,down\nclient/0,0,5\n\nclient/1,2min, 3min\nclient/0,7.5,\nclient/1,300,inf\n")
    assert availability_file(path) == availability_file(str(path))
    assert availability_file(path) == [
        ("client/0", 0.0, 5.0), ("client/1", 120.0, 180.0),
        ("client/0", 7.5, float("inf")), ("client/1", 300.0, float("inf")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1: the header must be party,up,down, not ''"),
        ("party,down,up\n", "line 1: the header must be party,up,down, not 'party,down,up'"),
        ("party,up,down\n\n", "no line follows the header"),
        ("party,up,down\na,1\n", "line 2: 2 cells; party,up,down are needed"),
        ("party,up,down\na,0,1\na,x,3\n", 'line 3, column up: "x" is not a duration'),
        ("party,up,down\na,0,-1\n", 'line 2, column down: "-1" is not a duration'),
        ("party,up,down\n,0,1\n", "line 2, column party: a name is needed"),
        ("party,up,down\na,0,2\na,1,3\n", "line 3: a comes up at 1 s, but it is up until 2 s already"),
        ("party,up,down\na,3,3\n", "line 2: a cannot be up from 3 s to 3 s"),
    ],
)
def test_a_bad_availability_file_is_refused_by_file_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "up.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="^" + str(path) + ": " + message):
        availability_file(path)


def test_a_missing_availability_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.csv: No such file"):
        availability_file(tmp_path / "none.csv")
