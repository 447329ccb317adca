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
        typer.Option("--csv", metavar="FILE", help="A line for each run, step and type; -: print it."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="The same with each run's sums; -: print it.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a formula gives another payload than was sent.")
    ] = False,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Bytes that runs sent, by step and message type, beside the formula's payload where nobody was lost.

    Of a sweep the means for each combination of values.
    """
    from tacit.scenarios.command.bytes import show_bytes
    from tacit.scenarios.console import printing

    return show_bytes(printing.make_console(), folders, csv_file, json_file, check=check)
