"""The times at which the faults of a run are applied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.faults import Corrupt, Crash, Fault, Hold, Leave, Lose, Partition, Pause
from tacit.sim.triggers import Faults, Population


def test_a_fault_strikes_its_party_at_its_step_and_side() -> None:
    before, after = Crash("a", before="x"), Crash("b", after="x")
    faults = Faults((before, after))
    assert faults.at_step("a", "y", "before", 1) == []
    assert faults.at_step("c", "x", "before", 1) == []
    assert faults.at_step("a", "x", "before", 1) == [before]
    assert faults.at_step("a", "x", "after", 1) == []
    assert faults.at_step("b", "x", "before", 1) == []
    assert faults.at_step("b", "x", "after", 1) == [after]


def test_occurrences_are_counted_by_party_and_step() -> None:
    third = Crash("a", before="x", occurrence=3)
    faults = Faults((third,))
    struck = []
    for _ in range(4):
        faults.at_step("b", "x", "before", 1)
        faults.at_step("a", "y", "before", 1)
        struck.append(faults.at_step("a", "x", "before", 1))
        faults.at_step("a", "x", "after", 1)
    assert struck == [[], [], [third], []]


def test_a_fault_after_a_step_strikes_at_the_second_occurrence() -> None:
    second = Crash("a", after="x", occurrence=2)
    faults = Faults((second,))
    struck = []
    for _ in range(3):
        faults.at_step("a", "x", "before", 1)
        struck.append(faults.at_step("a", "x", "after", 1))
    assert struck == [[], [second], []]


def test_a_fault_of_a_round_counts_occurrences_within_that_round() -> None:
    third = Crash("a", before="x", round=3)
    second_of_third, after = Pause("a", at="x", round=3, occurrence=2, lasts=1.0), Leave("a", after="x", round=3)
    message, each = Crash("a", message="Join", round=2), Lose(message="Join", round=2, time=0.0)
    faults = Faults((third, second_of_third, after, message, each))
    struck = [
        (faults.at_step("a", "x", "before", number), faults.at_step("a", "x", "after", number + late))
        for number, late in ((0, 0), (1, 0), (2, 0), (3, 1), (3, 0), (4, 0))
    ]
    assert struck == [([], [])] * 3 + [([third], [after]), ([second_of_third], []), ([], [])]
    assert [faults.at_send("a", "Join", number) for number in (0, 1, 2, 2, 3)] == [[], [], [message], [], []]
    sent = [faults.of_message("a", "b", "Join", 0.5, number, again=False) for number in (0, 1, 2, 2, 3)]
    assert sent == [[], [], [each], [each], []]
    first = Faults((Crash("a", at="x", round=1),))  # enrolment, before the first round, belongs to it
    assert [bool(first.at_step("a", "x", "before", number)) for number in (0, 1)] == [True, False]


def test_a_resumed_run_continues_counting_occurrences_in_its_round() -> None:
    second = Crash("a", at="x", round=2, occurrence=2)
    broken, again = Faults((second,)), Faults((second,))
    for number in (1, 1, 2):
        assert not broken.at_step("a", "x", "before", number)
    again.restore(broken.state())
    assert again.at_step("a", "x", "before", 2) == [second]


def test_each_party_that_a_pattern_means_counts_for_itself() -> None:
    second = Pause("client/*", at="x", occurrence=2, lasts=1.0)
    faults = Faults((second,))
    names = ["client/0", "client/1", "server", "client/1", "client/0", "server", "client/0"]
    struck = [bool(faults.at_step(name, "x", "before", 1)) for name in names]
    assert struck == [False, False, False, True, True, False, False]


def test_messages_are_counted_by_sender_and_type() -> None:
    second = Leave("client/*", message="Join", occurrence=2)
    faults = Faults((second,))
    sent = [("client/0", "Join"), ("client/1", "Join"), ("client/0", "Seed"), ("server", "Join"), ("client/0", "Join")]
    assert [faults.at_send(*each, 1) for each in sent] == [[], [], [], [], [second]]


def test_several_faults_of_one_moment_come_in_the_order_of_the_list() -> None:
    pause, crash = Pause("*", at="x", lasts=1.0), Crash("a", at="x")
    assert Faults((pause, crash)).at_step("a", "x", "before", 1) == [pause, crash]
    assert Faults((crash, pause)).at_step("a", "x", "before", 1) == [crash, pause]


def test_faults_at_a_time_are_listed_by_party() -> None:
    early, late, all_clients = Crash("a", time=0.0), Crash("a", time=3.0), Leave("?", time=1.0)
    faults = Faults((late, Crash("a", before="x"), Crash("b", time=1.0), all_clients, early))
    assert faults.timed("a") == [late, all_clients, early]
    assert faults.timed("server") == []
    assert faults.fired == []


@pytest.mark.parametrize("trigger", [{"at": "x"}, {"after": "x"}, {"message": "x"}])
def test_a_fault_strikes_with_the_frequency_of_its_probability(trigger: dict[str, Any]) -> None:
    def struck(seed: int, party: str, count: int) -> list[bool]:
        faults = Faults([Crash("*", probability=0.3, **trigger)], seed)
        times = []
        for _ in range(count):
            hits = faults.at_step(party, "x", "before", 1) + faults.at_step(party, "x", "after", 1)
            times.append(bool(hits + faults.at_send(party, "x", 1)))
        return times

    times = struck(1, "a", 2000)
    assert sum(times) == pytest.approx(600, abs=4 * 20.5)
    assert struck(1, "a", 2000) == times
    assert struck(2, "a", 2000) != times
    assert struck(1, "b", 2000) != times


def of(faults: Faults, *messages: tuple[str, str, str, float], again: bool = False) -> list[list[Fault]]:
    return [list(faults.of_message(*message, 1, again=again)) for message in messages]


def test_the_first_message_that_matches_is_struck() -> None:
    lose = Lose("client/*", peer="server", message="Join")
    messages = [
        ("server", "client/0", "Join", 0.0), ("client/0", "client/1", "Join", 0.0),
        ("client/0", "server", "Seed", 1.0), ("client/1", "server", "Join", 2.0), ("client/1", "server", "Join", 3.0),
    ]  # fmt: skip
    assert of(Faults([lose]), *messages) == [[], [], [], [lose], []]


def test_the_third_message_over_all_senders_is_struck() -> None:
    corrupt = Corrupt(occurrence=3)
    assert of(Faults([corrupt]), *((name, "z", "M", 0.0) for name in "abcd")) == [[], [], [corrupt], []]


def test_a_fault_of_a_time_strikes_all_messages_in_that_time() -> None:
    lose, later = Lose(time=1.0, lasts=2.0), Lose(time=2.0)
    struck = of(Faults([lose, later]), *(("a", "b", "M", float(now)) for now in range(5)))
    assert struck == [[], [lose], [lose, later], [later], [later]]


def test_an_occurrence_is_counted_within_the_time_of_its_fault() -> None:
    lose = Lose(occurrence=2, time=1.0)
    struck = of(Faults([lose]), *(("a", "b", "M", float(now)) for now in range(5)))
    assert struck == [[], [], [lose], [], []]


def test_a_message_fault_strikes_with_the_frequency_of_its_probability() -> None:
    faults = Faults([Lose(probability=0.25)], 3)
    share = sum(map(bool, of(faults, *(("a", "b", "M", 0.0) for _ in range(2000)))))
    assert share == pytest.approx(500, abs=4 * 19.4)


def test_retransmissions_are_struck_only_by_losses_without_occurrence() -> None:
    always, window, third = Lose(probability=1.0), Lose(time=0.0), Lose(occurrence=1)
    faults = Faults([always, window, third, Lose(), Corrupt(time=0.0)])
    assert of(faults, ("a", "b", "M", 1.0), again=True) == [[always, window]]


@pytest.mark.parametrize(
    ("fault", "of_links"),
    [
        (Crash("a", time=0.0), False),
        (Pause("a", time=0.0, lasts=1.0), False),
        (Partition("a", time=0.0), True),
        (Hold("a", time=0.0, lasts=1.0), True),
        (Corrupt(), True),
    ],
)
def test_faults_of_links_are_told_from_other_faults(fault: Fault, of_links: bool) -> None:
    assert Faults([fault]).of_links is of_links


# --- faults that are drawn in each round

NAMES = [f"client/{number}" for number in range(8)]
POPULATION = Population(NAMES, ("x", "y", "z"))


def struck_in(faults: Faults, round_number: int, steps: str = "xyz") -> dict[str, str]:
    """The step before which each party is struck in a round in which all take these steps in order."""
    found: dict[str, str] = {}
    for step in steps:
        for name in NAMES:
            if faults.at_step(name, step, "before", round_number):
                assert name not in found
                found[name] = step
    return found


@given(st.integers(1, 8), st.integers(0, 1000))
def test_a_count_of_parties_is_drawn_anew_in_each_round(count: int, seed: int) -> None:
    faults = Faults([Crash("client/*", count=count)], seed, POPULATION)
    rounds = [struck_in(faults, number) for number in range(1, 7)]
    assert [len(one) for one in rounds] == [count] * 6
    assert rounds == [struck_in(Faults([Crash("client/*", count=count)], seed, POPULATION), n) for n in range(1, 7)]
    assert count == 8 or len({tuple(one) for one in rounds}) > 1


def test_a_share_of_parties_is_struck_before_each_of_the_steps_equally_often() -> None:
    faults = Faults([Crash("client/*", share=0.3)], 5, POPULATION)
    steps = [step for number in range(1, 501) for step in struck_in(faults, number).values()]
    assert abs(len(steps) - 0.3 * 4000) <= 3 * (4000 * 0.3 * 0.7) ** 0.5
    assert all(abs(steps.count(step) - len(steps) / 3) <= 4 * (len(steps) * 2 / 9) ** 0.5 for step in "xyz")


def test_a_party_that_does_not_take_the_drawn_step_is_struck_before_the_next_that_it_takes() -> None:
    faults = Faults([Crash("client/*", share=1.0, step=("x", "y", "z"))], 5, POPULATION)
    assert set(struck_in(faults, 1, "z")) == set(NAMES)
    one = Faults([Crash("client/[0-3]", share=1.0, step="y", round=2)], 5, POPULATION)
    assert [struck_in(one, number) for number in (1, 2, 3)] == [{}, dict.fromkeys(NAMES[:4], "y"), {}]


def test_a_party_is_struck_once_a_round_also_after_a_snapshot() -> None:
    fault = Crash("client/*", share=1.0, step="x")
    faults = Faults([fault], 5, POPULATION)
    assert faults.at_step("client/0", "x", "before", 1) == [fault]
    assert faults.at_step("client/0", "x", "before", 1) == []
    again = Faults([fault], 5, POPULATION)
    again.restore(faults.state())
    assert again.at_step("client/0", "x", "before", 1) == []
    assert again.at_step("client/0", "x", "before", 2) == [fault]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"share": 0.2, "at": "x"}, "exactly one of"),
        ({"share": 0.2, "probability": 0.5}, "does not go with share"),
        ({"count": 2, "occurrence": 2}, "does not go with count"),
        ({"at": "x", "step": "y"}, "needs share or count"),
        ({"share": 1.2}, "does not fit"),
        ({"count": 0}, "does not fit"),
    ],
)
def test_impossible_keys_of_a_drawn_fault_are_refused(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Crash("client/*", **keys)
