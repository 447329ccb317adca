"""Values that many parties of a simulation compute alike, computed once.

Each client of a round draws the same hash planes from the seed that all of them know, for example. In the simulation
the jobs run in one process, where the second client takes what the first one has computed. It takes the same virtual
time as before. A job whose seconds are measured and a party of a deployed run compute everything themselves; a worker
takes what it has computed itself, where `once` says so.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

__all__ = ["Kind", "alike", "measuring", "once", "sharing"]

P = ParamSpec("P")
R = TypeVar("R")


class Kind:
    """A context for a job of one kind. `is_on`: true inside of it."""

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        self.is_on = False

    def __enter__(self) -> None:
        self.is_on = True

    def __exit__(self, *_: object) -> None:
        self.is_on = False


sharing = Kind()
"""The context of a job that may take what an earlier job has computed."""

measuring = Kind()
"""The context of a job whose seconds are measured."""


def alike(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, which keeps its latest result inside `sharing`. Its arguments must be hashable.

    The result depends on the arguments alone, and nobody may change it.
    """
    latest = lru_cache(1)(function)

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        return (latest if sharing.is_on else function)(*arguments, **named)  # type: ignore[arg-type]

    return called


def once(kept: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function keeps its latest `kept` results in this process, except while one is measured.

    Its arguments must be hashable. The result depends on the arguments alone, and nobody may change it.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        latest = lru_cache(kept)(function)

        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> R:
            return (function if measuring.is_on else latest)(*arguments, **named)  # type: ignore[arg-type]

        return called

    return decorated
