"""The JSON Schema of scenario files, for completion and checks in editors, derived from the files' structs.

It is draft 7, which taplo and the editors that use it read. It contains keys, types, ranges, names, units and defaults,
and the keys of each kind of fault. Tacit itself checks everything that depends on the data, on other files or on
several tables.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from tacit.parties.data.features import FEATURES
from tacit.parties.data.sets import DATASETS
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.keys import EACH, Key, keys, structure
from tacit.scenarios.schema.scenario import Client, ProtocolKeys
from tacit.sim.faults import DEFAULT_KIND, DRAWN, KINDS, Fault
from tacit.sim.units import DURATION_PATTERN, RATE_PATTERN

__all__ = ["DRAFT", "TITLE", "scenario_schema", "schema_text"]

DRAFT = "http://json-schema.org/draft-07/schema#"
TITLE = "Tacit scenario"

Schema = dict[str, Any]

_DRAWN = r"\s*(lognormal|uniform)\s*:[^,]+,[^,]+"
_LATENCY = r"\s*((normal|lognormal|uniform)\s*:[^,]+,[^,]+|csv\s*:.+)"
_PATTERNS = {
    "duration": f"^{DURATION_PATTERN}$",
    "rate": f"^{RATE_PATTERN}$",
    "distribution": f"^({DURATION_PATTERN}|{_LATENCY})$",
}
"""The pattern of a key's text, by its unit."""

_UNITS = {
    "duration": ' A duration, such as "40ms", or a number of seconds.',
    "rate": ' A rate, such as "20Mbit/s".',
    "distribution": "",
    "file": "",
}
"""The description of units that are not units of a number."""

_NAMES: dict[str, Mapping[str, object]] = {
    "protocol.name": PROTOCOLS,
    "data.name": DATASETS,
    "data.features": FEATURES,
}
"""The allowed names of keys whose struct does not list them."""


