"""Chaos stores the results of jobs, which changes no run."""

import pytest
from msgspec import structs

from tacit import Scenario
from tacit.scenarios.chaos.campaign import Plan, campaign, verdict
from tacit.scenarios.chaos.memory import Remembering

CALLS: list[int] = []


def squares(number: int) -> list[int]:
    CALLS.append(number)
    return [number * number]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_a_job_runs_once_and_each_request_gets_a_copy_of_its_result() -> None:
    engine = Remembering()
    engine.submit(squares, (2,)).result().append(0)
    assert [engine.submit(squares, (number,)).result() for number in (2, 3, 2)] == [[4], [9], [4]]
    assert CALLS == [2, 3]
    engine.forget()
    assert engine.submit(squares, (2,)).result() == [4]
    assert CALLS == [2, 3, 2]


def test_a_cancelled_job_is_not_run() -> None:
    Remembering().submit(squares, (2,)).cancel()
    assert CALLS == []


def test_the_most_recently_used_results_are_kept() -> None:
    engine = Remembering(most=60)  # room for about three results
    for number in (1, 2, 1, 3, 1, 4, 1, 5, 1):
        assert engine.submit(squares, (number,)).result() == [number * number]
    assert CALLS == [1, 2, 3, 4, 5]
    engine.submit(squares, (2,)).result()
    assert CALLS[-1] == 2


def test_a_function_without_a_name_is_run() -> None:
    assert Remembering().submit(lambda: 3, ()).result() == 3


def test_runs_with_remembered_results_have_the_same_traces(small: Scenario) -> None:
    keys = {"hamming": "paillier", "bits": 16, "key_bits": 512, "insecure_keys": True}
    scenario = structs.replace(small, protocol=structs.replace(small.protocol, **keys))
    runs = campaign(scenario, Plan(schedules=4, singles=False, seed=1)).verdicts
    alone = [verdict(structs.replace(scenario, fault=one.faults)) for one in runs]
    assert [one.trace_hash for one in alone] == [one.trace_hash for one in runs]
