"""From a scenario file and the command line's changes to a checked `Scenario`, and the table that the file may have.

Every mistake ends as one `ScenarioError` line. Paths in a file are relative to the file, paths in a ``--set``
to the current folder.
"""

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from scenarios.checks import check
from scenarios.keys import allowed, bounds, keys, similar, structure, toml
from scenarios.schema import Scenario, ScenarioError, as_table
from scenarios.table_layout import Layout, flat, layout_of
from scenarios.table_schema import OWN, ScenarioFile
from scenarios.unused import needless, unused

__all__ = ["Loaded", "checked", "find", "load", "parse_toml", "read", "shipped"]

Table = dict[str, Any]

_EITHER = {"data.name": "path", "data.path": "name"}
"""Of two keys of which only one may be given, a --set of the one takes the other out."""

_DEEPEST = 32

_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")


class Loaded(Struct, frozen=True):
    """A checked scenario. `name`: its own, or the file's stem. `where`: the file as messages call it.

    `unused`: keys that were given but belong to other protocols. `needless`: those that the protocol would use with
    other choices, each with what it takes; of a file with a table, whose cells may choose that, none. `layout`: the
    file's table, if it has one.
    """

    scenario: Scenario
    name: str
    where: str
    unused: tuple[str, ...] = ()
    needless: Mapping[str, str] = {}
    layout: Layout | None = None


def load(file: str | Path, changes: Iterable[str] = (), *, seed: int | None = None) -> Scenario:
    """The scenario in `file` (a path, or the NAME of one that comes with Tacit), checked.

    `changes` are texts such as ``"protocol.k=5"``. Raises ScenarioError in one line.
    """
    return read(file, changes, seed=seed).scenario


def read(
    file: str | Path,
    changes: Iterable[str] = (),
    *,
    seed: int | None = None,
    cell: Mapping[str, Any] | None = None,
    without_data: bool = False,
) -> Loaded:
    """`load`, with what the command line wants to know besides.

    `cell`: dotted keys and values that come over all others, those of a cell of the file's table. `without_data`: the
    scenario as it is written, of which only the types are checked; its data need not be on this machine.
    """
    path = find(file)
    where = str(path)
    raw = _anchored(_parse(path), path.parent)
    changed = list(map(_change, changes))
    _apply(raw, [change for change in changed if _owns(change[0])], Path.cwd())
    own = _convert({key: raw.pop(key) for key in OWN if key in raw}, where)
    try:
        layout = layout_of(own, _settable()) if own.table != ScenarioFile().table else None
        if own.scale == "paper":
            _apply(raw, _paper(own), path.parent)
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    rest = [change for change in changed if not _owns(change[0])]
    _apply(raw, rest, Path.cwd())
    _retitle(raw, dict(rest), path.stem)
    _apply(raw, (cell or {}).items(), path.parent)
    if seed is not None:
        raw["seed"] = seed
    scenario = _scenario(_convert(raw, where))
    if not without_data:
        scenario = check(scenario, where, clients_given="clients" in raw.get("data", {}))
    cells = (place.sets for place in (*layout.rows, *layout.columns)) if layout else ()
    protocols = {scenario.protocol.name, *(dict(sets).get("protocol.name", scenario.protocol.name) for sets in cells)}
    given = _without_defaults(raw) if Path(file).is_dir() else raw
    lacking = needless(given, scenario) if layout is None else {}
    return Loaded(scenario, scenario.name or path.stem, where, unused(given, *protocols), lacking, layout)


def checked(scenario: Scenario) -> Scenario:
    """A scenario made in Python, checked as a file is. Raises ScenarioError."""
    file = _convert(_anchored(as_table(scenario), Path.cwd()), "scenario")
    return check(_scenario(file), "scenario")


def shipped() -> dict[str, Path]:
    """The scenarios that come with Tacit, by name."""
    folder = Path(str(resources.files("scenarios")))
    return {path.stem: path for path in sorted(folder.rglob("*.toml"), key=lambda path: path.stem)}


def find(file: str | Path) -> Path:
    """The path of a scenario given as a path, a run's folder, or the name of one that comes with Tacit."""
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
    problem = f"neither a file nor a scenario that comes with Tacit ({', '.join(names)})"
    raise ScenarioError(str(file), "", problem + similar(str(file), names))


