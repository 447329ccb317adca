"""The cores of this machine, and work that is divided among them with results that do not depend on their number."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["cores", "in_threads", "on_all_cores", "uses_all_cores"]

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_AHEAD = 2
"""The number of results that may wait for each core."""


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply `function` to each of `items` in parallel, one thread for each core, and yield the results in order.

    Use it for a function of a few large numpy or scipy operations, which release the interpreter lock. Results do not
    depend on the number of cores if the division into items does not. At most two results a core wait to be taken. An
    exception of the function is raised where its result is due.
    """
    jobs, count = list(items), cores()
    if count == 1 or len(jobs) < 2:
        yield from map(function, jobs)
        return
    with ThreadPoolExecutor(count) as pool:
        under_way: deque[Future[R]] = deque()
        try:
            for item in jobs:
                if len(under_way) == _AHEAD * count:
                    yield under_way.popleft().result()
                under_way.append(pool.submit(function, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            for job in under_way:
                job.cancel()


def on_all_cores(function: F) -> F:
    """Mark `function`, which divides its work among all cores by itself: as a job it stays in this process."""
    with suppress(AttributeError):
        function.__dict__[_MARK] = True
    return function


_MARK = "tacit_on_all_cores"


def uses_all_cores(function: Callable[..., Any]) -> bool:
    """Return true if `function`, or the function of a bound method, is marked by `on_all_cores`."""
    return bool(getattr(function, _MARK, False))
