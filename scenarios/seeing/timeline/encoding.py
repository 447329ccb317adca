"""The data of a timeline in the form that its script reads: tables of texts, and packed columns of integers.

Times are integers in microseconds from the run's start. Facts shared by many messages are stored once, in `shapes`.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from tacit.scenarios.seeing.timeline.model import Model
from tacit.scenarios.seeing.timeline.reducing import Counts

__all__ = [
    "differences",
    "encoded",
    "microseconds",
    "packed",
    "unpacked",
]


# Integers in few characters: each in base 32, the lowest digits first (base64 VLQ, as in JavaScript source maps).
#
# A digit is a character of base64; 32 is added to it if more digits follow. The first bit is the sign. Numbers close to
# 0 take one character. Therefore columns with small differences are packed as differences.

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def packed(numbers: Iterable[int]) -> str:
    """The integers as text, to be read by data.js."""
    return "".join(map(_written, numbers))


@lru_cache(4096)
def _written(number: int) -> str:
    rest = -number * 2 + 1 if number < 0 else number * 2
    found = ""
    while rest > 31:
        found += _DIGITS[rest % 32 + 32]
        rest //= 32
    return found + _DIGITS[rest]


def unpacked(text: str) -> Iterator[int]:
    """Yield the integers that were packed."""
    number, factor = 0, 1
    for character in text:
        digit = _DIGITS.index(character)
        number, factor = number + digit % 32 * factor, factor * 32
        if digit < 32:
            yield -(number // 2) if number % 2 else number // 2
            number, factor = 0, 1


def differences(numbers: Iterable[int]) -> Iterator[int]:
    """Yield the first number, then the difference of each number from the previous one."""
    last = 0
    for number in numbers:
        yield number - last
        last = number


NEVER = -1
"""The duration of an activity that has not ended."""


class _Table:
    """Numbers values from 0, in the order in which they are first seen."""

    def __init__(self, known: Iterable[Hashable] = ()) -> None:
        self._numbers: dict[Any, int] = {}
        for one in known:
            self(one)

    def __call__(self, one: Hashable) -> int:
        return self._numbers.setdefault(one, len(self._numbers))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers)


def microseconds(seconds: float) -> int:
    """A time in microseconds, rounded to an integer."""
    return round(seconds * 1e6)


def _lasted(began: float, ended: float | None) -> int:
    return NEVER if ended is None else microseconds(ended) - microseconds(began)


def _rising(numbers: Iterable[int]) -> str:
    return packed(differences(numbers))


def _times(seconds: Iterable[float]) -> str:
    return _rising(microseconds(time) for time in seconds)


def encoded(model: Model, counts: Counts | None = None) -> dict[str, Any]:
    """The model and the `counts` of its omitted messages, as data for JSON."""
    party, step, type_, text = _Table(model.parties), _Table(), _Table(), _Table([""])
    shapes, awaited = _Table(), _Table()
    messages, copies, bars, gaps, path = list(model.messages), model.copies, model.bars, list(model.gaps), model.path
    data: dict[str, Any] = {
        "end": microseconds(model.end),
        "messages": {
            "number": _rising(one.number for one in messages),
            "began": _times(one.sent for one in messages),
            "took": packed(_lasted(one.sent, one.received) for one in messages),
            "from": packed(party(one.sender) for one in messages),
            "to": packed(party(one.receiver) for one in messages),
            "round": _rising(one.stamp[0] for one in messages),
            "attempt": _rising(one.stamp[1] for one in messages),
            "shape": packed(
                shapes((
                    type_(one.type), step(one.step), *one.sizes, one.hops, one.bytes,
                    len(one.lost), one.again, text(one.fate), text(one.note),
                ))
                for one in messages
            ),
        },
        "copies": {
            "number": _rising(one.number for one in copies),
            "began": _times(one.sent for one in copies),
            "took": packed(_lasted(one.sent, one.ended) for one in copies),
            "from": packed(party(one.sender) for one in copies),
            "to": packed(party(one.receiver) for one in copies),
            "fate": packed(text(one.fate) for one in copies),
            "fact": packed(text(one.fact) for one in copies),
        },
        "bars": {
            "party": packed(party(one.party) for one in bars),
            "step": packed(step(one.step) for one in bars),
            "began": _times(one.began for one in bars),
            "took": packed(_lasted(one.began, one.ended) for one in bars),
            "full": packed(microseconds(one.seconds) - _lasted(one.began, one.ended) for one in bars),
            "count": packed(one.jobs for one in bars),
        },
        "gaps": {
            "party": packed(party(one.party) for one in gaps),
            "step": packed(step(one.step) for one in gaps),
            "types": packed(awaited(one.types) for one in gaps),
            "began": _times(one.began for one in gaps),
            "took": packed(_lasted(one.began, one.ended) for one in gaps),
            "what": packed(text(one.what) for one in gaps),
            "how": packed(text(one.how) for one in gaps),
            "end": packed(text(one.end) for one in gaps),
        },
        "path": {
            "party": packed(party(one.party) if one.party else -1 for one in path),
            "peer": packed(party(one.peer) if one.peer else -1 for one in path),
            "kind": packed(text(one.kind) for one in path),
            "step": packed(step(one.step) for one in path),
            "type": packed(text(one.type) for one in path),
            "began": _times(one.began for one in path),
            "took": packed(_lasted(one.began, one.ended) for one in path),
        },
        "bands": [
            [one.kind, [party(name) for name in one.parties], microseconds(one.began), _lasted(one.began, one.ended),
             one.text]
            for one in model.bands
        ],
        "marks": [[one.kind, party(one.party), microseconds(one.time), one.text] for one in model.marks],
        "rounds": [[one.name, microseconds(one.began), microseconds(one.ended), one.text] for one in model.rounds],
        "phases": [[step(one.name), microseconds(one.began), microseconds(one.ended)] for one in model.steps],
        "folds": [[microseconds(begin), microseconds(end)] for begin, end in model.folded],
    }  # fmt: skip
    if counts is not None:
        data["counts"] = {
            "width": microseconds(counts.width),
            "bucket": _rising(counts.bucket),
            "party": packed(counts.party),
            "sent": packed(counts.sent),
            "received": packed(counts.received),
            "bytes": packed(counts.bytes),
        }
    tables = {"shapes": shapes, "awaited": awaited, "parties": party, "steps": step, "types": type_, "texts": text}
    return data | {name: list(table) for name, table in tables.items()}