def _without_defaults(raw: Table) -> Table:
    """What `raw`, of a run's folder, gives beside the defaults that were filled in there."""
    known = {key: body for key, body in as_table(Scenario()).items() if isinstance(body, dict)}
    return {
        table: {key: value for key, value in raw[table].items() if defaults.get(key, msgspec.UNSET) != value}
        for table, defaults in known.items()
        if table in raw
    }


def parse_toml(text: str) -> Table:
    """The table that `text` writes. Raises TOMLDecodeError, also for what is too deep or too long for Python."""
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
    """Whether tables and lists are nested more than `_DEEPEST` deep."""
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        inside = itertools.chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inside if isinstance(each, dict | list)]
    return bool(level)


def _parse(path: Path) -> Table:
    try:
        text = path.read_bytes().decode()
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


def _anchored(raw: Table, folder: Path) -> Table:
    """`raw` with its relative paths made absolute, so that the resolved scenario runs from anywhere."""
    result = {key: dict(body) if isinstance(body, dict) else body for key, body in raw.items()}
    data, network = result.get("data"), result.get("network")
    for table in (data, result.get("learner")):
        if isinstance(table, dict):
            _anchor(table, "path", "", folder)
    if isinstance(network, dict):
        _anchor(network, "latency", "csv:", folder)
    _anchor(result, "cost", "replayed:", folder)
    if isinstance(faults := result.get("fault"), list | tuple):
        result["fault"] = [dict(fault) if isinstance(fault, dict) else fault for fault in faults]
        for fault in result["fault"]:
            if isinstance(fault, dict) and fault.get("file"):
                _anchor(fault, "file", "", folder)
    return result


def _anchor(table: Table, key: str, prefix: str, folder: Path) -> None:
    """Make what follows `prefix` in the text at `key` an absolute path."""
    value = table.get(key)
    if isinstance(value, str) and value.startswith(prefix) and len(value) > len(prefix):
        table[key] = prefix + str((folder / value.removeprefix(prefix)).absolute())


# --- the command line's changes


def _apply(raw: Table, changes: Iterable[tuple[str, Any]], folder: Path) -> None:
    """Put dotted keys and their values in; what is a path is relative to `folder`."""
    for key, value in changes:
        table, dot, last = key.partition(".")
        change = _anchored({table: {last: value} if dot else value}, folder)
        body = raw.get(table)
        raw[table] = {**body, **change[table]} if dot and isinstance(body, dict) else change[table]
        if key in _EITHER:
            raw[table].pop(_EITHER[key], None)


def _retitle(raw: Table, changed: Mapping[str, Any], name: str) -> None:
    """Where data of the user's own choice takes the place of the file's, of which its title speaks."""
    for key in _EITHER:
        if key in changed and "title" not in changed:
            raw["title"] = f"{name} with {key} = {toml(changed[key])}"


def _known() -> list[str]:
    """The keys that a change may name, whole tables among them."""
    return [*(field.encode_name for field in structure().fields), *(row.name for row in keys() if "[]" not in row.name)]


def _settable() -> list[str]:
    """Those of them that are no tables of keys."""
    known = _known()
    return [key for key in known if not _owns(key) and not any(other.startswith(f"{key}.") for other in known)]


def _owns(key: str) -> bool:
    """Whether `key` is the file's own and not a scenario's."""
    return key.partition(".")[0] in OWN


def _paper(file: ScenarioFile) -> list[tuple[str, Any]]:
    """What `scale = "paper"` changes in `file`."""
    if not file.scales.paper:
        raise ScenarioError("", "scale", '"paper" is not in the file, which has no [scales.paper]; allowed: "small"')
    return list(flat(file.scales.paper, _settable(), "scales.paper"))


def _change(text: str) -> tuple[str, Any]:
    """A key that exists and its new value, from ``key=value``."""
    key, equals, written = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ScenarioError(f"--set {text}", "", "allowed: --set key=value, such as --set protocol.k=5")
    known = _known()
    if key not in known:
        hint = "; the whole list is replaced: --set 'fault=[{...}]'" if key.startswith("fault") else ""
        hint = hint or similar(key, known) or "; `tacit keys` lists them"
        raise ScenarioError("--set", key, "there is no such key" + hint)
    try:
        parsed = parse_toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return key, written.strip()
    return key, parsed["value"] if len(parsed) == 1 else written.strip()


# --- from tables to structs


