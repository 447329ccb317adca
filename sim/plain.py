"""Objects as plain data that MessagePack can hold, and back: numbers, texts, bytes, arrays, and pending calls.

A pending call is a bound method, or a `partial` of one. Its object is stored by name if it is one of the world's own
parts, which exist again in the world that is restored. Other objects are stored field by field, each once, so that
shared objects are shared again. Texts with further fields are made again by the method `made` of their class, or are
stored as texts alone if the class is not one of those that may be stored. Only methods of known parts, and of objects
of the classes that may be stored, are ever called, whatever the data says.

Collections of many items are encoded item by item, because all items as plain objects would take many times the memory
of their encoding. They may be encoded into a file, from which `pieces` copies them.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import chain
from types import BuiltinMethodType, MethodType
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np

__all__ = ["Named", "NotPlain", "Reader", "Spilled", "Writer", "Written", "packed", "pieces"]


class NotPlain(Exception):
    """An object cannot be stored; the text says which."""


class Named(Mapping[str, Any]):
    """Known objects by their names, which also finds the names of objects."""

    def name_of(self, value: object) -> str | None:
        """The name of `value`, or None if it is not one of them."""
        raise NotImplementedError(f"{type(self).__name__} finds no names")


class _Listed(Named):
    """Known objects that a dictionary lists."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known
        self._names = {id(value): name for name, value in known.items()}

    def name_of(self, value: object) -> str | None:
        return self._names.get(id(value))

    def __getitem__(self, name: str) -> Any:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Spilled(NamedTuple):
    """An encoded list of a `number` of items: the `length` bytes of the `file` from `start` on."""

    file: BinaryIO
    start: int
    length: int
    number: int


_encoder = msgspec.msgpack.Encoder()
_MANY = 1000
"""The number of items from which a collection is encoded item by item."""

_CHUNK = 1 << 20


def packed(values: Iterable[Any]) -> msgspec.Raw:
    """Encode a list of `values`, which are plain, one after the other."""
    found = _encoded(values, None)
    assert isinstance(found, msgspec.Raw)
    return found


def _encoded(values: Iterable[Any], spill: BinaryIO | None) -> msgspec.Raw | Spilled:
    buffer, count = bytearray(_HEADER), 0
    if spill is not None:
        start, buffer = spill.tell(), bytearray()
    for value in values:
        _encoder.encode_into(value, buffer, -1)
        count += 1
        if spill is not None and len(buffer) > _CHUNK:
            spill.write(buffer)
            buffer.clear()
    if spill is None:
        buffer[:_HEADER] = _list_header(count)
        return msgspec.Raw(buffer)
    spill.write(buffer)
    return Spilled(spill, start, spill.tell() - start, count)


_HEADER = 5


def _list_header(count: int) -> bytes:
    """MessagePack's header of an array of `count` items, in its longest form."""
    return b"\xdd" + count.to_bytes(4, "big")


