"""What `tacit keys` does: the keys of scenario files, and who has what in one."""

from pathlib import Path
from typing import Annotated

import typer

from scenarios.command import completing
from scenarios.command.options import Debug, Plugins

__all__ = ["keys"]


def _print_parties(file: str) -> None:
    """Print who has what in a scenario."""
    from scenarios.console import printing
    from scenarios.files.reading import read
    from scenarios.reporting.parties import party_tables

    console = printing.make_console()
    for one in party_tables(read(file, to_run=False).scenario):
        printing.print_lines(console, [one.title])
        console.print(printing.table(one.columns, one.rows))


def keys(
    prefix: Annotated[
        str,
        typer.Argument(
            help="Only keys that begin so, as network or data.label; or a scenario: who has what in it.",
            autocompletion=completing.keys,
        ),
    ] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for the docs.")] = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Every key of a scenario file, or those that begin with PREFIX: type, unit, default, the protocols that use it.

    Of a scenario, as a file, a run's folder or a name: what each of its parties has, and the links and hosts.
    """
    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins
    from scenarios.files.shipped import shipped
    from scenarios.schema.keys import keys as all_keys
    from scenarios.schema.scenario import ScenarioError
    from sim.registry import similar

    load_plugins()
    columns = ("key", "allowed", "unit", "default", "used by", "what it says")
    found = [key for key in all_keys() if key.name.startswith(prefix)]
    if not found and (prefix in shipped() or Path(prefix).exists()):
        _print_parties(prefix)
        return 0
    if not found:
        begins = dict.fromkeys(part for key in all_keys() for part in (key.name.partition(".")[0], key.name))
        raise ScenarioError(prefix, "", "no key begins so" + (similar(prefix, begins) or "; `tacit keys` lists all"))
    rows = [
        (key.name, key.type, key.unit, key.default, ", ".join(key.protocols) or "all", key.description) for key in found
    ]
    if markdown:
        lines = [
            columns,
            ["---"] * len(columns),
            *([cell.replace("|", "\\|") for cell in row] for row in rows),
        ]
        printing.print_lines(printing.make_console(), ("| " + " | ".join(line) + " |" for line in lines))
    else:
        printing.make_console().print(printing.table(columns, rows))
    return 0
