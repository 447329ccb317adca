"""The cost of single operations, fitted to the times of whole jobs."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from tacit.sim.compute import Work

__all__ = ["costs_of", "fitted_costs", "least_seconds", "timed"]


def fitted_costs(works: Sequence[Work], jobs: Sequence[Callable[[], object]], repeats: int) -> dict[str, float]:
    """The seconds that each operation takes on one core of this machine; `works` gives the operations of each job.

    The processor time of a job is the least of `repeats`; the costs are the non-negative ones with the least sum of
    squared relative errors.
    """
    return costs_of(works, least_seconds(jobs, repeats))


def least_seconds(jobs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The processor time of each job in seconds: the least of `repeats`."""
    # Jobs alternate, so that other load on the machine does not spoil all times of one job; the first turn warms up.
    turns = [[timed(job) for job in jobs] for _ in range(repeats + 1)]
    least: list[float] = np.min(turns[1:], axis=0).tolist()
    return least


def costs_of(works: Sequence[Work], seconds: Sequence[float]) -> dict[str, float]:
    """The non-negative seconds of each operation with the least sum of squared relative errors of jobs' `seconds`."""
    names = sorted(set().union(*works))
    counts = np.array([[work.get(name, 0.0) for name in names] for work in works])
    relative = counts / np.array(seconds)[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0  # no job has the operation
    from scipy.optimize import nnls  # takes as long to import as all else that a worker needs

    found, _ = nnls(relative / scale, np.ones(len(works)))
    return dict(zip(names, (found / scale).tolist(), strict=True))


def timed(action: Callable[[], object]) -> float:
    """The processor time of one call in seconds (this process, all threads).

    Other load affects it less than wall time.
    """
    start = time.process_time()
    action()
    return time.process_time() - start
