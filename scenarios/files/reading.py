"""Reads a scenario file with the command line's changes into a checked `Scenario`, and the file's table if it has one.

Every mistake ends as one `ScenarioError` line. Paths in a file are relative to the file, paths in a ``--set`` to the
current folder.
"""

import itertools
import os
import re
import sqlite3
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.arguments import check_type, check_types
from tacit.scenarios.files.checks import check
from tacit.scenarios.files.converting import Table, converted
from tacit.scenarios.files.inputs import inputs_of
from tacit.scenarios.files.list_fields import LISTS, change_item, check_field, check_fields, is_field
from tacit.scenarios.files.plugins import blamed, is_of_run, resolved
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import keys, kind_of, moved, named, of_all, own_names, similar, structure, toml
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import OWN, Scenario, ScenarioError, ScenarioFile, as_table
from tacit.sim.table import Keys

if TYPE_CHECKING:
    from tacit.scenarios.files.table_layout import Layout

__all__ = [
    "Loaded",
    "Source",
    "checked",
    "find",
    "ineffective",
    "load",
    "parse_toml",
    "read",
    "shipped",
    "table_of_run",
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

_DATA = ("data.name", "data.path")
"""The two sources of points; exactly one is given."""

_EITHER = {
    "data.name": ("path",),
    "data.path": ("name",),
    "expect.lost": ("lost_at_most", "lost_includes"),
    "expect.lost_at_most": ("lost",),
    "expect.lost_includes": ("lost",),
}
"""Keys that exclude each other: a --set of one removes the others, unless they are set as well."""

_DEEPEST = 32


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

    `cell`: dotted keys and values that override all others, those of a cell of the file's table. `without_data`: the
    scenario as written, with only its types checked; its data need not be on this machine. `to_run`: it must fit into
    this machine's memory. `options`: the option, for error messages, that gave a key among the `changes` if it was not
    --set.
    """
    changes = list(changes)
    if isinstance(file, Scenario):
        path, raw, filled = Path("scenario"), _anchored(as_table(file), Path.cwd()), True
    else:
        path, filled = find(file), Path(file).is_dir()
        raw = table_of_run(path) if filled else _anchored(_parse(path), path.parent)
        if not raw and not changes:
            problem = 'no key is set; a scenario names its protocol at least, as in [protocol] name = "xclp"'
            raise ScenarioError(str(path), "", f"{problem}; `{either('tacit keys', 'tacit.keys()')}` lists all keys")
    made_here = isinstance(file, Scenario)
    place = None if made_here else path.parent
    of_run = not made_here and (filled or is_of_run(path))
    raw["plugins"] = list(resolved(raw.get("plugins", []), str(path), place, of_run=of_run))
    changed = [_change(text, options) for text in changes]  # parsed after loading plugins, which add keys
    _check_either(changed)
    given_by = {key: options.get(key, called("--set")) for key, _ in changed}
    if seed is not None:
        given_by["seed"] = called("--seed")
    try:
        loaded = _read(path, raw, changed, seed, cell, without_data, to_run, filled)
    except ScenarioError as error:
        if error.where not in (str(path), ""):
            raise
        raise ScenarioError(_origin(error, str(path), given_by, changes), error.key, error.problem) from None
    except Exception as error:
        if (blame := blamed(error)) is None:
            raise
        raise blame from error
    if isinstance(file, Scenario):
        return replace(loaded, name=loaded.scenario.name or _slug(loaded.scenario.title))
    return loaded


def _read(
    path: Path,
    raw: Table,
    changed: Sequence[tuple[str, Any]],
    seed: int | None,
    cell: Mapping[str, Any] | None,
    without_data: bool,
    to_run: bool,
    filled: bool,
) -> Loaded:
    """Read a scenario from the tables of a file: compose it, check it, and deal its data, each once.

    `filled`: the tables contain all defaults, like those in a run's folder. Raises ScenarioError.
    """
    where = str(path)
    plugins = raw["plugins"]
    # the keys of the file itself, such as its table
    _apply(raw, [change for change in changed if _owns(change[0])], Path.cwd())
    own = converted({key: raw.pop(key) for key in OWN if key in raw}, where)
    try:
        layout = None
        if own.table != ScenarioFile().table:
            from tacit.scenarios.files.table_layout import layout_of

            layout = layout_of(own, _settable())
        if own.scale == "paper":
            _apply(raw, _paper(own), path.parent)
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    # the scenario: the file, then what was changed, the cell of the table, and the seed
    rest = [change for change in changed if not _owns(change[0])]
    if filled:
        _leave_to_the_run(raw, {key for key, _ in rest}, where)
    _apply(raw, rest, Path.cwd())
    _retitle(raw, dict(rest), path.stem)
    _apply(raw, (cell or {}).items(), path.parent)
    if seed is not None:
        raw["seed"] = seed
    raw["plugins"] = list(plugins)  # changes must not replace the resolved plugins
    scenario = _scenario(converted(raw, where))
    # the check, which deals the data between what needs no data and what does
    if not without_data:
        given_keys = {table: raw.get(table, {}) for table in ("data", "training")}
        scenario = check(
            scenario,
            where,
            clients_given="clients" in given_keys["data"],
            evaluation_given="evaluation" in given_keys["training"],
            to_run=to_run,
        )
    # what was given without effect
    cells = (place.sets for place in (*layout.rows, *layout.columns)) if layout else ()
    others = (dict(sets).get("protocol.name", scenario.protocol.name) for sets in cells)
    protocols = tuple(dict.fromkeys((scenario.protocol.name, *others)))
    given = _without_defaults(raw) if filled else raw
    return Loaded(scenario, scenario.name or path.stem, where, given, protocols, layout)


_WEIGHED_BY = frozenset(("protocol.name", "training.update"))
"""The keys of the algorithm that the default of training.weighting follows from."""


def _leave_to_the_run(raw: Table, changed: Collection[str], where: str) -> None:
    """Remove what an earlier run filled in from the tables of its folder, if a `changed` key may give another value.

    Those are the weighting of its algorithm, and the number of clients of its data.
    """
    training, data = raw.get("training", {}), raw.get("data", {})
    if data.get("partition") == "natural" and not {"data.path", "data.name"}.isdisjoint(changed):
        data.pop("clients", None)
    if "weighting" not in training or _WEIGHED_BY.isdisjoint(changed):
        return
    with suppress(ScenarioError):  # which the changes may mend
        own = _scenario(converted(raw, where))
        if own.protocol.name in PROTOCOLS:
            free = structs.replace(own, training=structs.replace(own.training, weighting=None))
            if PROTOCOLS[own.protocol.name].prepared(free).training.weighting == own.training.weighting:
                del training["weighting"]


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


def _slug(title: str) -> str:
    """A name for the runs of a scenario, made from its title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].rstrip("-") or "scenario"


