"""Chaos: repeated runs of one scenario, each with other faults, checked against the same promises.

The scenario's own faults and its clients' availability are ignored. The first run has no faults; its trace lists the
steps. A promise that it breaks, such as that only losses end a run, is reported, and nothing else is tried. Later runs
have crashes before and after every step of every party, one at a time; with `pairs` also two at a time; and random
mixtures of all faults, some of which strike clients that are drawn again in each round. If a run breaks a promise, its
faults are shrunk to a smallest schedule that still breaks it.

>>> from tacit.scenarios.chaos.campaign import Plan, campaign
>>> from tacit.scenarios.files.reading import load
>>> findings = campaign(load("xclp-digits", ["data.limit=240"]), Plan(schedules=5))  # doctest: +SKIP
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, TypeVar

from msgspec import Struct, structs

from tacit.parties.fleet.fleet import Fleet
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.drawing import Course
from tacit.scenarios.chaos.memory import Remembering
from tacit.scenarios.chaos.promises import Broken, check, promises_of
from tacit.scenarios.chaos.schedules import Schedule, random_schedules, single_crashes, text
from tacit.scenarios.chaos.shrinking import shrink
from tacit.scenarios.chaos.trial import Calm, Limits, observed
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.files.splits import Material, material_of
from tacit.scenarios.running.workers import Jobs, in_workers
from tacit.scenarios.schema.scenario import Fault, Scenario
from tacit.sim.compute import Engine
from tacit.sim.ray_cluster import ClusterError
from tacit.sim.units import duration

__all__ = [
    "Failure",
    "Findings",
    "Plan",
    "Verdict",
    "bare_run",
    "campaign",
    "faulty_run",
    "first_run",
    "gather",
    "perform",
    "replayed",
    "shrunk",
    "undisturbed",
    "verdict",
]

R = TypeVar("R")

_SHRUNK = 5
"""The number of broken promises that are shrunk to a smallest schedule."""

_SEEDS = 20
"""The number of seeds tried for a completed run without faults, if links lose messages."""

_MEMORY = Remembering()
"""The results of jobs in this process since the latest run without faults."""

_dealt: list[tuple[Scenario, Material]] = []
"""The latest of these runs with its data and their shares, which are those of the runs with other faults."""


_EACH = 200
"""The most clients for which single crashes of each client are tried."""


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a campaign: `schedules` random ones from `seed`, each crash alone (`singles`), all `pairs` of
    crashes.

    `quick`, or more than 200 clients: crashes of the server and of three clients only. `jobs`: parallel runs, each in a
    separate process or on Ray; one runs in this process.
    """

    schedules: int = 20
    singles: bool = True
    pairs: bool = False
    quick: bool = False
    seed: int = 0
    jobs: Jobs = 1


class Verdict(Struct, frozen=True):
    """The result of one run. `faults_fired`: the number of times that its faults were applied."""

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

    @property
    def promises_broken(self) -> set[str]:
        """The names of the broken promises."""
        return {one.promise for one in self.broken}

    @property
    def useless(self) -> str:
        """The reason why nothing can be tried after this run without faults; "" if it completed or broke a promise."""
        if self.outcome == "completed" or self.broken:
            return ""
        return f"without any fault the run is {self.outcome}: {self.reason}"

    @property
    def calm(self) -> Calm:
        """The events and virtual seconds of the run, which had no faults."""
        return Calm(self.events, self.virtual_seconds)


class Failure(Struct, frozen=True):
    """A broken promise: the number of runs that broke it, and the smallest `faults` found that break it.

    `trace_hash` is that of the run with them; a replay has the same.
    """

    promise: str
    how: str
    runs: int
    faults: Schedule
    trace_hash: str


class Findings(Struct):
    """All runs of a campaign, the one without faults first, and the broken promises.

    `seed`: the scenario's, or the next one with which the run without faults completes if links lose messages.
    """

    verdicts: list[Verdict]
    failures: list[Failure]
    interrupted: bool = False
    seed: int | None = None

    @property
    def useless(self) -> str:
        """The reason why nothing was tried, if the run without faults does not complete and breaks no promise by that;
        otherwise ""."""
        return self.verdicts[0].useless if self.verdicts else ""

    @property
    def broken(self) -> int:
        """The number of runs that broke a promise."""
        return sum(bool(one.broken) for one in self.verdicts)


