"""The caution on jobs that take longer than the deadline, and the predictions that it foretells."""

import pytest

from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.schema.scenario import Scenario

SMALL = ["fault=[]", "expect={}", "training.extra=0", "training.rounds=1", "data.limit=120", "data.labeled=1.0"]
SMALL += [
    "protocol.name=fedavg",
    "model.name=linear",
    "client=[]",
    "training.share=1",
    "data.clients=6",
    "device.speed=1.0",
]
PRIO3 = ["training.averaging=prio3", "sum.value_bits=16", "sum.clip=1.0"]


def scenario(*changes: str) -> Scenario:
    return load("training-stragglers", [*SMALL, *changes])


def long_jobs(some: Scenario) -> list[str]:
    return [line for line in cautions(some) if "will compute for" in line]


@pytest.mark.parametrize(
    ("changes", "who", "step"),
    [
        ((*PRIO3, "protocol.deadline=500ms"), "helper", "report.prepare"),
        ((*PRIO3, "device.speed=0.01", "protocol.deadline=5s"), "client/0 and 5 more", "report.shard"),
        (("protocol.deadline=5s", 'client=[{name="client/3",speed=1e-6}]'), "client/3", "train.update"),
    ],
)
def test_a_job_longer_than_its_deadline_is_a_caution_before_the_run(
    changes: tuple[str, ...], who: str, step: str
) -> None:
    some = scenario(*changes)
    (line,) = long_jobs(some)
    assert line.startswith("protocol.deadline = ") and f"{who} will compute for" in line and f"in {step}," in line
    assert predict_run(some).lost
    enough = line.partition("use protocol.deadline = ")[2].partition(",")[0]
    assert long_jobs(scenario(*changes, f"protocol.deadline={enough}")) == []


def test_jobs_in_time_and_without_cost_are_no_caution() -> None:
    assert long_jobs(scenario(*PRIO3)) == []
    assert long_jobs(scenario("protocol.deadline=5s", "cost=free", 'client=[{name="client/3",speed=1e-6}]')) == []