def find(file: str | Path) -> Path:
    """The path of a scenario given as a path, a run's folder, or the name of a built-in one."""
    path = Path(file)
    if path.is_dir() and (path / "scenario.toml").is_file():
        return path / "scenario.toml"
    if path.is_file():
        return path
    names = shipped()
    if str(file) in names:
        return names[str(file)]
    if path.is_dir():
        raise ScenarioError(str(file), "", "holds no scenario.toml; allowed: a scenario file, or the folder of a run")
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise ScenarioError(str(file), "", "there is no such file")
    problem = (
        f"there is no such file, and no such scenario{similar(str(file), names)}; `tacit list` shows all scenarios"
    )
    raise ScenarioError(str(file), "", problem)


def _without_defaults(raw: Table) -> Table:
    """The values of `raw`, which contains all defaults, that differ from them."""
    known = {key: body for key, body in as_table(kind_of(None)()).items() if isinstance(body, dict)}
    return {
        table: {key: value for key, value in raw[table].items() if defaults.get(key, msgspec.UNSET) != value}
        for table, defaults in known.items()
        if table in raw
    }


def parse_toml(text: str) -> Table:
    """Parse TOML into a table. Raises TOMLDecodeError, also for text that is too deep or too long for Python."""
    try:
        table = tomllib.loads(text)
        deep = _is_deep(table)
    except RecursionError:
        deep = True
    except ValueError as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            raise
        raise tomllib.TOMLDecodeError("a whole number has too many digits") from None
    if deep:
        raise tomllib.TOMLDecodeError(f"tables and lists are nested more than {_DEEPEST} deep")
    return table


def _is_deep(table: Table) -> bool:
    """Return true if tables and lists are nested more than `_DEEPEST` deep."""
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        inside = itertools.chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inside if isinstance(each, dict | list)]
    return bool(level)


