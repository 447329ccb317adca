"""What `tacit predict` does: bytes, time and memory of runs that are not run, and the cheapest of several choices."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from scenarios.command.options import Debug, Over, Plugins, Seed, Set, SourceFile
from sim.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from scenarios.running.folder import ByteRow
    from scenarios.schema.scenario import Scenario
    from scenarios.sweeping.runs import Plan

__all__ = ["predict"]

_COLUMNS = ("messages", "payload", "sealing", "envelope", "total", "headers")

_SEEDS = 5
_MANY = 100_000
"""Messages of a run from which on one seed is enough, unless --seeds says otherwise: with many, times differ little."""


class By(Enum):
    """What the cheapest choice has least of."""

    BYTES = "bytes"
    TIME = "time"
    MEMORY = "memory"


class Predicted(NamedTuple):
    """What the run of a `plan` will take, by step and type; `seconds` by seed, of which the first is the plan's."""

    plan: Plan
    rows: list[ByteRow]
    seconds: dict[int, float]
    memory: int

    def sums(self) -> dict[str, int]:
        """The numbers of all messages and bytes."""
        return {name: sum(getattr(row, name) for row in self.rows) for name in _COLUMNS}

    @property
    def virtual_seconds(self) -> float:
        """The median of all seeds."""
        return statistics.median(self.seconds.values())

    def cost(self, by: By) -> float:
        """The number by which choices are compared."""
        return {By.BYTES: self.sums()["total"], By.TIME: self.virtual_seconds, By.MEMORY: self.memory}[by]

    def in_words(self, by: By) -> str:
        """`cost` with its unit."""
        exact = f"{self.sums()['total']:,} bytes"
        return {
            By.BYTES: exact, By.TIME: format_duration(self.virtual_seconds), By.MEMORY: format_bytes(self.memory),
        }[by]  # fmt: skip

    def time_in_words(self) -> str:
        """The virtual time, and how it differs with the seed."""
        found = format_duration(self.virtual_seconds)
        if len(self.seconds) == 1:
            return found
        least, most = (format_duration(end(self.seconds.values())) for end in (min, max))
        return f"{found}   (median of the seeds {min(self.seconds)} to {max(self.seconds)}: {least} to {most})"

    def record(self) -> dict[str, Any]:
        """What the JSON file has of it."""
        scenario = self.plan.loaded.scenario
        lines = [
            {"step": row.step, "type": row.type, **{name: getattr(row, name) for name in _COLUMNS}} for row in self.rows
        ]
        about = {
            "scenario": self.plan.loaded.name, "protocol": scenario.protocol.name, "seed": scenario.seed,
            "values": dict(self.plan.values),
        }  # fmt: skip
        times = {"virtual_seconds": self.virtual_seconds, "virtual_seconds_by_seed": self.seconds}
        return {**about, **self.sums(), **times, "peak_memory": self.memory, "rows": lines}