def _map_header(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def pieces(value: Any) -> Iterator[bytes | memoryview]:
    """Yield the encoding of plain `value` in pieces. What was encoded before is passed on without a copy of it all.

    Values that were spilled may be in dictionaries, not in lists.
    """
    if isinstance(value, Spilled):
        yield _list_header(value.number)
        for at in range(0, value.length, _CHUNK):
            value.file.seek(value.start + at)
            yield value.file.read(min(_CHUNK, value.length - at))
    elif isinstance(value, msgspec.Raw):
        yield memoryview(value)
    elif isinstance(value, dict):
        yield _map_header(len(value))
        for key, item in value.items():
            yield _encoder.encode(key)
            yield from pieces(item)
    else:
        yield _encoder.encode(value)


_UNSET = ["unset"]
_AS_THEY_ARE = frozenset((type(None), bool, int, float, str, bytes))


class Written:
    """A `value` that is what a `Writer` makes of some object, for states of which there are very many."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Writer:
    """Converts objects to plain data: `known` ones by their names, those of `kinds` by their fields.

    `seen` are the objects stored by their fields, in order, without those that consist of numbers and texts alone.
    Collections of many items become encoded ones; those of `each` are encoded into the file `spill` if there is one.
    """

    def __init__(self, known: Mapping[str, object], kinds: Mapping[str, type], spill: BinaryIO | None = None) -> None:
        self._name_of = (known if isinstance(known, Named) else _Listed(known)).name_of
        self._kinds = {kind: name for name, kind in kinds.items()}
        self._spill = spill
        self._numbers: dict[int, int] = {}
        self.seen: list[Any] = []
        self.objects: list[Any] = []

    def write(self, value: Any) -> Any:
        """Convert `value` to numbers, texts, bytes and lists. Raises NotPlain."""
        kind: Any = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is Written:
            return value.value
        if kind is list or kind is tuple:  # the most there is, and never known by name
            if len(value) >= _MANY:
                return packed(chain((kind.__name__,), map(self.write, value)))
            write = self.write
            return [kind.__name__, *[item if type(item) in _AS_THEY_ARE else write(item) for item in value]]
        if kind is dict:
            if len(value) >= _MANY:
                return packed(chain(("dict",), map(self._write_all, value.items())))
            return ["dict", *map(self._write_all, value.items())]
        if kind in self._kinds and _is_value(kind):  # never known by name
            fields = msgspec.structs.astuple(value)
            if _VALUES.issuperset(map(type, fields)):
                return ["value", self._kinds[kind], *fields]
        if isinstance(value, np.generic) and not isinstance(value, np.void):
            value = value.item()
        if isinstance(value, str):
            if kind in self._kinds:
                return ["text", self._kinds[kind], *(self.write(getattr(value, name)) for name in _fields(kind))]
            return str(value)
        if value is None or isinstance(value, bool | int | float | bytes):
            return value
        if (name := self._name_of(value)) is not None:
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
        if isinstance(value, MethodType | BuiltinMethodType):  # the latter: compiled ones
            if (name := self._name_of(value.__self__)) is not None:
                return ["method", name, value.__name__]
            if type(value.__self__) in self._kinds:
                return ["method of", self._number(value.__self__), value.__name__]
        if kind in self._kinds:
            return ["object", self._number(value)]
        raise NotPlain(f"{value!r}")

    def each(self, items: Iterable[Any]) -> msgspec.Raw | Spilled:
        """Convert a list of many `items`, which need not exist at the same time."""
        return _encoded(chain(("list",), map(self.write, items)), self._spill)

    def rows(self, items: Iterable[tuple[Any, ...]]) -> msgspec.Raw | Spilled:
        """Convert a list of many tuples of numbers and texts, as `each` does."""
        return _encoded(chain(("list",), (("tuple", *item) for item in items)), self._spill)

    def entries(self, items: Iterable[tuple[str, Any]]) -> msgspec.Raw | Spilled:
        """Convert a dictionary of many keys and values, which need not exist at the same time."""
        return _encoded(chain(("dict",), map(self._write_all, items)), self._spill)

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
        """Convert each of `values`. Most stay as they are."""
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
        return _method_of(self._known[name], method)

    def _method_of(self, number: int, method: str) -> Any:
        return _method_of(self._object(number), method)

    def _value(self, name: str, *fields: Any) -> Any:
        kind = self._kinds[name]
        if not _is_value(kind):
            raise ValueError(f"a {name} as a value")
        return kind(**dict(zip(_fields(kind), map(self.read, fields), strict=True)))

    def _text(self, name: str, *fields: Any) -> Any:
        kind: Any = self._kinds[name]
        return kind.made(*map(self.read, fields))

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


def _method_of(owner: Any, name: str) -> Any:
    if name.startswith("__") or not callable(getattr(type(owner), name)):
        raise ValueError(f"{name} of {type(owner).__name__}")
    return getattr(owner, name)


_READERS: dict[str, Callable[..., Any]] = {
    "known": Reader._name,
    "tuple": Reader._tuple,
    "list": Reader._list,
    "deque": Reader._deque,
    "dict": Reader._dict,
    "array": Reader._array,
    "partial": Reader._partial,
    "method": Reader._method,
    "method of": Reader._method_of,
    "object": Reader._object,
    "value": Reader._value,
    "text": Reader._text,
}
_VALUES = frozenset((type(None), bool, int, float, str))


@cache
def _is_value(kind: Any) -> bool:
    """True for a class of records that never change, of which two equal ones need not be one object."""
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a class to store: those listed in its `stored`, or all fields of a record."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    names: tuple[str, ...] = kind.stored
    return names
