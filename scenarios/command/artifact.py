"""The command `tacit artifact`: packs runs so that others can repeat them."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug

__all__ = ["artifact"]


def artifact(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs that have ended, or of sweeps.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to make; DIR.zip is written beside it (default: artifact).")
    ] = Path("artifact"),
    wheel: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Wheel of Tacit to pack. Needed if no package index has the version that made the runs.",
        ),
    ] = None,
    without_data: Annotated[
        bool,
        typer.Option("--without-data", help="Leave out your own data and model files; list them with their SHA-256."),
    ] = False,
    debug: Debug = False,
) -> int:
    """Pack runs so that others can repeat them: a folder and a zip.

    The artifact holds the scenarios with their seeds, your own code and files, the expected results with their hashes,
    and the exact versions. Its README.md is the text of an artifact appendix. Its script repeat.py repeats each run and
    compares the results.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.artifact import pack

    made = pack(folders, out, wheel=wheel, with_data=not without_data)
    lines = [f"runs      {', '.join(made.runs)}", *(f"note      {note}" for note in made.notes)]
    lines += [f"folder    {made.folder}", f"zip       {made.archive}", f"repeat    python {made.folder}/repeat.py"]
    printing.print_lines(printing.make_console(), lines)
    return 0