def _parse(path: Path) -> Table:
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some Windows editors write a byte order mark
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        place, problem = (match[2], match[1]) if match else ("", str(error))
        if place == "end of document":
            place = f"line {max(1, len(text.splitlines()))}"
        raise ScenarioError(str(path), place, f"not TOML: {problem}") from None
    except UnicodeDecodeError:
        raise ScenarioError(str(path), "", "not TOML: the file is not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(str(path), "", f"cannot be read ({error.strerror or error})") from None


def table_of_run(path: Path) -> Table:
    """The tables of `path`, the scenario in a run's folder, with absolute paths, adapted if the folder was moved.

    Raises ScenarioError for a file that cannot be read.
    """
    raw, folder = _anchored(_parse(path), path.parent), path.parent.absolute()
    if (was := _first_place(path.parent)) not in (None, folder):
        _follow(raw, partial(_moved, folder, was))
    return raw


def _anchored(raw: Table, folder: Path) -> Table:
    """A copy of `raw` with its relative paths made absolute, so that the resolved scenario runs from anywhere."""
    result = {key: dict(body) if isinstance(body, dict) else body for key, body in raw.items()}
    for name in LISTS:
        if isinstance(items := result.get(name), list | tuple):
            result[name] = [dict(item) if isinstance(item, dict) else item for item in items]
    _follow(result, lambda path: (folder / path).absolute())
    return result


def _follow(raw: Table, change: Callable[[Path], Path]) -> None:
    """Apply `change` to each path in the tables of `raw`."""
    for place in inputs_of(raw):
        place.change(str(change(place.path)))


def _first_place(folder: Path) -> Path | None:
    """The folder of a run when the run began; None if its record does not contain it."""
    record = f"{(folder / 'run.sqlite').absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(record, uri=True)) as connection:
            found = connection.execute("SELECT value FROM run WHERE key = 'folder'").fetchone()
    except sqlite3.Error:
        return None
    return Path(found[0]) if found else None


def _moved(folder: Path, was: Path | None, path: Path) -> Path:
    """The `path` in a run's scenario; if it does not exist, its place after the run's folder was moved from `was` to
    `folder`."""
    beside = Path(os.path.normpath(folder / os.path.relpath(path, was)))
    return beside if not path.exists() and beside.exists() else path


# --- the command line's changes


def _apply(raw: Table, changes: Iterable[tuple[str, Any]], folder: Path) -> None:
    """Set dotted keys to their values; paths among them are relative to `folder`."""
    made: set[str] = set()
    for key, value in changes:
        made.add(key)
        if is_field(key):
            raw |= _anchored(change_item(raw, key, value, made), folder)
            continue
        table, dot, last = key.partition(".")
        change, body = _anchored({table: {last: value} if dot else value}, folder), raw.get(table)
        raw[table] = {**body, **change[table]} if dot and isinstance(body, dict) else change[table]
        for other in _EITHER.get(key, ()) if value or key not in _DATA else ():
            if f"{table}.{other}" not in made:
                raw[table].pop(other, None)
    check_fields(raw.get("fault"), made)


def _check_either(changed: Iterable[tuple[str, Any]]) -> None:
    """Raise ScenarioError if --set gives two keys of which only one may be given."""
    given: dict[str, Any] = {}
    for key, value in changed:
        table = value if isinstance(value, dict) else {}
        given |= {f"{key}.{name}": item for name, item in table.items()} if table else {key: value}
    if all(given.get(key) for key in _DATA):
        raise ScenarioError(called("--set"), "data", "name and path are both given; allowed: exactly one of them")


def _retitle(raw: Table, changed: Mapping[str, Any], name: str) -> None:
    """Replace the title by `name` if a change replaces the data that the title describes."""
    for key in _DATA:
        if changed.get(key) and "title" not in changed:
            raw["title"] = f"{name} with {key} = {toml(changed[key])}"


def _known() -> list[str]:
    """The keys that a change may name, including whole tables."""
    return [*(field.encode_name for field in structure().fields), *(row.name for row in keys() if not row.is_of_list)]


def _settable() -> list[str]:
    """The keys that a change may set: the known ones without tables of keys."""
    known = [key for key in _known() if key != "plugins"]
    tables = {key.rpartition(".")[0] for key in known}
    return [key for key in known if not _owns(key) and key not in tables]


def _owns(key: str) -> bool:
    """Return true if `key` belongs to the file and not to a scenario, like those of its table."""
    return key.partition(".")[0] in OWN


def _paper(file: ScenarioFile) -> list[tuple[str, Any]]:
    """The changes that `scale = "paper"` makes to the scenario in `file`."""
    if not file.scales.paper:
        raise ScenarioError("", "scale", '"paper" is not in the file, which has no [scales.paper]; allowed: "small"')
    from tacit.scenarios.files.table_layout import flat

    return list(flat(file.scales.paper, _settable(), "scales.paper"))


def _change(text: str, options: Mapping[str, str]) -> tuple[str, Any]:
    """Parse ``key=value`` into a known key and its new value; `options` as in `read`. Raises ScenarioError."""
    key, equals, written = text.partition("=")
    key = key.strip()
    if not equals or not key:
        allowed = either("--set key=value, such as --set protocol.k=5", "key=value, such as protocol.k=5")
        raise ScenarioError(called("--set", text), "", f"allowed: {allowed}")
    known = () if key in named() else _known()
    if key == "plugins":
        problem = (
            f"a plugin is code, which no {either('--set', 'change')} takes in; allowed: plugins = [...] in the file, "
        )
        problem += either("or --plugin FILE", "or in a Scenario")
        raise ScenarioError(options.get(key, called("--set")), key, problem)
    if is_field(key):
        check_field(key, options.get(key, called("--set")))
    elif known and key not in known:
        if new := moved(key):
            raise ScenarioError(options.get(key, called("--set")), key, f"this key is now {new}")
        listed = next((name for name in LISTS if key.startswith(name)), "")
        hint = (
            f"; the whole list is replaced: {either('--set ', '')}'{listed}=[{{...}}]', a key of one by {listed}.0.KEY"
            if listed
            else ""
        )
        hint = hint or similar(key, known) or f"; `{either('tacit keys', 'tacit.keys()')}` lists them"
        raise ScenarioError(options.get(key, called("--set")), key, "there is no such key" + hint)
    try:
        parsed = parse_toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return key, written.strip()
    return key, parsed["value"] if len(parsed) == 1 else written.strip()


# --- from tables to structs


def _scenario(file: ScenarioFile) -> Scenario:
    """The part of the file that a run needs, as a `Scenario`."""
    return Scenario(**{name: getattr(file, name) for name in Scenario.__struct_fields__})
