"""The stored state of a party that waits for a round to begin."""

from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from tacit.sim.clock import Timer
from tacit.sim.taps import Wait

__all__ = ["Rest", "interned"]

T = TypeVar("T")


@dataclass(slots=True)
class Rest:
    """A party at rest: the place of its program, and its wait.

    `since` and `until` are virtual seconds: the beginning of the wait, and the end of the party's patience. `round`,
    `attempt`, `step` and `incarnations` are the party's. `timer` ends the waiting, and `wait` is its report to the
    taps. `idle`: it has begun to wait, and is not `finished`. `in_time`: its patience is not over. `number` is the
    number of its task.
    """

    since: float = 0.0
    until: float | None = None
    round: int = 0
    attempt: int = 0
    step: str = ""
    incarnations: tuple[tuple[str, int], ...] = ()
    idle: bool = False
    finished: bool = False
    in_time: bool = True
    number: int = 0
    timer: Timer | None = None
    wait: Wait | None = None

    def state(self) -> list[Any]:
        """All fields except timer and wait."""
        return list(_stored(self))

    def written(self) -> list[Any]:
        """The `state` as a `tacit.sim.plain.Writer` converts it."""
        since, until, number, attempt, step, known, *rest = _stored(self)
        return ["list", since, until, number, attempt, str(step), _written(known), *rest]

    @classmethod
    def restored(cls, state: list[Any]) -> "Rest":
        """A rest from its `state`, without timer and wait."""
        return cls(*state)


_stored = attrgetter(*(field.name for field in fields(Rest)[:-2]))


@cache
def _written(incarnations: tuple[tuple[str, int], ...]) -> list[Any]:
    return ["tuple", *(["tuple", name, number] for name, number in incarnations)]


@cache
def interned(values: T) -> T:
    """Return one shared object for equal arguments."""
    return values
