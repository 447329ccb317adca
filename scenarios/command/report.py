"""The command `tacit report`: one page of a run, a sweep, a chaos sweep, or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug, Plugins, Trust

__all__ = ["report"]


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, or the folder of one sweep or chaos campaign.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write (default: report.html, or comparison.html for several runs, in the first folder).",
        ),
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Write an HTML page of a run that works offline: verdict, timeline, bytes, curves, what parties learn, scenario.

    For a sweep: means. For a chaos campaign: which fault struck whom. For several runs: their differences. An existing
    page is replaced.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import withheld
    from tacit.scenarios.reporting.from_python import report as write

    page = write(folders, out, trust=trust)
    left_out = dict.fromkeys(filter(None, map(withheld, folders)))
    lines = [f"report    {page}", *(f"          without what needs code: {problem}" for problem in left_out)]
    printing.print_lines(printing.make_console(), lines)
    return 0
