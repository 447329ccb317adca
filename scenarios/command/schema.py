"""The command `tacit schema`: the JSON Schema of scenario files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug, Plugins

__all__ = ["schema"]


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
