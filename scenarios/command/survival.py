"""The command `tacit predict --runs`: the probability and costs of completion under losses, and the losses by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.sim.units import format_bytes, format_duration, format_joules

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.sweeping.survival import Survival

__all__ = ["choose", "survival"]

_SHOWN = 6
"""The most steps, parties and reasons that are listed."""


def survival(
    file: str, over: Sequence[str], runs: int, loss: Sequence[str], by: str, survive: float | None, jobs: str | None,
    seed: int | None, changes: Sequence[str], json_file: Path | None, page: Path | None,
) -> int:  # fmt: skip
    """Predict `runs` runs of each combination of values, and print and write the results. Returns the exit code."""
    from tacit.scenarios.command import stopping
    from tacit.scenarios.console import printing
    from tacit.scenarios.console.bars import shown
    from tacit.scenarios.reporting.charts import check_charts
    from tacit.scenarios.reporting.survival_page import survival_page
    from tacit.scenarios.running.workers import jobs_of
    from tacit.scenarios.sweeping.predicted import check_energy
    from tacit.scenarios.sweeping.runs import plan
    from tacit.scenarios.sweeping.survival import survival_of
    from tacit.sim.cores import cores

    if page is not None:
        check_charts()
    at_a_time = (cores() if runs > 100 else 1) if jobs is None else jobs_of(jobs)
    console = printing.make_console()
    plans = plan(file, over, 1, changes, seed, to_run=False)
    if by == "energy":
        for one in plans:
            check_energy(one.loaded)
    stopping.interrupt_work()
    found = []
    for one in plans:
        what = ", ".join(f"{key}={value}" for key, value in one.values) or one.loaded.name
        with shown(printing.make_console(stderr=True), "predict") as tell:
            found.append(
                survival_of(
                    one.loaded, runs, loss, at_a_time, one.values,
                    lambda done, of, what=what: tell(f"{what}: runs", done, of),  # type: ignore[misc]
                )
            )  # fmt: skip
    chosen = choose(found, by, survive)
    if str(json_file) != "-":
        _print(console, found, chosen, by, survive)
    if page is not None:
        page.write_text(survival_page(found, chosen, by, survive), encoding="utf-8")
        if str(json_file) != "-":
            printing.print_lines(console, [f"page      {page}"])
    if json_file is not None:
        cheapest = None if chosen is None else dict(chosen.values)
        record = {"survival": [one.record() for one in found], "by": by, "survive": survive, "cheapest": cheapest}
        text = json.dumps(record, indent=2) + "\n"
        if str(json_file) == "-":
            console.file.write(text)
        else:
            json_file.write_text(text, encoding="utf-8")
    return 0


_NAMES = {"bytes": "bytes", "time": "seconds", "memory": "memory", "energy": "joules"}


def choose(found: Sequence[Survival], by: str, survive: float | None) -> Survival | None:
    """The cheapest of `found` that completes with the probability `survive`; without it, the cheapest that ever
    completes.

    The cost is the mean over the runs that complete.
    """
    good = [one for one in found if one.completed and (survive is None or one.survives(survive))]
    return min(good, key=lambda one: one.cost(_NAMES[by]), default=None)


def _in_words(value: float, name: str) -> str:
    if name == "seconds":
        return format_duration(value)
    if name in ("joules", "most_joules"):
        return format_joules(value)
    return format_bytes(value) if name in ("bytes", "memory") else f"{value:.4g}"


def _chance(value: float) -> str:
    """Format a probability with more digits near 0 and 1."""
    return f"{value:.4f}" if 0.001 <= value <= 0.999 or value in (0, 1) else f"{value:.6f}"


def _print(
    console: Console, found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None
) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.outlook import cautions

    first = found[0]
    scenario = first.loaded.scenario
    last = scenario.seed + first.runs - 1
    title = scenario.title or first.loaded.name
    lines = [f"{title}   ({first.runs:,} runs, seeds {scenario.seed} to {last})"]
    lines += [f"loss      {one.words()}" for one in first.dropouts]
    printing.print_lines(console, lines)
    if first.values:
        _print_choices(console, found, chosen, by, survive)
    else:
        _print_one(console, first, survive)
    unused = dict.fromkeys(line for one in found for line in one.loaded.without_effect())
    printing.print_lines(console, (f"unused    {line}" for line in unused))
    warnings = dict.fromkeys(line for one in found for line in cautions(one.loaded.scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in warnings))


_ROWS = (
    ("bytes", "bytes"), ("virtual time", "seconds"), ("rounds lost", "rounds_lost"),
    ("energy of all clients", "joules"), ("most energy of a client", "most_joules"),
)  # fmt: skip


def _print_one(console: Console, one: Survival, survive: float | None) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting import printed

    low, high = one.interval
    lines = [f"completes {_chance(one.probability)}   ({one.completed:,} of {one.runs:,} runs; 95 % interval "
             f"{_chance(low)} to {_chance(high)})"]  # fmt: skip
    if one.exact is not None:
        lines.append(f"exact     {_chance(one.exact.probability)}   ({one.exact.why}: a run needs {one.exact.need})")
    if survive is not None:
        lines.append(f"survives  {_verdict(one, survive)}")
    printing.print_lines(console, lines)
    rows = []
    for title, name in _ROWS:
        for over, completed in (("all runs", False), ("runs that complete", True)):
            figure = one.figure(name, completed=completed)
            if figure is None or (completed and one.completed == one.runs):
                continue
            values = (figure.mean, figure.median, figure.percentile_95, figure.maximum)
            rows.append([f"{title}, {over}", *(_in_words(value, name) for value in values)])
    columns = ("mean", "median", "95th percentile", "maximum")
    console.print(printing.table(("", *columns), rows, columns, optional=("maximum", "median")))
    if steps := one.steps():
        shares = [[step, f"{count / one.runs:.1%}", f"{mean:.4g}"] for step, count, mean in steps[: 2 * _SHOWN]]
        heads = ("lost at", "runs", "losses a run")
        console.print(printing.table(heads, shares, heads[1:]))
        parties = one.parties()
        names = ", ".join(f"{party} ({count / one.runs:.1%})" for party, count in parties[:_SHOWN])
        more = f" and {len(parties) - _SHOWN} more" if len(parties) > _SHOWN else ""
        printing.print_lines(console, [f"lost      {names}{more}"])
    else:
        printing.print_lines(console, ["lost      nobody in any run"])
    printing.print_lines(
        console, (f"ends      {count / one.runs:.1%} {reason}" for reason, count in one.endings()[:_SHOWN])
    )
    scenario = one.loaded.scenario
    printed.print_devices(console, scenario, f" with seed {scenario.seed}; other seeds draw others")


def _verdict(one: Survival, survive: float) -> str:
    from tacit.scenarios.sweeping.survival import enough_runs

    if one.survives(survive):
        return f"yes: with a probability of {survive} or more"
    if one.exact is None and one.probability >= survive:
        needed = f"; {enough_runs(survive):,} runs that all complete would" if survive < 1 else ""
        return f"not shown: {one.runs:,} runs do not show a probability of {survive}{needed}"
    return f"no: a probability of {survive} is not reached"


def _print_choices(
    console: Console, found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None
) -> None:
    """Print a line for each combination of values, and the cheapest one that survives."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.list_fields import label
    from tacit.scenarios.sweeping.survival import enough_runs

    scenarios = [one.loaded.scenario for one in found]
    labels = {key: label(key, scenarios) for key, _ in found[0].values}
    exact, energy = any(one.exact is not None for one in found), any(one.counts_energy for one in found)
    rows = []
    for one in found:
        low, high = one.interval
        cells = [*(value for _, value in one.values), _chance(one.probability), f"{_chance(low)} to {_chance(high)}"]
        if exact:
            cells.append("-" if one.exact is None else _chance(one.exact.probability))
        for name in ("bytes", "seconds"):
            figure = one.figure(name, completed=True)
            cells += ["-", "-"] if figure is None else [
                _in_words(figure.mean, name), _in_words(figure.percentile_95, name)
            ]  # fmt: skip
        lost = one.figure("rounds_lost")
        cells.append("-" if lost is None else f"{lost.mean:.4g}")
        if energy:
            figure = one.figure("joules", completed=True)
            cells += ["-", "-"] if figure is None else [
                format_joules(figure.mean), format_joules(figure.percentile_95)
            ]  # fmt: skip
        rows.append(cells)
    columns = (
        "completes", "95 % interval", *(["exact"] if exact else []), "bytes", "bytes, 95 %", "time", "time, 95 %",
        "rounds lost", *(["energy", "energy, 95 %"] if energy else []),
    )  # fmt: skip
    optional = ("energy, 95 %", "time, 95 %", "bytes, 95 %", "exact")
    console.print(printing.table((*labels.values(), *columns), rows, columns, optional=optional))
    lines = ["figures   costs are of the runs that complete; rounds lost are of all"]
    wanted = "ever completes" if survive is None else f"completes with a probability of {survive}"
    if chosen is None:
        lines.append(f"cheapest  none: no combination {wanted}")
        if survive is not None and survive < 1 and any(one.probability >= survive for one in found):
            lines.append(
                f"runs      {found[0].runs:,} runs are too few to show {survive}: --runs {enough_runs(survive)} or more"
            )
    else:
        named = ", ".join(f"{labels[key]} = {value}" for key, value in chosen.values)
        cost = _in_words(chosen.cost(_NAMES[by]), _NAMES[by])
        lines.append(f"cheapest  by {by}, of those that {wanted.replace('completes', 'complete')}, {named}: {cost}")
    printing.print_lines(console, lines)
