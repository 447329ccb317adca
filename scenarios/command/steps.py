"""What `tacit steps` does: the steps that a scenario's faults may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scenarios.command import completing
from scenarios.command.options import Debug, Plugins

if TYPE_CHECKING:
    from protocols.declaration import Declaration

__all__ = ["steps"]


def steps(
    name: Annotated[
        str,
        typer.Argument(
            help="A protocol, or a scenario (then: its protocol); without it, all protocols.",
            autocompletion=completing.protocols,
        ),
    ] = "",
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """The steps of a protocol, which a scenario's faults may name; without a NAME those of all, in short."""
    from protocols.registry import PROTOCOLS
    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins

    load_plugins()
    console = printing.make_console()
    if not name:
        for group in _of_all():
            printing.print_lines(console, group)
        return 0
    protocol = PROTOCOLS[_protocol_of(name)]
    printing.print_lines(console, [f"{protocol.name}: {protocol.summary}"])
    rows = [(step.role, step.name, step.what) for step in protocol.steps]
    console.print(printing.table(("role", "step", "what is done"), rows))
    printing.print_lines(console, (f"the {role} learns {what}" for role, what in protocol.learned.items()))
    return 0


def _protocol_of(name: str) -> str:
    """The protocol called `name`, or that of the scenario called so. Raises ScenarioError."""
    from protocols.registry import PROTOCOLS
    from scenarios.files.reading import find, read
    from scenarios.schema.scenario import ScenarioError
    from sim.registry import similar

    if name in PROTOCOLS:
        return name
    try:
        find(name)
    except ScenarioError:
        problem = f"neither a protocol ({', '.join(PROTOCOLS)}) nor a scenario"
        raise ScenarioError(name, "", problem + similar(name, PROTOCOLS)) from None
    return read(name).scenario.protocol.name


def _of_all() -> list[list[str]]:
    """Lines for each set of steps: the protocols that take just these, then the steps of each role."""
    from protocols.registry import PROTOCOLS

    groups: dict[tuple[tuple[str, str], ...], list[Declaration]] = {}
    for one in PROTOCOLS.values():
        groups.setdefault(tuple((step.role, step.name) for step in one.steps), []).append(one)
    found = []
    for taken, protocols in groups.items():
        by_role = {role: [name for each, name in taken if each == role] for role in dict(taken)}
        lines = (f"  {role:<7} {' '.join(names)}" for role, names in by_role.items())
        found.append([", ".join(one.name for one in protocols), *lines])
    return found
