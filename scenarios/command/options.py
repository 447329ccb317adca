"""Options that several commands share."""

import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from tacit.scenarios.command import completing
from tacit.sim.plugged import PluginWarning

__all__ = [
    "Debug", "Jobs", "Over", "Plugins", "Seed", "Set", "SourceFile", "give", "group", "show_version",
    "warnings_as_lines",
]  # fmt: skip

SourceFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE-or-NAME",
        help="Scenario file, run folder, or scenario name (see `tacit list`).",
        autocompletion=completing.scenarios,
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed to use instead of the scenario's.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the scenario (see `tacit keys`). Can be repeated.",
        autocompletion=completing.changes,
    ),
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=X,Y,Z",
        help="Values to try for a key, or KEY=[TOML list]. If repeated, all combinations are used.",
        autocompletion=completing.swept,
    ),
]
Jobs = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Number of parallel runs, or ray, or ray:HOST:PORT (default: 1; chaos: one per core).",
        autocompletion=completing.jobs,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")]


def give(files: list[Path] | None) -> list[Path] | None:
    """Make `files` plugins of all scenarios that the command reads; return them."""
    if files or "tacit.scenarios.files.plugins" in sys.modules:  # importing it takes a second
        from tacit.scenarios.files import plugins

        plugins.give(files or ())
    return files


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE", callback=give, help="Plugin to load, a Python file of your own. Can be repeated."
    ),
]


def _look(context: typer.Context, trust: bool) -> bool:
    """Return `trust`. Without trust the command does not run code in the folders that it reads."""
    from tacit.scenarios.files import plugins

    context.with_resource(plugins.looking(trust))
    return trust


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_look,
        help="Also run the code (plugins) in the run folder. Use this only if you trust the code.",
    ),
]


class PlainCommand(TyperCommand):
    """A command whose help is plain text: square brackets, as in ``[[fault]]``, are no markup."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        hints = get_type_hints(inspect.unwrap(self.callback), include_extras=True) if self.callback else {}
        for parameter in self.params:  # click 8.5 removes the help of arguments made by typer 0.20
            if isinstance(parameter, TyperArgument) and not parameter.help:
                about = getattr(hints.get(parameter.name or ""), "__metadata__", ())
                parameter.help = next((one.help for one in about if getattr(one, "help", None)), None)

    def get_help(self, ctx: Any) -> str:
        """The help, without typer's escapes."""
        return super().get_help(ctx).replace("\\[", "[")

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: typer lists arguments among the options, and click 8.5 would list them twice."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example on one line, to be copied."""
        formatter.write(f"\n  {self.epilog}\n")


class PlainGroup(TyperGroup):
    """A group whose help is plain text, with the first paragraph of each command's help, uncut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names of the commands and their descriptions."""
        shown = [(name, one.get_short_help_str(1000)) for name, one in self.commands.items() if not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)


def group(help: str) -> typer.Typer:
    """A group of commands, described by `help`, whose help is plain text."""
    return typer.Typer(
        help=help,
        cls=PlainGroup,
        no_args_is_help=True,
        suggest_commands=False,  # click suggests them
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )


def show_version(wanted: bool) -> None:
    """Print the version and end the command, if `wanted`."""
    if wanted:
        from tacit.scenarios.running.environment import version

        typer.echo(f"tacit {version()}")
        raise typer.Exit


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Inside this context, warnings about skipped plugins and abandoned runs are lines on standard error."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if category.__module__.startswith("tacit."):  # not imported here: that takes a second
                typer.echo(f"WARNING  {' '.join(str(message).split())}", err=True)
            else:
                others(message, category, *place)

        warnings.simplefilter("always", PluginWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
