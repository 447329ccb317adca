"""The table of keys and of their allowed values, in words, derived from the structs of
`tacit.scenarios.schema.scenario`."""

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from inspect import get_annotations
from types import new_class
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, structs
from msgspec import inspect as types

from tacit.protocols.registry import PROTOCOLS, using
from tacit.protocols.sums.registry import own_keys
from tacit.scenarios.schema.scenario import ProtocolKeys, ScenarioFile, SumKeys
from tacit.sim import plugged
from tacit.sim.faults import DEFAULT_KIND
from tacit.sim.registry import similar
from tacit.sim.table import Keys, joined
from tacit.sim.toml_text import toml

__all__ = [
    "EACH", "Key", "allowed", "bounds", "keys", "kind_of", "moved", "named", "of_all", "own_names", "similar",
    "structure", "toml",
]  # fmt: skip


EACH = "N"
"""The number that stands for any table of a list in the name of a key: ``fault.N.at``, as ``fault.0.at`` for the
first."""


class Key(Struct, frozen=True):
    """One row of the table of keys. `protocols` is empty if every protocol uses the key.

    `type` has the allowed values in words; `values` has them as a file writes them, without quotes, if they are a
    finite list.
    """

    name: str
    type: str
    unit: str
    default: str
    protocols: tuple[str, ...]
    description: str
    values: tuple[str, ...] = ()

    @property
    def is_of_list(self) -> bool:
        """True if the key belongs to a table that a file may repeat."""
        return f".{EACH}." in self.name


_WORDS: dict[type[types.Type], str] = {
    types.BoolType: "true or false",
    types.StrType: "text in quotes",
    types.StructType: "a table",
    types.DictType: "a table",
    types.NoneType: "",
}


def bounds(node: types.IntType | types.FloatType) -> str:
    """Return the allowed numbers in words: ``1 to 9``, ``above 0, at most 1``, ``a multiple of 4``; "" if all are
    allowed."""
    multiple = "" if node.multiple_of is None else f"a multiple of {node.multiple_of}"
    return ", ".join(filter(None, (_range(node), multiple)))


def _range(node: types.IntType | types.FloatType) -> str:
    low = f"{node.ge}" if node.ge is not None else f"above {node.gt:g}" if node.gt is not None else ""
    high = f"{node.le}" if node.le is not None else f"below {node.lt:g}" if node.lt is not None else ""
    if low and high:
        if node.ge is not None and node.le is not None:
            return f"{low} to {high}"
        return f"{'at least ' * (node.ge is not None)}{low}, {'at most ' * (node.le is not None)}{high}"
    return f"{low} or more" if node.ge is not None else low or high


def allowed(node: types.Type) -> str:
    """Return the allowed values of the type `node`, in words."""
    if isinstance(node, types.Metadata):
        names = (node.extra or {}).get("registry")
        return allowed(node.type) if names is None else _listed(names)
    if isinstance(node, types.LiteralType):
        return _listed(node.values)
    if isinstance(node, types.EnumType):
        return _listed(member.value for member in node.cls)
    if isinstance(node, types.IntType | types.FloatType):
        kind = "a whole number" if isinstance(node, types.IntType) else "a number"
        limits = bounds(node)
        return f"{kind}, {limits}" if limits else kind
    if isinstance(node, types.UnionType):
        return " or ".join(filter(None, map(allowed, node.types)))
    if isinstance(node, types.VarTupleType | types.ListType):
        if _is_table(node.item_type):
            return "a list of tables, each headed by its name in double brackets"
        return f"a list{_length(node, 'of ', '')}, each {allowed(node.item_type)}"
    if isinstance(node, types.TupleType):
        return f"a list of {len(node.item_types)}: {'; '.join(map(allowed, node.item_types))}"
    if isinstance(node, types.StrType):
        pattern = f", matching {node.pattern}" if node.pattern else ""
        return f"{_WORDS[types.StrType]}{_length(node, 'of ', ' characters')}{pattern}"
    return _WORDS[type(node)]


