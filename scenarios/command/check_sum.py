"""The command `tacit check-sum`: runs the conformance suite on a secure sum, and prints a table of its cases."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Seed, Set

if TYPE_CHECKING:
    from tacit.scenarios.testing.conformance import Case, SumReport

__all__ = ["check_sum"]


def check_sum(
    source: Annotated[
        str, typer.Argument(metavar="FILE-or-NAME", help="Plugin file that adds one sum, or the name of a sum.")
    ],
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Try every crash, message and lie, and real processes; takes minutes.")
    ] = False,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Try this case only. Can be repeated.")
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all cases to FILE.")] = None,
    debug: Debug = False,
) -> int:
    """Check that a secure sum keeps the promises of all sums: exact, robust, counted, and secret.

    The exit code is 1 if a case failed.
    """
    import msgspec

    from tacit.scenarios.console import printing
    from tacit.scenarios.console.table import Column, Table
    from tacit.scenarios.schema.scenario import ScenarioError
    from tacit.scenarios.testing.conformance import checked

    if source.endswith(".py") and not Path(source).is_file():
        raise ScenarioError(source, "", "there is no such file; allowed: a plugin file that adds one sum")
    console, notes = printing.make_console(), printing.make_console(stderr=True)
    stopping.interrupt_work()

    def watch(name: str) -> None:
        if notes.is_terminal:
            printing.print_lines(notes, [f"case: {name}"])

    one = 1 if seed is None else seed
    report = checked(source, thorough=thorough, only=case or (), changes=changes or (), seed=one, watch=watch)
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    printing.print_lines(console, [f"sum       {report.sum}", ""])
    columns = (Column("case", key="name"), Column("verdict", of=_verdict), Column("what", key="how"))
    printing.print_table(console, Table.of(report.cases, columns))
    printing.print_lines(console, _conclusion(report))
    return 1 if report.failed else 0


def _verdict(one: "Case") -> str:
    return one.status.upper() if one.status == "failed" else one.status


def _conclusion(report: "SumReport") -> list[str]:
    passed = sum(one.status == "passed" for one in report.cases)
    others = len(report.cases) - passed - len(report.failed)
    line = f"{passed} passed, {len(report.failed)} failed, {others} not judged"
    return [f"cases     {line}", *(f"repeat    {one.repeat}" for one in report.failed)]
