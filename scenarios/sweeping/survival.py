"""Survival of a scenario: the share of runs that survive their losses, the costs, and the losses by step.

A run survives if it completes, and a share of its rounds, by default 90 %, has a result.
"""

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from tacit.parties.data.splits import counted
from tacit.protocols.outcome import Reason, filled
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.dropouts import Dropout, dropouts, with_dropouts
from tacit.scenarios.files.odds import Odds, odds_of, rounds_needed
from tacit.scenarios.files.reading import Loaded
from tacit.scenarios.files.result import data_frame
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.fates import Fate, Watch, fates_of
from tacit.scenarios.running.kept_fates import Kept
from tacit.scenarios.running.workers import Jobs, in_workers
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import cores

__all__ = [
    "COSTS", "FIGURES", "FOR_COSTS", "SHARE", "Figure", "Survival", "choose", "enough_runs", "exact_odds", "left_open",
    "survival_of", "too_few", "wilson",
]  # fmt: skip

_Z = 1.959963984540054
"""The quantile of the standard normal distribution for an interval of 95 %."""

SHARE = 0.9
"""The share of the rounds that must have a result in a run that survives."""

_CHUNK = 5
"""The number of runs in one call of a worker if a run takes less than a second; otherwise 1, so that an interrupt keeps
the others."""

_LONG = 5.0
"""The seconds from which on runs are made on all cores."""

_WITHOUT_LOSSES = 2
"""The rounds of the run without losses that shows that nothing else loses a round, before a formula is used."""

FOR_COSTS = 20
"""The runs that show costs where a formula gives the probability."""

FIGURES = ("bytes", "seconds", "rounds_lost", "joules", "most_joules", "epsilon")
"""The numbers of a run whose distributions are shown: energy only if it is counted, epsilon only if there is one."""

COSTS = {"bytes": "bytes", "time": "seconds", "memory": "memory", "energy": "joules"}
"""The number that is minimized, by the value of the option --by."""

Report = Callable[[int, int, int, float], None]
"""Reports progress: the numbers of runs that have ended, that survive, and of all; and the seconds of the first run."""


class Figure(Struct, frozen=True):
    """The distribution of a number over some runs: their count, mean, median, 95th percentile and maximum."""

    runs: int
    mean: float
    median: float
    percentile_95: float
    maximum: float


