"""Hollow values: byte strings and arrays without contents, for runs that only count bytes and time.

A *blank* is a byte string with a length and no contents but a short token that identifies it; a *hollow array* is an
array that repeats one value. Messages of hollow values travel, are counted and are waited for like any other; their
contents are never encoded. A job can declare a stand-in beside its definition (`hollow`). Jobs without one are really
run: cheap ones, and those of plugins.

Nothing large is ever filled: operations on hollow arrays give hollow arrays, unless the result is small.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import count
from types import MethodType
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "SMALL", "Blank", "Body", "HollowArray", "Meter", "array_in", "blank", "body_of", "filled", "hollow",
    "predicted", "stand_for", "stand_ins", "together", "unknown",
]  # fmt: skip

SMALL = 1 << 16
"""The most elements of an array that is really filled, with the value that it repeats."""

F = TypeVar("F", bound=Callable[..., Any])

_tokens = count(1)


class Blank(bytes):
    """A byte string of `length` bytes whose only content is a `token`."""

    _length: int

    def __new__(cls, length: int, token: bytes = b"") -> "Blank":
        made = super().__new__(cls, token)
        made._length = length
        return made

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return self._length > 0

    @property
    def token(self) -> bytes:
        """The token that identifies the blank."""
        return bytes.__getitem__(self, slice(None))

    def __bytes__(self) -> bytes:
        return self.token[: self._length].ljust(self._length, b"\0")

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Blank(len(range(*place.indices(self._length))), self.token)
        return 0

    def __add__(self, other: Any) -> "Blank":
        return Blank(self._length + len(other), self.token + getattr(other, "token", other)[:32])

    def __radd__(self, other: Any) -> "Blank":
        return Blank(self._length + len(other), other[:32] + self.token)

    def __copy__(self) -> "Blank":
        return self

    def __deepcopy__(self, memo: Any) -> "Blank":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Blank, (self._length, self.token)


def blank(length: int) -> Blank:
    """Make a blank of `length` bytes with a new token."""
    return Blank(length, next(_tokens).to_bytes(8, "big"))


class HollowArray(np.ndarray):
    """An array that repeats one value without the memory for its elements."""

    @property
    def _plain(self) -> NDArray[Any]:
        return self.view(np.ndarray)

    @property
    def _value(self) -> Any:
        return self._plain[(0,) * self.ndim]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [one._plain if isinstance(one, HollowArray) else one for one in inputs]
        if out is not None:
            return out[0]
        if method != "__call__" or ufunc.signature is not None:
            return _kept(getattr(ufunc, method)(*plain, **options))
        shape = np.broadcast_shapes(*map(np.shape, plain))
        if math.prod(shape) <= SMALL:
            return ufunc(*plain, **options)
        found = ufunc(*map(_first, plain), **options)
        if isinstance(found, tuple):
            return tuple(_repeated(one, shape) for one in found)
        return _repeated(found, shape)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return _kept(function(*map(_as_plain, arguments), **{name: _as_plain(one) for name, one in options.items()}))

    def __getitem__(self, place: Any) -> Any:
        return _kept(self._plain[place])

    def astype(self, dtype: DTypeLike, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]
        return _repeated(self._value.astype(dtype), self.shape) if self.size else self._plain.astype(dtype)

    def copy(self, order: Any = "C") -> Any:
        return self

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return _kept(self._plain.reshape(*shape, **options))

    def tobytes(self, order: Any = "C") -> bytes:
        return blank(self.nbytes)

    def min(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return self._value if axis is None else _kept(self._plain.min(axis, **options))

    def max(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return self._value if axis is None else _kept(self._plain.max(axis, **options))

    def all(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return bool(self._value) if axis is None else _kept(self._plain.all(axis, **options))

    def any(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return bool(self._value) if axis is None else _kept(self._plain.any(axis, **options))


def _as_plain(value: Any) -> Any:
    if isinstance(value, HollowArray):
        return value._plain
    if isinstance(value, list | tuple):
        return type(value)(map(_as_plain, value)) if not hasattr(value, "_fields") else value
    return value


def _first(value: Any) -> Any:
    return value if np.ndim(value) == 0 else np.asarray(value)[(0,) * np.ndim(value)]


def _kept(found: Any) -> Any:
    """Convert `found`, a result on hollow arrays: each array in it that is not small becomes hollow."""
    if isinstance(found, list | tuple):
        return type(found)(map(_kept, found))
    if type(found) is np.ndarray and found.size > SMALL:
        return _repeated(_first(found), found.shape)
    return found


def _repeated(value: Any, shape: Sequence[int]) -> Any:
    return np.broadcast_to(np.asarray(value), tuple(shape)).view(HollowArray)


def filled(shape: int | Sequence[int], dtype: DTypeLike = np.float64, value: Any = 0) -> Any:
    """An array that repeats `value`, hollow unless it is small."""
    whole = (shape,) if isinstance(shape, int) else tuple(shape)
    if math.prod(whole) <= SMALL:
        return np.full(whole, value, dtype)
    return _repeated(np.asarray(value, dtype), whole)


@lru_cache(16)  # read-only, so that all parties can share it
def unknown(shape: int | tuple[int, ...], dtype: DTypeLike = np.uint64) -> Any:
    """An array of zeros that is hollow, however small: for values that other hollow values say nothing about."""
    return _repeated(np.zeros((), dtype), (shape,) if isinstance(shape, int) else shape)


def array_in(data: bytes, dtype: DTypeLike) -> Any:
    """The numbers in `data`, as numpy.frombuffer gives them; zeros where it is blank."""
    if isinstance(data, Blank):
        kind = np.dtype(dtype)
        if len(data) % kind.itemsize:
            raise ValueError(f"{len(data)} bytes are no numbers of {kind.itemsize} bytes")
        return filled(len(data) // kind.itemsize, kind)
    return np.frombuffer(data, dtype)


def together(parts: Iterable[bytes]) -> bytes:
    """Concatenate `parts`; the result is blank if one of them is."""
    found = list(parts)
    if not any(isinstance(one, Blank) for one in found):
        return b"".join(found)
    return Blank(sum(map(len, found)), b"".join(getattr(one, "token", one[:32]) for one in found))


# Jobs

StandIn = Callable[..., Any]


def stand_for(kind: str, job: Callable[..., Any], stand_in: StandIn) -> None:
    """Register `stand_in`, which takes the same arguments, to be run instead of `job` in runs of that `kind`."""
    job.__dict__.setdefault("stand_ins", {})[kind] = stand_in


def hollow(stand_in: StandIn) -> Callable[[F], F]:
    """Decorate a job with a function of the same arguments that makes a hollow value instead of its result."""

    def mark(job: F) -> F:
        stand_for("hollow", job, stand_in)
        return job

    return mark


def predicted(stand_in: StandIn) -> Callable[[F], F]:
    """Decorate a job like `hollow`, for runs whose messages nobody looks at: predictions."""

    def mark(job: F) -> F:
        stand_for("predicted", job, stand_in)
        return job

    return mark


def stand_ins(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the function that maps a job to what is run instead: its stand-in of the first of `kinds` that it has, or
    the job itself."""

    @cache  # asked for with every job
    def of(function: Callable[..., Any]) -> StandIn | None:
        own = getattr(function, "stand_ins", {})
        return next((own[kind] for kind in kinds if kind in own), None)

    def find(job: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(job, partial):
            inner = find(job.func)
            return job if inner is job.func else partial(inner, *job.args, **job.keywords)
        if isinstance(job, MethodType):
            found = of(job.__func__)
            return job if found is None else partial(found, job.__self__)
        return of(job) or job

    return find


# Messages


class Meter:
    """Counts the bytes of hollow messages that exist `now`, in flight or not used up yet, and the `most` so far."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def add(self, size: int) -> None:
        """Count `size` bytes more."""
        self.now += size
        if self.now > self.most:
            self.most = self.now


class _Held(Blank):
    """A blank that a meter counts as long as it exists."""

    meter: Meter

    def counted(self, meter: Meter) -> "_Held":
        self.meter = meter
        meter.add(self._length)
        return self

    def __del__(self) -> None:
        self.meter.now -= self._length


class Body(_Held):
    """A stand-in for the encoding on the wire of a `message` with blanks; a sealed one has a `number`."""

    message: Any
    number: int

    @classmethod
    def of(cls, message: Any, length: int, meter: Meter, number: int = 0) -> "Body":
        """Make a body of that `length`."""
        made = cls(length)
        made.message, made.number = message, number
        made.counted(meter)
        return made

    def sealed(self, overhead: int, number: int) -> "Body":
        """The same body with a seal of `overhead` bytes."""
        return self.of(self.message, len(self) + overhead, self.meter, number)

    def opened(self) -> Any:
        """A copy of the message, as its receiver gets it."""
        return self._copied(self.message)

    def _copied(self, value: Any) -> Any:
        if isinstance(value, Blank):
            return _Held(len(value), value.token).counted(self.meter)
        if isinstance(value, list | tuple):
            return [self._copied(one) for one in value]
        if isinstance(value, msgspec.Struct):
            return type(value)(*(self._copied(getattr(value, name)) for name in value.__struct_fields__))
        return value


def body_of(message: Any, meter: Meter) -> bytes:
    """The encoding of `message`, or a stand-in for it if the message contains blanks."""
    _encoded.clear()
    encoded = _encode(message)
    if not _encoded:
        return encoded
    more = sum(map(_more, _encoded))
    _encoded.clear()
    return Body.of(message, len(encoded) + more, meter)


_encoded: list[Blank] = []
"""The blanks in the message that is being encoded."""


def _token_of(value: Any) -> bytes:
    """Return what is encoded in place of a blank `value`, and note the value."""
    token: bytes = value.token
    _encoded.append(value)
    return token


_encode = msgspec.msgpack.Encoder(enc_hook=_token_of).encode


def _more(value: Blank) -> int:
    """The bytes that `value` stands for beyond its encoding."""
    here = bytes.__len__(value)
    return len(value) + _mark(len(value)) - here - _mark(here)


def _mark(length: int) -> int:
    """The bytes of MessagePack's header of a byte string of that `length`."""
    return 2 if length < 1 << 8 else 3 if length < 1 << 16 else 5