def _scenario(file: ScenarioFile) -> Scenario:
    """What a run needs to know of it."""
    return Scenario(**{name: getattr(file, name) for name in Scenario.__struct_fields__})


def _convert(raw: Table, where: str) -> ScenarioFile:
    node = structure()
    try:
        _check_known(raw, node, "")
        for key, value in _leaves(raw, ""):
            if isinstance(value, float) and not math.isfinite(value):
                raise ScenarioError("", key, f"{value} is not a finite number")
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    data = raw.get("data", {})
    if isinstance(data, dict) and not data.get("name") and not data.get("path"):
        raw = {**raw, "data": {**data, "name": "digits"}}
    try:
        return msgspec.convert(raw, ScenarioFile)
    except msgspec.ValidationError as error:
        raise ScenarioError(where, *_explain(str(error), raw, node)) from None


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _check_known(raw: object, node: types.Type, path: str) -> None:
    """Every key in `raw` is one of the struct's. Wrong types are left for the conversion."""
    if isinstance(node, types.StructType) and isinstance(raw, dict):
        fields = {field.encode_name: field.type for field in node.fields}
        for key, value in raw.items():
            place = f"{path}.{key}".lstrip(".")
            if key not in fields:
                hint = similar(key, fields) or _elsewhere(key)
                raise ScenarioError("", place, f"unknown key{hint}; allowed: {', '.join(fields)}")
            _check_known(value, fields[key], place)
    elif isinstance(node, types.VarTupleType) and isinstance(raw, list):
        for number, item in enumerate(raw):
            _check_known(item, node.item_type, f"{path}[{number}]")


def _elsewhere(key: str) -> str:
    """A hint for a key that was written into the wrong table."""
    homes = [row.name for row in keys() if row.name.rpartition(".")[2] == key]
    return f"; did you mean {homes[0]}?" if homes else ""


def _explain(message: str, raw: Table, node: types.Type) -> tuple[str, str]:
    """The key and the problem, in our words, for msgspec's message that ends in ``at `$.protocol.k` ``."""
    path = message.rpartition("`$")[2].rstrip("`")
    missing = re.search(r"missing required field `(\w+)`", message)
    value: Any = raw
    unit = ""
    for name, number in _STEP.findall(path):
        if isinstance(node, types.StructType):
            node = next(field.type for field in node.fields if field.encode_name == name)
            unit = (node.extra or {}).get("unit", "") if isinstance(node, types.Metadata) else ""
        else:
            node = _item(node)
        value = value[name] if name else value[int(number)]
    key = path.lstrip(".")
    if missing:
        return f"{key}.{missing[1]}".lstrip("."), "is needed and not given"
    return key, _problem(value, node, unit)


def _plain(node: types.Type) -> types.Type:
    """`node` without its notes; of a choice between a type and nothing, the type."""
    while isinstance(node, types.Metadata):
        node = node.type
    if isinstance(node, types.UnionType):
        some = [item for item in node.types if not isinstance(item, types.NoneType)]
        return _plain(some[0]) if len(some) == 1 else node
    return node


def _item(node: types.Type) -> types.Type:
    node = _plain(node)
    assert isinstance(node, types.VarTupleType)
    return node.item_type


_QUANTITIES = {
    "rate": 'text such as "20Mbit/s", above 0, or "unlimited"',
    "duration": 'text such as "40ms", or a number of seconds',
    "distribution": 'text such as "40ms" or "lognormal:40ms,0.3"',
}


def _problem(value: object, node: types.Type, unit: str) -> str:
    node = _plain(node)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(node, types.IntType | types.FloatType) and number:
        if isinstance(node, types.IntType) and isinstance(value, float):
            return f"{toml(value)} is not a whole number; allowed: {bounds(node) or allowed(node)}"
        low = node.ge if node.ge is not None else node.gt
        side = "small" if low is not None and (value < low or value == node.gt) else "large"  # type: ignore[operator]
        return f"{toml(value)} is too {side}; allowed: {bounds(node)}"
    if isinstance(node, types.LiteralType):
        hint = similar(value, map(str, node.values)) if isinstance(value, str) else ""
        return f"{toml(value)} is not one of the allowed: {allowed(node)}{hint}"
    return f"{toml(value)} is of the wrong kind; allowed: {_QUANTITIES.get(unit) or allowed(node)}"
