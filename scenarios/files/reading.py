"""Reads a scenario file with the command line's changes into a checked `Scenario`, and the file's table if it has one.

Every mistake ends as one `ScenarioError` line. Paths in a file are relative to the file, paths in a ``--set`` to the
current folder.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.arguments import check_type, check_types
from tacit.scenarios.files.checks import check
from tacit.scenarios.files.composing import change, check_either, composed
from tacit.scenarios.files.plugins import blamed, is_of_run, resolved
from tacit.scenarios.files.source import anchored, find, read_toml, table_of_run
from tacit.scenarios.schema.keys import keys, named, of_all, own_names
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, as_table
from tacit.sim.table import Keys

if TYPE_CHECKING:
    from tacit.scenarios.files.table_layout import Layout

__all__ = [
    "Loaded",
    "Source",
    "checked",
    "ineffective",
    "load",
    "name_of",
    "read",
    "unused",
]


# Keys that a scenario gives without effect, because the choice that would use them is not made.


def unused(raw: Mapping[str, Any], *protocols: str, scenario: Scenario | None = None) -> tuple[str, ...]:
    """The keys in `raw` that are used by other protocols only. `protocols` are those of the file, or of its table's
    cells. `scenario`, if given, is the result of reading `raw`: parts that it does not take are then asked only about
    keys that no part uses that it takes.
    """
    own = of_all().union(*map(own_names, protocols))
    if scenario is not None and scenario.protocol.name in protocols:
        own = own.union(PROTOCOLS[scenario.protocol.name].uses_with(scenario))
    others = _besides(own, _keys_in(raw))
    if others:
        others = _besides(frozenset().union(*(PROTOCOLS[one].uses for one in protocols if one in PROTOCOLS)), others)
    if not others or named().issuperset(others):
        return tuple(others)
    used = {key.name for key in keys() if not key.protocols or set(protocols) & set(key.protocols)}
    known = {key.name for key in keys()}
    return tuple(name for name in others if name in known - used)


def _besides(own: frozenset[str], names: Iterable[str]) -> list[str]:
    """The `names` of keys that are not among `own`, which may name whole tables."""
    return [name for name in names if own.isdisjoint((name, name.partition(".")[0] + ".*"))]


def needless(raw: Mapping[str, Any], scenario: Scenario) -> dict[str, str]:
    """The keys in `raw` that the protocol uses only with other choices, each with the choice that it needs.

    `scenario` is the result of reading `raw`.
    """
    others = unused(raw, scenario.protocol.name, scenario=scenario)
    names = [name for name in _keys_in(raw) if name not in others]
    found = PROTOCOLS[scenario.protocol.name].idle(scenario, [name for name in names if name not in of_all()])
    for table, keys_of_table in ((one, getattr(scenario, one, None)) for one in raw):
        if isinstance(keys_of_table, Keys):
            beside = {f"{table}.{key}": needed for key, needed in keys_of_table.idle().items()}
            found = {name: beside[name] for name in names if name in beside} | found
    return found


def ineffective(names: Iterable[str], scenario: Scenario) -> frozenset[str]:
    """The dotted keys among `names` that have no effect on a run of `scenario`."""
    raw: dict[str, dict[str, None]] = {}
    for name in names:
        table, _, key = name.partition(".")
        raw.setdefault(table, {})[key] = None
    return frozenset((*unused(raw, scenario.protocol.name, scenario=scenario), *needless(raw, scenario)))


def _keys_in(raw: Mapping[str, Any]) -> list[str]:
    return [f"{table}.{key}" for table, body in raw.items() if isinstance(body, dict) for key in body]


Source = Scenario | str | Path
"""A scenario, or the path of its file or of a run's folder, or the name of one that comes with Tacit."""


@dataclass(frozen=True)
class Loaded:
    """A checked scenario. `name`: its own, or the file's stem. `where`: the file's name in messages.

    `given`: the keys that were given, by their tables. `protocols`: that of the scenario, and those of its table's
    cells. `layout`: the file's table, if it has one.
    """

    scenario: Scenario
    name: str
    where: str
    given: Mapping[str, Any]
    protocols: tuple[str, ...]
    layout: "Layout | None" = None

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """The keys that were given but belong to other protocols."""
        return unused(self.given, *self.protocols, scenario=self.scenario)

    @cached_property
    def needless(self) -> Mapping[str, str]:
        """The given keys that the protocol would use only with other choices, each with the choice that it needs.

        Empty for a file with a table, whose cells may make that choice.
        """
        return needless(self.given, self.scenario) if self.layout is None else {}

    def without_effect(self) -> list[str]:
        """A line for each key that was given and has no effect, with the reason."""
        found = dict.fromkeys(self.unused, f"not a key of {self.scenario.protocol.name}")
        found |= {key: f"only with {takes}" for key, takes in self.needless.items()}
        return [f"{key}: {why}" for key, why in found.items()]


