"""The process around a run: one thread for each sum, and old objects that the garbage collector leaves alone."""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "spare_for_good", "spared_old_objects"]


class _Libraries:
    """The libraries that share a sum among threads, looked for where modules have been imported since the last time.

    To look takes milliseconds, as long as a short run of a chaos sweep.
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
    """Libraries compute with one thread inside: a sum must not depend on how many threads share it."""
    return _libraries.limited()


class _Garbage:
    """Collects garbage when `collect` is called, not the first time, and as often as takes a fortieth of the time."""

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
"""How many objects more there are when the young ones are looked through, and how often it takes for older ones."""


def spare_for_good() -> None:
    """Keep all existing objects from the garbage collector until the process ends: many runs, beside much else."""
    gc.collect()
    gc.freeze()
    _between_runs.spared_for_good = True


@contextmanager
def spared_old_objects() -> Iterator[None]:
    """Keep existing objects from the garbage collector: libraries and parties live as long as the run.

    Of many runs the earlier ones are no longer needed: each begins by freezing them, so only this collects them. What
    the run makes is looked through seldom: nearly all of it is freed without, and while it grows (a channel and a wait
    for each pair of parties) each look at all of it finds it in use.
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
