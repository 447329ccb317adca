"""The command `tacit predict --runs`: the probability of survival under losses, its costs, and the losses by step."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.sim.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.files.reading import Loaded
    from tacit.scenarios.sweeping.survival import Survival

__all__ = ["survival"]

_SHOWN = 6
"""The most steps, parties and reasons that are listed."""

_WORTH = 5.0
"""The seconds from which on the time of all runs is estimated before they are made."""

_EVERY = 5.0
"""The seconds between two shares of runs that survive so far, as progress."""

_TELLING = 2.0
"""The seconds of the first run from which on its rounds show how long all runs take."""

_FEW = 2
"""The most parties that are listed for each step."""


def survival(
    file: str, over: Sequence[str], runs: int, loss: Sequence[str], by: str, survive: float | None, share: float | None,
    jobs: str | None, seed: int | None, changes: Sequence[str], json_file: Path | None, page: Path | None,
    resume: Path | None,
) -> int:  # fmt: skip
    """Predict `runs` runs of each combination of values, and print and write the results. Returns the exit code.

    After an interrupt, the results are of the runs that have ended, of those combinations with at least one.
    """
    from tacit.scenarios.command import stopping
    from tacit.scenarios.console import printing
    from tacit.scenarios.console.bars import shown
    from tacit.scenarios.reporting.charts import check_charts
    from tacit.scenarios.reporting.survival_page import survival_page
    from tacit.scenarios.running.kept_fates import Kept
    from tacit.scenarios.running.workers import jobs_of
    from tacit.scenarios.sweeping.predicted import check_energy
    from tacit.scenarios.sweeping.runs import plan
    from tacit.scenarios.sweeping.survival import FOR_COSTS, SHARE, choose, survival_of, too_few

    if page is not None:
        check_charts()
    at_a_time = None if jobs is None else jobs_of(jobs)
    console = printing.make_console()
    plans = plan(file, over, 1, changes, seed, to_run=False)
    if by == "energy":
        for one in plans:
            check_energy(one.loaded)
    kept, needed = Kept(resume), SHARE if share is None else share
    stopping.interrupt_work()
    warning = too_few([one.loaded.scenario for one in plans], runs, loss, survive)
    if str(json_file) != "-":
        _print_head(console, plans[0].loaded, runs, loss, warning)
    found: list[Survival] = []
    stopped, left, errors = False, 0, printing.make_console(stderr=True)
    for number, one in enumerate(plans):
        what = ", ".join(f"{key}={value}" for key, value in one.values) or one.loaded.name
        with shown(errors, "predict") as tell:
            report = _Report(errors, tell, what, 0 if found else len(plans), at_a_time)
            try:
                found.append(
                    survival_of(
                        one.loaded, runs, loss, at_a_time, one.values, report, needed, kept, partial=True,
                        for_costs=FOR_COSTS, first_run=report.round,
                    )
                )  # fmt: skip
            except KeyboardInterrupt:
                if not found:
                    printing.print_lines(errors, ["no run has ended: there are no results"])
                    raise
                stopped = True
        if stopped := stopped or found[-1].interrupted:
            left = len(plans) - number - 1
            break
    if stopped:
        _print_stopped(errors, found, runs, left, resume)
    command = _command(file, over, runs, loss, by, survive, share, seed, changes)
    chosen = choose(found, by, survive)
    if str(json_file) != "-":
        _print(console, found, chosen, by, survive, runs)
    if page is not None:
        page.write_text(survival_page(found, chosen, by, survive, command, changes), encoding="utf-8")
        if str(json_file) != "-":
            printing.print_lines(console, [f"page      {page}"])
    if json_file is not None:
        cheapest = None if chosen is None else dict(chosen.values)
        record = {"survival": [one.record() for one in found], "by": by, "survive": survive, "cheapest": cheapest}
        record |= {"command": command, "interrupted": stopped}
        printing.write_text(console, json_file, json.dumps(record, indent=2) + "\n")
    return stopping.exit_code() if stopped else 0


class _Report:
    """Shows the progress of the runs of one combination, and the time that all of them take: after a round of the first
    run, and again after the first run.

    `combinations`: those whose time is estimated, 0 for none.
    """

    def __init__(self, console: Console, tell: Any, what: str, combinations: int, jobs: int | str | None) -> None:
        self._console, self._tell, self._what = console, tell, what
        self._combinations, self._jobs = combinations, jobs
        self._so_far, self._said = "", 0.0
        self._runs, self._began, self._guessed = 0, time.perf_counter(), False

    def round(self, number: int, rounds: int) -> None:
        """Show that the first run has reached this of its `rounds`, and the time that follows from those before."""
        from tacit.scenarios.console import printing

        now = time.perf_counter()
        if number == 1:  # what is loaded and built once takes no time in the other runs
            self._began = now
            return
        if now - self._said >= _EVERY:
            self._said = now
            self._tell(f"{self._what}: the first run, round {number} of {rounds}", 0, self._runs)
        seconds = (now - self._began) / (number - 1) * rounds
        if self._guessed or not self._combinations or now - self._began < _TELLING:
            return
        self._guessed = True
        at_a_time, left = self._at_a_time(), self._runs * self._combinations - 1
        whole = seconds + left * seconds / min(at_a_time, left or 1)
        if whole >= _WORTH:
            words = f"about {format_duration(whole)} for {left + 1:,} runs, {at_a_time} at a time"
            of_one = (
                f"about {format_duration(seconds)} for the first one, by its first {number - 1:,} of {rounds:,} rounds"
            )
            printing.print_lines(self._console, [f"time      {words}: {of_one}"])

    def _at_a_time(self) -> int:
        from tacit.sim.compute import cores

        return self._jobs if isinstance(self._jobs, int) else cores()

    def __call__(self, done: int, survived: int, runs: int, seconds: float) -> None:
        from tacit.scenarios.console import printing

        self._runs = runs
        if done and (now := time.perf_counter()) - self._said >= _EVERY:
            self._so_far, self._said = f", {survived:,} of {done:,} survive", now
        self._tell(f"{self._what}: runs{self._so_far}", done, runs)
        left = runs * self._combinations - done
        if not seconds or not self._combinations:
            return
        at_a_time = self._at_a_time()
        whole = left * seconds / min(at_a_time, left or 1)
        if whole >= _WORTH:
            words = f"about {format_duration(whole)} for {left:,} more runs, {at_a_time} at a time"
            printing.print_lines(self._console, [f"time      {words}: the first took {format_duration(seconds)}"])
        self._combinations = 0


def _print_stopped(console: Console, found: Sequence[Survival], runs: int, left: int, resume: Path | None) -> None:
    """Print how many runs have ended before an interrupt, and how to continue."""
    from tacit.scenarios.command import stopping
    from tacit.scenarios.console import printing

    done = sum(one.runs for one in found)
    text = f"{stopping.message()} after {done:,} of {runs * (len(found) + left):,} runs; the results are of these"
    more = f"the same command continues from {resume}" if resume else "with --resume FILE, a later command continues"
    printing.print_lines(console, [f"{text}; {more}"])


def _command(
    file: str, over: Sequence[str], runs: int, loss: Sequence[str], by: str, survive: float | None, share: float | None,
    seed: int | None, changes: Sequence[str],
) -> str:  # fmt: skip
    """The command line that gives the same results."""
    words = ["tacit", "predict", str(file), "--runs", str(runs)]
    for option, values in (("--loss", loss), ("--set", changes), ("--over", over)):
        words += [word for value in values for word in (option, value)]
    words += [] if survive is None else ["--survive", f"{survive:g}"]
    words += [] if share is None else ["--rounds", f"{share:g}"]
    words += [] if by == "bytes" else ["--by", by]
    words += [] if seed is None else ["--seed", str(seed)]
    return shlex.join(words)


def _named(one: Survival, labels: Mapping[str, str]) -> str:
    return ", ".join(f"{labels[key]} = {value}" for key, value in one.values)


def _print_head(console: Console, loaded: Loaded, runs: int, loss: Sequence[str], warning: str) -> None:
    """Print, before the runs, their number, the losses, and the `warning` about too few runs, if any."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.dropouts import dropouts

    scenario = loaded.scenario
    lines = [f"{scenario.title or loaded.name}   ({runs:,} runs, seeds {scenario.seed} to {scenario.seed + runs - 1})"]
    lines += [f"loss      {one.words()}" for one in dropouts(loss, scenario)]
    lines += [f"runs      {warning}"] if warning else []
    printing.print_lines(console, lines)