def finite(node: types.Type) -> tuple[str, ...]:
    """Return the allowed values of the type `node`, in the order of `allowed`; () if they are no finite list of
    texts."""
    if isinstance(node, types.Metadata):
        names = (node.extra or {}).get("registry")
        return finite(node.type) if names is None else _sorted(map(str, names))
    if isinstance(node, types.LiteralType):
        texts = [one for one in node.values if isinstance(one, str)]
        return _sorted(texts) if len(texts) == len(node.values) else ()
    if isinstance(node, types.EnumType):
        return _sorted(str(member.value) for member in node.cls)
    if isinstance(node, types.UnionType):
        others = [one for one in node.types if not isinstance(one, types.NoneType)]
        return finite(others[0]) if len(others) == 1 else ()
    return ("true", "false") if isinstance(node, types.BoolType) else ()


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=lambda text: (len(text), text)))


def _is_table(node: types.Type) -> bool:
    """Return True if values of the type are tables, of one kind or of several."""
    kinds = node.types if isinstance(node, types.UnionType) else (node,)
    return all(isinstance(kind, types.StructType) for kind in kinds)


def _length(node: types.StrType | types.ListType | types.VarTupleType, before: str, after: str) -> str:
    """Return the allowed length of a text or list in words; "" if any is allowed."""
    low, high = node.min_length, node.max_length
    if low is None and high is None:
        return ""
    words = f"{low} or more" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
    return f" {before}{words}{after}"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(toml, values), key=lambda text: (len(text), text)))


