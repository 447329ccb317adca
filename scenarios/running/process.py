"""The process around a run: one thread for each sum, and old objects excluded from garbage collection."""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "spare_for_good", "spared_old_objects"]


class _Libraries:
    """The libraries that may split a sum among threads, searched for again after modules have been imported.

    A search takes milliseconds, as long as a short run of a chaos campaign.
    """

    def __init__(self) -> None:
        self._modules = 0
        self._found = ThreadpoolController()

    def limited(self) -> AbstractContextManager[object]:
        if self._modules != len(sys.modules):
            self._found, self._modules = ThreadpoolController(), len(sys.modules)
        return self._found.limit(limits=1)


_libraries = _Libraries()


def one_thread() -> AbstractContextManager[object]:
    """Make libraries compute with one thread in this context, since sums must not depend on the number of threads."""
    return _libraries.limited()


class _Garbage:
    """Collects garbage before runs, except before the first, and so seldom that it takes at most 1/40 of the time."""

    def __init__(self) -> None:
        self.spared_for_good = False
        self._ended = self._took = 0.0
        self._is_first = True

    def collect(self) -> None:
        began = time.perf_counter()
        if self._is_first:  # no earlier run has left garbage
            self._is_first = False
        elif began - self._ended >= 39 * self._took:
            gc.collect()
            self._ended = time.perf_counter()
            self._took = self._ended - began


_between_runs = _Garbage()

_SELDOM = (50_000, 20, 20)
"""The thresholds of the garbage collector during a run: new objects before a search of each generation."""

_MORE_SELDOM = (500_000, 20, 20)
"""The same during a run of small objects: on hollow values, or with many clients at rest."""


def spare_for_good() -> None:
    """Exclude all existing objects from garbage collection until the process ends, for a process with many runs."""
    gc.collect()
    gc.freeze()
    _between_runs.spared_for_good = True


@contextmanager
def spared_old_objects(*, small: bool = False) -> Iterator[None]:
    """Exclude existing objects from garbage collection in this context: libraries and parties live as long as the run.

    Objects of earlier runs are collected only here, before a run, because each run excludes all objects that exist when
    it begins. During the run the collector searches seldom: nearly all objects are freed without it, and while the
    run's state grows (a channel and a wait for each pair of parties), each search finds all of it in use. `small`: the
    run's objects are small, so that the collector may search even more seldom.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*(_MORE_SELDOM if small else _SELDOM))
    mine = not (_between_runs.spared_for_good or gc.get_freeze_count())  # slow: it counts the objects one by one
    if mine:
        _between_runs.collect()
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()
        gc.set_threshold(*thresholds)