def verdict(
    scenario: Scenario, limits: Limits | None = None, engine: Engine | None = None, material: Material | None = None
) -> Verdict:
    """Run `scenario` with its own faults, and check the promises. The arguments are those of `observed`."""
    began = time.perf_counter()
    trial = observed(scenario, limits, engine, material)
    lost = () if trial.simulated is None else tuple(dict.fromkeys(loss.party for loss in trial.simulated.lost))
    broken = check(trial)
    return Verdict(
        faults=scenario.fault,
        outcome=trial.outcome,
        reason=str(trial.reason),
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
"""Called after each run with the number done, the total number as far as known, and its verdict."""


def campaign(
    scenario: Scenario, plan: Plan, watch: Watch = lambda done, of, one: None, findings: Findings | None = None
) -> Findings:
    """Run the campaign.

    `findings` is filled as runs end, so that a caller has partial results after an interruption.
    """
    found = Findings([], []) if findings is None else findings
    calm = undisturbed(scenario)
    first = first_run(calm)
    for seed in range(scenario.seed + 1, scenario.seed + _SEEDS if _loses(calm) else 0):
        if first.outcome == "completed":
            break
        calm = structs.replace(calm, seed=seed)
        first = first_run(calm)
    found.seed = calm.seed
    found.verdicts.append(first)
    watch(1, 1, first)
    if first.broken or first.outcome != "completed":
        found.failures += _failures(calm, found.verdicts, first.calm)
        return found
    many = calm.data.clients > _EACH
    parties = _few(calm.data.clients) if plan.quick or many else None
    singles = list(single_crashes(first.course, parties)) if plan.singles or plan.pairs else []
    mixed = random_schedules(first.course, plan.schedules, plan.seed, duration(calm.protocol.deadline))
    try:
        _try([*singles, *mixed], calm, first.calm, plan.jobs, found, watch)
        if plan.pairs:
            pairs = _pairs(found.verdicts, set(singles), parties if many else None)
            found.verdicts = [structs.replace(one, course=Course((), (), 0.0)) for one in found.verdicts]
            _try(pairs, calm, first.calm, plan.jobs, found, watch, bare_run)
    except (KeyboardInterrupt, ClusterError):  # keep the findings so far; shrinking them would take long
        found.failures += _failures(calm, found.verdicts, None)
        raise
    found.failures += _failures(calm, found.verdicts, first.calm)
    return found


def undisturbed(scenario: Scenario) -> Scenario:
    """The scenario without its faults, and with clients that are always up."""
    clients = tuple(structs.replace(client, availability="") for client in scenario.client)
    return structs.replace(scenario, fault=(), client=clients)


def first_run(calm: Scenario) -> Verdict:
    """The result of a scenario without faults, which must complete for the promises to hold with faults.

    If its links lose messages, a run that does not complete breaks no promise.
    """
    use_plugins(calm)  # reading another scenario may have replaced the plugins
    _MEMORY.forget()
    _dealt.clear()
    first = verdict(calm, _limits(calm, None), _MEMORY)
    return structs.replace(first, broken=()) if first.outcome != "completed" and _loses(calm) else first


def _loses(scenario: Scenario) -> bool:
    """True if links of the scenario lose messages."""
    return bool(scenario.network.loss or any(link.loss for link in scenario.link))


def faulty_run(scenario: Scenario, faults: Schedule, calm: Calm) -> Verdict:
    """The result of the scenario with those `faults`; `calm`: the numbers of the run without any."""
    faulty = structs.replace(scenario, fault=faults)
    return verdict(faulty, _limits(faulty, calm), _MEMORY, _material_of(scenario, faulty))


def _material_of(scenario: Scenario, faulty: Scenario) -> Material:
    """The data of `scenario`, dealt once for all its runs, and the devices of the one that is `faulty`."""
    if not _dealt or _dealt[0][0] != scenario:
        _dealt[:] = [(scenario, material_of(faulty))]
    return dataclasses.replace(_dealt[0][1], fleet=Fleet(faulty))


def bare_run(scenario: Scenario, faults: Schedule, calm: Calm) -> Verdict:
    """The result of `faulty_run` without its `course`, since the courses of thousands of runs would take much
    memory."""
    return structs.replace(faulty_run(scenario, faults, calm), course=Course((), (), 0.0))


def replayed(scenario: Scenario) -> Verdict:
    """The result of `scenario` with its own faults, bit for bit as in a campaign that tries them.

    The limits follow from the run without faults, so that is run first.
    """
    calm = undisturbed(scenario)
    first = first_run(calm)
    return first if calm == scenario else faulty_run(scenario, scenario.fault, first.calm)


def _limits(scenario: Scenario, calm: Calm | None) -> Limits:
    return Limits.of(scenario, PROTOCOLS[scenario.protocol.name].waits(scenario), calm)


def _try(
    schedules: Sequence[Schedule],
    scenario: Scenario,
    calm: Calm,
    jobs: Jobs,
    found: Findings,
    watch: Watch,
    run: Callable[[Scenario, Schedule, Calm], Verdict] = faulty_run,
) -> None:
    calls = [(scenario, faults, calm) for faults in schedules]
    gather(jobs, run, calls, found.verdicts, watch)


def _few(clients: int) -> list[str]:
    """The server, and the first, a middle and the last client."""
    return ["server", *(f"client/{number}" for number in sorted({0, clients // 2, clients - 1}))]


def _pairs(
    verdicts: Iterable[Verdict], singles: Collection[Schedule], parties: Collection[str] | None
) -> list[Schedule]:
    """All pairs of crashes of two parties: the second at any step that was taken in the run with the first alone."""
    pairs: dict[frozenset[Fault], Schedule] = {}
    for one in verdicts:
        if one.faults in singles:
            (first,) = one.faults
            for (second,) in single_crashes(one.course, parties):
                if second.get("party") != first.get("party"):
                    pairs.setdefault(frozenset((first, second)), (first, second))
    return list(pairs.values())


def _failures(scenario: Scenario, verdicts: Sequence[Verdict], calm: Calm | None) -> list[Failure]:
    """The smallest schedule for each broken promise; without shrinking if `calm` is None."""
    failures: list[Failure] = []
    for promise in promises_of(scenario):
        runs = [one for one in verdicts if promise in one.promises_broken]
        if runs:
            smallest = min(runs, key=lambda one: len(one.faults))
            if calm is not None and len(failures) < _SHRUNK:
                smallest = shrunk(scenario, smallest, promise, calm)
            failures.append(failure_of(smallest, promise, len(runs)))
    return failures


def shrunk(scenario: Scenario, broken: Verdict, promise: str, calm: Calm) -> Verdict:
    """The result of the smallest schedule found that breaks the `promise`, starting from the run `broken`."""
    smallest = broken

    def breaks(faults: Schedule) -> bool:
        nonlocal smallest
        one = faulty_run(scenario, faults, calm) if faults else first_run(scenario)
        if promise in one.promises_broken:
            smallest = one
        return smallest is one

    shrink(broken.faults, breaks, scenario.data.clients)
    return smallest


def failure_of(smallest: Verdict, promise: str, runs: int) -> Failure:
    """The failure shown by the run with the `smallest` schedule; `runs`: the number of runs that broke the promise."""
    how = next(one.how for one in smallest.broken if one.promise == promise)
    return Failure(promise, how, runs, smallest.faults, smallest.trace_hash)


def perform(
    jobs: Jobs, function: Callable[..., R], calls: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, R], None, None]:
    """Run the calls by `in_workers`, or in this process if there is only one job at a time. Closing stops the rest."""
    if jobs == 1 or len(calls) < 2:
        for place, arguments in enumerate(calls):
            yield place, function(*arguments)
        return
    with closing(in_workers(jobs, function, calls, _titled)) as runs:
        yield from runs


def _titled(*arguments: Any) -> str:
    """The description of a run's faults, found among the arguments of its call."""
    faults = next((one for one in arguments if isinstance(one, tuple)), ())
    return "; ".join(text(one) for one in faults if isinstance(one, Fault)) or "a run"


def gather(
    jobs: Jobs,
    function: Callable[..., R],
    calls: Sequence[tuple[Any, ...]],
    into: list[R],
    watch: Callable[[int, int, R], None],
) -> None:
    """Run `perform` and append the results in the order of the calls, even after an interruption.

    `watch` is called after each with the number of results in `into`, the total number, and the result.
    """
    before, done = len(into), dict[int, R]()
    try:
        with closing(perform(jobs, function, calls)) as runs:
            for place, one in runs:
                done[place] = one
                watch(before + len(done), before + len(calls), one)
    finally:
        into += [one for _, one in sorted(done.items())]
