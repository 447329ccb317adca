"""The command `tacit keys`: the keys of scenario files, and who has what in one."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins, Trust

if TYPE_CHECKING:
    from tacit.scenarios.schema.keys import Key

__all__ = ["keys"]

_WIDTH = 120
"""The longest lines of descriptions."""


def _print_parties(file: str) -> None:
    """Print who has what in a scenario."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.reporting.parties import party_tables
    from tacit.scenarios.running.whole import check_whole

    check_whole(Path(file))
    console = printing.make_console()
    for one in party_tables(read(file, to_run=False).scenario):
        printing.print_lines(console, [one.title])
        console.print(printing.table(one.columns, one.rows))


def keys(
    prefix: Annotated[
        str,
        typer.Argument(
            help="Prefix of keys, such as network or data.label; or a scenario, to list its parties' settings.",
            autocompletion=completing.keys,
        ),
    ] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """List the keys of scenario files that begin with PREFIX (default: all): type, unit, default and protocols.

    With a scenario (file, run folder or name): list each party's device and network settings, the links and the hosts.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.shipped import shipped
    from tacit.scenarios.reporting.from_python import keys as keys_with
    from tacit.scenarios.schema.scenario import ScenarioError

    try:
        found = keys_with(prefix)
    except ScenarioError:
        if prefix not in shipped() and not Path(prefix).exists():
            raise
        _print_parties(prefix)
        return 0
    console = printing.make_console()
    if markdown:
        columns = ("key", "allowed", "unit", "default", "used by", "what it says")
        rows = [
            (key.name, key.type, key.unit, key.default, ", ".join(key.protocols) or "all", key.description)
            for key in found
        ]
        lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
        printing.print_lines(console, ("| " + " | ".join(line) + " |" for line in lines))
    else:
        width = min(printing.asked_width() or console.width, _WIDTH)
        printing.print_lines(console, (line for key in found for line in _lines(key, width)))
    return 0


def _lines(key: Key, width: int) -> list[str]:
    """Return the description of a key, in lines of up to `width` characters."""
    default = f" = {key.default}" if key.default else ""
    unit = f" ({key.unit})" if key.unit else ""
    about = [key.type + unit, f"used by {', '.join(key.protocols)}" if key.protocols else ""]
    texts = ("; ".join(filter(None, about)), key.description)
    wrapper = textwrap.TextWrapper(width, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
    return [f"{key.name}{default}", *(line for one in texts for line in wrapper.wrap(one))]
