"""The base of the structs of a scenario's tables, and the notes on their keys."""

import inspect
from typing import Any

from msgspec import Meta, Struct, StructMeta

from tacit.sim.registry import similar

__all__ = ["Described", "Keys", "about"]


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


def about(description: str, *, unit: str = "", registry: Any = None, listed: Any = None, **limits: Any) -> Meta:
    """The notes on a key, for messages and pages of reference: its `description`, its `unit`, and its `limits`.

    The limits are those of `msgspec.Meta`: ``gt``, ``ge``, ``lt``, ``le``, ``min_length``. The names of a `registry`
    are the allowed values; those of `listed` replace ``{listed}`` in the description, each with its own description.
    """
    notes = {"unit": unit or None, "registry": registry, "listed": listed}
    extra = {name: value for name, value in notes.items() if value is not None}
    return Meta(description=description, extra=extra or None, **limits)