def predict(
    file: SourceFile,
    over: Over = None,
    by: Annotated[By, typer.Option(help="What the cheapest combination has least of.")] = By.BYTES,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The time is the median of the seed and those after it, 5 unless large."),
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers here, too; -: print them alone.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Messages, bytes, virtual time and peak memory of a run, by formula: nothing is run.

    They are those of a run in which nobody is lost and nothing is sent again. The bytes, by step and type, are exact;
    the time comes from the planned messages and the cost of the planned work, and the memory is that of one process,
    as with --engine inline. With --over, the totals for each combination of values, and the cheapest one.
    """
    from scenarios.console import printing
    from scenarios.sweeping.runs import plan

    console = printing.make_console()
    count = seeds or _SEEDS
    plans = plan(file, over or (), count, changes or (), seed, to_run=False)
    most = None if seeds else _MANY
    found = [_predicted(plans[first : first + count], most) for first in range(0, len(plans), count)]
    least = min(one.cost(by) for one in found)
    cheapest = [one for one in found if one.cost(by) == least]
    if str(json_file) != "-":
        _print(console, found, cheapest, by)
    if json_file is not None:
        values = [dict(one.plan.values) for one in cheapest]
        record = {"predicted": [one.record() for one in found], "by": by.value, "cheapest": values}
        text = json.dumps(record, indent=2) + "\n"
        if str(json_file) == "-":
            console.file.write(text)
        else:
            json_file.write_text(text, encoding="utf-8")
    return 0


def _predicted(plans: Sequence[Plan], most: int | None) -> Predicted:
    """What the first of `plans` will take, which differ in their seeds alone; of more messages than `most` the only."""
    from scenarios.running.folder import ByteRow
    from scenarios.running.prediction import predict_run

    first, *others = plans
    scenario = first.loaded.scenario
    found = predict_run(scenario, first.loaded.where)
    rows = [
        ByteRow(*key, row.messages, row.payload, row.sealing, row.envelope, row.headers)
        for key, row in found.counts.items()
    ]
    seconds = {scenario.seed: found.virtual_seconds}
    if most is None or sum(row.messages for row in rows) <= most:
        for one in others:
            seconds[one.loaded.scenario.seed] = predict_run(one.loaded.scenario, one.loaded.where).virtual_seconds
    return Predicted(first, rows, seconds, found.peak_memory)


def _print(console: Console, found: Sequence[Predicted], cheapest: Sequence[Predicted], by: By) -> None:
    from scenarios.console import printing
    from scenarios.files.checks import cautions, notes
    from scenarios.reporting import printed

    first = found[0].plan.loaded
    printing.print_lines(console, [f"{first.scenario.title or first.name}   (seed {first.scenario.seed})"])
    if found[0].plan.values:
        _print_choices(console, found, cheapest, by)
    else:
        console.print(printed.byte_table(found[0].rows, exact=True))
        printing.print_lines(
            console, [f"time      {found[0].time_in_words()}", f"memory    {found[0].in_words(By.MEMORY)}"]
        )
    printing.print_lines(console, _remarks([one.plan.loaded.scenario for one in found]))
    noted = dict.fromkeys(line for one in found for line in notes(one.plan.loaded.scenario))
    printing.print_lines(console, (f"note      {line}" for line in noted))
    warnings = dict.fromkeys(line for one in cheapest for line in cautions(one.plan.loaded.scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in warnings))


def _print_choices(console: Console, found: Sequence[Predicted], cheapest: Sequence[Predicted], by: By) -> None:
    """A line for each combination of values, and the cheapest of them."""
    from scenarios.console import printing
    from scenarios.files.list_fields import label

    scenarios = [one.plan.loaded.scenario for one in found]
    labels = {key: label(key, scenarios) for key, _ in found[0].plan.values}
    lines = [
        [
            *(value for _, value in one.plan.values),
            f"{one.sums()['messages']:,}",
            f"{one.sums()['total']:,}",
            one.in_words(By.TIME),
            one.in_words(By.MEMORY),
        ]
        for one in found
    ]
    columns = ("messages", "bytes", "time", "memory")
    console.print(printing.table((*labels.values(), *columns), lines, columns))
    least = cheapest[0].in_words(by)
    if len(cheapest) == len(found) > 1:
        printing.print_lines(console, [f"cheapest  none by {by.value}: {least} each"])
        return
    named = (", ".join(f"{labels[key]} = {value}" for key, value in one.plan.values) for one in cheapest)
    printing.print_lines(console, [f"cheapest  by {by.value}, {'; or '.join(named)}: {least}"])


def _remarks(scenarios: Sequence[Scenario]) -> list[str]:
    """A line for each thing that the numbers leave out."""
    from parties.fleet.fleet import Fleet

    found = []
    if any(one.fault for one in scenarios):
        found.append("faults    are left out: the numbers are those of a run without them")
    if any(client.availability for one in scenarios for client in one.client):
        found.append("clients   are taken as up all the time: their availability is left out")
    if any(Fleet(one).loses for one in scenarios):
        found.append("loss      is left out: what the network loses and is sent again is not counted")
    if any(one.cost not in ("modelled", "free") for one in scenarios):
        found.append("cost      is that of the cost table: what is measured as it runs is not known before")
    return found
