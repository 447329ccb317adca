"""Commands that print reference lists: `tacit list`, `keys`, `steps` and `schema`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins, Trust

if TYPE_CHECKING:
    from tacit.protocols.declaration import Declaration
    from tacit.scenarios.schema.keys import Key

__all__ = [
    "keys",
    "list_scenarios",
    "schema",
    "steps",
]


def schema(
    out: Annotated[
        Path | None, typer.Option(help="File to write, such as scenario.schema.json; default: standard output.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Print the JSON Schema of scenario files, for completion and checks in an editor.

    taplo and Even Better TOML use it for scenario files whose first line is `#:schema ./scenario.schema.json`. It
    includes the keys of installed plugins, and of plugin files that you name with --plugin.
    """
    from tacit.scenarios.files.json_schema import schema_text
    from tacit.scenarios.files.plugins import load_plugins

    load_plugins()
    text = schema_text()
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    return 0


_FIRST = (
    "xclp-digits", "xclp-direct", "fedavg-xclp-digits", "fedct-digits", "training-secure-average",
    "fedavg-secagg-plus", "dropout-30-percent", "straggler", "rejoin", "private-cells",
)  # fmt: skip
"""The recommended first scenarios."""

_TOPICS = {
    "library": "more protocols",
    "federated": "federated training",
    "cotraining": "co-training",
    "robustness": "faults and networks",
    "scale": "many clients",
    "tables": "tables (sweeps)",
}


def list_scenarios(plugin: Plugins = None, debug: Debug = False) -> int:
    """List the scenarios that come with Tacit, by topic, and the extensions of plugins."""
    import tomllib
    from importlib import metadata

    from tacit.scenarios.console import printing
    from tacit.scenarios.console.table import Table
    from tacit.scenarios.files.shipped import shipped
    from tacit.sim.registry import added_by_plugins

    if plugin or metadata.entry_points(group="tacit.plugins"):  # without any, no protocol is imported
        from tacit.scenarios.files.plugins import load_plugins

        load_plugins()
    paths = shipped()
    heads = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    by_topic: dict[str, list[str]] = {"to begin with": [name for name in _FIRST if name in paths]}
    for folder in sorted({path.parent.name for path in paths.values()}, key=[*_TOPICS, ""].index):
        names = [name for name, path in paths.items() if path.parent.name == folder and name not in _FIRST]
        by_topic[_TOPICS[folder]] = names
    result = Table(("scenario", "what happens", "size"))
    for topic, names in by_topic.items():
        result.sections.add(len(result.rows))
        lines = [(f"  {name}", heads[name].get("title", ""), heads[name].get("size", "")) for name in names]
        result.rows += [(f"{topic}:", "", ""), *lines] if lines else []
    console = printing.make_console()
    printing.print_table(console, result)
    if added := [(one.what, one.name, f"{one.path}, line {one.line}") for one in added_by_plugins()]:
        printing.print_table(console, Table(("a plugin's", "name", "added by"), added))
    return 0


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
    from tacit.scenarios.console.table import Column, Table
    from tacit.scenarios.files.plugins import load_plugins
    from tacit.scenarios.reporting.reference import protocol_of

    load_plugins()
    console = printing.make_console()
    if not name:
        for group in _of_all():
            printing.print_lines(console, group)
        return 0
    protocol = PROTOCOLS[protocol_of(name)]
    printing.print_lines(console, [f"{protocol.name}: {protocol.summary}"])
    columns = ("role", Column("step", key="name"), Column("what is done", key="what"))
    printing.print_table(console, Table.of(protocol.steps, columns))
    printing.print_lines(console, (f"the {role} learns {what}" for role, what in protocol.learned.items()))
    return 0


def _of_all() -> list[list[str]]:
    """Lines for each set of steps: the protocols with exactly these steps, then the steps of each role."""
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


_WIDTH = 120
"""The most characters in a line of descriptions."""


def _print_parties(file: str) -> None:
    """Print the devices, networks and machines of a scenario's parties."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.reporting.parties import party_tables
    from tacit.scenarios.running.whole import check_whole

    check_whole(Path(file))
    console = printing.make_console()
    for one in party_tables(read(file, to_run=False).scenario):
        printing.print_table(console, one)


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
    from tacit.scenarios.console.table import Column, Table, as_markdown
    from tacit.scenarios.files.shipped import shipped
    from tacit.scenarios.reporting.reference import keys as keys_with
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
        columns = (
            Column("key", key="name"),
            Column("allowed", key="type"),
            "unit",
            "default",
            Column("used by", of=lambda key: ", ".join(key.protocols) or "all"),
            Column("what it says", key="description"),
        )
        printing.print_lines(console, [as_markdown(Table.of(found, columns))])
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
