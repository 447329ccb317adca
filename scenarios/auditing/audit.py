"""Audits a source given by the user: a Flower app, a scenario, or a plugin that adds a protocol."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from tacit.protocols.auditing.findings import Audit, Watch
from tacit.protocols.auditing.sums import RULES, Rule
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.auditing.own_sums import audit_scenario, perform
from tacit.scenarios.files import plugins
from tacit.scenarios.files.apps import scenario_of_app
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.registry import added_by_plugins
from tacit.sim.setting_error import Problem

__all__ = ["audit"]

_CLIENTS, _POINTS = 6, 120
"""The numbers of clients and of points of digits with which a plugin's protocol is tried."""

_NAMED = {one.words.replace(" ", "-"): one for one in RULES if not one.added}


def audit(
    source: str,
    *,
    mod: str | None = None,
    rule: str | None = None,
    at_once: int = 1,
    clients: int | None = None,
    run_config: str | None = None,
    seed: int | None = None,
    changes: Sequence[str] = (),
    watch: Watch | None = None,
) -> Audit:
    """Audit `source`: the folder or file of a Flower app, a scenario's file or name, or a plugin's file.

    `mod` and `rule` are those of an app (`Declaration.audit`), by name; `run_config` has settings of the app. Raises
    ScenarioError.
    """
    asked = [*_as_changes({"data.clients": clients, "protocol.run_config": run_config}), *changes]
    options = {"data.clients": "--clients", "protocol.run_config": "--run-config"}
    loaded = _loaded(source, asked, seed, options)
    scenario = loaded.scenario
    faults = scenario.fault
    watch = watch or (lambda done, of, words: None)
    run = partial(perform, scenario)
    try:
        own = PROTOCOLS[scenario.protocol.name].audit(
            scenario, run, mod=mod, rule=_rule(rule), at_once=at_once, watch=watch
        )
    except Problem as error:
        raise ScenarioError(error.key if error.key.startswith("--") else source, "", error.problem) from error
    if own is not None:
        return own
    for option, value in (("--mod", mod), ("--rule", rule)):
        if value is not None:
            raise ScenarioError(option, "", f"goes with a Flower app, and {source} is none")
    return audit_scenario(structs.replace(scenario, fault=[]), faults, at_once=at_once, watch=watch)


def _as_changes(values: dict[str, object]) -> list[str]:
    return [f"{key}={toml(value)}" for key, value in values.items() if value is not None]


def _rule(name: str | None) -> Rule | None:
    if name is None:
        return None
    if name not in _NAMED:
        raise ScenarioError("--rule", "", f"{name} is no rule; allowed: {', '.join(_NAMED)}")
    return _NAMED[name]


def _loaded(source: str, changes: Sequence[str], seed: int | None, options: dict[str, str]) -> Loaded:
    path = Path(source)
    if path.suffix == ".py" and not path.is_file():
        raise ScenarioError(source, "", "there is no such file; allowed: a Flower app's, or a plugin's")
    if (path / "pyproject.toml").is_file() or (path.suffix == ".py" and _is_app(path)):
        try:
            made = scenario_of_app(source, _CLIENTS)
        except Problem as error:
            raise ScenarioError(source, "", error.problem) from None
        return read(made, changes, seed=seed, options=options)
    if path.suffix != ".py":
        return read(source, [*changes, "expect={}"], seed=seed, options=options)
    before = {one.name for one in added_by_plugins()}
    plugins.give([path])
    plugins.load_plugins()
    added = [one.name for one in added_by_plugins() if one.what == "protocol" and one.name not in before]
    if len(added) != 1:
        problem = f"adds {len(added)} protocols ({', '.join(added) or 'none'}); allowed: one, or a scenario file"
        raise ScenarioError(source, "", problem)
    chosen = [f"protocol.name={toml(added[0])}", f"title={toml(f'The protocol {added[0]} of {path.name}')}"]
    small = ['data.name="digits"', f"data.clients={_CLIENTS}", f"data.limit={_POINTS}"]
    return read(Scenario(), [*chosen, *small, *changes], seed=seed, options=options)


def _is_app(path: Path) -> bool:
    """Return true if a Python file is a Flower app, which imports Flower; a plugin does not."""
    return bool(re.search(r"^\s*(from|import)\s+flwr\b", path.read_text(encoding="utf-8", errors="replace"), re.M))
