"""The command `tacit predict`: predicts bytes, time and memory of runs, and names the cheapest of several
combinations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command.options import Debug, Jobs, Over, Plugins, Seed, Set, SourceFile, Trust
from tacit.sim.units import format_bytes, format_duration, format_joules

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.schema.scenario import Scenario
    from tacit.scenarios.sweeping.predicted import Predicted

__all__ = ["predict"]


class By(Enum):
    """The quantity to minimize."""

    BYTES = "bytes"
    TIME = "time"
    MEMORY = "memory"
    ENERGY = "energy"


def predict(
    file: SourceFile,
    over: Over = None,
    by: Annotated[By, typer.Option(help="Cost to minimize when naming the cheapest combination.")] = By.BYTES,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of seeds; the time is the median over them (default: 5; large runs: 1)."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Predict N runs with different seeds: how often they survive, who is lost where."
        ),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SHARE[@STEP]",
            help="With --runs: each round loses this share of its clients, such as 10%@sum.mask (default: none but the "
            "scenario's losses; without STEP: any step; a whole number: as many clients). They are back in the next "
            "round, or never with ,back_after=never. Can be repeated.",
        ),
    ] = None,
    survive: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            min=0,
            max=1,
            help="With --runs: name the cheapest combination that survives with probability P (see --rounds).",
        ),
    ] = None,
    rounds: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="With --runs: a run survives if it completes and this share of its rounds has a result (default: "
            "0.9; 0: one round).",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --runs: keep the result of each run in FILE, and use those that it has from an earlier command.",
        ),
    ] = None,
    jobs: Jobs = None,
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="With --runs: write a page with the distributions.")
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all numbers to FILE (-: print only them).")
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Predict the messages, bytes, virtual time and peak memory of a run, with its faults and losses.

    The simulated parties exchange messages of the real sizes over the run's links, without costly computations. With
    the same seed, the messages and bytes are those of the run. The memory is that of one process (--engine inline).
    With --over: the totals of each combination of values, and the cheapest one.
    With --runs: the probability that a run survives its losses, and the distributions of its costs.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.whole import check_whole
    from tacit.scenarios.sweeping.predicted import FEW_SEEDS, MANY, check_energy, predicted_of
    from tacit.scenarios.sweeping.runs import plan

    check_whole(Path(file))
    if runs is not None:
        if seeds is not None:
            raise typer.BadParameter("does not go with --runs, which has a seed for each run", param_hint="--seeds")
        from tacit.scenarios.command.survival import survival

        return survival(
            file, over or (), runs, loss or (), by.value, survive, rounds, jobs, seed, changes or (), json_file, page,
            resume,
        )  # fmt: skip
    alone = {"--loss": loss, "--survive": survive, "--rounds": rounds, "--jobs": jobs, "--html": page}
    alone |= {"--resume": resume}
    for option, given in alone.items():
        if given is not None:
            raise typer.BadParameter("needs --runs, as in --runs 1000", param_hint=option)
    console = printing.make_console()
    count = seeds or FEW_SEEDS
    plans = plan(file, over or (), count, changes or (), seed, to_run=False)
    if by is By.ENERGY:
        for one in plans:
            check_energy(one.loaded)
    most = None if seeds else MANY
    found = [predicted_of(plans[first : first + count], most) for first in range(0, len(plans), count)]
    complete = [one for one in found if one.outcome == "completed"]
    least = min((_cost(one, by) for one in complete), default=None)
    cheapest = [one for one in complete if _cost(one, by) == least]
    if str(json_file) != "-":
        _print(console, found, cheapest, by)
    if json_file is not None:
        values = [dict(one.plan.values) for one in cheapest]
        record = {"predicted": [one.record() for one in found], "by": by.value, "cheapest": values}
        printing.write_text(console, json_file, json.dumps(record, indent=2) + "\n")
    return 0


def _cost(one: Predicted, by: By) -> float:
    """The cost by which combinations are compared, in the units of `by`."""
    joules = 0.0 if one.energy is None else one.energy.joules
    costs = {By.BYTES: one.sums()["total"], By.TIME: one.virtual_seconds, By.MEMORY: one.memory, By.ENERGY: joules}
    return costs[by]


def _in_words(one: Predicted, by: By) -> str:
    """The cost with its unit, in words."""
    exact = f"{one.sums()['total']:,} bytes"
    return {
        By.BYTES: exact, By.TIME: format_duration(one.virtual_seconds), By.MEMORY: format_bytes(one.memory),
        By.ENERGY: "-" if one.energy is None else format_joules(one.energy.joules),
    }[by]  # fmt: skip


def _time_in_words(one: Predicted) -> str:
    """The virtual time and its range over the seeds, in words."""
    found = format_duration(one.virtual_seconds)
    if len(one.seconds) == 1:
        return found
    least, most = (format_duration(end(one.seconds.values())) for end in (min, max))
    return f"{found}   (median of the seeds {min(one.seconds)} to {max(one.seconds)}: {least} to {most})"


def _ending_in_words(one: Predicted) -> list[str]:
    """Lines on the end of the run with the scenario's own seed and on its lost parties; [] if it completes without
    losses."""
    from tacit.protocols.experiment.simulated import SHOWN, more_than

    lines = [f"outcome   {one.outcome}: {one.reason}"] if one.reason else []
    if one.lost:
        names = tuple(dict.fromkeys(loss.party for loss in one.lost))
        lines.append(f"lost      {', '.join(names[:SHOWN])}{more_than(names[:SHOWN], names)}")
    return lines


def _print(console: Console, found: Sequence[Predicted], cheapest: Sequence[Predicted], by: By) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.cautions import notes
    from tacit.scenarios.reporting import printed
    from tacit.scenarios.running.outlook import cautions

    first = found[0].plan.loaded
    printing.print_lines(console, [f"{first.scenario.title or first.name}   (seed {first.scenario.seed})"])
    if found[0].plan.values:
        _print_choices(console, found, cheapest, by)
    else:
        printed.print_devices(console, first.scenario)
        printing.print_table(console, printed.byte_table(found[0].rows, exact=True))
        printing.print_lines(
            console,
            [
                *_ending_in_words(found[0]),
                f"time      {_time_in_words(found[0])}",
                f"memory    {_in_words(found[0], By.MEMORY)}",
            ],
        )
        if (energy := found[0].energy) is not None:
            printing.print_lines(console, [printed.energy_line(energy)])
            printing.print_table(console, printed.energy_table(energy))
    unused = dict.fromkeys(line for one in found for line in one.plan.loaded.without_effect())
    printing.print_lines(console, (f"unused    {line}" for line in unused))
    printing.print_lines(console, _remarks([one.plan.loaded.scenario for one in found]))
    noted = dict.fromkeys(line for one in found for line in notes(one.plan.loaded.scenario))
    printing.print_lines(console, (f"note      {line}" for line in noted))
    warnings = dict.fromkeys(line for one in cheapest or found for line in cautions(one.plan.loaded.scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in warnings))


def _print_choices(console: Console, found: Sequence[Predicted], cheapest: Sequence[Predicted], by: By) -> None:
    """Print a line for each combination of values, and the cheapest ones."""
    from tacit.scenarios.console import kinds, printing
    from tacit.scenarios.console.table import Column, Table, columns_of
    from tacit.scenarios.files.composing import label

    scenarios = [one.plan.loaded.scenario for one in found]
    labels = {key: label(key, scenarios) for key, _ in found[0].plan.values}
    differing = [name for name in found[0].extent if len({one.extent[name] for one in found}) > 1]
    ends = any(one.outcome != "completed" for one in found)
    counted = any(one.energy is not None for one in found)
    columns = [
        *columns_of(labels.values(), kinds.TEXT),
        *columns_of(differing, kinds.COUNT),
        Column("messages", kinds.COUNT, priority=1),
        Column("bytes", kinds.COUNT),
        Column("time", kinds.SECONDS, priority=3),
        *([Column("bytes a round", kinds.decimals(0))] if "rounds" in differing else ()),
        *([Column("time a round", kinds.SECONDS, priority=2)] if "rounds" in differing else ()),
        Column("memory", kinds.BYTES, priority=0),
        *columns_of(["energy"] * counted, kinds.JOULES),
        *columns_of(["ends"] * ends, kinds.TEXT),
    ]
    rows = [
        [
            *(value for _, value in one.plan.values),
            *(one.extent[name] for name in differing),
            one.sums()["messages"],
            one.sums()["total"],
            one.virtual_seconds,
            *(_a_round(one) if "rounds" in differing else ()),
            one.memory,
            *([one.energy and one.energy.joules] * counted),
            *([one.outcome] * ends),
        ]
        for one in found
    ]
    printing.print_table(console, Table(columns, rows))
    if differing:
        sizes = {name: [one.extent[name] for one in found] for name in differing}
        spans = (f"{name} ({min(some):,} to {max(some):,})" for name, some in sizes.items())
        printing.print_lines(console, [f"differ    in {' and '.join(spans)}: the totals are not of the same work"])
    if not cheapest:
        printing.print_lines(console, ["cheapest  none: no run completes"])
        return
    least = _in_words(cheapest[0], by)
    if len(cheapest) == len(found) > 1:
        printing.print_lines(console, [f"cheapest  no difference by {by.value}: each takes {least}"])
        return
    named = (", ".join(f"{labels[key]} = {value}" for key, value in one.plan.values) for one in cheapest)
    among = " of the runs that complete" if ends else ""
    printing.print_lines(console, [f"cheapest  by {by.value}{among}, {'; or '.join(named)}: {least}"])


def _a_round(one: Predicted) -> tuple[float | None, float | None]:
    """The bytes and virtual seconds of a round, averaged over all rounds."""
    rounds = one.extent["rounds"]
    return (one.sums()["total"] / rounds, one.virtual_seconds / rounds) if rounds else (None, None)


def _remarks(scenarios: Sequence[Scenario]) -> list[str]:
    """A line for each assumption of the predictions."""
    from tacit.protocols.registry import PROTOCOLS

    found = list(
        dict.fromkeys(f"assumed   {line}" for one in scenarios for line in PROTOCOLS[one.protocol.name].assumed(one))
    )
    if any(not one.cost.startswith(("modelled", "free")) for one in scenarios):
        found.append("cost      is that of the cost table: what is measured as it runs is not known before")
    return found
