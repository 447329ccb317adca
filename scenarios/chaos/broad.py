"""Broad chaos: random mixtures of faults over many configurations, in turn, so that an early end misses none.

Each configuration first runs once without faults, which determines its steps and messages, and the limits of later
runs. It also runs once without faults over datagrams with latencies so wide that messages overtake each other: nobody
may be lost by that. All runs follow from the seed, which is also that of each scenario.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from msgspec import Struct

from tacit.scenarios.chaos.campaign import Failure, Verdict, bare_run, failure_of, first_run, perform, shrunk
from tacit.scenarios.chaos.configurations import Configuration
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.schedules import Schedule, random_schedules
from tacit.scenarios.chaos.trial import Calm
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.workers import Jobs
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.streams import generator
from tacit.sim.units import duration

__all__ = [
    "OVERTAKING",
    "Broad",
    "BroadFailure",
    "BroadFindings",
    "broad_campaign",
    "calm_scenario",
    "overtaking_scenario",
]

_SHRUNK = 40
"""The number of failures that are shrunk to a smallest schedule."""


OVERTAKING = ", over datagrams"
"""The end of the name of a configuration in its run in which messages overtake each other."""

_OVERTAKING = (
    "network.transport=datagram", "network.loss=0", "protocol.presence=none",
    "protocol.deadline=60s",  # which no message misses
)  # fmt: skip


class Broad(Struct, frozen=True, kw_only=True):
    """The size of a campaign: `schedules` random mixtures in all; no run begins after `minutes` (None: no limit)."""

    schedules: int = 5000
    seed: int = 0
    jobs: Jobs = 1
    minutes: float | None = None


class BroadFailure(Struct, frozen=True):
    """A promise that runs of one configuration broke; `scenario` is without faults."""

    configuration: str
    scenario: Scenario
    failure: Failure


class BroadFindings(Struct):
    """The runs of each configuration by name, the one without faults first, and the broken promises.

    `overtaking`: the scenario and the run over datagrams, by the name of the configuration. `ended_by`: the reason for
    an early end, if any; `out_of_time`: the reason is the plan's limit, so nothing failed.
    """

    runs: dict[str, list[Verdict]]
    failures: list[BroadFailure]
    overtaking: dict[str, tuple[Scenario, Verdict]] = {}
    ended_by: str = ""
    out_of_time: bool = False

    @property
    def verdicts(self) -> list[Verdict]:
        """All runs of all configurations."""
        return [one for runs in self.runs.values() for one in runs] + [one for _, one in self.overtaking.values()]

    @property
    def useless(self) -> dict[str, str]:
        """The configurations whose run without faults was not completed and broke no promise, with the reason."""
        first = {name: runs[0] for name, runs in self.runs.items() if runs}
        first |= {name + OVERTAKING: one for name, (_, one) in self.overtaking.items()}
        return {name: one.useless for name, one in first.items() if one.useless}


BroadWatch = Callable[[int, int, str, Verdict], None]
"""Called after each run with the number done, the total number, the configuration, and the verdict."""


def calm_scenario(configuration: Configuration, seed: int) -> Scenario:
    """The configuration's scenario without faults, under a seed that follows from `seed` and its name.

    So configurations with the same steps get different mixtures. Raises ScenarioError.
    """
    own = int(generator(seed, "broad chaos", configuration.name).integers(2**31))
    return read(configuration.scenario, ["fault=[]", "expect={}", *configuration.changes], seed=own).scenario


def overtaking_scenario(configuration: Configuration, seed: int) -> Scenario:
    """The same over datagrams that are not lost, with a wide latency that also follows from `seed` and the name."""
    draws = generator(seed, "overtaking", configuration.name)
    latency = f"network.latency=lognormal:{draws.integers(20, 120)}ms,{draws.uniform(0.4, 0.9):.2f}"
    changes = (*configuration.changes, *_OVERTAKING, latency)
    return calm_scenario(Configuration(configuration.name, configuration.scenario, changes), seed)


def broad_campaign(
    configurations: Sequence[Configuration], plan: Broad, watch: BroadWatch, found: BroadFindings
) -> None:
    """Run the campaign. `found` is filled as runs end, so that a caller has partial results after an interruption."""
    began = time.monotonic()
    scenarios = {one.name: calm_scenario(one, plan.seed) for one in configurations}
    found.runs |= {name: [] for name in scenarios}
    overtaking = {one.name: overtaking_scenario(one, plan.seed) for one in configurations}
    names, of = list(scenarios), 2 * len(scenarios) + plan.schedules
    with closing(perform(plan.jobs, first_run, [(scenario,) for scenario in scenarios.values()])) as runs:
        for done, (place, one) in enumerate(runs, 1):
            found.runs[names[place]].append(one)
            watch(done, of, names[place], one)
    with closing(perform(plan.jobs, first_run, [(scenario,) for scenario in overtaking.values()])) as runs:
        for done, (place, one) in enumerate(runs, 1 + len(scenarios)):
            found.overtaking[names[place]] = overtaking[names[place]], one
            watch(done, of, names[place] + OVERTAKING, one)
    try:
        _mixtures(scenarios, plan, watch, found, began)
    except KeyboardInterrupt:  # keep the findings so far; shrinking them would take long
        found.failures += _failures(scenarios, found, 0, 1)
        raise
    found.failures += _failures(scenarios, found, _SHRUNK, plan.jobs)


def _mixtures(
    scenarios: dict[str, Scenario], plan: Broad, watch: BroadWatch, found: BroadFindings, began: float
) -> None:
    calls = _calls(scenarios, plan, found)
    done: dict[int, Verdict] = {}
    try:
        with closing(perform(plan.jobs, bare_run, [call for _, call in calls])) as runs:
            for place, one in runs:
                done[place] = one
                before = len(scenarios) + len(found.overtaking)
                watch(before + len(done), before + len(calls), calls[place][0], one)
                if plan.minutes is not None and time.monotonic() - began > 60 * plan.minutes:
                    found.ended_by, found.out_of_time = f"{plan.minutes:g} minutes are over", True
                    break
    finally:
        for place, one in sorted(done.items()):
            found.runs[calls[place][0]].append(one)


_Call = tuple[Scenario, Schedule, Calm]


def _calls(scenarios: dict[str, Scenario], plan: Broad, found: BroadFindings) -> list[tuple[str, _Call]]:
    """The configurations in turn, each with its next mixture, up to the planned number."""
    able = [name for name in scenarios if found.runs[name][0].outcome == "completed"]
    each = -(-plan.schedules // max(len(able), 1))
    mixtures: dict[str, list[Schedule]] = {}
    for name in able:
        scenario, course = scenarios[name], found.runs[name][0].course
        mixtures[name] = list(random_schedules(course, each, scenario.seed, duration(scenario.protocol.deadline)))
    in_turn = [(name, mixtures[name][number]) for number in range(each) for name in able]
    return [(name, (scenarios[name], faults, found.runs[name][0].calm)) for name, faults in in_turn[: plan.schedules]]


def _failures(scenarios: dict[str, Scenario], found: BroadFindings, shrinks: int, jobs: Jobs) -> list[BroadFailure]:
    """The smallest schedule for each configuration and broken promise; only the first `shrinks` are shrunk."""
    broken = [
        (name, promise, min(those, key=lambda one: len(one.faults)), len(those))
        for name, runs in found.runs.items()
        for promise in promises_of(scenarios[name])
        if (those := [one for one in runs if promise in one.promises_broken])
    ]
    smallest = [one for _, _, one, _ in broken]
    calls = [(scenarios[name], one, promise, found.runs[name][0].calm) for name, promise, one, _ in broken[:shrinks]]
    if calls:
        with closing(perform(jobs, shrunk, calls)) as shrinking:
            for place, one in shrinking:
                smallest[place] = one
    overtaken = [
        BroadFailure(name + OVERTAKING, scenario, failure_of(one, broken.promise, 1))
        for name, (scenario, one) in found.overtaking.items()
        for broken in one.broken
    ]
    return overtaken + [
        BroadFailure(name, scenarios[name], failure_of(one, promise, runs))
        for (name, promise, _, runs), one in zip(broken, smallest, strict=True)
    ]
