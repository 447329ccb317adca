"""Converts the tables of a scenario file to its structs, with our own error messages."""

import math
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeGuard, Union, get_args, get_origin

import msgspec
from msgspec import inspect as types
from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.source import Table
from tacit.scenarios.schema.keys import allowed, bounds, keys, kind_of, moved, similar, structure, toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, ScenarioFile
from tacit.sim.faults import DEFAULT_KIND, KINDS, FaultError, unfit

__all__ = ["converted", "scenario_in"]


def converted(raw: Table, where: str) -> ScenarioFile:
    """Convert `raw` to its struct. Raises ScenarioError naming `where`."""
    protocol = raw.get("protocol")
    name = protocol.get("name") if isinstance(protocol, dict) else None
    if isinstance(name, str) and name not in PROTOCOLS:  # the keys of an unknown protocol cannot be checked
        problem = f"{toml(name)} is not known; allowed: {', '.join(PROTOCOLS)}"
        raise ScenarioError(where, "protocol.name", problem + similar(name, PROTOCOLS))
    kind = kind_of(name)
    node = structure(kind)
    raw = _with_kinds(_without_others(raw, node))
    try:
        _check_known(raw, node, "")
        _check_named(raw, node, "")
        for key, value in _leaves(raw, ""):
            if isinstance(value, float) and not math.isfinite(value):
                raise ScenarioError("", key, f"{value} is not a finite number")
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    data = raw.get("data", {})
    if isinstance(data, dict) and not data.get("name") and not data.get("path"):
        raw = {**raw, "data": {**data, "name": "digits"}}
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        first = next(_misfits(raw, kind, node, ""), None)
        if isinstance(first, FaultError):
            raise ScenarioError(where, first.key, first.problem) from None
        if isinstance(first, _Misfit):
            raise ScenarioError(where, first.key, _problem(first.value, first.node, first.unit)) from None
        raise ScenarioError(where, first or "", "is needed and not given" if first else str(error)) from None


def scenario_in(raw: Table, where: str) -> Scenario:
    """Convert `raw` to the scenario that a run needs, without the keys of the file itself. Raises ScenarioError."""
    file = converted(raw, where)
    return Scenario(**{name: getattr(file, name) for name in Scenario.__struct_fields__})


def _without_others(raw: Table, node: types.StructType) -> Table:
    """A copy of `raw` without the [protocol] keys that only other, added protocols have."""
    table = raw.get("protocol")
    (protocol,) = (field.type for field in node.fields if field.encode_name == "protocol")
    if not isinstance(table, dict) or not isinstance(protocol, types.StructType):
        return raw
    own = {field.encode_name for field in protocol.fields}
    if own.issuperset(table):
        return raw
    others = {row.name.removeprefix("protocol.") for row in keys() if row.name.startswith("protocol.")} - own
    return {**raw, "protocol": {key: value for key, value in table.items() if key not in others}}


def _with_kinds(raw: Table) -> Table:
    """A copy of `raw` with the kind of each fault, and without empty keys of other kinds, which older files contain."""
    faults = raw.get("fault")
    if not isinstance(faults, list) or not all(isinstance(one, dict) for one in faults):
        return raw
    found = []
    for one in faults:
        kind = one.get("kind", DEFAULT_KIND)
        own = KINDS[kind].__struct_fields__ if isinstance(kind, str) and kind in KINDS else tuple(one)
        own_keys = {key: value for key, value in one.items() if key in own or not _is_empty(value)}
        found.append({"kind": kind} | own_keys)
    return {**raw, "fault": found}


def _is_empty(value: object) -> bool:
    """Return true for the empty values of other kinds' keys in files of older runs."""
    return value is False or value in ("", "*")


def _one_of(value: object, node: types.Type, path: str) -> types.Type:
    """The struct of a union for the table `value` at `path`, by its tag; `node` itself if there are no tags."""
    kinds = [kind for kind in node.types if isinstance(kind, types.StructType)] if _is_tagged(node) else []
    if not kinds or not isinstance(value, dict):
        return node
    tag, tags = str(kinds[0].tag_field), tuple(kind.tag for kind in kinds)
    if value.get(tag) not in tags:
        raise ScenarioError("", f"{path}.{tag}", _problem(value.get(tag), types.LiteralType(tags), ""))
    return kinds[tags.index(value[tag])]


def _is_tagged(node: types.Type) -> TypeGuard[types.UnionType]:
    """Return true if `node` is a union of structs, each with its tag."""
    return isinstance(node, types.UnionType) and any(getattr(kind, "tag_field", None) for kind in node.types)


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}.{number}")
    else:
        yield path, value


def _check_known(raw: object, node: types.Type, path: str) -> None:
    """Check that every key in `raw` belongs to the struct. Values of wrong types are left for the conversion."""
    node = _one_of(raw, node, path)
    if isinstance(node, types.StructType) and isinstance(raw, dict):
        fields = {field.encode_name: field.type for field in node.fields}
        for key, value in raw.items():
            place = f"{path}.{key}".lstrip(".")
            if key == node.tag_field:
                continue
            if key not in fields:
                if node.tag and any(key in kind.__struct_fields__ for kind in KINDS.values()):
                    raise ScenarioError("", place, unfit(str(node.tag), key))
                if new := moved(place):
                    raise ScenarioError("", place, f"this key is now {new}")
                hint = similar(key, fields) or _elsewhere(key)
                raise ScenarioError("", place, f"unknown key{hint}; allowed: {', '.join(fields)}")
            _check_known(value, fields[key], place)
    elif isinstance(node, types.VarTupleType) and isinstance(raw, list):
        for number, item in enumerate(raw):
            _check_known(item, node.item_type, f"{path}.{number}")


