"""What single operations cost, found from the times of whole jobs that are made of them."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import nnls

from sim.compute import Work

__all__ = ["fitted_costs"]


def fitted_costs(works: Sequence[Work], jobs: Sequence[Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each operation in `works`, what the `jobs` are made of, on one core of this machine.

    Each job is timed, in processor time, as the least of `repeats`; the costs are those, none negative, that make the
    sum of squared relative errors least.
    """
    # In turns, so that a busy neighbour on the machine does not spoil all times of one job; the first turn warms up.
    turns = [[_timed(job) for job in jobs] for _ in range(repeats + 1)]
    seconds = np.min(turns[1:], axis=0)
    names = sorted(set().union(*works))
    relative = np.array([[work.get(name, 0.0) for name in names] for work in works]) / seconds[:, None]
    scale = relative.max(axis=0)
    found, _ = nnls(relative / scale, np.ones(len(works)))
    return dict(zip(names, (found / scale).tolist(), strict=True))


def _timed(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start
