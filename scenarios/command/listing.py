"""What `tacit list` does: the scenarios that come with Tacit."""

from scenarios.command.options import Debug, Plugins

__all__ = ["list_scenarios"]


def list_scenarios(plugin: Plugins = None, debug: Debug = False) -> int:
    """The scenarios that come with Tacit, and what plugins add."""
    import tomllib

    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins
    from scenarios.files.reading import shipped
    from sim.registry import added_by_plugins

    load_plugins()
    heads = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in shipped().items()}
    rows = [(name, head.get("title", ""), head.get("size", "")) for name, head in heads.items()]
    printing.make_console().print(printing.table(("name", "what happens", "size"), rows))
    if added := [(one.what, one.name, f"{one.path}, line {one.line}") for one in added_by_plugins()]:
        printing.make_console().print(printing.table(("a plugin's", "name", "added by"), added))
    return 0
