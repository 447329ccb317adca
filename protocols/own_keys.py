"""The keys of a protocol of one's own: which types they may have, so that a scenario file can hold every value.

What is refused here would be lost or not understood later: TOML has no sets and no bytes, a table would need keys that
nobody has described, and a date would come back from a run's folder as text.
"""

from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, structs
from msgspec import inspect as types

__all__ = ["check_keys"]

_SCALARS = (types.BoolType, types.IntType, types.FloatType, types.StrType, types.LiteralType, types.EnumType)
_ALLOWED = "bool, int, float, str, a Literal or an Enum of those, a list or tuple of them, and each of them or None"


def check_keys(keys: type[Struct]) -> None:
    """Raise ValueError, in a line, for a field of `keys` whose type or default no scenario file can hold."""
    try:
        fields = structs.fields(keys)
        nodes = {field.name: types.type_info(field.type) for field in fields}
    except (TypeError, NameError) as error:
        raise ValueError(f"the keys {keys.__name__} have a type that cannot be read: {error}") from None
    for field in fields:
        of = f"{field.name} of {keys.__name__}"
        if not _is_allowed(nodes[field.name]):
            raise ValueError(f"the key {of} has the type {_written(field.type)}; allowed: {_ALLOWED}.")
        if field.encode_name != field.name:
            raise ValueError(f"the key {of} would be called {field.encode_name} in a file; allowed: its own name.")
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        if default is not NODEFAULT:
            _check_default(of, default, field.type)


def _check_default(of: str, default: Any, kind: Any) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(default), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"the default of {of} is {default!r}, which a file could not say: {error}.") from None


def _is_allowed(node: types.Type) -> bool:
    if isinstance(node, types.Metadata):
        return _is_allowed(node.type)
    if isinstance(node, types.UnionType):
        return all(isinstance(item, types.NoneType) or _is_allowed(item) for item in node.types)
    if isinstance(node, types.ListType | types.VarTupleType):
        return _is_allowed(node.item_type)
    if isinstance(node, types.TupleType):
        return all(map(_is_allowed, node.item_types))
    return isinstance(node, _SCALARS)


def _written(kind: Any) -> str:
    """A type as a program has it, without notes and modules: ``dict[str, list[int]]``."""
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("datetime.", "")