def _print(
    console: Console, found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None, runs: int
) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.outlook import cautions

    first = found[0]
    if first.values:
        _print_choices(console, found, chosen, by, survive)
    else:
        _print_survival(console, first, survive)
    if by_formula := sorted({one.runs for one in found if one.exact is not None and one.runs < runs}):
        of = "" if len(found) == 1 else " where the probability is exact"
        why = "a formula gives the probability, and runs show only costs and losses"
        printing.print_lines(console, [f"runs      {by_formula[0]:,} of {runs:,} are made{of}: {why}"])
    unused = dict.fromkeys(line for one in found for line in one.loaded.without_effect())
    printing.print_lines(console, (f"unused    {line}" for line in unused))
    warnings = dict.fromkeys(line for one in found for line in cautions(one.loaded.scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in warnings))


_ROWS = (
    ("bytes", "bytes"), ("virtual time", "seconds"), ("rounds lost", "rounds_lost"),
    ("energy of all clients", "joules"), ("most energy of a client", "most_joules"), ("epsilon", "epsilon"),
)  # fmt: skip


def _print_survival(console: Console, one: Survival, survive: float | None) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting import printed
    from tacit.scenarios.reporting.survival_tables import CHANCE, distributions, losses, shares

    share = f"{one.survived:,} of {one.runs:,} runs"
    lines = [f"survives  {CHANCE.show(one.probability)}   ({share}; {one.in_words})"]
    lines.append(f"          a run survives if it {one.need}")
    if one.completed != one.survived:
        lines.append(f"completes {CHANCE.show(one.completed / one.runs)}   ({one.completed:,} of {one.runs:,} runs)")
    if one.exact is not None:
        exact = CHANCE.show(one.exact.probability)
        lines.append(f"exact     {exact}   ({one.exact.why}: a run needs {one.exact.need})")
    if survive is not None:
        lines.append(f"target    {one.verdict(survive)}")
    printing.print_lines(console, lines)
    figures = [
        (f"{title}, {over}", name, one.figure(name, survived=survived))
        for title, name in _ROWS
        for over, survived in (("all runs", False), ("runs that survive", True))
        if not survived or one.survived != one.runs
    ]
    printing.print_table(console, distributions(figures))
    if one.steps():
        made = losses(one, _FEW)
        del made.rows[2 * _SHOWN :]
        printing.print_table(console, made)
        printing.print_lines(console, [f"lost      {shares(one.parties(), one.runs, _SHOWN)}"])
    else:
        printing.print_lines(console, ["lost      nobody in any run"])
    printing.print_lines(
        console, (f"ends      {count / one.runs:.1%} {reason}" for reason, count in one.endings()[:_SHOWN])
    )
    scenario = one.loaded.scenario
    printed.print_devices(console, scenario, f" with seed {scenario.seed}; other seeds draw others")


