"""The command `tacit plot`: curves of runs, as a figure for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug

__all__ = ["plot"]

_DEFAULT = Path("plot.svg")


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    x: Annotated[
        str,
        typer.Option(metavar="NAME", help="Horizontal axis: rounds, bytes or time.", autocompletion=completing.x_axes),
    ] = "rounds",
    y: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="accuracy, seconds, bytes, messages, called or answers per round, or a Flower app's metric.",
            autocompletion=completing.quantities,
        ),
    ] = "accuracy",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="New file to write, ending in .svg, .png or .pdf.")
    ] = _DEFAULT,
    debug: Debug = False,
) -> int:
    """Draw curves of runs over rounds as SVG, PNG or PDF; the legend lists the keys that differ between runs.

    Without --out, plot.svg is written and replaced if it exists. No other file is replaced.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.seeing.plot import X, check_plot, curves, draw

    if x not in X:
        raise FolderError(f"--x: {x} is unknown; allowed: {', '.join(X)}")
    check_plot(out)
    if out != _DEFAULT and out.exists():
        raise FolderError(f"--out: {out} exists already; name a new file")
    found = curves(folders, x, y)
    draw(out, found, x, y)
    printing.print_lines(printing.make_console(), [f"plot      {out}"])
    return 0
