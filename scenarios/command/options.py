"""Options that several commands have."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from scenarios.command import completing
from sim.plugged import PluginWarning

__all__ = ["Debug", "Jobs", "Over", "Plugins", "Seed", "Set", "SourceFile", "give", "show_version", "warnings_as_lines"]

SourceFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE-or-NAME",
        help="A scenario file, a run's folder, or a name (`tacit list`).",
        autocompletion=completing.scenarios,
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="In place of the scenario's seed.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key (`tacit keys`); may be repeated.",
        autocompletion=completing.changes,
    ),
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=X,Y,Z",
        help="Values of a key, or KEY=[TOML list]; repeated: all combinations.",
        autocompletion=completing.swept,
    ),
]
Jobs = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Runs at a time; or ray, or ray:HOST:PORT. Default: 1; of chaos one for each core.",
        autocompletion=completing.jobs,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def give(files: list[Path] | None) -> list[Path] | None:
    """`files`, which become plugins of all scenarios that the command reads."""
    if files or "scenarios.files.plugins" in sys.modules:  # importing it takes a second
        from scenarios.files import plugins

        plugins.give(files or ())
    return files


Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", callback=give, help="A Python file of your own; may be repeated."),
]


def show_version(wanted: bool) -> None:
    """Print the version and end the command, if that is `wanted`."""
    if wanted:
        from scenarios.running.environment import version

        typer.echo(f"tacit {version()}")
        raise typer.Exit


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Within it, a plugin that is left out is a line on standard error."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, PluginWarning):
                typer.echo(f"WARNING  {' '.join(str(message).split())}", err=True)
            else:
                others(message, category, *place)

        warnings.simplefilter("always", PluginWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
