"""The options of `tacit bytes`; `tacit.scenarios.command.bytes` does it."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug, Plugins, Trust

__all__ = ["show_bytes"]


def show_bytes(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs and of sweeps.")],
    csv_file: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FILE", help="Write a line for each run, step and message type to FILE (-: print it)."
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the same with the totals of each run to FILE (-: print it)."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the payload that was sent differs from a formula.")
    ] = False,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Show the bytes that runs sent, by step and message type.

    If no client was lost, the table also shows the payload by formula. For a sweep: means per combination of values.
    """
    from tacit.scenarios.command.bytes import show_bytes
    from tacit.scenarios.console import printing

    return show_bytes(printing.make_console(), folders, csv_file, json_file, check=check)
