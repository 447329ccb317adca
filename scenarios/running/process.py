"""The process around a run: one thread for each sum, and old objects that the garbage collector leaves alone."""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "spare_for_good", "spared_old_objects"]


class _Libraries:
    """The libraries that share a sum among threads, searched for again after modules have been imported.

    A search takes milliseconds, as long as a short run of a chaos sweep.
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
    """Make libraries compute with one thread in this context: a sum must not depend on how many threads share it."""
    return _libraries.limited()


class _Garbage:
    """A collector of garbage that skips the first call of `collect`, and later takes a fortieth of the time."""

    def __init__(self) -> None:
        self.spared_for_good = False
        self._ended = self._took = 0.0
        self._is_first = True

    def collect(self) -> None:
        began = time.perf_counter()
        if self._is_first:  # there is no earlier run
            self._is_first = False
        elif began - self._ended >= 39 * self._took:
            gc.collect()
            self._ended = time.perf_counter()
            self._took = self._ended - began


_between_runs = _Garbage()

_SELDOM = (50_000, 20, 20)
"""The thresholds of the garbage collector during a run: new objects before it looks at the youngest, and so on."""


def spare_for_good() -> None:
    """Keep all existing objects from the garbage collector until the process ends: many runs, beside much else."""
    gc.collect()
    gc.freeze()
    _between_runs.spared_for_good = True


@contextmanager
def spared_old_objects() -> Iterator[None]:
    """Keep existing objects from the garbage collector in this context: libraries and parties live as long as the run.

    Each of many runs freezes the objects of the earlier ones as it begins, so only this collects them. The objects of
    the run are searched seldom: nearly all of them are freed without the collector, and while they grow (a channel and
    a wait for each pair of parties) each search finds all of them in use.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    mine = not (_between_runs.spared_for_good or gc.get_freeze_count())  # which counts them one by one
    if mine:
        _between_runs.collect()
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()
        gc.set_threshold(*thresholds)
