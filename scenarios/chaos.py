"""Chaos: one scenario run again and again, each time with other faults, and each time held to the same promises.

The scenario's own faults are put aside. A run without any comes first: its trace says which steps there are. Then come
crashes before and after every step of every party, one at a time; with `pairs` also two at a time; and random mixtures
of all faults. What breaks a promise is shrunk to the smallest schedule that still does.

>>> from scenarios import load
>>> from scenarios.chaos import Plan, campaign
>>> findings = campaign(load("xclp-digits", ["data.limit=240"]), Plan(schedules=5))  # doctest: +SKIP
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing

from msgspec import Struct, structs

from scenarios.chaos_promises import PROMISES, Broken, check
from scenarios.chaos_schedules import Course, Schedule, random_schedules, single_crashes
from scenarios.chaos_shrinking import shrink
from scenarios.chaos_trial import Limits, observed
from scenarios.schema import Fault, Scenario
from scenarios.workers import in_workers
from sim.units import duration

__all__ = ["Failure", "Findings", "Plan", "Verdict", "campaign", "verdict"]

_SHRUNK = 5
"""How many of the promises that were broken are shrunk to a smallest schedule each."""


class Plan(Struct, frozen=True, kw_only=True):
    """How much chaos: `schedules` random ones from `seed`, each crash alone (`singles`), all `pairs` of crashes.

    `quick`: crashes of the server and of three clients only. `jobs`: runs at a time, each in a process of its own; one
    runs here.
    """

    schedules: int = 20
    singles: bool = True
    pairs: bool = False
    quick: bool = False
    seed: int = 0
    jobs: int = 1


class Verdict(Struct, frozen=True):
    """What came of one run. `faults_fired`: how many times one of its faults struck."""

    faults: Schedule
    outcome: str
    reason: str
    lost: tuple[str, ...]
    faults_fired: int
    virtual_seconds: float
    wall_seconds: float
    trace_hash: str
    broken: tuple[Broken, ...]
    events: int
    course: Course


class Failure(Struct, frozen=True):
    """A promise that was broken: in how many runs, and the smallest `faults` found that break it."""

    promise: str
    how: str
    runs: int
    faults: Schedule


class Findings(Struct):
    """All runs of a campaign, the one without faults first, and what they broke."""

    verdicts: list[Verdict]
    failures: list[Failure]
    interrupted: bool = False

    @property
    def broken(self) -> int:
        """How many runs broke a promise."""
        return sum(bool(one.broken) for one in self.verdicts)


def verdict(scenario: Scenario, limits: Limits | None = None) -> Verdict:
    """Run `scenario` with its faults as they are, and check what was promised."""
    began = time.perf_counter()
    trial = observed(scenario, limits)
    lost = () if trial.simulated is None else tuple(dict.fromkeys(loss.party for loss in trial.simulated.lost))
    broken = check(trial)
    return Verdict(
        faults=scenario.fault,
        outcome=trial.outcome,
        reason=trial.reason,
        lost=lost,
        faults_fired=len(trial.fired),
        virtual_seconds=trial.simulation.now,
        wall_seconds=time.perf_counter() - began,
        trace_hash=trial.simulation.trace.trace_hash,
        broken=broken,
        events=len(trial.events),
        course=Course.of(trial.events),
    )


Watch = Callable[[int, int, Verdict], None]
"""Called after each run with how many are done, how many there are as far as is known, and what came of it."""


def campaign(
    scenario: Scenario, plan: Plan, watch: Watch = lambda done, of, one: None, findings: Findings | None = None
) -> Findings:
    """Do it all. `findings` is filled as runs end, so that a caller has what there is when this is interrupted."""
    found = Findings([], []) if findings is None else findings
    calm = structs.replace(scenario, fault=())
    first = verdict(calm, _limits(calm, 0))
    if first.outcome != "completed":  # then crashes would tell nothing, and the promises are for runs that can complete
        first = structs.replace(first, broken=())
    found.verdicts.append(first)
    watch(1, 1, first)
    found.failures += [Failure(one.promise, one.how, 1, ()) for one in first.broken]
    if first.broken or first.outcome != "completed":
        return found
    parties = _few(calm.data.clients) if plan.quick else None
    singles = list(single_crashes(first.course, parties)) if plan.singles or plan.pairs else []
    mixed = random_schedules(first.course, plan.schedules, plan.seed, duration(calm.protocol.deadline))
    _try([*singles, *mixed], calm, first.events, plan.jobs, found, watch)
    if plan.pairs:
        _try(_pairs(found.verdicts, set(singles)), calm, first.events, plan.jobs, found, watch)
    found.failures += _failures(calm, found.verdicts, first.events)
    return found


def _limits(scenario: Scenario, events: int) -> Limits:
    # The most waits of a client in a round: see XclpClient.
    return Limits.of(scenario, 4 * scenario.data.clients + 4, events)


def _try(
    schedules: Sequence[Schedule], scenario: Scenario, events: int, jobs: int, found: Findings, watch: Watch
) -> None:
    before, done = len(found.verdicts), dict[int, Verdict]()
    try:
        with closing(_perform(scenario, schedules, events, jobs)) as runs:
            for place, one in runs:
                done[place] = one
                watch(before + len(done), before + len(schedules), one)
    finally:
        found.verdicts += [one for _, one in sorted(done.items())]


def _few(clients: int) -> list[str]:
    """The server, and the first, a middle and the last client."""
    return ["server", *(f"client/{number}" for number in sorted({0, clients // 2, clients - 1}))]


def _pairs(verdicts: Iterable[Verdict], singles: Collection[Schedule]) -> list[Schedule]:
    """Each pair of crashes of two parties: the second at any step that was taken in the run with the first alone."""
    pairs: dict[frozenset[Fault], Schedule] = {}
    for one in verdicts:
        if one.faults in singles:
            (first,) = one.faults
            for (second,) in single_crashes(one.course):
                if second.party != first.party:
                    pairs.setdefault(frozenset((first, second)), (first, second))
    return list(pairs.values())


def _failures(scenario: Scenario, verdicts: Sequence[Verdict], events: int) -> list[Failure]:
    """For each promise that was broken the smallest schedule that breaks it."""
    failures: list[Failure] = []
    for promise in PROMISES:
        runs = [one for one in verdicts if promise in {broken.promise for broken in one.broken}]
        if not runs:
            continue
        smallest = min(runs, key=lambda one: len(one.faults))
        faults = smallest.faults
        if len(failures) < _SHRUNK:
            faults = shrink(faults, lambda some: _breaks(scenario, some, promise, events), scenario.data.clients)  # noqa: B023
        failures.append(Failure(promise, _how(scenario, faults, promise, events), len(runs), faults))
    return failures


def _breaks(scenario: Scenario, faults: Schedule, promise: str, events: int) -> bool:
    return any(broken.promise == promise for broken in _run(scenario, faults, events).broken)


def _how(scenario: Scenario, faults: Schedule, promise: str, events: int) -> str:
    return next(one.how for one in _run(scenario, faults, events).broken if one.promise == promise)


def _run(scenario: Scenario, faults: Schedule, events: int) -> Verdict:
    faulty = structs.replace(scenario, fault=faults)
    return verdict(faulty, _limits(faulty, events))


def _perform(
    scenario: Scenario, schedules: Sequence[Schedule], events: int, jobs: int
) -> Generator[tuple[int, Verdict], None, None]:
    """Run all `schedules`, `jobs` at a time; give each one's place and verdict as it ends. Closing stops the rest."""
    if jobs <= 1 or len(schedules) < 2:
        for place, faults in enumerate(schedules):
            yield place, _run(scenario, faults, events)
        return
    calls = [(scenario, faults, events) for faults in schedules]
    with closing(in_workers(jobs, _run, calls)) as runs:
        yield from runs
