"""The command `tacit steps`: the steps that a scenario's faults may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins, Trust

if TYPE_CHECKING:
    from tacit.protocols.declaration import Declaration

__all__ = ["steps"]


def steps(
    name: Annotated[
        str,
        typer.Argument(
            help="Protocol, or a scenario, whose protocol is used (default: all protocols).",
            autocompletion=completing.protocols,
        ),
    ] = "",
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """List the steps of a protocol, which faults can name; without NAME, a short list for all protocols."""
    from tacit.protocols.registry import PROTOCOLS
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import load_plugins
    from tacit.scenarios.reporting.from_python import protocol_of

    load_plugins()
    console = printing.make_console()
    if not name:
        for group in _of_all():
            printing.print_lines(console, group)
        return 0
    protocol = PROTOCOLS[protocol_of(name)]
    printing.print_lines(console, [f"{protocol.name}: {protocol.summary}"])
    rows = [(step.role, step.name, step.what) for step in protocol.steps]
    console.print(printing.table(("role", "step", "what is done"), rows))
    printing.print_lines(console, (f"the {role} learns {what}" for role, what in protocol.learned.items()))
    return 0


def _of_all() -> list[list[str]]:
    """Lines for each set of steps: the protocols that take just these, then the steps of each role."""
    from tacit.protocols.registry import PROTOCOLS

    groups: dict[tuple[tuple[str, str], ...], list[Declaration]] = {}
    for one in PROTOCOLS.values():
        groups.setdefault(tuple((step.role, step.name) for step in one.steps), []).append(one)
    found = []
    for taken, protocols in groups.items():
        by_role = {role: [name for each, name in taken if each == role] for role in dict(taken)}
        lines = (f"  {role:<7} {' '.join(names)}" for role, names in by_role.items())
        found.append([", ".join(one.name for one in protocols), *lines])
    return found
