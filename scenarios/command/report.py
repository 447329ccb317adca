"""The command `tacit report`: one page of a run, a sweep, a chaos sweep, or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug, Plugins, Trust

__all__ = ["report"]


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; or that of one sweep, or of one chaos.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page; by default report.html, of several runs comparison.html, in the first folder.",
        ),
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """One HTML page that needs no network: the verdict, a timeline, bytes, curves, what was learned, the scenario.

    Of a sweep its means, of a chaos sweep who was struck where, of several runs how they differ. Overwrites its file.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import withheld
    from tacit.scenarios.reporting.from_python import report as write

    page = write(folders, out, trust=trust)
    left_out = dict.fromkeys(filter(None, map(withheld, folders)))
    lines = [f"report    {page}", *(f"          without what needs code: {problem}" for problem in left_out)]
    printing.print_lines(printing.make_console(), lines)
    return 0
