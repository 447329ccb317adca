"""What `tacit report` does: one page of a run, a sweep, a chaos sweep, or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from scenarios.command.options import Debug, Plugins

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
    debug: Debug = False,
) -> int:
    """One HTML page that needs no network: the verdict, a timeline, bytes, curves, what was learned, the scenario.

    Of a sweep its means, of a chaos sweep who was struck where, of several runs how they differ. Overwrites its file.
    """
    from scenarios.console import printing
    from scenarios.reporting.report import report as page_of

    name = "report.html" if len(folders) == 1 else "comparison.html"
    path = out or (folders[0].with_suffix(".html") if folders[0].is_file() else folders[0] / name)
    text = page_of(folders)
    path.write_text(text, encoding="utf-8")
    printing.print_lines(printing.make_console(), [f"report    {path}"])
    return 0
