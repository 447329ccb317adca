"""The command `tacit new`: a commented scenario file to begin with, and the JSON Schema beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["new"]


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, such as first.toml.")],
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Protocol, one of `tacit steps` (default: xclp).", autocompletion=completing.protocols
        ),
    ] = None,
    clients: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of clients (default: 10).")] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Network of the clients: default, lan, wan, fiber, 4g, 3g or satellite (default: default).",
        ),
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Fault of one client: none, or a kind such as crash, slow, partition or lose (default: crash).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scenario (default: 1).", show_default=False)] = 1,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Write a commented scenario file that runs, and a JSON Schema for completion in editors.

    On a terminal, the command asks for the options that you leave out; elsewhere it takes their defaults.
    """
    from tacit.protocols.registry import PROTOCOLS
    from tacit.scenarios.command.starter import FAULTS, NETWORKS, SCHEMA_FILE, Wanted, starter
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import load_plugins
    from tacit.scenarios.schema.scenario import ScenarioError

    load_plugins()
    if file.exists():
        raise ScenarioError(str(file), "", "exists already; name another file")
    if file.suffix != ".toml":
        raise ScenarioError(str(file), "", "a scenario is a TOML file; name one, such as first.toml")
    usual = Wanted()
    wanted = Wanted(
        protocol=_choice("Protocol", protocol, usual.protocol, PROTOCOLS),
        clients=_choice("Clients", clients, usual.clients, ()),
        network=_choice("Network", network, usual.network, NETWORKS),
        fault=_choice("Fault", fault, usual.fault, FAULTS),
        seed=seed,
        plugins=tuple(_beside(path, file.parent) for path in plugin or ()),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    text = starter(wanted, file.parent)
    file.write_text(text, encoding="utf-8")
    note = _write_schema(file.parent / SCHEMA_FILE)
    console = printing.make_console()
    printing.print_lines(console, [f"scenario  {file}", f"schema    {note}", f"next      tacit run {file}"])
    return 0


def _choice(what: str, given: Any, usual: Any, known: Iterable[str]) -> Any:
    """The value of an option: the `given` one, else the answer to a question on a terminal, else the `usual` one."""
    if given is not None or not sys.stdin.isatty():
        return usual if given is None else given
    listed = ", ".join(known)
    return typer.prompt(f"{what} ({listed})" if listed else what, default=usual, type=type(usual))


def _beside(plugin: Path, folder: Path) -> str:
    """The path of `plugin` relative to `folder`. Raises ScenarioError if it is elsewhere."""
    from tacit.scenarios.schema.scenario import ScenarioError

    try:
        return plugin.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        problem = f"is not in {folder} or below, where a scenario names its plugins; write the new file beside it"
        raise ScenarioError(f"--plugin {plugin}", "", problem) from None


def _write_schema(path: Path) -> str:
    """Write the schema to `path`, unless another file exists; return a message about it."""
    from tacit.scenarios.files.json_schema import TITLE, schema_text

    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("title") != TITLE:
            return f"{path} is another file and stays; `tacit schema --out FILE` writes the schema elsewhere"
    path.write_text(schema_text(), encoding="utf-8")
    return str(path)
