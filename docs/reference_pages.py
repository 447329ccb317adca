"""Makes the pages of the reference that follow from the code: steps, commands, costs, and the public interface."""

from collections.abc import Iterator
from typing import Any

import typer
from protocol_pages import anchor, cells, prose, rows_of_messages, table, where

import tacit
from tacit.__main__ import commands as app
from tacit.protocols.registry import PROTOCOLS

__all__ = ["pages"]


def steps() -> str:
    """Every step of every protocol."""
    taken: dict[tuple[str, str, str], list[str]] = {}
    for name, one in PROTOCOLS.items():
        for step in dict.fromkeys(one.steps):
            taken.setdefault((step.role, step.name, step.what), []).append(name)
    rows = [
        (f"`{name}`", role, prose(what), ", ".join(names) if len(names) < len(PROTOCOLS) else "all")
        for (role, name, what), names in taken.items()
    ]
    head = "What the faults of a scenario may name as `at`, `before` or `after`; `tacit steps NAME` prints the same."
    return f"# Steps\n\n{head}\n\n" + table(("step", "role", "what is done", "protocols"), rows)


def messages() -> str:
    """Every message with the formula of its payload, in bytes."""
    head = (
        "A message of Tacit is really encoded, and its bytes are counted in three columns: `payload` is what the\n"
        "formulas below speak of, byte strings and names of parties; `sealing` is nonce and tag of what one client\n"
        "sends another; `envelope` is all the rest that travels. A test compares each formula with what is sent."
    )
    made = ["# Messages and formulas", head]
    by_part: dict[str, list[str]] = {}
    for path, lines in rows_of_messages().values():
        by_part.setdefault(path, []).extend(lines)
    for path, lines in by_part.items():
        rows = [
            (where(s), f"`{m}`", prose(way), prose(size), prose(what)) for s, m, way, size, what in map(cells, lines)
        ]
        name = path.removeprefix("protocols/")
        made += [f"## {name}", f"[What this part does](../protocols/parts.md#{anchor(path)})"]
        made.append(table(("step", "message", "from, to", "payload, bytes", "what"), rows))
    return "\n\n".join(made) + "\n"


def commands() -> str:
    """Every command with its arguments and options."""
    made = ["# Commands", "`tacit COMMAND --help` prints the same."]
    for name, command in sorted(_commands(typer.main.get_command(app()))):
        made += [f"## tacit {name}", prose(command.help or "")]
        rows = []
        for parameter in command.params:
            record = getattr(parameter, "help", None) or ""
            named = parameter.metavar or (parameter.name or "").upper()
            names = "/".join(parameter.opts) if parameter.param_type_name == "option" else named
            rows.append((f"`{names}`", prose(" ".join(record.split()))))
        made.append(table(("argument", "what it does"), rows))
    return "\n\n".join(made) + "\n"


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The names of all commands of `group` that are shown, and the commands; those of groups within it, too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        elif not command.hidden:
            yield f"{before}{name}", command


def interface() -> str:
    """The names of the module `tacit`, each with its docstring."""
    made = ["# The public interface", "```{eval-rst}\n.. py:module:: tacit\n```"]
    keys = "[the keys of a scenario file](../scenario-keys.md) says what may stand in its tables"
    made.append(f"Only these names stay compatible from one version to the next. Of the classes of a scenario, {keys}.")
    for name in tacit.__all__:
        what, place, options = getattr(tacit, name), f"tacit.{name}", ""
        kind = "autoclass" if isinstance(what, type) else "autofunction"
        if isinstance(what, type):
            options = "   :members:"
            if what.__name__ != name:  # Sphinx says of another name of a class only which class it is
                place, options = f"{what.__module__}.{what.__name__}", f"{options}\n   :inherited-members:"
        made.append(f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: {place}\n{options}\n```")
    return "\n\n".join(made) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """The names and texts of the pages."""
    yield "steps", steps()
    yield "messages", messages()
    yield "commands", commands()
    yield "interface", interface()
