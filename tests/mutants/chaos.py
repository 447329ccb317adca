"""A chaos campaign in a tree with a planted bug, which ends with the first broken promise and prints it as JSON."""

import sys

import msgspec
from msgspec import Struct, structs

from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import Plan, Verdict, campaign, faulty_run, first_run
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.schedules import Schedule


class Job(Struct, frozen=True):
    """The campaign: crashes at each step and `schedules` random mixtures over a `configuration` with `changes`.

    `faults`: if given, only a run with these faults, after the one without any.
    """

    configuration: str
    changes: tuple[str, ...]
    seed: int
    schedules: int
    faults: Schedule | None = None


class Finding(Struct, frozen=True):
    """The first broken `promise`, "" if none was broken; the `faults` that broke it, and the number of `runs` until
    then."""

    promise: str = ""
    how: str = ""
    faults: Schedule = ()
    runs: int = 0


class _Found(Exception):
    """Ends a campaign with its finding."""


def _stop_when_broken(done: int, of: int, one: Verdict) -> None:
    if one.broken:
        raise _Found(Finding(one.broken[0].promise, one.broken[0].how, one.faults, done))
    if done == 1 and one.outcome != "completed":
        raise _Found(Finding("completes without faults", one.reason, (), 1))


def finding(job: Job) -> Finding:
    """The first promise that a run breaks."""
    (one,) = (one for one in CONFIGURATIONS if one.name == job.configuration)
    scenario = calm_scenario(structs.replace(one, changes=one.changes + job.changes), job.seed)
    try:
        if job.faults is None:
            plan = Plan(schedules=job.schedules, quick=True, seed=job.seed)
            return Finding(runs=len(campaign(scenario, plan, _stop_when_broken).verdicts))
        first = first_run(scenario)
        _stop_when_broken(1, 2, first)
        if job.faults:
            _stop_when_broken(2, 2, faulty_run(scenario, job.faults, first.calm))
        return Finding(runs=2)
    except _Found as found:
        return found.args[0]


if __name__ == "__main__":
    print(msgspec.json.encode(finding(msgspec.json.decode(sys.argv[1], type=Job))).decode())
