"""What `tacit predict` does: messages and bytes of runs that are not run, and the cheapest of several choices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from scenarios.command.options import Debug, Plugins, Seed, Set

if TYPE_CHECKING:
    from rich.console import Console

    from scenarios.running.folder import ByteRow
    from scenarios.schema.scenario import Scenario
    from scenarios.sweeping.runs import Plan

__all__ = ["predict"]

_COLUMNS = ("messages", "payload", "sealing", "envelope", "total")


class Prediction(NamedTuple):
    """The messages and bytes of the run of a `plan`, by step and type."""

    plan: Plan
    rows: list[ByteRow]

    def sums(self) -> dict[str, int]:
        """The numbers of all messages and bytes."""
        return {name: sum(getattr(row, name) for row in self.rows) for name in _COLUMNS}

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
        return {**about, **self.sums(), "rows": lines}


def predict(
    file: Annotated[str, typer.Argument(metavar="FILE-or-NAME", help="A scenario file, or the name of a shipped one.")],
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=X,Y,Z", help="Values of a key, or KEY=[TOML list]; repeated: all combinations."),
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers here, too; -: print them alone.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Messages and bytes of a run, by step and type, by formula: nothing is run. No times, and no memory.

    They are those of a run in which nobody is lost and nothing is sent again. With --over, the totals for each
    combination of values, and the one with the fewest bytes.
    """
    from scenarios.console import printing
    from scenarios.running.folder import ByteRow
    from scenarios.running.prediction import predicted_counts
    from scenarios.sweeping.runs import plan

    console = printing.make_console()
    found = []
    for one in plan(file, over or (), 1, changes or (), seed):
        counted = predicted_counts(one.loaded.scenario, one.loaded.where)
        rows = [ByteRow(*key, row.messages, row.payload, row.sealing, row.envelope) for key, row in counted.items()]
        found.append(Prediction(one, rows))
    cheapest = [one for one in found if one.sums()["total"] == min(other.sums()["total"] for other in found)]
    if str(json_file) != "-":
        _print(console, found, cheapest)
    if json_file is not None:
        record = {"predicted": [one.record() for one in found], "cheapest": [dict(one.plan.values) for one in cheapest]}
        text = json.dumps(record, indent=2) + "\n"
        if str(json_file) == "-":
            console.file.write(text)
        else:
            json_file.write_text(text, encoding="utf-8")
    return 0


def _print(console: Console, found: Sequence[Prediction], cheapest: Sequence[Prediction]) -> None:
    from scenarios.command import report
    from scenarios.console import printing
    from scenarios.files.checks import cautions

    first = found[0].plan.loaded
    printing.print_lines(console, [f"{first.scenario.title or first.name}   (seed {first.scenario.seed})"])
    if found[0].plan.values:
        _print_choices(console, found, cheapest)
    else:
        console.print(report.byte_table(found[0].rows, exact=True))
    printing.print_lines(console, _remarks([one.plan.loaded.scenario for one in found]))
    warnings = dict.fromkeys(line for one in cheapest for line in cautions(one.plan.loaded.scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in warnings))


def _print_choices(console: Console, found: Sequence[Prediction], cheapest: Sequence[Prediction]) -> None:
    """A line for each combination of values, and the cheapest of them."""
    from scenarios.console import printing
    from scenarios.files.fault_fields import label

    scenarios = [one.plan.loaded.scenario for one in found]
    labels = {key: label(key, scenarios) for key, _ in found[0].plan.values}
    lines = [
        [*(value for _, value in one.plan.values), *(f"{count:,}" for count in one.sums().values())] for one in found
    ]
    console.print(printing.table((*labels.values(), *_COLUMNS), lines, _COLUMNS))
    total = f"{cheapest[0].sums()['total']:,} bytes"
    if len(cheapest) == len(found) > 1:
        printing.print_lines(console, [f"cheapest  none: all send {total}"])
        return
    named = (", ".join(f"{labels[key]} = {value}" for key, value in one.plan.values) for one in cheapest)
    printing.print_lines(console, [f"cheapest  {'; or '.join(named)}: {total}"])


def _remarks(scenarios: Sequence[Scenario]) -> list[str]:
    """A line for each thing that the numbers leave out."""
    found = []
    if any(one.fault for one in scenarios):
        found.append("faults    are left out: the numbers are those of a run without them")
    if any(one.network.loss for one in scenarios):
        found.append("loss      is left out: what the network loses and is sent again is not counted")
    return found