class Survival(Struct, frozen=True):
    """The fates of many runs of one scenario, in the order of their seeds.

    `values` are those of the swept keys. `share` of the rounds of a run that survives have a result. `exact` is the
    probability of survival by formula, None if no formula applies. `interrupted`: not all runs were made.
    """

    values: tuple[tuple[str, str], ...]
    loaded: Loaded
    dropouts: tuple[Dropout, ...]
    fates: tuple[Fate, ...]
    exact: Odds | None = None
    share: float = SHARE
    interrupted: bool = False

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.fates)

    @property
    def completed(self) -> int:
        """The number of runs that complete."""
        return sum(one.completed for one in self.fates)

    @property
    def rounds(self) -> int:
        """The number of rounds that a run plans."""
        return self.fates[0].rounds

    @property
    def survived(self) -> int:
        """The number of runs that survive."""
        return sum(one.survives(self.share) for one in self.fates)

    @property
    def need(self) -> str:
        """The condition of survival in words, after "a run survives if it"; an accuracy is no part of it."""
        words, least = "completes", self.loaded.scenario.expect.accuracy_at_least
        if self.rounds > 1:
            words += f" with a result in at least {rounds_needed(self.share, self.rounds)} of {self.rounds} rounds"
        if least is None:
            return words
        key = f"expect.accuracy_at_least = {least:g}"
        return f"{words}, whatever its accuracy: no prediction trains, so {key} takes real runs (tacit sweep --seeds N)"

    @property
    def probability(self) -> float:
        """The share of runs that survive."""
        return self.survived / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval (95 %) of the probability that a run survives."""
        return wilson(self.survived, self.runs)

    @property
    def in_words(self) -> str:
        """The probability that a run survives, as far as the runs show it, in words: its interval, or one end of it."""
        (low, high), exact = self.interval, self.exact
        if exact is not None:
            return f"by formula ({exact.why}) a run survives with a probability of {exact.probability:.4f}"
        if self.survived == self.runs:
            return f"with 95 % confidence the probability is at least {low:.4f}"
        if not self.survived:
            return f"with 95 % confidence the probability is at most {high:.4f}"
        return f"a share of {self.probability:.4f}; the 95 % interval of the probability is {low:.4f} to {high:.4f}"

    def survives(self, probability: float) -> bool:
        """Return true if a run survives with at least this probability: by formula, else by the lower end of
        `interval`."""
        return (self.interval[0] if self.exact is None else self.exact.probability) >= probability

    def may_survive(self, probability: float) -> bool:
        """Return true if the runs do not decide it: `survives` is false, but the probability lies in `interval`."""
        return self.exact is None and not self.survives(probability) and self.interval[1] >= probability

    def verdict(self, probability: float) -> str:
        """Return the answer of `survives` in words: yes, no, or not shown with the number of runs that could show
        it."""
        if self.survives(probability):
            return f"yes: with a probability of {probability} or more"
        if not self.may_survive(probability):
            return f"no: a probability of {probability} is not reached"
        if probability == 1:
            return "not shown: no number of runs shows a probability of 1"
        text = f"not shown: {self.runs:,} runs do not show a probability of {probability}"
        if self.survived < self.runs:
            return f"{text}, but do not exclude it either; use more --runs"
        return f"{text}; {enough_runs(probability):,} runs that all survive would"

    @property
    def counts_energy(self) -> bool:
        """True if the scenario counts the energy of its clients."""
        return self.fates[0].joules is not None

    def figure(self, name: str, *, survived: bool = False) -> Figure | None:
        """The distribution of one of `FIGURES`; None without runs, for energy that is not counted, and for epsilon of a
        protocol without one.

        `survived`: only over runs that survive. ``joules`` are those of all clients, ``most_joules`` those of the
        client that uses the most. ``epsilon`` is infinite in a run without a bound.
        """
        every = [getattr(one, name) for one in self.fates if one.survives(self.share) or not survived]
        if all(one is None for one in every):
            return None
        found = sorted(math.inf if one is None else one for one in every)
        place = math.ceil(0.95 * len(found)) - 1
        return Figure(len(found), statistics.fmean(found), statistics.median(found), found[place], found[-1])

    def cost(self, name: str) -> float:
        """The mean of one of `FIGURES`, or of ``memory``, over the runs that survive; infinity if none does."""
        if name == "memory":
            return max(one.memory for one in self.fates)
        figure = self.figure(name, survived=True)
        return math.inf if figure is None else figure.mean

    def endings(self) -> list[tuple[str, int]]:
        """Return the reasons why runs do not survive, with their counts, the most frequent first.

        Names of parties are left out. Reasons that differ only in numbers are merged, with the range of each number.
        """
        found: dict[Hashable, list[Fate]] = {}
        few = sum(one.completed and not one.survives(self.share) for one in self.fates)
        for one in self.fates:
            if not one.completed:
                found.setdefault((one.outcome, _alike(one.reason)), []).append(one)
        counted = [
            (f"{some[0].outcome}: {_merged([one.reason for one in some]) or 'no reason'}", len(some))
            for some in found.values()
        ]
        if few:
            needed = rounds_needed(self.share, self.rounds)
            counted.append((f"completed with a result in fewer than {needed} of {self.rounds} rounds", few))
        return sorted(counted, key=lambda item: -item[1])

    def steps(self) -> list[tuple[str, int, float]]:
        """Return for each step with losses the number of runs with such losses, and the mean number of losses per
        run."""
        runs, losses = Counter[str](), Counter[str]()
        for one in self.fates:
            losses.update(step for _, step in one.lost)
            runs.update({step for _, step in one.lost})
        return [(step, count, losses[step] / self.runs) for step, count in runs.most_common()]

    def parties_at(self, step: str) -> list[tuple[str, int]]:
        """Return each party that is lost at a step, with the number of runs, the largest number first."""
        found = Counter(party for one in self.fates for party, where in set(one.lost) if where == step)
        return sorted(found.items(), key=lambda item: (-item[1], _number(item[0])))

    def parties(self) -> list[tuple[str, int]]:
        """Return each party that is lost in any run, with the number of runs, the largest number first."""
        found = Counter(party for one in self.fates for party in {party for party, _ in one.lost})
        return sorted(found.items(), key=lambda item: (-item[1], _number(item[0])))

    def lines(self) -> list[dict[str, Any]]:
        """Return one line for each run."""
        return [
            {
                "seed": one.seed, "outcome": one.outcome, "reason": str(one.reason), "bytes": one.bytes,
                "virtual_seconds": one.seconds, "rounds_lost": one.rounds_lost, "lost": len(one.lost),
                "survives": one.survives(self.share),
                **({} if one.joules is None else {"joules": one.joules, "most_joules": one.most_joules}),
                **({} if one.epsilon is None else {"epsilon": one.epsilon}),
            }
            for one in self.fates
        ]  # fmt: skip

    def frame(self) -> Any:
        """`lines` as a pandas DataFrame. Raises ImportError without pandas."""
        return data_frame(self.lines())

    def record(self) -> dict[str, Any]:
        """Return the survival as data for the JSON file."""
        scenario, low_high = self.loaded.scenario, self.interval
        figures = {
            name: {
                over: None if (one := self.figure(name, survived=over == "survived")) is None else _as_dict(one)
                for over in ("all", "survived")
            }
            for name in FIGURES
            if name in FIGURES[:3] or self.figure(name) is not None
        }
        return {
            "scenario": self.loaded.name, "protocol": scenario.protocol.name, "values": dict(self.values),
            "loss": [one.text for one in self.dropouts], "first_seed": self.fates[0].seed, "runs": self.runs,
            "completed": self.completed, "survived": self.survived, "rounds": self.rounds,
            "rounds_needed": rounds_needed(self.share, self.rounds), "probability": self.probability,
            "interval": list(low_high),
            "exact": None if self.exact is None else {"probability": self.exact.probability, "formula": self.exact.why},
            "interrupted": self.interrupted, "figures": figures, "peak_memory": self.cost("memory"),
            "endings": [{"reason": reason, "runs": count} for reason, count in self.endings()],
            "lost_at": [
                {"step": step, "runs": count, "losses_a_run": mean, "parties": dict(self.parties_at(step))}
                for step, count, mean in self.steps()
            ],
            "lost_parties": [{"party": party, "runs": count} for party, count in self.parties()],
        }  # fmt: skip


def _as_dict(figure: Figure) -> dict[str, float | None]:
    """The numbers of a figure; None for one that is infinite, which JSON cannot have."""
    values = {name: getattr(figure, name) for name in Figure.__struct_fields__}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _alike(reason: Reason) -> Hashable:
    """Return what is equal for reasons that differ only in numbers and in names of clients."""
    return reason.kind, tuple((name, _alike_value(value)) for name, value in reason.values.items())


def _alike_value(value: Any) -> Hashable:
    if isinstance(value, Reason):
        return _alike(value)
    return value if isinstance(value, str) else isinstance(value, tuple)


def _merged(reasons: Sequence[Reason]) -> str:
    """Return the sentence of `reasons` that are alike, with the range of each number, and without clients' names."""
    values = {name: _merged_value([one.values[name] for one in reasons]) for name in reasons[0].values}
    return filled(reasons[0].kind, values)