def load(scenario: Source, changes: Sequence[str] = (), *, seed: int | None = None) -> Scenario:
    """Return the scenario in a file, checked.

    `scenario`: the path of the file, or of a run's folder; the name of a scenario that comes with Tacit; or one made in
    Python. `changes` are texts in the form of ``--set``, such as ``"protocol.k=5"``; paths in them are relative to the
    current folder. `seed` replaces the scenario's. Raises ScenarioError, in one line, for an invalid scenario, and
    TypeError.
    """
    check_type("scenario", scenario, (Scenario, str, Path), "a Scenario, or a name or path as str or Path")
    check_types("changes", changes, str, 'a list of texts such as ["protocol.k=5"]')
    check_type("seed", seed, (int, type(None)), "a whole number or None")
    return read(scenario, changes, seed=seed).scenario


def read(
    file: Source,
    changes: Iterable[str] = (),
    *,
    seed: int | None = None,
    cell: Mapping[str, Any] | None = None,
    without_data: bool = False,
    to_run: bool = True,
    options: Mapping[str, str] = {},
) -> Loaded:
    """Read a scenario like `load`, with further facts for the command line.

    Each step is taken once: its file is read, its plugins are loaded, its tables are composed with the changes, and it
    is checked, while its data are dealt.

    `cell`: dotted keys and values that override all others, those of a cell of the file's table. `without_data`: the
    scenario as written, with only its types checked; its data need not be on this machine. `to_run`: it must fit into
    this machine's memory. `options`: the option, for error messages, that gave a key among the `changes` if it was not
    --set.
    """
    changes, made_here = list(changes), isinstance(file, Scenario)
    if isinstance(file, Scenario):
        path, raw, filled = Path("scenario"), anchored(as_table(file), Path.cwd()), True
    else:
        path, filled = find(file), Path(file).is_dir()
        raw = table_of_run(path) if filled else anchored(read_toml(path), path.parent)
        if not raw and not changes:
            problem = 'no key is set; a scenario names its protocol at least, as in [protocol] name = "xclp"'
            raise ScenarioError(str(path), "", f"{problem}; `{either('tacit keys', 'tacit.keys()')}` lists all keys")
    place = None if made_here else path.parent
    of_run = not made_here and (filled or is_of_run(path))
    raw["plugins"] = list(resolved(raw.get("plugins", []), str(path), place, of_run=of_run))
    changed = [change(text, options) for text in changes]  # parsed after loading plugins, which add keys
    check_either(changed)
    try:
        made = composed(path, raw, changed, seed, cell, filled=filled)
        scenario = made.scenario
        if not without_data:
            scenario = check(
                scenario,
                str(path),
                clients_given="clients" in raw.get("data", {}),
                evaluation_given="evaluation" in raw.get("training", {}),
                to_run=to_run,
            )
    except ScenarioError as error:
        if error.where not in (str(path), ""):
            raise
        given_by = {key: options.get(key, called("--set")) for key, _ in changed}
        if seed is not None:
            given_by["seed"] = called("--seed")
        raise ScenarioError(_origin(error, str(path), given_by, changes), error.key, error.problem) from None
    except Exception as error:
        if (blame := blamed(error)) is None:
            raise
        raise blame from error
    name = name_of(scenario) if made_here else scenario.name or path.stem
    return Loaded(scenario, name, str(path), made.given, made.protocols, made.layout)


def _origin(error: ScenarioError, where: str, given_by: Mapping[str, str], changes: Iterable[str]) -> str:
    """The source of an invalid value for an error message: the file `where`, or an option in `given_by`.

    If the error is at a key of the file, the `changes` may be its cause, and are named as well.
    """
    for key in sorted(given_by, key=len, reverse=True):
        if f"{error.key}.".startswith(f"{key}."):
            return given_by[key]
    others = {key: option for key, option in given_by.items() if option != called("--set")}
    keys = {text: text.partition("=")[0].strip() for text in changes}
    options = [f"{others[key]} {text}" if key in others else called("--set", text) for text, key in keys.items()]
    return f"{where} with {' '.join(options)}" if options else where


def checked(scenario: Scenario) -> Scenario:
    """Check a scenario made in Python like a file. Raises ScenarioError."""
    return read(scenario).scenario


def name_of(scenario: Scenario) -> str:
    """The name for the runs of a scenario that comes from no file: its own, or one made from its title."""
    made = re.sub(r"[^a-z0-9]+", "-", scenario.title.lower()).strip("-")[:40].rstrip("-")
    return scenario.name or made or "scenario"