def schema_text() -> str:
    """The JSON Schema of scenario files as text, including the additions of active plugins."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def scenario_schema() -> Schema:
    """The JSON Schema of scenario files as plain dictionaries, including the additions of active plugins."""
    root = structure()
    own = {name: one.keys for name, one in PROTOCOLS.items() if one.keys is not None}
    kinds = (root.cls, *own.values())
    _, definitions = msgspec.json.schema_components(kinds, ref_template="#/definitions/{name}")
    names = dict(zip(kinds, _defined(kinds), strict=True))
    rows = {(key.name, key.protocols): key for key in keys()} | {(key.name, ()): key for key in reversed(keys())}
    for path, node in _tables("", root):
        _complete(definitions[node.cls.__name__], path, node, rows, ())
    for name, kind in own.items():
        for path, node in _tables("protocol.", structure(kind)):
            _complete(definitions[names[kind] if path == "protocol." else node.cls.__name__], path, node, rows, (name,))
    for one in KINDS.values():
        _fault(one, definitions[one.__name__], _described(rows[f"fault.{EACH}.kind", ()]))
    # Only OpenAPI knows this keyword.
    definitions[root.cls.__name__]["properties"]["fault"]["items"].pop("discriminator", None)
    _join(definitions, {name: names[kind] for name, kind in own.items()})
    head = {"$schema": DRAFT, "title": TITLE, "description": "A scenario of Tacit: `tacit run FILE` runs it."}
    return (
        head
        | {key: value for key, value in definitions.pop(root.cls.__name__).items() if key not in head}
        | {"definitions": definitions}
    )


def _defined(kinds: Iterable[type[Struct]]) -> list[str]:
    """The names under which msgspec defines `kinds`; they differ from class names if two classes have equal names."""
    references, _ = msgspec.json.schema_components(kinds, ref_template="{name}")
    return [one["$ref"] for one in references]


def _tables(path: str, node: types.StructType) -> Iterator[tuple[str, types.StructType]]:
    """Yield the struct `node` at `path` and those inside it, with the prefix of their keys, such as ``data.`` or
    ``fault.N.``."""
    yield path, node
    for field in node.fields:
        kind = field.type
        if isinstance(kind, types.StructType):
            yield from _tables(f"{path}{field.encode_name}.", kind)
        elif isinstance(kind, types.VarTupleType):
            some = kind.item_type.types if isinstance(kind.item_type, types.UnionType) else (kind.item_type,)
            for one in some:
                if isinstance(one, types.StructType):
                    yield from _tables(f"{path}{field.encode_name}.{EACH}.", one)


def _complete(
    definition: Schema,
    path: str,
    node: types.StructType,
    rows: Mapping[tuple[str, tuple[str, ...]], Key],
    protocols: tuple[str, ...],
) -> None:
    """Add facts that msgspec does not know, from the table of keys, to the `definition` of a table."""
    for field in node.fields:
        name, schema = path + field.encode_name, definition["properties"][field.encode_name]
        items = schema.get("items", {})
        if "$ref" in schema or "$ref" in items or any("$ref" in one for one in items.get("anyOf", ())):
            schema.pop("default", None)
            continue
        row = rows.get((name, protocols)) or rows[name, ()]
        made = _without_nothing(schema)
        # A list of names may have others than those that its text lists, such as a task's own metrics.
        if made.get("type") != "array" and (found := _names_for(name, field.type)) is not None:
            made |= {"enum": [*([""] if made.get("default") == "" else []), *found]}
            made.pop("type", None)
        elif pattern := _pattern(row.unit, node.cls):
            _match(made, pattern)
        if "default" in made:
            # As JSON: a tuple becomes a list.
            made["default"] = msgspec.json.decode(msgspec.json.encode(made["default"]))
        definition["properties"][field.encode_name] = {"description": _described(row)} | made


def _described(row: Key) -> str:
    """The description of a key with its unit and the protocols that use it."""
    unit = _UNITS.get(row.unit, f" Unit: {row.unit}." if row.unit else "")
    users = f" Used by: {', '.join(row.protocols)}." if row.protocols else ""
    return f"{row.description}{unit}{users}".strip()


def _without_nothing(schema: Schema) -> Schema:
    """A copy of `schema` without null, which TOML does not have, and without its description."""
    made = {key: value for key, value in schema.items() if key not in ("description", "anyOf")}
    if "default" in made and made["default"] is None:
        del made["default"]
    some = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if "enum" in made:
        made["enum"] = [value for value in made["enum"] if value is not None]
    return made | (some[0] if len(some) == 1 else {"anyOf": some} if some else {})


def _names_for(name: str, node: types.Type) -> list[str] | None:
    """The names that the key `name` may have, if a registry lists them."""
    extra = (node.extra or {}) if isinstance(node, types.Metadata) else {}
    known = _NAMES.get(name, extra.get("registry", extra.get("listed")))
    return None if known is None else [*known]


def _pattern(unit: str, table: type) -> str:
    """The pattern of texts of a `unit`; rates and speeds of [[client]] may be drawn."""
    if table is Client and unit in ("rate", "factor"):
        return f"^({RATE_PATTERN}|{_DRAWN})$" if unit == "rate" else f"^{_DRAWN}$"
    return _PATTERNS.get(unit, "")


def _match(schema: Schema, pattern: str) -> None:
    """Require texts under `schema` to match `pattern`, and numbers, then seconds or factors, to be at least 0."""
    for one in schema.get("anyOf", [schema]):
        if one.get("type") == "string":
            one["pattern"] = pattern
        elif one.get("type") == "number" and "exclusiveMinimum" not in one:
            one["minimum"] = 0


# --- rules that depend on the kind of fault or on the protocol


def _fault(kind: type[Fault], definition: Schema, described: str) -> None:
    """Complete the `definition` of a kind of fault by its required keys, and by the rule of exactly one trigger.

    A table without a kind is the default one. Keys that exclude each other must not both be given.
    """
    needed = definition.get("required", ())
    definition["required"] = [key for key in needed if key != "kind" or kind.kind != DEFAULT_KIND]
    definition["properties"]["kind"]["description"] = described
    for key in kind.needed:
        definition["properties"][key]["minLength"] = 1
    if kind.when:  # an empty message means that there is none
        definition["oneOf"] = [
            {"required": [key], "properties": {"message": {"minLength": 1}}}
            if key == "message"
            else {"required": [key]}
            for key in kind.when
        ]
    fields = {*kind.__struct_fields__}
    chances = ("occurrence", "probability")
    both = [chances, *((drawn, chance) for drawn in DRAWN for chance in chances)]
    if excluded := [{"required": [*pair]} for pair in both if {*pair} <= fields]:
        definition["not"] = excluded[0] if len(excluded) == 1 else {"anyOf": excluded}
    if "step" in fields:
        definition["if"], definition["then"] = {"required": ["step"]}, {"anyOf": [{"required": [one]} for one in DRAWN]}


def _join(definitions: dict[str, Schema], own: Mapping[str, str]) -> None:
    """Give the table [protocol] the keys of all protocols, each as defined by the protocol in the file.

    `own` are the definitions of protocols with keys of their own. Keys of other protocols may be in a file; Tacit
    ignores them.
    """
    base = definitions[ProtocolKeys.__name__]
    given: dict[str, list[Schema]] = {key: [schema] for key, schema in base["properties"].items()}
    for defined in own.values():
        for key, schema in definitions[defined]["properties"].items():
            if key != "name" and schema not in given.setdefault(key, []):
                given[key].append(schema)
    whole = {key: some[0] if len(some) == 1 else {"anyOf": some} for key, some in given.items()}
    choices: list[Schema] = []
    for name, defined in own.items():
        table = definitions.pop(defined)
        exact = {key: schema for key, schema in table["properties"].items() if key != "name" and schema != whole[key]}
        if exact or table.get("required"):
            then = {"properties": exact, "required": [*table.get("required", ())]}
            choices.append({"if": _named([name], needed=True), "then": then})
    several = {key: schema for key, schema in base["properties"].items() if whole[key] != schema}
    if several:
        others = [name for name in PROTOCOLS if name not in own]
        choices.append({"if": _named(others, needed=False), "then": {"properties": several}})
    base["properties"] = whole
    base["required"] = []
    if choices:
        base["allOf"] = choices


def _named(names: list[str], *, needed: bool) -> Schema:
    """The schema of tables whose `name` is one of `names`; without `needed` also of tables without a name."""
    chosen: Schema = {"properties": {"name": {"enum": names}}}
    return chosen | ({"required": ["name"]} if needed else {})