def _print_choices(
    console: Console, found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None
) -> None:
    """Print a line for each combination of values, and the cheapest one that survives."""
    from tacit.scenarios.console import kinds, printing
    from tacit.scenarios.console.table import Column, Table, columns_of
    from tacit.scenarios.files.composing import label
    from tacit.scenarios.reporting.survival_tables import CHANCE, KINDS
    from tacit.scenarios.sweeping.survival import COSTS, left_open

    scenarios = [one.loaded.scenario for one in found]
    labels = {key: label(key, scenarios) for key, _ in found[0].values}
    exact, energy = any(one.exact is not None for one in found), any(one.counts_energy for one in found)
    private = any(one.figure("epsilon") is not None for one in found)
    rows = []
    for one in found:
        costs = [one.figure(name, survived=True) for name in ("bytes", "seconds")]
        lost, epsilon, joules = one.figure("rounds_lost"), one.figure("epsilon"), one.figure("joules", survived=True)
        rows.append([
            *(value for _, value in one.values), one.probability, one.interval,
            *([one.exact and one.exact.probability] * exact),
            *(value for cost in costs for value in (cost and cost.mean, cost and cost.percentile_95)),
            lost and lost.mean,
            *((epsilon and epsilon.median, epsilon and epsilon.percentile_95) * private),
            *((joules and joules.mean, joules and joules.percentile_95) * energy),
        ])  # fmt: skip
    interval = kinds.Kind(lambda ends: f"{CHANCE.show(ends[0])} to {CHANCE.show(ends[1])}")
    columns = [
        *labels.values(),
        Column("survives", CHANCE),
        Column("95 % interval", interval),
        *([Column("exact", CHANCE, priority=3)] * exact),
        Column("bytes", kinds.BYTES),
        Column("bytes, 95 %", kinds.BYTES, priority=2),
        Column("time", kinds.SECONDS),
        Column("time, 95 %", kinds.SECONDS, priority=1),
        Column("rounds lost", KINDS["rounds_lost"]),
        *(columns_of(("epsilon", "epsilon, 95 %"), KINDS["epsilon"]) * private),
        *((Column("energy", kinds.JOULES), Column("energy, 95 %", kinds.JOULES, priority=0)) * energy),
    ]
    printing.print_table(console, Table(columns, rows))
    of_all = "rounds lost, and the median and 95th percentile of epsilon, are" if private else "rounds lost are"
    lines = [f"figures   costs are of the runs that survive; {of_all} of all"]
    lines += [f"survives  a run survives if it {need}" for need in dict.fromkeys(one.need for one in found)]
    wanted = "ever survives" if survive is None else f"survives with a probability of {survive}"
    if chosen is None:
        lines.append(f"cheapest  none: no combination {wanted}")
    else:
        cost = KINDS[COSTS[by]].show(chosen.cost(COSTS[by]))
        wanted = wanted.replace("survives", "survive")
        lines.append(f"cheapest  by {by}, of those that {wanted}, {_named(chosen, labels)}: {cost}")
    if survive is not None:
        undecided = dict[str, list[str]]()
        for one in left_open(found, by, survive):
            undecided.setdefault(one.verdict(survive), []).append(_named(one, labels))
        for verdict, named in undecided.items():
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            lines.append(f"open      {'; '.join(named[:_SHOWN])}{more}: {verdict}")
    printing.print_lines(console, lines)
