"""The base of the structs of a scenario's tables."""

import inspect
from typing import Any

from msgspec import Struct, StructMeta

from tacit.sim.registry import similar

__all__ = ["Described", "Keys"]


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
                raise TypeError(f"{cls.__name__} has no key {name!r}{similar(name, fields)}")
        return super().__call__(*arguments, **named)


class Keys(Struct, metaclass=Described, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The base of a scenario's tables."""
