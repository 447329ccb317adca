"""Objects as plain data that MessagePack can hold, and back: numbers, texts, bytes, arrays, and pending calls.

A pending call is a bound method, or a `partial` of one. Its object is stored by name: it is one of the world's own
parts, which exist again in the world that is restored. Other objects are stored field by field, each once, so that
shared objects are shared again. Only methods of known parts are ever called, whatever the data says.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import MethodType
from typing import Any

import msgspec
import numpy as np

__all__ = ["NotPlain", "Reader", "Writer"]


class NotPlain(Exception):
    """An object cannot be stored; the text says which."""


_UNSET = ["unset"]
_AS_THEY_ARE = frozenset((type(None), bool, int, float, str, bytes))


class Writer:
    """Converts objects to plain data: `known` ones by their names, those of `kinds` by their fields.

    `seen` are the objects stored by their fields, in order.
    """

    def __init__(self, known: Mapping[str, object], kinds: Mapping[str, type]) -> None:
        self._names = {id(value): name for name, value in known.items()}
        self._kinds = {kind: name for name, kind in kinds.items()}
        self._numbers: dict[int, int] = {}
        self.seen: list[Any] = []
        self.objects: list[Any] = []

    def write(self, value: Any) -> Any:
        """Convert `value` to numbers, texts, bytes and lists. Raises NotPlain."""
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is list or kind is tuple:  # the most there is, and never known by name
            return [kind.__name__, *self._write_all(value)]
        if kind is dict:
            return ["dict", *map(self._write_all, value.items())]
        if isinstance(value, np.generic) and not isinstance(value, np.void):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        if (name := self._names.get(id(value))) is not None:
            return ["known", name]
        if isinstance(value, tuple | list | deque):
            tag = "tuple" if isinstance(value, tuple) else "list" if isinstance(value, list) else "deque"
            return [tag, *self._write_all(value)]
        if isinstance(value, dict):
            return ["dict", *map(self._write_all, value.items())]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return ["array", value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
        if isinstance(value, partial) and not value.keywords:
            return ["partial", self.write(value.func), *map(self.write, value.args)]
        if isinstance(value, MethodType) and id(value.__self__) in self._names:
            return ["method", self._names[id(value.__self__)], value.__func__.__name__]
        if type(value) in self._kinds:
            return ["object", self._number(value)]
        raise NotPlain(f"{value!r}")

    def _number(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.seen)
            self.seen.append(value)
            self.objects.append(None)  # reserves the number: the object may be one of its own parts
            kind: Any = type(value)
            fields = [getattr(value, name, _UNSET) for name in _fields(kind)]
            values = [
                field if type(field) in _AS_THEY_ARE or field is _UNSET else self.write(field) for field in fields
            ]
            self.objects[number] = [self._kinds[kind], *values]
        return number

    def _write_all(self, values: Iterable[Any]) -> list[Any]:
        """Convert each of `values`. Most stay as they are, and a checkpoint has thousands of them."""
        return [value if type(value) in _AS_THEY_ARE else self.write(value) for value in values]


class Reader:
    """Makes objects from the output of a `Writer`: `objects` are the stored ones, `known` and `kinds` resolve its
    names.

    `make` has functions that create empty objects of classes for which `__new__` is not enough.
    """

    def __init__(
        self,
        known: Mapping[str, Any],
        kinds: Mapping[str, type],
        objects: list[Any],
        make: Mapping[type, Callable[[], Any]],
    ) -> None:
        self._known, self._kinds, self._objects, self._make = known, kinds, objects, make
        self._made: dict[int, Any] = {}

    def read(self, stored: Any) -> Any:
        """Rebuild the object. Raises LookupError, TypeError, ValueError or AttributeError if the data is invalid."""
        if not isinstance(stored, list):
            return stored
        tag, *parts = stored
        return _READERS[tag](self, *parts)

    def _name(self, name: str) -> Any:
        return self._known[name]

    def _tuple(self, *items: Any) -> tuple[Any, ...]:
        return tuple(map(self.read, items))

    def _list(self, *items: Any) -> list[Any]:
        return list(map(self.read, items))

    def _deque(self, *items: Any) -> deque[Any]:
        return deque(map(self.read, items))

    def _dict(self, *items: Any) -> dict[Any, Any]:
        return {self.read(key): self.read(value) for key, value in items}

    def _array(self, kind: str, shape: list[int], data: bytes) -> Any:
        dtype = np.dtype(kind)
        if dtype.hasobject:
            raise ValueError(f"an array of {kind}")
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def _partial(self, function: Any, *arguments: Any) -> Any:
        return partial(self.read(function), *map(self.read, arguments))

    def _method(self, name: str, method: str) -> Any:
        owner = self._known[name]
        if method.startswith("__") or not callable(getattr(type(owner), method)):
            raise ValueError(f"{method} of {name}")
        return getattr(owner, method)

    def _object(self, number: int) -> Any:
        if number not in self._made:
            name, *values = self._objects[number]
            kind: Any = self._kinds[name]
            if issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind):
                fields = zip(_fields(kind), map(self.read, values), strict=True)
                self._made[number] = kind(**dict(fields))
            else:
                value = self._made[number] = self._make.get(kind, partial(kind.__new__, kind))()
                for field, part in zip(_fields(kind), values, strict=True):
                    if part != _UNSET:
                        setattr(value, field, self.read(part))
        return self._made[number]


_READERS: dict[str, Callable[..., Any]] = {
    "known": Reader._name,
    "tuple": Reader._tuple,
    "list": Reader._list,
    "deque": Reader._deque,
    "dict": Reader._dict,
    "array": Reader._array,
    "partial": Reader._partial,
    "method": Reader._method,
    "object": Reader._object,
}


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a class to store: those listed in its `stored`, or all fields of a record."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    names: tuple[str, ...] = kind.stored
    return names
