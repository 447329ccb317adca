"""The ways in which a party's part in a protocol ends without a result, and the reasons for them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Integral, Real
from string import Formatter
from typing import Any, ClassVar

from tacit.sim.grammar import in_number

__all__ = [
    "SERVER_LOST_AT", "TOO_FEW", "UNSAID", "Abort", "Overtaken", "Reason", "Reasoned", "Value", "Withdrawn", "filled",
    "require", "server_lost_at",
]  # fmt: skip

Value = "int | float | str | tuple[str, ...] | Reason"
"""A fact of a reason: a number, a text, the names of clients, or the reason behind it."""

TOO_FEW = "{count} {what} are left; {limit} is {least}"
"""The kind of the reason that `require` gives: `count` parties were left, and `limit` demands `least`."""

UNSAID = "the protocol states no reason"
"""The kind of the reason of an exception without a text."""

SERVER_LOST_AT = "the server was lost at {step}"
"""The kind of the reason that `server_lost_at` gives."""


class Reason(str):
    """The reason why a round or a run ended early: a sentence, and the facts that it states; "" if there is none.

    `kind` is the sentence with named places, as in `str.format`, and `values` has what is at these places:
    ``Reason("{count} clients are left", count=2)``. A text without values is a kind of its own. `lost` names clients
    that the sentence lists at its end, in addition; reasons of one kind differ in them.

    A value is a number, a text, several names, or the reason behind this one; NumPy's are taken, too. Raises ValueError
    for a kind with a place that has no value, and TypeError for a value that is bytes, or an object without a text.
    """

    stored: ClassVar[tuple[str, ...]] = ("kind", "values", "lost")
    kind: str
    values: dict[str, Any]
    lost: tuple[str, ...]

    def __new__(cls, kind: str = "", /, **values: Any) -> "Reason":
        return cls.made(kind, values)

    @classmethod
    def made(cls, kind: str, values: Mapping[str, Any], lost: tuple[str, ...] = ()) -> "Reason":
        """Return the reason with these fields."""
        kind, plain = _text(kind), {name: _plain(name, value) for name, value in values.items()}
        lost = tuple(map(_text, lost))
        text = in_number(filled(kind, {name: _shown(value) for name, value in plain.items()}))
        found = super().__new__(cls, f"{text}; lost: {', '.join(lost)}" if lost else text)
        found.kind, found.values, found.lost = kind, plain, lost
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Reason.made, (self.kind, self.values, self.lost)

    @classmethod
    def of(cls, problem: str | Exception) -> "Reason":
        """Return the reason that is `problem`, or that an exception has; a text alone becomes a kind of its own."""
        found = getattr(problem, "reason", None) if isinstance(problem, Exception) else problem
        return found if isinstance(found, Reason) else cls(str(problem))

    @classmethod
    def joined(cls, reasons: Sequence[str]) -> "Reason":
        """Return the different ones among `reasons` as one reason; itself, if there is only one."""
        different = [cls.of(one) for one in dict.fromkeys(reasons)]
        if len(different) == 1:
            return different[0]
        names = [f"reason_{number}" for number in range(1, len(different) + 1)]
        return cls("; ".join(f"{{{name}}}" for name in names), **dict(zip(names, different, strict=True)))

    def with_lost(self, names: Iterable[str]) -> "Reason":
        """Return this reason, whose sentence lists the clients `names` as lost."""
        return self.made(self.kind, self.values, tuple(names))

    def all(self) -> Iterator["Reason"]:
        """Yield this reason and those behind it."""
        yield self
        for value in self.values.values():
            if isinstance(value, Reason):
                yield from value.all()

    def record(self) -> dict[str, Any]:
        """Return kind and values as plain data for files; names are a list, a reason behind it is a dictionary.

        Infinite numbers and NaN, which JSON does not have, are texts.
        """
        return {"kind": self.kind, "values": {name: _recorded(value) for name, value in self.values.items()}}


def filled(kind: str, values: Mapping[str, Any]) -> str:
    """Return the sentence of a `kind` with these `values` at its places; a kind without values is the sentence.

    Raises ValueError for a place without a value, or that does not fit its value.
    """
    if not values:
        return kind
    try:
        for _, name, form, _ in Formatter().parse(kind):
            if name is not None and (name not in values or "{" in (form or "")):
                known = ", ".join(f"{{{one}}}" for one in values)
                raise ValueError(
                    f"there is no value for {{{name}}}; allowed: {known}; a brace in the text is {{{{ or }}}}"
                )
        return kind.format(**values)
    except ValueError as error:
        raise ValueError(f"the reason {kind!r}: {error}") from None


_WHOLE = range(-(1 << 63), 1 << 64)
"""The whole numbers that files can store; others become floats."""


def _plain(name: str, value: Any) -> Any:
    """Return the value `name` of a reason as an object of Python that files can store."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of NumPy, or an array of one
        value = value.item()
    if isinstance(value, Reason | bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Integral):
        return int(value) if int(value) in _WHOLE else _rounded(int(value))
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):  # such as a key
        raise TypeError(f"the value {name} of a reason is bytes; allowed: a number, a text, names, a reason")
    if isinstance(value, Iterable):
        names = tuple(map(_text, value))
        return tuple(sorted(names)) if isinstance(value, Set) else names
    if type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__:
        problem = f"the value {name} of a reason is a {type(value).__name__}, which has no text"
        raise TypeError(f"{problem}; allowed: a number, a text, names, a reason")
    return _text(value)


def _text(value: Any) -> str:
    """Return the text of `value`; parts of it that UTF-8 lacks, such as bytes in a file's name, are escaped."""
    return str(value).encode(errors="backslashreplace").decode()


def _rounded(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _recorded(value: Any) -> Any:
    if isinstance(value, Reason):
        return value.record()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple) else value


class Reasoned(Exception):
    """An exception with a `reason`, made of its arguments as `Reason` is; a text alone is allowed.

    An empty text is `UNSAID`: where a reason is "", nothing has ended early.
    """

    def __init__(self, kind: str = "", /, **values: Any) -> None:
        self.reason = (Reason.of(kind) if not values else Reason(kind, **values)) or Reason(UNSAID)
        super().__init__(str(self.reason))


class Abort(Reasoned):
    """The server ends the round for all parties, for the reason that its arguments state, as of a `Reason`:
    ``Abort("{count} clients are left", count=2)``.
    """


class Withdrawn(Exception):
    """A client ends its part of the round, because its data are unusable.

    The text has the reason; other clients continue.
    """


class Overtaken(Exception):
    """A later round began before the client received the end of its current one."""


def require(count: int, what: str, least: int, limit: str = "min_clients") -> None:
    """Raise Abort if `count` is below `least`; `what` describes who was counted, `limit` is the name of the limit."""
    if count < least:
        raise Abort(TOO_FEW, count=count, what=what, limit=limit, least=least)


def server_lost_at(step: str) -> Reason:
    """Return the reason of a run whose server was lost for good in `step`; "" before its first step."""
    return Reason(SERVER_LOST_AT, step=step or "the start")
