"""Shrinks faults that break a promise to a smallest schedule that still does.

Delta debugging (Zeller, Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002, algorithm ddmin)
over the list of faults. Then keys of each fault are removed or set to plain values as long as the promise stays broken.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import NODEFAULT, structs

from tacit.scenarios.chaos.schedules import Schedule
from tacit.scenarios.files.fault_checks import faults_of
from tacit.sim.faults import Crash, Fault

__all__ = ["shrink"]

T = TypeVar("T")


def shrink(faults: Schedule, fails: Callable[[Schedule], bool], clients: int, most: int = 200) -> Schedule:
    """The smallest schedule found that still `fails`, in at most `most` runs; `faults` itself must fail."""
    left = most

    def still_fails(candidate: Sequence[Fault]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(tuple(candidate))

    kept = tuple(_fewer(list(faults), still_fails))
    simpler: Schedule | None = kept
    while simpler is not None:
        kept = simpler
        candidates = ((*kept[:i], plain, *kept[i + 1 :]) for i, fault in enumerate(kept) for plain in _plainer(fault))
        simpler = next((one for one in candidates if _can_be(one, clients) and still_fails(one)), None)
    return kept


def _fewer(items: list[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Shrink `items` that fail together by ddmin: no single one of the result can be removed."""
    if fails([]):
        return []
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        rests = [[item for other in pieces if other is not piece for item in other] for piece in pieces]
        for smaller, next_parts in [*((piece, 2) for piece in pieces), *((rest, max(parts - 1, 2)) for rest in rests)]:
            if len(smaller) < len(items) and fails(smaller):
                items, parts = smaller, next_parts
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def _plainer(fault: Fault) -> Iterator[Fault]:
    """Yield plainer variants of the fault: a crash with the same trigger, and the fault with one key at a plain
    value."""
    given, own = fault.given(), structs.fields(type(fault))
    crash = {key: value for key, value in given.items() if key in Crash.__struct_fields__}
    plain = {field.name: _PLAIN.get(field.name, field.default) for field in reversed(own)}
    simpler = [{key: value} for key, value in plain.items() if value not in (NODEFAULT, given.get(key, value))]
    candidates: list[tuple[type[Fault], dict[str, Any]]] = [
        *([(Crash, crash)] if fault.kind != Crash.kind else []),
        *((type(fault), given | change) for change in simpler),
    ]
    for kind, keys in candidates:
        with suppress(ValueError, TypeError):
            yield kind(**keys)


_PLAIN = {"time": 0.0, "factor": 10.0, "by": 1.0}
"""The plain values of keys whose default is not plain, or that have none."""


def _can_be(faults: Schedule, clients: int) -> bool:
    """Return true if each of the faults is possible in a run with this number of `clients`."""
    try:
        return all(faults_of(fault, clients) for fault in faults)
    except ValueError:
        return False