def _merged_value(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Reason):
        return _merged(values)
    if isinstance(values[0], str):
        return values[0]
    return "some clients" if isinstance(values[0], tuple) else _Range(min(values), max(values))


class _Range(NamedTuple):
    """The range of a number, shown as "3 to 7", or as the number if it is always the same."""

    low: float
    high: float

    def __format__(self, spec: str) -> str:
        low, high = format(self.low, spec), format(self.high, spec)
        return low if low == high else f"{low} to {high}"

    def __repr__(self) -> str:  # also of `str`, for `!s` and `!r` in a plugin's sentence
        return format(self)


def _number(party: str) -> int:
    number = party.rpartition("/")[2]
    return int(number) if number.isdigit() else -1


def wilson(successes: int, runs: int, z: float = _Z) -> tuple[float, float]:
    """Return Wilson's (1927) interval of a probability from `successes` in `runs` independent runs; 95 % by default.

    Raises ValueError for no runs, or for more successes than runs.
    """
    if not 0 <= successes <= runs or runs < 1:
        raise ValueError(f"{successes} of {runs} runs: 1 run is needed, and no more successes than runs")
    share, square = successes / runs, z * z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    half = z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if not successes else low), (1.0 if successes == runs else high)


def enough_runs(probability: float) -> int:
    """Return the fewest runs that show a `probability` below 1 if all complete: the Wilson interval (95 %) is above
    it."""
    runs = math.ceil(_Z * _Z * probability / (1 - probability))
    return runs if wilson(runs, runs)[0] >= probability else runs + 1


def too_few(scenarios: Iterable[Scenario], runs: int, loss: Sequence[str], survive: float | None) -> str:
    """Return a warning if `runs` runs cannot show the probability `survive` even if all survive; else "".

    No warning is given if a formula applies to all `scenarios`. Raises ScenarioError for an invalid dropout in `loss`.
    """
    given = [(scenario, dropouts(loss, scenario)) for scenario in scenarios]
    if survive is None or wilson(runs, runs)[0] >= survive:
        return ""
    if all(exact_odds(scenario, found) is not None for scenario, found in given):
        return ""
    enough = "no number of runs does" if survive == 1 else f"--runs {enough_runs(survive)} or more can"
    return f"{runs:,} runs are too few to show {survive}, even if all survive: {enough}"


