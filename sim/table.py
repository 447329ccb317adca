"""The base of the structs of a scenario's tables, and the notes on their keys."""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec import NODEFAULT, Meta, Struct, StructMeta, field, structs

from tacit.sim.registry import similar

__all__ = ["Described", "Keys", "about", "joined"]


class _Signature(inspect.Signature):
    """A signature without text; otherwise `help` would begin with the descriptions of all keys."""

    def __str__(self) -> str:
        return "()"

    def format(self, **_: Any) -> str:
        return "()"


class Described(StructMeta):
    """The metaclass of the structs of tables: it rejects unknown keys by name."""

    @property
    def __signature__(cls) -> inspect.Signature:
        whole: inspect.Signature = StructMeta.__signature__.__get__(cls)
        return _Signature(list(whole.parameters.values()))

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        fields = cls.__struct_fields__
        for name in named:
            if name not in fields:
                new = cls.moved.get(name) if issubclass(cls, Keys) else None
                hint = f": it is now {new}" if new else similar(name, fields)
                raise TypeError(f"{cls.__name__} has no key {name!r}{hint}")
        return super().__call__(*arguments, **named)


class Keys(Struct, metaclass=Described, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The base of a scenario's tables.

    `moved`: keys that the table had once, each with the name of the key that replaces it.
    """

    moved: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, which names the key that replaces a former one."""
            new = type(self).moved.get(name)
            hint = f": it is now {new}" if new else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    @classmethod
    def part_of(cls, whole: "Keys") -> Self:
        """These keys with the values of `whole`, a table that has them and others."""
        return cls(**{key: getattr(whole, key) for key in cls.__struct_fields__})

    def idle(self) -> Mapping[str, str]:
        """The keys without effect beside the values of others of the table, each with the values that it needs."""
        return {}


@lru_cache(maxsize=32)
def joined(name: str, description: str, *tables: type[Struct]) -> type[Any]:
    """A table with all keys of `tables`, in their order; it derives from the first.

    The same arguments give the same class, so that other processes can read its values. Raises ValueError for a key
    that two of them have with different types or defaults.
    """
    keys: dict[str, structs.FieldInfo] = {}
    for table in tables:
        for one in structs.fields(table):
            if _meaning(keys.setdefault(one.name, one)) != _meaning(one):
                raise ValueError(f"the key {one.name} of {table.__qualname__} is another in a table beside it.")
    more = [one for one in keys.values() if one.name not in tables[0].__struct_fields__]
    body: dict[str, Any] = {"__doc__": description, "__module__": tables[0].__module__}
    body |= {"__annotations__": {one.name: one.type for one in more}}
    body["idle"] = lambda self: _idle(self, tables)
    body["__reduce__"] = lambda self: (_made, (name, description, tables, structs.asdict(self)))
    body |= {one.name: field(default_factory=one.default_factory) for one in more if not _is_plain(one)}
    body |= {one.name: one.default for one in more if _is_plain(one) and not one.required}
    options = {"kw_only": True, "frozen": True, "forbid_unknown_fields": True}
    # msgspec.defstruct accepts no bases with another metaclass.
    return new_class(name, tables[:1], options, lambda namespace: namespace.update(body))


def _made(name: str, description: str, tables: tuple[type[Struct], ...], values: Mapping[str, Any]) -> Any:
    return joined(name, description, *tables)(**values)


def _idle(whole: Any, tables: tuple[type[Struct], ...]) -> Mapping[str, str]:
    """The keys of `whole`, a table joined from `tables`, that each of these finds without effect."""
    return {key: needed for table in tables if issubclass(table, Keys) for key, needed in table.idle(whole).items()}


def _is_plain(one: structs.FieldInfo) -> bool:
    return one.default_factory is NODEFAULT


def _meaning(one: structs.FieldInfo) -> tuple[Any, ...]:
    return one.type, one.default, one.default_factory


def about(description: str, *, unit: str = "", registry: Any = None, listed: Any = None, **limits: Any) -> Meta:
    """The notes on a key, for messages and pages of reference: its `description`, its `unit`, and its `limits`.

    The limits are those of `msgspec.Meta`: ``gt``, ``ge``, ``lt``, ``le``, ``min_length``. The names of a `registry`
    are the allowed values; those of `listed` replace ``{listed}`` in the description, each with its own description.
    """
    notes = {"unit": unit or None, "registry": registry, "listed": listed}
    extra = {name: value for name, value in notes.items() if value is not None}
    return Meta(description=description, extra=extra or None, **limits)
