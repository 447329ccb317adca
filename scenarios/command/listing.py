"""The command `tacit list`: the scenarios that come with Tacit."""

from tacit.scenarios.command.options import Debug, Plugins

__all__ = ["list_scenarios"]

_FIRST = (
    "xclp-digits", "xclp-direct", "fedavg-xclp-digits", "fedct-digits", "training-secure-average",
    "fedavg-secagg-plus", "dropout-30-percent", "straggler", "rejoin", "private-cells",
)  # fmt: skip
"""The scenarios to begin with."""

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

    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import load_plugins
    from tacit.scenarios.files.reading import shipped
    from tacit.sim.registry import added_by_plugins

    load_plugins()
    paths = shipped()
    heads = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    by_topic: dict[str, list[str]] = {"to begin with": [name for name in _FIRST if name in paths]}
    for folder in sorted({path.parent.name for path in paths.values()}, key=[*_TOPICS, ""].index):
        names = [name for name, path in paths.items() if path.parent.name == folder and name not in _FIRST]
        by_topic[_TOPICS[folder]] = names
    result = printing.table(("scenario", "what happens", "size"), [])
    for topic, names in by_topic.items():
        if result.rows:
            result.add_section()
        for place, name in enumerate(names):
            if not place:
                result.add_row(f"{topic}:", "", "")
            result.add_row(f"  {name}", heads[name].get("title", ""), heads[name].get("size", ""))
    console = printing.make_console()
    console.print(result)
    if added := [(one.what, one.name, f"{one.path}, line {one.line}") for one in added_by_plugins()]:
        console.print(printing.table(("a plugin's", "name", "added by"), added))
    return 0