def _check_named(raw: object, node: types.Type, path: str) -> None:
    """Check that every name in `raw` that refers to an entry of a registry exists. Raises ScenarioError."""
    if isinstance(node, types.StructType) and isinstance(raw, dict):
        for field in node.fields:
            if field.encode_name in raw:
                _check_named(raw[field.encode_name], field.type, f"{path}.{field.encode_name}".lstrip("."))
    elif isinstance(node, types.Metadata) and (node.extra or {}).get("registry") is not None:
        names = (node.extra or {})["registry"]
        if not isinstance(raw, str) or raw not in names:
            hint = similar(raw, names) if isinstance(raw, str) else ""
            raise ScenarioError("", path, f"{toml(raw)} is not one of the allowed: {allowed(node)}{hint}")


def _elsewhere(key: str) -> str:
    """A hint for a key that was written into the wrong table."""
    homes = [row.name for row in keys() if row.name.rpartition(".")[2] == key]
    return f"; did you mean {homes[0]}?" if homes else ""


class _Misfit(NamedTuple):
    """The first value in a file that does not fit its type: its key, the value, and the type with its unit."""

    key: str
    value: object
    node: types.Type
    unit: str


def _misfits(
    value: object, kind: Any, node: types.Type, key: str, unit: str = ""
) -> Iterator[_Misfit | FaultError | str]:
    """Yield each part of `value` that does not fit the type `kind`, described by `node`, or the key that is missing."""
    plain = _bare_type(_one_of(value, node, key))
    if isinstance(plain, types.StructType) and isinstance(value, dict):
        inner = f"{key}." if key else ""
        fields = {field.encode_name: field for field in plain.fields}
        kinds = {field.encode_name: field.type for field in structs.fields(plain.cls)}
        for name, item in value.items():
            if name == plain.tag_field:
                continue
            wanted = fields[name].type
            quantity = (wanted.extra or {}).get("unit", "") if isinstance(wanted, types.Metadata) else ""
            yield from _misfits(item, kinds[name], wanted, f"{inner}{name}", quantity)
        missing = [name for name, field in fields.items() if field.required and name not in value]
        if not plain.tag_field:
            yield from (f"{inner}{name}" for name in missing)
            return
        for name in missing:
            yield FaultError("", f"{inner}{name}", f'is needed with kind = "{plain.tag}" and not given')
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, FaultError):
                cause = error.__cause__
                yield FaultError("", f"{inner}{cause.key}".rstrip("."), cause.problem)
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        if isinstance(value, list) and (items := _items(kind, len(value))):
            for number, (item, own) in enumerate(zip(value, items, strict=False)):
                yield from _misfits(item, own, types.type_info(own), f"{key}.{number}")
        yield _Misfit(key, value, node, unit)


def _items(kind: Any, count: int) -> Sequence[Any]:
    """The types of the items of `kind`, a list or tuple with `count` of them; () for any other type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _items(arguments[0], count)
    if origin in (Union, UnionType):
        return next((found for one in arguments if (found := _items(one, count))), ())
    if origin not in (list, tuple):
        return ()
    return (arguments[0],) * count if origin is list or arguments[-1] is Ellipsis else arguments


def _bare_type(node: types.Type) -> types.Type:
    """The type `node` without annotations; for an optional type, the type."""
    while isinstance(node, types.Metadata):
        node = node.type
    if isinstance(node, types.UnionType):
        some = [item for item in node.types if not isinstance(item, types.NoneType)]
        return _bare_type(some[0]) if len(some) == 1 else node
    return node


_LISTS = (types.VarTupleType, types.ListType, types.TupleType)

_QUANTITIES = {
    "rate": 'text such as "20Mbit/s", above 0, or "unlimited"',
    "duration": 'text such as "40ms", or a number of seconds',
    "distribution": 'text such as "40ms" or "lognormal:40ms,0.3"',
}


def _problem(value: object, node: types.Type, unit: str) -> str:
    node = _bare_type(node)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(node, types.IntType | types.FloatType) and number:
        if isinstance(node, types.IntType) and isinstance(value, float):
            return f"{toml(value)} is not a whole number; allowed: {bounds(node) or allowed(node)}"
        return f"{toml(value)} {_misfit(value, node)}; allowed: {bounds(node) or allowed(node)}"  # type: ignore[arg-type]
    if isinstance(node, types.LiteralType | types.EnumType):
        values = node.values if isinstance(node, types.LiteralType) else [member.value for member in node.cls]
        hint = similar(value, map(str, values)) if isinstance(value, str) else ""
        return f"{toml(value)} is not one of the allowed: {allowed(node)}{hint}"
    of_its_kind = isinstance(value, str) and isinstance(node, types.StrType)
    of_its_kind |= isinstance(value, list) and isinstance(node, _LISTS)
    problem = "does not fit" if of_its_kind else "is of the wrong kind"
    return f"{toml(value)} {problem}; allowed: {_QUANTITIES.get(unit) or allowed(node)}"


def _misfit(value: float, node: types.IntType | types.FloatType) -> str:
    if (node.ge is not None and value < node.ge) or (node.gt is not None and value <= node.gt):
        return "is too small"
    if (node.le is not None and value > node.le) or (node.lt is not None and value >= node.lt):
        return "is too large"
    return "is too large" if node.multiple_of is None else "does not fit"  # msgspec's limit of 64 bits