def exact_odds(scenario: Scenario, found: Sequence[Dropout], share: float = SHARE) -> Odds | None:
    """The probability by formula that a run with these dropouts survives; None if no formula applies.

    A formula of an average of models counts clients that are drawn to be lost, so it is used only where a run without
    losses, of up to two rounds, loses nobody: each client has labels, and answers within its deadline.
    """
    odds = odds_of(scenario, found, share)
    if odds is None or PROTOCOLS[scenario.protocol.name].decided_by != "average":
        return odds
    rounds = min(_WITHOUT_LOSSES, scenario.training.rounds)
    training = structs.replace(scenario.training, rounds=rounds)
    calm = structs.replace(scenario, fault=(), training=training)
    labels = counted(material_of(calm).named)[1]
    (fate,) = fates_of(calm, [scenario.seed])
    return odds if all(labels.values()) and fate.survives(1) and not fate.lost else None


def choose(found: Iterable[Survival], by: str, survive: float | None) -> Survival | None:
    """Return the cheapest of `found` that survives with the probability `survive`, or, if that is None, that ever
    survives.

    The cost is the mean over the runs that survive. `by` is one of `COSTS`. Among costs that are equal to three
    digits, as printed, the one with the fewest lost rounds is returned. Returns None if no combination qualifies.
    """
    good = [one for one in found if one.survived and (survive is None or one.survives(survive))]
    return min(good, key=lambda one: (_shown(one, by), one.cost("rounds_lost"), one.cost(COSTS[by])), default=None)


def _shown(one: Survival, by: str) -> float:
    return float(f"{one.cost(COSTS[by]):.3g}")


def left_open(found: Sequence[Survival], by: str, survive: float) -> list[Survival]:
    """Return the combinations, cheapest first, that may survive and would then be cheaper than the chosen one."""
    chosen = choose(found, by, survive)
    most = math.inf if chosen is None else _shown(chosen, by)
    undecided = [one for one in found if one.may_survive(survive) and _shown(one, by) < most]
    return sorted(undecided, key=lambda one: one.cost(COSTS[by]))


def survival_of(
    loaded: Loaded,
    runs: int,
    loss: Sequence[str] = (),
    jobs: Jobs | None = 1,
    values: tuple[tuple[str, str], ...] = (),
    report: Report = lambda done, survived, runs, seconds: None,
    share: float = SHARE,
    kept: Kept | None = None,
    partial: bool = False,
    for_costs: int | None = None,
    first_run: Watch | None = None,
) -> Survival:
    """Return the fates of `runs` runs of the scenario, with its seed and the following ones.

    `loss` has texts of --loss: dropouts in addition to the scenario's. A run survives with a result in this `share` of
    its rounds. The number of processes, `jobs`, does not change the result; None takes one for each core if the first
    run shows that the others take long. Runs that are `kept` are not made again, and those that end are added. If
    `partial`, an interrupt after the first run ends the work, and the result is `interrupted`. Where a formula gives
    the probability, at most `for_costs` runs are made. `first_run` sees the rounds of the first run.

    Raises ScenarioError, and KeyboardInterrupt.
    """
    scenario = loaded.scenario
    found = tuple(dropouts(loss, scenario))
    lossy = with_dropouts(scenario, found)
    exact = exact_odds(scenario, found, share)
    if exact is not None and for_costs is not None:
        runs = min(runs, for_costs)
    held = kept or Kept()
    fates = {seed: fate for seed in range(scenario.seed, scenario.seed + runs) if (fate := held.fate(lossy, seed))}
    left = [seed for seed in range(scenario.seed, scenario.seed + runs) if seed not in fates]
    seconds = 0.0

    def add(some: Sequence[Fate]) -> None:
        for one in some:
            fates[one.seed] = one
            held.add(lossy, one)
        report(len(fates), sum(one.survives(share) for one in fates.values()), runs, seconds)

    add(())
    interrupted = False
    try:
        if left:
            began = time.perf_counter()
            first = fates_of(lossy, left[:1], loaded.where, first_run)
            seconds = time.perf_counter() - began
            add(first)
            at_a_time = jobs if jobs is not None else cores() if len(left) * seconds > _LONG else 1
            size = _CHUNK if at_a_time != 1 and seconds < 1 else 1
            chunks = [left[place : place + size] for place in range(1, len(left), size)]
            for some in _fates([(lossy, tuple(chunk), loaded.where) for chunk in chunks], at_a_time):
                add(some)
    except KeyboardInterrupt:
        if not (partial and fates):
            raise
        interrupted = True
    every = tuple(fates[seed] for seed in sorted(fates))
    return Survival(values, loaded, found, every, exact, share, interrupted)


def _fates(calls: Sequence[tuple[Any, ...]], jobs: Jobs) -> Iterable[list[Fate]]:
    if jobs == 1 or len(calls) == 1:
        return (fates_of(*call) for call in calls)
    done = in_workers(jobs, fates_of, calls, lambda *call: f"runs with the seeds {call[1][0]} to {call[1][-1]}")
    return (some for _, some in done)