def _fields(prefix: str, node: types.StructType, of_kind: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name of each key, and its field; for the key that names the kind of a table, the union of the kinds.

    The third value is true for a key that tables of one kind have, and others may lack.
    """
    for field in node.fields:
        name, kind = prefix + field.encode_name, field.type
        item = kind.item_type if isinstance(kind, types.VarTupleType) else kind
        inside = f"{name}.{EACH}." if item is not kind else f"{name}."
        if isinstance(item, types.StructType):
            yield from _fields(inside, item, of_kind)
        elif isinstance(item, types.UnionType) and item is not kind:
            kinds = [each for each in item.types if isinstance(each, types.StructType)]
            yield f"{inside}{kinds[0].tag_field}", item, False
            for each in kinds:
                yield from _fields(inside, each, True)
        else:
            yield name, field, of_kind


def _rows(prefix: str, node: types.StructType) -> Iterator[Key]:
    found: dict[str, Key] = {}
    for name, field, of_kind in _fields(prefix, node):
        if name not in found:
            row = _row_of_kinds(name, field) if isinstance(field, types.UnionType) else _row(name, field)
            found[name] = structs.replace(row, default="") if of_kind and row.default == "needed" else row
    yield from found.values()


def _row(name: str, field: types.Field) -> Key:
    kind = field.type
    # A plugin's protocol may annotate nothing.
    notes = kind if isinstance(kind, types.Metadata) else types.Metadata(kind)
    extra = notes.extra or {}
    description = (notes.extra_json_schema or {}).get("description", "")
    if (listed := extra.get("listed")) is not None:
        lines = (f"`{word}`, {one.description}" for word, one in listed.items())
        description = description.replace("{listed}", "; ".join(lines))
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    default = "needed" if field.required else "" if value is None else toml(msgspec.to_builtins(value))
    return Key(name, allowed(kind), extra.get("unit", ""), default, _using(name), description, finite(kind))


def _row_of_kinds(name: str, node: types.UnionType) -> Key:
    """Return the row of the key that names the kind of a table."""
    kinds = [kind for kind in node.types if isinstance(kind, types.StructType)]
    summaries = "; ".join(f"`{kind.tag}`: {kind.cls.summary}" for kind in kinds)  # type: ignore[attr-defined]
    tags = tuple(str(kind.tag) for kind in kinds)
    return Key(name, _listed(tags), "", toml(DEFAULT_KIND), _using(name), f"{summaries}.", _sorted(tags))


def _using(name: str) -> tuple[str, ...]:
    return using(name, name.partition(".")[0] + ".*")


def keys() -> list[Key]:
    """Return every key of a scenario file, in the order of the file; ``fault.N.`` stands for each [[fault]] from 0 on.

    The keys of added protocols are at the end, and may have the name of another protocol's key.
    """
    found = [*_keys(plugged.active(), tuple(PROTOCOLS))]
    for name, declaration in PROTOCOLS.items():
        if declaration.keys is not None:
            found += _own_keys(name, declaration.keys)
    return found


def kind_of(protocol: object) -> type[ScenarioFile]:
    """Return the struct of a scenario file with this `protocol`; `ScenarioFile` if it adds no keys or is unknown."""
    declaration, kind = PROTOCOLS.get(protocol) if isinstance(protocol, str) else None, _kind(own_keys())
    return kind if declaration is None or declaration.keys is None else _kind_with(kind, "protocol", declaration.keys)


def structure(kind: type[Struct] | None = None) -> types.StructType:
    """Return the structure of a table, by default a scenario file with the keys of plugins' sums."""
    return _structure(kind or _kind(own_keys()))


@cache
def _structure(kind: type[Struct]) -> types.StructType:
    node = types.type_info(kind)
    assert isinstance(node, types.StructType)
    return node


def moved(key: str) -> str:
    """Return the name of the key that replaces `key`, a former one of its table; "" for all others."""
    table, _, name = key.partition(".")
    tables = {one.encode_name: one.type for one in _structure(ScenarioFile).fields}
    kind = tables.get(table)
    return kind.cls.moved.get(name, "") if isinstance(kind, types.StructType) and issubclass(kind.cls, Keys) else ""


@lru_cache(maxsize=8)
def _keys(plugins: tuple[str, ...], protocols: tuple[str, ...]) -> tuple[Key, ...]:
    """Return the rows with the keys of the active `plugins`, and for these `protocols`."""
    rows = _rows("", structure())
    return tuple(sorted(rows, key=lambda key: "." in key.name))  # top-level keys precede tables in TOML


@lru_cache(maxsize=1)
def named() -> frozenset[str]:
    """Return the names of the keys of `keys` apart from those that one protocol adds; no protocol is imported."""
    return frozenset(name for name, _, _ in _fields("", _structure(ScenarioFile)))


@cache
def _kind(sums: tuple[type[Struct], ...]) -> type[ScenarioFile]:
    """Return a kind of `ScenarioFile` whose [sum] table also has the keys of the structs `sums`."""
    if not sums:
        return ScenarioFile
    table: type[SumKeys] = joined("SumKeys", SumKeys.__doc__ or "", SumKeys, *sums)
    return _kind_with(ScenarioFile, "sum", table)


@cache
def _kind_with(base: type[ScenarioFile], name: str, table: type[Struct]) -> type[ScenarioFile]:
    """Return a kind of `base` whose table `name` is the struct `table`."""
    fields = {"__annotations__": {name: table}, name: msgspec.field(default_factory=table)}
    options = {"kw_only": True, "frozen": True, "forbid_unknown_fields": True}
    # msgspec.defstruct accepts no bases with another metaclass.
    return new_class("ScenarioFile", (base,), options, lambda namespace: namespace.update(fields))


def own_names(protocol: str) -> frozenset[str]:
    """Return the names of the keys that only `protocol` has; no other protocol is imported."""
    declaration = PROTOCOLS.get(protocol)
    if declaration is None or declaration.keys is None:
        return frozenset()
    return frozenset(f"protocol.{field}" for field in _own_fields(declaration.keys))


def _own_fields(protocol: type[Struct]) -> set[str]:
    kinds = [kind for kind in protocol.__mro__ if kind not in ProtocolKeys.__mro__]
    return {field for kind in kinds for field in get_annotations(kind)}


@cache
def _own_keys(name: str, protocol: type[Struct]) -> tuple[Key, ...]:
    """Return the keys that only the protocol `name` has: the fields of its struct `protocol`."""
    own, node = _own_fields(protocol), types.type_info(protocol)
    assert isinstance(node, types.StructType)
    rows = [row for row in _rows("protocol.", node) if row.name.partition(".")[2] in own]
    return tuple(structs.replace(row, protocols=(name,)) for row in rows)


_TABLES_OF_ALL = frozenset(
    ("client", "data", "device", "expect", "fault", "host", "link", "network", "scales", "table")
)
_PROTOCOL_OF_ALL = ("name", "recipe", "deadline", "presence", "heartbeat", "heartbeat_misses")
_OF_SOME = frozenset(("data.held_out", "network.helper_bandwidth", "device.helper_speed", "device.helper_cores"))


@lru_cache(maxsize=1)
def of_all() -> frozenset[str]:
    """Return the names of the keys in tables that every protocol uses; no protocol is imported."""
    names = {name for name in named() if name.partition(".")[0] in _TABLES_OF_ALL}
    return frozenset(names | {f"protocol.{name}" for name in _PROTOCOL_OF_ALL}) - _OF_SOME
