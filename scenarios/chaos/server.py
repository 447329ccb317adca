"""A lying server, tried on the secure sums of a scenario.

Each sum of the scenario is run in miniature, with the clients' production code (`server_world`). It runs against every
single lie of an otherwise honest server, every short program of a curious server, and random mixtures of both
(`server_lies`). Sums among 9 and 30 clients are run against fixed programs only: there the graph of SecAgg+ is not
complete, and U3 may lack several clients.

Each run is checked for two promises. First, no nonzero combination of all that the server received in all rounds covers
the inputs of fewer than `min_clients` clients only; for rows of class scores there is no such combination at all
(`tacit.protocols.sums.lying`). Second, no client's program fails. A key counts as known if it stays the same when
clients draw other randomness.

Reports to two aggregators are tried likewise, with a leader that lies or a helper that lies (`report_world`,
`report_lies`): both at once read everything. A server may also lie about who is present (`presence_lies`).

Public keys are forwarded unchanged: a server that replaces them is outside the model. One known attack, outside the
model as well, reveals a client's input: in a graph, clients cannot compare their lists of survivors.

>>> from tacit.scenarios.files.reading import load
>>> from tacit.scenarios.chaos.server import Sweep, sums_of, sweep
>>> sweep(sums_of(load("xclp-digits")), Sweep(schedules=10))  # doctest: +SKIP
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from tacit.protocols.lying import is_judged
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos import campaign as chaos
from tacit.scenarios.chaos.report_lies import report_programs
from tacit.scenarios.chaos.report_world import batches_of, is_of_reports, perform_reports, signs
from tacit.scenarios.chaos.server_lies import (
    Lie,
    Program,
    fixed,
    programs,
    random_lies,
    random_program,
    single_lies,
    survivors_of_its_own,
)
from tacit.scenarios.chaos.server_world import LARGE, Contribute, Miniature, Outcome, contribute, perform
from tacit.scenarios.running.workers import Jobs
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.streams import generator

__all__ = ["PROMISES", "Breach", "Sweep", "Trial", "Trials", "programs_of", "run_trial", "sums_of", "sweep"]

PROMISES = {
    "no client's input": "No combination of what the server received is of fewer than min_clients clients' inputs; of "
    "rows of class scores no combination follows at all.",
    "no program fails": "No client's program fails.",
}

_MOST_CLIENTS = 5
_FEW_CLIENTS = 4


class Sweep(Struct, frozen=True, kw_only=True):
    """The size of a sweep: `schedules` random programs and lies from `seed`, `jobs` in parallel.

    `quick`: fewer sets of clients in the programs.
    """

    schedules: int = 20
    quick: bool = False
    seed: int = 0
    jobs: Jobs = 1


class Trial(Struct, frozen=True):
    """The result of one `program` against the `sum`."""

    sum: Miniature
    program: Program
    outcome: Outcome

    @property
    def outside(self) -> bool:
        """True if the known attack outside the model reveals an input: clients in a graph cannot compare their
        survivors."""
        known = self.sum.deals_in_graph and survivors_of_its_own(*self.sum.graph)
        return bool(self.outcome.exposed) and self.program == known

    @property
    def broken(self) -> dict[str, str]:
        """The broken promises, each with the violation."""
        outcome, found = self.outcome, {}
        if outcome.exposed and not self.outside:
            found["no client's input"] = (
                f"of {', '.join(outcome.exposed)} alone, from {outcome.relations} masked blocks and {outcome.opened} "
                f"opened masks; min_clients is {self.sum.min_clients}"
                f"{f'; {outcome.guessed} masks follow without any secret' if outcome.guessed else ''}"
            )
        if outcome.failure:
            found["no program fails"] = outcome.failure
        return found


class Breach(Struct, frozen=True):
    """A promise, a line on its violation (`how`), the number of `runs` that broke it, and the smallest such trial
    found."""

    promise: str
    how: str
    runs: int
    smallest: Trial


class Trials(Struct):
    """All trials, for each sum first the one with an honest server, and the broken promises."""

    trials: list[Trial]
    breaches: list[Breach]
    interrupted: bool = False

    @property
    def broken(self) -> int:
        """The number of trials that broke a promise."""
        return sum(bool(one.broken) for one in self.trials)


def sums_of(scenario: Scenario, quick: bool = False) -> tuple[Miniature, ...]:
    """The secure sums of `scenario` in miniature, among a few clients and among `LARGE` ones; () if it takes no secure
    sum.

    Rows of class scores, with one block for each client, are not summed among 30 clients.
    """
    few = min(scenario.data.clients, _FEW_CLIENTS if quick else _MOST_CLIENTS)
    found: list[Miniature] = []
    for one in PROTOCOLS[scenario.protocol.name].sums(scenario, few):
        if not is_judged(one.kind):
            continue
        clients = min(scenario.data.clients, max(few, one.fewest + 1))  # so that one client can be missing
        threshold = None if one.threshold is None else min(one.threshold, clients)
        miniature = Miniature(one.kind, clients, one.fewest, threshold, scenario.seed, one.value_bits)
        if is_of_reports(miniature):
            continue
        colluding = one.colluding if miniature.lying.asks_scenario else None
        found.append(structs.replace(miniature, colluding=colluding))
    large = [structs.replace(one, clients=count) for one in found for count in LARGE if one.of_vectors or count < 30]
    reported = batches_of(scenario, min(scenario.data.clients, _FEW_CLIENTS))
    return (*found, *(one for one in large if not quick or one.clients == LARGE[0]), *reported)


Watch = Callable[[int, int, Trial], None]
"""Called after each trial with the number done, the total number, and the trial."""


def sweep(
    sums: Sequence[Miniature],
    plan: Sweep,
    watch: Watch = lambda done, of, one: None,
    found: Trials | None = None,
    part: Contribute = contribute,
) -> Trials:
    """Try all programs on each of `sums`. `found` is filled as trials end; clients run `part`."""
    found = Trials([], []) if found is None else found
    calls: list[tuple[Miniature, Program, Contribute]] = []
    for miniature in sums:
        honest = run_trial(miniature, (), part)
        found.trials.append(honest)
        calls += [(miniature, program, part) for program in programs_of(honest, plan)]
    chaos.gather(plan.jobs, run_trial, calls, found.trials, watch)
    found.breaches += _breaches(found.trials, part)
    return found


def run_trial(miniature: Miniature, program: Program, part: Contribute = contribute) -> Trial:
    """Run `program` and return the trial."""
    if is_of_reports(miniature):
        return Trial(miniature, program, perform_reports(miniature, program))
    return Trial(miniature, program, perform(miniature, program, part))


def programs_of(honest: Trial, plan: Sweep) -> Iterator[Program]:
    """Yield the programs to try on the sum of the `honest` trial: fixed programs first."""
    miniature, sent = honest.sum, honest.outcome.sent
    if is_of_reports(miniature):
        numbers = range(plan.schedules)
        randoms = (generator(plan.seed, "lying aggregator", miniature.kind, number) for number in numbers)
        yield from report_programs(miniature.clients, sent, signs(miniature), randoms)
        return
    scripts = miniature.lying.scripts
    if scripts:
        yield from fixed(miniature.clients, miniature.deals)
        if miniature.deals_in_graph:
            yield survivors_of_its_own(*miniature.graph)
    if miniature.is_large:
        return
    if scripts:
        yield from programs(miniature.clients, miniature.deals, plan.quick)
    singles = list(single_lies(sent, (0, miniature.clients - 1) if plan.quick else range(miniature.clients)))
    yield from singles
    lies = [one for program in singles for one in program if isinstance(one, Lie)]
    for number in range(plan.schedules):
        random = generator(plan.seed, "lying server", miniature.kind, number)
        lies_alone = number % 3 == 2 or not scripts
        yield random_lies(random, lies) if lies_alone else random_program(random, miniature.clients)


def _breaches(trials: Sequence[Trial], part: Contribute) -> list[Breach]:
    """The smallest program that breaks each promise, for each sum."""
    groups: dict[tuple[Miniature, str], list[Trial]] = {}
    for one in trials:
        for promise in one.broken:
            groups.setdefault((one.sum, promise), []).append(one)
    found = []
    for (_, promise), group in groups.items():
        smallest = _shrunk(min(group, key=lambda one: len(one.program)), promise, part)
        found.append(Breach(promise, smallest.broken[promise], len(group), smallest))
    return found


def _shrunk(one: Trial, promise: str, part: Contribute) -> Trial:
    """Shrink a trial by removing all lies or moves that are not needed to break the promise."""
    place = 0
    while place < len(one.program):
        shorter = (*one.program[:place], *one.program[place + 1 :])
        smaller = run_trial(one.sum, shorter, part) if shorter else None
        if smaller is not None and promise in smaller.broken:
            one = smaller
        else:
            place += 1
    return one
